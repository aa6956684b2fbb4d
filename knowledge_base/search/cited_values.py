"""Compares each figure of a workspace with what it cites (law 2): the figures in its JSON files, and the lines
`metric: value unit <- citation` of its texts. Prose is no value."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import starmap
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from pydantic import JsonValue

from knowledge_base.pages.names import NUMBER, metrics_of
from knowledge_base.pages.wiki import Wiki, WikiProblem, lines_of
from knowledge_base.search.code_chunks import REFERENCE_PREFIX
from knowledge_base.specs import lookup

CITATION_TEXT = re.compile(rf"(?:<gpu-wiki>/|(?={REFERENCE_PREFIX}/))([^\s:`\"\\]+):(\d+)")
QUANTITY = rf"([\w.]+): ({NUMBER.pattern}) (32-bit registers|[^\s<>]*)"
CITED_VALUE = re.compile(rf"(?<![\w.]){QUANTITY} <- (?:record )?(\S+)")
BARE_VALUE = re.compile(rf"\s*(?:[-*] )?{QUANTITY}(?: \([^()]*\))?[.;,]?\s*")
NUMBER_IN_TEXT = re.compile(rf"(?<![\w.]){NUMBER.pattern}")


class CitedValue(NamedTuple):
    """One figure where it stands."""

    file: str
    at: int
    """Line in that file, from 1."""
    metric: str
    value: float
    unit: str
    citation: str
    """A line of the wiki or of a reference project, the id of a record or of a rule; empty without one."""


def check_values(
    texts: Mapping[str, str], wiki: Wiki, line_at: Callable[[str, int], str | None]
) -> tuple[int, tuple[WikiProblem, ...]]:
    """Return the number of figures in the files of a workspace (name -> text), and those that differ from what they
    cite or cite nothing. `line_at`: a cited line; None where it is gone or changed, which is a problem of its own."""
    sources = _Sources(wiki)
    found = [one for name, text in texts.items() for one in sources.values_of(name, text)]
    return len(found), tuple(
        WikiProblem(one.file, one.at, f"{one.metric}: {one.value:.10g} {one.unit}".rstrip() + f" {why}")
        for one in found
        if (why := sources.fault(one, line_at))
    )


class _Sources:
    """What the wiki and the files that were read state, by citation."""

    def __init__(self, wiki: Wiki) -> None:
        self.metrics = metrics_of(wiki)
        self.stated: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
        self.texts: dict[str, list[str]] = defaultdict(list)
        for figure in lookup.figures_of(wiki).figures:
            self.stated[str(figure.citation), figure.metric].append((figure.value, figure.unit))

    def values_of(self, name: str, text: str) -> Iterator[CitedValue]:
        """Yield the figures of a file, and keep what others can cite in it."""
        if name.endswith(".json"):
            with suppress(ValueError):  # the audit names a file that is damaged
                yield from self._values_of_json(name, text, json.loads(text))
            return
        for at, line in enumerate(lines_of(text), 1):
            for match in CITED_VALUE.finditer(line):
                yield CitedValue(name, at, match[1], _number(match[2]), match[3], match[4].rstrip(".,;)`"))
            bare = BARE_VALUE.fullmatch(line)
            # Only a metric of the wiki is known to be one of the hardware.
            if bare and self.metrics.allows_unit(bare[1], bare[3]):
                yield CitedValue(name, at, bare[1], _number(bare[2]), bare[3], "")

    def _values_of_json(self, name: str, text: str, content: Any) -> Iterator[CitedValue]:
        # A derived fact is cited by the record that was measured, a parent of the one that holds it.
        cited_as = (PurePosixPath(name).stem, *(content.get("parents", ()) if isinstance(content, dict) else ()))
        for key, one in _objects(content):
            figure = one.keys() >= {"metric", "value", "unit"} and isinstance(one["value"], int | float)
            if figure and (key == "figures" or "citation" in one):
                at = 1 + text.count("\n", 0, max(text.find(json.dumps(one["metric"])), 0))
                yield CitedValue(name, at, one["metric"], one["value"], one["unit"], _citation(one))
            elif "text" in one or "body" in one:
                self.texts[one.get("rule") or _citation(one)].append(str(one.get("text") or one.get("body")))
            elif one.keys() == {"value", "unit"}:
                self.stated |= {(identity, key): [(one["value"], one["unit"])] for identity in cited_as}
            elif one.keys() >= {"workload", "seconds"}:
                self.stated |= {(identity, f"time.{one['workload']}"): [(one["seconds"], "s")] for identity in cited_as}

    def fault(self, one: CitedValue, line_at: Callable[[str, int], str | None]) -> str:
        """Return why a figure is not what it cites; empty if it is."""
        cited, line = CITATION_TEXT.fullmatch(one.citation), None
        if cited and (line := line_at(cited[1], int(cited[2]))) is None:
            return ""
        given = self.stated.get((one.citation, self.metrics.canonical(one.metric)[0] if cited else one.metric), [])
        value, unit = self._comparable(one.value, one.unit)
        # Prompts show a counter with four digits.
        if any(unit == its and value in (v, float(f"{v:.4g}")) for v, its in starmap(self._comparable, given)):
            return ""
        if given:
            return f"differs from {one.citation}, which gives {given[0][0]:.10g} {given[0][1]}"
        numbers = NUMBER_IN_TEXT.finditer("\n".join([line or "", *self.texts.get(one.citation, ())]))
        if any(_number(match[0]) == one.value for match in numbers):
            return ""
        return f"is not in {one.citation}" if one.citation else "has no citation; name its source, or leave it out"

    def _comparable(self, value: float, unit: str) -> tuple[float, str]:
        return (1e6 * value, "us") if unit == "s" else self.metrics.scaled(value, unit)


def _objects(value: JsonValue, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object in a JSON value with the key under which it, or the list that holds it, stands."""
    if isinstance(value, dict):
        yield key, value
    inner = (
        value.items() if isinstance(value, dict) else ((key, one) for one in value) if isinstance(value, list) else ()
    )
    for name, one in inner:
        yield from _objects(one, name)


def _citation(holder: Mapping[str, Any]) -> str:
    """The citation of a figure or of a passage, or the line by which a page is offered."""
    cited = holder.get("citation") or ""
    if not cited and "body_line" in holder:
        cited = {"path": holder["path"], "line": holder["body_line"]}
    if isinstance(cited, str):
        return cited.strip()
    return f"{'' if cited['path'].startswith('<') else '<gpu-wiki>/'}{cited['path']}:{cited['line']}"


def _number(text: str) -> float:
    return float(text.replace(",", ""))
