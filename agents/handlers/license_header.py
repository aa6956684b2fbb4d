"""Sources that begin with much text: a licence and a description stay with every version of the file."""

from __future__ import annotations

import re
from typing import ClassVar

from agents.handlers.base import Handler
from agents.text.source import blanked, is_python, parts

LONG = 4
"""Lines of text from which on it is worth a word in the prompt."""
LICENCE = re.compile(r"copyright|licen[cs]e|SPDX|\(c\) \d{4}|all rights reserved", re.IGNORECASE)


class Prose(Handler):
    """The text at the top of a file, before its first code."""

    name: ClassVar[str] = "prose"

    def applies(self, source: str, language: str) -> bool:
        """Whether there is a licence, or much text, at the top."""
        head = _head(source, language)
        return bool(LICENCE.search(head)) or head.count("\n") >= LONG

    def mend(self, draft: str, source: str, language: str) -> str:
        """A licence that the draft lost stands at its top again. Other text is the author's to drop."""
        head = _head(source, language)
        if not LICENCE.search(head) or " ".join(head.split()) in " ".join(draft.split()):
            return draft
        own = _head(draft, language)
        if LICENCE.search(own):
            return draft
        return f"{head}\n\n{draft.lstrip()}"


def _head(source: str, language: str) -> str:
    """Comments (and the docstring of a module) before the first code, as they stand."""
    python = is_python(language)
    bare = blanked(source, python)
    code = len(bare) - len(bare.lstrip()) if bare.strip() else len(source)
    texts = [
        p
        for p in parts(source, python)
        if p.start < code and (p.kind == "comment" or (python and p.text.endswith(('"""', "'''"))))
    ]
    return source[texts[0].start : texts[-1].start + len(texts[-1].text)].rstrip() if texts else ""
