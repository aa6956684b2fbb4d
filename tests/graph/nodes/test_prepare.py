"""Whether a roof is sure enough to end a run on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agents.artifacts import Analysis, AnalystBrief
from graph.artifacts import Inspection
from graph.budget.metering import CappedExecutor
from graph.lifecycle import run as runs
from graph.nodes import prepare
from graph.report.content.frameworks import torch_times
from graph.services import Services
from graph.settings import Benchmark
from graph.state import State
from graph.workspace.versions import read_state
from tests.graph.conftest import state_of
from tools.artifacts import Record
from tools.errors import BudgetError, HarnessError, SettingsError
from tools.executors.protocol import ContestOfWorkload, ContestResult, Telemetry
from tools.gate.confirmation import Contest
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.roofline import lower_bounds, roofline
from tools.roofline.hardware import Citation, Roof, Spec
from tools.store.records import record_key


def test_a_section_that_the_analyst_asks_for_is_shown_to_all_and_asked_for_once(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[AnalystBrief] = []

    def analysed(services: Services, brief: AnalystBrief) -> Analysis:
        asked.append(brief)
        return Analysis(ranking=(), text="", section="Occupancy")

    monkeypatch.setattr(prepare, "_analyse", analysed)
    monkeypatch.setattr(prepare, "_ncu_sections", lambda *_: {"Occupancy": ("kernel: Achieved Occupancy 40 %",)})
    with runs.open_services(copied) as services:
        found, _ = prepare._inspect_kernel(
            services.candidate(read_state(services.workspace)["baseline"]), services, (), ""
        )
    assert [brief.sections for brief in asked] == [("Occupancy",), ()]
    assert found.seen.section == asked[1].observations.section == ("Occupancy, kernel: Achieved Occupancy 40 %",)
    facts = [name for held in found.seen.counters.values() for name in held if name.startswith("roofline.")]
    assert facts and all(name.endswith(f"@{found.workload}") for name in facts), "the task has several workloads"
    assert found.bottleneck == found.headroom.bound == asked[0].headroom.bound, "prompts show the one bottleneck"


def test_published_roofs_contain_no_measured_one_and_none_above_the_time_is_left_unexplained(copied: Path) -> None:
    cited = Citation(path="p.md", line=3, sha256="0" * 64)
    bandwidth = Spec(metric="memory_bandwidth", value=1e-6, unit="GB/s", product="P", citation=cited)
    with runs.open_services(copied) as services:
        baseline = services.candidate(read_state(services.workspace)["baseline"])
        found, _ = prepare._inspect_kernel(baseline, services, (bandwidth,), "")
        assert {roof.metric for roof in services.roofs} >= {"compute_float32", "launch_latency"}
        weights = {w.name: w.weight for w in services.task.workloads}
        fraction = services.settings.stop.target_fraction
    assert found.published is not None and found.published.roof is not None
    moved = sum(weights[row.workload] * row.unique_bytes / 1e3 for row in found.rooflines)
    assert (found.published.roof.origin, found.published.seconds) == ("cited", pytest.approx(moved / fraction))
    for times in found.seen.times.values():
        measured, published = (next(name for name in times if name.startswith(kind)) for kind in ("meas", "publ"))
        assert measured == "measured roof" and "faster than this roof: it " in published


def test_a_host_that_lacks_what_the_config_requires_runs_no_kernel(copied: Path) -> None:
    with runs.open_services(copied) as services:
        required = services.settings.model_copy(update={"isolation": "required"})
        payload = services.records.get(services.environment).payload
        payload = payload | {"sandbox": {"network": "namespace", "landlock": "abi 7", "no_new_privileges": "true"}}
        payload["sandbox"]["seccomp"] = "not available on riscv64"
        elsewhere = services.records.add(Record(kind="environment", key=record_key("elsewhere"), payload=payload))
        services = replace(services, settings=required, environment=elsewhere.id)
        with pytest.raises(SettingsError, match="isolation: required, but this host does not provide seccomp;"):
            prepare.preflight(State(), services)


def test_the_first_node_tells_what_another_host_lacks_and_how_to_mend_it(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "_requests_before_iterations", lambda _: ())
    monkeypatch.setattr(prepare, "_require_sound_baseline", lambda _: None)
    monkeypatch.setattr(prepare, "_start_frameworks", lambda _: None)
    with runs.open_services(copied) as services:
        payload = services.records.get(services.environment).payload
        python = {"name": "host python", "status": "ok", "value": "3.12.3, /opt/py/bin/python", "fix": ""}
        disk = {"name": "host disk", "status": "missing", "value": "0.1 GiB free", "fix": "free some space"}
        payload = payload | {"items": [python, disk, *payload["items"]]}
        elsewhere = services.records.add(Record(kind="environment", key=record_key("elsewhere"), payload=payload))
        state = prepare.preflight(State(), replace(services, environment=elsewhere.id))
        shown = (services.workspace.root / "env_check.md").read_text()
    assert "roofs measured; 1 of 2 host checks ok; missing: host disk (free some space)" in state["summary"]
    assert "| host python | ok | 3.12.3, /opt/py/bin/python |  |" in shown
    assert "| host disk | missing | 0.1 GiB free | free some space |" in shown


@pytest.mark.parametrize(
    ("near", "others", "asked", "doubted", "ends"),
    [
        (True, (0.0,), 0, False, False),
        (False, (0.5,), 0, False, False),
        (True, (0.5, 0.0), 1, False, False),
        (True, (0.5,) * (lower_bounds.MAX_REMEASUREMENTS + 1), lower_bounds.MAX_REMEASUREMENTS, True, False),
        (True, (0.5, BudgetError("budget.wall_s: 9 s of 9 s are spent")), 1, True, False),
        (True, (0.5, HarnessError("roofs_cpu.cpp ran out of time")), 1, True, False),
        (True, (0.5,), 0, False, True),
    ],
    ids=["alone", "far from the roof", "again alone", "never alone", "no time", "no luck", "it ends anyway"],
)
def test_a_roof_in_doubt_is_measured_again_and_ends_no_run(
    near: bool,
    others: tuple[float | Exception, ...],
    asked: int,
    doubted: bool,
    ends: bool,
    copied: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`others`: their share in each measurement, or what keeps it from being made. `ends`: the run does so for
    another reason."""
    with runs.open_services(copied) as services:
        state = state_of(services, stop=None, iteration=1, stale=0)
        baseline = services.candidate(state["baseline"])
        seconds = evidence.incumbent_seconds(services.judge.read_or_measure_calibration(baseline))[
            services.task.workloads[0].name
        ]
        size = services.probed_workloads[0].unique_bytes
        bandwidth = size / seconds * (1.01 if near else 5.0)
        measured, failed = [roof(bandwidth, others[0])], list[Exception]()

        def again(_: Services, jobs: CappedExecutor) -> None:
            share = others[len(measured)]
            if isinstance(share, Exception):
                failed.append(share)
                jobs.on_cap(str(share))
                raise share
            measured.append(roof(bandwidth, share))

        monkeypatch.setattr(Services, "roofs", property(lambda _: (roofline.best_roof(measured, "memory_bandwidth"),)))
        monkeypatch.setattr(Services, "all_roofs", property(lambda _: tuple(measured)))
        monkeypatch.setattr(Services, "remeasure_roofs", again)
        if ends:
            state["stop"] = "iterations"
        doubt = prepare._remeasure_doubted_roofs(state, services, baseline)
        assert services.recorded_cap is None, "the run can do without these measurements"
    assert bool(doubt) == doubted and (not doubted or "50.0 % of the machine" in doubt)
    assert len(measured) - 1 + len(failed) == asked


@pytest.mark.parametrize(
    ("doubt", "eager", "stop"),
    [
        ("", None, "target"),
        ("other processes used 50.0 % of the machine meanwhile", None, None),
        ("", "surely faster", None),
        ("", "as fast", "target"),
    ],
    ids=["near", "roof in doubt", "torch is faster", "torch may be faster"],
)
def test_a_run_goes_on_near_a_roof_that_is_in_doubt_or_behind_torch(
    doubt: str, eager: str | None, stop: str | None, copied: Path
) -> None:
    with runs.open_services(copied) as services:
        state = state_of(services, stop=None, iteration=2, stale=0)
        record = services.records.find(record_key("inspection", candidate=state["baseline"]))
        assert record is not None
        found = Inspection.model_validate(record.payload)
        there = found.model_copy(update={"headroom": found.headroom.model_copy(update={"total": 0.01}), "doubt": doubt})
        baseline = services.candidate(state["baseline"])
        other = baseline.model_copy(update={"files": {name: f"{text}\n" for name, text in baseline.files.items()}})
        services.save_candidate(other)
        services.save_record("inspection", there, candidate=other.id)
        if eager is not None:
            # By the clock by which v0 takes 1 s, and so eager as much as v1 and v2 are worth together.
            state["frameworks"] = services.save_record("benchmark", contest(baseline=1.0, eager=1.0), eager_s=1.0).id
            times = torch_times(state, services)
            assert times is not None and times.against["eager"].low > 1
            worth = times.against["eager"]
            eager_s = 0.9 / worth.high if eager == "surely faster" else 1 / worth.estimate
            state["frameworks"] = services.save_record(
                "benchmark", contest(baseline=1.0, eager=eager_s), eager_s=eager_s
            ).id
        update = prepare.profile(State(**{**state, "incumbent": other.id}), services)  # type: ignore[typeddict-item]
    assert update.get("stop") == stop and (doubt in update["summary"])
    assert ("Torch eager is shown faster" in update["summary"]) == (eager == "surely faster")


@pytest.mark.parametrize(
    "why", [None, BudgetError("budget.wall_s: 9 s of 9 s are spent"), HarnessError("torch is gone")]
)
def test_a_run_without_torchs_times_goes_on_as_ever(
    why: Exception | None, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: the user switched the frameworks off."""

    def failing(*_: object) -> Record:
        raise why or AssertionError("nobody wants these times")

    monkeypatch.setattr(Judge, "read_or_measure_benchmark", failing)
    monkeypatch.setattr(Judge, "start_torch_contestants", lambda *_: None)
    with runs.open_services(copied) as services:
        off = services.settings.model_copy(update={"benchmark": Benchmark(eager=False, compile=False)})
        services = services if why else replace(services, settings=off)
        state = read_state(services.workspace)
        state["frameworks"], said = prepare._time_frameworks(state, services)
        assert said == (f"; torch was not timed beside it: {why}" if why else "")
        assert (state["frameworks"], services.recorded_cap, torch_times(state, services)) == ("", None, None)


def contest(**seconds: float) -> Contest:
    """Ten rounds of the first workload alone, all alike."""
    seen = ContestResult(
        workloads=(ContestOfWorkload(workload="w", rounds=(seconds,) * 10),),
        telemetry=Telemetry(load_before=0.0, load_after=0.0, foreign_cpu_fraction=0.0, seconds=1.0),
    )
    return Contest(candidates={"baseline": "b"}, attempt=0, weights={"w": 1.0}, result=seen)


def roof(bandwidth: float, others: float | None) -> Roof:
    return Roof(metric="memory_bandwidth", value=bandwidth, unit="B/s", origin="measured", source="r", others=others)


@pytest.mark.parametrize(("share", "known"), [(1.2, True), (0.5, False)])
def test_bytes_that_the_given_kernel_refutes_give_no_distance_from_a_roof_and_no_target(
    share: float, known: bool, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`share`: the roof's bandwidth over those at which the given kernel moves the bytes that were counted."""
    with runs.open_services(copied) as services:
        calibration = services.judge.read_or_measure_calibration(
            services.candidate(read_state(services.workspace)["baseline"])
        )
        seconds = evidence.incumbent_seconds(calibration)
        moved = [seen.unique_bytes / seconds[seen.name] for seen in services.probed_workloads]
        measured = (roof(share * (max(moved) if known else min(moved)), 0.0),)
        monkeypatch.setattr(Services, "all_roofs", property(lambda _: measured))
        device = services.device.model_copy(update={"last_level_cache": 1})
        monkeypatch.setattr(Services, "device", property(lambda _: device))
        rows = prepare._workload_rooflines(services, calibration, measured)
        target = prepare._roofline_target(services, rows, measured)
    assert [rows[0].headroom.total is not None, target.seconds is not None] == [known, known]
    assert ("declare their `bytes`" in target.description) is not known
