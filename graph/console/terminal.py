"""The output of a run while it works, and its questions to a person at the terminal."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TextIO

from graph.console.lines import event_line

if TYPE_CHECKING:
    from pathlib import Path

    from graph.console.live import LiveView
    from graph.services import Ask
    from graph.workspace.events import Event, Observer


class Progress:
    """The observers of a run: a live view where stdout is a terminal, else one line of text an event. A quiet run only
    writes the effect of Ctrl-C, to stderr."""

    def __init__(self, say: Callable[[str], None], complain: Callable[[str], None], *, quiet: bool) -> None:
        self.say, self.complain, self.quiet = say, complain, quiet
        self.live: LiveView | None = None
        self.observers: tuple[Observer, ...] = (self._write,)
        self.ask: Ask | None = self._ask if _is_terminal(sys.stdin) and _is_terminal(sys.stdout) else None

    def __enter__(self) -> Progress:
        if not self.quiet and _is_terminal(sys.stdout):
            from rich.console import Console

            from graph.console.live import LiveView

            console = Console()
            # False on a terminal that cannot move its cursor.
            if console.is_interactive:
                self.live = LiveView(console).__enter__()
                self.observers = (self.live,)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.__exit__(None, None, None)

    def recall(self, workspace: Path) -> None:
        """Show the state that earlier processes of a run left."""
        from graph.workspace import events

        if self.live is not None:
            for event in events.read_events(workspace / ".kernelwright" / "events.jsonl"):
                self.live.status.add(event)

    def _write(self, event: Event) -> None:
        line = event_line(event)
        if line is not None and not self.quiet:
            self.say(line)
        elif line is not None and event.kind == "interrupt":
            self.complain(line)

    def _ask(self, question: str) -> str | None:
        """The answer that a person types; meanwhile the live view is hidden and Ctrl-C ends the waiting."""
        try:
            with _interruptible(), self.live.suspend() if self.live is not None else nullcontext():
                return input(question)
        except EOFError:
            return None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt at once, as it does outside of a run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()
