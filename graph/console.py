"""Turns events into lines: one a node and candidate. Who writes them, and where, is `__main__`'s affair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from graph.events import Event

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

STYLES = {"accept": "green", "passed": "green", "failed": "red", "reject": "yellow", "inconclusive": "yellow", "infra_error": "red"}


def line(event: Event) -> str | None:
    """The finished line that an event is worth, or None."""
    details = event.details
    if event.kind == "node" and details.get("state") == "finished":
        spent = f"  [{details['spent']}]" if "spent" in details else ""
        return f"{_iteration(details):>3} {details['node']:<18} {float(details['s']):7.2f} s  {details.get('summary', '')}{spent}"
    if event.kind == "candidate":
        return f"    {details['candidate']:<18} {details['outcome']:<9}  {details['summary']}"
    if event.kind == "verdict":
        return f"{details['iteration']:>3} {'verdict':<18} {details['outcome']:<9}  {details['summary']}"
    return None


def _iteration(details: Mapping[str, str]) -> str:
    """The number in front of a node's line; none for the end, which is about all iterations."""
    return "" if details["node"] == "finalise" else details["iteration"]


class Plain:
    """One plain line each, for pipes and logs."""

    def __init__(self, out: Callable[[str], None]) -> None:
        self.out = out

    def __call__(self, event: Event) -> None:
        text = line(event)
        if text is not None:
            self.out(text.rstrip())


class Live:
    """Finished lines scroll; below them one live line says what is going on. For terminals."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.status: Status = console.status("starting", spinner="dots")
        self.doing = "starting"
        self.spent = ""

    def __enter__(self) -> Live:
        self.status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.status.stop()

    def __call__(self, event: Event) -> None:
        from rich.text import Text

        text = line(event)
        if text is not None:
            style = next((style for word, style in STYLES.items() if word in text), None)
            self.console.print(text.rstrip(), style=style, highlight=False, markup=False, soft_wrap=True)
        self.doing = self._running(event) or self.doing
        self.spent = event.details.get("spent", self.spent)
        # Plain text: brackets in it are no markup.
        self.status.update(Text(f"{self.doing}  [{self.spent}]" if self.spent else self.doing))

    @staticmethod
    def _running(event: Event) -> str | None:
        details = event.details
        if event.kind == "node" and details.get("state") == "started":
            iteration = _iteration(details)
            return f"v{iteration} {details['node']}" if iteration else details["node"]
        if event.kind == "exchange" and details.get("state") == "started":
            return f"asking the {details['role']}"
        if event.kind == "judge":
            return f"judging {details.get('candidate', '')}: {details.get('stage', '')}"
        return None
