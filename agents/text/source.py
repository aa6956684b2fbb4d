"""A kernel's text taken apart into code, comments and strings, also where it does not compile. Pure; offsets are
characters."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from tools.languages.base import open_language

Kind = Literal["comment", "string"]
_CPP = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
      |(?P<string>(?:u8|[uUL])?R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
      |(?P<other>\.?\d(?:'?[\w.])*|[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)
_PYTHON = re.compile(
    r'''(?P<comment>\#[^\n]*)
      |(?P<string>(?:\b[rRbBuUfF]{1,2})?(?:"""(?:\\.|[^\\])*?(?:"""|\Z)|\'\'\'(?:\\.|[^\\])*?(?:\'\'\'|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      |(?P<other>[A-Za-z_]\w*)''',
    re.VERBOSE | re.DOTALL,
)


class Part(NamedTuple):
    """A comment or a string."""

    kind: Kind
    start: int
    text: str


def is_python(name: str) -> bool:
    """Whether kernels in this language are Python files."""
    return open_language(name).suffix == ".py"


def parts(source: str, python: bool) -> tuple[Part, ...]:
    """Comments and strings in order. What C++ writes as '…' after a digit separates digits."""
    found = (_PYTHON if python else _CPP).finditer(source)
    return tuple(
        Part("comment" if m["comment"] is not None else "string", m.start(), m[0]) for m in found if m["other"] is None
    )


def blanked(source: str, python: bool) -> str:
    """The code alone: comments and strings are blanks, lines and columns stay as they were."""
    text = list(source)
    for part in parts(source, python):
        end = part.start + len(part.text)
        text[part.start : end] = [sign if sign == "\n" else " " for sign in text[part.start : end]]
    return "".join(text)


def line_of(source: str, position: int) -> int:
    """Line of a character, from 1."""
    return source.count("\n", 0, position) + 1
