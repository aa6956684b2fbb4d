"""The state of a run, folded from its events: candidates, the best version, the distance to the roof, the budget."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from graph.console.lines import UNPRINTABLE
from graph.workspace.events import Event
from tools.artifacts import UNBOUNDED_RATIO, Interval
from tools.cli.formatting import format_percent, format_speedup


@dataclass
class CandidateStatus:
    """A candidate of the current iteration."""

    candidate: str
    methods: str
    """Its methods and knobs, or the method that it lacks."""
    state: str = "waiting"
    """The stage that it is in, or its outcome."""
    result: str = ""
    """Its speed-up and the reason of its outcome."""
    is_judged: bool = False


@dataclass
class RunStatus:
    """What the live view shows. Times are Unix seconds."""

    node: str = "starting"
    iteration: int = 0
    role: str = ""
    """The role whose model is asked; empty: none is."""
    since: float | None = None
    """When the current activity began."""
    rows: dict[str, CandidateStatus] = field(default_factory=dict)
    parent: str = "v0"
    """The version at HEAD, which candidates are compared with."""
    best: str = "v0, the baseline"
    headroom: str = "not profiled yet"
    caps: dict[str, str] = field(default_factory=dict)
    """Details of the event `caps`; empty until it came."""
    caps_at: float = 0.0
    device_s: float = 0.0
    running_jobs: int = 0
    spent: dict[str, str] = field(default_factory=dict)
    """Details of the last event with the tokens and dollars spent."""
    is_stopping: bool = False

    def add(self, event: Event) -> None:
        """Take one event into account."""
        details = event.details
        self._update_candidate(event)
        match event.kind:
            case "start" if details.get("state") in ("started", "reopened"):
                # The activity of an earlier process is over; its measurements are kept.
                self.node, self.role, self.since, self.running_jobs, self.is_stopping = "starting", "", None, 0, False
                self.caps = {}
                for one in (one for one in self.rows.values() if not one.is_judged):
                    one.state = "waiting"
            case "caps":
                self.caps, self.caps_at = details, event.seconds
                self.device_s = float(details.get("spent_device_s", self.device_s))
            case "node" if details["state"] == "started":
                self._start_node(event)
            case "headroom":
                self.headroom = _headroom(details)
            case "verdict" if details["outcome"] == "accept":
                self._accept(details)
            case "exchange":
                self.role = details["role"] if details.get("state") == "started" else ""
                self.since = event.seconds
            case "job":
                self._track_job(details)
            case "interrupt":
                self.is_stopping = True
        if "spent_tokens" in details:
            self.spent = details

    def activity(self) -> str:
        """The current node, the parent of the candidates, the role that is asked, and since when."""
        parts = [self.node if self.node in ("starting", "finalise") else f"v{self.iteration} {self.node}"]
        parts += [f"parent {self.parent}"] if self.rows else []
        parts += [f"asking the {self.role}"] if self.role else []
        parts += [time.strftime("since %H:%M:%S", time.localtime(self.since))] if self.since is not None else []
        parts += ["stopping after this"] if self.is_stopping else []
        return " · ".join(parts)

    def budget(self, now: float) -> str:
        """Wall and device time, dollars and tokens, each with its cap."""
        if not self.caps:
            return ""
        wall_s = float(self.caps["spent_wall_s"]) + max(0.0, now - self.caps_at)
        parts = [
            f"{name} {_with_cap(f'{spent:.0f}', self.caps.get(cap), ' s')}"
            for name, spent, cap in (("wall", wall_s, "wall_s"), ("device", self.device_s, "device_s"))
        ]
        if not self.spent and not self.caps.keys() & {"usd", "tokens"}:
            return "  ".join([*parts, "no language model is paid"])
        usd = f"{float(self.spent.get('spent_usd', 0)):.2f}"
        least = "at least " if "spent_unknown" in self.spent else ""
        parts.append(f"{least}${_with_cap(usd, self.caps.get('usd'), '')}")
        parts.append(_with_cap(self.spent.get("spent_tokens", "0"), self.caps.get("tokens"), " tokens"))
        return "  ".join(parts)

    def _update_candidate(self, event: Event) -> None:
        """Take an event about one candidate into account; candidates that nobody drafted are not shown."""
        details = event.details
        if event.kind == "drafted":
            # A candidate that is written again after a kill keeps its results.
            self.rows.setdefault(details["candidate"], CandidateStatus(details["candidate"], _methods(details)))
        row = self.rows.get(details.get("candidate", ""), CandidateStatus("", ""))
        if event.kind == "judge":
            self.since = event.seconds
            batch = f" {details['batch']}/{details['batches']}" if "batch" in details else ""
            row.state = f"{details['stage']}{batch}"
        elif event.kind in ("candidate", "ablated"):
            row.state = ": ".join(filter(None, (details["outcome"], details.get("stage"))))
            reason, speedup = details.get("reason", "").translate(UNPRINTABLE).rstrip("."), _interval(details)
            row.result = "  ".join(filter(None, (format_speedup(speedup) if speedup else "", reason)))
            row.is_judged = True
        elif event.kind == "verdict":
            row.state = details["outcome"]

    def _track_job(self, details: dict[str, str]) -> None:
        if details["state"] == "started":
            self.running_jobs += 1
            return
        self.running_jobs = max(0, self.running_jobs - 1)
        if details["device"] == self.caps.get("device", details["device"]):
            self.device_s += float(details.get("used", details["s"]))

    def _start_node(self, event: Event) -> None:
        self.node, self.since, self.role = event.details["node"], event.seconds, ""
        # This node opens the iteration that comes.
        iteration = int(event.details["iteration"]) + (self.node == "retrieve_evidence")
        if iteration != self.iteration or self.node == "finalise":
            self.rows.clear()
        self.iteration = iteration

    def _accept(self, details: dict[str, str]) -> None:
        compared_with, at_least = details.get("parent", self.parent), _number(details, "at_least")
        self.parent = f"v{details['iteration']}"
        overall = f", at least {at_least:.3g}× over v0" if at_least and compared_with != "v0" else ""
        self.best = f"{self.parent}  {format_speedup(_interval(details))} over {compared_with}{overall}"


def _methods(details: dict[str, str]) -> str:
    if "without" in details:
        return f"champion without {details['without']}"
    return f"{details['methods'].replace(' ', '+')} {details['knobs']}".rstrip()


def _headroom(details: dict[str, str]) -> str:
    """The distance to the roof as a whole and by axis, short enough for 80 columns."""
    gaps = (format_percent(_number(details, name)) for name in ("total", "compute", "memory", "latency"))
    total, compute, memory, latency = gaps
    limit = f"limit {details['bound']}" if details["bound"] else "not profiled"
    return f"Δ {total}, {limit} (Δc {compute}, Δm {memory}, Δl {latency})"


def _with_cap(spent: str, cap: str | None, unit: str) -> str:
    return f"{spent}/{float(cap):.10g}{unit}" if cap else f"{spent}{unit} (no cap)"


def _number(details: dict[str, str], name: str) -> float | None:
    """A figure of an event; None: it was not collected."""
    return float(details[name]) if name in details else None


def _interval(details: dict[str, str]) -> Interval | None:
    """The interval of an event, as `graph.workspace.events.interval_details` wrote it."""
    if "speedup" not in details:
        return None
    ends = {"low": details.get("low", 1 / UNBOUNDED_RATIO), "high": details.get("high", UNBOUNDED_RATIO)}
    return Interval(estimate=float(details["speedup"]), **{name: float(end) for name, end in ends.items()})
