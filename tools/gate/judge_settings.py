"""The settings of judge and gate, under `judge:` in a config, and the rule for regressions of single workloads.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tools.artifacts import Artifact, Measurement
from tools.gate import confirmation
from tools.gate.statistics import Objective, is_surely_slower, least_pairs, look_confidence, seems_slower

MeasuredWithMargin = tuple[Measurement, float]
"""A workload's measurement, and the relative slowdown that it may have."""

MIN_EFFECT = 0.02
"""Relative gain below which nothing is accepted, unless a config sets another."""
REPORTED_CONFIDENCE = 0.95
"""Confidence of reported noise floors and benchmarks; the decision has its own."""


class JudgeSettings(Artifact):
    """How thoroughly the judge measures and what the gate requires; fixed for a whole run."""

    model_config = ConfigDict(strict=True)

    pairs: int = Field(default=8, ge=8)
    """Pairs per workload in the first batch; more if the corrections need them for an interval with two ends. Each
    further batch has as many as all before it."""
    batches: int = Field(default=4, ge=1)
    """Most batches, as long as the decision is open (docs/decision.md)."""
    warm_pairs: int = Field(default=2, ge=0)
    """Pairs with inputs and outputs in the cache, in the first batch, for the report."""
    calibration_pairs: int = Field(default=24, ge=8)
    """Pairs of the incumbent against itself, for the noise floor; more if many workloads need them for an interval with
    two ends."""
    confirm_rounds: int = Field(default=16, ge=8)
    """Rounds of incumbent against candidate in separate processes (on a CPU new ones each round), before an accept;
    more under the same condition."""
    benchmark_rounds: int = Field(default=15, ge=8)
    """Rounds of the final benchmark; more under the same condition."""
    hidden_workloads: int = Field(default=2, ge=0)
    """Workloads drawn with the run's secret, if the task has dims_range."""
    inputs: Literal["hardened", "as_published"] = "hardened"
    """Inputs that a candidate is checked on: with derived sizes and scaled, shifted or sparse values, or only as its
    task draws them."""
    objective: Objective = "total_time"
    """total_time (weighted sum) or geomean (suites)."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    """Confidence of the decisions as a whole: over all looks at all candidates since the last accepted version."""
    min_effect: float = Field(default=MIN_EFFECT, ge=0.0)
    """Relative gain below which nothing is accepted."""
    workload_margin: float = Field(default=0.05, ge=0.0)
    """Relative slowdown that a single workload without a margin of its own may have."""
    unprofiled: Literal["accept", "inconclusive"] = "inconclusive"
    """Verdict if no profiler works on a GPU, so that nothing shows whether the executed kernels were the candidate's
    own."""
    sanitize: Literal["accept", "off"] = "accept"
    """Whether compute-sanitizer checks a GPU kernel once before an accept: findings of memcheck reject it, those of its
    other tools are remarks."""
    call_limit_s: float = Field(default=30.0, gt=0.0)
    """Seconds after which one call of a kernel counts as hung."""
    job_limit_s: float = Field(default=600.0, gt=0.0)
    """Seconds that a whole job may take."""

    @model_validator(mode="after")
    def _check_rounds_bound_intervals(self) -> JudgeSettings:
        """Raise ValueError for a number of rounds that is too small for an interval with two ends."""
        least_by_name = {"calibration_pairs": self.least_rounds(1), "confirm_rounds": self.least_confirm_rounds(1)}
        least_by_name["benchmark_rounds"] = least_by_name["calibration_pairs"]
        for name, needed in least_by_name.items():
            if getattr(self, name) < needed:
                raise ValueError(
                    f"{name}: {getattr(self, name)} cannot bound an interval at confidence {self.confidence:g}, use "
                    f"{needed} or more"
                )
        return self

    def fields_of(self, request: type[BaseModel]) -> dict[str, Any]:
        """Return the settings that a request to the harness has a field for, by name."""
        return {name: getattr(self, name) for name in request.model_fields if name in type(self).model_fields}

    def confidence_of_look(self, look: int, candidates: int) -> float:
        """Return the confidence of the intervals at `look`, counted from 1, corrected for `candidates`."""
        return look_confidence(self.confidence, candidates, look, self.batches)

    def first_pairs(self, candidates: int, workloads: int) -> int:
        """Return the pairs per workload of the first batch: at least those with which its look can decide."""
        return max(self.pairs, least_pairs(self.confidence_of_look(1, candidates), workloads))

    def least_rounds(self, workloads: int) -> int:
        """Return the fewest rounds for which an interval over `workloads` has two ends."""
        return least_pairs(max(self.confidence, REPORTED_CONFIDENCE), workloads)

    def least_confirm_rounds(self, workloads: int) -> int:
        """Return the fewest rounds of a confirmation for which an interval over `workloads` has two ends; each of its
        looks needs a higher confidence."""
        return least_pairs(
            max(confirmation.confidence_per_confirmation(self.confidence), REPORTED_CONFIDENCE), workloads
        )


def with_margins(
    measured: Iterable[Measurement], margins: Mapping[str, float], margin: float
) -> tuple[MeasuredWithMargin, ...]:
    """Return each workload with its own margin, or `margin` if it has none."""
    return tuple((m, margins.get(m.workload, margin)) for m in measured)


def first_regression(workloads: Iterable[MeasuredWithMargin]) -> MeasuredWithMargin | None:
    """Return the first workload that is surely slower and, by the estimate, by more than its margin; or None."""
    return next(((m, margin) for m, margin in workloads if is_surely_slower(m.speedup, margin)), None)


def first_possible_regression(workloads: Iterable[MeasuredWithMargin]) -> MeasuredWithMargin | None:
    """Return the first workload that is slower than its margin by the estimate, but not surely slower; or None."""
    return next(
        (
            (m, margin)
            for m, margin in workloads
            if seems_slower(m.speedup, margin) and not is_surely_slower(m.speedup, margin)
        ),
        None,
    )
