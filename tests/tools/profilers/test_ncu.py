"""Against real reports of Nsight Compute, cut to the columns that a profile keeps (fixtures/ncu)."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support import BARE, run_captured
from tools.analysis import rules
from tools.analysis.bottleneck import find_bottleneck, find_bound
from tools.analysis.diagnosis import describe_call
from tools.analysis.traffic import add_traffic
from tools.artifacts import Profile, Quantity, Remark
from tools.executors.harness_job import HARNESS_FOLDER
from tools.executors.protocol import ProbedArgument, ProbedWorkload
from tools.harness.compilation import toolchain
from tools.languages.triton import Triton
from tools.profilers import ncu, ncu_reports
from tools.roofline.hardware import Headroom

REPORTS = Path(__file__).parents[1] / "fixtures" / "ncu"
LABELS: dict[str, list[str]] = json.loads((REPORTS / "labels.json").read_text())
OURS = {"register_spill": "register_spill", "narrow_loads": "narrow_accesses"}
"""Rules of ours that go by another name than in the labels."""


def report(name: str) -> tuple[ncu_reports.ProfiledLaunch, ...]:
    details = REPORTS / f"{name}.details.csv"
    return ncu.parse_launches(
        (REPORTS / f"{name}.raw.csv").read_text(), details.read_text() if details.exists() else ""
    )


@pytest.mark.parametrize("name", sorted(LABELS))
def test_the_planted_bottleneck_is_named_first(name: str) -> None:
    metrics = ncu.profile_metrics(ncu.call_metrics(report(name)))
    found = rules.evaluate_rules([(Profile(tool="ncu", launch=name, source="", metrics=metrics), "record")], {})
    assert found and OURS.get(found[0].rule, found[0].rule) in LABELS[name], [finding.rule for finding in found]
    assert found[0].evidence == ("record",) and "N/A" not in found[0].text


def test_metrics_keep_their_names_and_times_are_discarded() -> None:
    (launch,) = report("triton_softmax")
    metrics = ncu.profile_metrics(launch.metrics)
    assert launch.kernel == "softmax_kernel"
    assert ncu_reports.DURATION_METRIC in launch.metrics and ncu_reports.DURATION_METRIC not in metrics
    assert metrics["launch__registers_per_thread"].unit == "register/thread"
    assert metrics["dram__bytes_read.sum"].unit == "byte" and metrics["dram__bytes_read.sum"].value > 1e8, (
        "Mbyte is undone"
    )
    shares = [quantity.value for name, quantity in metrics.items() if name.startswith("ncu.stall_share.")]
    assert len(shares) == len(ncu.STALL_REASONS) and sum(shares) == pytest.approx(1.0, abs=0.02)
    # Three passes over the rows: 8192 x 4096 floats are loaded three times.
    assert metrics["ncu.global_bytes.ld"].value == 3 * 8192 * 4096 * 4


def test_a_section_of_the_report_can_be_read_by_its_name() -> None:
    found = ncu.parse_sections(next(iter(sorted(REPORTS.glob("*.details.csv")))).read_text())
    (said,) = found["Occupancy"]
    assert re.search(r": .*Achieved Occupancy [\d.]+ %", said) and not ncu.parse_sections("")


TWO_PASSES = b"""
@triton.jit
def first_pass(): ...

@triton.jit
def second_pass(): ...
"""


def launch(kernel: str, seconds: float, **counted: float) -> ncu_reports.ProfiledLaunch:
    """A launch of the naive softmax by another name, with other counters."""
    (seen,) = report("triton_softmax")
    others = {"gpu__time_duration.sum": seconds, **{name.replace("___", "."): v for name, v in counted.items()}}
    return dataclasses.replace(
        seen, kernel=kernel, metrics=seen.metrics | {name: Quantity(value=value) for name, value in others.items()}
    )


def moved(read: float, written: float) -> dict[str, float]:
    return {
        "dram__bytes_read___sum": read,
        "dram__bytes_write___sum": written,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st___sum": written / 32,
    }


def read_call(*launches: ncu_reports.ProfiledLaunch, elements: int = 25, **pages: str) -> Profile:
    """The profile of a call of these launches in a task with as many float32 elements in as out."""
    seen, metrics, notes = ncu.read_call(launches, {f"range.{k}": text for k, text in pages.items()}, TWO_PASSES)
    remarks = tuple(Remark(tool="ncu", line=0, kind="note", text=text) for text in notes)
    profile = Profile(tool="ncu", launch="w", workload="w", source="", metrics=metrics, launches=seen, remarks=remarks)
    both = tuple(
        ProbedArgument.model_validate({"name": role, "role": role, "dtype": "float32", "shape": (elements,)})
        for role in ("input", "output")
    )
    return add_traffic(
        profile,
        ProbedWorkload(name="w", dims={}, weight=1, arguments=both, flops=1.0, unique_bytes=2 * 4 * elements),
    )


RANGE = (REPORTS / "two_pass.range.csv").read_text()


def test_a_call_is_its_launches_in_order_and_the_bytes_of_the_whole_range() -> None:
    found = read_call(*report("two_pass"), elements=8192 * 8192, csv=RANGE)
    assert [(one.name, round(one.share, 2), one.own) for one in found.launches] == [
        ("first_pass", 0.5, True),
        ("second_pass", 0.5, True),
    ]
    assert found.metrics["ncu.dram_bytes"].value == pytest.approx(536_994_304 + 510_790_912)
    assert found.metrics["ncu.kernels"].value == 2
    assert found.metrics["roofline.dram_over_unique"].value == pytest.approx(1.95, abs=0.01), "not 0.95, of one launch"
    assert found.metrics["gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"].value == pytest.approx(81.5, abs=0.1)
    assert "1. first_pass 50%, 130 us; 2. second_pass 50%, 131 us" in describe_call(found)
    refused = read_call(*report("two_pass"), txt="==ERROR== Range replay is not supported")
    assert refused.metrics["ncu.dram_bytes"].value == pytest.approx(2 * 511e6, rel=0.01)
    assert "Range replay is not supported" in refused.remarks[0].text


def test_rereading_what_an_earlier_launch_has_written_is_a_finding_that_names_its_kernel() -> None:
    call = read_call(*report("two_pass"), elements=8192 * 8192, csv=RANGE)
    # Machine code and roofline say the same; what they say is less plain.
    facts = {"intensity_over_ridge": 0.1, "fraction_of_memory_roof": 0.5}
    known = {f"roofline.{name}": Quantity(value=value) for name, value in facts.items()}
    (found,) = [one for one in rules.evaluate_rules([(call, "rec")], known) if one.rule == "redundant_passes"]
    assert found.text.startswith("second_pass reads again 2.17e+08 bytes") and "50% of the call's time" in found.text
    assert found.evidence == ("rec",)
    # Each half of the outputs is written once, from inputs of its own.
    halves = (launch("first_pass", 54e-6, **moved(50, 50)), launch("second_pass", 46e-6, **moved(50, 50)))
    assert read_call(*halves).metrics["roofline.reread_bytes"].value == 0


def test_a_rule_asks_each_long_launch_of_the_candidates_own_kernels() -> None:
    stalled = {ncu.STALL_METRIC.format("barrier").replace(".", "___"): 30.0}
    calls = (launch("first_pass", 50e-6), launch("second_pass", 47e-6, **stalled), launch("gemm", 3e-6, **stalled))
    (found,) = [one for one in rules.evaluate_rules([(read_call(*calls), "r")], {}) if one.rule == "stall_barrier"]
    assert found.kernel == "second_pass" and found.text.startswith("second_pass (47% of the call): warps spend")
    (alone,) = [
        one
        for one in rules.evaluate_rules([(read_call(launch("first_pass", 1e-6, **stalled)), "r")], {})
        if one.rule == "stall_barrier"
    ]
    assert alone.kernel == "first_pass" and alone.text.startswith("warps spend")
    library = (launch("first_pass", 50e-6), launch("gemm", 50e-6, **stalled))
    assert "stall_barrier" not in {one.rule for one in rules.evaluate_rules([(read_call(*library), "r")], {})}


def test_busy_matrix_units_of_a_library_are_not_idle_in_the_call() -> None:
    facts = {"roofline.intensity_over_ridge": Quantity(value=9), "roofline.matrix_units": Quantity(value=1)}
    busy = {"sm__pipe_tensor_cycles_active___avg___pct_of_peak_sustained_active": 70.0}
    listing = Profile(tool="static", launch="sm_90", source="", metrics={"sass.tensor": Quantity(value=0)})
    call = read_call(launch("gemm", 80e-6, **busy), launch("first_pass", 20e-6))
    assert "tensor_cores_idle" not in {one.rule for one in rules.evaluate_rules([(listing, "s"), (call, "n")], facts)}
    idle = read_call(launch("gemm", 80e-6), launch("first_pass", 20e-6))
    (found,) = [
        one for one in rules.evaluate_rules([(listing, "s"), (idle, "n")], facts) if one.rule == "tensor_cores_idle"
    ]
    assert found.evidence == ("n", "s")
    assert [one.rule for one in rules.evaluate_rules([(listing, "s")], facts)] == ["tensor_cores_idle"]


def test_what_bounds_most_of_the_calls_time_is_the_one_bottleneck() -> None:
    full = {"gpu__dram_throughput___avg___pct_of_peak_sustained_elapsed": 95.0}
    call = read_call(launch("first_pass", 30e-6), launch("second_pass", 70e-6, **full))
    far = Headroom(total=0.9, compute=0.1, memory=0.9, latency=0.9, bound="compute")
    assert find_bottleneck((), far) == "compute", "without counters the roof that the kernel is near"
    assert find_bottleneck((), far, [call]) == find_bound(call.launches[1].metrics)[0] == "memory"


FAKE_NCU = """#!/bin/bash
case "$*" in
  *--import*range*) cat ../range.page;;
  *--import*) cat ../calls.page;;
  *"--replay-mode range"*) cat ../refusal >&2; [ -s ../refusal ] || touch range.ncu-rep;;
  *) touch report.ncu-rep;;
esac
"""


@pytest.mark.parametrize(("launches", "refusal"), [(1, ""), (2, ""), (2, "==ERROR== no range here")])
def test_only_a_call_of_several_launches_is_replayed_as_one_range(tmp_path: Path, launches: int, refusal: str) -> None:
    shutil.copytree(HARNESS_FOLDER, tmp_path / "job" / "harness")
    (tmp_path / "job" / "launch.json").write_text(json.dumps({"metrics": ["m"], "totals": ["m"], "most": 32}))
    (tmp_path / "ncu").write_text(FAKE_NCU)
    (tmp_path / "ncu").chmod(0o755)
    (tmp_path / "calls.page").write_text('"ID"\n""\n' + '"0"\n' * launches)
    (tmp_path / "range.page").write_text(RANGE)
    (tmp_path / "refusal").write_text(refusal)
    target = tmp_path / "job" / "harness" / "device" / "ncu_target.py"
    run_captured(
        [sys.executable, "-I", str(target)],
        cwd=tmp_path / "job",
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        check=True,
    )
    left = {path.name for path in (tmp_path / "job").iterdir()}
    assert ("range.csv" in left) == (launches > 1 and not refusal) and ("range.txt" in left) == bool(refusal)


def test_permission_is_read_from_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = tmp_path / "params"
    monkeypatch.setattr(toolchain, "DRIVER_PARAMETERS_FILE", parameters)
    assert not toolchain.counters_need_root(), "nobody can tell"
    parameters.write_text("Mobile: 0\nRmProfilingAdminOnly: 1\n")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    forbidden = BARE.model_copy(update={"programs": {"ncu": ""}, "counters_need_root": toolchain.counters_need_root()})
    assert "NVreg_RestrictProfilingToAdminUsers=0" in (ncu.NcuProfiler().reason_unavailable(Triton(), forbidden) or "")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert not toolchain.counters_need_root()


PRYING = """
import json, sys
sys.path.insert(0, "FOLDER")
from harness.device import ncu_target
ncu_target.shut_in("/usr/local/cuda/bin/ncu")
opened = []
for path, mode in (("kernel.py", "r"), ("scratch/made", "w"), ("compiled/made", "w"), ("harness/isolation/sandbox.py", "a"), ("new.py",
"w"),
                   ("/etc/passwd", "r"), ("/tmp/kernel-was-here", "w")):
    try:
        open(path, mode).close()
        opened.append(path)
    except OSError:
        pass
print(json.dumps(opened))
"""


def test_a_kernel_under_ncu_has_its_folder_to_read_and_two_to_write(tmp_path: Path) -> None:
    shutil.copytree(HARNESS_FOLDER, tmp_path / "harness")
    (tmp_path / "kernel.py").touch()
    for name in ("scratch", "compiled"):
        (tmp_path / name).mkdir()
    argv = [sys.executable, "-I", "-c", PRYING.replace("FOLDER", str(tmp_path))]
    done = run_captured(argv, cwd=tmp_path, check=True)
    report = json.loads((tmp_path / "sandbox.json").read_text())
    assert report["no_new_privileges"] is True
    if not report["landlock"].startswith("abi"):
        pytest.skip(f"Landlock is {report['landlock']} here")
    assert json.loads(done.stdout) == ["kernel.py", "scratch/made", "compiled/made"]


def test_a_kernel_is_not_said_to_access_memory_as_another_kernel_of_the_call_does() -> None:
    used = "ncu.sector_use.ld"
    call = read_call(*report("two_pass"), elements=8192 * 8192)
    first, second = (one.model_copy(update={"metrics": dict(one.metrics)}) for one in call.launches)
    first.metrics.pop(used, None)
    second.metrics[used] = Quantity(value=0.125)
    call = call.model_copy(
        update={"launches": (first, second), "metrics": {**call.metrics, used: Quantity(value=0.01)}}
    )
    rule = rules.Rule(
        id="r", axis="memory", severity="high", when=(rules.Condition(metric=used, op="<", value=0.5),), text="few"
    )
    (found,) = rules.evaluate_rules([(call, "record")], {}, [rule])
    assert found.kernel == second.name
