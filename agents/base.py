"""An agent is a role with a model: it owes one answer type for each brief, and every exchange is kept as a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter

from agents.artifacts import Analysis, Brief, Drafts, Plan, Queries, Review, RoleName
from agents.models.base import PROVIDERS, Answered, Called, Model, Reply, Request, ToolCall, ToolResult, Turn
from agents.models.ledger import Ledger
from agents.prompting import blocks
from agents.toolbox import Toolbox
from tools.artifacts import Record
from tools.errors import ProviderError
from tools.records import Records, key
from tools.registry import load

AnswerT = TypeVar("AnswerT", Analysis, Drafts, Plan, Queries, Review)
REPAIRS = 1
"""Times that a model is told what is wrong with its answer and asked again."""
ENOUGH = "No more tools for this answer: give it now."
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)


class Agent:
    """One role. A reply is looked up by the hash of its request first, so that a crash never asks (or pays) twice."""

    def __init__(
        self, role: RoleName, model: Model, records: Records, emit: Callable[[str, Mapping[str, str]], None], ledger: Ledger | None = None
    ) -> None:
        self.role = role
        self.model = model
        self.records = records
        self.emit = emit
        self.ledger = ledger or Ledger()

    def ask(
        self,
        brief: Brief,
        answer: type[AnswerT],
        faults: Callable[[AnswerT], tuple[str, ...]] | None = None,
        toolbox: Toolbox | None = None,
    ) -> AnswerT:
        """The model's answer to `brief`; ProviderError when none can be had that is of the type owed.

        `faults` says what is wrong with an answer, one sentence each: the model is then asked again with these, REPAIRS times at most.
        What comes last is returned even so, and the role takes the faulty part out. `toolbox` is offered to a model that can call tools.
        """
        prompt = blocks(self.role, brief, answer.__name__) if self.model.reads == "prompt" else ()
        request: Request = Request(role=self.role, brief=brief, answer=answer.__name__, prompt=prompt)
        rounds, repairs = toolbox.rounds if toolbox and self.model.calls_tools else 0, REPAIRS
        if toolbox and rounds:
            request = request.model_copy(update={"tools": toolbox.tools})
        refused: tuple[str, ...]
        while True:
            reply, _ = self.exchange(request)
            if isinstance(reply, Called):
                turn = self._served(reply, toolbox if rounds > 0 else None)
                # A model that goes on calling tools after it was told to stop has given no answer.
                rounds, repairs = rounds - 1, repairs - (rounds <= 0)
                refused = (ENOUGH,)
            elif isinstance(reply, Answered):
                if not isinstance(reply.answer, answer):
                    given = type(reply.answer).__name__
                    raise ProviderError(f"models.{self.role}: the provider answered with {given} where {answer.__name__} is owed")
                refused = faults(reply.answer) if faults else ()
                if not refused or repairs == 0:
                    return reply.answer
                turn, repairs = Turn(said=reply.said, refused=refused), repairs - 1
            else:
                refused, repairs = reply.faults, repairs - 1
                turn = Turn(said=reply.said, refused=refused)
            if repairs < 0:
                raise ProviderError(f"models.{self.role}: no usable {answer.__name__} was given, even when asked again: {refused[0]}")
            request = request.model_copy(update={"turns": (*request.turns, turn)})

    def exchange(self, request: Request) -> tuple[Reply, Record]:
        """The reply and the record of the exchange (request and reply as blobs, for review)."""
        asked = key(
            "exchange", role=self.role, model=type(self.model).__name__, options=self.model.options, request=request.model_dump_json()
        )
        record = self.records.find(asked)
        if record is None:
            self.ledger.reserve(self.role, self.model.bound(request))
            reply = self.model.ask(request)
            record = self._keep(asked, request, reply)
            self.ledger.settle(self.role, reply.usage)
        return REPLY.validate_json(self.records.blobs.get(record.blobs["reply"])), record

    def _served(self, reply: Called, toolbox: Toolbox | None) -> Turn:
        """The results of what was called; without a toolbox the model is told that it has had enough."""
        if toolbox is None:
            return Turn(said=reply.said, results=tuple(_refusal(call.id) for call in reply.calls), refused=(ENOUGH,))
        return Turn(said=reply.said, results=tuple(_unreadable(call) or toolbox.call(call) for call in reply.calls))

    def _keep(self, asked: str, request: Request, reply: Reply) -> Record:
        blobs = {
            "request": self.records.blobs.put(request.model_dump_json(indent=1)),
            "reply": self.records.blobs.put(reply.model_dump_json(indent=1)),
        }
        payload = {"role": self.role, "provider": type(self.model).__name__, "usage": reply.usage.model_dump()}
        record = self.records.add(Record(kind="exchange", key=asked, payload=payload, blobs=blobs))
        self.emit("exchange", {"role": self.role, "record": record.id})
        return record


def _unreadable(call: ToolCall) -> ToolResult | None:
    return ToolResult(id=call.id, text=call.fault, failed=True) if call.fault else None


def _refusal(call: str) -> ToolResult:
    return ToolResult(id=call, text=ENOUGH, failed=True)


def open_model(role: str, choice: Mapping[str, Any]) -> Model:
    """The provider that a config entry `{provider: name, ...options}` names; SettingsError when there is none such."""
    options = dict(choice)
    provider = str(options.pop("provider"))
    return load(PROVIDERS, provider, Model, key=f"models.{role}.provider")(options)  # type: ignore[type-abstract]
