import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from knowledge_base.__main__ import main
from knowledge_base.experience.log import Experience
from knowledge_base.pages.wiki import HOME, Wiki
from tests.knowledge_base.experience.test_log import attempt
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


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--lang", "c%p", "error: --language: no page is about language 'c%p'; did you mean 'cpp'? There are cpp, cuda"),
        ("--kind", "%s", "error: --kind: no page is of kind '%s'; give one of "),
        ("--arch", "hoper", "error: --arch: no architecture is called 'hoper'; did you mean 'hopper'?"),
    ],
)
def test_a_filter_that_names_nothing_is_refused(option: str, value: str, says: str, capsys: pytest.CaptureFixture[str]):
    assert main(["query", "softmax", option, value]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(says) and printed.out == ""


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


OUTCOME = ["--operator", "softmax", "--language", "cpp", "--dtype", "float32", "--arch", "x86_64", "--method", "vector-exp"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A log with one success and one failure."""
    log = Experience(tmp_path / "home")
    log.add(attempt("rec1", effect=Interval(estimate=2.5, low=2.4, high=2.6), knobs={"DEGREE": "5"}))
    log.add(attempt("rec2", methods=("simd-loop",), result="failure", verdict="reject_perf", note="slower by far"))
    return tmp_path / "home"


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def answered(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    return json.loads(said(capsys, *arguments, "--json"))


def test_experience_lists_searches_and_counts(home: Path, capsys: pytest.CaptureFixture[str]):
    listed = said(capsys, "experience", "list", "--home", home)
    assert "2.500x [2.4, 2.6]  vector-exp  DEGREE=5" in listed and listed.index("simd-loop") < listed.index("vector-exp")
    assert "simd-loop" not in said(capsys, "experience", "list", "--home", home, "--result", "success", "--arch", "x86_64")
    assert said(capsys, "experience", "search", "far slower", "--home", home).startswith("failure")
    counts = said(capsys, "experience", "stats", "--home", home)
    assert "vector-exp: 1 success" in counts and "avoid: simd-loop: reject_perf" in counts and "resolved: vector-exp" in counts
    assert answered(capsys, "experience", "stats", "--home", home)["results"] == {"failure": 1, "success": 1}
    assert [one["evidence"] for one in answered(capsys, "experience", "list", "--home", home)["attempts"]] == ["rec2", "rec1"]


def test_nothing_found_is_exit_one_and_says_why(home: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["experience", "list", "--home", str(home), "--operator", "matmul"]) == 1
    assert capsys.readouterr().out == "nothing found: none of 2 attempts is of operator matmul\n"
    assert main(["experience", "search", "zzz", "--home", str(home)]) == 1
    assert "none of zzz occurs in 2 attempts" in capsys.readouterr().out


@pytest.mark.parametrize("verb", [["recommend"], ["experience", "recommend"]])
def test_recommend_is_one_verb_in_two_places(home: Path, capsys: pytest.CaptureFixture[str], verb: list[str]):
    asked = (*verb, "--home", home, "--language", "cpp", "--operator", "softmax", "--arch", "x86_64", "--bottleneck", "compute")
    text = said(capsys, *asked)
    assert "1. vector-exp  2.500x [2.4, 2.6] (experience: 1 success)" in text and "record rec1" in text
    assert "avoid, failed in the same conditions:\n-  simd-loop" in text
    found = answered(capsys, *asked)
    assert found["proposed"][0]["n"] == 1 and found["avoid"][0]["methods"] == ["simd-loop"]


def test_an_outcome_is_added_once_and_called_stated(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = (
        "experience",
        "add",
        "--home",
        tmp_path,
        *OUTCOME,
        "--result",
        "success",
        "--effect",
        "1.4",
        "1.3",
        "1.5",
        "--knob",
        "DEGREE=5",
    )
    assert answered(capsys, *command)["added"] == 1
    assert answered(capsys, *command) == {"added": 0, "known": 1, "left": []}
    (kept,) = Experience(tmp_path).attempts()
    assert (kept.origin, kept.effect, kept.knobs) == ("stated", Interval(estimate=1.4, low=1.3, high=1.5), {"DEGREE": "5"})
    assert kept.evidence.startswith("stated:") and kept.verdict == "accept"


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--result", "good"], "--result good"),
        (["--result", "sucess"], "did you mean 'success'? There are"),
        (
            ["--result", "success", "--method", "vectr-exp"],
            "--method vectr-exp: no page of the wiki is about such a method; did you mean 'vector-exp'?",
        ),
        (["--result", "success", "--method", "nonsense"], "--kind method` finds those there are"),
        (["--result", "success", "--language", "trition"], "did you mean 'triton'?"),
        (["--result", "success", "--home", "/dev/null"], "/dev/null is no file"),
        ([], "--result must be given"),
        (["--result", "success", "--arch", "hoper"], "--arch hoper"),
        (["--result", "success", "--arch", "ampere"], "covers several targets"),
        (["--result", "success", "--effect", "-1"], "--effect"),
        (["--result", "success", "--effect", "2", "3", "4"], "--effect"),
        (["--result", "success", "--dtype", "fp7"], "--dtype 'fp7'"),
        (["--result", "success", "--knob", "x"], "--knob"),
    ],
)
def test_what_cannot_be_added_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], named: str):
    assert main(["experience", "add", "--home", str(tmp_path), *OUTCOME, *more]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and named in error


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["recommend"], "recommend: --language must be given, one of cpp, cuda"),
        (["recommend", "--language", "trition"], "did you mean 'triton'?"),
        (["recommend", "--language", "triton", "--arch", "hoper"], "did you mean 'hopper'?"),
        (["recommend", "--language", "triton", "--dtype", "flaot32"], "did you mean 'float32'?"),
        (["recommend", "--language", "triton", "--bottleneck", "poor-coalescin"], "did you mean 'poor_coalescing'?"),
        (["experience", "list", "--language", "cp"], "no page and no attempt is about it; did you mean 'cpp'?"),
        (["pages", "loop_not_vectorised", "--language", "cp"], "no page is about it; did you mean 'cpp'?"),
    ],
)
def test_what_is_asked_for_by_a_wrong_name_is_one_sentence(capsys: pytest.CaptureFixture[str], words: list[str], says: str):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and says in error


@pytest.mark.parametrize("verb", [["merge"], ["sync"]])
def test_a_log_that_cannot_be_written_is_said_before_anything_else(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: list[str]):
    (tmp_path / "taken").write_text("")
    (tmp_path / "other").mkdir()
    assert main(["experience", *verb, str(tmp_path / "other"), "--home", str(tmp_path / "taken")]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'taken'} is no folder" in error and "set KERNELWRIGHT_HOME to a writable folder" in error
    assert not list((tmp_path / "other").iterdir())


def test_logs_are_merged_and_synced(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    other, shared = tmp_path / "other", tmp_path / "shared"
    shared.mkdir()
    log = home / "experience" / "attempts.jsonl"
    assert answered(capsys, "experience", "merge", log, "--home", other) == {"added": 2, "known": 0, "left": []}
    assert answered(capsys, "experience", "merge", log.parent, "--home", other)["known"] == 2
    assert answered(capsys, "experience", "sync", shared, "--home", home)["went"] == 2
    assert said(capsys, "experience", "sync", shared, "--home", other).endswith("0 lines came, 0 went\n")
    assert main(["experience", "merge", "gone.jsonl", "--home", str(other)]) == 2
    assert "gone.jsonl: no such file" in capsys.readouterr().err


VERBS = ("add", "recommend", "search", "list", "merge", "sync", "stats")


@pytest.mark.parametrize("verb", [["experience", verb] for verb in VERBS] + [["recommend"], ["serve"]], ids=" ".join)
def test_every_verb_helps(capsys: pytest.CaptureFixture[str], verb: list[str]):
    with pytest.raises(SystemExit) as ended:
        main([*verb, "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0 and shown.startswith("usage: ")
    assert "--json" in shown or verb == ["serve"]


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
    assert (
        capsys.readouterr().err
        == "error: 'loop_not_vectorized' is no rule of tools/analysis/rules.yaml; did you mean 'loop_not_vectorised'?\n"
    )
