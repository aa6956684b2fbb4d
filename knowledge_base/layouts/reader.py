"""Wikis of other people: JSON records, architecture-first, role-first or plain Markdown -> Figures.

The layout is told from the folders and files, never from the wiki's name. Reads each file once; a file that cannot be
read costs itself.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from knowledge_base.artifacts import Page
from knowledge_base.layouts import json_records, markdown
from knowledge_base.layouts.collector import Findings, Place
from knowledge_base.layouts.tables import Reader
from knowledge_base.layouts.terminology import load
from knowledge_base.pages.figures import Figures
from knowledge_base.pages.wiki import lines_of, read_page, refusal

SKIPPED = frozenset(
    {
        "3rdparty",
        "third_party",
        "node_modules",
        "reference-kernels",
        "schema",
        "schemas",
        "skills",
        "tools",
        "scripts",
        "tests",
    }
)
"""Folders that hold no page of the wiki itself."""
SHEETS = "hardware-specs"
"""Folder whose pages are the specifications, where a wiki has any; its other pages are not read then."""
LIMITS = re.compile(r"compute[-_ ]capabilit", re.IGNORECASE)
"""A page of limits, by its file name."""


def read(root: Path) -> Figures | None:
    """All numbers of the wiki below `root`; None when nothing there is a foreign wiki's page with any."""
    files = _walk(root)
    json_records = any("/hardware_wiki/records/" in f"/{name}" for name in files)
    sheets = not json_records and any(f"/{SHEETS}/" in f"/{name}" for name in files)
    findings = Findings(load())
    for name in files:
        if name.endswith(".json") == json_records:
            _file(root, name, findings, sheets)
    figures = findings.settle()
    return figures if figures.figures or figures.silences else None


def _walk(root: Path) -> list[str]:
    """Paths of Markdown and JSON files, relative to `root`, in order; no indexes, no other projects."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        base = os.path.relpath(folder, root)
        for file in files:
            index = (
                file.lower() in ("readme.md", "index.md", "relations.md", "agents.md", "claude.md")
                or file == "index.json"
            )
            if file.endswith((".md", ".json")) and not index:
                found.append(file if base == "." else f"{base}/{file}".replace(os.sep, "/"))
    return sorted(found)


def _file(root: Path, name: str, findings: Findings, sheets: bool) -> None:
    raw = b""
    try:
        refused = refusal(root, name)
        if refused:
            raise ValueError(refused)
        raw = (root / name).read_bytes()
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in raw[:400]:
            raise ValueError("is not UTF-8")
        if not findings.words.prefilter.search(raw.upper()) or _own(root, name, raw):
            return
        text = raw.decode("utf-8")
        place = Place(name, lines_of(text))
        if name.endswith(".json"):
            if "/spec-sheet/" in name:
                json_records.read_sheet(text.removeprefix("\ufeff"), place, findings)
            else:
                json_records.read_text(place, findings)
        else:
            _markdown(text.removeprefix("\ufeff"), place, findings, sheets)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        findings.problems.append(f"{name}:{line}: is not UTF-8 and was left out; save the file as UTF-8")
    except (OSError, ValueError, RecursionError, OverflowError) as error:
        findings.problems.append(f"{name}:{getattr(error, 'lineno', 1)}: cannot be read and was left out: {error}")


def _own(root: Path, name: str, raw: bytes) -> bool:
    """Whether this is a page of our own layout, which has a reader of its own; a broken one is none of somebody
    else's."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if not raw.startswith(b"---"):
        return False
    head = raw[: max(raw.find(b"\n---", 3), 0)]
    return all(re.search(rb"(?m)^" + key + rb":", head) for key in (b"id", b"type", b"last_checked")) or isinstance(
        read_page(root, name), Page
    )


def _markdown(text: str, place: Place, findings: Findings, sheets: bool) -> None:
    if sheets and f"/{SHEETS}/" not in f"/{place.path}" and not LIMITS.search(place.path.rsplit("/", 1)[-1]):
        return
    reader = Reader(findings, place, curated=sheets)
    for table in markdown.tables(text, findings.words):
        reader.read(table)
