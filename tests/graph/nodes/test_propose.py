"""What the planner is offered of earlier iterations, and what the coder starts from."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import CoderBrief, Plan
from graph.lifecycle import run as runs
from graph.nodes import propose
from graph.workspace.versions import read_versions
from tests.graph.conftest import state_of


def test_correct_candidates_that_lost_are_offered_with_the_reason_and_may_be_the_parent(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    briefs: list[tuple[CoderBrief, str]] = []
    monkeypatch.setattr(
        propose.coder, "write_candidates", lambda agent, brief, parent, *rest: briefs.append((brief, parent)) or ()
    )
    versions = read_versions(copied)
    accepted = {m.candidate for m in versions if m.verdict in ("accept", "baseline")}
    with runs.open_services(copied) as services:
        state = state_of(services, iteration=versions[-1].iteration + 1, champion=None, repair=0)
        state["plan"], state["dossier"], state["profile"] = versions[-1].records[1:4]
        offered = propose.planner_brief(state, services)
        lost = offered.frontier[0]
        made = Plan.model_validate(services.records.get(state["plan"]).payload)
        record = services.save_record("plan", made.model_copy(update={"parent": lost.candidate}), iteration=99)
        propose.write({**state, "plan": record.id}, services)  # type: ignore[typeddict-item]
        parent = services.candidate(lost.candidate, lost.iteration)
    assert 0 < len(offered.frontier) <= propose.MAX_FRONTIER_KERNELS
    assert all(one.reason and one.candidate not in accepted for one in offered.frontier)
    assert all(one.timed_against.startswith("v") and one.speedup.estimate > 0 for one in offered.frontier)
    [(brief, identity)] = briefs
    assert identity == parent.id and brief.parent == parent.source != brief.source
    assert brief.parent_methods == parent.methods
    fired = {finding.rule for finding in offered.findings}
    assert 0 < len(offered.signals) <= 20 and not any(rule in line for rule in fired for line in offered.signals)
    assert any(line.startswith("device: ") for line in offered.machine)
    assert any(line.startswith("compiler: ") for line in offered.machine)
