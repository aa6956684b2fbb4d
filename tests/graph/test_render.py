"""How figures are printed."""

from __future__ import annotations

from graph.report.render import ratio
from tools.artifacts import UNBOUNDED, Interval


def test_a_factor_is_printed_with_its_interval() -> None:
    assert ratio(Interval(estimate=2.0, low=1.9, high=2.13)) == "2× [1.9, 2.13]"
    assert ratio(None) == "N/A"


def test_an_end_that_nobody_knows_is_not_printed_as_a_figure() -> None:
    for low, high in ((1 / UNBOUNDED, UNBOUNDED), (1.9, UNBOUNDED), (1 / UNBOUNDED, 2.13)):
        assert ratio(Interval(estimate=2.0, low=low, high=high)) == "2× [N/A]"
        assert ratio(Interval(estimate=0.5, low=1 / high, high=1 / low)) == "0.5× [N/A]"
