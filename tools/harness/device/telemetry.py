"""Reads from the operating system the state of the machine around a measurement."""

import itertools
import os
import time
from pathlib import Path

CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CPU_FOLDER = Path("/sys/devices/system/cpu")
STAT_FILE = Path("/proc/stat")
SCHEDULER_TIMER_BITS = 2
"""The low bits of the kernel's number of a process's clock, as clock_getcpuclockid() sets them."""


class ThreadTimes:
    """The scheduler's times of the live threads of a process; zeros if it does not count them."""

    def __init__(self, pid: int):
        self.count, ran, waited = 0, 0, 0
        try:
            for task in itertools.islice(Path(f"/proc/{pid}/task").iterdir(), 64):
                fields = (task / "schedstat").read_text().split()
                self.count, ran, waited = self.count + 1, ran + int(fields[0]), waited + int(fields[1])
        except (OSError, IndexError, ValueError):
            pass
        self.ran, self.waited = ran * 1e-9, waited * 1e-9
        """Seconds on a core, and seconds ready to run but without one."""


def run_ns(pid: int) -> int:
    """Return the nanoseconds that all threads of a process have run, those that ended or run right now included; 0 if
    the system does not count them or the process is gone."""
    try:
        return time.clock_gettime_ns(~pid << 3 | SCHEDULER_TIMER_BITS)
    except OSError:
        return 0


def wait_until_idle(pid: int, limit_s: float) -> None:
    """Wait until no thread of a process runs or waits for a core, or until `limit_s` seconds have passed."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            lines = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
        except OSError:  # a thread ended meanwhile
            lines = [") R"]
        if not any(line.rpartition(")")[2].startswith(" R") for line in lines):
            return
        time.sleep(50e-6)


def busy_and_stolen_by_core() -> dict[int, tuple[float, float]]:
    """Return for each core that this process may use the seconds since boot in which it was not idle, and those of them
    that a hypervisor took.

    Empty if the system does not report them. A container may number its cores differently; if this process's cores are
    not among those listed, all listed cores are returned.
    """
    seconds_by_core = {}
    try:
        for line in STAT_FILE.read_text().splitlines():
            name, *fields = line.split() or [""]
            if name.startswith("cpu") and name[3:].isdecimal():
                user, nice, system, _, _, irq, softirq, steal = (*(int(field) for field in fields[:8]), *[0] * 8)[:8]
                seconds_by_core[int(name[3:])] = (
                    (user + nice + system + irq + softirq + steal) / CLOCK_TICKS_PER_S,
                    steal / CLOCK_TICKS_PER_S,
                )
    except (OSError, ValueError):
        return {}
    own_cores = os.sched_getaffinity(0)
    return (
        {core: seconds for core, seconds in seconds_by_core.items() if core in own_cores}
        if own_cores <= seconds_by_core.keys()
        else seconds_by_core
    )


def busy_and_stolen_since(before: dict[int, tuple[float, float]]) -> list[tuple[float, float]]:
    """Return (not idle, stolen) seconds of each core since `before`, for cores that were counted then as well."""
    return [
        (busy - before[core][0], stolen - before[core][1])
        for core, (busy, stolen) in busy_and_stolen_by_core().items()
        if core in before
    ]


def cpu_seconds_of(pid: int) -> float:
    """Return the CPU seconds of a process and its ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(int(field) for field in fields[11:15]) / CLOCK_TICKS_PER_S
    except (OSError, IndexError, ValueError):
        return 0.0


def load_average() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def last_level_cache() -> int:
    """Return the bytes of the last-level caches of all cores that this process may use; 0 if the operating system does
    not report them."""
    sizes: dict[str, tuple[int, int]] = {}
    for folder in (
        f for core in os.sched_getaffinity(0) for f in (CPU_FOLDER / f"cpu{core}" / "cache").glob("index[0-9]*")
    ):
        try:
            level = int((folder / "level").read_text())
            text = (folder / "size").read_text().strip()
            shared = (folder / "shared_cpu_list").read_text().strip()
            if (folder / "type").read_text().strip() == "Instruction":
                continue
        except (OSError, ValueError):
            continue
        size = int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)
        sizes[f"{level}/{shared}"] = (level, size)
    top = max((level for level, _ in sizes.values()), default=0)
    return sum(size for level, size in sizes.values() if level == top)


def available_memory() -> int:
    """Return the bytes that are available without swapping; 1 GiB if that is unknown."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return 1 << 30
