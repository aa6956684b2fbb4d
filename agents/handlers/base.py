"""The interface of handlers: each knows one form of source, gives a hint about it in the prompt and repairs drafts.

The built-in handlers only restore text of the given source; they invent no code. Third-party handlers follow them, by
import path from `handlers:` of a config; their errors become a SettingsError that names them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, TypeVar, cast

from agents.artifacts import CoderBrief, Draft
from tools.errors import SettingsError
from tools.registry import load_class, third_party_errors_as_settings_errors

ValueT = TypeVar("ValueT")

HANDLERS = {"license_header": "agents.handlers.license_header:LicenseHeaderHandler"}
"""Name -> class, in the order in which handlers repair drafts. A new handler needs one class, one text in
prompts/handlers and one line here."""
HINTS_FOLDER = Path(__file__).parents[1] / "prompts" / "handlers"
MAX_HINT_CHARS = 1200
"""Most characters of the hints of all third-party handlers together; `hints` in prompts/budget.yaml has room for this
much beside the built-in hints."""


class SourceHandler(ABC):
    """Base class of a handler for one form of source. It is created without arguments, once per process, and keeps no
    state between drafts."""

    name: ClassVar[str]
    """Name of the hint's file; a class that overrides `hint` needs none."""
    prompts: ClassVar[Path] = HINTS_FOLDER
    """Folder that holds the hint's file."""

    @abstractmethod
    def applies(self, source: str, language: str) -> bool:
        """Return whether `source`, a whole kernel file, has this form."""

    @abstractmethod
    def repair(self, draft: str, source: str, language: str) -> str:
        """Return `draft` with the parts of `source` restored that it lost, or unchanged where this is not certain.
        A second repair must change nothing more."""

    def hint(self) -> str:
        """Return the hint for the model, the same for all sources; default: the text of `<name>.md` in `prompts`."""
        return (self.prompts / f"{self.name}.md").read_text(encoding="utf-8").strip()

    def __str__(self) -> str:
        return self.name


class ThirdPartyHandler(SourceHandler):
    """A third-party handler. If it raises or returns a wrong type, SettingsError names it by its import path."""

    def __init__(self, path: str) -> None:
        kind = cast(type[SourceHandler], load_class({}, path, SourceHandler, key="handlers"))
        self.path = path
        self.inner: SourceHandler = self._call_checked(kind, kind, "its construction")

    def applies(self, source: str, language: str) -> bool:
        return self._call_checked(lambda: self.inner.applies(source, language), bool, "`applies`")

    def repair(self, draft: str, source: str, language: str) -> str:
        return self._call_checked(lambda: self.inner.repair(draft, source, language), str, "`repair`")

    def hint(self) -> str:
        return self._call_checked(self.inner.hint, str, "`hint`").strip()

    def check_on_source(self, source: str, language: str) -> None:
        """Raise SettingsError if it fails on this source, or if a second repair changes the text again."""
        if self.applies(source, language):
            once = self.repair(source, source, language)
            if self.repair(once, source, language) != once:
                raise SettingsError(
                    f"handlers: {self.path!r} changes a draft again that it has already repaired; let `repair` return "
                    f"such a draft unchanged"
                )

    def _call_checked(self, act: Callable[[], ValueT], kind: type[ValueT], what: str) -> ValueT:
        with third_party_errors_as_settings_errors(
            lambda said: (
                f"handlers: {self.path!r} failed in {what} ({said}); correct that class, then run again or resume"
            )
        ):
            value = act()
        if not isinstance(value, kind):
            raise SettingsError(
                f"handlers: {self.path!r} returned {type(value).__name__} from {what} instead of {kind.__name__}; "
                f"correct that class"
            )
        return value

    def __str__(self) -> str:
        return self.path


def open_handlers(
    paths: Iterable[str] = (), source: str | None = None, language: str = ""
) -> tuple[SourceHandler, ...]:
    """Return the built-in handlers in the table's order, then those that the import paths name.

    `source`: the user's kernel, on which third-party handlers are tried. SettingsError for a class that does not exist,
    is no handler or fails.
    """
    built_in = tuple(load_class(HANDLERS, name, SourceHandler, key="handlers")() for name in HANDLERS)
    third_party: dict[str, ThirdPartyHandler] = {}
    for path in paths:
        if ":" not in path:
            always_active = f"{', '.join(HANDLERS)} are always active"
            raise SettingsError(
                f"handlers: {path!r} is not an import path; write package.module:Class of your own handler "
                f"({always_active})"
            )
        if path in third_party:
            raise SettingsError(f"handlers: {path!r} is listed twice; list it once")
        third_party[path] = ThirdPartyHandler(path)
    hint_chars = 0
    for path, handler in third_party.items():
        hint = handler.hint()
        hint_chars += len(hint)
        if not hint:
            raise SettingsError(
                f"handlers: {path!r} has an empty hint; let `hint` return what a model should know about that form "
                f"of source"
            )
        if hint_chars > MAX_HINT_CHARS:
            raise SettingsError(
                f"handlers: {path!r} raises the hints to {hint_chars:,} characters, and a prompt has room for "
                f"{MAX_HINT_CHARS:,}; "
                f"shorten them"
            )
        if source:
            handler.check_on_source(source, language)
    return (*built_in, *third_party.values())


def applicable_handlers(handlers: Iterable[SourceHandler], source: str, language: str) -> tuple[SourceHandler, ...]:
    """Return the handlers that apply to a source, in their order; empty when there is no source yet."""
    return tuple(handler for handler in handlers if handler.applies(source, language)) if source.strip() else ()


def handler_hints(handlers: Iterable[SourceHandler], source: str, language: str) -> tuple[str, ...]:
    """Return the hints of the handlers that apply to `source`."""
    return tuple(handler.hint() for handler in applicable_handlers(handlers, source, language))


def apply_handlers(handlers: Iterable[SourceHandler], draft: Draft, brief: CoderBrief) -> Draft:
    """Return the draft after every applicable handler has repaired it, one after the other."""
    text = draft.source
    for handler in applicable_handlers(handlers, brief.source, brief.task.language):
        text = handler.repair(text, brief.source, brief.task.language)
    return draft if text == draft.source else draft.model_copy(update={"source": text})
