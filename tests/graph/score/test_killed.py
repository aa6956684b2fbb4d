from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from graph.score.runs import ProblemRun, run_all
from graph.score.suite import read_suite
from graph.score.table import Score
from tests.graph.conftest import QUICK, ROOT, SHORT, TASK, graph
from tests.graph.test_kill_and_resume import nothing_is_lost
from tools.store.records import Records


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_suite_that_is_killed_goes_on_and_a_finished_one_measures_nothing(tmp_path: Path, own_home: Path) -> None:
    """Two problems, one that is none, and one that a run refuses."""
    (tmp_path / "other.yaml").write_text(yaml.safe_dump({"task": str(TASK)}))
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "reference.py").write_text(
        "raise ValueError('no reference')\ndef make_inputs(dims, seed): ...\n"
    )
    suite, out = tmp_path / "three.yaml", tmp_path / "out"
    suite.write_text(
        yaml.safe_dump({"problems": [str(TASK), "other.yaml", "none.py", "broken"], "settings": {**QUICK, **SHORT}})
    )
    command = ("score", str(suite), "--out", str(out))
    with subprocess.Popen([sys.executable, "-m", "graph", *command], cwd=ROOT, stdout=subprocess.DEVNULL) as killed:
        while not (
            begun := [root for root in out.glob("task-*") if "calibration" in {one.kind for one in Records(root)}]
        ):
            assert killed.poll() is None, "it ended before it could be killed"
            time.sleep(0.1)
        killed.kill()
    seen: dict[str, str] = {}
    nothing_is_lost(begun[0], seen)
    assert not alive(begun[0]), "the run went on without the one who started it"

    done = graph(*command, home=own_home)
    assert done.returncode == 0, done.stderr
    workspaces = sorted(out.glob("*-2*Z*"))
    assert [root.name.partition("-")[0] for root in workspaces] == ["other", "task"] and begun[0] in workspaces
    nothing_is_lost(begun[0], seen)
    first, texts = (out / "score.json").read_text(), [(out / name).read_bytes() for name in ("score.md", "score.html")]
    statuses = {one.problem: (one.status, one.version) for one in Score.model_validate_json(first).results}
    assert (
        statuses["none"] == statuses["broken"] == ("failed", None)
        and statuses["task"][0] == statuses["other"][0] == "finished"
    )

    refused = (out / ".score" / "broken.err").stat().st_mtime_ns
    assert "no reference" in (out / "score.md").read_text()

    measured = [len(list(Records(root))) for root in workspaces]
    assert graph(*command, home=own_home).returncode == 0
    assert (out / "score.json").read_text() == first and [
        (out / name).read_bytes() for name in ("score.md", "score.html")
    ] == texts
    assert [len(list(Records(root))) for root in workspaces] == measured and sorted(out.glob("*-2*Z*")) == workspaces
    assert (out / ".score" / "broken.err").stat().st_mtime_ns == refused, "it was run again"

    said = yaml.safe_load(suite.read_text())
    suite.write_text(yaml.safe_dump({**said, "settings": {**said["settings"], "stop": {"near_peak": 0.2}}}))
    other = graph(*command, home=own_home)
    assert other.returncode == 2 and "was started with other settings" in other.stderr


@pytest.mark.slow
def test_as_many_runs_go_on_at_a_time_as_there_are_devices(tmp_path: Path) -> None:
    names = ("one", "two", "three")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "reference.py").write_text(
            "raise ValueError('no reference')\ndef make_inputs(dims, seed): ...\n"
        )
    suite, said = tmp_path / "suite.yaml", list[str]()
    suite.write_text(yaml.safe_dump({"problems": list(names)}))
    (tmp_path / "out" / ".score").mkdir(parents=True)
    entries = [ProblemRun(problem, tmp_path / "out", suite) for problem in read_suite(suite)]
    for ended in run_all(entries, [None, None], said.append):
        said.append(f"{ended.name}: ended")
    assert said[:2] == ["one: begins", "two: begins"] and said[2].endswith("ended") and said[3] == "three: begins"
    assert [entry.result().status for entry in entries] == ["failed"] * 3 and all(entry.is_done for entry in entries)


def alive(root: Path) -> bool:
    """Whether the process that holds a workspace's lock is there a moment after."""
    pid = int((root / ".kernelwright" / "lock").read_text())
    for _ in range(50):
        try:
            os.kill(pid, signal.SIG_DFL)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True
