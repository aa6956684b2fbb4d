"""Whether the caps on dollars and tokens leave room for a run, and for a single exchange: found out before it,
without asking anybody."""

from __future__ import annotations

from agents.artifacts import RoleName
from agents.models.base import Request, Usage
from agents.models.ledger import format_dollars, total_tokens
from agents.roles.agent import Agent
from graph.budget.estimate import Asked, Estimate, asked
from graph.settings import Settings
from knowledge_base.pages.wiki import Wiki
from tools.artifacts import Task
from tools.errors import SettingsError


def passed(settings: Settings, expected: Estimate) -> tuple[str, ...]:
    """Caps that a run would reach by its estimate, one sentence each."""
    cap, found = settings.budget, []
    if cap.usd is not None and expected.run_usd > cap.usd:
        found.append(
            f"budget.usd: {format_dollars(cap.usd)} is less than the estimate, so that the run would end early; give "
            f"{format_dollars(expected.run_usd)} or more"
        )
    if cap.tokens is not None and expected.run_tokens > cap.tokens:
        found.append(
            f"budget.tokens: {cap.tokens:,} is less than the estimate, so that the run would end early; give "
            f"{expected.run_tokens:,} or more"
        )
    return tuple(found)


def refuse(settings: Settings, task: Task, guide: Wiki, agents: dict[RoleName, Agent]) -> None:
    """SettingsError for a cap under which some role could surely not be asked once; the role that needs most is named.

    Only of models that read prompts it is known what none of their exchanges falls short of.
    """
    cap = settings.budget
    if not (cap.usd or cap.tokens):
        return
    roles = [role for role, agent in agents.items() if agent.model.bills == "tokens" and agent.model.reads == "prompt"]
    questions = asked(settings, task, guide)
    least = {role: _least(agents[role], role, questions) for role in roles}
    for role in sorted(roles, key=lambda role: -total_tokens(least[role])):
        usd = agents[role].ledger.cost_usd(agents[role].model, least[role])
        if cap.usd is not None and usd is not None and usd > cap.usd:
            raise SettingsError(_sentence("budget.usd", role, format_dollars(cap.usd), format_dollars(usd)))
        if cap.tokens is not None and total_tokens(least[role]) > cap.tokens:
            raise SettingsError(
                _sentence("budget.tokens", role, f"{cap.tokens:,} tokens", f"{total_tokens(least[role]):,} tokens")
            )


def _least(agent: Agent, role: RoleName, questions: tuple[Asked, ...]) -> Usage:
    """What none of the role's exchanges falls short of: no prompt is as short as none."""
    bare = [
        Request(role=role, brief=brief, answer=answer)
        for asked_of, brief, answer, _, _ in questions
        if asked_of == role
    ]
    return min(map(agent.model.estimated_usage_bound, bare), key=total_tokens)


def _sentence(key: str, role: RoleName, cap: str, least: str) -> str:
    return (
        f"{key}: {cap} is less than an exchange of the {role} sets aside before it begins (at least {least}, and "
        f"its prompt comes on top); "
        "give more than that, or lower max_tokens of its model"
    )
