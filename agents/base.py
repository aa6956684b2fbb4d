"""An agent is a role with a model: it owes one answer type for each brief, and every exchange is kept as a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agents.artifacts import Analysis, Brief, Drafts, Plan, Queries, Review, RoleName
from agents.models.base import PROVIDERS, Answered, Model, Request
from tools.artifacts import Record
from tools.errors import InfrastructureError
from tools.records import Records, key
from tools.registry import load

AnswerT = TypeVar("AnswerT", Analysis, Drafts, Plan, Queries, Review)
REPAIRS = 1
"""Times that a model is told what is wrong with its answer and asked again."""


class Agent:
    """One role. A reply is looked up by the hash of its request first, so that a crash never asks (or pays) twice."""

    def __init__(self, role: RoleName, model: Model, records: Records, emit: Callable[[str, Mapping[str, str]], None]) -> None:
        self.role = role
        self.model = model
        self.records = records
        self.emit = emit

    def ask(self, brief: Brief, answer: type[AnswerT], faults: Callable[[AnswerT], tuple[str, ...]] | None = None) -> AnswerT:
        """The model's answer to `brief`; InfrastructureError when it is of another type than the one owed.

        `faults` says what is wrong with an answer, one sentence each: the model is then asked again with these, REPAIRS times at most.
        What comes last is returned even so, and the role takes the faulty part out.
        """
        given, _ = self.exchange(brief, answer)
        for _ in range(REPAIRS):
            refused = faults(given) if faults else ()
            if not refused:
                break
            given, _ = self.exchange(brief, answer, refused)
        return given

    def exchange(self, brief: Brief, answer: type[AnswerT], refused: tuple[str, ...] = ()) -> tuple[AnswerT, Record]:
        """The answer and the record of the exchange (request and reply as blobs, for review)."""
        request = Request(role=self.role, brief=brief, answer=answer.__name__, refused=refused)
        asked = key(
            "exchange", role=self.role, model=type(self.model).__name__, options=self.model.options, request=request.model_dump_json()
        )
        record = self.records.find(asked)
        if record is None:
            record = self._keep(asked, request, self.model.ask(request))
        reply = Answered.model_validate_json(self.records.blobs.get(record.blobs["reply"]))
        if not isinstance(reply.answer, answer):
            given = type(reply.answer).__name__
            raise InfrastructureError(f"models.{self.role}: the provider answered with {given} where {answer.__name__} is owed")
        return reply.answer, record

    def _keep(self, asked: str, request: Request, reply: Answered) -> Record:
        blobs = {
            "request": self.records.blobs.put(request.model_dump_json(indent=1)),
            "reply": self.records.blobs.put(reply.model_dump_json(indent=1)),
        }
        payload = {"role": self.role, "provider": type(self.model).__name__, "usage": reply.usage.model_dump()}
        record = self.records.add(Record(kind="exchange", key=asked, payload=payload, blobs=blobs))
        self.emit("exchange", {"role": self.role, "record": record.id})
        return record


def open_model(role: str, choice: Mapping[str, Any]) -> Model:
    """The provider that a config entry `{provider: name, ...options}` names; SettingsError when there is none such."""
    options = dict(choice)
    provider = str(options.pop("provider"))
    return load(PROVIDERS, provider, Model, key=f"models.{role}.provider")(options)  # type: ignore[type-abstract]
