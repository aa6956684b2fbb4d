"""The live view of a run at a terminal: finished lines scroll, below them stands where the run is.

Kernels are timed on the cores that this draws with. So it draws when something happened, at most `RATE` times a second,
once more as a job begins, and not while one runs: what stands there then gives the time at which it began and is true
until the job ends. While nothing is measured it draws once a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from graph.console.dashboard import Dashboard, Row
from graph.console.lines import UNSEEN, line
from graph.workspace.events import Event
from tools.cli.formatting import format_speedup

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live as Region
    from rich.text import Text

RATE = 4.0
"""Drawings a second, at most."""
TICK_S = 1.0
ECHO = 2
"""Columns left free on the right: where a terminal echoes ^C at the end of a full line, it would move the view."""
BESIDE = 6
"""Lines of the view other than candidates."""
STYLES = {
    "accept": "green",
    "passed": "green",
    "failed": "red",
    "reject": "yellow",
    "inconclusive": "yellow",
    "infra_error": "red",
}


class Live:
    """Shows a run while the block lasts; safe for threads."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.time) -> None:
        """`clock`: Unix seconds, as those of the events."""
        self.console = console
        self.clock = clock
        self.board = Dashboard()
        self._fresh: list[Text] = []
        """Finished lines that are not written yet."""
        self._drawn = 0.0
        self._region: Region | None = None
        self._guard = threading.RLock()
        self._over = threading.Event()

    def __enter__(self) -> Live:
        self._show()
        threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._hide()

    def __call__(self, event: Event) -> None:
        with self._guard:
            if event.kind == "job" and event.details["state"] == "started":
                self._draw()
            self.board.see(event)
            text = line(event)
            if text is not None:
                self._fresh.append(_line(text.rstrip(), _style(event.details.get("outcome", ""))))
            if event.kind == "interrupt" or (not self.board.jobs and self.clock() - self._drawn >= 1 / RATE):
                self._draw()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Makes room for a question at the terminal."""
        self._hide()
        try:
            yield
        finally:
            self._show()

    def _tick(self) -> None:
        while not self._over.wait(TICK_S):
            with self._guard:
                if not self.board.jobs:
                    self._draw()

    def _show(self) -> None:
        from rich.live import Live as Region

        with self._guard:
            # Erased at the end: the finished lines stay, and what a run came to is said below them.
            self._region = Region(
                get_renderable=self._view,
                console=self.console,
                auto_refresh=False,
                transient=True,
                vertical_overflow="crop",
            )
            self._region.start(refresh=True)

    def _hide(self) -> None:
        with self._guard:
            self._draw()
            if self._region is not None:
                self._region.stop()
                self._region = None

    def _view(self) -> Group:
        from rich.console import Group

        return Group(*view(self.board, self.console.width, self.console.height, self.clock()))

    def _draw(self) -> None:
        from rich.text import Text

        if self._region is None:
            return
        try:
            if self._fresh:
                # Left to the terminal to wrap, so that a line is copied and widened as one. The view is drawn with
                # them.
                self.console.print(Text("\n").join(self._fresh), soft_wrap=True)
            else:
                self._region.refresh()
        except OSError:
            # The terminal is gone. The run goes on without it.
            self._region = None
        self._fresh.clear()
        self._drawn = self.clock()


def view(board: Dashboard, width: int, height: int, now: float) -> list[Text]:
    """The lines of the view, each cut off with an ellipsis where the terminal is too narrow for it."""
    if board.taken_up is None:
        return [_line(""), _doing(board)]
    room = max(1, height - BESIDE - 1)
    rows = list(board.rows.values())
    shown = rows if len(rows) <= room else sorted(rows, key=lambda row: row.outcome is not None)[: room - 1]
    lines = [_line(""), _doing(board), *(_row(row) for row in rows if row in shown)]
    if len(shown) < len(rows):
        lines.append(_line(f"  and {len(rows) - len(shown)} more", "dim"))
    lines += [_named("best", board.best), _named("headroom", board.headroom), _named("budget", _budget(board, now))]
    for text in lines:
        text.truncate(max(1, width - ECHO), overflow="ellipsis")
        text.no_wrap = True
    return lines


def _line(text: str, style: str = "") -> Text:
    from rich.text import Text

    # Never markup: brackets stand in intervals and in compilers' messages.
    return Text(text, style)


def _style(outcome: str) -> str:
    return next((style for word, style in STYLES.items() if outcome.startswith(word)), "")


def _named(name: str, text: str) -> Text:
    return _line(f"{name:<9} ", "bold").append(text, "not bold")


def _doing(board: Dashboard) -> Text:
    parts = [board.node if board.node in ("starting", "finalise") else f"v{board.iteration} {board.node}"]
    if board.rows:
        # Where candidates stand below, with factors beside them.
        parts.append(f"parent {board.parent}")
    if board.asked:
        parts.append(f"asking the {board.asked}")
    if board.since is not None:
        parts.append(time.strftime("since %H:%M:%S", time.localtime(board.since)))
    if board.stopping:
        parts.append("stopping after this")
    return _line(" · ".join(parts), "bold")


def _row(row: Row) -> Text:
    state, style = _state(row)
    found = f"{format_speedup(row.speedup):<21} " if row.speedup else ""
    why = f"{row.reason.translate(UNSEEN).rstrip('.')}  " if row.reason else ""
    return _line(f"  {row.candidate:<12}  {state:<16}  ", style).append(f"{found}{why}{row.made}")


def _state(row: Row) -> tuple[str, str]:
    """What is or was last done with a candidate, and its style."""
    if row.stage and (row.outcome is None or row.batch):
        return f"{row.stage} {row.batch}".rstrip(), "bold"
    if row.outcome is None:
        return "waiting", "dim"
    return (f"{row.outcome}: {row.stage}" if row.stage else row.outcome), _style(row.outcome)


def _budget(board: Dashboard, now: float) -> str:
    wall, device, usd, tokens = (board.caps.get(name) for name in ("wall_s", "device_s", "usd", "tokens"))
    parts = [f"wall {_of(f'{board.wall_s(now):.0f}', wall and f'{wall:.0f}', ' s')}"]
    parts.append(f"device {_of(f'{board.device_s:.0f}', device and f'{device:.0f}', ' s')}")
    if usd or tokens or board.tokens or board.usd or board.unpriced:
        least = "at least " if board.unpriced else ""
        parts.append(_of(f"{least}${board.usd:.2f}", usd and f"${usd:g}", ""))
        parts.append(_of(_short(board.tokens), tokens and _short(tokens), " tokens"))
    else:
        parts.append("no language model is paid")
    return "  ".join(parts)


def _of(spent: str, cap: str | float | None, unit: str) -> str:
    return f"{spent}/{cap}{unit}" if cap else f"{spent}{unit} (no cap)"


def _short(count: float) -> str:
    return f"{count:.0f}" if count < 1000 else f"{count / 1e3:.1f}k" if count < 1e6 else f"{count / 1e6:.2f}M"
