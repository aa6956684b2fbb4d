"""Sources that begin with a licence or a description: the licence stays with every version of the file."""

from __future__ import annotations

import re
from typing import ClassVar

from agents.handlers.base import SourceHandler
from agents.text.source import blank_comments_and_strings, comments_and_strings, is_python_language

MIN_PROSE_LINES = 4
"""Number of text lines at the top of a file from which on the prompt mentions them."""
LICENCE_PATTERN = re.compile(r"copyright|licen[cs]e|SPDX|\(c\) \d{4}|all rights reserved", re.IGNORECASE)


class LicenseHeaderHandler(SourceHandler):
    """Handles the text at the top of a file, before its first code."""

    name: ClassVar[str] = "license_header"

    def applies(self, source: str, language: str) -> bool:
        """Return whether the file begins with a licence or with at least MIN_PROSE_LINES lines of text."""
        head = _text_before_code(source, language)
        return bool(LICENCE_PATTERN.search(head)) or head.count("\n") >= MIN_PROSE_LINES

    def repair(self, draft: str, source: str, language: str) -> str:
        """Put back a licence that the draft lost. An author may drop any other text."""
        head = _text_before_code(source, language)
        if not LICENCE_PATTERN.search(head) or " ".join(head.split()) in " ".join(draft.split()):
            return draft
        own = _text_before_code(draft, language)
        if LICENCE_PATTERN.search(own):
            return draft
        return f"{head}\n\n{draft.lstrip()}"


def _text_before_code(source: str, language: str) -> str:
    """Return the comments, and a module's docstring, before the first code, unchanged."""
    python = is_python_language(language)
    bare = blank_comments_and_strings(source, python)
    code = len(bare) - len(bare.lstrip()) if bare.strip() else len(source)
    texts = [
        p
        for p in comments_and_strings(source, python)
        if p.start < code and (p.kind == "comment" or (python and p.text.endswith(('"""', "'''"))))
    ]
    return source[texts[0].start : texts[-1].start + len(texts[-1].text)].rstrip() if texts else ""
