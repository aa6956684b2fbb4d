"""The one line of text that an event is worth: what scrolls at a terminal, and all that pipes and logs get."""

from __future__ import annotations

from graph.workspace.events import Event

UNPRINTABLE = {**dict.fromkeys((*range(32), *range(127, 160)), "�"), **dict.fromkeys(map(ord, "\t\n\r"), " ")}
"""Control character -> its replacement: output of kernels and compilers must not command a terminal."""


def event_line(event: Event) -> str | None:
    """The line for an event; None for an event that has none."""
    text = _line(event)
    return None if text is None else text.translate(UNPRINTABLE).rstrip()


def _line(event: Event) -> str | None:
    details = event.details
    if event.kind == "node" and details.get("state") == "finished":
        # The end belongs to all iterations.
        iteration = "" if details["node"] == "finalise" else details["iteration"]
        spent = f"  [{details['spent']}]" if details.get("spent") else ""
        return f"{iteration:>3} {details['node']:<18} {float(details['s']):7.2f} s  {details.get('summary', '')}{spent}"
    if event.kind == "candidate":
        return f"    {details['candidate']:<18} {details['outcome']:<9}  {details['summary']}"
    if event.kind == "exchange" and details.get("state") in ("faulty", "unusable"):
        return f"    {details['why']}"
    if event.kind == "remark":
        return details["text"]
    if event.kind == "verdict":
        return f"{details['iteration']:>3} {'verdict':<18} {details['outcome']:<9}  {details['summary']}"
    if event.kind == "interrupt":
        return (
            "stopping: the running measurement or question finishes first and nothing else begins; press Ctrl-C again "
            f"to stop at once; `python -m graph resume {details['workspace']}` continues the run where it stopped"
        )
    return None
