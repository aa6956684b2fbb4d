"""Read reports of Nsight Compute as launches: the raw and the details page as CSV, the details page as text, and
.ncu-rep files.

Metrics have the names of the raw page; labels of the details page are translated where they mean the same counter.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.artifacts import Quantity
from tools.errors import SettingsError

DURATION_METRIC = "gpu__time_duration.sum"
DURATION_TOLERANCE = 0.02
"""Largest relative difference between the durations of one launch on two pages, which round differently."""
METRIC_BY_LABEL = {
    "Duration": DURATION_METRIC,
    "DRAM Throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2 Cache Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "Local Memory Spilling Requests": "derived__local_spilling_requests",
    "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "Avg. Not Predicated Off Threads Per Warp": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "Executed Instructions": "smsp__inst_executed.sum",
    "Block Size": "launch__block_size",
    "Grid Size": "launch__grid_size",
    "Registers Per Thread": "launch__registers_per_thread",
    "# SMs": "launch__sm_count",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "Block Limit Barriers": "launch__occupancy_limit_barriers",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "Average SM Active Cycles": "sm__cycles_active.avg",
}
"""Metrics by label of the details page. `Memory Throughput` is missing: it means two metrics, by its unit."""
MEMORY_THROUGHPUT_PERCENT = (
    "Memory Throughput",
    "%",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
)
SHARED_MEMORY_LABELS = (
    "Driver Shared Memory Per Block",
    "Dynamic Shared Memory Per Block",
    "Static Shared Memory Per Block",
)
_FACTOR_BY_PREFIX = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "n": 1e-9, "u": 1e-6, "m": 1e-3}
_SCALED_UNITS = (
    "byte",
    "byte/second",
    "byte/s",
    "second",
    "s",
    "hz",
    "byte/block",
    "byte/cycle",
    "inst",
    "sector",
    "cycle",
)
_KERNEL_LINE = re.compile(r"^  (?P<name>\S.*?) \((?P<grid>[\d, ]+)\)x\((?P<block>[\d, ]+)\)(?:, Context|$)")
_ADVICE_LINE = re.compile(r"^ {4}(OPT|INF|WRN) +(?:Est\. (Local )?Speedup: ([\d.]+)% *$)?(.*)$")


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice that a rule of ncu gives on a launch."""

    kind: str
    """OPT (optimise), WRN (warning) or INF (information)."""
    rule: str
    """Name of ncu's rule; the text page gives the name of the section instead."""
    text: str
    estimated_speedup: float | None = None
    """The speed-up that ncu estimates, percent."""
    scope: str = ""
    """`global`: the estimate is for the kernel; `local`: for one unit of the device."""

    def __str__(self) -> str:
        """The advice as the text of a remark."""
        estimate = (
            "" if self.estimated_speedup is None else f" (ncu estimates {self.estimated_speedup:g} % {self.scope})"
        )
        return f"{self.kind} {self.rule}: {self.text}{estimate}"


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """One launch of a kernel in a report."""

    id: str
    kernel: str
    metrics: dict[str, Quantity]
    advice: list[Advice] = field(default_factory=list)
    shape: str = ""
    """Sizes of grid and block."""

    @property
    def seconds(self) -> float:
        """Seconds by the clock of ncu, under the profiler: enough to sort launches, not a measurement. 0: unknown."""
        return self.metrics[DURATION_METRIC].value if DURATION_METRIC in self.metrics else 0.0


def read_report(path: Path, export: Callable[[Path, bytes], tuple[str, ...]]) -> tuple[ProfiledLaunch, ...]:
    """The launches of one report in any of its forms. `export` returns the pages of a .ncu-rep file as CSV.

    Raises SettingsError for a file that cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    if content[:3] == b"NVR" or path.suffix == ".ncu-rep":
        return merge_pages(launch for text in export(path, content) for launch in parse_page(text))
    launches = parse_page(content.decode("utf-8", "replace"))
    if not launches:
        raise SettingsError(
            f"{path} contains no kernel of Nsight Compute; give a .ncu-rep file, or the raw or details page (ncu "
            f"--import FILE --page raw --csv)"
        )
    return launches


def parse_page(text: str) -> tuple[ProfiledLaunch, ...]:
    """The launches of a page: raw or details as CSV, or details as text. Output of the program before the table is
    ignored. Pure."""
    at = text.find('"ID","')
    if at < 0:
        return _parse_details_text(text)
    head, _, _ = (table := text[at:]).partition("\n")
    return _parse_details_csv(table) if '"Section Name"' in head else _parse_raw_csv(table)


def merge_pages(launches: Iterable[ProfiledLaunch]) -> tuple[ProfiledLaunch, ...]:
    """The launches with the pages of each merged: same id, kernel, shape and duration. Pure."""
    merged: list[ProfiledLaunch] = []
    for launch in launches:
        index = next((n for n, other in enumerate(merged) if _are_same_launch(other, launch)), None)
        if index is None:
            merged.append(launch)
            continue
        other = merged[index]
        # The page with more metrics is the raw page, which rounds less.
        more, less = sorted((other, launch), key=lambda page: -len(page.metrics))
        advice = [
            *other.advice,
            *(one for one in launch.advice if one.text not in {known.text for known in other.advice}),
        ]
        merged[index] = replace(other, metrics={**less.metrics, **more.metrics}, advice=advice)
    return tuple(merged)


def sort_longest_first(launches: Iterable[ProfiledLaunch]) -> tuple[ProfiledLaunch, ...]:
    """The launches, the longest first."""
    return tuple(sorted(launches, key=lambda launch: -launch.seconds))


def _are_same_launch(one: ProfiledLaunch, other: ProfiledLaunch) -> bool:
    is_same_kernel = (one.id, one.kernel, one.shape) == (other.id, other.kernel, other.shape)
    # A page that was stored with its advice only has no duration.
    have_durations = one.seconds and other.seconds
    return is_same_kernel and (
        not have_durations or abs(one.seconds - other.seconds) <= DURATION_TOLERANCE * max(one.seconds, other.seconds)
    )


def _parse_raw_csv(table: str) -> tuple[ProfiledLaunch, ...]:
    lines = [row for row in csv.reader(io.StringIO(table)) if len(row) > 1]
    if len(lines) < 2:
        return ()
    names, units, *rows = lines
    found = []
    for row in rows:
        cells = dict(zip(names, row, strict=False))
        quantities = ((name, parse_quantity(text, unit)) for name, unit, text in zip(names, units, row, strict=False))
        metrics = {name: value for name, value in quantities if value is not None}
        found.append(
            ProfiledLaunch(cells.get("ID", ""), cells.get("Kernel Name", ""), metrics, shape=_grid_and_block(cells))
        )
    return tuple(found)


def _parse_details_csv(table: str) -> tuple[ProfiledLaunch, ...]:
    found: dict[str, ProfiledLaunch] = {}
    for row in csv.DictReader(io.StringIO(table)):
        launch = found.setdefault(
            row["ID"], ProfiledLaunch(row["ID"], row["Kernel Name"], {}, shape=_grid_and_block(row))
        )
        if row.get("Rule Type"):
            gain = parse_quantity(row.get("Estimated Speedup") or "", "%")
            scope = row.get("Estimated Speedup Type") or ""
            launch.advice.append(
                Advice(row["Rule Type"], row["Rule Name"], row["Rule Description"], gain.value if gain else None, scope)
            )
        else:
            _add_labelled_metric(launch.metrics, row["Metric Name"], row["Metric Unit"], row["Metric Value"])
    return tuple(found.values())


def _parse_details_text(text: str) -> tuple[ProfiledLaunch, ...]:
    found: list[ProfiledLaunch] = []
    section, in_advice = "", False  # in_advice: the previous line is part of an advice, whose text may continue
    for line in text.splitlines():
        if kernel := _KERNEL_LINE.match(line):
            found.append(
                ProfiledLaunch(
                    str(len(found)),
                    kernel["name"],
                    {},
                    shape=_grid_and_block({"Grid Size": kernel["grid"], "Block Size": kernel["block"]}),
                )
            )
        elif not found:
            continue
        elif line.startswith("    Section: "):
            section, in_advice = line.partition(": ")[2].strip(), False
        elif advice := _ADVICE_LINE.match(line):
            kind, local, gain, words = advice.groups()
            scope = "" if gain is None else "local" if local else "global"
            found[-1].advice.append(Advice(kind, section, words.strip(), float(gain) if gain else None, scope))
            in_advice = True
        elif in_advice and line.startswith(" " * 10):
            last = found[-1].advice[-1]
            found[-1].advice[-1] = replace(last, text=f"{last.text} {line.strip()}".strip())
        elif len(cells := re.split(r"\s{2,}", line.strip())) in (2, 3):
            in_advice = False
            _add_labelled_metric(found[-1].metrics, cells[0], cells[1] if len(cells) == 3 else "", cells[-1])
    return tuple(found)


def _add_labelled_metric(metrics: dict[str, Quantity], label: str, unit: str, text: str) -> None:
    # Where the label fills its column, only one space separates it from its unit.
    if label not in METRIC_BY_LABEL and label.rpartition(" ")[0] in METRIC_BY_LABEL and not unit:
        label, _, unit = label.rpartition(" ")
    value = parse_quantity(text, unit)
    name = (
        MEMORY_THROUGHPUT_PERCENT[2] if (label, unit) == MEMORY_THROUGHPUT_PERCENT[:2] else METRIC_BY_LABEL.get(label)
    )
    if value is None:
        return
    if label in SHARED_MEMORY_LABELS:
        previous = metrics.get("launch__shared_mem_per_block")
        metrics["launch__shared_mem_per_block"] = Quantity(
            value=value.value + (previous.value if previous else 0.0), unit="byte/block"
        )
    elif name is not None:
        metrics.setdefault(name, value)


def _grid_and_block(cells: Mapping[str, str]) -> str:
    return " x ".join(re.sub(r"[()\s]", "", cells.get(name, "")) for name in ("Grid Size", "Block Size"))


def parse_quantity(text: str, unit: str) -> Quantity | None:
    """A cell as a number with its unit; None: it is not a number. Units that ncu scales (Kbyte, usecond) become
    the base unit where rules compare them."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    scale, base = _FACTOR_BY_PREFIX.get(unit[:1]), unit[1:]
    if scale is not None and base in _SCALED_UNITS:
        return Quantity(value=value * scale, unit=base)
    return Quantity(value=value, unit=unit)


def select_kernels(launches: Sequence[ProfiledLaunch], name_part: str) -> tuple[ProfiledLaunch, ...]:
    """The launches of kernels whose names contain `name_part` (empty: all), the longest first. Raises SettingsError
    where there are none."""
    chosen = sort_longest_first(launch for launch in launches if name_part in launch.kernel)
    if not chosen:
        known = ", ".join(dict.fromkeys(launch.kernel for launch in sort_longest_first(launches)))
        raise SettingsError(f"the report contains no kernel named {name_part!r}; its kernels are: {known}")
    return chosen
