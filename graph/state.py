"""The state that LangGraph checkpoints: ids, numbers and enums. The ids name records with sources, logs and
profiles."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

StopReason = Literal["near_peak", "target", "speedup", "iterations", "patience", "exhausted", "budget"]


def merge_trials(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Merge two dicts of `State.trials`; parallel judge calls each add their own key."""
    return {**old, **new}


class State(TypedDict, total=False):
    """The state of a run between two nodes."""

    iteration: int
    """The current or the last closed iteration; 0 is v0."""
    environment: str
    """The id of the record of the environment."""
    specs: str
    """The id of the record of the Hardware Spec."""
    baseline: str
    """Candidate id of v0."""
    incumbent: str
    """Candidate id at HEAD."""
    frameworks: str
    """The id of the record of v0 timed beside torch; empty: not timed."""
    noise_floor: float
    """The relative noise floor of the incumbent's A/A blocks."""
    calibration: str
    """The id of the record of the incumbent's A/A blocks."""
    profile: str
    """Record id of the incumbent's profile, findings and headroom."""
    headroom: float | None
    """1 - roof time / measured time of the objective; None: no roof applies."""
    speedup: float
    """The speed-up of HEAD over v0: the product of the lower bounds of the accepted versions."""
    dossier: str
    """The id of the record of the dossier."""
    plan: str
    """The id of the record of the plan."""
    drafts: list[str]
    """The candidate ids of this attempt of the coder."""
    composing: bool
    """A kernel composed of the drafts may be judged besides them."""
    repair: int
    """The number of the coder's attempts at this plan."""
    rewrite: bool
    """All candidates of this attempt failed and another attempt follows."""
    trials: Annotated[dict[str, str], merge_trials]
    """"<iteration>/<candidate>" -> record id of the Trial."""
    champion: str | None
    """The candidate id of the provisional winner of this iteration."""
    attribution: str | None
    """The id of the record of the attribution."""
    verdict: str
    """The id of the record of the last verdict."""
    outcome: str
    """The outcome of the last verdict."""
    stale: int
    """The number of iterations since the last accepted version."""
    tested: int
    """The number of candidates timed since the last accepted version, in iterations before the current one."""
    stop: StopReason | None
    summary: str
    """One line for the console about the node's work; removed before the state is stored."""
    report: str
    """Record id of the final benchmark."""


class Branch(TypedDict):
    """The input of one parallel call of the judge."""

    iteration: int
    candidate: str
    drafts: list[str]
    """The ids of the candidates whose measurements do not wait for each other."""
    incumbent: str
    baseline: str
    siblings: int
    earlier: int
    noise_floor: float


def count_siblings(state: State) -> int:
    """Return the number of candidates in the iteration, over which the confidence of its intervals holds jointly."""
    return max(1, len(state.get("drafts", []))) + state.get("composing", False)


def branch_of(state: State, candidate: str) -> Branch:
    """Return the input for judging a candidate of the current iteration against its incumbent."""
    return Branch(
        iteration=state["iteration"],
        candidate=candidate,
        drafts=drafts if candidate in (drafts := state.get("drafts", [])) else [candidate],
        incumbent=state["incumbent"],
        baseline=state["baseline"],
        siblings=count_siblings(state),
        earlier=state.get("tested", 0),
        noise_floor=state["noise_floor"],
    )
