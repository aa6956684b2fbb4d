"""An agent is a role with a model: it returns one answer type for each brief, and every exchange becomes a record."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from agents.artifacts import Analysis, Brief, Drafts, Plan, Queries, Review, RoleName
from agents.models.base import (
    PROVIDERS,
    AnswerReply,
    Model,
    Reply,
    Request,
    ToolCall,
    ToolCallReply,
    ToolResult,
    Turn,
    UnfitReply,
    Usage,
)
from agents.models.credentials import UnsetKeyError
from agents.models.ledger import Ledger, RemainingTime, sum_exchanges
from agents.models.providers.recorded import RecordingModel
from agents.models.redaction import map_texts, remove_keys
from agents.prompting.render import render_blocks
from agents.tool_use.base import Toolbox
from tools.artifacts import Record
from tools.errors import BudgetError, KernelwrightError, ProviderError, SettingsError, UnusableAnswerError
from tools.registry import load_class
from tools.store.records import Records, record_key

AnswerT = TypeVar("AnswerT", Analysis, Drafts, Plan, Queries, Review)
MAX_REPAIRS = 1
"""How often a model is told the faults of its answer and asked again."""
UNUSED_BASE_URL = "http://localhost"
"""Address for a client that will never send a request."""
NO_MORE_TOOLS_TEXT = "No more tools for this answer: give it now."
MAX_CALLS_PER_REPLY = 24
"""Most tool calls of one reply that are executed; `Toolbox.max_turns` limits the replies."""
TOO_MANY_CALLS_TEXT = (
    f"Not executed: only the first {MAX_CALLS_PER_REPLY} calls of a reply are. Call again if you still need this."
)
REPLY_ADAPTER: TypeAdapter[Reply] = TypeAdapter(Reply)


class Agent:
    """One role with its model. A recorded reply to the same request is used first, so that no crash makes it ask (or
    pay) twice."""

    def __init__(
        self,
        role: RoleName,
        model: Model,
        records: Records,
        emit: Callable[[str, Mapping[str, str]], None],
        ledger: Ledger | None = None,
        begin: Callable[[], RemainingTime] | None = None,
    ) -> None:
        """`begin`: called before each exchange; returns the wall time that is left, and raises if no exchange may
        begin."""
        self.role = role
        self.model = model
        self.records = records
        self.emit = emit
        self.ledger = ledger or Ledger(records)
        self.begin = begin

    def ask(
        self,
        brief: Brief,
        answer: type[AnswerT],
        faults: Callable[[AnswerT], tuple[str, ...]] | None = None,
        toolbox: Toolbox | None = None,
    ) -> AnswerT:
        """Return the model's answer to `brief`; ProviderError when there is none, or one of a wrong type.

        `faults` returns the faults of an answer, one sentence each; the model is then told them and asked again, at
        most MAX_REPAIRS times. The last answer is returned even if it has faults, and the role removes the faulty
        part. If an answer cannot be read, its readable parts are returned, else the answer before it, else
        UnusableAnswerError is raised, which the role handles. `toolbox` is offered to a model that can call tools;
        what the model submits through it counts as answered, even if the model then gives no answer of the required
        type.
        """
        turns_left, repairs = toolbox.max_turns if toolbox and self.model.calls_tools else 0, MAX_REPAIRS
        reads_prompt = self.model.reads == "prompt"
        prompt = render_blocks(self.role, brief, answer.__name__, turns_left > 0) if reads_prompt else ()
        request: Request = Request(role=self.role, brief=brief, answer=answer.__name__, prompt=prompt)
        if toolbox and turns_left:
            request = request.model_copy(update={"tools": toolbox.tools})
        refused: tuple[str, ...]
        faulty: AnswerT | None = None
        faults_of = partial(self._reply_faults, answer=answer, faults=faults, toolbox=toolbox)
        while True:
            try:
                reply = self.reply_to(request, faults_of)
            except BudgetError:
                paid_for = faulty or self._submitted_answer(answer, toolbox)
                if paid_for is None:
                    raise
                # The role removes the faulty part.
                return paid_for
            if isinstance(reply, ToolCallReply) and turns_left > 0 and toolbox:
                results = tuple(self._run_tool(call, toolbox) for call in reply.calls[:MAX_CALLS_PER_REPLY])
                results += tuple(
                    _failed_result(call.id, TOO_MANY_CALLS_TEXT) for call in reply.calls[MAX_CALLS_PER_REPLY:]
                )
                turn, turns_left = Turn(said=reply.said, results=results), turns_left - 1
                if not toolbox.is_complete:
                    request = request.model_copy(update={"turns": (*request.turns, turn)})
                    continue
            merged = self._merged_answer(reply, answer, toolbox)
            if merged is not None:
                refused = faults_of(reply)
                if not refused or repairs == 0 or not isinstance(reply, AnswerReply):
                    return merged
                turn, faulty = Turn(said=reply.said, refused=refused), merged
            elif isinstance(reply, ToolCallReply):
                # A model that goes on calling tools after it was told to stop has given no answer.
                refused = (NO_MORE_TOOLS_TEXT,)
                turn = Turn(
                    said=reply.said,
                    results=tuple(_failed_result(call.id, NO_MORE_TOOLS_TEXT) for call in reply.calls),
                    refused=refused,
                )
            else:
                refused = faults_of(reply)
                turn, faulty = Turn(said=reply.said, refused=refused), _usable_part(reply, answer) or faulty
            repairs -= 1
            if repairs < 0:
                return self._usable_or_error(
                    faulty, f"no usable {answer.__name__} was given, even after a second request: {refused[0]}"
                )
            request = request.model_copy(update={"turns": (*request.turns, turn)})

    def reply_to(self, request: Request, faults_of: Callable[[Reply], tuple[str, ...]] = lambda _: ()) -> Reply:
        """Return the reply to a request: from the exchange's record if there is one, else from the model.

        The record holds the reply's faults as `faults_of` returns them: prose in place of an answer, code left out.
        """
        # Tool results are left out of the key: they follow from the calls, and a paid reply must not be lost because
        # another machine words them differently.
        turns_without_results = tuple(
            turn.model_copy(update={"results": tuple(ToolResult(id=r.id, text="") for r in turn.results)})
            for turn in request.turns
        )
        question = request.model_copy(update={"turns": turns_without_results}).model_dump_json()
        key = record_key(
            "exchange", role=self.role, model=self.model.provider, options=self.model.options, request=question
        )
        record = self.records.find(key)
        if record is None:
            left = self._remaining_time()
            ends = time.monotonic() + left.seconds if math.isfinite(left.seconds) else None
            timed = request.model_copy(update={"number": self._count_earlier_conversations(request), "ends": ends})
            with self.ledger.reserve(self.role, self.model, timed) as begun:
                reply = self._ask_model(key, timed, begun, left)
                found = faults_of(reply)
                text = reply.model_dump_json(indent=1)
                record = self._save_record("exchange", key, request, reply.usage, text, begun, found)
            self._emit_finished(record)
            if found:
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                why = f"models.{self.role}: the answer has a fault: {found[0]}{more}"
                self.emit("exchange", {"role": self.role, "state": "faulty", "why": why})
        return REPLY_ADAPTER.validate_json(self.records.blobs.get(record.blobs["reply"]))

    def _remaining_time(self) -> RemainingTime:
        """Return the time that an exchange may take; BudgetError when none is left."""
        left = self.begin() if self.begin else RemainingTime()
        if left.seconds <= 0:
            raise BudgetError(left.exhausted_message)
        return left

    def _count_earlier_conversations(self, request: Request) -> int:
        """Count this run's conversations before the request's own by its records, so that a killed run counts the
        same."""
        opening = {"role": self.role, "purpose": request.purpose, "turn": 0}
        begun = sum(record.kind == "exchange" and opening.items() <= record.payload.items() for record in self.records)
        return begun - (1 if request.turns else 0)

    def _ask_model(self, key: str, request: Request, begun: str, left: RemainingTime) -> Reply:
        """Return the model's reply, with events before and after that show a long wait. A failure's usage is recorded
        too.

        BudgetError if it failed after the time in `left` was over: then the cap is the cause.
        """
        self.emit("exchange", {"role": self.role, "state": "started"})
        start = time.monotonic()
        try:
            return _make_storable(self.model.ask(request))
        except KernelwrightError as error:
            if begun or error.usage is not None:
                took = {"seconds": time.monotonic() - start, **(error.usage or {})}
                self._save_record("failed_exchange", key, request, Usage.model_validate(took), str(error), begun)
            self.emit("exchange", {"role": self.role, "state": "failed"})
            if isinstance(error, ProviderError) and request.ends is not None and time.monotonic() >= request.ends:
                raise BudgetError(left.exhausted_message) from error
            raise

    def _usable_or_error(self, usable: AnswerT | None, why: str) -> AnswerT:
        """Return the usable part of an unreadable answer; UnusableAnswerError if there is none."""
        why = f"models.{self.role}: {why}"
        self.emit("exchange", {"role": self.role, "state": "unusable", "why": why})
        if usable is None:
            raise UnusableAnswerError(why)
        return usable

    def _submitted_answer(self, answer: type[AnswerT], toolbox: Toolbox | None) -> AnswerT | None:
        given = toolbox.merge_answer(None) if toolbox else None
        return given if isinstance(given, answer) else None

    def _merged_answer(self, reply: Reply, answer: type[AnswerT], toolbox: Toolbox | None) -> AnswerT | None:
        """Return a reply's answer merged with earlier submissions; None if there is no answer yet. ProviderError for
        an answer of a wrong type."""
        given = reply.answer if isinstance(reply, AnswerReply) else None
        if toolbox and (given is None or isinstance(given, answer)):
            given = toolbox.merge_answer(given)
        if given is not None and not isinstance(given, answer):
            said = type(given).__name__
            raise ProviderError(f"models.{self.role}: the provider answered with {said} instead of {answer.__name__}")
        return given

    def _reply_faults(
        self,
        reply: Reply,
        answer: type[AnswerT],
        faults: Callable[[AnswerT], tuple[str, ...]] | None,
        toolbox: Toolbox | None,
    ) -> tuple[str, ...]:
        if not isinstance(reply, AnswerReply):
            return reply.faults if isinstance(reply, UnfitReply) else ()
        # An answer of a wrong type is refused only after it is recorded, because it is paid.
        merged = self._merged_answer(reply, answer, toolbox) if isinstance(reply.answer, answer) else None
        return faults(merged) if faults and merged else ()

    def _run_tool(self, call: ToolCall, toolbox: Toolbox) -> ToolResult:
        # Unreadable arguments fail this call only: the conversation continues.
        result = ToolResult(id=call.id, text=call.fault, failed=True) if call.fault else toolbox.call(call)
        self.emit("tool", {"role": self.role, "tool": call.name, "state": "failed" if result.failed else "done"})
        return result

    def _save_record(
        self,
        kind: str,
        key: str,
        request: Request,
        usage: Usage,
        reply_text: str,
        begun: str,
        faults: tuple[str, ...] = (),
    ) -> Record:
        blobs = {
            "request": self.records.blobs.put(request.model_dump_json(indent=1)),
            "reply": self.records.blobs.put(reply_text),
        }
        payload = {
            "role": self.role,
            "purpose": request.purpose,
            "turn": len(request.turns),
            "number": 1 + sum(record.kind in ("exchange", "failed_exchange") for record in self.records),
            "provider": self.model.provider,
            "iteration": self.ledger.iteration,
            "usage": usage.model_dump(),
            "usd": self.ledger.cost_usd(self.model, usage),
            "begun": begun,
            **({"faults": list(faults)} if faults else {}),
        }
        if kind == "failed_exchange":
            # A failure answers no request, so each one gets a key of its own.
            key = record_key(kind, question=key, before=sum(record.kind == kind for record in self.records))
        return self.records.add(Record(kind=kind, key=key, payload=payload, blobs=blobs))

    def _emit_finished(self, record: Record) -> None:
        """Emit an event for a finished exchange, with the run's spending on models."""
        spending = sum_exchanges([record])
        details = {"role": self.role, "state": "finished", "record": record.id, "s": f"{spending.seconds:.2f}"}
        if spending.is_paid:
            tokens = "unknown" if spending.unseen else str(spending.tokens)
            details |= {"tokens": tokens, "cost": spending.cost_text(), **self.ledger.spending().event_details()}
        self.emit("exchange", details)


def _usable_part(reply: Reply, answer: type[AnswerT]) -> AnswerT | None:
    return reply.usable if isinstance(reply, UnfitReply) and isinstance(reply.usable, answer) else None


def _failed_result(call: str, why: str) -> ToolResult:
    return ToolResult(id=call, text=why, failed=True)


def _make_storable(reply: Reply) -> Reply:
    """Return `reply` without lone surrogates, which UTF-8 cannot hold, and without text that looks like a key, which
    would block every later commit of the run: a paid reply must not be lost for either reason."""
    with suppress(PydanticSerializationError):
        text = reply.model_dump_json()
        if remove_keys(text) == text:
            return reply
    return REPLY_ADAPTER.validate_python(
        map_texts(reply.model_dump(), lambda text: remove_keys(text.encode(errors="replace").decode()))
    )


def open_model(
    role: str,
    choice: Mapping[str, Any],
    folder: Path | None = None,
    *,
    entry: str | None = None,
    unset: list[str] | None = None,
) -> Model:
    """Return the model that a config entry `{provider: name, ...options}` describes; SettingsError if there is none.

    `folder`: the run's workspace, for a provider that stores files there. `entry`: the key below `models:`; default:
    the role. The option `record: path` of any provider saves its replies for the provider `recorded`. `unset`: a list
    that receives the sentence about a key that is not set; such a model can only estimate costs.
    """
    options, entry = dict(choice), entry or role
    provider, script = str(options.pop("provider")), options.pop("record", None)
    kind = load_class(PROVIDERS, provider, Model, key=f"models.{entry}.provider")
    try:
        model = kind(options)
    except SettingsError as error:
        # A provider does not know the role that uses it.
        said = re.sub(r"^models(?=[.:])", f"models.{entry}", str(error), flags=re.MULTILINE)
        if unset is None or not isinstance(error, UnsetKeyError):
            raise SettingsError(said) from error
        unset.append(said)
        model = kind({**options, "api_key_env": None, "base_url": options.get("base_url") or UNUSED_BASE_URL})
    model.folder = folder
    return model if script is None else RecordingModel(model, entry, script)
