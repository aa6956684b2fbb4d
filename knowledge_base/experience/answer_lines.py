"""The answers of the experience log as artifacts and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from knowledge_base.artifacts import Attempt
from knowledge_base.experience import free_methods
from knowledge_base.experience.forecasts import ForecastScore
from knowledge_base.experience.recommend import MethodAdvice, Recommendation
from knowledge_base.experience.status import STATUS_ORDER, MethodStatus
from knowledge_base.experience.sync import SyncReport
from tools.artifacts import Artifact, Interval


class AttemptList(Artifact):
    """Attempts, newest first or best match first."""

    attempts: tuple[Attempt, ...]
    total: int
    """Number of all attempts that were found."""
    note: str = ""
    """Why no attempt was found."""


class LogStats(Artifact):
    """Counts over the log."""

    folder: str
    attempts: int
    results: dict[str, int]
    methods: dict[str, dict[str, int]]
    """Method -> result -> count."""
    standings: tuple[MethodStatus, ...]
    """The status of each set of methods in its conditions."""
    forecasts: dict[str, ForecastScore] = {}
    """Model, and model with method -> how its predictions held."""
    damaged: tuple[str, ...]


class AppendReport(Artifact):
    """The result of an append or a merge."""

    added: int
    known: int
    """Lines that the log held already."""
    left_out: tuple[str, ...] = ()
    """Lines that are no attempts, as `file:line: reason`."""


def recommendation_lines(found: Recommendation) -> Iterator[str]:
    """The proposals with their reasons, then what to avoid."""
    yield found.note
    yield from (f"the operator, its cost and what usually helps: {page}" for page in (found.operator,) if page)
    yield from (f"the finding, its causes and fixes: {page}" for page in found.pages)
    for number, one in enumerate(found.proposed, 1):
        yield f"{number}. {' + '.join(one.methods)}  {_effect_and_counts(one)}"
        yield from _reason_lines(one)
    if found.avoid:
        yield "avoid (failed in the same conditions):"
    for one in found.avoid:
        yield f"-  {' + '.join(one.methods)}  {_effect_and_counts(one)}"
        yield from _reason_lines(one)


def _effect_and_counts(one: MethodAdvice) -> str:
    if one.basis == "wiki":
        return "(from the wiki, not tried)"
    counts = ", ".join(f"{count} {result}" for result, count in one.results.items())
    return f"{effect_text(one.effect)} (experience: {counts})"


def _reason_lines(one: MethodAdvice) -> Iterator[str]:
    if one.warning:
        yield f"    warning: {one.warning}"
    yield f"    {one.reason}"
    for evidence in one.evidence[:3]:
        attempt = evidence.attempt
        differing = f" ({', '.join(evidence.differing)})" if evidence.differing else ""
        parts = (
            f"record {attempt.evidence}",
            f"commit {attempt.commit[:12]}" if attempt.commit else "",
            attempt.workspace,
            _knobs(attempt.knobs),
            f"likeness {evidence.likeness:g}{differing}",
        )
        yield f"    {attempt.result} {_attempt_effect(attempt)}: {', '.join(part for part in parts if part)}"
    if one.citation:
        yield f"    {one.citation}"


def attempt_lines(found: AttemptList) -> Iterator[str]:
    """One line for each attempt."""
    if found.note:
        yield f"nothing found: {found.note}"
    for one in found.attempts:
        place = " ".join(
            part for part in (one.operator, one.language, one.architecture, one.dtype, one.shape_class) if part
        )
        noise = "" if one.noise_floor is None else f"  noise floor {one.noise_floor:.1%}"
        origin = "" if one.origin == "run" else f"  ({one.origin}, not measured by a run)"
        where = f"{place}  evidence {one.evidence}{noise}{origin}"
        yield f"{one.result:8} {_attempt_effect(one)}  {'+'.join(one.methods)}  {_knobs(one.knobs)}  {where}"
    if found.total > len(found.attempts):
        yield f"{len(found.attempts)} of {found.total}; -n shows more"


def stats_lines(found: LogStats) -> Iterator[str]:
    """The counts, then the statuses of sets of methods and the scores of predictions."""
    yield f"{found.attempts} attempts in {found.folder}"
    for method, counts in found.methods.items():
        yield f"{method}: {', '.join(f'{count} {result}' for result, count in counts.items())}"
    for status in STATUS_ORDER:
        yield from map(_status_line, (one for one in found.standings if one.status == status))
    yield from (f"{name}: {score}" for name, score in found.forecasts.items())
    for where in found.damaged:
        yield f"damaged line left out: {where}"


def _status_line(one: MethodStatus) -> str:
    verdicts = ", ".join(f"{verdict} x{count}" if count > 1 else verdict for verdict, count in one.verdicts.items())
    where = f"{one.operator} {one.language} {one.architecture}"
    return f"{one.status}: {' + '.join(one.methods)}: {verdicts}  {where}; last {one.last.evidence}"


def free_method_lines(found: free_methods.FreeMethodOutcomes, home: Path) -> Iterator[str]:
    """The effect of a method and the path of its page, then what it changes."""
    last, free = found[0]
    gained = free_methods.operators_gained_on(found)
    offered = ", a method page" if len(gained) >= free_methods.MIN_OPERATORS_GAINED else ""
    where = home / free_methods.PAGES_FOLDER / free_methods.page_file_name(found)
    operators = ", ".join(gained) or "none by itself"
    effect = f"{effect_text(free.effect)}  {last.language}, {free.axis}; gained on {operators}{offered}"
    yield f"{free.method}  {effect}  {where}"
    yield f"    {' '.join(free.change.split())}"


def append_lines(done: AppendReport) -> Iterator[str]:
    """The number of lines that were added, and those that were left out."""
    yield f"{done.added} added, {done.known} known already"
    for line in done.left_out:
        yield f"left out: {line}"


def sync_lines(done: SyncReport) -> Iterator[str]:
    """The number of lines in each direction, and those that were left out."""
    yield f"{done.folder}: {done.received} lines received, {done.sent} sent"
    for where in done.damaged:
        yield f"left out: {where}: is not an attempt"


def effect_text(found: Interval | None) -> str:
    """An effect with its interval where it has one."""
    if found is None:
        return "not timed"
    return f"{found.estimate:.3f}x" + (
        f" [{found.low:.3g}, {found.high:.3g}]" if found.is_bounded else " (no interval)"
    )


def _attempt_effect(one: Attempt) -> str:
    unconfirmed = ", not confirmed" if one.result == "unknown" and one.effect else ""
    return f"{effect_text(one.effect)}{unconfirmed}{'' if one.explained else ', unexplained'}"


def _knobs(knobs: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(knobs.items()))
