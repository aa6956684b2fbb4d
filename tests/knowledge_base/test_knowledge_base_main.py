import json
from pathlib import Path
from typing import Any

import pytest

from knowledge_base.__main__ import main
from knowledge_base.experience.log import Experience
from knowledge_base.pages.wiki import HOME_VARIABLE, Wiki
from tests.knowledge_base.experience.test_log import attempt
from tests.support import Capsys
from tools.artifacts import Interval


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log with one success and one failure."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    log = Experience(tmp_path / "home")
    log.add(attempt("rec1", effect=Interval(estimate=2.5, low=2.4, high=2.6), knobs={"DEGREE": "5"}))
    log.add(attempt("rec2", methods=("simd-loop",), result="failure", verdict="reject_perf", note="slower by far"))
    return tmp_path / "home"


HERE = "recommend --language cpp --operator softmax --arch x86_64 --bottleneck compute"


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (
            "spec H200 memory_bandwidth --variant SXM5",
            0,
            "memory_bandwidth: 4.8 TB/s <- <gpu-wiki>/hardware/nvidia/h200-sxm5.md:",
        ),
        (
            "spec H300 memory_bandwidth",
            1,
            "memory_bandwidth: UNKNOWN (gpu-wiki not found): no hardware page is about 'H300'",
        ),
        ("spec H800 warp_size", 0, " via <gpu-wiki>/hardware/nvidia/h800.md:"),
        ("spec H800 warp_size", 0, " [unofficial]\n    caveat: "),
        ("query GOMP_parallel -k 1", 0, "<gpu-wiki>/methods/openmp-parallel-outer.md:"),
        ("query cuTile+programs -k 1", 0, "note: nothing here is about cutile: the passages match the other words"),
        ("query zzzunknown", 1, "the wiki has none of the words zzzunknown"),
        ("lint", 0, " 0 problems\n"),
        ("lint --wiki {tmp}/wiki", 1, "x.md:1: "),
        ("experience list", 0, "2.500x [2.4, 2.6]  vector-exp  DEGREE=5"),
        ("experience list --operator matmul", 1, "nothing found: none of 2 attempts has operator matmul\n"),
        ("experience search slower", 0, "failure"),
        ("experience search zzz", 1, "none of zzz occurs in 2 attempts"),
        ("experience stats", 0, "vector-exp: 1 success"),
        ("experience stats", 0, "avoid: simd-loop: reject_perf"),
        *(
            (f"{place}{HERE}", 0, "1. vector-exp  2.500x [2.4, 2.6] (experience: 1 success)")
            for place in ("", "experience ")
        ),
        (HERE, 0, "(from the wiki, not tried)"),
        (HERE, 0, "avoid (failed in the same conditions):\n-  simd-loop"),
        ("experience list --help", 0, "--json"),
        ("serve --help", 0, "usage: "),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_verb_answers(tmp_path: Path, capsys: Capsys, command: str, code: int, says: str) -> None:
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "x.md").write_text("no head\n")
    try:
        assert main(command.format(tmp=tmp_path).split()) == code
    except SystemExit as ended:
        assert ended.code == code
    assert says in "".join(capsys.readouterr())


OUTCOME = "experience add --operator softmax --language cpp --dtype float32 --arch x86_64 --method vector-exp"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            "query softmax --lang c%p",
            "--language: no page is about the language 'c%p'; did you mean 'cpp'? There are cpp, cuda",
        ),
        ("query softmax --kind %s", "--kind: no page is of the kind '%s'; give one of "),
        ("query softmax --arch hoper", "--arch: no architecture has the name 'hoper'; did you mean 'hopper'?"),
        ("query softmax -k 0", "-k"),
        ("query softmax --embedder magic", "embedder: 'magic' is unknown; give one of minilm"),
        ("spec H200 tdp --wiki {tmp}/gone", "gpu_wiki_path"),
        ("pages loop_not_vectorized", "is no rule of tools/analysis/rules.yaml; did you mean 'loop_not_vectorised'?"),
        ("pages loop_not_vectorised --language cp", "no page is about it; did you mean 'cpp'?"),
        (OUTCOME, "--result must be given"),
        (f"{OUTCOME} --result good", "--result good"),
        (f"{OUTCOME} --result sucess", "did you mean 'success'? There are"),
        (
            f"{OUTCOME} --result success --method vectr-exp",
            "--method vectr-exp: no page of the wiki is about this method",
        ),
        (f"{OUTCOME} --result success --method nonsense", "--kind method` finds the known ones"),
        (f"{OUTCOME} --result success --language trition", "did you mean 'triton'?"),
        (f"{OUTCOME} --result success --home /dev/null", "/dev/null is not a file"),
        (f"{OUTCOME} --result success --arch hoper", "--arch hoper"),
        (f"{OUTCOME} --result success --arch ampere", "covers several targets"),
        *((f"{OUTCOME} --result success --effect {effect}", "--effect") for effect in ("-1", "2 3 4")),
        (f"{OUTCOME} --result success --dtype fp7", "--dtype 'fp7'"),
        (f"{OUTCOME} --result success --knob x", "--knob"),
        ("recommend", "recommend: --language must be given, one of cpp, cuda"),
        ("recommend --language trition", "did you mean 'triton'?"),
        ("recommend --language triton --arch hoper", "did you mean 'hopper'?"),
        ("recommend --language triton --dtype flaot32", "did you mean 'float32'?"),
        ("recommend --language triton --bottleneck poor-coalescin", "did you mean 'poor_coalescing'?"),
        ("experience list --language cp", "no page and no attempt is about it; did you mean 'cpp'?"),
        ("experience merge gone.jsonl", "gone.jsonl: no such file"),
        ("experience merge {tmp}/other --home {tmp}/taken", "set KERNELWRIGHT_HOME to a writable folder"),
        ("experience sync {tmp}/other --home {tmp}/taken", "set KERNELWRIGHT_HOME to a writable folder"),
    ],
)
def test_a_users_mistake_is_one_sentence_that_names_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys, command: str, says: str
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    (tmp_path / "taken").write_text("")
    (tmp_path / "other").mkdir()
    assert main(command.format(tmp=tmp_path).split()) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: ") and told.err.count("\n") == 1 and says in told.err and told.out == ""
    assert not list((tmp_path / "other").iterdir()), "nothing is written before the mistake is found"


def answered(capsys: Capsys, *arguments: str | Path, code: int = 0) -> Any:
    assert main([*map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("home")
def test_answers_are_had_as_json(capsys: Capsys) -> None:
    spec = answered(capsys, "spec", "H200", "tdp", code=1)
    assert spec["known"] is False and len(spec["candidates"]) == 2
    assert len(answered(capsys, "query", "softmax", "-k", "2", "--kind", "operator")["passages"]) == 2
    assert answered(capsys, "experience", "stats")["results"] == {"failure": 1, "success": 1}
    assert [one["evidence"] for one in answered(capsys, "experience", "list")["attempts"]] == ["rec2", "rec1"]
    assert [one["evidence"] for one in answered(capsys, "experience", "list", "--result", "success")["attempts"]] == [
        "rec1"
    ]
    found = answered(capsys, *HERE.split())
    assert found["proposed"][0]["results"] == {"success": 1} and found["avoid"][0]["methods"] == ["simd-loop"]


def test_an_outcome_is_added_once_and_called_stated(tmp_path: Path, capsys: Capsys) -> None:
    command = f"{OUTCOME} --home {tmp_path} --result success --effect 1.4 1.3 1.5 --knob DEGREE=5".split()
    assert answered(capsys, *command)["added"] == 1
    assert answered(capsys, *command) == {"added": 0, "known": 1, "left_out": []}
    (kept,) = Experience(tmp_path).attempts()
    assert (kept.origin, kept.effect, kept.knobs) == (
        "stated",
        Interval(estimate=1.4, low=1.3, high=1.5),
        {"DEGREE": "5"},
    )
    assert kept.evidence.startswith("stated:") and kept.verdict == "accept"


def test_logs_are_merged_and_synced(home: Path, tmp_path: Path, capsys: Capsys) -> None:
    other, shared = tmp_path / "other", tmp_path / "shared"
    shared.mkdir()
    log = home / "experience" / "attempts.jsonl"
    assert answered(capsys, "experience", "merge", log, "--home", other) == {"added": 2, "known": 0, "left_out": []}
    assert answered(capsys, "experience", "merge", log.parent, "--home", other)["known"] == 2
    assert answered(capsys, "experience", "sync", shared)["sent"] == 2
    assert answered(capsys, "experience", "sync", shared, "--home", other)["sent"] == 0


def test_pages_of_a_finding_skills_first(capsys: Capsys) -> None:
    found = answered(capsys, "pages", "--language", "cpp", "loop_not_vectorised")
    assert found and [page["type"] for page in found] == sorted((page["type"] for page in found), reverse=True)
    heads = {page.head.id: page.head for page in Wiki.open().pages}
    for page in found:
        assert "loop_not_vectorised" in heads[page["id"]].rules
        assert not heads[page["id"]].languages or "cpp" in heads[page["id"]].languages
