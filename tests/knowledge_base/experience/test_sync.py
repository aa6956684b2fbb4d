"""The log shared through a folder, by many machines at once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from knowledge_base.experience.log import Experience
from knowledge_base.experience.sync import sync_with_folder
from tests.knowledge_base.experience.test_log import attempt
from tools.errors import SettingsError

ROOT = Path(__file__).parents[3]
MACHINE = """
import sys
from pathlib import Path
from knowledge_base.experience.log import Experience
from knowledge_base.experience.sync import sync_with_folder
from tests.knowledge_base.experience.test_log import attempt
home, place, name, rounds = sys.argv[1:]
for number in range(int(rounds)):
    log = Experience(Path(home))
    log.add(attempt(f"{name}-{number}", note="x" * 300))
    sync_with_folder(log, Path(place))
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


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def test_both_sides_come_to_the_union_and_stay_there_and_a_mask_travels(place: Path, tmp_path: Path):
    one, other = Experience(tmp_path / "one"), Experience(tmp_path / "other")
    one.add(attempt("a"))
    other.add(attempt("b"))
    assert [sync_with_folder(log, place).received for log in (one, other, one)] == [0, 1, 1]
    assert names(one) == names(other) == {"a", "b"}
    again = sync_with_folder(one, place)
    assert (again.received, again.sent, again.damaged) == (0, 0, ())
    other.add(attempt("a", masked=True))
    for log in (other, one):
        sync_with_folder(log, place)
    assert names(one) == {"b"}


def test_two_machines_at_once_lose_nothing(place: Path, tmp_path: Path):
    rounds = 4
    for process in [machine(tmp_path / name, place, name, rounds) for name in "xy"]:
        finished(process)
    logs = [Experience(tmp_path / name) for name in "xyz"]
    for log in (*logs, *logs):
        assert sync_with_folder(log, place).damaged == ()
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
        assert sync_with_folder(log, place).damaged == ()
    assert names(survivor) == names(witness_log) >= {"v-0", "w-0", "w-1", "w-2"}


def test_a_damaged_line_there_is_told_and_costs_one_line(tmp_path: Path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "x.jsonl").write_text("{broken\n" + attempt("a").model_dump_json() + "\n")
    log = Experience(tmp_path / "home")
    assert sync_with_folder(log, shared).damaged == (f"{shared / 'x.jsonl'}:1",)
    assert names(log) == {"a"}


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path):
    with pytest.raises(SettingsError, match="is not a folder"):
        sync_with_folder(Experience(tmp_path), tmp_path / "gone")
