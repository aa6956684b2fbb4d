"""Turns events into lines: one a node and candidate. Who writes them, and where, is `__main__`'s affair."""

from __future__ import annotations

from collections.abc import Callable

from graph.workspace.events import Event

UNSEEN = {**dict.fromkeys((*range(32), *range(127, 160)), "�"), **dict.fromkeys(map(ord, "\t\n\r"), " ")}
"""Control characters: what kernels and compilers say must not command a terminal."""


def line(event: Event) -> str | None:
    """The finished line that an event is worth, or None."""
    text = _line(event)
    return None if text is None else text.translate(UNSEEN)


def _line(event: Event) -> str | None:
    details = event.details
    if event.kind == "node" and details.get("state") == "finished":
        # The end is about all iterations.
        iteration = "" if details["node"] == "finalise" else details["iteration"]
        spent = f"  [{details['spent']}]" if details.get("spent") else ""
        return f"{iteration:>3} {details['node']:<18} {float(details['s']):7.2f} s  {details.get('summary', '')}{spent}"
    if event.kind == "candidate":
        return f"    {details['candidate']:<18} {details['outcome']:<9}  {details['summary']}"
    if event.kind == "exchange" and details.get("state") == "unusable":
        return f"    {details['why']}"
    if event.kind == "verdict":
        return f"{details['iteration']:>3} {'verdict':<18} {details['outcome']:<9}  {details['summary']}"
    if event.kind == "interrupt":
        return (
            "stopping: what is being measured or asked comes to its end first, nothing else begins; Ctrl-C again "
            "stops at once; "
            f"`python -m graph resume {details['workspace']}` goes on where it stopped"
        )
    return None


class Plain:
    """One plain line each, for pipes and logs."""

    def __init__(self, out: Callable[[str], None], only: str | None = None) -> None:
        """`only`: events of this kind alone."""
        self.out = out
        self.only = only

    def __call__(self, event: Event) -> None:
        text = line(event) if self.only in (None, event.kind) else None
        if text is not None:
            self.out(text.rstrip())
