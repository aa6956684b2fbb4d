"""Splits a kernel's source into code, comments and strings, even if it does not compile. Pure; offsets count
characters."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from tools.languages.base import open_language

Kind = Literal["comment", "string"]
_CPP_PATTERN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
      |(?P<string>(?:u8|[uUL])?R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
      |(?P<other>\.?\d(?:'?[\w.])*|[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)
_PYTHON_PATTERN = re.compile(
    r'''(?P<comment>\#[^\n]*)
      |(?P<string>(?:\b[rRbBuUfF]{1,2})?(?:"""(?:\\.|[^\\])*?(?:"""|\Z)|\'\'\'(?:\\.|[^\\])*?(?:\'\'\'|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      |(?P<other>[A-Za-z_]\w*)''',
    re.VERBOSE | re.DOTALL,
)


class SourcePart(NamedTuple):
    """A comment or a string of a source."""

    kind: Kind
    start: int
    text: str


def is_python_language(name: str) -> bool:
    """Return whether kernels in this language are Python files."""
    return open_language(name).suffix == ".py"


def comments_and_strings(source: str, python: bool) -> tuple[SourcePart, ...]:
    """Return the comments and strings of a source in order. A C++ apostrophe after a digit is a digit separator."""
    found = (_PYTHON_PATTERN if python else _CPP_PATTERN).finditer(source)
    return tuple(
        SourcePart("comment" if m["comment"] is not None else "string", m.start(), m[0])
        for m in found
        if m["other"] is None
    )


def blank_comments_and_strings(source: str, python: bool) -> str:
    """Return the source with blanks in place of comments and strings; lines and columns stay the same."""
    text = list(source)
    for part in comments_and_strings(source, python):
        end = part.start + len(part.text)
        text[part.start : end] = [sign if sign == "\n" else " " for sign in text[part.start : end]]
    return "".join(text)


def line_number(source: str, position: int) -> int:
    """Return the line of the character at `position`, from 1."""
    return source.count("\n", 0, position) + 1
