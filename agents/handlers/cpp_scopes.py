"""C++ sources whose functions stand in namespaces, or whose kernels are templates that a wrapper calls or an
instantiation names."""

from __future__ import annotations

import re
from typing import ClassVar

from agents.handlers.base import Handler
from agents.handlers.definitions import Definition, definitions
from agents.text.source import blanked, is_python
from tools.languages.base import open_language
from tools.languages.cpp_source import CppEdit, CppSource


class Namespaces(Handler):
    """A function that the draft took out of its namespace, while it is still called through it, is put back inside."""

    name: ClassVar[str] = "namespaces"

    def applies(self, source: str, language: str) -> bool:
        """Whether something is defined in a namespace that has a name."""
        return not is_python(language) and any(_named(one) for one in definitions(source, language))

    def mend(self, draft: str, source: str, language_name: str) -> str:
        """Puts a namespace around what stood in it, where the draft names it with `::` and opens it nowhere."""
        code = blanked(draft, False)
        homes = {one.name: one.namespaces for one in definitions(source, language_name) if _named(one)}
        entry = open_language(language_name).entry
        edits = []
        for one in definitions(draft, language_name):
            home = homes.get(one.name)
            if home is None or one.namespaces or one.name == entry:
                continue
            last = home[-1]
            opened = re.search(rf"\bnamespace\s+(?:\w+\s*::\s*)*{re.escape(last)}\b", code)
            if not opened and re.search(rf"\b{re.escape(last)}\s*::\s*{re.escape(one.name)}\b", code):
                edits.append(CppEdit(one.start, one.end, _inside(one.text, home)))
        return CppSource(draft).apply(edits) if edits else draft


class Templates(Handler):
    """A lost entry and lost instantiations are taken over from the source, where all that they name is still there."""

    name: ClassVar[str] = "templates"

    def applies(self, source: str, language: str) -> bool:
        """Whether a function is a template."""
        return not is_python(language) and any(
            one.template and one.kind == "function" for one in definitions(source, language)
        )

    def mend(self, draft: str, source: str, language_name: str) -> str:
        """Puts the entry and the instantiations at the end of the draft, word for word as they were."""
        entry = open_language(language_name).entry
        given, kept = definitions(source, language_name), definitions(draft, language_name)
        have = {(one.name, one.namespaces) for one in kept if one.kind == "function"}
        names = {name for name, _ in have}
        written = {_words(one) for one in kept if one.kind == "instantiation"}
        lost = []
        for one in given:
            if one.kind == "function" and one.name == entry and entry not in names and not one.namespaces:
                needed = set(re.findall(r"\w+", one.text)) & {other.name for other in given} - {entry}
                # A wrapper calls something of this file; a whole kernel is nothing to take over.
                if needed and needed <= names:
                    lost.append(one)
            elif one.kind == "instantiation" and (one.name, one.namespaces) in have and _words(one) not in written:
                lost.append(one)
        return (
            "\n".join([draft.rstrip(), *(f"\n{_inside(one.text, one.namespaces)}" for one in lost), ""])
            if lost
            else draft
        )


def _named(one: Definition) -> bool:
    return bool(one.namespaces) and all(one.namespaces)


def _words(one: Definition) -> str:
    return "".join(one.text.split())


def _inside(text: str, namespaces: tuple[str, ...]) -> str:
    """`text` in those of the namespaces that have a name."""
    # C++17 has the short form for nested ones.
    named = "::".join(filter(None, namespaces))
    return f"namespace {named} {{\n{text}\n}}" if named else text
