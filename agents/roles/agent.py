"""An agent is a role with a model: it owes one answer type for each brief, and every exchange is kept as a record."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from agents.artifacts import Analysis, Brief, Drafts, Plan, Queries, Review, RoleName
from agents.models.base import (
    PROVIDERS,
    Answered,
    Called,
    Model,
    Reply,
    Request,
    ToolCall,
    ToolResult,
    Turn,
    Unfit,
    Usage,
)
from agents.models.credentials import UnsetKeyError
from agents.models.ledger import Ledger, Left, total
from agents.models.providers.recorded import Recording
from agents.models.redaction import each_text, without_keys
from agents.prompting.render import blocks
from agents.tool_use.base import Toolbox
from tools.artifacts import Record
from tools.errors import BudgetError, KernelwrightError, ProviderError, SettingsError, UnusableAnswerError
from tools.registry import load_class
from tools.store.records import Records, record_key

AnswerT = TypeVar("AnswerT", Analysis, Drafts, Plan, Queries, Review)
REPAIRS = 1
"""Times that a model is told what is wrong with its answer and asked again."""
NOWHERE = "http://localhost"
"""In place of a server that is not to be asked."""
ENOUGH = "No more tools for this answer: give it now."
CALLS = 24
"""Tool calls of one reply that are done; the rounds bound the replies."""
MANY = f"Not done: of one reply the first {CALLS} calls are. Ask again for what is still wanted."
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)


class Agent:
    """One role. A reply is looked up by the hash of its request first, so that a crash never asks (or pays) twice."""

    def __init__(
        self,
        role: RoleName,
        model: Model,
        records: Records,
        emit: Callable[[str, Mapping[str, str]], None],
        ledger: Ledger | None = None,
        begin: Callable[[], Left] | None = None,
    ) -> None:
        """`begin`: called before each exchange, says what wall time it may take, and raises where none shall begin."""
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
        """The model's answer to `brief`; ProviderError when none was to be had, or one of another type than is owed.

        `faults` says what is wrong with an answer, one sentence each: the model is then asked again with these, REPAIRS
        times at most. What comes last is returned even so, and the role takes the faulty part out. Of what cannot be
        read as an answer the parts that can be are returned, else the answer before it, else UnusableAnswerError is
        raised, with which the role goes on. `toolbox` is offered to a model that can call tools; what was handed in
        through it counts as answered, also where the model then ends without an answer of the type owed.
        """
        prompt = blocks(self.role, brief, answer.__name__) if self.model.reads == "prompt" else ()
        request: Request = Request(role=self.role, brief=brief, answer=answer.__name__, prompt=prompt)
        rounds, repairs = toolbox.rounds if toolbox and self.model.calls_tools else 0, REPAIRS
        if toolbox and rounds:
            request = request.model_copy(update={"tools": toolbox.tools})
        refused: tuple[str, ...]
        faulty: AnswerT | None = None
        while True:
            try:
                reply = self.exchange(request)
            except BudgetError:
                paid_for = faulty or self._handed_in(answer, toolbox)
                if paid_for is None:
                    raise
                # What is wrong with it the role takes out.
                return paid_for
            if isinstance(reply, Called) and rounds > 0 and toolbox:
                results = tuple(self._served(call, toolbox) for call in reply.calls[:CALLS])
                results += tuple(_refusal(call.id, MANY) for call in reply.calls[CALLS:])
                turn, rounds = Turn(said=reply.said, results=results), rounds - 1
                if not toolbox.complete:
                    request = request.model_copy(update={"turns": (*request.turns, turn)})
                    continue
            given = self._given(reply, answer, toolbox)
            if given is not None:
                refused = faults(given) if faults else ()
                if not refused or repairs == 0 or not isinstance(reply, Answered):
                    return given
                turn, faulty = Turn(said=reply.said, refused=refused), given
            elif isinstance(reply, Called):
                # A model that goes on calling tools after it was told to stop has given no answer.
                refused = (ENOUGH,)
                turn = Turn(
                    said=reply.said, results=tuple(_refusal(call.id, ENOUGH) for call in reply.calls), refused=refused
                )
            else:
                refused = reply.faults if isinstance(reply, Unfit) else ()
                turn, faulty = Turn(said=reply.said, refused=refused), _usable(reply, answer) or faulty
            repairs -= 1
            if repairs < 0:
                return self._rest(faulty, f"no usable {answer.__name__} was given, even when asked again: {refused[0]}")
            request = request.model_copy(update={"turns": (*request.turns, turn)})

    def exchange(self, request: Request) -> Reply:
        """The reply; that of the exchange's record where there is one."""
        # What tools said is left out: it follows from the calls, and must not make a paid reply lost where a machine
        # says it otherwise.
        heard = tuple(
            turn.model_copy(update={"results": tuple(ToolResult(id=r.id, text="") for r in turn.results)})
            for turn in request.turns
        )
        put = request.model_copy(update={"turns": heard}).model_dump_json()
        asked = record_key(
            "exchange", role=self.role, model=self.model.provider, options=self.model.options, request=put
        )
        record = self.records.find(asked)
        if record is None:
            left = self._left()
            ends = time.monotonic() + left.seconds if math.isfinite(left.seconds) else None
            timed = request.model_copy(update={"number": self._before(request), "ends": ends})
            with self.ledger.reserved(self.role, self.model, timed) as begun:
                reply = self._asked(asked, timed, begun, left)
                record = self._keep("exchange", asked, request, reply.usage, reply.model_dump_json(indent=1), begun)
            self._tell(record)
        return REPLY.validate_json(self.records.blobs.get(record.blobs["reply"]))

    def _left(self) -> Left:
        """The time that an exchange may take; BudgetError when there is none."""
        left = self.begin() if self.begin else Left()
        if left.seconds <= 0:
            raise BudgetError(left.reached)
        return left

    def _before(self, request: Request) -> int:
        """Conversations of this run before the request's own; counted in the records, so that it is the same after a
        kill."""
        opening = {"role": self.role, "purpose": request.purpose, "turn": 0}
        begun = sum(record.kind == "exchange" and opening.items() <= record.payload.items() for record in self.records)
        return begun - (1 if request.turns else 0)

    def _asked(self, asked: str, request: Request, begun: str, left: Left) -> Reply:
        """The model's reply; the events around it tell a long wait from a pause of the run. What a failure took is put
        on record too.

        BudgetError where it failed with the time up that was `left`: what an exchange without time fails of is the cap.
        """
        self.emit("exchange", {"role": self.role, "state": "started"})
        start = time.monotonic()
        try:
            return _keepable(self.model.ask(request))
        except KernelwrightError as error:
            if begun or error.usage is not None:
                took = {"seconds": time.monotonic() - start, **(error.usage or {})}
                self._keep("failed_exchange", asked, request, Usage.model_validate(took), str(error), begun)
            self.emit("exchange", {"role": self.role, "state": "failed"})
            if isinstance(error, ProviderError) and request.ends is not None and time.monotonic() >= request.ends:
                raise BudgetError(left.reached) from error
            raise

    def _rest(self, usable: AnswerT | None, why: str) -> AnswerT:
        """What is left of an answer that cannot be read; UnusableAnswerError where nothing is."""
        why = f"models.{self.role}: {why}"
        self.emit("exchange", {"role": self.role, "state": "unusable", "why": why})
        if usable is None:
            raise UnusableAnswerError(why)
        return usable

    def _handed_in(self, answer: type[AnswerT], toolbox: Toolbox | None) -> AnswerT | None:
        given = toolbox.answered(None) if toolbox else None
        return given if isinstance(given, answer) else None

    def _given(self, reply: Reply, answer: type[AnswerT], toolbox: Toolbox | None) -> AnswerT | None:
        """What a reply amounts to with what was handed in before; None: no answer yet. ProviderError for one of
        another type."""
        given = reply.answer if isinstance(reply, Answered) else None
        if toolbox and (given is None or isinstance(given, answer)):
            given = toolbox.answered(given)
        if given is not None and not isinstance(given, answer):
            said = type(given).__name__
            raise ProviderError(
                f"models.{self.role}: the provider answered with {said} where {answer.__name__} is owed"
            )
        return given

    def _served(self, call: ToolCall, toolbox: Toolbox) -> ToolResult:
        # Arguments that cannot be read fail the call alone: the conversation goes on.
        result = ToolResult(id=call.id, text=call.fault, failed=True) if call.fault else toolbox.call(call)
        self.emit("tool", {"role": self.role, "tool": call.name, "state": "failed" if result.failed else "done"})
        return result

    def _keep(self, kind: str, asked: str, request: Request, usage: Usage, said: str, begun: str) -> Record:
        blobs = {
            "request": self.records.blobs.put(request.model_dump_json(indent=1)),
            "reply": self.records.blobs.put(said),
        }
        payload = {
            "role": self.role,
            "purpose": request.purpose,
            "turn": len(request.turns),
            "number": 1 + sum(record.kind in ("exchange", "failed_exchange") for record in self.records),
            "provider": self.model.provider,
            "iteration": self.ledger.iteration,
            "usage": usage.model_dump(),
            "usd": self.ledger.cost(self.model, usage),
            "begun": begun,
        }
        if kind == "failed_exchange":
            # No answer to what was asked, and one more each time.
            asked = record_key(kind, question=asked, before=sum(record.kind == kind for record in self.records))
        return self.records.add(Record(kind=kind, key=asked, payload=payload, blobs=blobs))

    def _tell(self, record: Record) -> None:
        """The exchange, and what the run has spent on models with it."""
        took = total([record])
        details = {"role": self.role, "state": "finished", "record": record.id, "s": f"{took.seconds:.2f}"}
        if took.paid:
            tokens = "unknown" if took.unseen else str(took.tokens)
            details |= {"tokens": tokens, "cost": took.cost(), **self.ledger.spent().told()}
        self.emit("exchange", details)


def _usable(reply: Reply, answer: type[AnswerT]) -> AnswerT | None:
    return reply.usable if isinstance(reply, Unfit) and isinstance(reply.usable, answer) else None


def _refusal(call: str, why: str) -> ToolResult:
    return ToolResult(id=call, text=why, failed=True)


def _keepable(reply: Reply) -> Reply:
    """`reply` without halves of characters, which no UTF-8 file can hold, and without what looks like a key, for
    which every later commit of the run would be refused: a paid reply must not be lost for either."""
    with suppress(PydanticSerializationError):
        text = reply.model_dump_json()
        if without_keys(text) == text:
            return reply
    return REPLY.validate_python(
        each_text(reply.model_dump(), lambda text: without_keys(text.encode(errors="replace").decode()))
    )


def open_model(
    role: str,
    choice: Mapping[str, Any],
    folder: Path | None = None,
    *,
    entry: str | None = None,
    unset: list[str] | None = None,
) -> Model:
    """The provider that a config entry `{provider: name, ...options}` names; SettingsError when there is none such.

    `folder`: of the run's workspace, for a provider that keeps files there. `entry`: where under `models:` the choice
    stands; default: under the role. The option `record: path`, which goes with any provider, writes down what it
    answers, for the provider `recorded`. `unset`: takes the sentence about a key that is not set; such a model can be
    asked what it would cost, and nothing else.
    """
    options, entry = dict(choice), entry or role
    provider, script = str(options.pop("provider")), options.pop("record", None)
    kind = load_class(PROVIDERS, provider, Model, key=f"models.{entry}.provider")
    try:
        model = kind(options)
    except SettingsError as error:
        # A provider does not know for whom it is opened.
        said = re.sub(r"^models(?=[.:])", f"models.{entry}", str(error), flags=re.MULTILINE)
        if unset is None or not isinstance(error, UnsetKeyError):
            raise SettingsError(said) from error
        unset.append(said)
        model = kind({**options, "api_key_env": None, "base_url": options.get("base_url") or NOWHERE})
    model.folder = folder
    return model if script is None else Recording(model, entry, script)
