"""The settings of judge and gate, under `judge:` in a config, and what the margins among them allow a single
workload. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tools.artifacts import Artifact, Measurement
from tools.gate import confirmation
from tools.gate.statistics import Objective, is_surely_slower, least_pairs, seems_slower

MeasuredWithMargin = tuple[Measurement, float]
"""A workload as measured, and the share by which it may become slower."""

MIN_EFFECT = 0.02
"""Relative gain below which nothing is worth having, unless a config says another."""
REPORTED_CONFIDENCE = 0.95
"""Confidence at which noise floors and benchmarks are reported; the decision has its own."""


class JudgeSettings(Artifact):
    """How hard the judge looks and what the gate demands; fixed for a whole run."""

    model_config = ConfigDict(strict=True)

    pairs: int = Field(default=12, ge=8)
    """Pairs a workload in one batch."""
    batches: int = Field(default=4, ge=1)
    """Batches at most, while the decision is open."""
    warm_pairs: int = Field(default=4, ge=0)
    """Pairs with inputs and outputs in cache, for the report."""
    calibration_pairs: int = Field(default=24, ge=8)
    """Pairs of the incumbent against itself, for the noise floor; more where many workloads need them for an
    interval with two ends."""
    confirm_rounds: int = Field(default=16, ge=8)
    """Rounds of incumbent against candidate in separate processes (on a CPU fresh ones each round), before an
    accept; more as above."""
    benchmark_rounds: int = Field(default=15, ge=8)
    """Rounds of the final benchmark; more as above."""
    hidden_workloads: int = Field(default=2, ge=0)
    """Drawn from the run's secret, where the task has dims_range."""
    inputs: Literal["hardened", "as_published"] = "hardened"
    """What a candidate is checked on: derived sizes and scaled, shifted or sparse values, too, or as its task draws
    them alone."""
    objective: Objective = "total_time"
    """total_time (weighted sum) or geomean (suites)."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    """Of the decision as a whole: over all looks and all candidates of an iteration."""
    min_effect: float = Field(default=MIN_EFFECT, ge=0.0)
    """Relative gain below which nothing is accepted."""
    workload_margin: float = Field(default=0.05, ge=0.0)
    """A single workload without a margin of its own may not become slower by more than this, relative."""
    unprofiled: Literal["accept", "inconclusive"] = "inconclusive"
    """The verdict where no profiler works on a GPU, so that nobody saw whether the kernels it executed were the
    candidate's own."""
    sanitize: Literal["accept", "off"] = "accept"
    """Whether compute-sanitizer looks at a GPU kernel once before an accept: memcheck refuses, its other tools
    remark."""
    call_limit_s: float = Field(default=30.0, gt=0.0)
    """Seconds after which one call of a kernel counts as hung."""
    job_limit_s: float = Field(default=600.0, gt=0.0)
    """Seconds for a whole job."""

    @model_validator(mode="after")
    def _bounded(self) -> JudgeSettings:
        least = {"calibration_pairs": self.least_rounds(1), "confirm_rounds": self.least_confirm_rounds(1)}
        least["benchmark_rounds"] = least["calibration_pairs"]
        for name, needed in least.items():
            if getattr(self, name) < needed:
                raise ValueError(
                    f"{name}: {getattr(self, name)} cannot bound an interval at confidence {self.confidence:g}, use "
                    f"{needed} or more"
                )
        return self

    def fields_of(self, request: type[BaseModel]) -> dict[str, Any]:
        """Return the settings that a request to the harness has a field for, by name."""
        return {name: getattr(self, name) for name in request.model_fields if name in type(self).model_fields}

    def least_rounds(self, workloads: int) -> int:
        """The fewest rounds from which an interval over `workloads` has two ends."""
        return least_pairs(max(self.confidence, REPORTED_CONFIDENCE), workloads)

    def least_confirm_rounds(self, workloads: int) -> int:
        """The same for one look of a confirmation, which takes more confidence."""
        return least_pairs(
            max(confirmation.confidence_per_confirmation(self.confidence), REPORTED_CONFIDENCE), workloads
        )


def with_margins(
    measured: Iterable[Measurement], margins: Mapping[str, float], margin: float
) -> tuple[MeasuredWithMargin, ...]:
    """Each workload with its own margin, or `margin` where it has none."""
    return tuple((m, margins.get(m.workload, margin)) for m in measured)


def first_regression(workloads: Iterable[MeasuredWithMargin]) -> MeasuredWithMargin | None:
    """The first workload that surely became slower, by the estimate more than it may."""
    return next(((m, margin) for m, margin in workloads if is_surely_slower(m.speedup, margin)), None)


def first_possible_regression(workloads: Iterable[MeasuredWithMargin]) -> MeasuredWithMargin | None:
    """The first workload that became slower than it may by the estimate, which the noise may have done as well."""
    return next(
        (
            (m, margin)
            for m, margin in workloads
            if seems_slower(m.speedup, margin) and not is_surely_slower(m.speedup, margin)
        ),
        None,
    )
