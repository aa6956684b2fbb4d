"""Summarizes past attempts in few words: what is resolved, what is pending, what to avoid. Deterministic; the summary
names every failure.

The oldest attempts lose detail first (see `token_budget`). If not even the shortest lines of all sets of methods fit,
the summary has one line for each method instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agents.artifacts import FrontierKernel, RunAttempt
from agents.prompting.token_budget import PromptItem, token_upper_bound
from agents.text.fencing import escape_invisible, one_line
from knowledge_base.artifacts import Attempt, source_digest
from knowledge_base.experience import status as standing
from knowledge_base.experience.status import STATUS_ORDER, Status
from tools.artifacts import Interval
from tools.cli.formatting import describe_bottleneck


class AttemptSummary(NamedTuple):
    """Past attempts as items of a prompt, and how many have each status."""

    items: tuple[PromptItem, ...]
    counts: dict[Status, int]


class _Event(NamedTuple):
    """One attempt at a set of methods, of this run or an earlier one."""

    when: int
    """Position in time; a greater number is later."""
    status: Status
    verdict: str
    detail: str
    reason: str
    where: str


def summarize_run_attempts(tried: Sequence[RunAttempt], most: int | None) -> AttemptSummary:
    """Summarize this run's finished iterations in about `most` tokens."""
    groups: dict[tuple[str, ...], list[_Event]] = {}
    for one in sorted(tried, key=lambda t: t.iteration):
        planned = one.planned or one.methods
        groups.setdefault(tuple(sorted(set(one.methods or planned))), []).append(_event_of_run_attempt(one))
        for method in sorted(set(planned) - set(one.methods)) if one.methods else ():
            said = "planned, but left out by the coder"
            groups.setdefault((method,), []).append(
                _Event(one.iteration, "pending", "not written", "", said, f"v{one.iteration}")
            )
    return _summarize_attempts(groups, most)


def summarize_earlier_runs(attempts: Sequence[Attempt], most: int | None, baseline: str = "") -> AttemptSummary:
    """Summarize outcomes of earlier runs on the same operator, language and architecture (newest first) in about `most`
    tokens.

    Attempts that started from exactly the text of `baseline` are marked: they are results for this source.
    """
    here = source_digest(baseline) if baseline else None
    groups: dict[tuple[str, ...], list[_Event]] = {}
    for age, one in enumerate(attempts):
        groups.setdefault(tuple(sorted(set(one.methods))), []).append(
            _event_of_earlier_attempt(one, -age, one.before == here)
        )
    return _summarize_attempts({methods: sorted(events) for methods, events in groups.items()}, most)


def frontier_items(found: Sequence[FrontierKernel]) -> tuple[PromptItem, ...]:
    """Return one item for each correct candidate that lost, with the reason."""
    lines = [
        f"{one.candidate} of v{one.iteration}: {' + '.join(one.methods)}, {_knobs_text(one.knobs) or 'no knobs'}, "
        f"{_effect_text(one.speedup)} over {one.timed_against}"
        for one in found
    ]
    return tuple(
        PromptItem(one.candidate, tuple(f"{one_line(line, 300)}: {one_line(one.reason, most)}" for most in (260, 90)))
        for one, line in zip(found, lines, strict=True)
    )


def _event_of_run_attempt(one: RunAttempt) -> _Event:
    status, reason = _status_and_reason(one.verdict, one.speedup, one.reason)
    detail = ", ".join(
        part for part in (_knobs_text(one.knobs), "" if reason else _effect_text(one.speedup), one.predicted) if part
    )
    return _Event(one.iteration, status, one.verdict, detail, reason, f"v{one.iteration}")


def _event_of_earlier_attempt(one: Attempt, when: int, here: bool) -> _Event:
    status, reason = _status_and_reason(one.verdict, one.effect, one.note)
    effect = "" if reason else _effect_text(one.effect)
    where = "on this baseline" if here else ""
    detail = ", ".join(
        part
        for part in (
            where,
            _knobs_text(one.knobs),
            effect,
            "" if one.explained else "unexplained",
            describe_bottleneck(one.bottleneck),
            one.dtype,
            one.shape_class,
        )
        if part
    )
    return _Event(when, status, one.verdict, detail, reason, f"record {one.evidence}")


def _knobs_text(knobs: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(knobs.items()))


def _status_and_reason(verdict: str, effect: Interval | None, reason: str) -> tuple[Status, str]:
    """Return the status, and the reason unless it is resolved: the reasons of an accept are passed checks, of which
    only the gain is news."""
    status = standing.method_status(verdict, effect)
    return status, "" if status == "resolved" else reason


def _effect_text(effect: Interval | None) -> str:
    if effect is None:
        return ""
    ends = f" [{effect.low:.3g}, {effect.high:.3g}]" if effect.is_bounded else ""
    return f"{effect.estimate:.3g}x{ends}"


def _summarize_attempts(groups: dict[tuple[str, ...], list[_Event]], most: int | None) -> AttemptSummary:
    counts = Counter(events[-1].status for events in groups.values())
    found = _prompt_items({" + ".join(methods) or "no method": events for methods, events in groups.items()})
    if most is not None and token_upper_bound("\n".join(item.levels[-1] for item in found)) > most:
        by_method: dict[str, list[_Event]] = {}
        for methods, events in groups.items():
            for method in methods:
                by_method.setdefault(method, []).extend(events)
        found = _prompt_items({method: sorted(events) for method, events in by_method.items()})
    return AttemptSummary(found, {status: counts[status] for status in STATUS_ORDER})


def _prompt_items(groups: dict[str, list[_Event]]) -> tuple[PromptItem, ...]:
    """Return one item for each group: resolved first, the newest first in each status; the oldest is shortened
    first."""
    newest = sorted(groups.items(), key=lambda group: group[1][-1].when, reverse=True)
    ages = {name: age for age, (name, _) in enumerate(newest)}
    ranked = sorted(newest, key=lambda group: STATUS_ORDER.index(group[1][-1].status))
    return tuple(PromptItem(name, _text_levels(name, events), ages[name]) for name, events in ranked)


def _text_levels(name: str, events: list[_Event]) -> tuple[str, ...]:
    last = events[-1]
    verdicts = ", ".join(
        f"{verdict} x{count}" if count > 1 else verdict for verdict, count in Counter(e.verdict for e in events).items()
    )
    start = f"{last.status}: {name}: {verdicts}"
    detail = f" ({last.detail})" if last.detail else ""
    full, short, least = (
        f": {text}" if text else ""
        for text in (one_line(last.reason, 260), one_line(last.reason, 110), _start_of_reason(last.reason))
    )
    return (f"{start}; last {last.where}{detail}{full}", f"{start}; last {last.where}{short}", f"{start}{least}")


def _start_of_reason(reason: str) -> str:
    return escape_invisible(" ".join(reason.split()))[:40]
