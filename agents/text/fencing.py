"""Prepares external text for a prompt: makes invisible characters visible, and puts a fence around it that the text
cannot close.

Kernels, logs, wiki pages, profiles and earlier answers are material. All of their text stays between the two lines of
one fence, so that a reader (and a test) can tell it from Kernelwright's own instructions.
"""

from __future__ import annotations

import re
import unicodedata

SUSPECT_PATTERN = re.compile(r"[^\n\t -~]")
ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that are invisible or reverse the writing direction: controls, formats, surrogates,
private use, separators."""
VARIATION_SELECTOR_PATTERN = re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Matches variation selectors, which can carry hidden bytes."""
MAX_LINE_CHARS = 600
"""Most characters of a line that are shown."""


def escape_invisible(text: str) -> str:
    """Return `text` with Unix line ends and with escapes for all invisible characters, so that one line stays one
    line."""
    return SUSPECT_PATTERN.sub(_escape_character, text.replace("\r\n", "\n"))


def fence_data(label: str, text: str) -> str:
    """Return `text` in a data fence with the trusted `label`. The fence is longer than every run of backticks in the
    text (CommonMark's rule)."""
    body = escape_invisible(text).strip("\n")
    ticks = "`" * max(3, 1 + max(map(len, re.findall(r"`+", body)), default=0))
    return f"{ticks}data: {label}\n{body}\n{ticks}"


def one_line(text: str, most: int = MAX_LINE_CHARS) -> str:
    """Return `text` on one line of about `most` characters at most, with a count of characters left out."""
    flat = " ".join(escape_invisible(text).split())
    return flat if len(flat) <= most else f"{flat[:most].rstrip()} … [{len(flat) - most} characters left out]"


def cut_middle(text: str, most: int) -> str:
    """Return `text` in about `most` characters: lines from both ends, shortened if long, with a count of lines left
    out.

    A compiler reports the first error first and a summary last, so the middle matters least.
    """
    lines = [
        one if len(one) <= MAX_LINE_CHARS else one_line(one) for one in escape_invisible(text).strip("\n").split("\n")
    ]
    if sum(len(one) + 1 for one in lines) <= most:
        return "\n".join(lines)
    head: list[str] = []
    tail: list[str] = []
    room = most
    for at in range(len(lines)):
        # Two lines from the start for each one from the end.
        end, kept = (tail, lines[-1 - len(tail)]) if at % 3 == 2 else (head, lines[len(head)])
        if len(kept) + 1 > room:
            break
        end.append(kept)
        room -= len(kept) + 1
    left = len(lines) - len(head) - len(tail)
    return "\n".join([*head, f"[… {left} lines left out]", *reversed(tail)])


def _escape_character(found: re.Match[str]) -> str:
    character = found[0]
    if unicodedata.category(character) not in ESCAPED_CATEGORIES and not VARIATION_SELECTOR_PATTERN.match(character):
        return character
    return character.encode("unicode_escape").decode()
