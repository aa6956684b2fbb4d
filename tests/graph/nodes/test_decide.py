"""Which candidate becomes champion, and what one method of it was worth: said only where the noise lets it be said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from graph.nodes import decide
from graph.nodes.decide import _weighed
from tools.artifacts import Interval, Measurement, Passed
from tools.gate.policy import Policy


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


def interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate=estimate, low=low, high=high)


def trial(name: str, overall: Interval, small: Interval) -> Passed:
    times = {"weight": 1.0, "incumbent_s": 1e-4, "candidate_s": 1e-4, "pairs": 12}
    seen = tuple(Measurement(workload=w, speedup=s, **times) for w, s in (("small", small), ("large", overall)))
    return Passed(candidate=name, measurements=seen, speedup=overall, records=())


@pytest.mark.parametrize(
    ("small", "others", "champion"),
    [
        (interval(0.80, 0.75, 0.85), True, "careful"),
        (interval(0.90, 0.60, 1.40), True, "careful"),
        (interval(0.97, 0.80, 1.20), True, "fastest"),
        # The only one is still brought to the gate.
        (interval(0.80, 0.75, 0.85), False, "fastest"),
    ],
)
def test_a_gain_that_costs_a_workload_its_margin_comes_behind_one_that_does_not(
    monkeypatch: pytest.MonkeyPatch, small: Interval, others: bool, champion: str
) -> None:
    fine = interval(1.5, 1.2, 1.8)
    judged = [trial("fastest", interval(2.9, 2.5, 3.1), small)]
    if others:
        judged += [trial("careful", fine, fine), trial("lucky", interval(9.0, 0.9, 20.0), fine)]
    monkeypatch.setattr(decide, "trials", lambda state, services: [SimpleNamespace(trial=t) for t in judged])
    services = SimpleNamespace(settings=SimpleNamespace(judge=Policy()), task=SimpleNamespace(margins={}))
    assert decide.select({"noise_floor": 0.01}, services)["champion"] == champion  # type: ignore[arg-type, typeddict-item]
