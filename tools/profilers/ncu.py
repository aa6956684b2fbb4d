"""The profiler for Nsight Compute: hardware counters of one call of a GPU kernel.

Metrics keep the names and units of ncu. Metrics derived from them are named `ncu.*` and are shares, ratios or counts,
so that rules need no constant of a particular device. The times that ncu measures are discarded: only the judge
measures time.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.analysis.bottleneck import (
    ARITHMETIC_PIPES,
    COMPUTE_BUSY_METRIC,
    ISSUE_METRIC,
    MEMORY_BUSY_METRICS,
    PIPE_METRIC,
    TENSOR_PIPE_METRIC,
)
from tools.artifacts import Candidate, Launch, Profile, Quantity, Remark, Task, Workload
from tools.errors import SettingsError
from tools.executors.base import Executor, Job, Limits, Needs
from tools.executors.harness_job import harness_files
from tools.executors.toolchain import Toolchain
from tools.executors.toolchain_job import read_toolchain
from tools.harness.measurement import kernel_trace
from tools.languages.base import Language
from tools.profilers import ncu_reports
from tools.profilers.base import Profiler
from tools.profilers.ncu_reports import DURATION_METRIC, ProfiledLaunch
from tools.store.blobs import Blobs

TARGET_PROGRAM = "harness/device/ncu_target.py"
COUNTERS_NEED_ROOT = (
    "the driver allows only root to read counters; load the driver with `options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0` (a file in "
    "/etc/modprobe.d, then reboot), or run as root; the diagnosis uses static evidence only"
)
TIME_LIMIT_S = 300.0
MAX_PROFILED_KERNELS = 32
"""Most launches of a call that are counted."""
INPUT_SEED = 0
STALL_METRIC = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
WARP_LATENCY_METRIC = "smsp__average_warp_latency_per_inst_issued.ratio"
STALL_REASONS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard"),
    *(
        "math_pipe_throttle",
        "membar",
        "mio_throttle",
        "misc",
        "no_instruction",
        "not_selected",
        "selected",
        "short_scoreboard",
    ),
    *("sleeping", "tex_throttle", "wait"),
)
OCCUPANCY_LIMITS = ("registers", "shared_mem", "blocks", "warps", "barriers")
FLOAT_METRIC = "smsp__sass_thread_inst_executed_op_f{}_pred_on.sum.per_cycle_elapsed"
LANES_METRIC, LANES_ON_METRIC = (f"smsp__thread_inst_executed{on}_per_inst_executed.ratio" for on in ("", "_pred_on"))
METRICS = (
    DURATION_METRIC,
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    COMPUTE_BUSY_METRIC,
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    ISSUE_METRIC,
    "sm__inst_executed.avg.per_cycle_active",
    "smsp__inst_executed.sum",
    TENSOR_PIPE_METRIC,
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.max_rate",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.max_rate",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "smsp__sass_inst_executed_op_local_ld.sum",
    "smsp__sass_inst_executed_op_local_st.sum",
    "derived__local_spilling_requests",
    *(PIPE_METRIC.format(pipe) for pipe in (*ARITHMETIC_PIPES, "lsu", "tex")),
    *(FLOAT_METRIC.format(kind) for kind in ("add", "mul", "fma")),
    LANES_METRIC,
    LANES_ON_METRIC,
    "gpc__cycles_elapsed.max",
    "sm__cycles_active.avg",
    "sm__cycles_active.max",
    "idc__request_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum",
    *(
        f"l1tex__t_{what}_pipe_lsu_mem_global_op_{kind}.sum"
        for what in ("requests", "sectors")
        for kind in ("atom", "red")
    ),
    "smsp__inst_executed_op_shared_atom.sum",
    "smsp__sass_inst_executed_op_shared_ld.sum",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block",
    "launch__grid_size",
    "launch__block_size",
    "launch__waves_per_multiprocessor",
    "launch__sm_count",
    WARP_LATENCY_METRIC,
    *(STALL_METRIC.format(reason) for reason in STALL_REASONS),
    *(f"launch__occupancy_limit_{what}" for what in OCCUPANCY_LIMITS),
)
"""Metrics that are collected beside the sections; a profile keeps only these of the thousands that ncu knows."""
TOTALS = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sector_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
)
"""Metrics that a call of several launches gets from one range replay, in which a launch finds what the ones before it
left in the caches. Rates are none of them: the time of a range holds the gaps between its launches."""
SECTION_ONLY_PREFIXES = ("launch__", "derived__")
"""Prefixes of metrics that only a section collects; ncu refuses them by name."""


class NcuProfiler(Profiler):
    """Profiles a kernel by the counters of Nsight Compute, with its advice as remarks."""

    name = "ncu"
    runs_on_device = True

    def reason_unavailable(self, language: Language, toolchain: Toolchain) -> str | None:
        """What to install or to allow before the counters can be read here; None: they can."""
        if language.device != "cuda":
            return f"ncu reads counters of NVIDIA GPUs; {language.name} kernels run on another device"
        if self.name not in toolchain.programs:
            return (
                "ncu was not found; install Nsight Compute (part of the CUDA toolkit); the diagnosis uses static "
                "evidence only"
            )
        return COUNTERS_NEED_ROOT if toolchain.counters_need_root else None

    def profile(
        self,
        task: Task,
        candidate: Candidate,
        shared_object: str,
        workload: Workload,
        language: Language,
        executor: Executor,
        blobs: Blobs,
    ) -> tuple[Profile, dict[str, str]]:
        """Read the counters of one call at `workload`. Where ncu fails, the profile has only a remark that says why."""
        request = {
            "dims": workload.dims,
            "seed": INPUT_SEED,
            "metrics": [name for name in METRICS if not name.startswith(SECTION_ONLY_PREFIXES)],
            "totals": TOTALS,
        }
        request["most"] = MAX_PROFILED_KERNELS
        request["precision"] = task.numeric.precision
        request["arguments"] = [a.model_dump(mode="json", include={"name", "dtype", "role"}) for a in task.arguments]
        job = Job(
            files={
                **harness_files(blobs),
                "reference.py": blobs.put(task.reference),
                language.build_output: shared_object,
                "launch.json": blobs.put(json.dumps(request)),
            },
            argv=("{python}", TARGET_PROGRAM),
            limits=Limits(wall_s=TIME_LIMIT_S),
            needs=Needs(device=language.device, exclusive=True),
            results=("report.ncu-rep", "raw.csv", "details.csv", "sandbox.json", "range.csv", "range.txt"),
        )
        finished = executor.run(job)
        raw = {name: sha for name, sha in finished.files.items() if name != "stdout.txt"}
        pages = {name: blobs.text(sha) for name, sha in raw.items() if name.endswith((".csv", ".txt"))}
        launches = parse_launches(pages.get("raw.csv", ""), pages.get("details.csv", ""))
        if launches:
            seen, metrics, notes = read_call(launches, pages, blobs.get(shared_object))
        else:
            lines = blobs.text(finished.files["stderr.txt"]).splitlines()
            errors = [" ".join(line.split()) for line in lines if "ERROR" in line or "rror:" in line]
            reason = (*errors, "it found no kernel" if "raw.csv" in raw else "it gave no reason")[0]
            seen, metrics, notes = (), {}, (f"ncu could not read counters: {reason[:300]}",)
        return Profile(
            tool=self.name,
            launch=workload.name,
            workload=workload.name,
            source=candidate.id,
            binary=shared_object,
            metrics=metrics,
            launches=seen,
            remarks=tuple(Remark(tool=self.name, line=0, kind="note", text=text) for text in notes),
        ), raw


def export_pages(path: Path, content: bytes, executor: Executor, blobs: Blobs) -> tuple[str, ...]:
    """The raw and the details page of a .ncu-rep file as CSV, exported by the ncu beside the device.

    Raises SettingsError if there is none, or if it cannot read the file.
    """
    pages = ("raw.csv", "details.csv")
    if NcuProfiler.name not in read_toolchain(executor, blobs).programs:
        raise SettingsError(
            f"{path} needs ncu, which was not found; install Nsight Compute, or export the report where "
            f"ncu is installed: ncu --import {path} --page raw --csv"
        )
    files = {**harness_files(blobs), "report.ncu-rep": blobs.put(content)}
    argv = ("{python}", TARGET_PROGRAM, "export")
    finished = executor.run(Job(files=files, argv=argv, limits=Limits(wall_s=TIME_LIMIT_S), results=pages))
    if finished.exit_code or not finished.files.keys() >= set(pages):
        reason = " ".join(blobs.text(finished.files["stderr.txt"]).split())[-300:]
        raise SettingsError(f"ncu could not export {path}: {reason}")
    return tuple(blobs.text(finished.files[page]) for page in pages)


def parse_launches(raw: str, details: str = "") -> tuple[ProfiledLaunch, ...]:
    """The launches of a report, from the output of `--csv --page raw` and, for the advice, `--page details`. Pure."""
    return ncu_reports.merge_pages((*ncu_reports.parse_page(raw), *ncu_reports.parse_page(details)))


def parse_sections(details: str) -> dict[str, tuple[str, ...]]:
    """Lines of metrics by section of a report, one line for each kernel, from `--csv --page details`. Pure."""
    rows_by_section: dict[str, dict[str, list[str]]] = {}
    for row in csv.DictReader(line for line in details.splitlines() if not line.startswith("==")):
        if row.get("Metric Name"):
            kernels = rows_by_section.setdefault(row["Section Name"], {})
            kernels.setdefault(row["Kernel Name"], []).append(
                f"{row['Metric Name']} {row['Metric Value']} {row['Metric Unit']}".strip()
            )
    rows_by_section.pop("Command line profiler metrics", None)
    return {
        name: tuple(f"{kernel}: {'; '.join(rows)}" for kernel, rows in kernels.items())
        for name, kernels in rows_by_section.items()
    }


def read_call(
    launches: Sequence[ProfiledLaunch], pages: Mapping[str, str], code: bytes
) -> tuple[tuple[Launch, ...], dict[str, Quantity], tuple[str, ...]]:
    """The launches of a call in order, the metrics of the whole call, and notes: what is missing, and NVIDIA's advice.

    `pages`: the texts of the job's results; `code`: the built kernel. A single launch is replayed as the call is. Pure.
    """
    whole = sum(launch.seconds for launch in launches)
    own = kernel_trace.own_kernels([one.kernel for one in launches], code.decode("latin-1"))
    seen = tuple(
        Launch(
            kernel=one.kernel,
            seconds=one.seconds,
            share=one.seconds / whole if whole else 1 / len(launches),
            own=one.kernel in own,
            metrics=profile_metrics(one.metrics),
        )
        for one in launches
    )
    metrics, notes = call_metrics(launches), list[str]()
    if len(launches) > 1:
        (found, *_) = (*ncu_reports.parse_page(pages.get("range.csv", "")), None)
        metrics |= found.metrics if found else {}
        if found is None:
            reason = " ".join(pages.get("range.txt", "").split())[:200] or "it gave no reason"
            notes.append(
                f"ncu did not replay the call as one range ({reason}): bytes of the call are sums over its launches, "
                "each of which found empty caches, and overstate what later launches read again"
            )
    if len(launches) >= MAX_PROFILED_KERNELS:
        notes += [f"only the first {len(launches)} launches of the call were counted"]
    for one, launch in zip(seen, launches, strict=True):
        notes += [f"{one.name}: {advice}" if len(seen) > 1 else str(advice) for advice in launch.advice]
    return seen, profile_metrics(metrics, len(launches)), tuple(notes)


def call_metrics(launches: Sequence[ProfiledLaunch]) -> dict[str, Quantity]:
    """The metrics of a call from those of its launches: sums of what is counted, else means by the launches' times.
    What describes one launch is that of the longest. Pure."""
    ordered, found = ncu_reports.sort_longest_first(launches), dict[str, Quantity]()
    for name in METRICS:
        held = [(launch.metrics[name], launch.seconds or 1.0) for launch in ordered if name in launch.metrics]
        if not held:
            continue
        is_count = name.endswith(".sum") or "m__cycles_" in name or "gpc__cycles_" in name
        held = held[:1] if name.startswith(SECTION_ONLY_PREFIXES) else held
        total = sum(one.value * (1.0 if is_count else seconds) for one, seconds in held)
        value = total / (1.0 if is_count else sum(seconds for _, seconds in held))
        found[name] = held[0][0].model_copy(update={"value": value})
    return found


def profile_metrics(metrics: Mapping[str, Quantity], kernels: int = 1) -> dict[str, Quantity]:
    """The metrics that a profile keeps, without times, and the metrics derived from them. Pure."""
    chosen = {name: metrics[name] for name in METRICS if name in metrics and name != DURATION_METRIC}
    return {**chosen, **_derived_metrics(metrics), "ncu.kernels": Quantity(value=float(kernels), unit="kernels")}


def _derived_metrics(metrics: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """All metrics `ncu.*` whose counters were collected."""
    derived: dict[str, Quantity] = {}

    def value(name: str) -> float | None:
        return metrics[name].value if name in metrics else None

    def add_ratio(name: str, part: float | None, whole: float | None, unit: str = "fraction") -> None:
        if part is not None and whole:
            derived[f"ncu.{name}"] = Quantity(value=part / whole, unit=unit)

    latency = value(WARP_LATENCY_METRIC)
    for reason in STALL_REASONS:
        add_ratio(f"stall_share.{reason}", value(STALL_METRIC.format(reason)), latency)
    for kind in ("ld", "st"):
        sector = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{kind}"
        requests = value(f"l1tex__t_requests_pipe_lsu_mem_global_op_{kind}.sum")
        if requests:
            add_ratio(f"sector_use.{kind}", value(f"{sector}.ratio"), value(f"{sector}.max_rate"))
        add_ratio(
            f"sectors_per_request.{kind}",
            value(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum"),
            requests,
            "sectors",
        )
        add_ratio(f"request_share.{kind}", requests, value("smsp__inst_executed.sum"))
        rate = value(f"{sector}.max_rate")
        sectors = value(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum")
        if rate is not None and sectors is not None:
            derived[f"ncu.global_bytes.{kind}"] = Quantity(value=rate * sectors, unit="byte")
    transferred = [value(f"dram__bytes_{way}.sum") for way in ("read", "write")]
    if None not in transferred:
        derived["ncu.dram_bytes"] = Quantity(value=sum(part or 0.0 for part in transferred), unit="byte")
    add_ratio("blocks_per_multiprocessor", value("launch__grid_size"), value("launch__sm_count"), "blocks")
    conflicts, wavefronts = (
        value("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
        value("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
    )
    add_ratio("bank_conflict_share", conflicts, wavefronts)
    spilled = [value(f"smsp__sass_inst_executed_op_local_{kind}.sum") for kind in ("ld", "st")]
    add_ratio(
        "local_share",
        sum(part or 0.0 for part in spilled) if None not in spilled else None,
        value("smsp__inst_executed.sum"),
    )
    limits = {
        what: limit for what in OCCUPANCY_LIMITS if (limit := value(f"launch__occupancy_limit_{what}")) is not None
    }
    if limits:
        least = min(limits.values())
        for what, limit in limits.items():
            # 1 where this resource limits the number of blocks on a multiprocessor.
            add_ratio(f"occupancy_limited_by.{what}", least, limit, "ratio")
    derived |= _balance_metrics(value) | _instruction_mix_metrics(value)
    add_ratio(
        "achieved_over_possible_occupancy",
        value("sm__warps_active.avg.pct_of_peak_sustained_active"),
        value("sm__maximum_warps_per_active_cycle_pct"),
    )
    return derived


def _balance_metrics(value: Callable[[str], float | None]) -> dict[str, Quantity]:
    """How busy the device is and how evenly its work is distributed."""
    balance: dict[str, Quantity] = {}
    busy = [share for name in (*MEMORY_BUSY_METRICS, COMPUTE_BUSY_METRIC) if (share := value(name)) is not None]
    if busy:
        balance["ncu.busiest"] = Quantity(value=max(busy), unit="%")
    average, most = value("sm__cycles_active.avg"), value("sm__cycles_active.max")
    if average is not None and most:
        balance["ncu.multiprocessor_balance"] = Quantity(value=average / most, unit="fraction")
    waves = value("launch__waves_per_multiprocessor")
    if waves:
        # Less than one wave has no tail; a grid that is too small is a finding of its own.
        balance["ncu.tail_share"] = Quantity(value=1 - waves / math.ceil(waves) if waves > 1 else 0.0, unit="fraction")
    return balance


def _instruction_mix_metrics(value: Callable[[str], float | None]) -> dict[str, Quantity]:
    """Shares of kinds of instructions, each where all of its counters were collected."""
    mix: dict[str, Quantity] = {}

    def add_share(
        name: str, parts: Sequence[float | None], whole: Sequence[float | None], unit: str = "fraction"
    ) -> None:
        known = [part for part in parts if part is not None]
        total = [part for part in whole if part is not None]
        divisor = sum(total, 0.0)
        if len(known) == len(parts) and len(total) == len(whole) and divisor:
            mix[f"ncu.{name}"] = Quantity(value=sum(known) / divisor, unit=unit)

    add, multiply, fused = (value(FLOAT_METRIC.format(kind)) for kind in ("add", "mul", "fma"))
    pairs = min(add, multiply) if add is not None and multiply is not None else None
    add_share("unfused_share", (pairs, pairs), (add, multiply, fused))
    instructions, cycles = value("smsp__inst_executed.sum"), value("gpc__cycles_elapsed.max")
    lanes = value(LANES_METRIC)
    if fused is not None and cycles and instructions and lanes:
        add_share("fused_share", (fused * cycles,), (instructions * lanes,))
    add_share("predicated_on_share", (value(LANES_ON_METRIC),), (lanes,))
    requests, sectors = (
        [value(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{kind}.sum") for kind in ("atom", "red")]
        for what in ("requests", "sectors")
    )
    add_share("atomic_share", requests, (instructions,))
    add_share("sectors_per_request.atomic", sectors, requests, "sectors")
    add_share("shared_atomic_share", (value("smsp__inst_executed_op_shared_atom.sum"),), (instructions,))
    add_share("shared_load_share", (value("smsp__sass_inst_executed_op_shared_ld.sum"),), (instructions,))
    missed = value("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum")
    sector = value("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.max_rate")
    if missed is not None and sector:
        add_share("l2_reads_over_dram", (missed * sector,), (value("dram__bytes_read.sum"),), "ratio")
    return mix


_SECTION_PATTERNS = (
    ("WarpStateStats", r"ncu\.stall_share|smsp__average_warp|smsp__thread_inst|ncu\.predicated"),
    ("Occupancy", r"ncu\.occupancy|ncu\.achieved|sm__maximum_warps|sm__warps_active"),
    ("LaunchStats", r"launch__|ncu\.blocks_per|ncu\.tail"),
    ("ComputeWorkloadAnalysis", r"sm__inst_executed|sm__pipe"),
    ("WorkloadDistribution", r"ncu\.multiprocessor_balance|sm__cycles_active"),
    ("SpeedOfLight_RooflineChart", r"ncu\.(unfused|fused)_share"),
    ("SchedulerStats", r"smsp__issue_active"),
    ("InstructionStats", r"smsp__inst_executed\.sum"),
    ("MemoryWorkloadAnalysis", r"\w+hit_rate|derived__local"),
    ("SpeedOfLight", r"\w+throughput|ncu\.busiest|gpc__cycles"),
    ("MemoryWorkloadAnalysis_Tables", r""),
)


def section_of_metric(metric: str) -> str:
    """The section of ncu that collects a rule's `metric`. Pure."""
    return next(name for name, pattern in _SECTION_PATTERNS if re.match(pattern, metric))
