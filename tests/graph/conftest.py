"""A run small enough for a test: one tiny workload, few pairs, no torch.compile."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from graph.__main__ import main
from graph.services import Services
from graph.state import State
from graph.workspace.versions import read_state
from tests.support import Capsys, run_captured
from tools.environment import Environment
from tools.store.records import Records, record_key
from tools.store.repository import Commit

ROOT = Path(__file__).parents[2]

TASK = Path(__file__).parent / "task"
QUICK: dict[str, dict[str, object]] = {
    "judge": {
        "pairs": 10,
        "batches": 2,
        "warm_pairs": 0,
        "calibration_pairs": 10,
        "confirm_rounds": 8,
        "benchmark_rounds": 8,
        "hidden_workloads": 1,
        "min_effect": 0.05,
    },
    "search": {"iterations": 2, "candidates": 2, "patience": 1},
    "benchmark": {"eager": True, "compile": False},
}
SHORT: dict[str, object] = {
    "search": {**QUICK["search"], "iterations": 1, "candidates": 1},
    "benchmark": {"eager": False, "compile": False},
}
"""One candidate, and no framework beside it."""
ATTEMPTS = 3
"""Runs made until one accepts a version."""
TRIES = 9
"""Times that the largest gain of a run may be verified until it is seen again."""


def gain_of(commit: Commit) -> float:
    """The speed-up that an accepted version's commit names."""
    return float(commit.trailers["Speedup"].split(" ")[0])


def configured(folder: Path, **changes: object) -> Path:
    """A config file of a quick run in `folder`, with other keys than usual."""
    path = folder / "run.yaml"
    path.write_text(
        yaml.safe_dump(
            {"name": "quick", "task": str(TASK), "workspaces": str(folder / "workspaces"), **QUICK, **changes}
        )
    )
    return path


def graph(
    *argv: str, home: Path | None = None, cwd: Path = ROOT, timeout_s: float = 600
) -> subprocess.CompletedProcess[str]:
    """`python -m graph` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **({"KERNELWRIGHT_HOME": str(home)} if home else {})}
    command = [sys.executable, "-m", "graph", *argv]
    return run_captured(command, cwd=cwd, env=environment, timeout=timeout_s)


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout.decode(
        errors="replace"
    )


def state_of(services: Services, **changes: object) -> State:
    """The state of a run, with `changes`."""
    return State(**{**read_state(services.workspace), **changes})  # type: ignore[typeddict-item]


def printed_json(capsys: Capsys) -> Any:
    """What a command printed last, with `--json`."""
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def refused(capsys: Capsys, *argv: str) -> str:
    """The sentence on stderr of a command that must end with 2, without the lines about a wait."""
    code = main(argv)
    said = re.sub(r".* so far\n", "", capsys.readouterr().err).strip()
    assert code == 2 and said.startswith("error: ") and "Traceback" not in said, said
    return said


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a run made anew is in the slow lane."""
    for item in items:
        if "finished" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config file of a quick run whose workspaces lie in the test's own folder."""
    return configured(tmp_path)


class FinishedRun(NamedTuple):
    """What `python -m graph run --json` in a pipe left."""

    root: Path
    """The workspace."""
    stdout: str


TWICE = """import torch

outputs = ("out",)
workloads = ({"name": "w", "dims": {"N": 4096}},)


def make_inputs(dims, seed):
    x = torch.randn(dims["N"], generator=torch.Generator().manual_seed(seed)).to(torch.float32)
    return {"x": x, "out": torch.empty_like(x), "N": dims["N"]}


def reference(x, out, N):
    return 2 * x
"""
"""Reference of a task that doubles its input."""
RECORDED = ROOT / "tests" / "fixtures" / "workspaces"
"""The workspace of a finished run, packed as .tar.xz by `python -m tests.graph.record_workspace`."""


def unpacked(packed: Path, folder: Path) -> Path:
    """A recorded workspace in `folder`, checked out."""
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    root = folder / packed.name.removesuffix(".tar.xz")
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=root, check=True)
    return root


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the quickstart for tests that only look: v1 and v2 were accepted, v3 was not."""
    (packed,) = RECORDED.glob("softmax-quickstart-*.tar.xz")
    return unpacked(packed, tmp_path_factory.mktemp("recorded") / "workspaces")


def on_its_machine(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded workspace, and this CPU under the name of the one that it was recorded on: a run goes on there and
    nowhere else."""
    record = Records(root).find(record_key("environment"))
    assert record is not None
    (cpu,) = (device for device in Environment.model_validate(record.payload).devices if device.kind == "cpu")
    monkeypatch.setattr("tools.executors.host.engine.describe_cpu", lambda: cpu.model_dump())
    return root


@pytest.fixture
def copied(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the recorded workspace that a test may spoil, on the machine that it was made on."""
    return on_its_machine(Path(shutil.copytree(recorded, tmp_path / recorded.name, symlinks=True)), monkeypatch)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """One quick run for all tests of what a run writes; those of what is read of it take `recorded`, or `copied` to
    change something.

    It accepted a version: while others keep the machine busy noise may hide every gain, and then another run is made.
    """
    for attempt in range(ATTEMPTS):
        made = finished_in(tmp_path_factory.mktemp(f"finished{attempt}"))
        if "accept" in json.loads(made.stdout.splitlines()[-1])["verdicts"].values():
            return made
    pytest.fail(f"{ATTEMPTS} runs accepted nothing: {made.stdout}")


def finished_in(folder: Path) -> FinishedRun:
    """A quick run in `folder`."""
    done = graph(
        "run", str(configured(folder, search={**QUICK["search"], "candidates": 1})), "--json", home=folder / "home"
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    (root,) = (folder / "workspaces").iterdir()
    return FinishedRun(root, done.stdout)
