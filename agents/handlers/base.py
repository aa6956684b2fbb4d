"""The seam for handlers: each knows one shape of source, hints at it in the prompt and mends drafts made from it.

A handler puts back what stands in the given source and nothing else: no code is invented.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from agents.artifacts import CoderBrief, Draft
from tools.registry import load

HANDLERS = {
    "prose": "agents.handlers.prose:Prose",
    "several": "agents.handlers.several:Several",
    "namespaces": "agents.handlers.namespaces:Namespaces",
    "templates": "agents.handlers.templates:Templates",
}
"""Name -> class, in the order in which drafts are mended; a new handler is one file, one text in prompts/handlers and one line here."""
PROMPTS = Path(__file__).parents[1] / "prompts" / "handlers"


class Handler(ABC):
    """One shape of source."""

    name: ClassVar[str]

    @abstractmethod
    def applies(self, source: str, language: str) -> bool:
        """Whether `source` has this shape."""

    @abstractmethod
    def mend(self, draft: str, source: str, language: str) -> str:
        """`draft` with what it lost of `source` put back; as it is where that is not plain to see. Mending twice changes nothing more."""

    def hint(self) -> str:
        """What a model is told of this shape, the same for all sources."""
        return (PROMPTS / f"{self.name}.md").read_text(encoding="utf-8").strip()


def applying(source: str, language: str) -> tuple[Handler, ...]:
    """The handlers for a source, in the table's order; none where there is no source yet."""
    if not source.strip():
        return ()
    every = (load(HANDLERS, name, Handler, key="handlers")() for name in HANDLERS)  # type: ignore[type-abstract]
    return tuple(handler for handler in every if handler.applies(source, language))


def hints(source: str, language: str) -> tuple[str, ...]:
    """What a model is told of the shape of `source`, for the part of a prompt that stays for a run."""
    return tuple(handler.hint() for handler in applying(source, language))


def mended(draft: Draft, brief: CoderBrief) -> Draft:
    """The draft as its handlers leave it."""
    text = draft.source
    for handler in applying(brief.source, brief.task.language):
        text = handler.mend(text, brief.source, brief.task.language)
    return draft if text == draft.source else draft.model_copy(update={"source": text})
