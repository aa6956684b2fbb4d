"""Figures of the hardware: cited from a wiki, roofs cited or measured, and a kernel's distance from them.

Rates are per second, times seconds. Nothing here computes: `tools.roofline.roofline` does.
"""

from __future__ import annotations

from typing import Literal

from tools.artifacts import Artifact, Bound
from tools.cli.formatting import format_percent


class Citation(Artifact):
    """A line in a wiki, with the line's hash, which tells a later reader whether the line has changed."""

    path: str
    """Path relative to the wiki's root; another root stands in angle brackets, such as `<reference>/gemm/kernel.cu`."""
    line: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.path.startswith("<") else f"<gpu-wiki>/{self.path}:{self.line}"


SpecEvidence = Literal["vendor", "unofficial", "mention", "measured"]
"""The basis of a wiki's number: the vendor's document, an unofficial or approximate source, a mention in prose, or
our own measurement. Only vendor and measured numbers set targets."""


class Spec(Artifact):
    """A published hardware number. Only `knowledge_base.specs.lookup` makes one, from a file, a line and its hash."""

    metric: str
    value: float
    unit: str
    qualifier: str = ""
    """dense | sparse, boost | base."""
    product: str
    variant: str = ""
    citation: Citation
    via: Citation | None = None
    """The line that leads from the product to a table of its architecture, when the number stands there."""
    evidence: SpecEvidence = "vendor"
    caveat: str = ""
    """The wiki's warning about the number; empty without one."""

    @property
    def sets_targets(self) -> bool:
        """Whether a target may use the number: unofficial numbers and mentions may not."""
        return self.evidence in ("vendor", "measured")

    def __str__(self) -> str:
        number = str(int(self.value)) if self.value == int(self.value) else repr(self.value)
        # A capability is a version: 9.0 and 10.0 are not 9 and 10.
        number = f"{self.value:.1f}" if self.unit == "CC" else number
        via = f" via {self.via}" if self.via else ""
        mark = f" [{self.evidence}]" if self.evidence != "vendor" else ""
        return f"{self.metric}: {number} {self.unit} <- {self.citation}{via}{mark}"


class UnknownSpec(Artifact):
    """A number that is not in the wiki: it is reported and never replaced by an estimate."""

    metric: str
    reason: str
    candidates: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.metric}: UNKNOWN (gpu-wiki not found)"


RoofMetric = Literal[
    "memory_bandwidth",
    "compute_float32",
    "compute_float64",
    "compute_tf32",
    "compute_float16",
    "compute_bfloat16",
    "compute_float8",
    "compute_int8",
    "launch_latency",
]


MAX_UNREPORTED_LOAD_SHARE = 0.05
"""Share of the machine that other processes may use during a roof measurement without a remark."""


class Roof(Artifact):
    """A ceiling of the device: cited, or measured here and labelled so."""

    metric: RoofMetric
    """compute_tf32, compute_float16, compute_bfloat16, compute_float8 and compute_int8 are rates of dense products on
    matrix units that accumulate in float32 or int32."""
    value: float
    """Bytes a second, operations a second, or seconds."""
    unit: str
    origin: Literal["cited", "measured"]
    source: str
    """A citation, or the id of the record of the measurement."""
    others: float | None = None
    """Share of the cores' time that other processes used during the measurement; None if unknown or not measured."""
    repeats: int = 0
    """How often it was measured until two measurements agreed or the time was over; 0: it was not repeated."""
    agreeing: int = 0
    """How many of these measurements agree with the best one, which counts too."""

    @property
    def doubt(self) -> str:
        """The reason why the real roof may be higher; empty without one."""
        if self.repeats and self.agreeing < 2:
            return f"no two of its {self.repeats} measurements agree"
        if self.others is None or self.others < MAX_UNREPORTED_LOAD_SHARE:
            return ""
        return f"other processes used {format_percent(self.others)} of the machine meanwhile"


class Headroom(Artifact):
    """Distance from the roofline: 0 is at the roof, 1 infinitely far. None: not collected."""

    total: float | None
    """1 - roof time / measured time."""
    compute: float | None
    memory: float | None
    latency: float | None
    roof_s: float | None = None
    """Seconds of this workload at the roof."""
    bound: Bound = "unknown"
    intensity: float | None = None
    """Operations per unique byte."""
    ridge: float | None = None


class Target(Artifact):
    """An absolute target of the run (E2)."""

    description: str
    seconds: float | None
    """Objective time to reach, in seconds; None if no roof is known."""
    roof: Roof | None = None
