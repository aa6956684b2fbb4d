import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_base.__main__ import main
from knowledge_base.artifacts import Attempt
from knowledge_base.experience.log import Experience, read_logs
from knowledge_base.pages.wiki import HOME_VARIABLE
from tests.support import Capsys
from tools.errors import SettingsError, StorageError

WRITER = """
import sys
from pathlib import Path
from knowledge_base.artifacts import Attempt
from knowledge_base.experience.log import Experience
from knowledge_base.pages.wiki import HOME_VARIABLE
log, base = Experience(Path(sys.argv[1])), Attempt.model_validate_json(sys.argv[4])
for number in range(int(sys.argv[3])):
    assert log.add(base.model_copy(update={"evidence": f"{sys.argv[2]}-{number}"}))
"""


def attempt(evidence: str, **changes: object) -> Attempt:
    base = {
        "operator": "softmax",
        "language": "cpp",
        "architecture": "x86_64",
        "dtype": "float32",
        "shape_class": "2^25B",
    }
    base |= {
        "bottleneck": "compute",
        "methods": ("vector-exp",),
        "result": "success",
        "verdict": "accept",
        "iteration": 1,
    }
    return Attempt.model_validate({**base, "evidence": evidence, **changes})


EVIDENCE = "e" * 16
LINE = attempt(EVIDENCE).model_dump_json()


def names(log: Experience) -> list[str]:
    return [one.evidence for one in log.attempts()]


def test_newest_first_and_each_piece_of_evidence_once(tmp_path: Path):
    log = Experience(tmp_path)
    assert log.attempts() == ()
    assert log.add(attempt("a")) and log.add(attempt("b"))
    assert not log.add(attempt("a", note="again"))
    assert names(Experience(tmp_path)) == ["b", "a"]
    assert log.add(attempt("a", methods=("fuse-passes",)))
    measured = {"before": "v0", "after": "v1", "effect": {"estimate": 2.0, "low": 1.5, "high": 2.5}}
    assert log.add(attempt("c", **measured)) and not log.add(attempt("d", **measured)), (
        "another verdict on the same measurement"
    )


def test_stated_confidence_is_scored_by_model_and_method_and_a_mask_takes_it_back(
    tmp_path: Path, capsys: Capsys
) -> None:
    log = Experience(tmp_path)
    said = [("m", "a", 0.8, True), ("m", "a", 1.0, False), ("m", "b", 0.5, True), ("n", "a", 0.9, True)]
    for number, (model, method, confidence, held) in enumerate(said):
        log.add(
            attempt(str(number), forecasts=[{"model": model, "method": method, "confidence": confidence, "held": held}])
        )
    log.add(attempt("4"))
    log.add(attempt("3", masked=True))
    assert main(["experience", "stats", "--home", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["forecasts"]
    # Certainty that misses counts as 99 %.
    each = {"m": math.log(0.8 * 0.01 * 0.5) / 3, "m, a": math.log(0.8 * 0.01) / 2, "m, b": math.log(0.5)}
    assert {name: one["log_score"] for name, one in found.items()} == pytest.approx(each)
    assert main(["experience", "stats", "--home", str(tmp_path)]) == 0
    assert "m: 2 of 3 predictions of time held (67%), stated 77% on average; log score -1.84" in capsys.readouterr().out


def test_attempts_like_a_kernel_share_its_operator_language_and_architecture(tmp_path: Path):
    log = Experience(tmp_path)
    changes = ({}, {"operator": "matmul"}, {"bottleneck": "memory"}, {"architecture": "aarch64"})
    for name, change in zip("abcd", changes, strict=True):
        log.add(attempt(name, **change))
    for asked, found in (((), "ca"), (("compute",), "a")):
        assert "".join(one.evidence for one in log.attempts_like("softmax", "cpp", "x86_64", *asked)) == found
    assert log.attempts_like("softmax", "triton", "x86_64") == ()


def test_masked_attempts_are_invisible_and_can_come_back(tmp_path: Path):
    log = Experience(tmp_path)
    log.add(attempt("a"))
    log.add(attempt("b"))
    assert log.add(attempt("a", masked=True))
    assert not log.add(attempt("a", masked=True))
    assert names(log) == ["b"]
    assert not log.add(attempt("a"), anew=True) and names(log) == ["b"], "what is stated anew stays masked"
    assert log.add(attempt("a"))
    assert names(log) == ["a", "b"]


def test_a_file_may_lack_the_last_line_feed_and_what_is_no_attempt_costs_one_line(tmp_path: Path):
    file = tmp_path / "x.jsonl"
    for text, found, damaged in (
        (f"{LINE}\n{LINE.replace(EVIDENCE, 'b')}", [EVIDENCE, "b"], ()),
        (f"{LINE}\n{{torn", [EVIDENCE], (f"{file}:2 (cut short)",)),
        (f"{{broken\n{LINE}\n", [EVIDENCE], (f"{file}:1",)),
    ):
        file.write_text(text)
        assert ([one.evidence for one in read_logs(file).attempts], read_logs(file).damaged) == (found, damaged)
    (tmp_path / "experience").mkdir()
    file.rename(tmp_path / "experience" / "attempts.jsonl")
    log = Experience(tmp_path)
    assert names(log) == [EVIDENCE] and log.read_lines().damaged == (f"{tmp_path / 'experience' / 'attempts.jsonl'}:1",)
    with pytest.raises(SettingsError, match="no such file"):
        read_logs(tmp_path / "gone.jsonl")


def test_machine_failures_never_enter(tmp_path: Path):
    with pytest.raises(ValueError, match="infrastructure failure"):
        Experience(tmp_path).add(attempt("a", verdict="infra_error"))


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_last_line_that_is_cut_short_is_named_and_kept_and_nothing_is_glued_to_it(
    tmp_path: Path, cut: int, capsys: Capsys
):
    log, file = Experience(tmp_path), tmp_path / "experience" / "attempts.jsonl"
    log.add(attempt("a"))
    log.add(attempt("b"))
    rest = file.read_bytes()[:-cut]
    file.write_bytes(rest)
    # Without its line feed alone the line is whole.
    lost = () if cut == 1 else (f"{file}:2 (cut short)",)
    assert names(log) == ["b", "a"][len(lost) :] and log.read_lines().damaged == lost
    assert main(["experience", "list", "--home", str(tmp_path)]) == 0
    assert [str(file) in capsys.readouterr().err] == [bool(lost)]
    assert log.add(attempt("b")) == bool(lost) and log.add(attempt("c"))
    assert names(log) == ["c", "b", "a"] and file.read_bytes().startswith(rest + b"\n")
    assert log.read_lines().damaged == tuple(place.removesuffix(" (cut short)") for place in lost)


def test_two_processes_appending_at_once_lose_nothing(tmp_path: Path):
    root, each = Path(__file__).parents[3], 30
    base = attempt("base", note="x" * 5000).model_dump_json()
    commands = [[sys.executable, "-c", WRITER, str(tmp_path), name, str(each), base] for name in "xy"]
    writers = [subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE) for command in commands]
    for writer in writers:
        _, stderr = writer.communicate(timeout=60)
        assert writer.returncode == 0, stderr.decode()
    log = Experience(tmp_path)
    assert {a.evidence for a in log.attempts()} == {f"{name}-{number}" for name in "xy" for number in range(each)}
    assert log.read_lines().damaged == ()


def test_the_home_comes_from_the_environment_and_must_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    Experience().add(attempt("a"))
    assert (tmp_path / "home" / "experience" / "attempts.jsonl").is_file()
    (tmp_path / "experience").write_text("in the way")
    with pytest.raises(StorageError, match="KERNELWRIGHT_HOME"):
        Experience(tmp_path).add(attempt("a"))


# ---------------------------------------------------------------- merging


LINES = st.lists(
    st.builds(
        attempt,
        st.sampled_from("abcd"),
        masked=st.booleans(),
        note=st.sampled_from(["", "x", "y"]),
        stamp=st.integers(0, 6),
        methods=st.sampled_from([("m",), ("m", "n")]),
    ),
    max_size=8,
)


def written(folder: Path, lines: list[Attempt]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "attempts.jsonl"
    path.write_text("".join(f"{line.model_dump_json()}\n" for line in lines))
    return path


def united(*logs: list[Attempt]) -> tuple[tuple[Attempt, ...], set[str]]:
    """What is said and the lines that are kept when one after the other goes into an empty log, each read as the
    file that it would be."""
    with tempfile.TemporaryDirectory() as place:
        log = Experience(Path(place) / "home")
        for number, lines in enumerate(logs):
            log.merge(read_logs(written(Path(place) / str(number), lines)).attempts)
        return log.attempts(), {line.model_dump_json() for line in log.read_lines().attempts}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LINES, LINES, LINES)
def test_merging_commutes_associates_and_is_idempotent(a: list[Attempt], b: list[Attempt], c: list[Attempt]):
    said, lines = united(a, b, c)
    assert united(c, a, b) == united(b, c, a, b, a, a) == (said, lines)
    assert len({line.identity for line in said}) == len(said)


@settings(max_examples=60, deadline=None)
@given(LINES, LINES)
def test_the_newest_line_about_the_same_evidence_counts(a: list[Attempt], b: list[Attempt]):
    with tempfile.TemporaryDirectory() as place:
        lines = [*read_logs(written(Path(place), a)).attempts, *read_logs(written(Path(place), b)).attempts]
    said = {one.identity: one for one in united(a, b)[0]}
    for identity in {line.identity for line in lines}:
        newest = max((one.stamp, one.model_dump_json(), one) for one in lines if one.identity == identity)[2]
        assert said.get(identity) == (None if newest.masked else newest)


def test_a_mask_counts_though_the_clock_went_back(tmp_path: Path):
    log = Experience(tmp_path)
    log.merge([attempt("x", stamp=2**63)])
    log.add(attempt("x", masked=True))
    assert log.attempts() == () and max(one.stamp for one in log.read_lines().attempts) == 2**63 + 1
