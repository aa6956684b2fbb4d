"""Whether a roof is sure enough to end a run on."""

from __future__ import annotations

import pytest

from graph import run as runs
from graph.nodes import prepare
from graph.services import Services
from tests.graph.conftest import FinishedRun
from tools import evidence, physics, roofline
from tools.errors import BudgetError
from tools.hardware import Roof


@pytest.mark.parametrize(
    ("near", "others", "asked", "doubted"),
    [
        (True, (0.0,), 0, False),
        (False, (0.5,), 0, False),
        (True, (0.5, 0.0), 1, False),
        (True, (0.5, 0.5, 0.0), 2, False),
        (True, (0.5,) * (physics.AGAIN + 1), physics.AGAIN, True),
        (True, (0.5, None), 1, True),
    ],
    ids=["alone", "far from the roof", "again alone", "the second time alone", "never alone", "no time left"],
)
def test_a_roof_in_doubt_is_measured_again_and_ends_no_run(
    near: bool, others: tuple[float | None, ...], asked: int, doubted: bool, finished: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`others`: their share in each measurement; None: the caps leave no time for it."""
    with runs.opened(finished.root) as services:
        calibration = next(record for record in services.records if record.kind == "calibration")
        size, seconds = services.seen[0].unique_bytes, evidence.seconds(calibration)[services.task.workloads[0].name]
        bandwidth = size / seconds * (1.01 if near else 5.0)
        measured = [roof(bandwidth, others[0])]
        said: list[str] = []

        def again(_: Services, role: str) -> None:
            assert role == "profiler_analyst"
            share = others[len(measured)]
            measured.append(roof(bandwidth, share))
            if share is None:
                measured.pop()
                said.append(role)
                raise BudgetError("budget.wall_s: 9 s of 9 s are spent")

        monkeypatch.setattr(Services, "roofs", property(lambda _: (roofline.best(measured, "memory_bandwidth"),)))
        monkeypatch.setattr(Services, "all_roofs", property(lambda _: tuple(measured)))
        monkeypatch.setattr(Services, "roofs_again", again)
        monkeypatch.setattr(Services, "out_of_budget", lambda _, reason: said.append(reason))
        doubt = prepare._settle_roofs(services, calibration)
    assert bool(doubt) == doubted and (not doubted or "others had 50.0 % of the machine" in doubt)
    assert len(measured) - 1 + len(said) // 2 == asked


def roof(bandwidth: float, others: float | None) -> Roof:
    return Roof(metric="memory_bandwidth", value=bandwidth, unit="B/s", origin="measured", source="r", others=others)
