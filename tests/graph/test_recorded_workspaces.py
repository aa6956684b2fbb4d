"""What is read of a finished run: the recorded workspace is judged again as it was, and each of its claims holds.

tests/fixtures/verdicts.jsonl.xz holds what the gate was asked in other runs and what it answered.
"""

from __future__ import annotations

import itertools
import json
import lzma
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from agents.artifacts import Dossier
from graph.build import build_graph
from graph.lifecycle import run as runs
from graph.lifecycle.verify import accepted_commits, read_claim, verify
from graph.nodes import gate_evidence
from graph.report.content.version_files import render_root
from graph.services import open_agents
from graph.state import State
from graph.workspace.folder import open_read_only
from graph.workspace.versions import checkpoint_path, read_versions
from tests.graph.conftest import git, graph
from tools.artifacts import Verdict
from tools.gate.judge_settings import JudgeSettings
from tools.gate.verdict import GateEvidence, decide_verdict
from tools.store.repository import Repository

FIXTURES = Path(__file__).parents[1] / "fixtures"


def gates(root: Path) -> Iterator[State]:
    """The state before the last call of the gate in each iteration, from the checkpoints."""
    workspace = open_read_only(root)
    with closing(sqlite3.connect(checkpoint_path(workspace), check_same_thread=False)) as connection:
        machine = build_graph(workspace.settings(), SqliteSaver(connection))
        newest_first = list(machine.get_state_history({"configurable": {"thread_id": "run"}}))
    for iteration in range(1, len(read_versions(root))):
        called = (one.values for one in newest_first if one.next == ("gate",) and one.values["iteration"] == iteration)
        yield from (cast(State, dict(values)) for values in itertools.islice(called, 1))


def test_the_gate_asked_again_gives_the_same_verdicts(copied: Path) -> None:
    """From the records alone; what the sentences say is left to the tests of the gate."""
    judged = 0
    with runs.open_services(copied, reading=True) as services:
        services.agents.update(open_agents(services.settings, services.records, services.emit, services.ledger, copied))
        for state in gates(copied):
            verdict = decide_verdict(gate_evidence._gather_evidence(state, services), services.settings.judge)
            record = services.records.get(commit_of(copied, state["iteration"]).trailers["Evidence"])
            recorded = Verdict.model_validate(record.payload)
            assert verdict.model_copy(update={"reasons": recorded.reasons}) == recorded
            judged += 1
    assert judged == 3


def test_the_readme_names_instructions_of_methods_that_the_kernel_asks_for(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with runs.open_services(copied, reading=True) as services:
        # Another compiler may be here.
        built = next(record for record in services.records if record.kind == "build")
        monkeypatch.setattr(services.judge.builder, "read_or_build", lambda candidate: built)
        state = next(gates(copied))
        baseline, inspection = services.candidate(state["baseline"]), services.records.get(state["profile"])
        checked, calibration = (
            services.judge.read_or_check_correctness(baseline, None, "baseline"),
            services.judge.read_or_measure_calibration(baseline),
        )
        readme = render_root(services, state, baseline, checked, calibration, inspection)["README.md"]  # type: ignore[arg-type]
        offered = Dossier.model_validate(services.records.get(state["dossier"]).payload).methods
        signed = [
            page.head.id
            for page in services.guide.pages_about("method", "cpp")
            if services.architecture in page.head.signature
        ]
    told = re.findall(r"^- ([\w-]+): `.*` \(front matter", readme, re.MULTILINE)
    assert told and sorted(told) == sorted(page.head.id for page in offered if page.head.id in signed)


def commit_of(root: Path, iteration: int) -> Any:
    commit = Repository(root).find_commit("Version", f"v{iteration}")
    return next(c for c in Repository(root).log() if c.id == commit)


def test_every_claim_still_follows_from_its_records(recorded: Path, tmp_path: Path) -> None:
    repository = Repository(recorded)
    claims = accepted_commits(repository)
    assert claims
    for number, commit in enumerate(claims):
        copy = repository.clone_to(tmp_path / f"copy{number}", commit.id)
        assert read_claim(copy, commit).candidate.id == commit.trailers["Candidate"]


@pytest.mark.slow
def test_no_claim_is_refuted_when_it_is_measured_again(copied: Path) -> None:
    """On a quiet machine all agree; noise may leave one inconclusive, and nothing may refute an honest commit."""
    assert {result.outcome for result in verify(copied)} <= {"agree", "inconclusive"}


@pytest.mark.slow
def test_an_old_version_can_be_the_start_of_a_new_run(recorded: Path) -> None:
    sizes = {"M": 700, "N": 520}
    done = graph(
        "restart",
        str(recorded),
        "v1",
        "--json",
        "--budget",
        "wall_s=40",
        "--set",
        "dims=M=700 N=520",
        "judge.min_effect=0.03",
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode in {0, 3}, found["status"]) == (True, "finished"), done.stderr
    root = Path(found["workspace"])
    try:
        old = Repository(recorded).find_commit("Version", "v1")
        assert git(root, "show", f"{found['commits'][0]}:kernel.cpp") == git(recorded, "show", f"{old}:kernel.cpp")
        assert f"{recorded.name} v1" in (root / "README.md").read_text()
        settings = (root / "settings.yaml").read_text()
        assert (
            f"linked_to: {recorded.name} v1\n" in settings
            and "min_effect: 0.03\n" in settings
            and "dims: M=700 N=520\n" in settings
        )
        task, before = (json.loads((place / "task" / "task.json").read_text())["task"] for place in (root, recorded))
        assert [w["dims"] for w in task["workloads"]] == [sizes] and task["baseline"] != before["baseline"]
        same = ("name", "language", "reference", "numeric", "build_flags", "arguments")
        assert {key: task[key] for key in same} == {key: before[key] for key in same}
        # Where the work began is not forgotten, though nothing may have been gained in this run.
        assert (
            found["against"]["original"][0] > 1.1
            and "against the kernel that the linked runs began with: " in (root / "report.md").read_text()
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)


CASES = [json.loads(line) for line in lzma.decompress((FIXTURES / "verdicts.jsonl.xz").read_bytes()).splitlines()]


def test_the_gate_answers_recorded_evidence_as_before() -> None:
    assert len(CASES) > 70
    for case in CASES:
        settings, then = JudgeSettings.model_validate(case["policy"]), Verdict.model_validate(case["verdict"])
        answer = decide_verdict(GateEvidence.model_validate(case["evidence"]), settings)
        assert answer.model_copy(update={"reasons": then.reasons}) == then
