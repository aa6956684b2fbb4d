"""What can be asked of the experience log, as the command line and the MCP server ask it: each verb returns one artifact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from knowledge_base import sharing
from knowledge_base.artifacts import Attempt
from knowledge_base.conditions import family
from knowledge_base.experience import Experience, read
from knowledge_base.recommend import Recommendation, conditions, targets
from knowledge_base.recommend import recommend as weigh
from knowledge_base.standing import RESULTS, Standing, compacted
from knowledge_base.wiki import Wiki
from tools.artifacts import UNBOUNDED, Artifact, Interval, digest
from tools.errors import SettingsError
from tools.spelling import meant, offered


class Filter(Artifact):
    """Which attempts are meant; an empty field lets all pass."""

    operator: str = ""
    language: str = ""
    architecture: str = ""
    dtype: str = ""
    bottleneck: str = ""
    """What bounds the kernel, or a finding."""
    method: str = ""
    result: str = ""


class Listed(Artifact):
    """Attempts, newest first or best match first."""

    attempts: tuple[Attempt, ...]
    of: int
    """How many there are in all."""
    note: str = ""
    """Why there is none."""


class Stats(Artifact):
    """What the log holds."""

    folder: str
    attempts: int
    results: dict[str, int]
    methods: dict[str, dict[str, int]]
    """Method -> result -> how often."""
    standings: tuple[Standing, ...]
    """Compaction: each set of methods in its conditions is resolved, pending or to be avoided."""
    damaged: tuple[str, ...]


class Added(Artifact):
    """What an append or a merge did."""

    added: int
    known: int
    """Lines that were there already."""
    left: tuple[str, ...] = ()
    """What was not understood, as `file:line: why`."""


def recommend(home: Path | None, wiki: Wiki, k: int = 5, **asked: str) -> Recommendation:
    """What to try under the conditions `asked` (see `recommend.conditions`)."""
    if k < 1:
        raise SettingsError(f"-k: {k} proposals cannot be shown; give 1 or more")
    return weigh(Experience(home).attempts(), conditions(wiki, **asked), wiki, k)


def listed(home: Path | None, wiki: Wiki, chosen: Filter, most: int = 50) -> Listed:
    """The newest attempts that pass."""
    log = Experience(home)
    found = _passing(log.attempts(), chosen, wiki)
    return Listed(attempts=found[:most], of=len(found), note="" if found else _nothing(log, chosen))


def search(home: Path | None, wiki: Wiki, text: str, chosen: Filter, most: int = 10) -> Listed:
    """Attempts in which words of `text` occur (method, operator, note, knobs, evidence …): those with the most of them first."""
    words = {word for word in text.lower().replace(",", " ").split() if word}
    if not words:
        raise SettingsError(f"search {text!r}: has no word to look for; give a method, an operator or words of a note")
    log = Experience(home)
    passing = _passing(log.attempts(), chosen, wiki)
    hits = [(sum(word in one.model_dump_json().lower() for word in words), one) for one in passing]
    found = [one for count, one in sorted(hits, key=lambda hit: -hit[0]) if count]
    nowhere = f"none of {', '.join(sorted(words))} occurs in {len(passing)} attempts" if passing else _nothing(log, chosen)
    return Listed(attempts=tuple(found[:most]), of=len(found), note="" if found else nowhere)


def stats(home: Path | None, wiki: Wiki, chosen: Filter) -> Stats:
    """Counts, and the log compacted."""
    log = Experience(home)
    found = _passing(log.attempts(), chosen, wiki)
    methods: dict[str, Counter[str]] = {}
    for one in found:
        for method in one.methods:
            methods.setdefault(method, Counter())[one.result] += 1
    return Stats(
        folder=str(log.folder),
        attempts=len(found),
        results=dict(sorted(Counter(one.result for one in found).items())),
        methods={method: dict(sorted(counts.items())) for method, counts in sorted(methods.items())},
        standings=compacted(found),
        damaged=log.damaged(),
    )


def add(
    home: Path | None, wiki: Wiki, given: dict[str, str], methods: tuple[str, ...], effect: tuple[float, ...], knobs: tuple[str, ...]
) -> Added:
    """One outcome that a person states. `given`: fields of Attempt by name, `result` among them; `effect`: nothing, an estimate, or
    estimate, low and high. SettingsError for what cannot be kept."""
    missing = [name for name in ("operator", "language", "dtype", "result") if not given.get(name)] + ([] if methods else ["method"])
    if missing:
        raise SettingsError(f"experience add: {' and '.join(f'--{name}' for name in missing)} must be given")
    if given["language"] not in wiki.languages():
        raise SettingsError(f"--language {given['language']}: no page is about it; {offered(given['language'], wiki.languages())}")
    _described(methods, wiki)
    verdict = next((verdict for verdict, result in RESULTS.items() if result == given["result"]), None)
    if verdict is None:
        raise SettingsError(f"--result {given['result']}: is none; {offered(given['result'], list(RESULTS.values()))}")
    architecture = targets(wiki, given["architecture"]) if given.get("architecture") else ("",)
    if len(architecture) > 1:
        raise SettingsError(f"--arch {given['architecture']}: covers several targets; give one of {', '.join(architecture)}")
    ordered = len(effect) in (0, 1) or (len(effect) == 3 and effect[1] <= effect[0] <= effect[2])
    if not ordered or any(value <= 0 for value in effect):
        raise SettingsError("--effect: must be old time / new time, as one positive number or as ESTIMATE LOW HIGH")
    if any("=" not in knob for knob in knobs):
        raise SettingsError("--knob: must be NAME=VALUE")
    stated = {name: value for name, value in given.items() if value}
    ends = effect[1:] or (1 / UNBOUNDED, UNBOUNDED)
    body = "\0".join((*sorted(f"{name}={value}" for name, value in stated.items()), *sorted(methods), *map(str, effect), *sorted(knobs)))
    data = {
        "shape_class": "",
        "bottleneck": "unknown",
        "evidence": f"stated:{digest(body)[:12]}",
        **stated,
        "architecture": architecture[0],
        "methods": methods,
        "verdict": verdict,
        "effect": Interval(estimate=effect[0], low=ends[0], high=ends[1]) if effect else None,
        "knobs": dict(knob.split("=", 1) for knob in knobs),
        "origin": "stated",
    }
    try:
        attempt = Attempt.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])).replace("_", "-")
        raise SettingsError(f"--{name} {first['input']!r}: cannot be kept ({first['msg']})") from error
    added = _writable(home).add(attempt, anew=True)
    return Added(added=int(added), known=int(not added))


def _described(methods: Iterable[str], wiki: Wiki) -> None:
    """Refuse a method that no page describes: recommended to somebody later, it would say nothing."""
    known = [page.head.id for page in wiki.pages if page.head.type == "method"]
    for method in methods:
        if method not in known:
            near = meant(method, known, "`python -m knowledge_base query WORDS --kind method` finds those there are")
            raise SettingsError(f"--method {method}: no page of the wiki is about such a method; {near}")


def merge(home: Path | None, files: Iterable[Path]) -> Added:
    """Append what other logs hold and this one does not."""
    log, found = _writable(home), read(*files)
    added = log.merge(found.attempts)
    return Added(added=added, known=len(found.attempts) - added, left=tuple(f"{where}: is no attempt" for where in found.damaged))


def sync(home: Path | None, place: str) -> sharing.Synced:
    """Bring the log and a shared folder or git remote to the union of both."""
    return sharing.sync(_writable(home), place)


def _writable(home: Path | None) -> Experience:
    log = Experience(home)
    log.refuse_unwritable()
    return log


def _passing(attempts: Sequence[Attempt], chosen: Filter, wiki: Wiki) -> tuple[Attempt, ...]:
    wanted = targets(wiki, chosen.architecture) if chosen.architecture else ()
    languages = sorted({*wiki.languages(), *(one.language for one in attempts)})
    if chosen.language and chosen.language not in languages:
        raise SettingsError(f"--language {chosen.language}: no page and no attempt is about it; {offered(chosen.language, languages)}")
    if chosen.result and chosen.result not in RESULTS.values():
        raise SettingsError(f"--result {chosen.result}: is none; {offered(chosen.result, list(RESULTS.values()))}")
    return tuple(
        one
        for one in attempts
        if (not chosen.operator or family(one.operator) == family(chosen.operator))
        and chosen.language in ("", one.language)
        and (not wanted or one.architecture in wanted)
        and chosen.dtype in ("", one.dtype)
        and chosen.bottleneck in ("", one.bottleneck, *one.findings)
        and chosen.method in ("", *one.methods)
        and chosen.result in ("", one.result)
    )


def _nothing(log: Experience, chosen: Filter) -> str:
    asked = ", ".join(f"{name} {value}" for name, value in chosen.model_dump().items() if value)
    count = len(log.attempts())
    return f"none of {count} attempts is of {asked}" if asked and count else f"{log.folder} holds no attempt yet"
