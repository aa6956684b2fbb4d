import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_base.artifacts import Attempt
from knowledge_base.experience import HOME, Experience
from tools.errors import StorageError

WRITER = """
import sys
from pathlib import Path
from knowledge_base.artifacts import Attempt
from knowledge_base.experience import Experience
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
    root = Path(__file__).parents[2]
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
