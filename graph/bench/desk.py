"""The bench of one run: takes the agent's calls, works on them in the run's own thread, and gives out the answers.

The threads of the channel only queue calls and wait. The work happens while a node of the graph waits for a submission,
so the device has one user at a time and no call runs beside a measurement of the judge.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic import ValidationError

from agents.artifacts import (
    Answer,
    CoderBrief,
    Draft,
    Drafts,
    Plan,
    PlannerBrief,
)
from agents.models.base import Request, ToolCall
from agents.models.redaction import remove_keys
from agents.roles.planner import method_violations
from agents.text.fencing import cut_middle
from agents.tool_use.coder_tools import CoderTools
from graph.bench.answers import (
    history_text,
    knowledge_text,
    profile_text,
    task_text,
    verdict_text,
)
from graph.bench.arguments import (
    MAX_WAIT_S,
    TOOLS,
    HistoryArguments,
    KnowledgeArguments,
    NoteArguments,
    ProfileArguments,
    SubmissionArguments,
    TaskArguments,
    VerdictArguments,
)
from graph.bench.author import AgentAtBench
from graph.bench.channel import CallResult, listening
from graph.bench.submissions import Submission, plan_of
from graph.services import Services
from graph.workspace import events as event_log
from graph.workspace.versions import read_state, read_versions
from tools.artifacts import Artifact
from tools.errors import BudgetError, InfrastructureError, SettingsError, StorageError
from tools.store.records import record_key

MAX_ANSWER_CHARS = 22_000
"""Most characters of an answer before the line about the budget: 8,000 tokens of three characters, with some room."""
ANSWER_WAIT_S = 20.0
"""Seconds that a call waits for its answer before it becomes a ticket."""
POLL_S = 0.2
ENDED_TEXT = "The search has ended: the run measures its final benchmark and writes report.md."
OF_A_DRAFT = {"compile": "compile", "check": "quick_check", "time": "quick_time", "assembly": "disassemble"}
"""Tool of the bench -> the coder's tool that does the same."""


@dataclass(eq=False)
class Ticket:
    """One call and, once it is done, its answer."""

    name: str
    tool: str
    asked: Artifact
    answer: CallResult | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def finish(self, text: str, *, failed: bool = False) -> None:
        """Set the answer and wake those who wait for it."""
        self.answer = CallResult(text, failed)
        self.done.set()


class _CallRefusedError(Exception):
    """A call that is refused, with the sentence for the agent; it never leaves this module."""


class Bench:
    """The bench of one run."""

    def __init__(self, services: Services, calls_allowed: int) -> None:
        self.services = services
        self.calls_allowed = calls_allowed
        log = event_log.read_events(services.workspace.private / "events.jsonl")
        self.calls = sum(event.kind == "tool" and event.details.get("role") == "bench" for event in log)
        self.closed = {memory.iteration for memory in read_versions(services.workspace.root)}
        """Iterations with a verdict."""
        self.tickets: dict[str, Ticket] = {}
        self._waiting: queue.SimpleQueue[Ticket] = queue.SimpleQueue()
        self._guard = threading.Lock()
        taken = (record for record in services.records if record.kind == "submission")
        self._judging = max(
            {Submission.model_validate(one.payload).iteration for one in taken} - self.closed, default=0
        )
        """The iteration of the submission that is being judged, also after a kill; 0: none is."""
        self._tools: CoderTools | None = None
        self._has_ended = False
        # The secret in the workspace is a file that the agent can read.
        services.judge.draw_hidden(secrets.token_bytes(32))

    # ------------------------------------------------------------ in the channel's threads

    def call(self, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        """Return the answer to a call within 45 seconds, or a ticket for it, with the budget that is left."""
        try:
            asked = TOOLS[tool].model_validate(dict(arguments))
        except KeyError:
            found = CallResult(f"There is no tool {tool!r}; there are {', '.join(TOOLS)}.", failed=True)
        except ValidationError as error:
            first = error.errors()[0]
            found = CallResult(f"{tool}: {'.'.join(map(str, first['loc'])) or 'arguments'}: {first['msg']}.", True)
        else:
            found = self._verdict(asked) if isinstance(asked, VerdictArguments) else self._queue(tool, asked)
        return CallResult(f"{cut_middle(found.text, MAX_ANSWER_CHARS)}\n\n{self.budget_line()}", found.failed)

    def budget_line(self) -> str:
        """Return what is spent and what the run may spend, in one line."""
        budget, services = self.services.settings.budget, self.services
        device = f" of {budget.device_s:g}" if budget.device_s else ""
        return (
            f"budget: {len(self.closed - {0})} of {services.settings.search.iterations} submissions judged, "
            f"{self.calls} of {self.calls_allowed} calls, {services.device_s():.1f}{device} device seconds, "
            f"{services.wall_s():.0f} of {budget.wall_s:g} s of wall time"
        )

    def _queue(self, tool: str, asked: Artifact) -> CallResult:
        said = asked.model_dump_json()
        if remove_keys(said) != said:
            # It would block every later commit of the run.
            return CallResult(f"{tool}: the call holds what looks like a key; leave it out.", failed=True)
        is_last = isinstance(asked, SubmissionArguments) and asked.last
        with self._guard:
            if self._has_ended:
                return CallResult(ENDED_TEXT, failed=True)
            if self.calls >= self.calls_allowed and not is_last:
                return CallResult(
                    f"{tool}: the {self.calls_allowed} calls of this run are used up; `submit` with `last` submits one "
                    f"more draft or none, and ends the run.",
                    failed=True,
                )
            ticket = Ticket(f"c{len(self.tickets) + 1}", tool, asked)
            self.tickets[ticket.name] = ticket
            self.calls += 1
            self.services.emit("tool", {"role": "bench", "tool": tool, "state": "asked"})
        self._waiting.put(ticket)
        return self._answer_of(ticket, ANSWER_WAIT_S)

    def _answer_of(self, ticket: Ticket, wait_s: float) -> CallResult:
        if ticket.done.wait(wait_s) and ticket.answer is not None:
            return ticket.answer
        doing = f"v{self._judging} is being judged" if self._judging else "the run is at work"
        return CallResult(f"ticket {ticket.name}: {doing}; ask `verdict` for {ticket.name} again.")

    def _verdict(self, asked: VerdictArguments) -> CallResult:
        wait_s = min(max(asked.wait_s, 0.0), MAX_WAIT_S)
        if asked.ticket in self.tickets:
            return self._answer_of(self.tickets[asked.ticket], wait_s)
        number = int(asked.ticket[1:]) if asked.ticket.startswith("v") and asked.ticket[1:].isdecimal() else -1
        ends = time.monotonic() + wait_s
        while number not in self.closed:
            if number != self._judging and number not in self.closed:
                return CallResult(f"There is no ticket {asked.ticket!r}; `history` lists the versions.", failed=True)
            if time.monotonic() >= ends:
                return CallResult(f"ticket v{number}: it is being judged; ask `verdict` for v{number} again.")
            time.sleep(POLL_S)
        return CallResult(verdict_text(self.services.workspace.root, number))

    # ------------------------------------------------------------ in the run's thread

    def emit(self, kind: str, details: Mapping[str, str]) -> None:
        """Pass an event on; a verdict closes its submission, and the last node the bench."""
        self.services.emit(kind, details)
        if kind == "verdict":
            self.closed.add(int(details["iteration"]))
            self._judging = 0
        elif kind == "node" and details["node"] == "finalise":
            with self._guard:
                self._has_ended = True
            for ticket in self.tickets.values():
                if not ticket.done.is_set():
                    ticket.finish(ENDED_TEXT, failed=True)

    def answer(self, request: Request) -> Answer:
        """Return the plan of the next submission, for which it waits while it works on the agent's other calls; or the
        draft of the submission whose plan was made."""
        iteration = self.services.ledger.iteration
        if isinstance(request.brief, CoderBrief):
            asked = self._submission(iteration)
            # One method has no ablation: without it there is the incumbent.
            if asked is None or request.brief.ablated_methods:
                return Drafts(drafts=())
            self._begin_judging(iteration)
            draft = Draft(source=asked.source, methods=(asked.said.method,), note=asked.said.change)
            return Drafts(drafts=(draft,))
        brief = cast(PlannerBrief, request.brief)
        before = self._submission(iteration - 1)
        asked = self._submission(iteration)
        if asked is None and not (before and before.said.last):
            self._open_workbench(brief)
            asked = self._next_submission(brief, iteration)
        if asked is None:
            return Plan(methods=(), candidates=0, reason="the agent has nothing more to submit")
        self._begin_judging(iteration)
        return plan_of(asked.said)

    def _submission(self, iteration: int) -> Submission | None:
        """Return the submission of an iteration from its record: a killed run judges it again from its start."""
        record = self.services.records.find(record_key("submission", iteration=iteration))
        return Submission.model_validate(record.payload) if record else None

    def _begin_judging(self, iteration: int) -> None:
        """Draw anew what the judge hides, now that the submission is frozen; it serves no other."""
        if self._judging != iteration:
            self.services.judge.draw_hidden(secrets.token_bytes(32))
            self._judging = iteration

    def _open_workbench(self, brief: PlannerBrief) -> None:
        """Lay the incumbent on the workbench; drafts of earlier iterations stay."""
        state = read_state(self.services.workspace)
        drafts = self._tools.drafts if self._tools else {}
        plan = Plan(methods=(), candidates=1)
        shown = CoderBrief(task=brief.task, source=brief.source, plan=plan, pages=(), tried=())
        self._tools = CoderTools(self.services.workbench(state["incumbent"], state["baseline"]), shown)
        self._tools.drafts.update(drafts)

    def _next_submission(self, brief: PlannerBrief, iteration: int) -> Submission | None:
        """Work on calls until one submits a draft that the judge can take, and return it; None: the agent has
        finished. BudgetError at a cap."""
        while True:
            self.services.executor.raise_if_stopping()
            if cap := self.services.find_reached_cap():
                raise BudgetError(cap)
            try:
                ticket = self._waiting.get(timeout=POLL_S)
            except queue.Empty:
                continue
            try:
                if not isinstance(ticket.asked, SubmissionArguments):
                    ticket.finish(self._work(ticket, brief))
                    continue
                if ticket.asked.last and not ticket.asked.name:
                    ticket.finish("The run ends with its final benchmark and its report.")
                    return None
                submission = self._take(ticket.asked, brief)
            except _CallRefusedError as refusal:
                ticket.finish(str(refusal), failed=True)
            except StorageError:
                raise  # damaged evidence does not depend on one call
            except (SettingsError, BudgetError, InfrastructureError) as error:
                ticket.finish(f"{ticket.tool} does not work here; the draft is not the cause: {error}", failed=True)
            else:
                self.services.save_record("submission", submission, iteration=iteration)
                self._begin_judging(iteration)
                ticket.finish(f"ticket v{iteration}: the submission is being judged; ask `verdict` for v{iteration}.")
                return submission

    def _work(self, ticket: Ticket, brief: PlannerBrief) -> str:
        asked, tools, services = ticket.asked, self._workbench_tools, self.services
        if ticket.tool in OF_A_DRAFT:
            return self._use(OF_A_DRAFT[ticket.tool], asked)
        if isinstance(asked, TaskArguments):
            return task_text(brief, asked.sections)
        if isinstance(asked, ProfileArguments):
            return profile_text(tools.bench.make_candidate(self._draft(asked.name), ()), services)
        if isinstance(asked, KnowledgeArguments):
            if asked.kind == "query":
                return self._use("search_knowledge", {"query": asked.text})
            if asked.kind == "spec":
                return self._use("lookup_spec", {"metric": asked.text})
            return knowledge_text(asked, brief, services)
        if isinstance(asked, HistoryArguments):
            return history_text(brief, services)
        said = cast(NoteArguments, asked)
        services.save_record("note", said, number=sum(record.kind == "note" for record in services.records))
        services.emit("remark", {"text": f"the agent notes: {said.text}"})
        return "The note is kept."

    @property
    def _workbench_tools(self) -> CoderTools:
        if self._tools is None:
            raise AssertionError("a call is worked on only after the workbench is open")
        return self._tools

    def _use(self, tool: str, arguments: Artifact | Mapping[str, Any]) -> str:
        """Return the answer of one of the coder's tools."""
        given = arguments.model_dump(mode="json") if isinstance(arguments, Artifact) else dict(arguments)
        result = self._workbench_tools.call(ToolCall(id="", name=tool, arguments=given))
        if result.failed:
            raise _CallRefusedError(result.text)
        return result.text

    def _draft(self, name: str) -> Draft:
        drafts = self._workbench_tools.drafts
        if name not in drafts:
            raise _CallRefusedError(
                f"There is no draft {name!r}; there are {', '.join(drafts) or 'none yet'}. `compile` takes a new one."
            )
        return Draft(source=drafts[name], methods=())

    def _take(self, said: SubmissionArguments, brief: PlannerBrief) -> Submission:
        """Return a submission that the judge can take; its draft passes the quick check, so none is wasted."""
        source = self._draft(said.name).source
        if source == brief.source:
            raise _CallRefusedError(f"{said.name} is the incumbent's own code.")
        plan = plan_of(said)
        if faults := method_violations(plan, brief):
            raise _CallRefusedError(f"method {said.method!r}: {'; '.join(faults.values())}.")
        self._use("quick_check", {"name": said.name})
        return Submission(iteration=self.services.ledger.iteration, said=said, source=source)


@contextmanager
def open_bench(services: Services) -> Iterator[Services]:
    """Open the bench of a run whose planner or coder is an agent at the bench, while the block runs; yields the
    services that tell the bench of each verdict. Without such an agent they are the same."""
    models = [agent.model for agent in services.agents.values() if isinstance(agent.model, AgentAtBench)]
    if not models:
        yield services
        return
    bench = Bench(services, models[0].settings.calls)
    for model in models:
        model.answer = bench.answer
    folder = services.workspace.private
    services.emit(
        "remark",
        {
            "text": f"the bench is open: an agent joins it by `python -m graph bench {services.workspace.root}`. The "
            f"agent runs as the same user, so nothing fences it; hidden sizes and seeds are drawn once a submission is "
            f"frozen and serve no other, and `audit` and `verify` find what is forged"
        },
    )
    with listening(folder, bench.call):
        yield replace(services, emit=bench.emit)
