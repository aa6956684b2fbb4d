"""Coder: from a plan to candidates, their simplified twins for ablation, and v0 where only PyTorch logic is given."""

from __future__ import annotations

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.base import Agent
from agents.draft_faults import faults, faults_of
from agents.handlers.base import mended
from tools.artifacts import Candidate


def write(agent: Agent, brief: CoderBrief, parent: str, suffix: str) -> tuple[Candidate, ...]:
    """Up to `brief.plan.variants` distinct candidates; equal sources, copies of the parent and faulty drafts are dropped."""
    candidates: dict[str, Candidate] = {}
    for draft in _sound(agent, brief):
        candidate = _candidate(draft, brief.task.language, parent, suffix)
        if candidate.source != brief.source:
            candidates.setdefault(candidate.id, candidate)
    return tuple(candidates.values())[: brief.plan.variants]


def ablate(agent: Agent, brief: CoderBrief, method: str, champion: Candidate, suffix: str) -> Candidate | None:
    """The champion without `method`, from the same incumbent source; None when the coder cannot take it out alone."""
    rest = tuple(m for m in brief.plan.methods if m.method != method)
    asked = brief.model_copy(
        update={
            "without": method,
            "champion_knobs": champion.knobs,
            "plan": brief.plan.model_copy(update={"methods": rest, "variants": 1}),
        }
    )
    drafts = _sound(agent, asked)
    if not drafts:
        return None
    candidate = _candidate(drafts[0], brief.task.language, champion.parent or "", suffix)
    return None if candidate.id == champion.id else candidate


def _sound(agent: Agent, brief: CoderBrief) -> tuple[Draft, ...]:
    """The drafts as their handlers leave them; those that are still faulty when they were asked for again are left out."""
    answer = agent.ask(brief, Drafts, faults=lambda given: faults(_mended(given, brief), brief))
    return tuple(draft for draft in _mended(answer, brief).drafts if not faults_of(draft, brief))


def _mended(answer: Drafts, brief: CoderBrief) -> Drafts:
    return answer.model_copy(update={"drafts": tuple(mended(draft, brief) for draft in answer.drafts)})


def _candidate(draft: Draft, language: str, parent: str, suffix: str) -> Candidate:
    return Candidate(language=language, files={f"kernel{suffix}": draft.source}, parent=parent, methods=draft.methods, knobs=draft.knobs)
