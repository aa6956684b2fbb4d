"""C++ sources whose kernels are templates, called by an `extern "C"` wrapper or instantiated for certain types."""

from __future__ import annotations

from typing import ClassVar

from agents.handlers.base import Handler
from agents.handlers.definitions import Definition, called, definitions
from agents.text.source import is_python, language


class Templates(Handler):
    """A lost entry and lost instantiations are taken over from the source, where all that they call is still there."""

    name: ClassVar[str] = "templates"

    def applies(self, source: str, language: str) -> bool:
        """Whether a function is a template."""
        return not is_python(language) and any(one.template and one.kind == "function" for one in definitions(source, language))

    def mend(self, draft: str, source: str, language_name: str) -> str:
        """Puts the entry and the instantiations at the end of the draft, word for word as they were."""
        entry = language(language_name).entry
        given, kept = definitions(source, language_name), definitions(draft, language_name)
        have = {(one.name, one.namespaces) for one in kept if one.kind == "function"}
        names = {name for name, _ in have}
        lost = []
        for one in given:
            if one.kind == "function" and one.name == entry and entry not in names and not one.namespaces:
                needed = called(one.text) & {other.name for other in given}
                # A wrapper calls something of this file; a whole kernel is nothing to take over.
                if needed and needed <= names:
                    lost.append(one)
            elif one.kind == "instantiation" and (one.name, one.namespaces) in have and not _there(one, kept):
                lost.append(one)
        if not lost:
            return draft
        return draft.rstrip() + "\n" + "".join(f"\n{_placed(one)}\n" for one in lost)


def _there(one: Definition, kept: tuple[Definition, ...]) -> bool:
    return any(other.kind == "instantiation" and "".join(other.text.split()) == "".join(one.text.split()) for other in kept)


def _placed(one: Definition) -> str:
    named = [name for name in one.namespaces if name]
    return f"namespace {'::'.join(named)} {{\n{one.text}\n}}" if named else one.text
