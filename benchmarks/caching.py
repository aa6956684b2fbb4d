"""The story of `scenario` through the real agents and provider, against a server on this machine that caches as
Anthropic's does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast, get_args

from pydantic import JsonValue

from agents.artifacts import Answer, CoderBrief, Draft, Drafts, RoleName
from agents.models.base import Tool, ToolCall, ToolResult, Usage
from agents.models.ledger import Ledger, exchange_records
from agents.models.playbook.model import answer_brief
from agents.models.prices import Price
from agents.models.providers.anthropic import Anthropic
from agents.roles.agent import Agent
from agents.tool_use import coder_tools
from agents.tool_use.base import Toolbox
from benchmarks.scenario import ScriptedExchange
from tests.agents.models.anthropic_rules import Body
from tests.agents.models.anthropic_server import Server
from tests.agents.models.scripted_server import Step
from tools.store.records import Records

READ, WRITE_5M, WRITE_1H = 0.1, 1.25, 2.0
"""Prices of a token read from and written to the cache, of one that is neither (Anthropic's documentation on prompt
caching)."""
MINUTES = 10
"""Between two iterations, so that what is kept for five minutes is lost."""
DRAFTS = 2
"""Compiled in a coder's first round."""
CHECKED = "{} is right on 12 of 12 cases."
TIMED = (
    "A hint: the incumbent's time over that of {} is 1.31 [1.27, 1.36].\n```data: workloads\n4096x1024: "
    "1.31\n512x1000: 1.18\n```"
)
RESULTS = {"compile": "{} compiles.", "quick_check": CHECKED, "quick_time": TIMED, "submit": "{} is handed in, 1 of 4."}


class Cost(NamedTuple):
    """Input tokens of some exchanges, as the ledger's records have them."""

    full: int = 0
    """Neither read from the cache nor written to it."""
    written_5m: int = 0
    written_1h: int = 0
    cached: int = 0
    exchanges: int = 0

    @property
    def uncached(self) -> int:
        """Not read from the cache."""
        return self.full + self.written_5m + self.written_1h

    @property
    def equivalent(self) -> float:
        """Uncached-equivalent tokens: what is read from the cache counts a tenth."""
        return self.uncached + READ * self.cached

    @property
    def priced(self) -> float:
        """The same with what the API takes extra for writing to the cache."""
        return self.full + WRITE_5M * self.written_5m + WRITE_1H * self.written_1h + READ * self.cached

    @property
    def share(self) -> float:
        """Read from the cache."""
        return self.cached / max(1, self.uncached + self.cached)


class CachingMethod(NamedTuple):
    """How the roles are asked."""

    rounds: int | None = None
    """Of tool calls before the coder answers; None: it is offered no tools."""
    models: int = 1
    """5: each role has a model of its own, and nothing is shared."""
    structured: str = "none"
    model: str = "claude-opus-5-5"
    """That answers in every role, unless each has its own."""


class Rehearsal(Toolbox):
    """The coder's tools, offered as they are; what they say is made up, and as long as it is in a run."""

    def __init__(self, rounds: int, drafts: Drafts) -> None:
        self.max_turns = rounds
        self.drafts = drafts
        self.closed = False

    @property
    def tools(self) -> tuple[Tool, ...]:
        return coder_tools.tool_definitions()

    def call(self, wanted: ToolCall) -> ToolResult:
        self.closed = self.closed or wanted.arguments.get("last") is True
        return ToolResult(id=wanted.id, text=RESULTS[wanted.name].format(wanted.arguments["name"]))

    @property
    def is_complete(self) -> bool:
        return self.closed

    def merge_answer(self, said: Answer | None) -> Answer | None:
        return said or (self.drafts if self.closed else None)


def story_costs(story: Iterable[ScriptedExchange], way: CachingMethod) -> dict[tuple[int, str], Cost]:
    """Costs by (iteration, role); an exchange that is already recorded costs nothing, as in a run."""
    with tempfile.TemporaryDirectory() as folder:
        return _costs(play_story(story, way, Path(folder)).records)


def play_story(
    story: Iterable[ScriptedExchange], way: CachingMethod, folder: Path, prices: Mapping[str, Price] | None = None
) -> Ledger:
    """The account of the story, with its records in `folder`."""
    with Server() as server:
        records = Records(folder)
        ledger = Ledger(records, prices=prices)
        agents = {role: _agent(role, server, way, records, ledger) for role in get_args(RoleName)}
        for one in story:
            ledger.iteration, server.cache.now = one.iteration, one.iteration * MINUTES * 60.0
            said = _scripted_answer(one)
            # A toolbox of no rounds is not offered; one round more is never used where the model answers at once.
            tools = Rehearsal(max(way.rounds, 1), said) if way.rounds is not None and isinstance(said, Drafts) else None
            server.answer = partial(_next_step, said=said, rounds=way.rounds or 0)
            agents[one.role].ask(one.brief, type(said), toolbox=tools)
        return ledger


def _agent(role: RoleName, server: Server, way: CachingMethod, records: Records, ledger: Ledger) -> Agent:
    name = way.model if way.models == 1 else f"claude-for-{role}"
    options = {"model": name, "base_url": server.url, "structured": way.structured}
    return Agent(role, Anthropic(options), records, lambda event, details: None, ledger)


def _scripted_answer(one: ScriptedExchange) -> Answer:
    """An answer of the type owed: the playbook's, or where it has none one that says little. What it says is not
    read again."""
    made = answer_brief(one.brief)
    if isinstance(one.brief, CoderBrief):
        found = made.drafts if isinstance(made, Drafts) else ()
        # Variants of which there is only one are as long as that.
        sources = [draft.source for draft in found][:DRAFTS] or [one.brief.source]
        return Drafts(drafts=tuple(Draft(source=source, methods=()) for source in (sources * DRAFTS)[:DRAFTS]))
    return made


def _next_step(body: Body, said: Answer, rounds: int) -> Step:
    """Two drafts are compiled, then checked and timed, then one more, and so on; the last round hands in. Else the
    answer."""
    done = sum(message["role"] == "assistant" for message in body["messages"])
    if not rounds or not isinstance(said, Drafts):
        return Step(text=said.model_dump_json())
    names = [f"draft-{number}" for number in range(1, DRAFTS + 1)] if done < 2 else [f"draft-{DRAFTS + done // 2}"]
    if done == rounds - 1:
        return Step(calls=(("submit", {"name": names[0], "methods": [], "last": True}),))
    if done % 2:
        return Step(calls=tuple((tool, {"name": name}) for name in names for tool in ("quick_check", "quick_time")))
    sources = [draft.source for draft in said.drafts]
    return Step(
        calls=tuple(("compile", {"name": name, "source": source}) for name, source in zip(names, sources, strict=False))
    )


def _costs(records: Records) -> dict[tuple[int, str], Cost]:
    found: dict[tuple[int, str], Cost] = {}
    for record in exchange_records(records):
        payload = cast("dict[str, JsonValue]", record.payload)
        at = (int(str(payload["iteration"])), str(payload["role"]))
        took = Usage.model_validate(payload["usage"])
        cost = Cost(took.input, took.cache_write, took.cache_write_1h, took.cache_read, 1)
        found[at] = total([found.get(at, Cost()), cost])
    return found


def total(costs: Iterable[Cost]) -> Cost:
    """Their sum."""
    return Cost(*map(sum, zip(*costs, strict=True)))


def costs_after_first_iteration(found: dict[tuple[int, str], Cost]) -> Sequence[Cost]:
    """The cost of each iteration from the second on."""
    last = max(at for at, _ in found)
    return [total(cost for (at, _), cost in found.items() if at == number) for number in range(2, last + 1)]
