import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_base.artifacts import Attempt
from knowledge_base.experience.log import Experience, read
from knowledge_base.pages.wiki import HOME
from tools.errors import SettingsError, StorageError

WRITER = """
import sys
from pathlib import Path
from knowledge_base.artifacts import Attempt
from knowledge_base.experience.log import Experience
from knowledge_base.pages.wiki import HOME
log, base = Experience(Path(sys.argv[1])), Attempt.model_validate_json(sys.argv[4])
for number in range(int(sys.argv[3])):
    assert log.add(base.model_copy(update={"evidence": f"{sys.argv[2]}-{number}"}))
"""


def attempt(evidence: str, **changes: object) -> Attempt:
    base = Attempt(
        operator="softmax",
        language="cpp",
        architecture="x86_64",
        dtype="float32",
        shape_class="2^25B",
        bottleneck="compute",
        methods=("vector-exp",),
        result="success",
        verdict="accept",
        evidence=evidence,
        iteration=1,
    )
    return Attempt.model_validate(base.model_dump() | changes)


def test_newest_first_and_each_piece_of_evidence_once(tmp_path: Path):
    log = Experience(tmp_path)
    assert log.attempts() == ()
    assert log.add(attempt("a")) and log.add(attempt("b"))
    assert not log.add(attempt("a", note="again"))
    assert [a.evidence for a in Experience(tmp_path).attempts()] == ["b", "a"]
    assert log.add(attempt("a", methods=("fuse-passes",)))


def test_like_narrows(tmp_path: Path):
    log = Experience(tmp_path)
    log.add(attempt("a"))
    log.add(attempt("b", operator="matmul"))
    log.add(attempt("c", dtype="float64"))
    log.add(attempt("d", bottleneck="memory", result="failure", verdict="reject_perf"))
    log.add(attempt("e", architecture="aarch64"))
    assert [a.evidence for a in log.like("softmax", "cpp", "x86_64")] == ["d", "c", "a"]
    assert [a.evidence for a in log.like("softmax", "cpp", "x86_64", "float32")] == ["d", "a"]
    assert [a.evidence for a in log.like("softmax", "cpp", "x86_64", "float32", "compute")] == ["a"]
    assert log.like("softmax", "triton", "x86_64") == ()


def test_masked_attempts_are_invisible_and_can_come_back(tmp_path: Path):
    log = Experience(tmp_path)
    log.add(attempt("a"))
    log.add(attempt("b"))
    assert log.add(attempt("a", masked=True))
    assert not log.add(attempt("a", masked=True))
    assert [a.evidence for a in log.attempts()] == ["b"]
    assert log.add(attempt("a"))
    assert [a.evidence for a in log.attempts()] == ["a", "b"]


def test_what_is_stated_anew_stays_masked(tmp_path: Path):
    log = Experience(tmp_path)
    log.add(attempt("a"), anew=True)
    log.add(attempt("a", masked=True))
    assert not log.add(attempt("a"), anew=True)
    assert log.attempts() == ()


def test_a_named_file_may_lack_the_last_line_feed(tmp_path: Path):
    file = tmp_path / "x.jsonl"
    file.write_text(attempt("a").model_dump_json() + "\n" + attempt("b").model_dump_json())
    assert [a.evidence for a in read(file).attempts] == ["a", "b"]
    assert [a.evidence for a in read(tmp_path).attempts] == ["a"]
    file.write_text(attempt("a").model_dump_json() + "\n{torn")
    assert read(file).damaged == (f"{file}:2",)


def test_machine_failures_never_enter(tmp_path: Path):
    with pytest.raises(ValueError, match="machine"):
        Experience(tmp_path).add(attempt("a", verdict="infra_error"))


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_is_ignored_and_mended(tmp_path: Path, cut: int):
    log = Experience(tmp_path)
    log.add(attempt("a"))
    log.add(attempt("b"))
    file = tmp_path / "experience" / "attempts.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    assert [a.evidence for a in log.attempts()] == ["a"]
    assert log.damaged() == ()
    assert log.add(attempt("b")) and log.add(attempt("c"))
    assert [a.evidence for a in log.attempts()] == ["c", "b", "a"]
    assert file.read_bytes().count(b"\n") == 3


def test_damage_inside_is_reported_and_costs_one_line(tmp_path: Path):
    log = Experience(tmp_path)
    log.add(attempt("a"))
    file = tmp_path / "experience" / "attempts.jsonl"
    file.write_bytes(b"{broken\n" + file.read_bytes())
    assert [a.evidence for a in log.attempts()] == ["a"]
    assert log.damaged() == (f"{file}:1",)


def test_two_processes_appending_at_once_lose_nothing(tmp_path: Path):
    root = Path(__file__).parents[3]
    each = 30
    base = attempt("base", note="x" * 5000).model_dump_json()
    commands = [[sys.executable, "-c", WRITER, str(tmp_path), name, str(each), base] for name in "xy"]
    writers = [subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE) for command in commands]
    for writer in writers:
        _, stderr = writer.communicate(timeout=60)
        assert writer.returncode == 0, stderr.decode()
    log = Experience(tmp_path)
    assert {a.evidence for a in log.attempts()} == {f"{name}-{number}" for name in "xy" for number in range(each)}
    assert log.damaged() == ()


def test_the_home_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    Experience().add(attempt("a"))
    assert (tmp_path / "home" / "experience" / "attempts.jsonl").is_file()


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path):
    (tmp_path / "experience").write_text("in the way")
    with pytest.raises(StorageError, match="KERNELWRIGHT_HOME"):
        Experience(tmp_path).add(attempt("a"))


# ---------------------------------------------------------------- merging


EVIDENCE = st.sampled_from("abcd")
LINES = st.lists(
    st.builds(
        attempt,
        EVIDENCE,
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


class United(NamedTuple):
    said: tuple[Attempt, ...]
    lines: set[str]


def united(*logs: list[Attempt]) -> United:
    """One after the other into an empty log, each read as the file that it would be."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        log = Experience(root / "home")
        for number, lines in enumerate(logs):
            log.merge(read(written(root / str(number), lines)).attempts)
        return United(log.attempts(), {line.model_dump_json() for line in log.lines().attempts})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LINES, LINES, LINES)
def test_merging_commutes_associates_and_is_idempotent(a: list[Attempt], b: list[Attempt], c: list[Attempt]):
    one = united(a, b, c)
    for other in (united(c, a, b), united(b, c, a, b, a, a)):
        assert other == one
    assert len({line.identity for line in one.said}) == len(one.said)


@settings(max_examples=60, deadline=None)
@given(LINES, LINES)
def test_the_newest_line_about_the_same_evidence_counts(a: list[Attempt], b: list[Attempt]):
    with tempfile.TemporaryDirectory() as place:
        lines = [*read(written(Path(place), a)).attempts, *read(written(Path(place), b)).attempts]
    said = {one.identity: one for one in united(a, b).said}
    for identity in {line.identity for line in lines}:
        newest = max((one.stamp, one.model_dump_json(), one) for one in lines if one.identity == identity)[2]
        assert said.get(identity) == (None if newest.masked else newest)


def test_a_mask_made_elsewhere_holds_after_the_merge_and_can_be_taken_back(tmp_path: Path):
    here, there = Experience(tmp_path / "a"), Experience(tmp_path / "b")
    here.add(attempt("x"))
    assert there.merge(here.lines().attempts) == 1
    there.add(attempt("x", masked=True))
    assert here.merge(there.lines().attempts) == 1 and here.attempts() == ()
    assert there.merge(here.lines().attempts) == 0
    here.add(attempt("x"))
    there.merge(here.lines().attempts)
    assert [one.evidence for one in there.attempts()] == ["x"]


def test_a_mask_counts_though_the_clock_went_back(tmp_path: Path):
    log = Experience(tmp_path)
    log.merge([attempt("x", stamp=2**63)])
    log.add(attempt("x", masked=True))
    assert log.attempts() == () and max(one.stamp for one in log.lines().attempts) == 2**63 + 1


def test_logs_from_before_stamps_and_marks_are_read_and_merged(tmp_path: Path):
    new = ("knobs", "findings", "before", "after", "origin", "stamp")
    lines = (attempt("a"), attempt("b"), attempt("a", masked=True))
    old = [json.dumps(line.model_dump(exclude=set(new))) for line in lines]
    (tmp_path / "old.jsonl").write_text("\n".join(old) + "\n")
    log = Experience(tmp_path)
    assert log.merge(read(tmp_path / "old.jsonl").attempts) == 3
    assert [one.evidence for one in log.attempts()] == ["b"]
    log.add(attempt("a"))
    assert [one.evidence for one in log.attempts()] == ["a", "b"]
    assert log.merge(read(tmp_path / "old.jsonl").attempts) == 0


def test_merging_reports_what_is_no_attempt_and_refuses_what_is_no_file(tmp_path: Path):
    (tmp_path / "x.jsonl").write_text("{broken\n" + attempt("a").model_dump_json() + "\n")
    found = read(tmp_path / "x.jsonl")
    assert len(found.attempts) == 1 and found.damaged == (f"{tmp_path / 'x.jsonl'}:1",)
    with pytest.raises(SettingsError, match="no such file"):
        read(tmp_path / "gone.jsonl")
