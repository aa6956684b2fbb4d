"""Past attempts in few words (mission D8): what is resolved, what is pending, what to avoid. Deterministic; every
failure stays named.

Detail goes oldest first (see `token_budget`). Where there are so many sets of methods that not even their shortest
lines fit, they are told by method, of which a wiki has only so many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agents.artifacts import Tried
from agents.prompting.token_budget import Item, tokens
from agents.text.fencing import line, plain
from knowledge_base.artifacts import Attempt, source_digest
from knowledge_base.experience import status as standing
from knowledge_base.experience.status import STATUS_ORDER, Status
from tools.artifacts import Interval
from tools.cli.formatting import describe_bottleneck


class Told(NamedTuple):
    """What was tried, for a prompt."""

    items: tuple[Item, ...]
    counts: dict[Status, int]


class _Event(NamedTuple):
    """One attempt at a set of methods."""

    when: int
    """Greater is later."""
    status: Status
    verdict: str
    detail: str
    reason: str
    where: str


def attempts_of_run(tried: Sequence[Tried], most: int | None) -> Told:
    """This run's closed iterations, for about `most` tokens."""
    groups: dict[tuple[str, ...], list[_Event]] = {}
    for one in sorted(tried, key=lambda t: t.iteration):
        asked = one.planned or one.methods
        groups.setdefault(tuple(sorted(set(one.methods or asked))), []).append(_of_tried(one))
        for method in sorted(set(asked) - set(one.methods)) if one.methods else ():
            said = "planned, but left out by the coder"
            groups.setdefault((method,), []).append(
                _Event(one.iteration, "pending", "not written", "", said, f"v{one.iteration}")
            )
    return _told(groups, most)


def attempts_of_earlier_runs(attempts: Sequence[Attempt], most: int | None, baseline: str = "") -> Told:
    """Outcomes of earlier runs on the same operator, language and architecture (newest first), for about `most` tokens.

    Those that started from the very text of `baseline` are told apart: they are no prior, but what came of it here.
    """
    here = source_digest(baseline) if baseline else None
    groups: dict[tuple[str, ...], list[_Event]] = {}
    for age, one in enumerate(attempts):
        groups.setdefault(tuple(sorted(set(one.methods))), []).append(_of_attempt(one, -age, one.before == here))
    return _told({methods: sorted(events) for methods, events in groups.items()}, most)


def _of_tried(one: Tried) -> _Event:
    status, reason = _meant(one.verdict, one.speedup, one.reason)
    detail = ", ".join(
        part for part in (_knobs(one.knobs), "" if reason else _effect(one.speedup), one.predicted) if part
    )
    return _Event(one.iteration, status, one.verdict, detail, reason, f"v{one.iteration}")


def _of_attempt(one: Attempt, when: int, here: bool) -> _Event:
    status, reason = _meant(one.verdict, one.effect, one.note)
    effect = "" if reason else _effect(one.effect)
    where = "on this baseline" if here else ""
    detail = ", ".join(
        part
        for part in (where, _knobs(one.knobs), effect, describe_bottleneck(one.bottleneck), one.dtype, one.shape_class)
        if part
    )
    return _Event(when, status, one.verdict, detail, reason, f"record {one.evidence}")


def _knobs(knobs: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(knobs.items()))


def _meant(verdict: str, effect: Interval | None, reason: str) -> tuple[Status, str]:
    """The reasons of an accept are the checks that it passed, of which the gain alone is news; all others end with
    what decided."""
    status = standing.method_status(verdict, effect)
    return status, "" if status == "resolved" else reason


def _effect(effect: Interval | None) -> str:
    if effect is None:
        return ""
    ends = f" [{effect.low:.3g}, {effect.high:.3g}]" if effect.is_bounded else ""
    return f"{effect.estimate:.3g}x{ends}"


def _told(groups: dict[tuple[str, ...], list[_Event]], most: int | None) -> Told:
    counts = Counter(events[-1].status for events in groups.values())
    found = _items({" + ".join(methods) or "no method": events for methods, events in groups.items()})
    if most is not None and tokens("\n".join(item.levels[-1] for item in found)) > most:
        by_method: dict[str, list[_Event]] = {}
        for methods, events in groups.items():
            for method in methods:
                by_method.setdefault(method, []).extend(events)
        found = _items({method: sorted(events) for method, events in by_method.items()})
    return Told(found, {status: counts[status] for status in STATUS_ORDER})


def _items(groups: dict[str, list[_Event]]) -> tuple[Item, ...]:
    """A line each, resolved first, in each status the newest first; the oldest is shortened first."""
    newest = sorted(groups.items(), key=lambda group: group[1][-1].when, reverse=True)
    ages = {name: age for age, (name, _) in enumerate(newest)}
    ranked = sorted(newest, key=lambda group: STATUS_ORDER.index(group[1][-1].status))
    return tuple(Item(name, _levels(name, events), ages[name]) for name, events in ranked)


def _levels(name: str, events: list[_Event]) -> tuple[str, ...]:
    last = events[-1]
    verdicts = ", ".join(
        f"{verdict} x{count}" if count > 1 else verdict for verdict, count in Counter(e.verdict for e in events).items()
    )
    start = f"{last.status}: {name}: {verdicts}"
    detail = f" ({last.detail})" if last.detail else ""
    full, short, least = (
        f": {text}" if text else "" for text in (line(last.reason, 260), line(last.reason, 110), _start(last.reason))
    )
    return (f"{start}; last {last.where}{detail}{full}", f"{start}; last {last.where}{short}", f"{start}{least}")


def _start(reason: str) -> str:
    return plain(" ".join(reason.split()))[:40]
