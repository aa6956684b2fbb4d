"""Reads from the driver's management library (NVML) the state of the GPU around a measurement; without the library,
clocks come from nvidia-smi.

/proc does not show who owns a process: in a container, other processes have no number, and the harness's own may be
listed under numbers of the host. Processes that were there before the harness's first one belong to others, and
descendants of the harness are its own. Whether others are running is unknown (None) until the library has listed a
process of the harness under the number known here.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LIBRARY = "libnvidia-ml.so.1"
SLOWDOWN_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
"""Reasons for lower clocks, by NVML's bit."""
FIELDS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"
OF_UNITS, OF_MEMORY = 1, 2
CLOCKS = {"sm_mhz": OF_UNITS, "memory_mhz": OF_MEMORY}
"""Name of a clock in telemetry -> NVML's number of it."""
MAX_LISTED_PROCESSES = 256
NAME_BYTES = 96
NOT_FOUND = 6
"""NVML's status if there is no sample since the given time."""
BY_POWER = 0xFFFFFF01
"""NVML's number for the clock that the GPU's power limit sustains; the driver knows its value."""
QUIET_S, STEP_S = 1.2, 0.1
"""Seconds to wait, because the driver averages the share of time in use over up to a second, and between reads."""

PROCESS_LISTING_DELAY_S = 3.0
"""Seconds within which an ended process disappears from the list."""


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu", ctypes.c_uint),
        ("compute", ctypes.c_uint),
    ]


class _Share(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Used(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("stamp", ctypes.c_ulonglong)] + [
        (n, ctypes.c_uint) for n in ("sm", "memory", "encode", "decode")
    ]


def count_gpus(library: ctypes.CDLL) -> int:
    """Return the number of GPUs of this machine."""
    found = ctypes.c_uint()
    library.nvmlDeviceGetCount_v2(ctypes.byref(found))
    return found.value


def load_library(library: str = LIBRARY) -> ctypes.CDLL:
    """Load and initialise the library; raise OSError, with a sentence, if that fails."""
    found = ctypes.CDLL(library)
    if status := found.nvmlInit_v2():
        raise OSError(f"the NVIDIA driver does not answer (NVML error {status})")
    return found


class Nvml:
    """The library with the handle of one GPU; raises OSError, with a sentence, if either is missing."""

    def __init__(self, name: str, library: str = LIBRARY) -> None:
        self.library = load_library(library)
        self.handle = ctypes.c_void_p()
        self._find(name)

    def _find(self, name: str) -> None:
        """Find the GPU with this index, UUID or beginning of a UUID."""
        call, handle = self.library, ctypes.byref(self.handle)
        if name.isdigit():
            if call.nvmlDeviceGetHandleByIndex_v2(int(name), handle) == 0:
                return
        elif call.nvmlDeviceGetHandleByUUID(name.encode(), handle) == 0:
            return
        for index in range(0 if name.isdigit() else count_gpus(call)):
            if not call.nvmlDeviceGetHandleByIndex_v2(index, handle) and self.text(
                "nvmlDeviceGetUUID", self.handle
            ).startswith(name):
                return
        raise OSError(f"NVML does not know the GPU {name!r}")

    def text(self, function: str, *before: object) -> str:
        """Return a name, UUID or version; empty if the library does not report it."""
        buffer = ctypes.create_string_buffer(NAME_BYTES)
        return (
            ""
            if getattr(self.library, function)(*before, buffer, NAME_BYTES)
            else buffer.value.decode(errors="replace")
        )

    def number(
        self, *functions: str, before: "tuple[int, ...]" = (), kind: type = ctypes.c_uint, pending: bool = False
    ) -> "int | None":
        """Return one number, from the first of these functions that the library has; None if it does not report it.

        `pending`: the function also returns the pending state, which is ignored.
        """
        function, value = next((name for name in functions if hasattr(self.library, name)), functions[0]), kind()
        pending_state = (ctypes.byref(kind()),) if pending else ()
        try:
            status = getattr(self.library, function)(
                self.handle, *map(ctypes.c_int, before), ctypes.byref(value), *pending_state
            )
        except AttributeError:
            return None
        return None if status else value.value

    def total_memory(self) -> int:
        """Return the bytes of device memory."""
        found = (ctypes.c_ulonglong * 3)()
        self.library.nvmlDeviceGetMemoryInfo(self.handle, found)
        return found[0]

    def compute_pids(self) -> "list[int] | None":
        """Return the processes with a compute context, under the library's numbers; None if it does not list them."""
        found, count = (_Process * MAX_LISTED_PROCESSES)(), ctypes.c_uint(MAX_LISTED_PROCESSES)
        try:
            status = self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.handle, ctypes.byref(count), found)
        except AttributeError:
            return None
        return None if status else [process.pid for process in found[: count.value]]

    def busy_percent(self) -> "int | None":
        """Return the per cent of the last window in which any kernel ran; None if the library does not report it."""
        found = _Share()
        try:
            return None if self.library.nvmlDeviceGetUtilizationRates(self.handle, ctypes.byref(found)) else found.gpu
        except AttributeError:
            return None

    def utilization_since(self, since: int) -> "list[tuple[int, int, int]] | None":
        """Return (process, time stamp, per cent of the multiprocessors) of each sample since a time stamp; None if the
        library does not report them."""
        count = ctypes.c_uint()
        try:
            query = self.library.nvmlDeviceGetProcessUtilization
        except AttributeError:
            return None
        query(self.handle, None, ctypes.byref(count), ctypes.c_ulonglong(since))
        samples = (_Used * max(count.value, 1))()
        count.value = len(samples)
        status = query(self.handle, samples, ctypes.byref(count), ctypes.c_ulonglong(since))
        if status == NOT_FOUND:
            return []
        return None if status else [(sample.pid, sample.stamp, sample.sm) for sample in samples[: count.value]]


class GpuWatch:
    """Watches one GPU, named as in CUDA_VISIBLE_DEVICES (an index or a UUID). Created before the harness's first
    process uses the GPU."""

    def __init__(self, name: str, library: str = LIBRARY):
        self.name = name
        self.stamp = self.busy = self.bits = 0
        self.lists_own_processes = False
        """Whether the library has listed an own process under the number known here."""
        self.own_pids: set[int] = set()
        self.first_seen: dict[int, float] = {}
        """Process -> time at which it was first listed, for new processes that are not the harness's."""
        self.nvml: Nvml | None = None
        self.missing = ""
        try:
            self.nvml = Nvml(name, library)
        except (OSError, AttributeError) as error:
            self.missing = str(error)
        self.source = "nvml" if self.nvml else "nvidia-smi"
        self.pids_before = frozenset(self.nvml.compute_pids() or ()) if self.nvml else frozenset()
        """Processes that were there before the harness's, so that they belong to others."""
        self.idle_share = self._idle_percent()
        """Per cent of the time in which kernels of others ran before the harness's; None if it is unknown."""

    def _idle_percent(self) -> "int | None":
        """Return the lowest share of time in use, read until the window has passed that may still contain the harness's
        own work."""
        if self.nvml is None:
            return None
        lowest, end = self.nvml.busy_percent(), time.monotonic() + QUIET_S
        while lowest and time.monotonic() < end:
            time.sleep(STEP_S)
            lowest = min(lowest, self.nvml.busy_percent() or 0)
        return lowest

    def other_processes(self) -> "set[int] | None":
        """Return other users' processes that have a compute context now; None if that is unknown."""
        running = self.nvml.compute_pids() if self.nvml else None
        if running is None:
            return None
        own_pid, now = os.getpid(), time.monotonic()
        own_processes = {pid for pid in running if pid not in self.pids_before and is_descendant(pid, own_pid)}
        self.own_pids |= own_processes
        self.lists_own_processes |= bool(own_processes)
        others = set(running) - self.own_pids
        earlier = others & self.pids_before
        if not self.lists_own_processes:
            return earlier or None
        # An own process that has just ended is listed a little longer, and /proc no longer shows its parent.
        self.first_seen = {pid: self.first_seen.get(pid, now) for pid in others - earlier}
        return earlier | {
            pid
            for pid, seen in self.first_seen.items()
            if Path(f"/proc/{pid}").exists() or now - seen > PROCESS_LISTING_DELAY_S
        }

    def disturbance_count(self) -> int:
        """Return the number of samples so far in which others computed; equal values before and after a measurement
        mean that no disturbance is known."""
        self.bits |= self.slowdown_bits()
        others = self.other_processes()
        if others:
            self.busy += self._busy_samples(others)
        return self.busy

    def slowdown_bits(self) -> int:
        """Return NVML's bits of SLOWDOWN_REASONS that are set now; 0 if they are unknown."""
        if self.nvml is None:
            return 0
        names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        return (self.nvml.number(*names, kind=ctypes.c_ulonglong) or 0) & sum(SLOWDOWN_REASONS)

    def _busy_samples(self, others: set[int]) -> int:
        """Return the new samples in which these processes computed."""
        samples = self.nvml.utilization_since(self.stamp)
        if samples is None:
            return 1  # their utilization is unknown, so they count as busy
        self.stamp = max((stamp for _, stamp, _ in samples), default=self.stamp)
        return sum(1 for pid, _, share in samples if pid in others and share)

    def read(self) -> dict:
        """Return clocks in MHz, temperature in degrees Celsius and power in watts, each None if unknown; empty if there
        is no source."""
        if self.nvml is None:
            return self._read_with_nvidia_smi()
        found = {name: self.nvml.number("nvmlDeviceGetClockInfo", before=(number,)) for name, number in CLOCKS.items()}
        watts = self.nvml.number("nvmlDeviceGetPowerUsage")
        self.bits |= self.slowdown_bits()
        celsius = self.nvml.number("nvmlDeviceGetTemperature", before=(0,))
        return found | {"celsius": celsius, "watts": None if watts is None else watts / 1000}

    def begin(self) -> None:
        """Begin the interval that `summary` describes."""
        self.bits = 0
        self.first, self.first_busy = self.read(), self.disturbance_count()

    def summary(self) -> dict:
        """Return the readings at both ends of the interval and what happened within it, as the telemetry of a GPU."""
        last, busy = self.read(), self.disturbance_count()
        if not self.first or not last:
            return {"source": "absent"}
        others = self.other_processes()
        summary = {
            "source": self.source,
            "foreign_processes": None if others is None else len(others),
            "idle_share": self.idle_share,
        }
        summary["foreign_busy"] = None if others is None else busy - self.first_busy
        for name in ("sm_mhz", "memory_mhz", "celsius", "watts"):
            summary |= {f"{name}_before": self.first[name], f"{name}_after": last[name]}
        return summary | {"slowed_by": [text for bit, text in SLOWDOWN_REASONS.items() if self.bits & bit]}

    def _read_with_nvidia_smi(self) -> dict:
        try:
            command = ["nvidia-smi", f"--id={self.name}", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
            output = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
            sm, memory, celsius, watts = (float(field) for field in output.strip().splitlines()[0].split(","))
        except (OSError, ValueError, IndexError, subprocess.SubprocessError):
            return {}
        return {"sm_mhz": sm, "memory_mhz": memory, "celsius": celsius, "watts": watts}


def is_descendant(pid: int, ancestor: int) -> bool:
    """Whether a process is the ancestor or one of its descendants."""
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def hold_clocks(name: str, library: str = LIBRARY) -> None:
    """Lock a GPU's clocks, print NVML's status (0: they are locked), and unlock them when standard input closes, which
    also happens if the caller dies. Clocks that were locked before cannot be read and are not restored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gpu = Nvml(name, library)
    status = gpu.library.nvmlDeviceSetGpuLockedClocks(gpu.handle, ctypes.c_uint(BY_POWER), ctypes.c_uint(BY_POWER))
    try:
        with contextlib.suppress(OSError):
            print(status, flush=True)
            sys.stdin.read()
    finally:
        if not status:
            gpu.library.nvmlDeviceResetGpuLockedClocks(gpu.handle)


if __name__ == "__main__":
    hold_clocks(*sys.argv[1:])
