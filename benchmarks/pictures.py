"""The pictures of README.md, drawn anew: python -m benchmarks.pictures [WORKSPACE].

docs/images/graph.svg shows the compiled graph, grouped by agent. docs/images/run.svg shows a real run, line by line as
the console writes it, replayed from docs/images/run.jsonl; with the WORKSPACE of a finished run, those events are taken
from it first.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from graph.build import build_graph
from graph.console.lines import event_line
from graph.report.content.summary import summarise
from graph.settings import Settings
from graph.workspace import events
from graph.workspace.events import Event
from graph.workspace.folder import open_read_only
from graph.workspace.versions import read_state

IMAGES = Path(__file__).parent.parent / "docs" / "images"
GRAPH, RUN, RECORDED = IMAGES / "graph.svg", IMAGES / "run.svg", IMAGES / "run.jsonl"
COMMAND = "python -m graph run configs/quickstart.yaml"
COLUMNS = 122
STYLES = {
    "accept": "bold green",
    "passed": "green",
    "failed": "red",
    "reject": "yellow",
    "inconclusive": "yellow",
    "finished": "bold",
}
TIP = """<defs><marker id="tip" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M8 0.5 L0 4 L8 7.5 z" fill="#556"/></marker></defs>"""


class Node(NamedTuple):
    """Where a node stands, and what it does."""

    column: int
    row: int
    does: str


NODES = {
    "preflight": Node(0, 0, "contract, roofs"),
    "retrieve_specs": Node(1, 0, "cited figures"),
    "establish_baseline": Node(2, 0, "v0 is right, timed"),
    "finalise": Node(0, 1, "benchmark, report"),
    "learn": Node(1, 1, "keep outcomes"),
    "profile": Node(2, 1, "why is it slow?"),
    "retrieve_evidence": Node(3, 1, "pages, outcomes"),
    "plan": Node(4, 1, "one to three methods"),
    "write": Node(5, 1, "K candidates"),
    "judge": Node(5, 2, "screen, check, time"),
    "select": Node(4, 2, "the fastest right one"),
    "attribute": Node(3, 2, "without each method"),
    "gate": Node(2, 2, "confirm, commit"),
}
AGENTS = {
    "profiler-analyst": ("profile",),
    "knowledge-retriever": ("retrieve_evidence",),
    "planner": ("plan",),
    "coder": ("write",),
    "gatekeeper": ("judge", "select", "attribute", "gate"),
}
COLOURS = {
    "profiler-analyst": "#fde8c8",
    "knowledge-retriever": "#dcefd9",
    "planner": "#dbe7fb",
    "coder": "#eadcf7",
    "gatekeeper": "#fbdcdc",
}
WIDE, HIGH, STEP, DROP, LEFT, TOP = 138, 46, 166, 128, 24, 26
"""Width and height of a node, distances of columns and rows, margins; in pixels."""
ABOVE, BELOW = 43, 32
"""From the middle of a node to the borders of its agent's box."""
STOP, AGAIN, EMPTY, REWRITE, SAME = 0.3, 0.48, 1.36, 1.5, 2.36
"""Rows of the lines that run between those of the nodes."""
BENDS = {
    ("profile", "finalise"): ((2.3, STOP), (0.0, STOP)),
    ("retrieve_evidence", "finalise"): ((3.3, STOP), (0.0, STOP)),
    ("plan", "finalise"): ((4.3, STOP), (0.0, STOP)),
    ("gate", "learn"): ((1.0, 2.0),),
    ("learn", "retrieve_evidence"): ((1.0, AGAIN), (2.75, AGAIN)),
    ("write", "gate"): ((4.7, EMPTY), (2.3, EMPTY)),
    ("select", "write"): ((4.2, REWRITE), (4.85, REWRITE)),
    ("select", "gate"): ((4.0, SAME), (2.0, SAME)),
}
"""Edges that are not straight: columns and rows of their bends."""
WHEN = {
    ("profile", "finalise"): "good enough, exhausted, or at a cap",
    ("learn", "retrieve_evidence"): "not accepted",
    ("write", "gate"): "nothing to judge",
    ("select", "write"): "all failed",
    ("select", "gate"): "no gain",
}


def _at(name: str) -> tuple[float, float]:
    return _place(NODES[name].column, NODES[name].row)


def _place(column: float, row: float) -> tuple[float, float]:
    return LEFT + column * STEP + WIDE / 2, TOP + row * DROP + HIGH / 2


def _border(name: str, towards: tuple[float, float]) -> tuple[float, float]:
    """Where an edge from or to `towards` meets the node; the box of its agent, where that holds no other."""
    x, y = _at(name)
    alone = any(nodes == (name,) for nodes in AGENTS.values())
    if towards[1] == y:
        return (x + WIDE / 2 if towards[0] > x else x - WIDE / 2), y
    above, below = (ABOVE, BELOW) if alone else (HIGH / 2, HIGH / 2)
    return towards[0], (y - above if towards[1] < y else y + below)


def graph() -> str:
    """The compiled graph as SVG. KeyError for a node without a place."""
    drawn = build_graph(Settings(task="t")).get_graph()
    width, height = 2 * LEFT + 5 * STEP + WIDE, 2 * TOP + 2 * DROP + HIGH + 20
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, '
            f'sans-serif">'
        ),
        TIP,
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>',
        *(_agent(name, nodes) for name, nodes in AGENTS.items()),
        *(
            _edge(one.source, one.target, one.conditional)
            for one in drawn.edges
            if {one.source, one.target} <= set(NODES)
        ),
        *(_node(name) for name in drawn.nodes if not name.startswith("__")),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _agent(name: str, nodes: tuple[str, ...]) -> str:
    xs, y = [_at(node)[0] for node in nodes], _at(nodes[0])[1]
    left, wide = min(xs) - WIDE / 2 - 9, max(xs) - min(xs) + WIDE + 18
    return (
        f'<rect x="{left}" y="{y - ABOVE}" width="{wide}" height="{ABOVE + BELOW}" rx="9" fill="{COLOURS[name]}"/>'
        f'<text x="{left + 10}" y="{y - 28}" font-size="12" font-weight="bold" fill="#333">{name}</text>'
    )


def _node(name: str) -> str:
    x, y = _at(name)
    return (
        f'<rect x="{x - WIDE / 2}" y="{y - HIGH / 2}" width="{WIDE}" height="{HIGH}" rx="6" fill="#fff" stroke="#556"/>'
        f'<text x="{x}" y="{y - 3}" font-size="13" text-anchor="middle" fill="#111">{name}</text>'
        f'<text x="{x}" y="{y + 14}" font-size="11" text-anchor="middle" fill="#556">{escape(NODES[name].does)}</text>'
    )


def _edge(source: str, target: str, conditional: bool) -> str:
    bends = [_place(*bend) for bend in BENDS.get((source, target), ())]
    points = [
        _border(source, bends[0] if bends else _at(target)),
        *bends,
        _border(target, bends[-1] if bends else _at(source)),
    ]
    # From the tip on, so that the dashes of edges that join fall on one another.
    path = " L".join(f"{px:.0f} {py:.0f}" for px, py in reversed(points))
    dashes = ' stroke-dasharray="5 4"' if conditional else ""
    drawn = f'<path d="M{path}" fill="none" stroke="#556" stroke-width="1.3"{dashes} marker-start="url(#tip)"/>'
    if (when := WHEN.get((source, target))) is None:
        return drawn
    x, y = min(bends)
    return f'{drawn}<text x="{x + 8:.0f}" y="{y - 4:.0f}" font-size="11" fill="#556">{when}</text>'


def record(workspace: Path) -> None:
    """Keep of a finished run the events that are worth a line, and its last line as an event `end`."""
    log = events.read_events(workspace / ".kernelwright" / "events.jsonl")
    summary = summarise(workspace, read_state(open_read_only(workspace)))
    said = summary.sentence().replace(str(summary.workspace), f"workspaces/{workspace.name}")
    kept = [
        *(event for event in log if event_line(event) is not None),
        Event(kind="end", seconds=log[-1].seconds, details={"said": said}),
    ]
    RECORDED.write_text("".join(json.dumps(event.model_dump()) + "\n" for event in kept))


def lines() -> list[Text]:
    """The recorded run as a terminal shows it: the command, the console's lines, the last line."""
    shown = [Text(f"$ {COMMAND}", "bold")]
    for event in events.read_events(RECORDED):
        text = event.details["said"] if event.kind == "end" else event_line(event) or ""
        outcome = event.details.get("outcome", text.partition(":")[0])
        shown.append(Text(text, next((style for word, style in STYLES.items() if outcome.startswith(word)), "")))
    return shown


def run() -> str:
    """The recorded run as SVG."""
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, highlight=False)
        for text in lines():
            console.print(text, no_wrap=not text.plain.startswith("finished"), overflow="ellipsis")
    return console.export_svg(title=COMMAND, unique_id="run")


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    if len(sys.argv) > 1:
        record(Path(sys.argv[1]).resolve())
    GRAPH.write_text(graph())
    RUN.write_text(run())


if __name__ == "__main__":
    main()
