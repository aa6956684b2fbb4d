"""The log shared through a folder or a git remote, by many machines at once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from knowledge_base.experience import sync
from knowledge_base.experience.log import Experience
from tests.knowledge_base.experience.test_log import attempt
from tools.errors import InfrastructureError, SettingsError

ROOT = Path(__file__).parents[3]
MACHINE = """
import sys
from pathlib import Path
from knowledge_base.experience.log import Experience
from knowledge_base.experience.sync import sync
from tests.knowledge_base.experience.test_log import attempt
home, place, name, rounds = sys.argv[1:]
for number in range(int(rounds)):
    log = Experience(Path(home))
    log.add(attempt(f"{name}-{number}", note="x" * 300))
    sync(log, place)
    print(number, flush=True)
"""


def machine(home: Path, place: Path | str, name: str, rounds: int) -> subprocess.Popen[str]:
    """Another machine: a process that adds an outcome and syncs, over and over."""
    command = [sys.executable, "-c", MACHINE, str(home), str(place), name, str(rounds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> None:
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 0, stderr


def names(log: Experience) -> set[str]:
    return {one.evidence for one in log.attempts()}


def remote(path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
    return path


@pytest.fixture(params=["folder", "git"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "git":
        return remote(tmp_path / "shared")
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def test_both_sides_come_to_the_union_and_stay_there_and_a_mask_travels(place: Path, tmp_path: Path):
    one, other = Experience(tmp_path / "one"), Experience(tmp_path / "other")
    one.add(attempt("a"))
    other.add(attempt("b"))
    assert [sync.sync(log, str(place)).came for log in (one, other, one)] == [0, 1, 1]
    assert names(one) == names(other) == {"a", "b"}
    again = sync.sync(one, str(place))
    assert (again.came, again.went, again.damaged) == (0, 0, ())
    other.add(attempt("a", masked=True))
    for log in (other, one):
        sync.sync(log, str(place))
    assert names(one) == {"b"}


def test_two_machines_at_once_lose_nothing(place: Path, tmp_path: Path):
    rounds = 4
    for process in [machine(tmp_path / name, place, name, rounds) for name in "xy"]:
        finished(process)
    logs = [Experience(tmp_path / name) for name in "xyz"]
    for log in (*logs, *logs):
        assert sync.sync(log, str(place)).damaged == ()
    assert [names(log) for log in logs] == [{f"{name}-{number}" for name in "xy" for number in range(rounds)}] * 3


def test_a_machine_killed_in_the_middle_hurts_nobody(place: Path, tmp_path: Path):
    victim = machine(tmp_path / "victim", place, "v", 50)
    witness = machine(tmp_path / "witness", place, "w", 3)
    assert victim.stdout is not None
    # Once it has synced it is somewhere in the next round, and dies there without a word.
    victim.stdout.readline()
    time.sleep(0.05)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate(timeout=60)
    finished(witness)
    assert not list((tmp_path / "victim" / "experience").glob("*.tmp*"))
    survivor, witness_log = Experience(tmp_path / "victim"), Experience(tmp_path / "witness")
    for log in (survivor, witness_log, survivor):
        assert sync.sync(log, str(place)).damaged == ()
    assert names(survivor) == names(witness_log) >= {"v-0", "w-0", "w-1", "w-2"}


def test_a_push_that_others_got_ahead_of_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Between our fetch and our push another machine pushes: git refuses ours as no fast-forward."""
    there, mine = remote(tmp_path / "remote.git"), Experience(tmp_path / "mine")
    mine.add(attempt("mine"))
    start, overtaken = sync._start, []

    def started(root: Path, place: str) -> None:
        start(root, place)
        if not overtaken:
            overtaken.append(True)
            finished(machine(tmp_path / "third", there, "third", 1))

    monkeypatch.setattr(sync, "_start", started)
    done = sync.sync(mine, str(there))
    assert (done.came, done.went) == (1, 1) and names(mine) == {"mine", "third-0"}
    log = subprocess.run(
        ["git", "log", "--oneline", sync.BRANCH], cwd=there, capture_output=True, text=True, check=True
    )
    assert len(log.stdout.splitlines()) == 2


def test_other_branches_of_a_remote_are_left_alone(tmp_path: Path):
    there, clone = remote(tmp_path / "remote.git"), tmp_path / "clone"
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "clone", "--quiet", str(there), str(clone)], check=True, stderr=subprocess.DEVNULL)
    (clone / "code").write_text("x")
    for command in (["add", "code"], ["commit", "--quiet", "-m", "m"], ["push", "--quiet", "origin", "HEAD:main"]):
        subprocess.run([*git, *command], cwd=clone, check=True)
    log = Experience(tmp_path / "home")
    log.add(attempt("a"))
    sync.sync(log, str(there))
    shown = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "main"], cwd=there, capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["code"]


def test_a_damaged_line_there_is_told_and_costs_one_line(tmp_path: Path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "x.jsonl").write_text("{broken\n" + attempt("a").model_dump_json() + "\n")
    log = Experience(tmp_path / "home")
    assert sync.sync(log, str(shared)).damaged == (f"{shared / 'x.jsonl'}:1",)
    assert names(log) == {"a"}


def test_what_is_no_place_is_one_sentence(tmp_path: Path):
    with pytest.raises(SettingsError, match="no such folder, and no git remote"):
        sync.sync(Experience(tmp_path), str(tmp_path / "gone"))
    with pytest.raises(InfrastructureError, match="git refused"):
        sync.sync(Experience(tmp_path), f"file://{tmp_path}/gone.git")
