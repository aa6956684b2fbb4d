"""Whether the caps on dollars and tokens leave room for a single exchange: found out before a run, without asking anybody."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from agents.artifacts import RoleName
from agents.models.base import Request, Usage
from agents.models.ledger import Cap, dollars, tokens
from agents.prompting.render import blocks
from agents.roles.agent import Agent
from graph.budget.estimate import Asked, Estimate, Row, asked, estimate
from graph.settings import Settings
from knowledge_base.pages.wiki import Wiki
from tools.artifacts import Artifact, Task
from tools.errors import SettingsError


class InsufficientCap(Artifact):
    """A cap that is smaller than what one exchange of a role sets aside, so that none would begin."""

    key: str
    cap: str
    role: RoleName
    least: str | None
    """What its exchanges set aside even without a prompt, where that is more than the cap: then the cap is surely too small."""
    aside: str
    """What the largest of its exchanges sets aside, prompts being estimated."""
    enough: str
    """The smallest cap of use: for that exchange after the others of an iteration, as estimated."""

    def sentence(self) -> str:
        """What is wrong and what to do."""
        sure = f"at least {self.least} whatever it is asked, and " if self.least else ""
        lead = "is less than an exchange of" if self.least else "may be less than an exchange of"
        return (
            f"{self.key}: {self.cap} {lead} the {self.role} sets aside before it begins ({sure}about {self.aside} by the estimate); "
            f"give {self.enough} or more, or lower max_tokens of its model"
        )


def refuse(found: Sequence[InsufficientCap]) -> None:
    """SettingsError for a cap under which a role could surely not be asked once."""
    for one in found:
        if one.least is not None:
            raise SettingsError(one.sentence())


def tight(
    settings: Settings, task: Task, guide: Wiki, agents: dict[RoleName, Agent], expected: Estimate | None = None
) -> tuple[InsufficientCap, ...]:
    """Caps under which some role may not be asked once, for each the role that needs most. `expected`: where it is made already."""
    counted = {role: agent for role, agent in agents.items() if agent.model.bills == "tokens"}
    caps = [(key, cap, roles) for key, cap, roles in _caps(settings, tuple(counted)) if roles and (cap.usd or cap.tokens)]
    if not caps:
        return ()
    expected = expected or estimate(settings, task, guide, agents)
    questions = asked(settings, task, guide)
    bounds = {role: _bounds(agent, role, questions) for role, agent in counted.items()}
    found = []
    for key, cap, roles in caps:
        rows = [row for row in expected.rows if row.role in roles]
        if expected.first in rows and "per_iteration" not in key:
            rows += [expected.first] if expected.first else []
        for kind, limit, measure, show in _kinds(cap):
            weighed = {role: [measure(counted[role], bound) for bound in bounds[role]] for role in roles}
            most = max(aside for aside, _ in weighed.values())
            if most > limit:
                role = _worst(weighed, limit)
                aside, least = weighed[role]
                others = sum(_estimated(row, kind) for row in rows)
                found.append(
                    InsufficientCap(
                        key=f"{key}.{kind}",
                        cap=show(limit),
                        role=role,
                        least=show(least) if least > limit else None,
                        aside=show(_rounded(aside)),
                        enough=show(_rounded(most + others)),
                    )
                )
    return tuple(found)


def _worst(weighed: Mapping[RoleName, Sequence[float]], limit: float) -> RoleName:
    """Of those whose need is sure, where there are such, the role that sets aside most."""
    return max(weighed, key=lambda role: (weighed[role][1] > limit, weighed[role][0]))


def _caps(settings: Settings, roles: tuple[RoleName, ...]) -> Iterator[tuple[str, Cap, tuple[RoleName, ...]]]:
    """Each cap by its key, with the roles that are under it."""
    budget = settings.budget
    yield "budget", budget, roles
    yield "budget.per_iteration", budget.per_iteration, roles
    for role, cap in budget.per_role.items():
        yield f"budget.per_role.{role}", cap, (role,) if role in roles else ()


Kind = tuple[str, float, Callable[[Agent, Usage], float], Callable[[float], str]]
"""Of a cap: its name, its limit, what a usage comes to in it, and how that is written."""


def _kinds(cap: Cap) -> Iterator[Kind]:
    if cap.usd is not None:
        yield "usd", cap.usd, lambda agent, bound: agent.ledger.cost(agent.model, bound) or 0.0, dollars
    if cap.tokens is not None:
        yield "tokens", cap.tokens, lambda _, bound: tokens(bound), lambda count: f"{count:,.0f} tokens"


def _bounds(agent: Agent, role: RoleName, questions: tuple[Asked, ...]) -> tuple[Usage, Usage]:
    """What the role's largest exchange may take, and what none of its exchanges falls short of."""
    model, most, least = agent.model, [], []
    for _, brief, answer, _, _ in (one for one in questions if one[0] == role):
        request: Request = Request(role=role, brief=brief, answer=answer)
        if model.reads == "prompt":
            # No prompt is as short as none.
            least.append(model.assumed_bound(request))
            request = request.model_copy(update={"prompt": blocks(role, brief, answer)})
        most.append(model.assumed_bound(request))
    # What a model that reads briefs makes of others than these is not known.
    return max(most, key=tokens), min(least, key=tokens, default=Usage(model=model.name))


def _estimated(row: Row, kind: str) -> float:
    return (row.usd or 0.0) if kind == "usd" else row.input + row.output


def _rounded(value: float) -> float:
    """Up, to two figures."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit - 1e-9) * unit
