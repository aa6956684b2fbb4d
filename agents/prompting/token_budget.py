"""Pieces of foreign text fitted into a section's budget of tokens: what is shortened or left out is said, never
dropped in silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agents.models.base import CHARACTERS_PER_TOKEN
from agents.text.fencing import line

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
    dear: int | None = None
    """The level that is given up for want of room alone, never for thrift; None: no level is."""


class Fitted(NamedTuple):
    """What became of the pieces."""

    text: str
    """Foreign; names what was left out in a last line."""
    note: str
    """Ours, one sentence of counts; empty: everything is there."""


def tokens(text: str) -> int:
    """An upper bound of what `text` comes to."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def fit(items: Sequence[Item], most: int | None, aim: int | None = None) -> Fitted:
    """The items' texts, one below the other, in `most` tokens (None: whole), and in `aim` as far as no item gives up
    what is dear.

    All details are shortened, the least important item's first, before any item goes; then items go, again from the
    least important.
    """
    made = _Fitting(items)
    ends = [len(item.levels) - 1 for item in items]
    if aim is not None and made.over(aim):
        made.shorten(
            max(0, aim - NOTE), [end if item.dear is None else item.dear for item, end in zip(items, ends, strict=True)]
        )
    if most is not None and made.over(most - NOTE if any(made.level) else most):
        made.shorten(max(0, most - NOTE), ends)
        made.drop(max(0, most - NOTE))
    level, gone = made.level, made.gone
    if not any(level) and not gone:
        return Fitted(made.text(), "")
    shortened = sum(chosen > 0 for at, chosen in enumerate(level) if at not in gone)
    said = [f"{shortened} of {len(items)} shortened"] if shortened else []
    said += [f"{len(gone)} of {len(items)} left out"] if gone else []
    names = [f"[left out: {_names(items, gone)}]"] if gone else []
    return Fitted("\n".join([made.text(), *names]), f"(Cut to the budget of this section: {', '.join(said)}.)")


class _Fitting:
    """The items with the level of each, and those that are gone."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.level = [0] * len(items)
        self.gone: set[int] = set()
        self.order = sorted(range(len(items)), key=lambda at: (items[at].rank, at), reverse=True)
        """Least important first."""

    def text(self) -> str:
        return "\n".join(item.levels[self.level[at]] for at, item in enumerate(self.items) if at not in self.gone)

    def over(self, room: int) -> bool:
        return tokens(self.text()) > room

    def shorten(self, room: int, last: Sequence[int]) -> None:
        """Step by step, an item to its level in `last` at most."""
        for step in range(1, max(last, default=0) + 1):
            for at in self.order:
                if self.level[at] < step <= last[at] and self.over(room):
                    self.level[at] = step
        self._lengthen(room)

    def drop(self, room: int) -> None:
        for at in self.order:
            if self.over(room):
                self.gone.add(at)
        self._lengthen(room)

    def _lengthen(self, room: int) -> None:
        """What a later item's step has made room for."""
        for at in reversed(self.order):
            while self.level[at] and at not in self.gone:
                self.level[at] -= 1
                if self.over(room):
                    self.level[at] += 1
                    break


def _names(items: Sequence[Item], gone: set[int]) -> str:
    named = ", ".join(items[at].name for at in sorted(gone)[:NAMED])
    return line(named, NOTE * CHARACTERS_PER_TOKEN // 2) + (
        f" and {len(gone) - NAMED} more" if len(gone) > NAMED else ""
    )
