"""What one method of a champion was worth: said only where the noise lets it be said."""

from __future__ import annotations

import pytest

from graph.nodes.decide import _weighed
from tools.artifacts import Interval


@pytest.mark.parametrize(
    ("low", "high", "visible", "status", "note"),
    [
        (1.08, 1.40, True, "effective", ""),
        (1.08, 1.40, None, "effective", ""),
        (0.95, 1.03, True, "ineffective", ""),
        (0.70, 2.09, True, "unattributed", "noise hides"),
        (1.02, 1.30, None, "unattributed", "noise hides"),
        (1.08, 1.40, False, "implementation_failed", ""),
        (0.70, 2.09, False, "implementation_failed", ""),
    ],
)
def test_noise_is_not_a_verdict_on_a_method(low: float, high: float, visible: bool | None, status: str, note: str) -> None:
    outcome = _weighed("m", visible, Interval(estimate=(low * high) ** 0.5, low=low, high=high), 1e-3, "c", noise=0.05)
    assert outcome.status == status
    assert note in outcome.note and bool(note) == bool(outcome.note)
