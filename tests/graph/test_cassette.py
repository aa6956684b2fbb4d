"""A whole run on a real kernel with the answers that a capable model once gave, replayed: everything but the answers is done anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from agents.models import redaction
from agents.models.providers import recorded
from graph.artifacts import Judged
from tests.graph.conftest import ROOT, graph
from tools.artifacts import Passed
from tools.store.records import Records
from tools.store.repository import Repository

CASSETTE = Path(__file__).parent / "cassette"
ANSWERS = CASSETTE / "answers.jsonl"


class Replayed(NamedTuple):
    """A run of the cassette and what it said at its end."""

    root: Path
    home: Path
    summary: dict[str, Any]

    def graph(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return graph(*argv, home=self.home)

    def exchanges(self) -> list[dict[str, Any]]:
        return [dict(record.payload) for record in Records(self.root) if record.kind == "exchange"]

    def accepted(self) -> list[str]:
        """Versions that the gate took, in order."""
        return [version for version, verdict in self.summary["verdicts"].items() if verdict == "accept"]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("cassette")
    settings = yaml.safe_load((CASSETTE / "config.yaml").read_text())
    placed = {"task": str(CASSETTE / "task"), "models": {"default": {"provider": "recorded", "path": str(ANSWERS)}}}
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({**settings, **placed, "workspaces": str(folder / "workspaces")}))
    done = graph("run", str(config), "--json", home=folder / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    (root,) = (folder / "workspaces").iterdir()
    return Replayed(root, folder / "home", json.loads(done.stdout.splitlines()[-1]))


def test_the_cassette_is_whole_and_clean() -> None:
    lines = recorded.read(ANSWERS)
    assert {line.role for line in lines} == {"planner", "coder", "profiler_analyst", "knowledge_retriever", "gatekeeper"}
    assert {line.provider for line in lines} == {"Manual"} and len({line.slot for line in lines}) == len(lines)
    text = ANSWERS.read_text()
    assert len(text) < 300_000 and not recorded.ID.search("".join(line.reply.model_dump_json() for line in lines))
    assert redaction.redacted(text) == text


@pytest.mark.slow
def test_the_run_ends_in_order(replayed: Replayed) -> None:
    """Not the recording's verdicts: noise decides them anew. Every answer comes from the cassette, and none is paid for."""
    assert replayed.summary["status"] == "finished" and replayed.summary["stop_reason"] in ("exhausted", "near_peak", "target")
    asked = replayed.exchanges()
    assert {(one["provider"], one["usd"]) for one in asked} <= {("Recorded", None), ("Recorded", 0.0)}
    assert all(not any(value for value in one["usage"].values() if isinstance(value, (int, float))) for one in asked)
    assert not [record for record in Records(replayed.root) if record.kind == "failed_exchange"]
    opened = Counter((one["role"], one["purpose"]) for one in asked if not one["turn"])
    assert opened <= Counter((line.role, line.purpose) for line in recorded.read(ANSWERS) if not line.turn)
    named = {
        found for record in Records(replayed.root) if record.kind == "plan" for found in recorded.ID.findall(json.dumps(record.payload))
    }
    assert named and all(Records(replayed.root).get(identity) for identity in named), "what is cited is a record of this run"


@pytest.mark.slow
def test_the_kernel_is_right_and_faster(replayed: Replayed) -> None:
    trials = [Judged.model_validate(record.payload).trial for record in Records(replayed.root) if record.kind == "trial"]
    assert trials and all(isinstance(trial, Passed) for trial in trials), "no answer of the cassette is wrong on any machine"
    first = [trial for trial in trials if isinstance(trial, Passed) and trial.speedup.estimate > 2]
    assert first, "without the calls into the library the kernel is many times faster, however busy the machine"
    if not replayed.accepted():
        pytest.skip("the machine was too disturbed for any proof")
    kernel = Repository(replayed.root).show("HEAD", "kernel.cpp").decode()
    assert replayed.summary["speedup"] > 2 and "exp_lane" in kernel and "tanhf" not in kernel
    ran = subprocess.run(
        [sys.executable, "test_kernel.py"],
        cwd=replayed.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
def test_another_process_verifies_it(replayed: Replayed) -> None:
    """From the workspace alone, with fresh seeds, and without asking anybody anything."""
    if not replayed.accepted():
        pytest.skip("the machine was too disturbed for any proof")
    before = len(replayed.exchanges())
    done = replayed.graph("verify", str(replayed.root))
    assert done.returncode in (0, 5), f"only noise may keep it from agreeing: {done.stdout}{done.stderr}"
    assert replayed.accepted()[-1] and ("agree" if done.returncode == 0 else "inconclusive") in done.stdout
    assert len(replayed.exchanges()) == before
