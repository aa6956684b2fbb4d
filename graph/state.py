"""What LangGraph checkpoints: ids, numbers and enums. Sources, logs and profiles are records that these ids name."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

StopReason = Literal["near_peak", "target", "speedup", "iterations", "patience", "exhausted", "budget"]


def merge(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Reducer of `trials`: parallel judge calls each add their own key."""
    return {**old, **new}


class State(TypedDict, total=False):
    """The run between two nodes."""

    iteration: int
    """0 is v0; N is the iteration under way or closed last."""
    environment: str
    """Record id."""
    specs: str
    """Record id of Specs, gaps, targets and stop conditions."""
    baseline: str
    """Candidate id of v0."""
    incumbent: str
    """Candidate id at HEAD."""
    frameworks: str
    """Record id of v0 timed beside torch; empty: it was not."""
    noise_floor: float
    """Relative, of the incumbent's A/A blocks."""
    calibration: str
    """Record id of these blocks."""
    profile: str
    """Record id of the incumbent's profile, findings and headroom."""
    headroom: float | None
    """Of the objective: 1 - roof time / measured time; None when no roof applies."""
    speedup: float
    """Of HEAD over v0, at least: the product of the accepted steps' lower bounds."""
    dossier: str
    """Record id."""
    plan: str
    """Record id."""
    drafts: list[str]
    """Candidate ids of this round of writing."""
    composing: bool
    """One more kernel may be judged beside the drafts, composed of them."""
    repair: int
    """Rounds of writing spent on this plan."""
    rewrite: bool
    """All candidates of this round failed and another round is due."""
    trials: Annotated[dict[str, str], merge]
    """"<iteration>/<candidate>" -> record id of the Trial."""
    champion: str | None
    """Provisional winner of this iteration."""
    attribution: str | None
    """Record id."""
    verdict: str
    """Record id of the last one."""
    outcome: str
    """Of the last verdict."""
    stale: int
    """Iterations since the last accept."""
    stop: StopReason | None
    summary: str
    """One line on what the node just did, for the console; taken out before the state is stored."""
    report: str
    """Record id of the final benchmark."""


class Branch(TypedDict):
    """What a `Send` to judge carries."""

    iteration: int
    candidate: str
    incumbent: str
    baseline: str
    siblings: int
    noise_floor: float


def siblings(state: State) -> int:
    """How many candidates of the iteration are looked at, over which its confidence holds."""
    return max(1, len(state.get("drafts", []))) + state.get("composing", False)


def branch_of(state: State, candidate: str) -> Branch:
    """To judge a candidate of the iteration under way against its incumbent."""
    return Branch(
        iteration=state["iteration"],
        candidate=candidate,
        incumbent=state["incumbent"],
        baseline=state["baseline"],
        siblings=siblings(state),
        noise_floor=state["noise_floor"],
    )
