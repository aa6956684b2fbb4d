"""What experience keeps of an iteration."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.lifecycle import run as runs
from graph.nodes.gate import _attempts
from graph.nodes.propose import trials
from graph.report.content.summary import stored_state, versions
from graph.state import State
from knowledge_base.artifacts import mark
from tools.artifacts import Outcome, Verdict


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        ("accept", ["success"]),
        ("reject_perf", ["failure"]),
        ("inconclusive", ["neutral"]),
        ("reject_correctness", ["crash"]),
        ("reject_policy", []),
        ("infra_error", []),
    ],
)
def test_what_says_nothing_about_the_idea_is_not_remembered_of_it(copied: Path, outcome: Outcome, kept: list[str]) -> None:
    memory = versions(copied)[1]
    with runs.opened(copied) as services:
        state = State(**{**stored_state(services.workspace), "iteration": 1})  # type: ignore[typeddict-item]
        record = services.records.get(memory.records[0])
        verdict = Verdict.model_validate(record.payload).model_copy(update={"outcome": outcome})
        champion = services.candidate(memory.candidate or "", 1)
        found = _attempts(state, services, verdict, record, champion)
        judged = {services.candidate(j.trial.candidate).source for j in trials(state, services)}
        incumbent = services.candidate(state["incumbent"]).source
    # The last is of the kernel that the verdict is about; the others are its siblings.
    assert [attempt.result for attempt in found[-1:]] == kept
    if kept:
        assert {attempt.after for attempt in found} == {mark(source) for source in judged}
        assert found[-1].after == mark(champion.source) and found[-1].knobs == champion.knobs
        assert {attempt.before for attempt in found} == {mark(incumbent)}
        assert len({attempt.evidence for attempt in found}) == len(found)
        assert all(attempt.result in ("neutral", "failure", "crash") for attempt in found[:-1]), "only the gate calls something a success"
