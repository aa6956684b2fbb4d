"""The figures of an external wiki: JSON records, or Markdown pages in any folders.

The layout is told from folders and files, never from the wiki's name. A file that cannot be read costs only itself.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from knowledge_base.artifacts import Page
from knowledge_base.layouts.figure_collector import FigureCollector, WikiFile
from knowledge_base.layouts.json_records import read_record
from knowledge_base.layouts.markdown_pages import PageReader
from knowledge_base.layouts.vocabulary import load_vocabulary
from knowledge_base.pages.figures import HardwareFigures
from knowledge_base.pages.wiki import lines_of, read_page, reason_not_opened

SKIPPED_FOLDERS = frozenset(
    [
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
    ]
)
"""Folders that hold no page of the wiki itself."""
INDEX_FILES = frozenset({"readme.md", "index.md", "relations.md", "agents.md", "claude.md", "index.json"})
SHEET_FOLDER = "hardware-specs"
"""Folder of the pages with specifications; a wiki that has it is not read elsewhere."""
RECORD_FOLDER = "hardware_wiki/records"


def read_external_wiki(root: Path) -> HardwareFigures | None:
    """All figures of the wiki at `root`; None when no file there has any."""
    paths = _page_paths(root)
    has_records = any(f"/{RECORD_FOLDER}/" in f"/{path}" for path in paths)
    if has_records:
        paths = [path for path in paths if path.endswith(".json") and "/spec-sheet/" in path]
    else:
        paths = [path for path in paths if path.endswith(".md")]
        sheets = [path for path in paths if f"/{SHEET_FOLDER}/" in f"/{path}"]
        paths = sheets or paths
    collector = FigureCollector(load_vocabulary())
    for path in paths:
        _read_file(root, path, collector)
    figures = collector.checked_figures()
    return figures if figures.figures or figures.gaps else None


def _page_paths(root: Path) -> list[str]:
    """Paths of Markdown and JSON files relative to `root`, in order; no indexes, no other projects."""
    paths = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("."))
        paths += [
            (Path(folder) / file).relative_to(root).as_posix()
            for file in files
            if file.endswith((".md", ".json")) and file.lower() not in INDEX_FILES
        ]
    return sorted(paths)


def _read_file(root: Path, path: str, collector: FigureCollector) -> None:
    data = b""
    try:
        if refused := reason_not_opened(root, path):
            raise ValueError(refused)
        data = (root / path).read_bytes()
        if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:400]:
            raise ValueError("is not UTF-8")
        text = data.decode("utf-8").removeprefix("\ufeff")
        if not collector.vocabulary.product.search(text) or _is_our_layout(root, path, text):
            return
        file = WikiFile(path, lines_of(data.decode("utf-8")))
        if path.endswith(".json"):
            read_record(text, file, collector)
        else:
            PageReader(file, collector).read()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        collector.problems.append(f"{path}:{line}: is not UTF-8 and was left out; save the file as UTF-8")
    except (OSError, ValueError, RecursionError, OverflowError) as error:
        collector.problems.append(f"{path}:{getattr(error, 'lineno', 1)}: cannot be read and was left out: {error}")


def _is_our_layout(root: Path, path: str, text: str) -> bool:
    """Whether a page has our own front matter, whether or not it is valid: such pages have a reader of their own."""
    if not text.startswith("---"):
        return False
    head = text[: max(text.find("\n---", 3), 0)]
    has_keys = all(re.search(rf"(?m)^{key}:", head) for key in ("id", "type", "last_checked"))
    return has_keys or isinstance(read_page(root, path), Page)
