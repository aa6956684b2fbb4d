"""Pieces of foreign text fitted into a section's budget of tokens: what is shortened or left out is said, never dropped in silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agents.fencing import line
from agents.models.base import CHARACTERS_PER_TOKEN

NOTE = 70
"""Tokens kept free for the note, once something must go."""
NAMED = 24
"""Names that a note lists before it only counts."""


class Item(NamedTuple):
    """One piece, in several lengths."""

    name: str
    levels: tuple[str, ...]
    """From the whole text to the shortest that still says something."""
    rank: int = 0
    """What has a higher rank is shortened first; among equals what stands later."""


class Fitted(NamedTuple):
    """What became of the pieces."""

    text: str
    """Foreign; names what was left out in a last line."""
    note: str
    """Ours, one sentence of counts; empty: everything is there."""


def tokens(text: str) -> int:
    """An upper bound of what `text` comes to."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def fit(items: Sequence[Item], most: int | None) -> Fitted:
    """The items' texts, one below the other, in `most` tokens (None: whole).

    All details are shortened, the least important item's first, before any item goes; then items go, again from the least important.
    """
    level = [0] * len(items)
    gone: set[int] = set()
    order = sorted(range(len(items)), key=lambda at: (items[at].rank, at), reverse=True)

    def text() -> str:
        return "\n".join(items[at].levels[level[at]] for at in range(len(items)) if at not in gone)

    if most is None or tokens(text()) <= most:
        return Fitted(text(), "")
    room = max(0, most - NOTE)
    for step in range(1, max((len(item.levels) for item in items), default=1)):
        for at in order:
            if tokens(text()) > room and step < len(items[at].levels):
                level[at] = step
    for at in order:
        if tokens(text()) > room:
            gone.add(at)
    for at in reversed(order):
        # What a later item's step has made room for.
        while level[at] and at not in gone:
            level[at] -= 1
            if tokens(text()) > room:
                level[at] += 1
                break
    shortened = sum(chosen > 0 for at, chosen in enumerate(level) if at not in gone)
    said = [f"{shortened} of {len(items)} shortened"] if shortened else []
    said += [f"{len(gone)} of {len(items)} left out"] if gone else []
    names = [f"[left out: {_names(items, gone)}]"] if gone else []
    return Fitted("\n".join([text(), *names]), f"(Cut to the budget of this section: {', '.join(said)}.)")


def _names(items: Sequence[Item], gone: set[int]) -> str:
    named = ", ".join(items[at].name for at in sorted(gone)[:NAMED])
    return line(named, NOTE * CHARACTERS_PER_TOKEN // 2) + (f" and {len(gone) - NAMED} more" if len(gone) > NAMED else "")
