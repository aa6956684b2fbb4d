"""One refusal of the screen: where it is, what it quotes and why."""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """One thing that a source may not contain."""

    line: int
    quote: str
    """The code that is refused; empty: the whole line."""
    reason: str
    """The rest of the sentence that begins with the quoted code."""
