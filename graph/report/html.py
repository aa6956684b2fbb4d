"""report.html: one file without script, font or network, in which every figure leads to its record."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape

from graph.report.charts.attribution import attribution
from graph.report.charts.base import Drawing
from graph.report.charts.links import Links
from graph.report.charts.roofline_chart import roofline
from graph.report.charts.timeline import timeline
from graph.report.content.phrases import render
from graph.report.content.view import View
from graph.report.prompts import name_of

FIGURES = (timeline, roofline, attribution)
RECORD = re.compile(r"`?\b([0-9a-f]{16})\b`?")
STRONG = re.compile(r"\*\*([^*]+)\*\*")
SHOWN, LENGTH = 14, 100
"""Figures of a record that its description shows, and the characters of each."""


def html(view: View) -> str:
    """The page. Names, reasons and prose of kernels, tasks and models are escaped, and its policy lets nothing load
    or run."""
    links = Links(view.records)
    style = render("report.css")
    return render(
        "report.html",
        **vars(view),
        figures=[draw(view, links) for draw in FIGURES],
        links=links,
        prompt=name_of,
        told=lambda text: told(text, links),
        described=lambda record: list(_flat(record.payload))[:SHOWN],
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )


def told(text: str, links: Links) -> Drawing:
    """Prose as markup: escaped, ids of records made links, `**words**` made strong."""

    def link(found: re.Match[str]) -> str:
        href = links.href(found[1])
        return f'<a class="id" href="{href}">{found[1]}</a>' if href else found[0]

    return Drawing(STRONG.sub(r"<strong>\1</strong>", RECORD.sub(link, escape(text))))


def _flat(payload: object, name: str = "") -> Iterator[tuple[str, str]]:
    """The single values of a payload with their names, outermost first."""
    if isinstance(payload, dict):
        plain = {key: value for key, value in payload.items() if not isinstance(value, dict | list)}
        for key, value in (*plain.items(), *((k, v) for k, v in payload.items() if k not in plain)):
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    elif isinstance(payload, list):
        for at, value in enumerate(payload):
            yield from _flat(value, f"{name}[{at}]")
    elif payload not in (None, ""):
        said = " ".join(str(payload).split())
        yield name, said if len(said) <= LENGTH else said[: LENGTH - 1] + "…"
