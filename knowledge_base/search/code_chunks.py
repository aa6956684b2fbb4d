"""A folder of reference projects: text files cut at functions and classes into pieces that can be cited."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from knowledge_base.artifacts import Passage
from knowledge_base.pages.wiki import lines_of, reason_not_opened
from knowledge_base.search.search_entries import SearchEntry
from tools.artifacts import digest
from tools.errors import SettingsError
from tools.roofline.hardware import Citation

REFERENCE_PREFIX = "<reference>"
C_LIKE = frozenset({".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hip", ".hpp", ".inl"})
PROSE = frozenset({".md", ".rst", ".txt"})
SUFFIXES = C_LIKE | PROSE | {".py"}
SKIPPED = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages"})
MAX_FILE_BYTES = 300_000
"""Bytes; a larger file is generated or data."""
RECHECK_S = 30.0
MAX_FILES, MAX_PIECES = 4000, 20_000
"""Most that is read of one folder."""
MIN_PIECE_LINES, MAX_PIECE_LINES = 12, 60
"""Lines: pieces shorter than the one are joined with the next, pieces longer than the other cut."""
DEFINITION_START = re.compile(
    r"(?:@|def |class |async def |template|__global__|__device__|__host__|static |inline |extern |struct "
    r"|namespace |#{1,4} )"
)
DEFINED_NAME = re.compile(r"(?:def|class|struct|namespace)\s+(\w+)|(\w+)\s*\(|^#+ (.+)", re.MULTILINE)
KEYWORDS = frozenset(
    {
        "if",
        "for",
        "while",
        "switch",
        "return",
        "sizeof",
        "defined",
        "template",
        "__launch_bounds__",
        "__attribute__",
        "jit",
    }
)
LANGUAGE_IMPORTS = (
    ("cutedsl", re.compile(r"\bimport cutlass\b|from cutlass")),
    ("flydsl", re.compile(r"\b(?:import|from) flydsl\b")),
    ("triton", re.compile(r"\b(?:import|from) triton\b")),
    ("tilelang", re.compile(r"\b(?:import|from) tilelang\b")),
)
"""What a Python file of a language imports."""


class ReferenceFile(NamedTuple):
    """One text file."""

    name: str
    """Relative to the folder, with forward slashes."""
    size: int
    changed: int
    """Nanoseconds."""


class ReferenceProjects:
    """One folder of projects that others wrote. It is only read."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir() or not os.access(root, os.R_OK | os.X_OK):
            raise SettingsError(
                f"reference_projects: {str(root)!r} is not a readable folder; name one that holds projects, or "
                f"leave it out"
            )
        self.root = root
        self._looked, self._mark = -math.inf, 0

    def fingerprint(self) -> int:
        """A number that changes when any of its text files does; looked at anew after RECHECK_S, since there may be
        thousands."""
        now = time.monotonic()
        if now - self._looked >= RECHECK_S:
            self._looked, self._mark = now, hash(tuple(self._files()))
        return self._mark

    def entries(self) -> list[SearchEntry]:
        """The pieces of all files, in the order of path and line."""
        found: list[SearchEntry] = []
        for source in self._files():
            found += self._pieces(source.name)
            if len(found) >= MAX_PIECES:
                break
        return found[:MAX_PIECES]

    def line(self, name: str, number: int) -> str | None:
        """Line `number` (from 1) of a file as it is now; None where there is none."""
        lines = self._lines(name)
        return lines[number - 1] if 0 < number <= len(lines) else None

    def _files(self) -> list[ReferenceFile]:
        found: list[ReferenceFile] = []
        for folder, below, files in os.walk(self.root):
            below[:] = sorted(name for name in below if not name.startswith(".") and name not in SKIPPED)
            for name in sorted(files):
                path = Path(folder) / name
                if path.suffix.lower() not in SUFFIXES or path.is_symlink():
                    continue
                stat = path.stat()
                if 0 < stat.st_size <= MAX_FILE_BYTES:
                    found.append(ReferenceFile(path.relative_to(self.root).as_posix(), stat.st_size, stat.st_mtime_ns))
            if len(found) >= MAX_FILES:
                break
        return found[:MAX_FILES]

    def _lines(self, name: str) -> list[str]:
        """Empty for a file that is gone, not a file, or not text."""
        if reason_not_opened(self.root, name):
            return []
        data = (self.root / name).read_bytes()
        return [] if b"\0" in data[:4096] else lines_of(data.decode("utf-8", errors="replace"))

    def _pieces(self, name: str) -> Iterator[SearchEntry]:
        lines = self._lines(name)
        text = "\n".join(lines)
        languages = languages_of(name, text)
        for first, last in piece_ranges(lines):
            piece = "\n".join(lines[first:last])
            path = f"{REFERENCE_PREFIX}/{name}"
            passage = Passage(
                path=path,
                heading=(name, _defined_name(piece)) if _defined_name(piece) else (name,),
                first_line=first + 1,
                last_line=last,
                text=piece,
                kind="reference",
                citation=Citation(path=path, line=first + 1, sha256=digest(lines[first])),
            )
            yield SearchEntry(passage, " ".join(Path(name).with_suffix("").parts), languages)


def piece_ranges(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Ranges of lines (from 0, end excluded) that belong together: at most LONG lines, beginning at definitions
    where there are any."""
    starts = [0]
    for number, line in enumerate(lines):
        decorated = number > 0 and lines[number - 1].startswith(("@", "template"))
        if DEFINITION_START.match(line) and not decorated and number - starts[-1] >= MIN_PIECE_LINES:
            starts.append(number)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        while start < end:
            stop = min(end, start + MAX_PIECE_LINES)
            first = next((number for number in range(start, stop) if lines[number].strip()), stop)
            last = stop
            while last > first and not lines[last - 1].strip():
                last -= 1
            if last > first:
                yield first, last
            start = stop


def languages_of(name: str, text: str) -> frozenset[str]:
    """The kernel languages of a file; empty for prose, which may be about any."""
    suffix = Path(name).suffix.lower()
    if suffix in PROSE:
        return frozenset()
    if suffix == ".py":
        return frozenset(language for language, mark in LANGUAGE_IMPORTS if mark.search(text)) or frozenset({"python"})
    if suffix == ".hip" or "hip/hip_runtime" in text:
        return frozenset({"hip"})
    if "cutlass/" in text or "cute/" in text:
        return frozenset({"cutlass", "cuda"})
    return (
        frozenset({"cuda"})
        if suffix in (".cu", ".cuh") or "__global__" in text or "__device__" in text
        else frozenset({"cpp"})
    )


def _defined_name(piece: str) -> str:
    """The name of the first definition in a piece; empty where there is none."""
    for found in DEFINED_NAME.finditer(piece):
        name = found[1] or found[2] or found[3]
        if name and name not in KEYWORDS:
            return name.strip()
    return ""
