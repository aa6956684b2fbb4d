import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_base.__main__ import main
from knowledge_base.artifacts import Attempt
from knowledge_base.experience import HOME, Experience
from knowledge_base.wiki import Wiki
from tools.artifacts import Interval


def test_spec_prints_the_registered_line(capsys: pytest.CaptureFixture[str]):
    assert main(["spec", "H200", "memory_bandwidth", "--variant", "SXM5"]) == 0
    out = capsys.readouterr().out.strip()
    text, _, place = out.partition(" <- <gpu-wiki>/")
    path, _, line = place.rpartition(":")
    cited = Wiki.open().line(path, int(line))
    assert cited is not None and text == "memory_bandwidth: 4.8 TB/s" and "| 4.8 | TB/s |" in cited


def test_spec_of_an_unknown_product_says_so_and_ends_with_one(capsys: pytest.CaptureFixture[str]):
    assert main(["spec", "H300", "memory_bandwidth"]) == 1
    assert capsys.readouterr().out.startswith("memory_bandwidth: UNKNOWN (gpu-wiki not found): no hardware page is about 'H300'")


def test_spec_shows_by_which_line_and_on_what_evidence(capsys: pytest.CaptureFixture[str]):
    assert main(["spec", "H800", "warp_size"]) == 0
    line, caveat = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"warp_size: 32 threads <- <gpu-wiki>/\S+:\d+ via <gpu-wiki>/hardware/nvidia/h800.md:\d+ \[unofficial\]", line)
    assert caveat.startswith("    caveat: ")


def test_spec_as_json(capsys: pytest.CaptureFixture[str]):
    assert main(["spec", "H200", "tdp", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["known"] is False and len(answer["candidates"]) == 2


def test_query_cites_and_explains(capsys: pytest.CaptureFixture[str]):
    assert main(["query", "GOMP_parallel", "-k", "1"]) == 0
    assert capsys.readouterr().out.startswith("<gpu-wiki>/methods/openmp-parallel-outer.md:")
    assert main(["query", "zzzunknown"]) == 1
    assert "occurs in the wiki" in capsys.readouterr().out
    assert main(["query", "softmax", "-k", "2", "--kind", "operator", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["passages"]) == 2


def test_a_senseless_count_is_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["query", "softmax", "-k", "0"]) == 2
    assert "-k" in capsys.readouterr().err


def test_lint_of_the_bundled_wiki(capsys: pytest.CaptureFixture[str]):
    assert main(["lint"]) == 0
    assert capsys.readouterr().out.endswith(" 0 problems\n")


def test_lint_lists_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "x.md").write_text("no head\n")
    assert main(["lint", "--wiki", str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith("x.md:1: ")


def test_a_wrong_path_is_one_sentence_and_exit_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["spec", "H200", "tdp", "--wiki", str(tmp_path / "gone")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "gpu_wiki_path" in captured.err and captured.err.count("\n") == 1


def test_experience_lists_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    attempt = Attempt(
        operator="softmax",
        language="cpp",
        architecture="x86_64",
        dtype="float32",
        shape_class="2^25B",
        bottleneck="compute",
        methods=("vector-exp",),
        result="success",
        verdict="accept",
        effect=Interval(estimate=2.5, low=2.4, high=2.6),
        evidence="rec1",
        iteration=1,
    )
    Experience(tmp_path).add(attempt)
    assert main(["experience", "list", "--home", str(tmp_path)]) == 0
    assert "2.500x  vector-exp" in capsys.readouterr().out
    assert main(["experience", "stats", "--home", str(tmp_path)]) == 0
    assert "vector-exp: 1 success" in capsys.readouterr().out


def test_the_module_runs_as_a_command(tmp_path: Path):
    command = [sys.executable, "-m", "knowledge_base", "experience", "stats"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], env=os.environ | {HOME: str(tmp_path)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.startswith("0 attempts")


def test_pages_of_a_finding_skills_first(capsys: pytest.CaptureFixture[str]):
    assert main(["pages", "--language", "cpp", "loop_not_vectorised", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [page["type"] for page in found] == sorted((page["type"] for page in found), reverse=True)
    heads = {page.head.id: page.head for page in Wiki.open().pages}
    assert found
    for page in found:
        assert "loop_not_vectorised" in heads[page["id"]].rules
        assert not heads[page["id"]].languages or "cpp" in heads[page["id"]].languages


def test_pages_of_no_rule_are_refused_in_one_sentence(capsys: pytest.CaptureFixture[str]):
    assert main(["pages", "loop_not_vectorized"]) == 2
    assert capsys.readouterr().err == "error: 'loop_not_vectorized' is no rule of tools/rules.yaml; did you mean 'loop_not_vectorised'?\n"
