"""Answers of the experience log, and the same as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from knowledge_base.artifacts import Attempt
from knowledge_base.experience import free_methods
from knowledge_base.experience.forecasts import ForecastScore
from knowledge_base.experience.recommend import Advice, Recommendation
from knowledge_base.experience.status import ORDER, MethodStatus
from knowledge_base.experience.sync import Synced
from tools.artifacts import Artifact, Interval


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
    standings: tuple[MethodStatus, ...]
    """Compaction: each set of methods in its conditions is resolved, pending or to be avoided."""
    forecasts: dict[str, ForecastScore] = {}
    """Model, and model with method -> how the confidence that it stated in its predictions fared."""
    damaged: tuple[str, ...]


class Added(Artifact):
    """What an append or a merge did."""

    added: int
    known: int
    """Lines that were there already."""
    left: tuple[str, ...] = ()
    """What was not understood, as `file:line: why`."""


def recommended(found: Recommendation) -> Iterator[str]:
    """Proposals with their reasons, then what to avoid."""
    yield found.note
    yield from (f"the finding, its causes and fixes: {page}" for page in found.read)
    for number, one in enumerate(found.proposed, 1):
        yield f"{number}. {' + '.join(one.methods)}  {_gain(one)}"
        yield from _why(one)
    if found.avoid:
        yield "avoid, failed in the same conditions:"
    for one in found.avoid:
        yield f"-  {' + '.join(one.methods)}  {_gain(one)}"
        yield from _why(one)


def _gain(one: Advice) -> str:
    if one.basis == "wiki":
        return "(wiki: not tried)"
    counts = ", ".join(f"{count} {result}" for result, count in one.results.items())
    return f"{effect(one.effect)} (experience: {counts})"


def _why(one: Advice) -> Iterator[str]:
    if one.warning:
        yield f"    warning: {one.warning}"
    yield f"    {one.reason}"
    for seen in one.evidence[:3]:
        alike = f"likeness {seen.likeness:g}" + (f" ({', '.join(seen.differing)})" if seen.differing else "")
        parts = (
            f"record {seen.record}",
            f"commit {seen.commit[:12]}" if seen.commit else "",
            seen.workspace,
            _knobs(seen.knobs),
            alike,
        )
        yield f"    {seen.result} {effect(seen.effect)}: {', '.join(part for part in parts if part)}"
    if one.citation:
        yield f"    {one.citation}"


def listed(found: Listed) -> Iterator[str]:
    """A line each."""
    if found.note:
        yield f"nothing found: {found.note}"
    for one in found.attempts:
        place = " ".join(
            part for part in (one.operator, one.language, one.architecture, one.dtype, one.shape_class) if part
        )
        noise = "" if one.noise_floor is None else f"  noise floor {one.noise_floor:.1%}"
        origin = "" if one.origin == "run" else f"  ({one.origin}, not measured by a run)"
        where = f"{place}  evidence {one.evidence}{noise}{origin}"
        yield f"{one.result:8} {effect(one.effect)}  {'+'.join(one.methods)}  {_knobs(one.knobs)}  {where}"
    if found.of > len(found.attempts):
        yield f"{len(found.attempts)} of {found.of}; -n shows more"


def counted(found: Stats) -> Iterator[str]:
    """Counts, then the compaction."""
    yield f"{found.attempts} attempts in {found.folder}"
    for method, counts in found.methods.items():
        yield f"{method}: {', '.join(f'{count} {result}' for result, count in counts.items())}"
    for status in ORDER:
        yield from map(_status_line, (one for one in found.standings if one.status == status))
    yield from (f"{name}: {score}" for name, score in found.forecasts.items())
    for where in found.damaged:
        yield f"damaged line left out: {where}"


def _status_line(one: MethodStatus) -> str:
    verdicts = ", ".join(f"{verdict} x{count}" if count > 1 else verdict for verdict, count in one.verdicts.items())
    where = f"{one.operator} {one.language} {one.architecture}"
    return f"{one.status}: {' + '.join(one.methods)}: {verdicts}  {where}; last {one.last.evidence}"


def own_method(found: free_methods.Outcomes, home: Path) -> Iterator[str]:
    """What it came to and where its page lies, then what it changes."""
    last, free = found[0]
    gained = free_methods.gained_on(found)
    offered = ", a method page" if len(gained) >= free_methods.OFFERED else ""
    where = home / free_methods.FOLDER / free_methods.name(found)
    told = (
        f"{effect(free.effect)}  {last.language}, {free.axis}; gained on {', '.join(gained) or 'none alone'}{offered}"
    )
    yield f"{free.method}  {told}  {where}"
    yield f"    {' '.join(free.change.split())}"


def added(done: Added) -> Iterator[str]:
    """What was kept, and what was not understood."""
    yield f"{done.added} added, {done.known} known already"
    for line in done.left:
        yield f"left out: {line}"


def synced(done: Synced) -> Iterator[str]:
    """What went where."""
    yield f"{done.place}: {done.came} lines came, {done.went} went"
    for where in done.damaged:
        yield f"left out: {where}: is no attempt"


def effect(found: Interval | None) -> str:
    """An effect with its interval, where there is one."""
    if found is None:
        return "not timed"
    return f"{found.estimate:.3f}x" + (
        f" [{found.low:.3g}, {found.high:.3g}]" if found.is_bounded else " (no interval)"
    )


def _knobs(knobs: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(knobs.items()))
