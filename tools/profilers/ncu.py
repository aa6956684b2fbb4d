"""Hardware counters of one call of a GPU kernel, through Nsight Compute.

Metrics keep ncu's names and units, verbatim. What is worked out from them is named `ncu.*`, and is a share, a ratio or
a count, so that rules need no number of any one device. The times that ncu sees are discarded (D5): only the judge
times.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.artifacts import Candidate, Profile, Quantity, Remark, Task, Workload
from tools.executors.base import Executor, Job, Limits, Needs
from tools.executors.harness_job import harness_files
from tools.languages.base import Language
from tools.profilers import reports
from tools.profilers.base import Profiler
from tools.profilers.reports import DURATION, Launch
from tools.store.records import Blobs

PROGRAM = "harness/device/ncu_target.py"
PARAMETERS = Path("/proc/driver/nvidia/params")
PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda/nsight-compute*/ncu")
LIMIT_S = 300.0
SEED = 0
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
STALLS = (
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
LIMITS = ("registers", "shared_mem", "blocks", "warps", "barriers")
PIPE = "sm__inst_executed_pipe_{}.avg.pct_of_peak_sustained_active"
ARITHMETIC = ("alu", "fma", "fp64", "xu")
"""Pipes that compute; the others move operands or direct the flow."""
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
BUSY_MEMORY = (
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
)
ISSUED = "smsp__issue_active.avg.pct_of_peak_sustained_active"
BUSY_COMPUTING = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
FLOAT = "smsp__sass_thread_inst_executed_op_f{}_pred_on.sum.per_cycle_elapsed"
LANES, LANES_ON = (f"smsp__thread_inst_executed{on}_per_inst_executed.ratio" for on in ("", "_pred_on"))
METRICS = (
    DURATION,
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    ISSUED,
    "sm__inst_executed.avg.per_cycle_active",
    "smsp__inst_executed.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
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
    *(PIPE.format(pipe) for pipe in (*ARITHMETIC, "lsu", "tex")),
    *(FLOAT.format(kind) for kind in ("add", "mul", "fma")),
    LANES,
    LANES_ON,
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
    LATENCY,
    *(STALL.format(reason) for reason in STALLS),
    *(f"launch__occupancy_limit_{what}" for what in LIMITS),
)
"""What is asked for beside the sections, and all that a profile keeps of the thousands that ncu can tell."""
BY_SECTION = ("launch__", "derived__")
"""What only comes with a section, and is refused when asked for by name."""


class Ncu(Profiler):
    """Nsight Compute's counters, with its own advice as remarks."""

    name = "ncu"
    on_device = True

    def missing(self, language: Language) -> str | None:
        """None when counters of `language`'s kernels can be read here, else what to install or to allow."""
        if language.device != "cuda":
            return f"ncu counts on NVIDIA GPUs; {language.name} kernels run elsewhere"
        if program() is None:
            return (
                "ncu was not found; install Nsight Compute (it comes with the CUDA toolkit); what follows rests on "
                "static evidence"
            )
        return refused()

    def profile(
        self,
        task: Task,
        candidate: Candidate,
        library: str,
        workload: Workload,
        language: Language,
        executor: Executor,
        blobs: Blobs,
    ) -> tuple[Profile, dict[str, str]]:
        """Count one call at `workload`. A tool that fails leaves a profile without metrics that says so, and the run
        goes on."""
        ncu = program() or self.name
        asked = {
            "dims": workload.dims,
            "seed": SEED,
            "ncu": ncu,
            "metrics": [name for name in METRICS if not name.startswith(BY_SECTION)],
        }
        asked["precision"] = task.numeric.precision
        asked["arguments"] = [a.model_dump(mode="json", include={"name", "dtype"}) for a in task.arguments]
        job = Job(
            files={
                **harness_files(blobs),
                "reference.py": blobs.put(task.reference),
                language.build_output: library,
                "launch.json": blobs.put(json.dumps(asked)),
            },
            argv=("{python}", PROGRAM),
            limits=Limits(wall_s=LIMIT_S),
            needs=Needs(device=language.device, exclusive=True),
            results=("report.ncu-rep", "raw.csv", "details.csv", "sandbox.json"),
        )
        finished = executor.run(job)
        raw = {name: sha for name, sha in finished.files.items() if name != "stdout.txt"}
        seen = (
            launches(blobs.text(raw["raw.csv"]), blobs.text(raw["details.csv"]))
            if {"raw.csv", "details.csv"} <= raw.keys()
            else ()
        )
        if not seen:
            said = [
                line
                for line in blobs.text(finished.files["stderr.txt"]).splitlines()
                if "ERROR" in line or "rror:" in line
            ]
            why = (
                " ".join(said[0].split())
                if said
                else "it counted no kernel"
                if raw.keys() >= {"raw.csv"}
                else "it gave no reason"
            )
            notes = (Remark(tool=self.name, line=0, kind="note", text=f"ncu could not count: {why[:300]}"),)
            return Profile(
                tool=self.name, launch=workload.name, source=candidate.id, binary=library, metrics={}, remarks=notes
            ), raw
        main = longest(seen)
        others = f" and {len(seen) - 1} more" if len(seen) > 1 else ""
        remarks = tuple(Remark(tool=self.name, line=0, kind="note", text=str(said)) for said in main.advice)
        return Profile(
            tool=self.name,
            launch=f"{workload.name}: {main.kernel}{others}",
            source=candidate.id,
            binary=library,
            metrics=kept(main.metrics, len(seen)),
            remarks=remarks,
        ), raw


def program() -> str | None:
    """Path of ncu, or None."""
    found = shutil.which("ncu")
    if found:
        return found
    return next(
        (str(path) for place in PLACES for path in sorted(Path("/").glob(place.lstrip("/")), reverse=True)), None
    )


def refused() -> str | None:
    """None where this user may read counters, or nobody can tell; else one sentence on how to allow it."""
    try:
        admin_only = "RmProfilingAdminOnly: 1" in PARAMETERS.read_text()
    except OSError:
        return None
    if admin_only and os.geteuid() != 0:
        return (
            "the driver lets only root read counters; load it with `options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0` (a file in "
            "/etc/modprobe.d, then reboot), or run as root; what follows rests on static evidence"
        )
    return None


def launches(raw: str, details: str = "") -> tuple[Launch, ...]:
    """The kernels of a report, from ncu's `--csv --page raw` and, for its advice, `--page details`. Pure."""
    return reports.merged((*reports.parse(raw), *reports.parse(details)))


def sections(details: str) -> dict[str, tuple[str, ...]]:
    """Section of a report -> what it says of each kernel, from ncu's `--csv --page details`. Pure."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in csv.DictReader(line for line in details.splitlines() if not line.startswith("==")):
        if row.get("Metric Name"):
            kernels = found.setdefault(row["Section Name"], {})
            kernels.setdefault(row["Kernel Name"], []).append(
                f"{row['Metric Name']} {row['Metric Value']} {row['Metric Unit']}".strip()
            )
    found.pop("Command line profiler metrics", None)
    return {
        name: tuple(f"{kernel}: {'; '.join(rows)}" for kernel, rows in kernels.items())
        for name, kernels in found.items()
    }


def longest(found: Sequence[Launch]) -> Launch:
    """The kernel that takes most of the call."""
    return reports.longest_first(found)[0]


def kept(metrics: Mapping[str, Quantity], kernels: int = 1) -> dict[str, Quantity]:
    """The metrics that a profile keeps, without times, and what follows from them. Pure."""
    chosen = {name: metrics[name] for name in METRICS if name in metrics and name != DURATION}
    return {**chosen, **_derived(metrics), "ncu.kernels": Quantity(value=float(kernels), unit="kernels")}


def _derived(metrics: Mapping[str, Quantity]) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}

    def value(name: str) -> float | None:
        return metrics[name].value if name in metrics else None

    def put(name: str, part: float | None, whole: float | None, unit: str = "fraction") -> None:
        if part is not None and whole:
            found[f"ncu.{name}"] = Quantity(value=part / whole, unit=unit)

    latency = value(LATENCY)
    for reason in STALLS:
        put(f"stall_share.{reason}", value(STALL.format(reason)), latency)
    for kind in ("ld", "st"):
        sector = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{kind}"
        requests = value(f"l1tex__t_requests_pipe_lsu_mem_global_op_{kind}.sum")
        if requests:
            put(f"sector_use.{kind}", value(f"{sector}.ratio"), value(f"{sector}.max_rate"))
        put(
            f"sectors_per_request.{kind}",
            value(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum"),
            requests,
            "sectors",
        )
        put(f"request_share.{kind}", requests, value("smsp__inst_executed.sum"))
        rate = value(f"{sector}.max_rate")
        sectors = value(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum")
        if rate is not None and sectors is not None:
            found[f"ncu.global_bytes.{kind}"] = Quantity(value=rate * sectors, unit="byte")
    moved = [value(f"dram__bytes_{way}.sum") for way in ("read", "write")]
    if None not in moved:
        found["ncu.dram_bytes"] = Quantity(value=sum(part or 0.0 for part in moved), unit="byte")
    put("blocks_per_multiprocessor", value("launch__grid_size"), value("launch__sm_count"), "blocks")
    conflicts, wavefronts = (
        value("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
        value("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
    )
    put("bank_conflict_share", conflicts, wavefronts)
    spilled = [value(f"smsp__sass_inst_executed_op_local_{kind}.sum") for kind in ("ld", "st")]
    put(
        "local_share",
        sum(part or 0.0 for part in spilled) if None not in spilled else None,
        value("smsp__inst_executed.sum"),
    )
    limits = {what: limit for what in LIMITS if (limit := value(f"launch__occupancy_limit_{what}")) is not None}
    if limits:
        least = min(limits.values())
        for what, limit in limits.items():
            # 1 where this is what bounds the blocks on a multiprocessor.
            put(f"occupancy_limited_by.{what}", least, limit, "ratio")
    found |= _balance(value) | _mix(value)
    put(
        "achieved_over_possible_occupancy",
        value("sm__warps_active.avg.pct_of_peak_sustained_active"),
        value("sm__maximum_warps_per_active_cycle_pct"),
    )
    return found


def _balance(value: Callable[[str], float | None]) -> dict[str, Quantity]:
    """How full the device is, and how evenly its work lies."""
    found: dict[str, Quantity] = {}
    busy = [share for name in (*BUSY_MEMORY, BUSY_COMPUTING) if (share := value(name)) is not None]
    if busy:
        found["ncu.busiest"] = Quantity(value=max(busy), unit="%")
    average, most = value("sm__cycles_active.avg"), value("sm__cycles_active.max")
    if average is not None and most:
        found["ncu.multiprocessor_balance"] = Quantity(value=average / most, unit="fraction")
    waves = value("launch__waves_per_multiprocessor")
    if waves:
        # Less than one wave has no tail; that the grid is too small is another finding.
        found["ncu.tail_share"] = Quantity(value=1 - waves / math.ceil(waves) if waves > 1 else 0.0, unit="fraction")
    return found


def _mix(value: Callable[[str], float | None]) -> dict[str, Quantity]:
    """Shares of kinds of instructions, each where all that it is made of was counted."""
    found: dict[str, Quantity] = {}

    def put(name: str, parts: Sequence[float | None], whole: Sequence[float | None], unit: str = "fraction") -> None:
        known = [part for part in parts if part is not None]
        total = [part for part in whole if part is not None]
        divisor = sum(total, 0.0)
        if len(known) == len(parts) and len(total) == len(whole) and divisor:
            found[f"ncu.{name}"] = Quantity(value=sum(known) / divisor, unit=unit)

    add, multiply, fused = (value(FLOAT.format(kind)) for kind in ("add", "mul", "fma"))
    pairs = min(add, multiply) if add is not None and multiply is not None else None
    put("unfused_share", (pairs, pairs), (add, multiply, fused))
    instructions, cycles = value("smsp__inst_executed.sum"), value("gpc__cycles_elapsed.max")
    lanes = value(LANES)
    if fused is not None and cycles and instructions and lanes:
        put("fused_share", (fused * cycles,), (instructions * lanes,))
    put("predicated_on_share", (value(LANES_ON),), (lanes,))
    requests, sectors = (
        [value(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{kind}.sum") for kind in ("atom", "red")]
        for what in ("requests", "sectors")
    )
    put("atomic_share", requests, (instructions,))
    put("sectors_per_request.atomic", sectors, requests, "sectors")
    put("shared_atomic_share", (value("smsp__inst_executed_op_shared_atom.sum"),), (instructions,))
    put("shared_load_share", (value("smsp__sass_inst_executed_op_shared_ld.sum"),), (instructions,))
    missed = value("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum")
    sector = value("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.max_rate")
    if missed is not None and sector:
        put("l2_reads_over_dram", (missed * sector,), (value("dram__bytes_read.sum"),), "ratio")
    return found


_SECTIONS = (
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


def section(metric: str) -> str:
    """The section of ncu that a rule's `metric` comes with: what to collect where it is missing. Pure."""
    return next(name for name, pattern in _SECTIONS if re.match(pattern, metric))
