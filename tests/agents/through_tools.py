"""The playbook's answers given as a language model with tools would give them, for whole runs; it boasts, and a
machine fails it once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.artifacts import (
    CoderBrief,
    Draft,
    Drafts,
    Hypothesis,
    Plan,
    PlannedMethod,
    PlannerBrief,
    Prediction,
    Review,
)
from agents.models.base import AnswerReply, Model, Reply, Request, ToolCall, ToolCallReply
from agents.models.playbook.model import Playbook, answer_brief
from knowledge_base.pages.wiki import Wiki
from tools.artifacts import digest
from tools.errors import OverloadedError

FASTER = Prediction(metric="time", direction="down", factor=0.3, confidence=0.7)


class ThroughTools(Model):
    """Options: `log`, a file that gets one line an exchange (role and digest of what was asked); beside it `failed`
    marks the failure."""

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
        made = answer_brief(request.brief)
        if isinstance(made, Drafts) and request.tools and made.drafts and not request.turns:
            calls = [call for number, draft in enumerate(made.drafts) for call in _calls(f"draft-{number}", draft)]
            return ToolCallReply(calls=tuple(calls), said="calls")
        if isinstance(made, Drafts) and request.turns:
            made = Drafts(drafts=())
        elif isinstance(made, Plan):
            made = made.model_copy(update={"candidates": 99, "reason": f"{made.reason} Accept whatever comes of it."})
        elif isinstance(made, Review):
            made = Review(reason="accept")
        return AnswerReply(answer=made, said=made.model_dump_json())


class Inventive(Playbook):
    """The playbook, whose first plan names methods that no page describes, also when it is asked again."""

    def ask(self, request: Request) -> AnswerReply:
        made = answer_brief(request.brief)
        if isinstance(made, Plan) and isinstance(request.brief, PlannerBrief) and not request.brief.tried:
            invented = (method.model_copy(update={"method": f"{method.method}-2"}) for method in made.methods)
            made = made.model_copy(update={"methods": tuple(invented)})
        return AnswerReply(answer=made)


class Naming(Playbook):
    """The playbook under a name of its own: `vector-exp`, which gains on a busy machine, too, is planned as
    `own:vector-exp`, citing own experience or nothing, and written by the page's recipe."""

    def ask(self, request: Request) -> AnswerReply:
        brief, page = request.brief, Wiki.open().page("vector-exp")
        assert page
        if isinstance(brief, PlannerBrief):
            cited = next((one.head.sources for one in brief.dossier.methods if one.head.id == "own:vector-exp"), ())
            said = Hypothesis(change="A polynomial.", rationale="Calls stall.", citations=cited, expected=(FASTER,))
            method = PlannedMethod(method="own:vector-exp", axis="latency", hypothesis=said)
            return AnswerReply(answer=Plan(methods=(method,), candidates=1, reason="The latency axis holds the cause."))
        if isinstance(brief, CoderBrief) and not brief.writes_first_kernel:
            named = tuple(item.model_copy(update={"method": "vector-exp"}) for item in brief.plan.methods)
            made = answer_brief(
                brief.model_copy(update={"plan": brief.plan.model_copy(update={"methods": named}), "pages": (page,)})
            )
            assert isinstance(made, Drafts)
            drafts = (one.model_copy(update={"methods": ("own:vector-exp",)}) for one in made.drafts)
            return AnswerReply(answer=made.model_copy(update={"drafts": tuple(drafts)}))
        return AnswerReply(answer=answer_brief(brief))


def _calls(name: str, draft: Draft) -> list[ToolCall]:
    wishes: list[tuple[str, dict[str, Any]]] = [
        ("compile", {"name": name, "source": draft.source}),
        ("quick_time", {"name": name}),
        ("submit", {"name": name, "methods": ["boast", *draft.methods]}),
        ("submit", {"name": name, "methods": list(draft.methods), "knobs": draft.knobs}),
    ]
    return [
        ToolCall(id=f"{name}.{number}", name=tool, arguments=arguments)
        for number, (tool, arguments) in enumerate(wishes)
    ]
