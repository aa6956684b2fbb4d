"""Saves exchanges to a script (`record: path`, an option of any provider), and the provider `recorded` that replays it.

A script is JSON Lines with one exchange per line; a person can read and edit it. Three properties let it serve other
runs than the one that it came from. First, each line has a slot: role, purpose (such as ablation), number of the
conversation and turn in it. So a replay in which noise leads to other questions still finds the later answers. Second,
an answer that is refused now and was accepted then (it names a rule that fires on one machine only) is given once more,
so that the role removes what does not hold here. Third, ids of records, which depend on measured times and so differ
between runs, are written as `<record:N>`, the N-th id that the request names (those of `Brief.records` first), and
read as the N-th id that the replay's request names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agents.artifacts import AnalystBrief, PlannerBrief, RoleName
from agents.models import options as provider_options
from agents.models import redaction
from agents.models.base import AnswerReply, Model, Reply, Request, ToolCallReply, Usage
from tools.artifacts import Artifact, digest
from tools.errors import ProviderError, SettingsError
from tools.store.blobs import write_atomically

RECORD_ID_PATTERN = re.compile(r"(?<![\w.])[0-9a-f]{16}\b")
"""Matches the id of a record, but no fraction of a number, which may have as many digits."""
ALIAS_PATTERN = re.compile(r"<record:(\d+)>")
REPLY_ADAPTER: TypeAdapter[Reply] = TypeAdapter(Reply)
ScriptSlot = tuple[str, str, int, int]
"""Role, purpose, number of the conversation, and turn."""


class ScriptLine(Artifact):
    """One exchange of a script."""

    role: RoleName
    purpose: str = ""
    number: int
    """Number of the conversation with this role for this purpose, from 0."""
    turn: int
    """Turn in the conversation, from 0."""
    provider: str
    model: str
    request: str
    """sha256 of the request, which the run's own records hold in full."""
    reply: Reply

    @property
    def slot(self) -> ScriptSlot:
        """The slot of this exchange."""
        return (self.role, self.purpose, self.number, self.turn)


class RecordedOptions(provider_options.ProviderOptions):
    """Options of the provider `recorded`."""

    path: str
    """Path of the script."""


class Recorded(Model):
    """Replays a script without time and cost. ProviderError when the script has no answer to a request."""

    bills = "nothing"

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.path = Path(provider_options.read_options("recorded", RecordedOptions, options).path)
        if not self.path.is_file():
            raise SettingsError(f"models.path: {self.path} is not a file; name one that `record: <path>` wrote")
        self.script = {line.slot: (number, line) for number, line in enumerate(read_script(self.path), 1)}
        self.calls_tools = any(isinstance(line.reply, ToolCallReply) for _, line in self.script.values())

    def ask(self, request: Request) -> Reply:
        """Return the recorded answer with this run's record ids. ProviderError names role and line if there is none."""
        found = self.script.get(slot_of(request)) or self._last_answer(request)
        if found is None:
            who = f"{request.role} ({request.purpose})" if request.purpose else request.role
            place = f"conversation {request.number + 1}, turn {len(request.turns) + 1}"
            raise ProviderError(
                f"models.{request.role}: {self.path} holds no answer of {who} in {place}; record the run again, or "
                f"make it shorter"
            )
        number, line = found
        ids = named_record_ids(request)

        def known(alias: re.Match[str]) -> str:
            nth = int(alias[1])
            if not 1 <= nth <= len(ids):
                raise ProviderError(
                    f"models.{request.role}: {self.path}:{number} names record {nth} of what it was asked, and this "
                    f"run names {len(ids)}; "
                    "record the run again"
                )
            return ids[nth - 1]

        reply = _map_reply_texts(line.reply, lambda text: ALIAS_PATTERN.sub(known, text))
        return reply.model_copy(update={"usage": Usage()})

    def _last_answer(self, request: Request) -> tuple[int, ScriptLine] | None:
        """Return the conversation's last answer if `request` refuses one that the recorded run accepted; else None."""
        if not request.turns or not request.turns[-1].refused:
            return None
        conversation = slot_of(request)[:3]
        said = [(line.turn, number, line) for number, line in self.script.values() if line.slot[:3] == conversation]
        turn, number, line = max(said, default=(-1, 0, None), key=lambda one: one[0])
        return (number, line) if line and turn < len(request.turns) and isinstance(line.reply, AnswerReply) else None


class RecordingModel(Model):
    """Saves the redacted replies of another model to a script, and returns them unchanged."""

    def __init__(self, inner: Model, role: str, path: object) -> None:
        """SettingsError when `path` is not writable."""
        super().__init__(inner.options)
        if not isinstance(path, str) or not path:
            raise SettingsError(f"models.{role}.record: must be the path of a file, not {path!r}; correct it")
        self.inner, self.path = inner, Path(path)
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise SettingsError(f"models.{role}.record: {self.path} is not writable; name a file in an existing folder")
        self.reads, self.calls_tools, self.folder, self.bills = (
            inner.reads,
            inner.calls_tools,
            inner.folder,
            inner.bills,
        )

    @property
    def provider(self) -> str:
        """Name of the provider that answers."""
        return self.inner.provider

    def require_access(self, entry: str) -> None:
        self.inner.require_access(entry)

    def usage_bound(self, request: Request) -> Usage:
        """Return the value of the model that answers."""
        return self.inner.usage_bound(request)

    def estimated_usage_bound(self, request: Request) -> Usage:
        """Return the value of the model that answers."""
        return self.inner.estimated_usage_bound(request)

    def ask(self, request: Request) -> Reply:
        """Return the inner model's reply. SettingsError, before asking, if the file has another run's exchange in
        this slot."""
        digest_of_request = digest(request.model_dump_json(exclude={"number"}))
        lines = (
            {line.slot: line for line in read_script(self.path)}
            if self.path.exists() and self.path.stat().st_size
            else {}
        )
        recorded_line = lines.get(slot_of(request))
        # The same request means that the run was killed after writing this file; the new reply replaces the old line.
        if recorded_line is not None and recorded_line.request != digest_of_request:
            raise SettingsError(
                f"models.{request.role}.record: {self.path} already holds another run's conversation "
                f"{request.number + 1}; "
                "name a new file, or remove that one"
            )
        reply = self.inner.ask(request)
        line = ScriptLine(
            role=request.role,
            purpose=request.purpose,
            number=request.number,
            turn=len(request.turns),
            provider=self.provider,
            model=reply.usage.model,
            request=digest_of_request,
            reply=_make_portable(reply, named_record_ids(request)),
        )
        text = "".join(f"{one.model_dump_json()}\n" for one in {**lines, line.slot: line}.values())
        write_atomically(self.path, text.encode())
        return reply


def read_script(path: Path) -> tuple[ScriptLine, ...]:
    """Return all exchanges of a script; SettingsError names a line that is not one."""
    lines = []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path}: cannot be read as a script of exchanges ({error}); give a readable UTF-8 file"
        ) from error
    if not text.strip():
        raise SettingsError(f"{path}: contains no exchange; name a file that `record: <path>` wrote, or remove it")
    for number, one in enumerate(text.rstrip().split("\n"), 1):
        try:
            lines.append(ScriptLine.model_validate_json(one))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise SettingsError(
                f"{path}:{number}: is not an exchange ({where}: {first['msg']}); correct the line or record the "
                f"run again"
            ) from None
    return tuple(lines)


def slot_of(request: Request) -> ScriptSlot:
    """Return the slot of a request in a script."""
    return (request.role, request.purpose, request.number, len(request.turns))


def named_record_ids(request: Request) -> tuple[str, ...]:
    """Return the ids of records that a request names, in an order that runs of one task share as far as possible."""
    listed = request.brief.records if isinstance(request.brief, (AnalystBrief, PlannerBrief)) else ()
    told = (result.text for turn in request.turns for result in turn.results)
    return tuple(
        dict.fromkeys(
            (
                *listed,
                *(
                    found
                    for text in (request.brief.model_dump_json(), *told)
                    for found in RECORD_ID_PATTERN.findall(text)
                ),
            )
        )
    )


def _make_portable(reply: Reply, ids: tuple[str, ...]) -> Reply:
    """Return `reply` redacted, and with aliases in place of record ids."""
    places = {identity: f"<record:{nth}>" for nth, identity in enumerate(ids, 1)}
    return _map_reply_texts(
        reply, lambda text: RECORD_ID_PATTERN.sub(lambda found: places.get(found[0], found[0]), redaction.redact(text))
    )


def _map_reply_texts(reply: Reply, change: Callable[[str], str]) -> Reply:
    return REPLY_ADAPTER.validate_python(redaction.map_texts(reply.model_dump(mode="json"), change))
