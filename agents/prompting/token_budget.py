"""Fits items of external text into a section's token budget; a note says what was shortened or left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agents.models.base import CHARACTERS_PER_TOKEN
from agents.text.fencing import one_line

NOTE_TOKENS = 70
"""Tokens reserved for the note when something is shortened or left out."""
MAX_NAMES_IN_NOTE = 24
"""Most names that a note lists; it counts the others."""


class PromptItem(NamedTuple):
    """One item of a section, in several lengths."""

    name: str
    levels: tuple[str, ...]
    """Texts from the whole one to the shortest useful one."""
    rank: int = 0
    """Items of a higher rank are shortened first; among equals, later ones."""
    costly_level: int | None = None
    """Index of the level that is only given up to stay within the maximum, never to reach the aim; None: no such
    level."""


class FittedText(NamedTuple):
    """The text of the items after shortening."""

    text: str
    """External text; a last line names the items that were left out."""
    note: str
    """One sentence of counts; empty if nothing was shortened or left out."""


def token_upper_bound(text: str) -> int:
    """Return an upper bound of the number of tokens in `text`."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def fit_to_budget(items: Sequence[PromptItem], most: int | None, aim: int | None = None) -> FittedText:
    """Return the items' texts, one below the other, in `most` tokens (None: no limit), and in `aim` tokens as far as no
    item has to go below its costly level.

    First all items are shortened, beginning with the least important; then items are left out, in the same order.
    """
    state = _FittingState(items)
    ends = [len(item.levels) - 1 for item in items]
    if aim is not None and state.exceeds(aim):
        state.shorten(
            max(0, aim - NOTE_TOKENS),
            [end if item.costly_level is None else item.costly_level for item, end in zip(items, ends, strict=True)],
        )
    if most is not None and state.exceeds(most - NOTE_TOKENS if any(state.level) else most):
        state.shorten(max(0, most - NOTE_TOKENS), ends)
        state.drop(max(0, most - NOTE_TOKENS))
    level, dropped = state.level, state.dropped
    if not any(level) and not dropped:
        return FittedText(state.text(), "")
    shortened = sum(chosen > 0 for at, chosen in enumerate(level) if at not in dropped)
    counts = [f"{shortened} of {len(items)} shortened"] if shortened else []
    counts += [f"{len(dropped)} of {len(items)} left out"] if dropped else []
    names = [f"[left out: {_names_text(items, dropped)}]"] if dropped else []
    return FittedText("\n".join([state.text(), *names]), f"(Cut to the budget of this section: {', '.join(counts)}.)")


class _FittingState:
    """The items, the current level of each, and the indices of those that were left out."""

    def __init__(self, items: Sequence[PromptItem]) -> None:
        self.items = items
        self.level = [0] * len(items)
        self.dropped: set[int] = set()
        self.order = sorted(range(len(items)), key=lambda at: (items[at].rank, at), reverse=True)
        """Indices of the items, the least important first."""

    def text(self) -> str:
        return "\n".join(item.levels[self.level[at]] for at, item in enumerate(self.items) if at not in self.dropped)

    def exceeds(self, room: int) -> bool:
        return token_upper_bound(self.text()) > room

    def shorten(self, room: int, last: Sequence[int]) -> None:
        """Shorten step by step until the text fits, each item to its level in `last` at most."""
        for step in range(1, max(last, default=0) + 1):
            for at in self.order:
                if self.level[at] < step <= last[at] and self.exceeds(room):
                    self.level[at] = step
        self._restore_detail(room)

    def drop(self, room: int) -> None:
        for at in self.order:
            if self.exceeds(room):
                self.dropped.add(at)
        self._restore_detail(room)

    def _restore_detail(self, room: int) -> None:
        """Use the room that shortening a later item has left to lengthen more important ones again."""
        for at in reversed(self.order):
            while self.level[at] and at not in self.dropped:
                self.level[at] -= 1
                if self.exceeds(room):
                    self.level[at] += 1
                    break


def _names_text(items: Sequence[PromptItem], gone: set[int]) -> str:
    named = ", ".join(items[at].name for at in sorted(gone)[:MAX_NAMES_IN_NOTE])
    return one_line(named, NOTE_TOKENS * CHARACTERS_PER_TOKEN // 2) + (
        f" and {len(gone) - MAX_NAMES_IN_NOTE} more" if len(gone) > MAX_NAMES_IN_NOTE else ""
    )
