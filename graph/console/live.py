"""The live view of a run at a terminal: finished lines scroll, and below them is the run's state.

Kernels are timed on the cores that this draws with. Therefore it draws after an event, at most `MAX_DRAWINGS_PER_S`
times a second, once more when a job begins, and not while one runs. While nothing is measured it draws once a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from graph.console.lines import event_line
from graph.console.status import RunStatus
from graph.workspace.events import Event

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

MAX_DRAWINGS_PER_S = 4.0
TICK_S = 1.0
FREE_COLUMNS = 2
"""At the right edge: a terminal echoes ^C at the end of a full line, which would move the view."""
STYLES = {
    "accept": "green",
    "passed": "green",
    "failed": "red",
    "reject": "yellow",
    "inconclusive": "yellow",
    "infra_error": "red",
    "waiting": "dim",
}


class LiveView:
    """Shows a run while the `with` block lasts; threads may call it."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.time) -> None:
        """`clock`: Unix seconds, as in the events."""
        self.console = console
        self.clock = clock
        self.status = RunStatus()
        self._unwritten: list[Text] = []
        self._drawn_at = 0.0
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._closed = threading.Event()

    def __enter__(self) -> LiveView:
        self._show()
        threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._hide()

    def __call__(self, event: Event) -> None:
        with self._lock:
            if event.kind == "job" and event.details["state"] == "started":
                self._draw()
            self.status.add(event)
            line = event_line(event)
            if line is not None:
                self._unwritten.append(_text(line, _style(event.details.get("outcome", ""))))
            is_due = not self.status.running_jobs and self.clock() - self._drawn_at >= 1 / MAX_DRAWINGS_PER_S
            if event.kind == "interrupt" or is_due:
                self._draw()

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Hide the view while a question is asked at the terminal."""
        self._hide()
        try:
            yield
        finally:
            self._show()

    def _tick(self) -> None:
        while not self._closed.wait(TICK_S):
            with self._lock:
                if not self.status.running_jobs:
                    self._draw()

    def _show(self) -> None:
        from rich.live import Live

        with self._lock:
            # Erased at the end: the finished lines stay, and the result of the run is printed below them.
            self._live = Live(
                get_renderable=lambda: render_status(self.status, self.clock()),
                console=self.console,
                auto_refresh=False,
                transient=True,
            )
            self._live.start(refresh=True)

    def _hide(self) -> None:
        with self._lock:
            self._draw()
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _draw(self) -> None:
        from rich.text import Text

        if self._live is None:
            return
        try:
            if self._unwritten:
                # The terminal wraps them, so that a line is copied and widened as one. The view is drawn with them.
                self.console.print(Text("\n").join(self._unwritten), soft_wrap=True)
            else:
                self._live.refresh()
        except OSError:
            # The terminal is gone. The run continues without it.
            self._live = None
        self._unwritten.clear()
        self._drawn_at = self.clock()


def render_status(status: RunStatus, now: float) -> RenderableType:
    """The current activity, best version, headroom and budget, then the candidates, those in progress first."""
    from rich.console import Group
    from rich.padding import Padding

    facts = {"best": status.best, "headroom": status.headroom, "budget": status.budget(now)} if status.caps else {}
    lines = [_text(""), _text(status.activity(), "bold")]
    lines += [_text(f"{name:<9} ", "bold").append(text, "not bold") for name, text in facts.items()]
    for row in sorted(status.rows.values(), key=lambda row: row.is_judged):
        words = "  ".join(filter(None, (row.result, row.methods)))
        lines.append(_text(f"{row.candidate:<12}  {row.state:<16}  ", _style(row.state)).append(words, "not dim"))
    return Padding(Group(*lines), (0, FREE_COLUMNS, 0, 0), expand=False)


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    # Never markup: intervals and compilers' messages contain brackets.
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _style(outcome: str) -> str:
    return next((style for word, style in STYLES.items() if outcome.startswith(word)), "")
