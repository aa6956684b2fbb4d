"""The score of a suite: the results of its problems and their summary."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from graph.report.content.phrases import render
from graph.score.result import BEST_OF_TORCH, CONTESTANTS, SHORT_CALL_S, Result
from tools.artifacts import Artifact
from tools.store.blobs import write_atomically

THRESHOLDS = (0.0, 1.0, 1.2, 2.0)
Clock = Literal["launch-included", "device-only", "wall"]
CLOCKS: tuple[Clock, ...] = ("launch-included", "device-only")


class ScoreAgainstContestant(Artifact):
    """All problems against one contestant; against a rival, the problems that name it. A problem without a speed-up
    counts as 1 in the mean and as a failure in the shares."""

    contestant: str
    clock: Clock
    """wall: where no problem was timed by the device alone."""
    problems: int
    failures: int
    """Problems without a speed-up."""
    fast: dict[str, float]
    """p -> share of all problems whose best kernel is correct and more than p times as fast (fast_p)."""
    geomean: float
    """Geometric mean of the speed-ups, with failures as 1."""


class Score(Artifact):
    """score.json."""

    suite: str
    standings: tuple[ScoreAgainstContestant, ...]
    results: tuple[Result, ...]
    """In the suite's order."""

    @property
    def code(self) -> int:
        """Exit code: 4 where problems are unfinished, 6 where all unfinished ones await an answer."""
        left = [one.code for one in self.results if one.status == "unfinished"]
        return 0 if not left else 6 if set(left) == {6} else 4

    def sentence(self) -> str:
        """The score in one line."""
        done = sum(one.status == "finished" for one in self.results)
        means = [
            f"{s.geomean:.3g}× {'the baseline' if s.contestant == 'baseline' else f'the {s.contestant}'}"
            for s in self._headline_standings()
        ]
        return (
            f"{self.suite}: {done} of {len(self.results)} problems finished; geometric mean with failures as 1: "
            f"{', '.join(means)}"
        )

    def _headline_standings(self) -> list[ScoreAgainstContestant]:
        return [
            one
            for one in self.standings
            if one.clock != "device-only" and one.contestant in ("baseline", BEST_OF_TORCH)
        ]


def score_suite(suite: str, results: Sequence[Result]) -> Score:
    """The score from the results. Device time and time with launches are separate where any problem has both."""
    clocks: tuple[Clock, ...] = CLOCKS if any(one.device_only for one in results) else ("wall",)
    standings = tuple(
        standing_against(results, contestant, clock) for clock in clocks for contestant in contestant_columns(results)
    )
    return Score(suite=suite, standings=standings, results=tuple(results))


def contestant_columns(results: Sequence[Result]) -> tuple[str, ...]:
    """The baseline, the best of torch, other frameworks that any problem was timed beside, then other libraries."""
    torch = (
        name
        for name in CONTESTANTS
        if name in ("baseline", BEST_OF_TORCH) or any(name in one.speedups for one in results)
    )
    return (*torch, *dict.fromkeys(name for one in results for name in one.libraries))


def standing_against(results: Sequence[Result], contestant: str, clock: Clock) -> ScoreAgainstContestant:
    """All problems against `contestant`. Without an accepted version, a kernel is its own baseline.

    Against another library than torch, only the problems whose runs name it count.
    """
    results = [one for one in results if contestant in CONTESTANTS or contestant in one.libraries]
    kept = [
        1.0
        for one in results
        if one.status == "finished" and contestant == "baseline" and contestant not in one.speedups
    ]
    found = [one.by(clock)[contestant].estimate for one in results if contestant in one.by(clock)] + kept
    count = len(results)
    return ScoreAgainstContestant(
        contestant=contestant,
        clock=clock,
        problems=count,
        failures=count - len(found),
        fast={f"{p:g}": sum(factor > p for factor in found) / count for p in THRESHOLDS},
        geomean=math.exp(math.fsum(map(math.log, found)) / count),
    )


def write_score(suite: str, results: Sequence[Result], out: Path) -> Score:
    """Write the three files into `out`, each atomically; the same records give the same files."""
    found = score_suite(suite, results)
    style = render("report.css")
    values = {
        "score": found,
        "contestants": contestant_columns(results)[1:],
        "short_s": SHORT_CALL_S,
        "total": _total_spent(results),
    }
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    texts = {
        "score.md": render("score.md", **values),
        "score.html": render("score.html", **values, style=style, style_hash=hashed),
        "score.json": found.model_dump_json(indent=1) + "\n",
    }
    for name, text in texts.items():
        write_atomically(out / name, text.encode())
    return found


def _total_spent(results: Sequence[Result]) -> dict[str, float | None]:
    """Device seconds, tokens and dollars of all problems; None: unknown for some of them."""
    begun = [one for one in results if one.workspace]
    spent: dict[str, list[float | None]] = {
        "device_s": [one.device_s for one in begun],
        "tokens": [one.tokens for one in begun],
        "usd": [one.usd for one in begun],
    }
    return {name: None if None in values else math.fsum(v or 0.0 for v in values) for name, values in spent.items()}
