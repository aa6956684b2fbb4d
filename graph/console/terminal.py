"""What a run shows of itself while it works, and how it asks a person at the terminal."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from graph.console.live import Live
    from graph.services import Ask
    from graph.workspace.events import Observer


class Progress:
    """The observers that suit where stdout goes: a live view on a terminal, plain lines elsewhere; quiet: what
    Ctrl-C does, on stderr."""

    def __init__(self, say: Callable[[str], None], complain: Callable[[str], None], *, quiet: bool) -> None:
        self.say, self.complain, self.quiet = say, complain, quiet
        self.live: Live | None = None
        self.observers: tuple[Observer, ...] = ()
        self.ask: Ask | None = self._asked if _terminal(sys.stdin) and _terminal(sys.stdout) else None

    def __enter__(self) -> Progress:
        from graph.console.lines import Plain

        if self.quiet:
            self.observers = (Plain(self.complain, only="interrupt"),)
        elif _terminal(sys.stdout) and (live := _live()):
            self.live = live.__enter__()
            self.observers = (self.live,)
        else:
            self.observers = (Plain(self.say),)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.__exit__(None, None, None)

    def recall(self, workspace: Path) -> None:
        """Show what earlier processes of a run came to."""
        from graph.workspace import events

        if self.live is not None:
            self.live.board.see_all(events.read(workspace / ".kernelwright" / "events.jsonl"))

    def _asked(self, question: str) -> str | None:
        """What a person types at the terminal; the live view makes room meanwhile, and Ctrl-C ends the waiting."""
        try:
            with _interruptible(), self.live.aside() if self.live is not None else nullcontext():
                return input(question)
        except EOFError:
            return None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C raises at once, as it does outside of a run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _live() -> Live | None:
    """The live view; None on a terminal that cannot move its cursor."""
    from rich.console import Console

    from graph.console.live import Live

    console = Console()
    return Live(console) if console.is_interactive else None


def _terminal(stream: TextIO | None) -> bool:
    """Whether a person sits at `stream`."""
    return stream is not None and stream.isatty()
