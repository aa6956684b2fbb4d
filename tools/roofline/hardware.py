"""What is known of the hardware: figures cited from a wiki, roofs cited or measured, and how far a kernel is from them.

Rates are per second, times seconds. Nothing here computes: `tools.roofline.roofline` does.
"""

from __future__ import annotations

from typing import Literal

from tools.artifacts import Artifact, Bound
from tools.cli.formatting import percent


class Citation(Artifact):
    """A line in a wiki, with that line's hash so that a later reader can tell whether it still says the same."""

    path: str
    """Relative to the wiki's root; what lies elsewhere says where in angle brackets before it, such as
    `<reference>/gemm/kernel.cu`."""
    line: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.path.startswith("<") else f"<gpu-wiki>/{self.path}:{self.line}"


Evidence = Literal["vendor", "unofficial", "mention", "measured"]
"""What a wiki's number rests on: the vendor's document; another's or an approximate one; prose in passing; a
measurement of our own. Targets are set by vendor and measured ones only."""


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
    evidence: Evidence = "vendor"
    caveat: str = ""
    """What the wiki says about the number that a reader must know."""

    @property
    def sets_targets(self) -> bool:
        """Whether a target may rest on it: what is unofficial, or said in passing, may not."""
        return self.evidence in ("vendor", "measured")

    def __str__(self) -> str:
        number = str(int(self.value)) if self.value == int(self.value) else repr(self.value)
        # A capability is a version: 9.0 and 10.0 are not 9 and 10.
        number = f"{self.value:.1f}" if self.unit == "CC" else number
        via = f" via {self.via}" if self.via else ""
        mark = f" [{self.evidence}]" if self.evidence != "vendor" else ""
        return f"{self.metric}: {number} {self.unit} <- {self.citation}{via}{mark}"


class UnknownSpec(Artifact):
    """A number that the wiki does not hold: reported, never patched."""

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
    "launch_latency",
]


BESIDE = 0.05
"""Share of the machine that others may have while a roof is measured before that is said beside it."""


class Roof(Artifact):
    """A ceiling of the device: cited, or measured here and labelled so."""

    metric: RoofMetric
    """compute_tf32, compute_float16 and compute_bfloat16 are rates of matrix units, with products added up in
    float32."""
    value: float
    """Bytes, operations or seconds (a second)."""
    unit: str
    origin: Literal["cited", "measured"]
    source: str
    """A citation, or the id of the measuring record."""
    others: float | None = None
    """Share of the cores' time that others had while it was measured; None: not known, or not measured."""

    @property
    def doubt(self) -> str:
        """In words why the device may do more than this; empty where nothing speaks for it."""
        if self.others is None or self.others < BESIDE:
            return ""
        return f"others had {percent(self.others)} of the machine meanwhile"


class Headroom(Artifact):
    """Distance from the roofline: 0 is at the roof, 1 infinitely far. None: not collected."""

    total: float | None
    """1 - roof time / measured time."""
    compute: float | None
    memory: float | None
    latency: float | None
    roof_s: float | None = None
    """Seconds in which the roof would do this workload."""
    bound: Bound = "unknown"
    intensity: float | None = None
    """Operations per unique byte."""
    ridge: float | None = None


class Target(Artifact):
    """An absolute target of the run (E2)."""

    description: str
    seconds: float | None
    """Objective time to reach; None when no roof is known."""
    roof: Roof | None = None
