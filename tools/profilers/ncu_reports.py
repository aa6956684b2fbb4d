"""What people have of Nsight Compute, read as launches: the raw and the details page as CSV, the details page as text,
and .ncu-rep.

Names of metrics are those of the raw page; the details page's labels are led back to them where they name one and the
same counter.
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.artifacts import Quantity
from tools.errors import SettingsError

DURATION_METRIC = "gpu__time_duration.sum"
DURATION_TOLERANCE = 0.02
"""Durations of one launch differ by no more than this between two pages, which round differently."""
EXPORT_TIMEOUT_S = 120
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
"""Label of the details page -> metric. `Memory Throughput` is two of them: in percent and in bytes a second."""
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
    """What ncu's own rules say of a launch."""

    kind: str
    """OPT (do something), WRN (look), INF."""
    rule: str
    """Its rule's name; the page as text names the section instead."""
    text: str
    gain: float | None = None
    """Speed-up that it estimates, percent."""
    scope: str = ""
    """`global`: of the kernel; `local`: of the unit that is spoken of."""

    def __str__(self) -> str:
        """As a remark."""
        gain = "" if self.gain is None else f" (ncu estimates {self.gain:g} % {self.scope})"
        return f"{self.kind} {self.rule}: {self.text}{gain}"


@dataclass(frozen=True, slots=True)
class ProfiledLaunch:
    """One launch of a kernel."""

    id: str
    kernel: str
    metrics: dict[str, Quantity]
    advice: list[Advice] = field(default_factory=list)
    shape: str = ""
    """Grid and block."""

    @property
    def seconds(self) -> float:
        """By ncu's clock, under the profiler: good for an order, no measurement. 0: not told."""
        return self.metrics[DURATION_METRIC].value if DURATION_METRIC in self.metrics else 0.0


def read_report(path: Path, ncu: str | None) -> tuple[ProfiledLaunch, ...]:
    """The launches of one file, whichever of its forms it has. `ncu`: the program, which .ncu-rep needs.

    Raises SettingsError for a file that cannot be read, and says what to do.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    if content[:3] == b"NVR" or path.suffix == ".ncu-rep":
        return _export_and_read(path, ncu)
    found = parse_page(content.decode("utf-8", "replace"))
    if not found:
        raise SettingsError(
            f"{path} holds no kernel of Nsight Compute; give .ncu-rep, or the raw or details page (ncu --import FILE "
            f"--page raw --csv)"
        )
    return found


def parse_page(text: str) -> tuple[ProfiledLaunch, ...]:
    """The launches of a page: raw or details as CSV, or details as text. What a program printed before the table is
    passed over. Pure."""
    at = text.find('"ID","')
    if at < 0:
        return _parse_details_text(text)
    head, _, _ = (table := text[at:]).partition("\n")
    return _parse_details_csv(table) if '"Section Name"' in head else _parse_raw_csv(table)


def merge_pages(found: Iterable[ProfiledLaunch]) -> tuple[ProfiledLaunch, ...]:
    """Pages of one launch as one: the same place in the report, kernel, shape and duration. Pure."""
    whole: list[ProfiledLaunch] = []
    for launch in found:
        twin = next((n for n, other in enumerate(whole) if _are_same_launch(other, launch)), None)
        if twin is None:
            whole.append(launch)
            continue
        other = whole[twin]
        # The page that tells more is the raw one, which rounds less.
        more, less = sorted((other, launch), key=lambda page: -len(page.metrics))
        advice = [
            *other.advice,
            *(said for said in launch.advice if said.text not in {known.text for known in other.advice}),
        ]
        whole[twin] = replace(other, metrics={**less.metrics, **more.metrics}, advice=advice)
    return tuple(whole)


def sort_longest_first(found: Iterable[ProfiledLaunch]) -> tuple[ProfiledLaunch, ...]:
    """Launches by their time."""
    return tuple(sorted(found, key=lambda launch: -launch.seconds))


def _are_same_launch(one: ProfiledLaunch, other: ProfiledLaunch) -> bool:
    alike = (one.id, one.kernel, one.shape) == (other.id, other.kernel, other.shape)
    # A page of which only the advice was kept has no duration.
    known = one.seconds and other.seconds
    return alike and (
        not known or abs(one.seconds - other.seconds) <= DURATION_TOLERANCE * max(one.seconds, other.seconds)
    )


def _export_and_read(path: Path, ncu: str | None) -> tuple[ProfiledLaunch, ...]:
    if ncu is None:
        raise SettingsError(
            f"{path} needs ncu, which was not found; install Nsight Compute, or export it where it is: ncu --import "
            f"{path} --page raw --csv"
        )
    found: list[ProfiledLaunch] = []
    for page in ("raw", "details"):
        try:
            argv = [ncu, "--import", str(path), "--csv", "--page", page]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=EXPORT_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SettingsError(f"{ncu} could not export {path}: {error}") from error
        if done.returncode:
            raise SettingsError(
                f"{ncu} could not export {path}: {' '.join((done.stderr or done.stdout).split())[:300]}"
            )
        found += parse_page(done.stdout)
    return merge_pages(found)


def _parse_raw_csv(table: str) -> tuple[ProfiledLaunch, ...]:
    lines = [row for row in csv.reader(io.StringIO(table)) if len(row) > 1]
    if len(lines) < 2:
        return ()
    names, units, *rows = lines
    found = []
    for row in rows:
        cells = dict(zip(names, row, strict=False))
        read_ = ((name, parse_quantity(text, unit)) for name, unit, text in zip(names, units, row, strict=False))
        metrics = {name: value for name, value in read_ if value is not None}
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
    section, in_advice = "", False
    """`told`: the line before belongs to an advice, whose text may go on."""
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
    # Where a column is full, one space alone parts the label from its unit.
    if label not in METRIC_BY_LABEL and label.rpartition(" ")[0] in METRIC_BY_LABEL and not unit:
        label, _, unit = label.rpartition(" ")
    value = parse_quantity(text, unit)
    name = (
        MEMORY_THROUGHPUT_PERCENT[2] if (label, unit) == MEMORY_THROUGHPUT_PERCENT[:2] else METRIC_BY_LABEL.get(label)
    )
    if value is None:
        return
    if label in SHARED_MEMORY_LABELS:
        before = metrics.get("launch__shared_mem_per_block")
        metrics["launch__shared_mem_per_block"] = Quantity(
            value=value.value + (before.value if before else 0.0), unit="byte/block"
        )
    elif name is not None:
        metrics.setdefault(name, value)


def _grid_and_block(cells: Mapping[str, str]) -> str:
    return " x ".join(re.sub(r"[()\s]", "", cells.get(name, "")) for name in ("Grid Size", "Block Size"))


def parse_quantity(text: str, unit: str) -> Quantity | None:
    """A cell as a number; ncu groups digits by commas and scales units, which is undone for those that rules
    compare."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    scale, base = _FACTOR_BY_PREFIX.get(unit[:1]), unit[1:]
    if scale is not None and base in _SCALED_UNITS:
        return Quantity(value=value * scale, unit=base)
    return Quantity(value=value, unit=unit)


def select_kernels(found: Sequence[ProfiledLaunch], named: str) -> tuple[ProfiledLaunch, ...]:
    """Those whose name contains `named`, the longest first; all where it is empty. Raises SettingsError where none
    does."""
    chosen = sort_longest_first(launch for launch in found if named in launch.kernel)
    if not chosen:
        known = ", ".join(dict.fromkeys(launch.kernel for launch in sort_longest_first(found)))
        raise SettingsError(f"no kernel of the report is called {named!r}; there are: {known}")
    return chosen
