"""Exchanges written down as they happen (`record: path`, beside any provider's options), and the provider that plays
them again.

A script is JSON Lines, one exchange a line, and can be read and mended by hand. Three things make it last longer than
the run that it came from. Each line stands under its role, its purpose (an ablation, say), the number of the
conversation and the turn in it: a replay in which noise decides otherwise, so that something is not asked or is asked
again, does not shift the answers behind it. An answer that is refused now and was not then (it names a rule that fires
on one machine alone) is given once more, so that the role takes out what does not hold here. And ids of records, which
hold measured times and so differ from run to run, are written as `<record:N>`, the N-th one that the request names
(those of `Brief.records` first), and read as the N-th that the replay's request names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agents.artifacts import AnalystBrief, PlannerBrief, RoleName
from agents.models import options as given
from agents.models import redaction
from agents.models.base import Answered, Called, Model, Reply, Request, Usage
from tools.artifacts import Artifact, digest
from tools.errors import ProviderError, SettingsError
from tools.store.records import write_atomically

ID = re.compile(r"(?<![\w.])[0-9a-f]{16}\b")
"""No fraction of a number, which may have as many digits."""
ALIAS = re.compile(r"<record:(\d+)>")
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)
Slot = tuple[str, str, int, int]
"""Role, purpose, number of the conversation, turn."""


class Line(Artifact):
    """One exchange of a script."""

    role: RoleName
    purpose: str = ""
    number: int
    """Of the conversation with this role for this purpose, from 0."""
    turn: int
    """In the conversation, from 0."""
    provider: str
    model: str
    request: str
    """sha256 of what was asked, which the run's own records hold in full."""
    reply: Reply

    @property
    def slot(self) -> Slot:
        """Where it stands."""
        return (self.role, self.purpose, self.number, self.turn)


class Options(given.Options):
    """Of the provider `recorded`."""

    path: str
    """The script."""


class Recorded(Model):
    """Plays a script again; it takes no time, and nothing is paid for it. ProviderError where the script has no
    answer."""

    bills = "nothing"

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.path = Path(given.read("recorded", Options, options).path)
        if not self.path.is_file():
            raise SettingsError(f"models.path: {self.path} is no file; name one that `record: <path>` wrote")
        self.script = {line.slot: (number, line) for number, line in enumerate(read(self.path), 1)}
        self.calls_tools = any(isinstance(line.reply, Called) for _, line in self.script.values())

    def ask(self, request: Request) -> Reply:
        """What was answered then, with the records of now. ProviderError naming role and line where there is no such
        answer."""
        found = self.script.get(slot(request)) or self._last_answer(request)
        if found is None:
            who = f"{request.role} ({request.purpose})" if request.purpose else request.role
            place = f"conversation {request.number + 1}, turn {len(request.turns) + 1}"
            raise ProviderError(
                f"models.{request.role}: {self.path} holds no answer of {who} in {place}; record the run again, or "
                f"make it shorter"
            )
        number, line = found
        ids = identities(request)

        def known(alias: re.Match[str]) -> str:
            nth = int(alias[1])
            if not 1 <= nth <= len(ids):
                raise ProviderError(
                    f"models.{request.role}: {self.path}:{number} names record {nth} of what it was asked, and this "
                    f"run names {len(ids)}; "
                    "record the run again"
                )
            return ids[nth - 1]

        reply = _rewritten(line.reply, lambda text: ALIAS.sub(known, text))
        return reply.model_copy(update={"usage": Usage()})

    def _last_answer(self, request: Request) -> tuple[int, Line] | None:
        """The conversation's last answer, where `request` refuses an answer that was not refused in the run that was
        recorded."""
        if not request.turns or not request.turns[-1].refused:
            return None
        conversation = slot(request)[:3]
        said = [(line.turn, number, line) for number, line in self.script.values() if line.slot[:3] == conversation]
        turn, number, line = max(said, default=(-1, 0, None), key=lambda one: one[0])
        return (number, line) if line and turn < len(request.turns) and isinstance(line.reply, Answered) else None


class Recording(Model):
    """Writes down what another model answers, redacted, and passes it on as it is."""

    def __init__(self, inner: Model, role: str, path: object) -> None:
        """SettingsError when `path` cannot be written to."""
        super().__init__(inner.options)
        if not isinstance(path, str) or not path:
            raise SettingsError(f"models.{role}.record: must be the path of a file, not {path!r}; change it there")
        self.inner, self.path = inner, Path(path)
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise SettingsError(
                f"models.{role}.record: {self.path} cannot be written; name a file in a folder that exists"
            )
        self.reads, self.calls_tools, self.folder, self.bills = (
            inner.reads,
            inner.calls_tools,
            inner.folder,
            inner.bills,
        )

    @property
    def provider(self) -> str:
        """The one that answers."""
        return self.inner.provider

    def bound(self, request: Request) -> Usage:
        """Of the one that answers."""
        return self.inner.bound(request)

    def assumed_bound(self, request: Request) -> Usage:
        """Of the one that answers."""
        return self.inner.assumed_bound(request)

    def ask(self, request: Request) -> Reply:
        """Its reply; SettingsError, before it is asked, when the file holds an exchange of another run in this
        place."""
        asked = digest(request.model_dump_json(exclude={"number"}))
        lines = {line.slot: line for line in read(self.path)} if self.path.exists() and self.path.stat().st_size else {}
        there = lines.get(slot(request))
        # The same request: a kill came between this file and the run's records, and what is answered now takes the
        # place.
        if there is not None and there.request != asked:
            raise SettingsError(
                f"models.{request.role}.record: {self.path} already holds another run's conversation "
                f"{request.number + 1}; "
                "name a new file, or remove that one"
            )
        reply = self.inner.ask(request)
        line = Line(
            role=request.role,
            purpose=request.purpose,
            number=request.number,
            turn=len(request.turns),
            provider=self.provider,
            model=reply.usage.model,
            request=asked,
            reply=_portable(reply, identities(request)),
        )
        text = "".join(f"{one.model_dump_json()}\n" for one in {**lines, line.slot: line}.values())
        write_atomically(self.path, text.encode())
        return reply


def read(path: Path) -> tuple[Line, ...]:
    """All exchanges of a script; SettingsError naming the line that is none."""
    lines = []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path}: cannot be read as a script of exchanges ({error}); give a readable UTF-8 file"
        ) from error
    if not text.strip():
        raise SettingsError(f"{path}: holds no exchange; name a file that `record: <path>` wrote, or remove it")
    for number, one in enumerate(text.rstrip().split("\n"), 1):
        try:
            lines.append(Line.model_validate_json(one))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise SettingsError(
                f"{path}:{number}: is no exchange ({where}: {first['msg']}); mend the line or record again"
            ) from None
    return tuple(lines)


def slot(request: Request) -> Slot:
    """Where the exchange stands in a script."""
    return (request.role, request.purpose, request.number, len(request.turns))


def identities(request: Request) -> tuple[str, ...]:
    """Ids of the records that a request names, in an order that two runs of one task share as far as they can."""
    listed = request.brief.records if isinstance(request.brief, (AnalystBrief, PlannerBrief)) else ()
    told = (result.text for turn in request.turns for result in turn.results)
    return tuple(
        dict.fromkeys(
            (*listed, *(found for text in (request.brief.model_dump_json(), *told) for found in ID.findall(text)))
        )
    )


def _portable(reply: Reply, ids: tuple[str, ...]) -> Reply:
    """`reply` as it may leave the machine, and as another run can use it."""
    places = {identity: f"<record:{nth}>" for nth, identity in enumerate(ids, 1)}
    return _rewritten(
        reply, lambda text: ID.sub(lambda found: places.get(found[0], found[0]), redaction.redacted(text))
    )


def _rewritten(reply: Reply, change: Callable[[str], str]) -> Reply:
    return REPLY.validate_python(redaction.each_text(reply.model_dump(mode="json"), change))
