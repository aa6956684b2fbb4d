"""report.html: one file without script, font or network, in which every figure leads to its record."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape

from graph.report.charts import CHARTS, Markup
from graph.report.content.phrases import render
from graph.report.content.view import ReportData
from graph.report.links import Links
from graph.report.prompts import exchange_file

RECORD_ID = re.compile(r"`?\b([0-9a-f]{16})\b`?")
STRONG = re.compile(r"\*\*([^*]+)\*\*")
MAX_VALUES, MAX_VALUE_LENGTH = 14, 100
"""Values of a record that its description shows, and characters of each."""


def render_html(view: ReportData) -> str:
    """The page. Names, reasons and prose of kernels, tasks and models are escaped, and its policy lets nothing load
    or run."""
    links = Links(view.records)
    style = render("report.css")
    outcomes = [outcome for _, attribution in view.attributions.values() for outcome in attribution.methods]
    return render(
        "report.html",
        **vars(view),
        figures=[draw(view, links) for draw in CHARTS],
        longest=max([1.01, *(outcome.ratio.estimate for outcome in outcomes if outcome.ratio)]),
        links=links,
        prompt=exchange_file,
        prose=lambda text: prose(text, links),
        described=lambda record: list(_values(record.payload))[:MAX_VALUES],
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )


def prose(text: str, links: Links) -> Markup:
    """Prose as markup: escaped, with links at the ids of records and `**words**` made strong."""

    def link(match: re.Match[str]) -> str:
        href = links.href(match[1])
        return f'<a class="id" href="{href}">{match[1]}</a>' if href else match[0]

    return Markup(STRONG.sub(r"<strong>\1</strong>", RECORD_ID.sub(link, escape(text))))


def _values(payload: object, name: str = "") -> Iterator[tuple[str, str]]:
    """The single values of a payload with their names, outermost first."""
    if isinstance(payload, dict):
        plain = {key: value for key, value in payload.items() if not isinstance(value, dict | list)}
        for key, value in (*plain.items(), *((k, v) for k, v in payload.items() if k not in plain)):
            yield from _values(value, f"{name}.{key}" if name else str(key))
    elif isinstance(payload, list):
        for at, value in enumerate(payload):
            yield from _values(value, f"{name}[{at}]")
    elif payload not in (None, ""):
        text = " ".join(str(payload).split())
        yield name, text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"
