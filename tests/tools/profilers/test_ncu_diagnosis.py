"""Diagnoses of real reports of Nsight Compute (fixtures/ncu), in each of the forms that people have them in."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from tests.support import Capsys
from tools.__main__ import main
from tools.analysis import bottleneck, rules
from tools.artifacts import Quantity
from tools.errors import SettingsError
from tools.executors.local import LocalExecutor
from tools.profilers import ncu, ncu_diagnosis, ncu_reports
from tools.store.blobs import Blobs

FIXTURES = Path(__file__).parents[1] / "fixtures" / "ncu"
LABELS = json.loads((FIXTURES / "labels.json").read_text())
OURS = {"narrow_loads": "narrow_accesses"}
BOUNDS = {
    **dict.fromkeys(
        ("stream_copy", "strided_read", "transpose_bank", "spill", "mio", "gemm_naive", "col_reduce"), "memory"
    ),
    **dict.fromkeys(
        ("fma_dep", "smem_limited", "reg_limited", "tiny_grid", "barrier", "chase", "membar", "byte_copy"), "latency"
    ),
    "fma_peak": "compute",
}


def page(name: str, kind: str = "raw") -> Path:
    return FIXTURES / f"{name}.{kind}.csv"


def exported_nowhere(path: Path, content: bytes) -> tuple[str, ...]:
    raise AssertionError(f"{path} is no .ncu-rep file")


def diagnosed(*paths: Path) -> ncu_diagnosis.KernelDiagnosis:
    (launch,) = ncu_reports.merge_pages(
        launch for path in paths for launch in ncu_reports.read_report(path, exported_nowhere)
    )
    return ncu_diagnosis.diagnose_launch(launch)


def as_text(details: Path) -> str:
    """The details page as ncu prints it."""
    rows = list(csv.DictReader(details.open()))
    bare = {name: rows[0][name].strip("()") for name in ("Grid Size", "Block Size")}
    lines = ["==PROF== Connected to process 463", "[463] app@127.0.0.1"]
    lines += [
        (
            f"  {rows[0]['Kernel Name']} ({bare['Grid Size']})x({bare['Block Size']}), Context 1, Stream 7, Device "
            f"0, CC 9.0"
        )
    ]
    section = ""
    for row in rows:
        if row["Metric Name"]:
            if section != row["Section Name"]:
                section = row["Section Name"]
                lines += [
                    "",
                    f"    Section: {section}",
                    "    ---- ---- ----",
                    "    Metric Name     Metric Unit Metric Value",
                    "    ---- ---- ----",
                ]
            lines.append(f"    {row['Metric Name']:<40} {row['Metric Unit']:>11} {row['Metric Value']:>12}".rstrip())
        else:
            scope = {"local": "Est. Local Speedup", "global": "Est. Speedup"}.get(row["Estimated Speedup Type"])
            words = row["Rule Description"].split()
            lines.append("    ---- ---- ----")
            if scope and row["Estimated Speedup"]:
                lines.append(f"    {row['Rule Type']}   {scope}: {row['Estimated Speedup']}%      ")
            else:
                lines.append(f"    {row['Rule Type']}   {' '.join(words[:12])}   ")
                words = words[12:]
            lines += [f"          {' '.join(words[at : at + 12])}   " for at in range(0, len(words), 12)]
    return "\n".join(lines)


@pytest.mark.parametrize("name", sorted(LABELS))
def test_the_planted_cause_is_among_the_first_three_and_the_bound_is_right(name: str) -> None:
    kernel = diagnosed(page(name))
    assert set(LABELS[name]) & {OURS.get(one.rule, one.rule) for one in kernel.findings[:3]}
    assert kernel.bound == BOUNDS[name] and kernel.margin is not None
    for one in kernel.findings:
        assert one.metrics and one.action and "N/A" not in one.why


@pytest.mark.parametrize("name", ["stream_copy", "fma_peak"])
def test_a_kernel_at_its_roof_has_no_finding_of_high_severity(name: str) -> None:
    assert all(one.severity != "high" for one in diagnosed(page(name)).findings)


@pytest.mark.parametrize("name", ["membar", "spill", "gemm_naive"])
def test_raw_and_details_pages_are_one_launch_and_nvidias_agreement_is_named(name: str) -> None:
    both = diagnosed(page(name, "details"), page(name))
    assert both == diagnosed(page(name), page(name, "details")), "in whichever order they are given"
    assert [one.rule for one in both.findings] == [one.rule for one in diagnosed(page(name)).findings]
    assert not both.undecided
    assert any("CPIStall, estimates" in one.nvidia_advice for one in both.findings)
    gains = [said.estimated_speedup for said in both.advice if said.estimated_speedup is not None]
    assert gains == sorted(gains, reverse=True) and len(gains) > 2


@pytest.mark.parametrize("name", ["membar", "spill", "gemm_naive"])
def test_the_details_page_says_the_same_as_text_and_as_csv_and_names_what_it_lacks(name: str, tmp_path: Path) -> None:
    text = tmp_path / "details.txt"
    text.write_text(as_text(page(name, "details")))
    by_text, by_csv = diagnosed(text), diagnosed(page(name, "details"))
    assert [one.rule for one in by_text.findings] == [one.rule for one in by_csv.findings]
    assert by_text.bound == by_csv.bound == BOUNDS[name] and by_text.undecided == by_csv.undecided
    assert [(said.kind, said.estimated_speedup) for said in by_text.advice] == [
        (said.kind, said.estimated_speedup) for said in by_csv.advice
    ]
    assert set(LABELS[name]) & {OURS.get(one.rule, one.rule) for one in by_csv.findings[:3]}
    assert "narrow_loads" in by_csv.undecided["MemoryWorkloadAnalysis_Tables"]


def test_labels_of_the_details_page_mean_the_metrics_of_the_raw_one() -> None:
    (raw,), (details,) = (
        ncu_reports.read_report(page("membar", kind), exported_nowhere) for kind in ("raw", "details")
    )
    shared = raw.metrics.keys() & details.metrics.keys()
    assert len(shared) > 25
    for name in shared:
        assert details.metrics[name].value == pytest.approx(raw.metrics[name].value, rel=0.02, abs=0.06), name


def test_a_report_as_nsight_compute_saves_it_goes_through_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "a.ncu-rep"
    saved.write_bytes(b"NVR\0")
    program = tmp_path / "ncu"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo Version 1\nexec cat "{FIXTURES}/membar.$5.csv"\n')
    program.chmod(0o755)

    def exported(path: Path, content: bytes) -> tuple[str, ...]:
        blobs = Blobs(tmp_path / "blobs")
        with LocalExecutor(blobs, tmp_path) as executor:
            return ncu.export_pages(path, content, executor, blobs)

    with monkeypatch.context() as found:
        found.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        (launch,) = ncu_reports.read_report(saved, exported)
    assert ncu_diagnosis.diagnose_launch(launch) == diagnosed(page("membar"), page("membar", "details"))
    with pytest.raises(
        SettingsError, match="needs ncu, which was not found; install Nsight Compute, or export the report"
    ):
        ncu_reports.read_report(saved, exported)


def many(tmp_path: Path) -> Path:
    """A report of all labelled kernels, each with an id and a name of its own, one of them as `n/a`."""
    rows: list[list[str]] = []
    for number, name in enumerate(sorted(LABELS)):
        head, units, values = csv.reader(page(name).open())
        values[:2] = [str(number), name]
        rows += [values] if rows else [head, units, values]
    made = tmp_path / "all.csv"
    with made.open("w", newline="") as out:
        out.write("==PROF== Disconnected\nthe program says hello\n")
        csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    return made


def test_all_kernels_of_a_report_come_the_longest_first_and_one_can_be_chosen(tmp_path: Path, capsys: Capsys) -> None:
    made = str(many(tmp_path))
    assert main(["diagnose", made, "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert {kernel["name"] for kernel in kernels} == LABELS.keys()
    assert [kernel["seconds"] for kernel in kernels] == sorted((kernel["seconds"] for kernel in kernels), reverse=True)
    assert {"rule", "severity", "metrics", "why", "action", "page"} <= kernels[0]["findings"][0].keys()
    assert main(["diagnose", made, "--kernel", "membar"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "membar (41.3 us under the profiler): bound by latency: the busiest unit is 17 points short of 60 %\n1. "
        "stall_membar"
    )
    assert main(["diagnose", made, "--kernel", "softmax"]) == 2
    assert "the report contains no kernel named 'softmax'; its kernels are: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read: No such file"), ("hello", "contains no kernel of Nsight Compute; give")],
)
def test_a_file_that_is_no_report_is_refused_in_one_sentence(
    content: str | None, said: str, tmp_path: Path, capsys: Capsys
) -> None:
    path = tmp_path / "a.csv"
    if content is not None:
        path.write_text(content)
    assert main(["diagnose", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def made(**metrics: float) -> tuple[set[str], dict[str, tuple[str, ...]]]:
    """Rules that fire on raw metrics, and those that these leave open."""
    kept = ncu.profile_metrics({name: Quantity(value=value) for name, value in metrics.items()})
    return {rule.id for rule in rules.firing_rules(kept)}, rules.missing_counters_by_rule(kept)


def test_the_tail_balance_and_mix_of_instructions_are_worked_out() -> None:
    float32 = {
        f"smsp__sass_thread_inst_executed_op_f{kind}_pred_on.sum.per_cycle_elapsed": 10.0
        for kind in ("add", "mul", "fma")
    }
    cycles = {"sm__cycles_active.avg": 40.0, "sm__cycles_active.max": 100.0, "launch__waves_per_multiprocessor": 1.25}
    metrics = ncu.profile_metrics({name: Quantity(value=value) for name, value in {**float32, **cycles}.items()})
    worked = {name: metrics[f"ncu.{name}"].value for name in ("unfused_share", "multiprocessor_balance", "tail_share")}
    assert worked == pytest.approx({"unfused_share": 2 / 3, "multiprocessor_balance": 0.4, "tail_share": 0.375})
    assert "ncu.fused_share" not in metrics, "the instructions were not counted"


def test_a_rule_is_left_open_only_where_no_known_condition_fails() -> None:
    fired, left_open = made(
        sm__maximum_warps_per_active_cycle_pct=40, launch__occupancy_limit_blocks=2, launch__occupancy_limit_warps=8
    )
    assert "blocks_limited" not in fired and left_open["blocks_limited"] == ("ncu.busiest",)
    assert "warps_limited" not in left_open, "the blocks are what bounds"


def test_every_rule_over_counters_says_what_to_do_where_to_read_and_whence_its_thresholds_are() -> None:
    over_counters = [
        rule for rule in rules.load_rules() if any(c.metric.startswith("ncu.") or "__" in c.metric for c in rule.when)
    ]
    assert len({rule.id for rule in over_counters}) >= 40
    for rule in over_counters:
        assert rule.action and rule.page and rule.source, rule.id
        assert all(ncu.section_of_metric(c.metric) for c in rule.when)


DEVICE = {
    "launch__sm_count": 100.0,
    "launch__grid_size": 1600.0,
    "gpc__cycles_elapsed.max": 1e6,
    "sm__cycles_active.avg": 1e6,
}


@pytest.mark.parametrize(
    ("bound", "margin", "memory", "pipe", "others"),
    [
        ("memory", 60, 90, 30, {}),
        ("compute", 45, 40, 85, {}),
        ("mixed", 3, 68, 71, {}),
        ("compute", 7, 78, 85, {}),  # the one is nearly full, the other is not
        ("latency", 20, 40, 30, {}),
        (
            "compute",
            50,
            40,
            45,
            {bottleneck.ISSUE_METRIC: 90},
        ),  # no unit is full, but the instructions are issued in nearly every cycle
        (
            "occupancy",
            20,
            5,
            80,
            {"sm__cycles_active.avg": 5e5},
        ),  # full while they work, which is half of the time: a last wave
        ("occupancy", 56, 1, 40, {"sm__cycles_active.avg": 1e5}),  # few blocks take longest
        ("latency", 58, 1, 20, {"sm__cycles_active.avg": 1e5, "launch__grid_size": 10}),  # no more blocks are there
        ("latency", 55, 1, 10, {"sm__cycles_active.avg": 5e5}),  # more is lost by waiting than by standing idle
    ],
)
def test_what_binds_is_told_by_the_units_that_are_busy_over_the_whole_kernel(
    bound: str, margin: float, memory: float, pipe: float, others: dict[str, float]
) -> None:
    raw = {**DEVICE, bottleneck.MEMORY_BUSY_METRICS[0]: memory, bottleneck.PIPE_METRIC.format("fma"): pipe, **others}
    found = bottleneck.find_bound(ncu.profile_metrics({name: Quantity(value=value) for name, value in raw.items()}))
    assert found == (bound, pytest.approx(margin))


@pytest.mark.parametrize(
    ("rule", "kind", "words"),
    [
        ("divergent_warps", "OPT", "The workload achieves an average of 7.6 threads being active per cycle."),
        ("predicated_off", "OPT", "It is reduced to 7.4 threads per warp due to predication."),
        ("multiprocessor_imbalance", "OPT", "One or more SMs have a much higher number of active cycles."),
        ("uneven_warps", "OPT", "One or more SMSPs have a much lower number of active cycles."),
        ("alu_pipe_busy", "OPT", "ALU is the highest-utilized pipeline (91.3%)."),
        ("fp64_pipe_busy", "WRN", "FP64 is the highest-utilized pipeline (91.3%)."),
        ("alu_pipe_busy", "INF", ""),  # it is busiest, which is no bottleneck
    ],
)
def test_advice_of_nvidia_is_the_counterpart_of_a_rule(rule: str, kind: str, words: str) -> None:
    said = str(ncu_reports.Advice(kind, "Rule", words or "ALU is the highest-utilized pipeline (41.3%)."))
    assert any(one.remark and one.remark.search(said) for one in rules.load_rules() if one.id == rule) == bool(words)
