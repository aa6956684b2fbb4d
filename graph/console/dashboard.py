"""Where a run stands, from its events alone: what the live view shows. Nothing here writes to a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from graph.workspace.events import Event
from tools.artifacts import UNBOUNDED, Interval

CAPS = ("wall_s", "device_s", "usd", "tokens")


@dataclass
class Row:
    """A candidate of the iteration under way."""

    candidate: str
    methods: str
    knobs: str
    without: str | None = None
    """It is the champion without this method."""
    stage: str | None = None
    """screen, build, correctness, timing, confirmation; None: it waits for its turn."""
    batch: str = ""
    """<n>/<at most>, of stages that have several."""
    outcome: str | None = None
    """passed, failed, unmeasured, then the gate's verdict; None: not yet."""
    speedup: Interval | None = None
    reason: str = ""


@dataclass(frozen=True)
class Best:
    """The kernel at HEAD, when it is not v0."""

    iteration: int
    parent: str
    """The version that it was compared with, e.g. v0."""
    speedup: Interval | None
    """Over its parent."""
    at_least: float | None
    """Over v0: the product of the accepted steps' lower bounds."""


@dataclass(frozen=True)
class Gap:
    """Distance of the kernel at HEAD from the roof; 0 is at the roof. None: not collected."""

    bound: str
    """What limits it; empty: it was not profiled, so that nobody knows."""
    total: float | None
    compute: float | None
    memory: float | None
    latency: float | None


@dataclass
class Dashboard:
    """The events so far, folded. Times are Unix seconds."""

    node: str = "starting"
    iteration: int = 0
    """0 is v0."""
    asked: str | None = None
    """The role whose model answers."""
    since: float | None = None
    """When what is under way began."""
    rows: dict[str, Row] = field(default_factory=dict)
    """Candidate id -> its row, in the order in which they were written."""
    best: Best | None = None
    gap: Gap | None = None
    caps: dict[str, float] = field(default_factory=dict)
    """Of `CAPS` those that are set."""
    device: str = ""
    """Kind of device whose seconds count."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Kind of device -> seconds of finished jobs."""
    jobs: int = 0
    """That run now."""
    usd: float = 0.0
    tokens: int = 0
    unpriced: bool = False
    """`usd` is a lower bound."""
    taken_up: tuple[float, float] | None = None
    """(when this process took up the run, wall seconds of the run until then)."""
    stopping: bool = False

    def see(self, event: Event) -> None:
        """Take one event in."""
        told = event.details
        match event.kind:
            case "start" if told.get("state") in ("started", "reopened"):
                self._restart()
            case "caps":
                self._capped(event)
            case "node":
                self._node(event)
            case "headroom":
                gaps = (number(told, name) for name in ("total", "compute", "memory", "latency"))
                self.gap = Gap(told["bound"], *gaps)
            case "drafted":
                self._drafted(told)
            case "judge":
                self.since = event.seconds
                self._judged(told)
            case "candidate" | "ablated":
                self._ended(told)
            case "verdict":
                self._decided(told)
            case "exchange":
                self.asked = told["role"] if told.get("state") == "started" else None
                self.since = event.seconds
                self._paid(told)
            case "job":
                self._job(told)
            case "interrupt":
                self.stopping = True

    def see_all(self, log: Iterable[Event]) -> Dashboard:
        """Take in what earlier processes of the run said."""
        for event in log:
            self.see(event)
        return self

    def wall_s(self, now: float) -> float:
        """Wall seconds of the run, over all its processes."""
        if self.taken_up is None:
            return 0.0
        begun, before = self.taken_up
        return before + max(0.0, now - begun)

    @property
    def parent(self) -> str:
        """The version at HEAD, which candidates are compared with."""
        return f"v{self.best.iteration}" if self.best else "v0"

    @property
    def device_s(self) -> float:
        """Seconds of jobs on the device."""
        return self.seconds.get(self.device, 0.0)

    def _restart(self) -> None:
        """What an earlier process had under way is over; what it measured is not."""
        self.node, self.asked, self.since, self.jobs, self.stopping = "starting", None, None, 0, False
        self.taken_up = None
        for row in self.rows.values():
            if row.outcome is None:
                row.stage, row.batch = None, ""

    def _capped(self, event: Event) -> None:
        told = event.details
        self.caps = {name: value for name in CAPS if (value := number(told, name)) is not None}
        self.device = told["device"]
        self.taken_up = event.seconds, float(told["spent_wall_s"])
        spent = number(told, "spent_device_s")
        if spent is not None:
            # Jobs that a kill cut off are in it, too.
            self.seconds[self.device] = spent
        self._paid(told)

    def _node(self, event: Event) -> None:
        told = event.details
        self._paid(told)
        if told["state"] != "started":
            return
        self.node, self.since, self.asked = told["node"], event.seconds, None
        iteration = int(told["iteration"]) + (self.node == "retrieve_evidence")  # it opens the one that comes
        if iteration != self.iteration or self.node == "finalise":
            self.rows.clear()
        self.iteration = iteration

    def _drafted(self, told: dict[str, str]) -> None:
        row = Row(told["candidate"], told["methods"], told["knobs"], told.get("without"))
        # Written again after a kill, it keeps what was found of it.
        self.rows.setdefault(row.candidate, row)

    def _judged(self, told: dict[str, str]) -> None:
        row = self.rows.get(told["candidate"])
        if row is not None:
            row.stage = told["stage"]
            row.batch = f"{told['batch']}/{told['batches']}" if "batch" in told else ""

    def _ended(self, told: dict[str, str]) -> None:
        row = self.rows.get(told["candidate"])
        if row is not None:
            row.outcome, row.speedup, row.reason = told["outcome"], interval(told), told.get("reason", "")
            row.stage, row.batch = told.get("stage"), ""

    def _decided(self, told: dict[str, str]) -> None:
        row = self.rows.get(told.get("candidate", ""))
        if row is not None:
            row.outcome, row.stage, row.batch = told["outcome"], None, ""
        if told["outcome"] == "accept":
            # Logs from before it was told do not name it: it was the best until now.
            self.best = Best(int(told["iteration"]), told.get("parent", self.parent), interval(told), number(told, "at_least"))

    def _paid(self, told: dict[str, str]) -> None:
        if "spent_tokens" in told:
            self.tokens, self.usd, self.unpriced = int(told["spent_tokens"]), float(told["spent_usd"]), "spent_unknown" in told

    def _job(self, told: dict[str, str]) -> None:
        if told["state"] == "started":
            self.jobs += 1
            return
        self.jobs = max(0, self.jobs - 1)
        device = told["device"]
        # As the cap counts; logs from before that have only what the orchestrator saw, waiting for the device included.
        self.seconds[device] = self.seconds.get(device, 0.0) + float(told.get("used", told["s"]))


def number(told: dict[str, str], name: str) -> float | None:
    """A figure of an event; None: not collected."""
    return float(told[name]) if name in told else None


def interval(told: dict[str, str]) -> Interval | None:
    """The interval of an event, as `graph.workspace.events.interval` wrote it."""
    estimate = number(told, "speedup")
    if estimate is None:
        return None
    return Interval(estimate=estimate, low=float(told.get("low", 1 / UNBOUNDED)), high=float(told.get("high", UNBOUNDED)))
