"""A whole run on a real kernel with the answers that a capable model once gave, replayed: everything but the answers
is done anew."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from agents.models import redaction
from agents.models.providers import recorded
from graph.artifacts import JudgedTrial
from tests.graph.conftest import graph
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

    def exchanges(self) -> list[dict[str, Any]]:
        return [dict(record.payload) for record in Records(self.root) if record.kind == "exchange"]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """It first lacks the planner's answers; who mends the script resumes the run, and the other roles go on where
    they were."""
    folder = tmp_path_factory.mktemp("cassette")
    settings = yaml.safe_load((CASSETTE / "config.yaml").read_text())
    script = folder / "script.jsonl"
    script.write_text(
        "".join(f"{line.model_dump_json()}\n" for line in recorded.read_script(ANSWERS) if line.role != "planner")
    )
    placed = {"task": str(CASSETTE / "task"), "models": {"default": {"provider": "recorded", "path": str(script)}}}
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({**settings, **placed, "workspaces": str(folder / "workspaces")}))
    done = graph("run", str(config), "--json", home=folder / "home")
    said = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 4 and f"models.planner: {script} holds no answer of planner" in said["reason"], (
        done.stdout + done.stderr
    )
    script.write_text(ANSWERS.read_text())
    done = graph("resume", said["workspace"], "--json", home=folder / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    return Replayed(Path(said["workspace"]), folder / "home", json.loads(done.stdout.splitlines()[-1]))


def test_the_cassette_is_whole_and_clean() -> None:
    lines = recorded.read_script(ANSWERS)
    assert {line.role for line in lines} == {
        "planner",
        "coder",
        "profiler_analyst",
        "knowledge_retriever",
        "gatekeeper",
    }
    assert {line.provider for line in lines} == {"Manual"} and len({line.slot for line in lines}) == len(lines)
    text = ANSWERS.read_text()
    assert len(text) < 300_000 and not recorded.RECORD_ID_PATTERN.search(
        "".join(line.reply.model_dump_json() for line in lines)
    )
    assert redaction.redact(text) == text


@pytest.mark.slow
def test_the_run_ends_in_order(replayed: Replayed) -> None:
    """Not the recording's verdicts: noise decides them anew. Every answer comes from the cassette, and none is paid
    for."""
    assert replayed.summary["status"] == "finished" and replayed.summary["stop_reason"] in (
        "exhausted",
        "near_peak",
        "target",
    )
    asked = replayed.exchanges()
    assert {(one["provider"], one["usd"]) for one in asked} <= {("Recorded", None), ("Recorded", 0.0)}
    assert all(not any(value for value in one["usage"].values() if isinstance(value, (int, float))) for one in asked)
    assert not [record for record in Records(replayed.root) if record.kind == "failed_exchange"]
    opened = Counter((one["role"], one["purpose"]) for one in asked if not one["turn"])
    assert opened <= Counter((line.role, line.purpose) for line in recorded.read_script(ANSWERS) if not line.turn)
    named = {
        found
        for record in Records(replayed.root)
        if record.kind == "plan"
        for found in recorded.RECORD_ID_PATTERN.findall(json.dumps(record.payload))
    }
    assert named and all(Records(replayed.root).get(identity) for identity in named), (
        "what is cited is a record of this run"
    )


@pytest.mark.slow
def test_the_kernel_is_right_and_faster(replayed: Replayed) -> None:
    trials = [
        JudgedTrial.model_validate(record.payload).trial for record in Records(replayed.root) if record.kind == "trial"
    ]
    assert trials and all(isinstance(trial, Passed) for trial in trials), (
        "no answer of the cassette is wrong on any machine"
    )
    first = [trial for trial in trials if isinstance(trial, Passed) and trial.speedup.estimate > 2]
    assert first, "without the calls into the library the kernel is many times faster, however busy the machine"
    if "accept" not in replayed.summary["verdicts"].values():
        pytest.skip("the machine was too disturbed for any proof")
    kernel = Repository(replayed.root).read_file_at("HEAD", "kernel.cpp").decode()
    assert replayed.summary["speedup"] > 2 and "exp_lane" in kernel and "tanhf" not in kernel
    # Another process verifies it from the workspace alone, with fresh seeds, and without asking anybody anything.
    before = len(replayed.exchanges())
    done = graph("verify", str(replayed.root), home=replayed.home)
    assert done.returncode in (0, 5), f"only noise may keep it from agreeing: {done.stdout}{done.stderr}"
    assert len(replayed.exchanges()) == before
