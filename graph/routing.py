"""The routes of the graph: pure functions of State and of the run's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from langgraph.types import Send

from graph.settings import Settings
from graph.state import State, StopReason, branch_of


def next_unless_stopped(onward: str, state: State) -> str:
    """Return the node `onward`, or finalise if the node before it has set a stop reason."""
    return "finalise" if state.get("stop") else onward


@dataclass(frozen=True)
class Routes:
    """The conditional routes of one run."""

    settings: Settings

    def judge_branches(self, state: State) -> list[Send] | Literal["gate"]:
        """Return one call of the judge for each candidate, or the gate if the coder wrote none."""
        return [Send("judge", branch_of(state, candidate)) for candidate in state.get("drafts", [])] or "gate"

    def after_select(self, state: State) -> Literal["write", "attribute", "gate"]:
        """Return write if all candidates failed and an attempt is left, attribute if there is a champion, else gate."""
        if state.get("champion"):
            return "attribute"
        return "write" if state.get("rewrite") and not state.get("stop") else "gate"

    def after_learn(self, state: State) -> Literal["profile", "retrieve_evidence", "finalise"]:
        """Return profile after an accepted version (also the last one, for the report), finalise at a stop, else
        retrieve_evidence."""
        if state["outcome"] == "accept":
            return "profile"
        return "finalise" if state.get("stop") else "retrieve_evidence"

    def stop_reason_if_good_enough(self, state: State, doubt: str = "") -> StopReason | None:
        """Return the stop condition that the incumbent meets, if any; with a `doubt`, nearness to its roof does not
        count."""
        stop = self.settings.stop
        if stop.speedup is not None and state.get("speedup", 1.0) >= stop.speedup:
            return "speedup"
        return None if doubt else self.stop_reason_near_roof(state.get("headroom"))

    def stop_reason_near_roof(self, headroom: float | None) -> StopReason | None:
        """Return the stop condition that is met at this headroom, if any."""
        stop = self.settings.stop
        if headroom is not None and headroom <= 1 - stop.target_fraction:
            return "target"
        if headroom is not None and headroom < stop.near_peak:
            return "near_peak"
        return None

    def stop_reason_if_exhausted(self, state: State, over_time: str | None) -> StopReason | None:
        """Return the cap that the search has reached after an iteration, if any; `over_time`: the cap on time, if
        reached."""
        if over_time:
            return "budget"
        if state["iteration"] >= self.settings.search.iterations:
            return "iterations"
        if state.get("stale", 0) >= self.settings.search.patience:
            return "patience"
        return None
