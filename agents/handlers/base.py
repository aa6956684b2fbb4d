"""The seam for handlers: each knows one shape of source, hints at it in the prompt and mends drafts made from it.

Ours put back what stands in the given source and nothing else: no code is invented. A stranger's come after them, by
import path from `handlers:` of a config; what they do wrong is a SettingsError that names them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, TypeVar, cast

from agents.artifacts import CoderBrief, Draft
from tools.errors import SettingsError
from tools.registry import load_class, third_party_errors_as_settings_errors

T = TypeVar("T")

HANDLERS = {"prose": "agents.handlers.license_header:Prose"}
"""Name -> class, in the order in which drafts are mended; a new handler is one class, one text in prompts/handlers
and one line here."""
PROMPTS = Path(__file__).parents[1] / "prompts" / "handlers"
LONGEST = 1200
"""Characters of the hints of all strangers' handlers together: what `hints` of prompts/budget.yaml has room for
beside ours."""


class Handler(ABC):
    """One shape of source. It is made without arguments, once a process, and keeps nothing from one draft to the
    next."""

    name: ClassVar[str]
    """Of the hint's file; whoever overrides `hint` needs none."""
    prompts: ClassVar[Path] = PROMPTS
    """Folder of that file."""

    @abstractmethod
    def applies(self, source: str, language: str) -> bool:
        """Whether `source`, a whole kernel file, has this shape."""

    @abstractmethod
    def mend(self, draft: str, source: str, language: str) -> str:
        """`draft` with what it lost of `source` put back; as it is where that is not plain to see. Mending twice
        changes nothing more."""

    def hint(self) -> str:
        """What a model is told of this shape, the same for all sources; default: the text `<name>.md` in `prompts`."""
        return (self.prompts / f"{self.name}.md").read_text(encoding="utf-8").strip()

    def __str__(self) -> str:
        return self.name


class Foreign(Handler):
    """A stranger's handler. Where it raises, or gives what is not owed, SettingsError names it by its import path."""

    def __init__(self, path: str) -> None:
        kind = cast(type[Handler], load_class({}, path, Handler, key="handlers"))
        self.path = path
        self.inner: Handler = self._owed(kind, kind, "its construction")

    def applies(self, source: str, language: str) -> bool:
        return self._owed(lambda: self.inner.applies(source, language), bool, "`applies`")

    def mend(self, draft: str, source: str, language: str) -> str:
        return self._owed(lambda: self.inner.mend(draft, source, language), str, "`mend`")

    def hint(self) -> str:
        return self._owed(self.inner.hint, str, "`hint`").strip()

    def try_out(self, source: str, language: str) -> None:
        """SettingsError where it fails on a source, or would mend for ever."""
        if self.applies(source, language):
            once = self.mend(source, source, language)
            if self.mend(once, source, language) != once:
                raise SettingsError(
                    f"handlers: {self.path!r} changes again what it has mended; let `mend` leave such a draft as it is"
                )

    def _owed(self, act: Callable[[], T], kind: type[T], what: str) -> T:
        with third_party_errors_as_settings_errors(
            lambda said: f"handlers: {self.path!r} failed in {what} ({said}); mend that class, then run again or resume"
        ):
            made = act()
        if not isinstance(made, kind):
            raise SettingsError(
                f"handlers: {self.path!r} gave {type(made).__name__} from {what} and owes {kind.__name__}; mend "
                f"that class"
            )
        return made

    def __str__(self) -> str:
        return self.path


def opened(paths: Iterable[str] = (), source: str | None = None, language: str = "") -> tuple[Handler, ...]:
    """Ours in the table's order, then those that the import paths name.

    `source`: the user's kernel, on which a stranger's handlers are tried. SettingsError for one that is not there, is
    none or fails.
    """
    ours = tuple(load_class(HANDLERS, name, Handler, key="handlers")() for name in HANDLERS)
    theirs: dict[str, Foreign] = {}
    for path in paths:
        if ":" not in path:
            ours_too = f"{', '.join(HANDLERS)} take part anyway"
            raise SettingsError(
                f"handlers: {path!r} is no import path; write package.module:Class of your own handler ({ours_too})"
            )
        if path in theirs:
            raise SettingsError(f"handlers: {path!r} stands there twice; write it once")
        theirs[path] = Foreign(path)
    told = 0
    for path, handler in theirs.items():
        hint = handler.hint()
        told += len(hint)
        if not hint:
            raise SettingsError(
                f"handlers: {path!r} has an empty hint; let `hint` say what a model should know of that shape"
            )
        if told > LONGEST:
            raise SettingsError(
                f"handlers: {path!r} makes it {told:,} characters of hints, and a prompt has room for {LONGEST:,}; "
                f"shorten them"
            )
        if source:
            handler.try_out(source, language)
    return (*ours, *theirs.values())


def applying(handlers: Iterable[Handler], source: str, language: str) -> tuple[Handler, ...]:
    """Those for a source, in their order; none where there is no source yet."""
    return tuple(handler for handler in handlers if handler.applies(source, language)) if source.strip() else ()


def hints(handlers: Iterable[Handler], source: str, language: str) -> tuple[str, ...]:
    """What a model is told of the shape of `source`, for the part of a prompt that stays for a run."""
    return tuple(handler.hint() for handler in applying(handlers, source, language))


def mended(handlers: Iterable[Handler], draft: Draft, brief: CoderBrief) -> Draft:
    """The draft as the handlers leave it, one after the other."""
    text = draft.source
    for handler in applying(handlers, brief.source, brief.task.language):
        text = handler.mend(text, brief.source, brief.task.language)
    return draft if text == draft.source else draft.model_copy(update={"source": text})
