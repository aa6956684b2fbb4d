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

DURATION = "gpu__time_duration.sum"
SAME = 0.02
"""Durations of one launch differ by no more than this between two pages, which round differently."""
EXPORT_S = 120
LABELS = {
    "Duration": DURATION,
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
BUSY = ("Memory Throughput", "%", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed")
SHARED = ("Driver Shared Memory Per Block", "Dynamic Shared Memory Per Block", "Static Shared Memory Per Block")
_SCALES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "n": 1e-9, "u": 1e-6, "m": 1e-3}
_BASES = ("byte", "byte/second", "byte/s", "second", "s", "hz", "byte/block", "byte/cycle", "inst", "sector", "cycle")
_KERNEL = re.compile(r"^  (?P<name>\S.*?) \((?P<grid>[\d, ]+)\)x\((?P<block>[\d, ]+)\)(?:, Context|$)")
_ADVICE = re.compile(r"^ {4}(OPT|INF|WRN) +(?:Est\. (Local )?Speedup: ([\d.]+)% *$)?(.*)$")


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
class Launch:
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
        return self.metrics[DURATION].value if DURATION in self.metrics else 0.0


def read(path: Path, ncu: str | None) -> tuple[Launch, ...]:
    """The launches of one file, whichever of its forms it has. `ncu`: the program, which .ncu-rep needs.

    Raises SettingsError for a file that cannot be read, and says what to do.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    if content[:3] == b"NVR" or path.suffix == ".ncu-rep":
        return _exported(path, ncu)
    found = parse(content.decode("utf-8", "replace"))
    if not found:
        raise SettingsError(
            f"{path} holds no kernel of Nsight Compute; give .ncu-rep, or the raw or details page (ncu --import FILE "
            f"--page raw --csv)"
        )
    return found


def parse(text: str) -> tuple[Launch, ...]:
    """The launches of a page: raw or details as CSV, or details as text. What a program printed before the table is
    passed over. Pure."""
    at = text.find('"ID","')
    if at < 0:
        return _text(text)
    head, _, _ = (table := text[at:]).partition("\n")
    return _details(table) if '"Section Name"' in head else _raw(table)


def merged(found: Iterable[Launch]) -> tuple[Launch, ...]:
    """Pages of one launch as one: the same place in the report, kernel, shape and duration. Pure."""
    whole: list[Launch] = []
    for launch in found:
        twin = next((n for n, other in enumerate(whole) if _same(other, launch)), None)
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


def longest_first(found: Iterable[Launch]) -> tuple[Launch, ...]:
    """Launches by their time."""
    return tuple(sorted(found, key=lambda launch: -launch.seconds))


def _same(one: Launch, other: Launch) -> bool:
    alike = (one.id, one.kernel, one.shape) == (other.id, other.kernel, other.shape)
    # A page of which only the advice was kept has no duration.
    known = one.seconds and other.seconds
    return alike and (not known or abs(one.seconds - other.seconds) <= SAME * max(one.seconds, other.seconds))


def _exported(path: Path, ncu: str | None) -> tuple[Launch, ...]:
    if ncu is None:
        raise SettingsError(
            f"{path} needs ncu, which was not found; install Nsight Compute, or export it where it is: ncu --import "
            f"{path} --page raw --csv"
        )
    found: list[Launch] = []
    for page in ("raw", "details"):
        try:
            argv = [ncu, "--import", str(path), "--csv", "--page", page]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=EXPORT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SettingsError(f"{ncu} could not export {path}: {error}") from error
        if done.returncode:
            raise SettingsError(
                f"{ncu} could not export {path}: {' '.join((done.stderr or done.stdout).split())[:300]}"
            )
        found += parse(done.stdout)
    return merged(found)


def _raw(table: str) -> tuple[Launch, ...]:
    lines = [row for row in csv.reader(io.StringIO(table)) if len(row) > 1]
    if len(lines) < 2:
        return ()
    names, units, *rows = lines
    found = []
    for row in rows:
        cells = dict(zip(names, row, strict=False))
        read_ = ((name, quantity(text, unit)) for name, unit, text in zip(names, units, row, strict=False))
        metrics = {name: value for name, value in read_ if value is not None}
        found.append(Launch(cells.get("ID", ""), cells.get("Kernel Name", ""), metrics, shape=_shape(cells)))
    return tuple(found)


def _details(table: str) -> tuple[Launch, ...]:
    found: dict[str, Launch] = {}
    for row in csv.DictReader(io.StringIO(table)):
        launch = found.setdefault(row["ID"], Launch(row["ID"], row["Kernel Name"], {}, shape=_shape(row)))
        if row.get("Rule Type"):
            gain = quantity(row.get("Estimated Speedup") or "", "%")
            scope = row.get("Estimated Speedup Type") or ""
            launch.advice.append(
                Advice(row["Rule Type"], row["Rule Name"], row["Rule Description"], gain.value if gain else None, scope)
            )
        else:
            _labelled(launch.metrics, row["Metric Name"], row["Metric Unit"], row["Metric Value"])
    return tuple(found.values())


def _text(text: str) -> tuple[Launch, ...]:
    found: list[Launch] = []
    section, told = "", False
    """`told`: the line before belongs to an advice, whose text may go on."""
    for line in text.splitlines():
        if kernel := _KERNEL.match(line):
            found.append(
                Launch(
                    str(len(found)),
                    kernel["name"],
                    {},
                    shape=_shape({"Grid Size": kernel["grid"], "Block Size": kernel["block"]}),
                )
            )
        elif not found:
            continue
        elif line.startswith("    Section: "):
            section, told = line.partition(": ")[2].strip(), False
        elif advice := _ADVICE.match(line):
            kind, local, gain, words = advice.groups()
            scope = "" if gain is None else "local" if local else "global"
            found[-1].advice.append(Advice(kind, section, words.strip(), float(gain) if gain else None, scope))
            told = True
        elif told and line.startswith(" " * 10):
            last = found[-1].advice[-1]
            found[-1].advice[-1] = replace(last, text=f"{last.text} {line.strip()}".strip())
        elif len(cells := re.split(r"\s{2,}", line.strip())) in (2, 3):
            told = False
            _labelled(found[-1].metrics, cells[0], cells[1] if len(cells) == 3 else "", cells[-1])
    return tuple(found)


def _labelled(metrics: dict[str, Quantity], label: str, unit: str, text: str) -> None:
    # Where a column is full, one space alone parts the label from its unit.
    if label not in LABELS and label.rpartition(" ")[0] in LABELS and not unit:
        label, _, unit = label.rpartition(" ")
    value = quantity(text, unit)
    name = BUSY[2] if (label, unit) == BUSY[:2] else LABELS.get(label)
    if value is None:
        return
    if label in SHARED:
        before = metrics.get("launch__shared_mem_per_block")
        metrics["launch__shared_mem_per_block"] = Quantity(
            value=value.value + (before.value if before else 0.0), unit="byte/block"
        )
    elif name is not None:
        metrics.setdefault(name, value)


def _shape(cells: Mapping[str, str]) -> str:
    return " x ".join(re.sub(r"[()\s]", "", cells.get(name, "")) for name in ("Grid Size", "Block Size"))


def quantity(text: str, unit: str) -> Quantity | None:
    """A cell as a number; ncu groups digits by commas and scales units, which is undone for those that rules
    compare."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    scale, base = _SCALES.get(unit[:1]), unit[1:]
    if scale is not None and base in _BASES:
        return Quantity(value=value * scale, unit=base)
    return Quantity(value=value, unit=unit)


def choose(found: Sequence[Launch], named: str) -> tuple[Launch, ...]:
    """Those whose name contains `named`, the longest first; all where it is empty. Raises SettingsError where none
    does."""
    chosen = longest_first(launch for launch in found if named in launch.kernel)
    if not chosen:
        known = ", ".join(dict.fromkeys(launch.kernel for launch in longest_first(found)))
        raise SettingsError(f"no kernel of the report is called {named!r}; there are: {known}")
    return chosen
