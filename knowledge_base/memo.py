"""Somebody's notes on one kernel (mission D8), as far as they say what was tried and what came of it.

Notes have no schema, so that this reads what people and agents commonly write: `key: value` lines for the conditions; attempts as rows
of a table, as list items, or as headings with details below; the outcome as a word (accepted, rejected, crashed, …) in the line, or in the
heading above a list. Nothing is guessed: a line that could be an attempt and does not say what came of it is returned as not understood.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from pydantic import ValidationError

from knowledge_base.artifacts import Attempt
from tools.artifacts import UNBOUNDED, DType, Interval, Outcome, digest
from tools.errors import SettingsError

Result = Literal["success", "failure", "neutral", "crash"]
WORDS: tuple[tuple[Result, str], ...] = (
    ("crash", r"crash|segfault|(?:did not|does not|failed to|doesn't|didn't) (?:compile|build)|compil\w+ (?:error|fail)"),
    ("crash", r"incorrect|wrong|mismatch|\bnan\b|\bhang"),
    (
        "failure",
        r"reject|revert|regress|slower|avoid|no (?:gain|improvement|speed-?up)|not (?:faster|worth)|rolled back|\bfail|❌|✗",
    ),
    ("neutral", r"neutral|inconclusive|informational|exploratory|pending|within noise|\bnoise\b|unclear|no (?:change|effect|difference)"),
    ("success", r"accept|\bkept\b|\bkeep\b|resolved|success|\bwin\b|\bwon\b|promoted|committed|\bfaster\b|improve|✅|✓"),
)
"""How notes call the outcomes; of those named in one place the earliest counts, for `not faster` contains `faster`."""
VERDICTS: dict[Result, Outcome] = {
    "success": "accept",
    "failure": "reject_perf",
    "neutral": "inconclusive",
    "crash": "reject_correctness",
}
KEYS = {
    "operator": ("kernel", "operator", "op", "kernel type"),
    "language": ("language", "backend"),
    "architecture": ("architecture", "arch", "gpu", "chip", "target", "device"),
    "dtype": ("dtype", "precision", "type", "data type"),
    "shape_class": ("shape class",),
    "bottleneck": ("bottleneck", "bound"),
}
"""Condition -> what notes call it."""
DTYPES = {
    "fp64": "float64",
    "double": "float64",
    "fp32": "float32",
    "float": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
}
LANGUAGES = {"triton": "triton", "gluon": "gluon", "cutlass": "cutlass", "cuda": "cuda", "hip": "hip", "c++": "cpp", "cpp": "cpp"}
"""A word in what notes say -> the language; CUDA C++ is cuda."""
PAIR = re.compile(r"^\s*(?:[-*+]\s+)?\**([A-Za-z][\w /-]{0,30}?)\**\s*[:=]\**\s+(.+?)\s*$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(.+)$")
HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
FACTOR = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(?:[x×](?![\w])|times faster)")
ATTEMPT = re.compile(r"^(?:attempt|try|v|version|iteration|iter|round|step|experiment|exp)\.?\s*#?\d+\b[\s:.–—-]*", re.I)
COLUMNS = {
    "what": ("change", "method", "methods", "what", "optimisation", "optimization", "technique", "idea", "description", "attempt"),
    "id": ("id", "#", "no", "no.", "attempt"),
    "effect": ("speedup", "speed-up", "effect", "gain", "factor"),
    "note": ("note", "notes", "reason", "why", "comment", "lesson"),
}
RESULTS = ("outcome", "verdict", "decision", "status", "result", "results")
"""Columns that may say what came of it, the likeliest first: where there is one of the others, `result` often holds figures."""
NUMBER = re.compile(r"[A-Za-z]{0,3}[.-]?\d+")
ELSEWHERE = re.compile(
    r"\b(?:protocol|gates?|rules?|criteria|baseline|validation|verification|template|set-?up|environment|profile)\b", re.I
)
"""Headings of lists that tell how attempts are judged, or sum them up."""
SETTLED = re.compile(
    r"\b(?:accepted|rejected|kept|reverted|rolled back|resolved|promoted|committed|won|wins|improve(?:d|ments)|regress(?:ed|ions)"
    r"|slower|faster|fail(?:ed|ures)|crash(?:ed|es)|neutral|inconclusive|pending|within noise"
    r"|no (?:gain|improvement|speed-?up|change|effect|difference))\b",
    re.I,
)
"""How a heading says for itself what came of the attempts below it; `acceptance` and `reject` are of those that tell how it is judged."""
RULING = re.compile(r"\b(?:for|of|how|when|what|which|to be)\b", re.I)
"""Before such a word it speaks of attempts to come: `rules for accepted changes`."""


class Memo(NamedTuple):
    """What a file of notes says."""

    attempts: tuple[Attempt, ...]
    left: tuple[str, ...]
    """`file:line: why` for each line that was not understood."""


class Found(NamedTuple):
    """One attempt in somebody's words."""

    line: int
    what: str
    result: str
    """The words that say what came of it."""
    note: str = ""
    id: str = ""
    """What the notes number it by."""
    figures: str = ""
    """Where else its factor may stand."""


def read(path: Path, methods: Collection[str], said: dict[str, str]) -> Memo:
    """The attempts in the notes at `path`. `methods`: ids that the wiki knows; `said`: conditions that go before what the notes say.

    SettingsError when the file cannot be read, or when neither the notes nor `said` tell operator, language or a dtype that there is.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise SettingsError(f"--memo {path}: cannot be read ({error.strerror}); give a text file") from error
    left: list[str] = []
    held = {**_conditions(lines), **{key: value for key, value in said.items() if value}}
    missing = [key for key in ("operator", "language", "dtype") if not held.get(key)]
    if missing:
        raise SettingsError(f"--memo {path}: does not say {', '.join(missing)}; add {' '.join(f'--{key} …' for key in missing)}")
    if held["dtype"] not in get_args(DType):
        raise SettingsError(f"--memo {path}: dtype {held['dtype']!r} is unknown; add --dtype with one of {', '.join(get_args(DType))}")
    attempts: list[Attempt] = []
    numbered: set[tuple[str, tuple[str, ...]]] = set()
    for found in _attempts(lines, path, left):
        made = _attempt(found, held, methods, path)
        if isinstance(made, str):
            left.append(f"{path}:{found.line}: {made}")
        elif (found.id, made.methods) in numbered:
            left.append(f"{path}:{found.line}: {found.id} was told above")
        else:
            attempts.append(made)
            if NUMBER.fullmatch(found.id):
                numbered.add((found.id, made.methods))
    return Memo(tuple(attempts), tuple(sorted(left, key=lambda one: int(one.removeprefix(f"{path}:").split(":")[0]))))


def _conditions(lines: list[str]) -> dict[str, str]:
    """The conditions that the notes tell; the first word on each counts."""
    found: dict[str, str] = {}
    for line in lines:
        pair = PAIR.match(line)
        key = next((key for key, names in KEYS.items() if pair and pair[1].strip().lower() in names), None)
        if pair and key:
            found.setdefault(key, _value(key, pair[2].strip("`* ")))
    title = next((match[2] for line in lines if (match := HEADING.match(line))), "")
    named = re.sub(r"(?i)^(?:kernel\s+)?(?:memo|notes?|memory)\b\s*(?:on|of|for)?[\s:.–—-]*|[\s:–—-]+(?:memo|notes?)$", "", title)
    if named and named != title:
        found.setdefault("operator", named.strip("`* "))
    return found


def _value(key: str, text: str) -> str:
    if key == "dtype":
        word = text.lower().split()[0].strip(",;")
        return DTYPES.get(word, word)
    if key == "bottleneck":
        return next((bound for bound in ("memory", "compute", "latency", "occupancy", "mixed") if bound in text.lower()), "unknown")
    if key == "language":
        return next((name for word, name in LANGUAGES.items() if word in text.lower()), text.lower())
    return text.lower() if key == "architecture" else text


def _attempts(lines: list[str], path: Path, left: list[str]) -> Iterator[Found]:
    """Rows, items and headings that tell of an attempt; what is neither these nor conditions goes to `left`."""
    section, columns = "", None
    opened: Found | None = None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        heading = HEADING.match(text)
        cells = [cell.strip() for cell in text.strip("|").split("|")] if text.startswith("|") else None
        if not cells:
            columns = None
        if heading:
            if opened:
                yield opened
            named = ATTEMPT.sub("", heading[2])
            opened = Found(number, named, heading[2]) if named != heading[2] else None
            section = heading[2] if opened is None else ""
        elif cells and columns is None:
            columns = _columns(cells)
        elif cells and columns is not None:
            if not set(text) <= set("|-: "):
                yield _row(number, cells, columns)
        elif opened and text:
            opened = opened._replace(result=f"{opened.result} {text}", note=f"{opened.note} {text}".strip())
        elif (item := ITEM.match(line)) and not _condition(line) and not _elsewhere(section):
            said = item[1] if _result(item[1]) or not _result(section) else f"{section}: {item[1]}"
            yield Found(number, ATTEMPT.sub("", item[1]), said, item[1])
        elif text and not _condition(line):
            left.append(f"{path}:{number}: prose, which tells no attempt that can be kept")
    if opened:
        yield opened


def _columns(cells: list[str]) -> dict[str, int]:
    heads = [cell.lower().strip("*` ") for cell in cells]
    named = {key: next(heads.index(name) for name in names if name in heads) for key, names in COLUMNS.items() if set(names) & set(heads)}
    return named | {name: heads.index(name) for name in RESULTS if name in heads}


def _row(number: int, cells: list[str], columns: dict[str, int]) -> Found:
    def cell(name: str) -> str:
        return cells[columns[name]] if columns.get(name, len(cells)) < len(cells) else ""

    said = [cell(name) for name in RESULTS if cell(name)]
    result = next((one for one in said if _result(one)), " ".join(said))
    return Found(number, cell("what") or cells[0], f"{result} {cell('effect')}", cell("note"), cell("id"), " ".join(said))


def _elsewhere(heading: str) -> bool:
    """Whether the list below it tells of no attempts."""
    settled = SETTLED.search(heading)
    return ELSEWHERE.search(heading) is not None and (settled is None or RULING.search(heading, 0, settled.start()) is not None)


def _condition(line: str) -> bool:
    pair = PAIR.match(line)
    return pair is not None and any(pair[1].strip().lower() in names for names in KEYS.values())


def _result(text: str) -> Result | None:
    found = [(match.start(), rank, result) for rank, (result, words) in enumerate(WORDS) if (match := re.search(words, text, re.I))]
    return min(found)[2] if found else None


def _attempt(found: Found, held: dict[str, str], methods: Collection[str], path: Path) -> Attempt | str:
    """The attempt, or why there is none."""
    result = _result(found.result)
    if result is None:
        return "does not say what came of it (accepted, rejected, crashed, inconclusive …)"
    told = f"{found.what} {found.note}"
    named = tuple(sorted(method for method in methods if re.search(rf"(?<![\w-]){re.escape(method)}(?![\w-])", told)))
    short = re.split(r"\s*(?:[:;(→]|[–—]| - |->)\s*", found.what.strip("`* "))[0]
    slug = re.sub(r"[^a-z0-9]+", "-", short.lower()).strip("-")[:60]
    if not named and not slug:
        return "does not say what was tried"
    factor = next((match for text in (found.result, found.figures, found.note) if (match := FACTOR.search(text))), None)
    try:
        return Attempt.model_validate(
            {
                **{key: held.get(key, "") for key in ("operator", "language", "architecture", "dtype", "shape_class")},
                "bottleneck": held.get("bottleneck") or "unknown",
                "methods": named or (slug,),
                "result": result,
                "verdict": VERDICTS[result],
                # Without an interval: both ends open.
                "effect": Interval(estimate=float(factor[1]), low=1 / UNBOUNDED, high=UNBOUNDED) if factor and float(factor[1]) else None,
                "evidence": f"memo:{digest(chr(0).join((held['operator'], found.what, found.result)))[:12]}",
                "workspace": path.name,
                "note": (found.note or found.what)[:500],
                "origin": "memo",
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))} {first['input']!r} cannot be kept: {first['msg']}"
