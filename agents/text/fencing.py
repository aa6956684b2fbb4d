"""Foreign text on its way into a prompt: made visible, and put behind a fence that it cannot close.

Kernels, logs, wiki pages, profiles and earlier answers are material. Whatever is written in them stays between the two
lines of one fence, so that a reader (and a test) can tell it from what we ask.
"""

from __future__ import annotations

import re
import unicodedata

SUSPECT = re.compile(r"[^\n\t -~]")
SHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of what is not seen, or turns the writing round: controls, formats, surrogates, private use,
separators."""
SELECTORS = re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Variation selectors, which carry bytes that nobody sees."""
LONGEST_LINE = 600
"""Characters of a line of a log or a page that are shown."""


def plain(text: str) -> str:
    """`text` with Unix line ends and everything that cannot be seen written as an escape, so that it stays one line
    where it was one."""
    return SUSPECT.sub(_visible, text.replace("\r\n", "\n"))


def fence(label: str, text: str) -> str:
    """`text` as data under `label`, which is ours. The fence is longer than every run of backticks in the text
    (CommonMark's rule)."""
    body = plain(text).strip("\n")
    ticks = "`" * max(3, 1 + max(map(len, re.findall(r"`+", body)), default=0))
    return f"{ticks}data: {label}\n{body}\n{ticks}"


def line(text: str, most: int = LONGEST_LINE) -> str:
    """`text` on one line of at most `most` characters; what is left out is counted."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= most else f"{flat[:most].rstrip()} … [{len(flat) - most} characters left out]"


def cut(text: str, most: int) -> str:
    """`text` in about `most` characters: its lines from both ends, none very long; what is left out is counted.

    A compiler names the first fault first and sums up last, so that the middle is worth least.
    """
    lines = [one if len(one) <= LONGEST_LINE else line(one) for one in plain(text).strip("\n").split("\n")]
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


def _visible(found: re.Match[str]) -> str:
    character = found[0]
    if unicodedata.category(character) not in SHOWN and not SELECTORS.match(character):
        return character
    return character.encode("unicode_escape").decode()
