"""Where the graph goes next: pure functions of State (and of the run's settings, bound when the graph is built)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from langgraph.types import Send

from graph.settings import Settings
from graph.state import State, StopReason, branch_of


def unless_stopped(onward: str, state: State) -> str:
    """Where the graph goes, unless the node has ended the run: the kernel is good enough, nothing applicable is
    left, a cap is reached."""
    return "finalise" if state.get("stop") else onward


@dataclass(frozen=True)
class Routes:
    """The routes of one run."""

    settings: Settings

    def to_judges(self, state: State) -> list[Send] | Literal["gate"]:
        """One judge call for each candidate; none when the coder could not write any."""
        return [Send("judge", branch_of(state, candidate)) for candidate in state.get("drafts", [])] or "gate"

    def after_select(self, state: State) -> Literal["write", "attribute", "gate"]:
        """All wrong: written again with the failures shown. A gain: explained first. Else, or with the budget at its
        end, to the gate."""
        if state.get("champion"):
            return "attribute"
        return "write" if state.get("rewrite") and not state.get("stop") else "gate"

    def after_learn(self, state: State) -> Literal["profile", "retrieve_evidence", "finalise"]:
        """Profile a new incumbent (also the last one, for the report), stop, or look for another idea about the old
        one."""
        if state["outcome"] == "accept":
            return "profile"
        return "finalise" if state.get("stop") else "retrieve_evidence"

    def good_enough(self, state: State, doubt: str = "") -> StopReason | None:
        """The stop condition that the incumbent meets, if any. `doubt`: why no nearness to its roof may end the run;
        others may."""
        stop = self.settings.stop
        if stop.speedup is not None and state.get("speedup", 1.0) >= stop.speedup:
            return "speedup"
        return None if doubt else self.near_roof(state.get("headroom"))

    def near_roof(self, headroom: float | None) -> StopReason | None:
        """The stop condition that is met at this distance from the roof, if any."""
        stop = self.settings.stop
        if headroom is not None and headroom <= 1 - stop.target_fraction:
            return "target"
        if headroom is not None and headroom < stop.near_peak:
            return "near_peak"
        return None

    def exhausted(self, state: State, over_time: str | None) -> StopReason | None:
        """The cap that the search has reached after an iteration, if any; `over_time`: the one on wall or device
        time."""
        if over_time:
            return "budget"
        if state["iteration"] >= self.settings.search.iterations:
            return "iterations"
        if state.get("stale", 0) >= self.settings.search.patience:
            return "patience"
        return None
