"""Sources with several functions, of which a change concerns few: the others may be named instead of written out
again."""

from __future__ import annotations

import re
from typing import ClassVar

from agents.handlers.base import Handler
from agents.handlers.definitions import Definition, definitions
from agents.text.source import is_python
from tools.languages.base import open_language


class Several(Handler):
    """A line `// keep: name` (in Python `# keep: name`) stands for the definition of that name in the source."""

    name: ClassVar[str] = "several"

    def applies(self, source: str, language_name: str) -> bool:
        """Whether two or more functions stand beside the entry."""
        entry = open_language(language_name).entry
        return len({one.name for one in _functions(source, language_name)} - {entry}) > 1

    def mend(self, draft: str, source: str, language_name: str) -> str:
        """Puts the definition in the place of each such line. A name that the source does not define, or defines
        twice, or that the draft defines itself, is left as it stands."""
        # What stands at the top of a Python file is put back at its top level.
        line = r"^#" if is_python(language_name) else r"^[ \t]*//"
        own = {one.name for one in _functions(draft, language_name)}
        given: dict[str, list[Definition]] = {}
        for one in _functions(source, language_name):
            given.setdefault(one.name, []).append(one)

        def kept(match: re.Match[str]) -> str:
            names = [name.strip(" `()") for name in match[1].split(",")]
            if any(len(given.get(name, ())) != 1 or name in own for name in names):
                return match[0]
            own.update(names)
            return "\n\n".join(given[name][0].text for name in names)

        return re.sub(rf"{line}[ \t]*keep:[ \t]*([^\n]+?)[ \t]*$", kept, draft, flags=re.MULTILINE)


def _functions(source: str, language_name: str) -> tuple[Definition, ...]:
    return tuple(one for one in definitions(source, language_name) if one.kind == "function")
