"""What the operating system says about the machine around a measurement."""

import itertools
import os
from pathlib import Path

CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CPU_FOLDER = Path("/sys/devices/system/cpu")
STAT_FILE = Path("/proc/stat")


class ThreadTimes:
    """What the scheduler has counted for the living threads of a process; zeros where it does not count."""

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


def busy_and_stolen_by_core() -> dict[int, tuple[float, float]]:
    """Of each core that we may run on: seconds since boot that it was not idle, and those of them that a hypervisor
    took away.

    Empty where the system does not tell. A container may number the cores it has by itself; where ours are not among
    those listed, all that are listed are taken for ours.
    """
    found = {}
    try:
        for line in STAT_FILE.read_text().splitlines():
            name, *fields = line.split() or [""]
            if name.startswith("cpu") and name[3:].isdecimal():
                user, nice, system, _, _, irq, softirq, steal = (*(int(field) for field in fields[:8]), *[0] * 8)[:8]
                found[int(name[3:])] = (
                    (user + nice + system + irq + softirq + steal) / CLOCK_TICKS_PER_S,
                    steal / CLOCK_TICKS_PER_S,
                )
    except (OSError, ValueError):
        return {}
    ours = os.sched_getaffinity(0)
    return {core: seconds for core, seconds in found.items() if core in ours} if ours <= found.keys() else found


def busy_and_stolen_since(before: dict[int, tuple[float, float]]) -> list[tuple[float, float]]:
    """(not idle, stolen) seconds of each core since `before`; of those alone that were counted then, too."""
    return [
        (busy - before[core][0], stolen - before[core][1])
        for core, (busy, stolen) in busy_and_stolen_by_core().items()
        if core in before
    ]


def cpu_seconds_of(pid: int) -> float:
    """CPU seconds that one process and its ended children have used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(int(field) for field in fields[11:15]) / CLOCK_TICKS_PER_S
    except (OSError, IndexError, ValueError):
        return 0.0


def load_average() -> float:
    return os.getloadavg()[0]


def last_level_cache() -> int:
    """Bytes of the last-level caches of all cores that we may use, as the kernel reports them; 0 when it does not."""
    seen: dict[str, tuple[int, int]] = {}
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
        seen[f"{level}/{shared}"] = (level, size)
    top = max((level for level, _ in seen.values()), default=0)
    return sum(size for level, size in seen.values() if level == top)


def available_memory() -> int:
    """Bytes that could be had without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return 1 << 30
