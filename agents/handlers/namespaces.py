"""C++ sources whose functions stand in namespaces."""

from __future__ import annotations

import re
from typing import ClassVar

from agents.handlers.base import Handler
from agents.handlers.definitions import Definition, definitions
from agents.text.source import blanked, is_python, language
from tools.languages.cpp_source import CppSource, Edit


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
        entry = language(language_name).entry
        edits = []
        for one in definitions(draft, language_name):
            home = homes.get(one.name)
            if home is None or one.namespaces or one.name == entry:
                continue
            last = home[-1]
            opened = re.search(rf"\bnamespace\s+(?:\w+\s*::\s*)*{re.escape(last)}\b", code)
            if last and not opened and re.search(rf"\b{re.escape(last)}\s*::\s*{re.escape(one.name)}\b", code):
                edits.append(Edit(one.start, one.end, _inside(one.text, home)))
        return CppSource(draft).apply(edits) if edits else draft


def _named(one: Definition) -> bool:
    return bool(one.namespaces) and all(one.namespaces)


def _inside(text: str, namespaces: tuple[str, ...]) -> str:
    # C++17 has the short form for nested ones.
    return f"namespace {'::'.join(namespaces)} {{\n{text}\n}}"
