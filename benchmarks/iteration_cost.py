"""What an iteration costs by the ledger, as Markdown tables: python -m benchmarks.iteration_cost [MODEL ...]

Simulated, and nothing is paid: the story of `benchmarks.scenario` (six iterations on a softmax: real prompts, the playbook's answers, with
ablations) goes through the provider `anthropic`, the official SDK and the ledger to a server on this machine that keeps the API's rules for
caching. That server counts characters / 4 as tokens. There is no thinking in it, which is paid as output.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.artifacts import Answer, CoderBrief, Draft, Drafts, GatekeeperBrief, PlannerBrief, RoleName
from agents.base import Agent, open_model
from agents.coder_tools import _tools as offered
from agents.models import prices
from agents.models.base import Tool, ToolCall, ToolResult
from agents.models.ledger import Ledger, Spent, dollars
from agents.models.playbook.model import answer
from agents.toolbox import Toolbox
from benchmarks.prompts import RESULT
from benchmarks.scenario import FOLDERS, Asked, Scenario
from tests.agents.models.anthropic_server import Server, Step
from tools.records import Records

MODELS = ("claude-opus-5-5", "claude-sonnet-5-5")
ROLES: tuple[RoleName, ...] = ("profiler_analyst", "knowledge_retriever", "planner", "coder", "gatekeeper")
BETWEEN_S = 300.0
"""From one iteration to the next, for what the cache keeps five minutes only."""


class Canned(Toolbox):
    """The coder's tools, which all succeed: a draft is compiled in one round, timed and handed in in the next."""

    rounds = 24

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.left = list(drafts)
        self.given: list[Draft] = []

    @property
    def tools(self) -> tuple[Tool, ...]:
        return offered()

    def call(self, wanted: ToolCall) -> ToolResult:
        if wanted.name == "submit":
            self.given.append(self.left.pop(0))
        return ToolResult(id=wanted.id, text=RESULT if wanted.name == "quick_time" else f"{wanted.name}: done.")

    @property
    def complete(self) -> bool:
        return not self.left

    def answered(self, said: Answer | None) -> Answer | None:
        return said or (Drafts(drafts=tuple(self.given)) if self.given else None)


class Story:
    """The scenario with the ablations of what is accepted, and what is answered to it."""

    def __init__(self, language: str, tools: bool) -> None:
        self.scenario = Scenario(language)
        self.tools = tools
        self.now: Asked | None = None

    def asked(self) -> Iterator[Asked]:
        """Every call in order; `now` is the last one given out."""
        coder: CoderBrief | None = None
        for one in self.scenario.asked():
            coder = one.brief if isinstance(one.brief, CoderBrief) else coder
            ablated = _ablations(coder) if coder and isinstance(one.brief, GatekeeperBrief) else ()
            for each in (*(Asked(one.iteration, "coder", brief, "Drafts") for brief in ablated), one):
                self.now = each
                yield each

    def drafts(self) -> tuple[Draft, ...]:
        """The playbook's, or where it has none the incumbent with a remark."""
        assert self.now and isinstance(self.now.brief, CoderBrief)
        made = answer(self.now.brief)
        assert isinstance(made, Drafts)
        source = self.scenario.written(self.now.brief, self.now.iteration)
        return made.drafts[: max(1, self.now.brief.plan.variants)] or (Draft(source=source, methods=()),)

    def step(self, body: dict[str, Any]) -> Step:
        """What the model says to `body`."""
        assert self.now
        if not isinstance(self.now.brief, CoderBrief):
            planned = isinstance(self.now.brief, PlannerBrief)
            made = self.scenario.planned(self.now.brief) if planned else answer(self.now.brief)  # type: ignore[arg-type]
            return Step(text=made.model_dump_json())
        drafts = self.drafts()
        if not body.get("tools"):
            return Step(text=Drafts(drafts=drafts).model_dump_json())
        number, second = divmod(sum(message["role"] == "assistant" for message in body["messages"]), 2)
        name, draft = f"draft-{number + 1}", drafts[number]
        if second:
            handed = {"name": name, "methods": list(draft.methods), "knobs": draft.knobs, "note": draft.note}
            return Step(calls=(("quick_time", {"name": name}), ("submit", handed)))
        return Step(calls=(("compile", {"name": name, "source": draft.source}),))


def _ablations(brief: CoderBrief) -> tuple[CoderBrief, ...]:
    """Taking the only method out leaves the incumbent, which nobody needs to write."""
    methods = brief.plan.methods if len(brief.plan.methods) > 1 else ()
    return tuple(
        brief.model_copy(update={"without": one.method, "plan": brief.plan.model_copy(update={"variants": 1}), "failures": ()})
        for one in methods
    )


def played(language: str, model: str, folder: Path, *, tools: bool) -> Ledger:
    """The account of the story, with `model` in every role and its records in `folder`."""
    story = Story(language, tools)
    with Server(answer=story.step) as server:
        records = Records(folder)
        ledger = Ledger(records, prices=prices.published())
        choice = {"provider": "anthropic", "model": model, "base_url": server.url}
        agents = {role: Agent(role, open_model(role, choice), records, lambda kind, facts: None, ledger) for role in ROLES}
        for one in story.asked():
            ledger.iteration, server.cache.now = one.iteration, one.iteration * BETWEEN_S
            toolbox = Canned(story.drafts()) if tools and isinstance(one.brief, CoderBrief) else None
            agents[one.role].ask(one.brief, type(answer(one.brief)), toolbox=toolbox)
    return ledger


def table(language: str, models: Sequence[str] = MODELS, *, tools: bool) -> str:
    """A row a role, summed over the run; then its iterations, and the run."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-cost-") as folder:
        return _table({model: played(language, model, Path(folder) / model, tools=tools) for model in models})


def _table(books: Mapping[str, Ledger]) -> str:
    models = tuple(books)
    last = max(record.payload["iteration"] for record in books[models[0]].records)
    head = ["", "exchanges", "written to the cache", "read from the cache", "output", *models]
    lines = [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
    lines += [_row(role, [book.spent(role) for book in books.values()]) for role in ROLES]
    first = [[book.spent(iteration=at) for book in books.values()] for at in (0, 1)]
    lines.append(_row("v0 and the first iteration", [_sum(pair) for pair in zip(*first, strict=True)]))
    later = [_sum([book.spent(iteration=at) for at in range(2, last + 1)], last - 1) for book in books.values()]
    lines.append(_row("each later iteration, mean", later))
    lines.append(_row(f"**run of {last} iterations**", [book.spent() for book in books.values()]))
    return "\n".join(lines)


def _row(name: str, spent: Sequence[Spent]) -> str:
    one = spent[0]
    # Its last block carries a mark, so that an exchange with this provider reads nothing at the plain price.
    counted = [one.exchanges, one.written + one.input, one.cached, one.output]
    return f"| {' | '.join([name, *(f'{number:,}' for number in counted), *(dollars(each.usd) for each in spent)])} |"


def _sum(found: Iterable[Spent], parts: int = 1) -> Spent:
    every = list(found)
    assert not any(one.unknown for one in every)
    whole = {name: sum(getattr(one, name) for one in every) for name in ("exchanges", "input", "cached", "written", "output")}
    usd, seconds = sum(one.usd for one in every) / parts, sum(one.seconds for one in every) / parts
    return Spent(**{name: round(number / parts) for name, number in whole.items()}, usd=usd, unknown=(), seconds=seconds)


def main(models: Sequence[str]) -> None:
    for language in FOLDERS:
        for tools in (False, True):
            coder = "with tools" if tools else "in one shot"
            print(f"\n## softmax in {language}, the coder {coder}\n\n{table(language, models, tools=tools)}")


if __name__ == "__main__":
    main(sys.argv[1:] or MODELS)
