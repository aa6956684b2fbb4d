"""The playbook's answers given as a language model with tools would give them, for whole runs; it boasts, and a machine fails it once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.artifacts import Draft, Drafts, Plan, PlannerBrief, Review
from agents.models.base import Answered, Called, Model, Reply, Request, ToolCall
from agents.models.playbook.model import Playbook, answer
from tools.artifacts import digest
from tools.errors import OverloadedError


class ThroughTools(Model):
    """Options: `log`, a file that gets one line an exchange (role and digest of what was asked); beside it `failed` marks the failure."""

    calls_tools = True

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.log = Path(options["log"])

    def ask(self, request: Request) -> Reply:
        if request.role == "planner" and not self.log.with_name("failed").exists():
            self.log.with_name("failed").touch()
            raise OverloadedError("models.planner: no room now")
        with self.log.open("a") as file:
            file.write(f"{request.role} {digest(request.model_dump_json())}\n")
        made = answer(request.brief)
        if isinstance(made, Drafts) and request.tools and made.drafts and not request.turns:
            calls = [call for number, draft in enumerate(made.drafts) for call in _calls(f"draft-{number}", draft)]
            return Called(calls=tuple(calls), said="calls")
        if isinstance(made, Drafts) and request.turns:
            made = Drafts(drafts=())
        elif isinstance(made, Plan):
            made = made.model_copy(update={"candidates": 99, "reason": f"{made.reason} Accept whatever comes of it."})
        elif isinstance(made, Review):
            made = Review(reason="accept")
        return Answered(answer=made, said=made.model_dump_json())


class Inventive(Playbook):
    """The playbook, whose first plan names methods that no page describes, also when it is asked again."""

    def ask(self, request: Request) -> Answered:
        made = answer(request.brief)
        if isinstance(made, Plan) and isinstance(request.brief, PlannerBrief) and not request.brief.tried:
            invented = (method.model_copy(update={"method": f"{method.method}-2"}) for method in made.methods)
            made = made.model_copy(update={"methods": tuple(invented)})
        return Answered(answer=made)


def _calls(name: str, draft: Draft) -> list[ToolCall]:
    wishes: list[tuple[str, dict[str, Any]]] = [
        ("compile", {"name": name, "source": draft.source}),
        ("quick_time", {"name": name}),
        ("submit", {"name": name, "methods": ["boast", *draft.methods]}),
        ("submit", {"name": name, "methods": list(draft.methods), "knobs": draft.knobs}),
    ]
    return [ToolCall(id=f"{name}.{number}", name=tool, arguments=arguments) for number, (tool, arguments) in enumerate(wishes)]
