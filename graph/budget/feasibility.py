"""Checks before a run whether its caps on dollars and tokens allow a run, and a single exchange."""

from __future__ import annotations

from agents.artifacts import RoleName
from agents.models.base import Request, Usage
from agents.models.ledger import format_dollars, total_tokens
from agents.roles.agent import Agent
from graph.budget.estimate import AssumedExchange, Estimate, assumed_exchanges
from graph.settings import Settings
from knowledge_base.pages.wiki import Wiki
from tools.artifacts import Task
from tools.errors import SettingsError


def caps_below_estimate(settings: Settings, expected: Estimate) -> tuple[str, ...]:
    """Return one sentence for each cap that the estimated run would reach."""
    cap, sentences = settings.budget, []
    if cap.usd is not None and expected.run_usd > cap.usd:
        sentences.append(
            f"budget.usd: {format_dollars(cap.usd)} is less than the estimate, so the run would end early; give "
            f"{format_dollars(expected.run_usd)} or more"
        )
    if cap.tokens is not None and expected.run_tokens > cap.tokens:
        sentences.append(
            f"budget.tokens: {cap.tokens:,} is less than the estimate, so the run would end early; give "
            f"{expected.run_tokens:,} or more"
        )
    return tuple(sentences)


def refuse_unaffordable(settings: Settings, task: Task, guide: Wiki, agents: dict[RoleName, Agent]) -> None:
    """Raise SettingsError for a cap that is too small for a single exchange; it names the role that needs most.

    Only models that read prompts have a known lower bound of an exchange.
    """
    cap = settings.budget
    if not (cap.usd or cap.tokens):
        return
    roles = [role for role, agent in agents.items() if agent.model.bills == "tokens" and agent.model.reads == "prompt"]
    questions = assumed_exchanges(settings, task, guide)
    least = {role: _smallest_bound(agents[role], role, questions) for role in roles}
    for role in sorted(roles, key=lambda role: -total_tokens(least[role])):
        usd = agents[role].ledger.cost_usd(agents[role].model, least[role])
        if cap.usd is not None and usd is not None and usd > cap.usd:
            raise SettingsError(_small_cap_sentence("budget.usd", role, format_dollars(cap.usd), format_dollars(usd)))
        if cap.tokens is not None and total_tokens(least[role]) > cap.tokens:
            raise SettingsError(
                _small_cap_sentence(
                    "budget.tokens", role, f"{cap.tokens:,} tokens", f"{total_tokens(least[role]):,} tokens"
                )
            )


def _smallest_bound(agent: Agent, role: RoleName, questions: tuple[AssumedExchange, ...]) -> Usage:
    """Return the smallest usage that an exchange of the role can have, computed without its prompt."""
    bare = [
        Request(role=role, brief=brief, answer=answer)
        for asked_of, brief, answer, _, _ in questions
        if asked_of == role
    ]
    return min(map(agent.model.estimated_usage_bound, bare), key=total_tokens)


def _small_cap_sentence(key: str, role: RoleName, cap: str, least: str) -> str:
    return (
        f"{key}: {cap} is less than the {role} sets aside for a single exchange (at least {least}, plus its prompt); "
        "give more than that, or lower max_tokens of its model"
    )
