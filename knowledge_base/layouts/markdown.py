"""The tables of a Markdown file, each with the product that the nearest heading is about. Knows nothing about
metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from knowledge_base.layouts import product_names
from knowledge_base.layouts.product_names import Heading
from knowledge_base.layouts.terminology import Words
from knowledge_base.pages.terminology import Name
from knowledge_base.pages.wiki import lines_of

HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")
UNDERLINE = re.compile(r"=+|-{3,}")
DOUBT = re.compile(r"approximate|unverified|unofficial|reference values|estimated|rumou?red", re.IGNORECASE)
GLUED = re.compile(r"^(\|.*\|)\s*(#{1,6}\s+\S.*)$")


class Section(NamedTuple):
    """Where a table stands."""

    name: Name | None
    """The product that the nearest heading is about; None where it is about none or several."""
    capability: str
    """The compute capability that it is about instead."""
    caveat: str
    """What the section says about the evidence of its numbers."""
    doubted: bool
    """Whether that is that they are approximate or unconfirmed."""
    hardware: bool
    """Whether the nearest heading speaks of hardware and nothing else."""
    refused: bool
    """Whether a heading above it speaks of measurements, ridge points or whole systems: no number of one GPU is read
    there."""


class Table(NamedTuple):
    """A table: its header and its rows with their lines."""

    header: tuple[str, ...]
    header_line: int
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    section: Section
    above: str
    """The line right above it: a caption."""
    below: str
    """The lines right below it: footnotes."""


class _Reader:
    def __init__(self, lines: list[str], words: Words) -> None:
        self.source, self.words = lines, words
        self.stack: list[tuple[int, Heading | str]] = []
        self.here: Section | None = None
        self.notes: list[tuple[int, str, bool]] = []
        self.page: tuple[str, bool] = ("", False)
        self.tables: list[Table] = []

    def section(self) -> Section:
        if self.here is None:
            self.here = self._section()
        return self.here

    def _section(self) -> Section:
        name, capability = None, ""
        for index in range(len(self.stack) - 1, -1, -1):
            level, head = self.stack[index]
            if isinstance(head, str):
                # Headings are looked at only where a number below them asks.
                head = product_names.heading(head, self.words)
                self.stack[index] = (level, head)
            if head.scope != "neutral":
                name, capability = head.name, head.capability
                break
        _, caveat, doubted = self.notes[-1] if self.notes else (0, *self.page)
        head = self.stack[-1][1] if self.stack else ""
        hardware = product_names.of_hardware(head if isinstance(head, str) else head.text, self.words)
        return Section(
            name, capability, caveat, doubted, hardware, any(_refused(head, self.words) for _, head in self.stack)
        )

    def heading(self, level: int, text: str) -> None:
        self.stack = [item for item in self.stack if item[0] < level]
        self.notes = [note for note in self.notes if note[0] < level]
        self.stack.append((level, text))
        self.here = None

    def quote(self, text: str) -> None:
        text = product_names.plain(text)
        doubted = bool(DOUBT.search(text)) and bool(
            re.search(r"\b(?:values|figures|numbers|specifications?)\b", text, re.IGNORECASE)
        )
        if not doubted and not text.lower().startswith("evidence status"):
            return
        short = text if len(text) <= 240 else text[:240].rsplit(" ", 1)[0] + " ..."
        if self.section().name and self.stack:
            self.notes.append((self.stack[-1][0], short, doubted))
        elif text.lower().startswith("evidence status"):
            self.page = (short, doubted)
        self.here = None


def tables(text: str, words: Words) -> list[Table]:
    """Read a whole file."""
    lines = lines_of(text)
    reader = _Reader(lines, words)
    fenced, index = False, _body(lines)
    while index < len(lines):
        line = lines[index].strip()
        mark = line[:1]
        if line.startswith("<!--") and not fenced:
            while index < len(lines) and "-->" not in lines[index]:
                index += 1
        elif mark in "`~" and line.startswith(("```", "~~~")):
            fenced = not fenced
        elif mark == "|" and not fenced:
            index = _table(reader, index)
            continue
        elif mark == ">" and not fenced:
            quote, index = _quote(lines, index)
            reader.quote(quote)
            continue
        elif mark in ("=", "-") and not fenced and UNDERLINE.fullmatch(line) and _is_text(lines, index - 1):
            reader.heading(1 if mark == "=" else 2, lines[index - 1].strip())
        elif mark == "#" and not fenced and (match := HEADING.match(line)):
            reader.heading(len(match[1]), match[2])
        index += 1
    return reader.tables


def cells(row: str) -> tuple[str, ...]:
    """Cells of one row; escaped bars stay in their cell."""
    return tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1])


def is_rule(row: str) -> bool:
    """The line between header and rows."""
    return set(row) <= set("|-: ") and "-" in row


def flattened(text: str) -> Iterator[tuple[str, ...]]:
    """Rows, header first, of a table that was joined into one line (`| a | b | | c | d |`); nothing when the cells do not come out even."""
    if not text.startswith("|"):
        return
    rows = [cells(f"|{row}|") for row in re.split(r"\|\s+\|", text.strip().strip("|"))]
    if len(rows) > 2 and len({len(row) for row in rows}) == 1 and set("".join(rows[1])) <= set("-: "):
        yield rows[0]
        yield from rows[2:]


def _refused(head: Heading | str, words: Words) -> bool:
    text = head.text if isinstance(head, Heading) else head
    return not (words.kinds["measured"] | words.kinds["system"]).isdisjoint(product_names.words_of(text))


def _body(lines: list[str]) -> int:
    """Index of the first line behind front matter."""
    if lines and lines[0].strip() == "---":
        return next((number + 1 for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    return 0


def _is_text(lines: list[str], index: int) -> bool:
    return index >= 0 and bool(lines[index].strip()) and lines[index].lstrip()[:1] not in "|#>-*+`~=0123456789"


def _quote(lines: list[str], index: int) -> tuple[str, int]:
    said = []
    while index < len(lines) and lines[index].strip().startswith(">"):
        said.append(lines[index].strip().lstrip("> "))
        index += 1
    return " ".join(said), index


def _above(lines: list[str], index: int) -> str:
    """The last line of text above a table; empty where a heading, a table, a quote or a fence stands there."""
    index -= 1
    while index >= 0 and not lines[index].strip():
        index -= 1
    text = lines[index].strip() if index >= 0 else ""
    return "" if text.startswith(("#", "|", "```", "---", "===", ">")) else product_names.plain(text)


def _below(lines: list[str], index: int) -> str:
    """Up to four lines of text below a table, up to the next heading, table or fence."""
    said: list[str] = []
    for line in lines[index : index + 8]:
        text = line.strip()
        if text.startswith(("#", "|", "```", "---")) or len(said) == 4:
            break
        if text:
            said.append(text.lstrip("> "))
    return " ".join(said)


def _table(reader: _Reader, index: int) -> int:
    """Read the table that starts at `index`; the index of the line below it. A heading glued to a row's end closes
    the table."""
    start, rows, glued = index, [], ""
    while index < len(reader.source) and reader.source[index].strip().startswith("|") and not glued:
        text = reader.source[index].strip()
        if match := GLUED.match(text):
            text, glued = match[1], match[2]
        row = () if is_rule(text) else cells(text if text.endswith("|") else f"{text}|")
        if len(row) > 1:
            rows.append((index + 1, row))
        index += 1
    if len(rows) > 1:
        below, above = _below(reader.source, index), _above(reader.source, start)
        reader.tables.append(Table(rows[0][1], start + 1, tuple(rows[1:]), reader.section(), above, below))
    if glued and (match := HEADING.match(glued)):
        reader.heading(len(match[1]), match[2])
    return index
