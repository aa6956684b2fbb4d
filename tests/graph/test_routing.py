"""Routes are pure: a state in, the next node out."""

from __future__ import annotations

import pytest
from langgraph.types import Send

from graph.routing import Routes, next_unless_stopped
from graph.settings import Settings
from graph.state import State

ROUTES = Routes(Settings(task="t"))


def state(**values: object) -> State:
    return State(iteration=1, incumbent="i", baseline="b", noise_floor=0.01, stale=0, speedup=1.0, **values)  # type: ignore[typeddict-item]


def test_each_draft_gets_a_judge() -> None:
    sent = ROUTES.judge_branches(state(drafts=["x", "y"]))
    assert isinstance(sent, list) and all(isinstance(s, Send) for s in sent)
    assert [(s.node, s.arg["candidate"], s.arg["siblings"]) for s in sent] == [("judge", "x", 2), ("judge", "y", 2)]


@pytest.mark.parametrize(
    ("route", "values", "next_node"),
    [
        ("judge_branches", {"drafts": []}, "gate"),
        ("after_select", {"champion": "c"}, "attribute"),
        ("after_select", {"champion": None, "rewrite": True}, "write"),
        ("after_select", {"champion": None, "rewrite": False}, "gate"),
        ("after_learn", {"outcome": "accept"}, "profile"),
        ("after_learn", {"outcome": "reject_perf"}, "retrieve_evidence"),
        ("after_learn", {"outcome": "accept", "stop": "iterations"}, "profile"),
        ("after_learn", {"outcome": "reject_perf", "stop": "patience"}, "finalise"),
        # No node that could go on does so with the budget at its end.
        ("after_select", {"stop": "budget", "rewrite": True}, "gate"),
        ("judge_branches", {"stop": "budget", "drafts": []}, "gate"),
    ],
)
def test_each_state_has_its_next_node(route: str, values: dict[str, object], next_node: str) -> None:
    assert getattr(ROUTES, route)(state(**values)) == next_node
    assert next_unless_stopped("plan", state(**values)) == ("finalise" if "stop" in values else "plan")


@pytest.mark.parametrize(
    ("headroom", "reason"),
    [(None, None), (0.5, None), (0.14, "near_peak"), (0.09, "target"), (0.0, "target")],
)
def test_a_run_stops_near_its_roof(headroom: float | None, reason: str | None) -> None:
    assert ROUTES.stop_reason_if_good_enough(state(headroom=headroom)) == reason


def test_nearness_to_a_roof_that_may_lie_higher_ends_no_run() -> None:
    assert ROUTES.stop_reason_if_good_enough(state(headroom=0.0), "others had 30 % of the machine meanwhile") is None
    routes = Routes(Settings.model_validate({"task": "t", "stop": {"speedup": 3}}))
    assert routes.stop_reason_if_good_enough({**state(headroom=0.0), "speedup": 3.1}, "others had 30 %") == "speedup"
    assert routes.stop_reason_if_good_enough({**state(), "speedup": 2.9}) is None


@pytest.mark.parametrize(
    ("values", "over", "reason"),
    [
        ({}, None, None),
        ({}, "budget.wall_s: 9 s of 9 s are spent", "budget"),
        ({"iteration": 8}, None, "iterations"),
        ({"stale": 2}, None, "patience"),
        ({"stale": 2}, "budget.wall_s: 9 s of 9 s are spent", "budget"),
    ],
)
def test_a_cap_that_is_reached_names_the_reason_to_stop(
    values: dict[str, object], over: str | None, reason: str | None
) -> None:
    assert ROUTES.stop_reason_if_exhausted(State(**{**state(), **values}), over) == reason
