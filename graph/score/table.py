"""What a suite came to: its rows, and what they amount to together."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from graph.report.content.phrases import render
from graph.score.result import BEST, RIVALS, SHORT_S, Result
from tools.artifacts import Artifact
from tools.store.records import write_atomically

THRESHOLDS = (0.0, 1.0, 1.2, 2.0)
Clock = Literal["launch-included", "device-only", "wall"]
CLOCKS: tuple[Clock, ...] = ("launch-included", "device-only")


class Standing(Artifact):
    """All problems against one rival (another library than torch: those that name it). Of those that have no factor
    against it each counts as 1 in the mean and as none in the shares."""

    rival: str
    clock: Clock
    """wall: where no problem was timed by the device alone."""
    problems: int
    failures: int
    """Problems without a factor."""
    fast: dict[str, float]
    """p -> share of all problems whose best kernel is right and more than p times as fast (fast_p)."""
    geomean: float
    """Geometric mean of the factors, failures as 1."""


class Score(Artifact):
    """score.json."""

    suite: str
    standings: tuple[Standing, ...]
    results: tuple[Result, ...]
    """In the suite's order."""

    @property
    def code(self) -> int:
        """Exit code: 4 where a machine left problems unfinished, 6 where all that are left wait for somebody."""
        left = [one.code for one in self.results if one.status == "unfinished"]
        return 0 if not left else 6 if set(left) == {6} else 4

    def sentence(self) -> str:
        """In one line."""
        done = sum(one.status == "finished" for one in self.results)
        means = [
            f"{s.geomean:.3g}× {'the baseline' if s.rival == 'baseline' else f'the {s.rival}'}" for s in self._told()
        ]
        return (
            f"{self.suite}: {done} of {len(self.results)} problems finished; geometric mean with failures as 1: "
            f"{', '.join(means)}"
        )

    def _told(self) -> list[Standing]:
        return [one for one in self.standings if one.clock != "device-only" and one.rival in ("baseline", BEST)]


def scored(suite: str, results: Sequence[Result]) -> Score:
    """The suite's figures from its problems'. Clocks are kept apart where any problem has both."""
    clocks: tuple[Clock, ...] = CLOCKS if any(one.device_only for one in results) else ("wall",)
    standings = tuple(standing(results, rival, clock) for clock in clocks for rival in rivals(results))
    return Score(suite=suite, standings=standings, results=tuple(results))


def rivals(results: Sequence[Result]) -> tuple[str, ...]:
    """Those whom any problem was timed beside; v0 and the best of torch always; at last other libraries."""
    torch = (name for name in RIVALS if name in ("baseline", BEST) or any(name in one.speedups for one in results))
    return (*torch, *dict.fromkeys(name for one in results for name in one.libraries))


def standing(results: Sequence[Result], rival: str, clock: Clock) -> Standing:
    """Every problem's factor against `rival`; a kernel that nothing was accepted over is its own baseline.

    Against another library than torch: of the problems whose runs name it.
    """
    results = [one for one in results if rival in RIVALS or rival in one.libraries]
    kept = [1.0 for one in results if one.status == "finished" and rival == "baseline" and rival not in one.speedups]
    found = [one.by(clock)[rival].estimate for one in results if rival in one.by(clock)] + kept
    count = len(results)
    return Standing(
        rival=rival,
        clock=clock,
        problems=count,
        failures=count - len(found),
        fast={f"{p:g}": sum(factor > p for factor in found) / count for p in THRESHOLDS},
        geomean=math.exp(math.fsum(map(math.log, found)) / count),
    )


def write(suite: str, results: Sequence[Result], out: Path) -> Score:
    """The three files in `out`, each whole at any time; the same records give the same files."""
    found = scored(suite, results)
    style = render("report.css")
    values = {"score": found, "rivals": rivals(results)[1:], "short_s": SHORT_S, "total": _total(results)}
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    texts = {
        "score.md": render("score.md", **values),
        "score.html": render("score.html", **values, style=style, style_hash=hashed),
        "score.json": found.model_dump_json(indent=1) + "\n",
    }
    for name, text in texts.items():
        write_atomically(out / name, text.encode())
    return found


def _total(results: Sequence[Result]) -> dict[str, float | None]:
    """What all problems took together; None: not known of some."""
    begun = [one for one in results if one.workspace]
    spent: dict[str, list[float | None]] = {
        "device_s": [one.device_s for one in begun],
        "tokens": [one.tokens for one in begun],
        "usd": [one.usd for one in begun],
    }
    return {name: None if None in values else math.fsum(v or 0.0 for v in values) for name, values in spent.items()}
