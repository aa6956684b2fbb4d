"""Where a run stands, from its events alone: what the live view shows. Nothing here writes to a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from graph.workspace.events import Event
from tools.artifacts import UNBOUNDED_RATIO, Interval
from tools.cli.formatting import percent, ratio


@dataclass
class Row:
    """A candidate of the iteration under way."""

    candidate: str = ""
    made: str = ""
    """Its methods and knobs, or that it is the champion without one."""
    stage: str | None = None
    """screen, build, correctness, timing, confirmation; None: it waits for its turn."""
    batch: str = ""
    """<n>/<at most>, of stages that have several."""
    outcome: str | None = None
    """passed, failed, unmeasured, then the gate's verdict; None: not yet."""
    speedup: Interval | None = None
    reason: str = ""


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
    parent: str = "v0"
    """The version at HEAD, which candidates are compared with."""
    best: str = "v0, the baseline"
    """The same with its factor."""
    headroom: str = "not profiled yet"
    caps: dict[str, float] = field(default_factory=dict)
    """Those of the whole run that are set."""
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
        # What is said of a candidate that nobody drafted is shown nowhere.
        row = self.rows.get(told.get("candidate", ""), Row())
        match event.kind:
            case "start" if told.get("state") in ("started", "reopened"):
                self._restart()
            case "caps":
                self._capped(event)
            case "node":
                self._node(event)
            case "headroom":
                self.headroom = _headroom(told)
            case "drafted":
                # Written again after a kill, it keeps what was found of it.
                self.rows.setdefault(told["candidate"], Row(told["candidate"], _made(told)))
            case "judge":
                self.since = event.seconds
                row.stage, row.batch = told["stage"], f"{told['batch']}/{told['batches']}" if "batch" in told else ""
            case "candidate" | "ablated":
                row.outcome, row.speedup, row.reason = told["outcome"], interval(told), told.get("reason", "")
                row.stage, row.batch = told.get("stage"), ""
            case "verdict":
                row.outcome, row.stage, row.batch = told["outcome"], None, ""
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
        self.caps = {
            name: value for name in ("wall_s", "device_s", "usd", "tokens") if (value := number(told, name)) is not None
        }
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

    def _decided(self, told: dict[str, str]) -> None:
        if told["outcome"] != "accept":
            return
        of, least = told["parent"], number(told, "at_least")
        self.parent = f"v{told['iteration']}"
        whole = f", at least {least:.3g}× over v0" if least and of != "v0" else ""
        self.best = f"{self.parent}  {ratio(interval(told))} over {of}{whole}"

    def _paid(self, told: dict[str, str]) -> None:
        if "spent_tokens" in told:
            self.tokens, self.usd, self.unpriced = (
                int(told["spent_tokens"]),
                float(told["spent_usd"]),
                "spent_unknown" in told,
            )

    def _job(self, told: dict[str, str]) -> None:
        if told["state"] == "started":
            self.jobs += 1
            return
        self.jobs = max(0, self.jobs - 1)
        device = told["device"]
        self.seconds[device] = self.seconds.get(device, 0.0) + float(told["used"])


def _made(told: dict[str, str]) -> str:
    if "without" in told:
        return f"champion without {told['without']}"
    return f"{told['methods'].replace(' ', '+')} {told['knobs']}".rstrip()


def _headroom(told: dict[str, str]) -> str:
    """Distance of the kernel at HEAD from the roof, in all and by axes."""
    total, compute, memory, latency = (
        percent(number(told, name)) for name in ("total", "compute", "memory", "latency")
    )
    # Shorter than elsewhere: no figure may be cut off at 80 columns.
    limit = f"limit {told['bound']}" if told["bound"] else "not profiled"
    return f"Δ {total}, {limit} (Δc {compute}, Δm {memory}, Δl {latency})"


def number(told: dict[str, str], name: str) -> float | None:
    """A figure of an event; None: not collected."""
    return float(told[name]) if name in told else None


def interval(told: dict[str, str]) -> Interval | None:
    """The interval of an event, as `graph.workspace.events.interval` wrote it."""
    estimate = number(told, "speedup")
    if estimate is None:
        return None
    return Interval(
        estimate=estimate,
        low=float(told.get("low", 1 / UNBOUNDED_RATIO)),
        high=float(told.get("high", UNBOUNDED_RATIO)),
    )
