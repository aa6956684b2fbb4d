"""Hidden workloads, derived sizes and seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.builders import softmax
from tools.artifacts import Dims, Task, Workload
from tools.contracts.checked_cases import cases_to_check, derive_sizes, draw_hidden_workloads, draw_seed


def task(**changes: Any) -> Task:
    dims = {"large": {"M": 4096, "N": 1024, "eps": 1e-5}, "small": {"M": 64, "N": 1000, "eps": 1e-5}}
    workloads = tuple(Workload(name=name, dims=sizes) for name, sizes in dims.items())
    return softmax(**({"workloads": workloads, "dims_range": {"M": (1, 4096), "N": (1, 8192)}} | changes))


@given(st.binary(min_size=16, max_size=16))
@settings(max_examples=50)
def test_hidden_dims_lie_in_range_and_cost_no_more_than_the_visible(secret: bytes):
    found = draw_hidden_workloads(task(), secret, 3)
    assert [w.name for w in found] == ["hidden-1", "hidden-2", "hidden-3"]
    for dims in [dims for hidden in found for dims in hidden.choices]:
        rows, columns = dims["M"], dims["N"]
        assert dims["eps"] == 1e-5
        assert 1 <= rows <= 4096 and 1 <= columns <= 8192 and rows * columns <= 4096 * 1024
    assert found == draw_hidden_workloads(task(), secret, 3)


def test_hidden_dims_differ_between_secrets_and_are_spread_over_the_decades():
    drawn = [draw_hidden_workloads(task(), bytes([i]) * 16, 1)[0].choices[0]["N"] for i in range(200)]
    assert len(set(drawn)) > 100
    assert sum(n < 90 for n in drawn) > 60
    assert sum(int(n) % 2 for n in drawn) > 70


@pytest.mark.parametrize(
    ("visible", "kept"),
    [
        # Rotary embedding, group norm with a number of groups that nothing is sized by, a matrix that must be square, a
        # Hadamard transform.
        ([{"S": 512, "d": 64}, {"S": 100, "d": 96}], lambda one: one["d"] % 8 == 0),
        ([{"n": 4, "C": 48, "groups": 12}, {"n": 1, "C": 24, "groups": 6}], lambda one: one["C"] % one["groups"] == 0),
        ([{"rows": 300, "columns": 300, "batch": 7}], lambda one: one["rows"] == one["columns"]),
        ([{"B": 6, "H": 32, "D": 4096}, {"B": 3, "H": 16, "D": 2048}], lambda one: one["D"] % one["H"] == 0),
    ],
)
def test_half_of_what_is_drawn_keeps_what_the_visible_sizes_have_in_common(
    visible: list[Dims], kept: Callable[[Dims], bool]
) -> None:
    workloads = tuple(Workload(name=str(at), dims=dims) for at, dims in enumerate(visible))
    ranged = [name for name in visible[0] if name != "groups"]
    ranges = {name: (1, max(int(dims[name]) for dims in visible)) for name in ranged}
    square = task(workloads=workloads, dims_range=ranges)
    drawn = [draw_hidden_workloads(square, bytes([i]) * 16, 2) for i in range(40)]
    assert all(kept(alike.choices[0]) for _, alike in drawn)
    assert len({tuple(alike.choices[0].values()) for _, alike in drawn}) > 3
    assert sum(not kept(ragged.choices[0]) for ragged, _ in drawn) > 10
    # A reference that takes none of these is left dims of which one alone differs from a visible workload.
    for hidden in (one for pair in drawn for one in pair):
        assert any(
            sum(choice[name] != dims[name] for name in dims) <= 1 for choice in hidden.choices for dims in visible
        )
    assert kept(derive_sizes(square)["half"][0])


def test_powers_of_two_are_drawn_where_all_visible_sizes_are() -> None:
    powers = task(
        workloads=(Workload(name="w", dims={"M": 100, "N": 1024}),), dims_range={"M": (1, 100), "N": (3, 1024)}
    )
    for hidden in draw_hidden_workloads(powers, b"s" * 16, 4):
        assert any(dims["M"] != 100 and int(dims["N"]).bit_count() == 1 for dims in hidden.choices)


def test_derived_sizes_are_ragged_and_odd_and_keep_scalars():
    found = derive_sizes(task())
    assert {label: choices[0] for label, choices in found.items()} == {
        "half": {"M": 32, "N": 496, "eps": 1e-5},
        "one-less": {"M": 63, "N": 999, "eps": 1e-5},
        "prime": {"M": 61, "N": 997, "eps": 1e-5},
        "M-is-1": {"M": 1, "N": 1000, "eps": 1e-5},
        "N-is-1": {"M": 64, "N": 1, "eps": 1e-5},
    }
    assert found["one-less"][1:] == ({"M": 64, "N": 999, "eps": 1e-5}, {"M": 63, "N": 1000, "eps": 1e-5})


def test_derived_sizes_stay_in_the_range_and_leave_other_integers_alone():
    assert {"M-is-1", "N-is-32"} < set(derive_sizes(task(dims_range={"M": (1, 4096), "N": (32, 8192)})))
    workloads = (Workload(name="w", dims={"M": 64, "N": 1000, "groups": 4}),)
    found = derive_sizes(task(workloads=workloads, dims_range={"M": (62, 64), "N": (1000, 1000)}))
    assert {label: choices[0] for label, choices in found.items()} == {
        "M-is-62": {"M": 62, "N": 1000, "groups": 4},
        "M-is-63": {"M": 63, "N": 1000, "groups": 4},
    }


def test_case_list_says_which_are_required():
    hidden = draw_hidden_workloads(task(), b"s" * 16, 1)
    found = cases_to_check(task(), hidden, lambda name: draw_seed(b"s", name), against_baseline=True)
    assert [(c.workload, c.distribution, c.hidden, c.required) for c in found] == [
        ("large", "as_given", False, True),
        ("small", "as_given", False, True),
        ("hidden-1", "as_given", True, False),
        ("half", "as_given", False, False),
        ("one-less", "as_given", False, False),
        ("prime", "as_given", False, False),
        ("M-is-1", "as_given", False, False),
        ("N-is-1", "as_given", False, False),
        *[("small", name, False, False) for _ in range(3) for name in ("scaled", "shifted", "outliers", "near_zero")],
    ]
    assert len({c.seed for c in found}) == len(found)
    alone = cases_to_check(task(), hidden, lambda name: 1, against_baseline=False)
    assert [(c.workload, c.required) for c in alone] == [("large", True), ("small", True), ("hidden-1", True)]


def test_seeds_fit_in_31_bits_and_depend_on_everything_asked():
    seeds = {draw_seed(b"secret", *asked) for asked in [("a", 1), ("a", 2), ("b", 1), ("a1",), ("a", "1", "")]} | {
        draw_seed(b"other", "a", 1)
    }
    assert len(seeds) == 6
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert draw_seed(b"secret", "a", 1) == draw_seed(b"secret", "a", 1)
