"""What the driver's management library says about the GPU around a measurement; clocks from nvidia-smi where the
library is missing.

Whose a process is cannot be told from /proc: in a container, processes of others have no number there, and ours may be
listed under numbers of the host. So those that were there before our first process are others', those that descend from
us are ours, and of the rest it is said that it is not known (None) unless the library has shown that it lists ours
under the numbers that we know.
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
"""What a clock is called in telemetry -> NVML's number of it."""
MAX_LISTED_PROCESSES = 256
NAME_BYTES = 96
NOT_FOUND = 6
"""NVML has no sample since then."""
BY_POWER = 0xFFFFFF01
"""NVML's name of the clock that the GPU's power limit sustains; the driver knows its figure."""
QUIET_S, STEP_S = 1.2, 0.1
"""The share of time in use is over a window of up to a second, in which work of our own may lie that has ended."""

PROCESS_LISTING_DELAY_S = 3.0
"""An ended process is listed for less than this."""


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
    """GPUs of this machine."""
    found = ctypes.c_uint()
    library.nvmlDeviceGetCount_v2(ctypes.byref(found))
    return found.value


def load_library(library: str = LIBRARY) -> ctypes.CDLL:
    """The library, ready to be asked. OSError when it cannot be had, in words."""
    found = ctypes.CDLL(library)
    if status := found.nvmlInit_v2():
        raise OSError(f"the NVIDIA driver does not answer (NVML error {status})")
    return found


class Nvml:
    """The library with one GPU's handle. OSError when either cannot be had, in words."""

    def __init__(self, name: str, library: str = LIBRARY) -> None:
        self.library = load_library(library)
        self.handle = ctypes.c_void_p()
        self._find(name)

    def _find(self, name: str) -> None:
        """The GPU with this index, UUID or beginning of one."""
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
        """A name, UUID or version; empty where it is not told."""
        buffer = ctypes.create_string_buffer(NAME_BYTES)
        return (
            ""
            if getattr(self.library, function)(*before, buffer, NAME_BYTES)
            else buffer.value.decode(errors="replace")
        )

    def number(
        self, *functions: str, before: "tuple[int, ...]" = (), kind: type = ctypes.c_uint, pending: bool = False
    ) -> "int | None":
        """One number, of the first of these functions that the library has; None where it does not tell. `pending`:
        the state to come is told behind it."""
        function, value = next((name for name in functions if hasattr(self.library, name)), functions[0]), kind()
        behind = (ctypes.byref(kind()),) if pending else ()
        try:
            refused = getattr(self.library, function)(
                self.handle, *map(ctypes.c_int, before), ctypes.byref(value), *behind
            )
        except AttributeError:
            return None
        return None if refused else value.value

    def memory(self) -> int:
        """Bytes of device memory in all."""
        found = (ctypes.c_ulonglong * 3)()
        self.library.nvmlDeviceGetMemoryInfo(self.handle, found)
        return found[0]

    def running(self) -> "list[int] | None":
        """Processes with a compute context, under the numbers that the library gives them; None where it does not
        tell."""
        found, count = (_Process * MAX_LISTED_PROCESSES)(), ctypes.c_uint(MAX_LISTED_PROCESSES)
        try:
            refused = self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.handle, ctypes.byref(count), found)
        except AttributeError:
            return None
        return None if refused else [process.pid for process in found[: count.value]]

    def busy_percent(self) -> "int | None":
        """Per cent of the last window in which a kernel ran, anybody's; None where the library does not tell."""
        found = _Share()
        try:
            return None if self.library.nvmlDeviceGetUtilizationRates(self.handle, ctypes.byref(found)) else found.gpu
        except AttributeError:
            return None

    def used(self, since: int) -> "list[tuple[int, int, int]] | None":
        """(process, time stamp, per cent of the multiprocessors) of each sample since a time stamp; None where it
        does not tell."""
        count = ctypes.c_uint()
        try:
            ask = self.library.nvmlDeviceGetProcessUtilization
        except AttributeError:
            return None
        ask(self.handle, None, ctypes.byref(count), ctypes.c_ulonglong(since))
        found = (_Used * max(count.value, 1))()
        count.value = len(found)
        status = ask(self.handle, found, ctypes.byref(count), ctypes.c_ulonglong(since))
        if status == NOT_FOUND:
            return []
        return None if status else [(sample.pid, sample.stamp, sample.sm) for sample in found[: count.value]]


class GpuWatch:
    """One GPU, named as in CUDA_VISIBLE_DEVICES (an index or a UUID); made before our first process is on it."""

    def __init__(self, name: str, library: str = LIBRARY):
        self.name = name
        self.stamp = self.busy = self.bits = 0
        self.telling = False
        """The library has listed a process of ours under the number that we know it by."""
        self.ours: set[int] = set()
        self.since: dict[int, float] = {}
        """When those that are neither ours nor were there before were first seen."""
        self.nvml: Nvml | None = None
        self.missing = ""
        try:
            self.nvml = Nvml(name, library)
        except (OSError, AttributeError) as error:
            self.missing = str(error)
        self.source = "nvml" if self.nvml else "nvidia-smi"
        self.before = frozenset(self.nvml.running() or ()) if self.nvml else frozenset()
        """Processes that were there before ours: others'."""
        self.idle_share = self._quiet()
        """Per cent of the time in which kernels ran before ours did: others' again; None where that is not told."""

    def _quiet(self) -> "int | None":
        """The least share seen until the window has passed in which work of ours may still lie."""
        if self.nvml is None:
            return None
        least, end = self.nvml.busy_percent(), time.monotonic() + QUIET_S
        while least and time.monotonic() < end:
            time.sleep(STEP_S)
            least = min(least, self.nvml.busy_percent() or 0)
        return least

    def foreign(self) -> "set[int] | None":
        """Processes of others that have a compute context now; None where it is not known whether there are any."""
        running = self.nvml.running() if self.nvml else None
        if running is None:
            return None
        here, now = os.getpid(), time.monotonic()
        ours = {pid for pid in running if pid not in self.before and is_descendant(pid, here)}
        self.ours |= ours
        self.telling |= bool(ours)
        rest = set(running) - self.ours
        known = rest & self.before
        if not self.telling:
            return known or None
        # One of ours that has just ended is listed a little longer, and /proc no longer says whose it was.
        self.since = {pid: self.since.get(pid, now) for pid in rest - known}
        return known | {
            pid
            for pid, seen in self.since.items()
            if Path(f"/proc/{pid}").exists() or now - seen > PROCESS_LISTING_DELAY_S
        }

    def state(self) -> int:
        """Samples so far in which others computed; the same before and after when nobody is known to have disturbed."""
        self.bits |= self.reasons()
        others = self.foreign()
        if others:
            self.busy += self._used(others)
        return self.busy

    def reasons(self) -> int:
        """NVML's bits of SLOWED that are set now; 0 where that cannot be known."""
        if self.nvml is None:
            return 0
        names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        return (self.nvml.number(*names, kind=ctypes.c_ulonglong) or 0) & sum(SLOWDOWN_REASONS)

    def _used(self, others: set[int]) -> int:
        samples = self.nvml.used(self.stamp)
        if samples is None:
            return 1  # nobody says how busy they are
        self.stamp = max((stamp for _, stamp, _ in samples), default=self.stamp)
        return sum(1 for pid, _, share in samples if pid in others and share)

    def read(self) -> dict:
        """Clocks in MHz, temperature in degrees Celsius, power in watts, each None where it is not told; empty where
        nothing answers."""
        if self.nvml is None:
            return self._smi()
        found = {name: self.nvml.number("nvmlDeviceGetClockInfo", before=(number,)) for name, number in CLOCKS.items()}
        watts = self.nvml.number("nvmlDeviceGetPowerUsage")
        self.bits |= self.reasons()
        celsius = self.nvml.number("nvmlDeviceGetTemperature", before=(0,))
        return found | {"celsius": celsius, "watts": None if watts is None else watts / 1000}

    def begin(self) -> None:
        """From now on is what `summary` tells of."""
        self.bits = 0
        self.first, self.first_busy = self.read(), self.state()

    def summary(self) -> dict:
        """The readings of then and now and what was noted in between, as one dict of telemetry."""
        last, busy = self.read(), self.state()
        if not self.first or not last:
            return {"source": "absent"}
        others = self.foreign()
        found = {
            "source": self.source,
            "foreign_processes": None if others is None else len(others),
            "idle_share": self.idle_share,
        }
        found["foreign_busy"] = None if others is None else busy - self.first_busy
        for name in ("sm_mhz", "memory_mhz", "celsius", "watts"):
            found |= {f"{name}_before": self.first[name], f"{name}_after": last[name]}
        return found | {"slowed_by": [text for bit, text in SLOWDOWN_REASONS.items() if self.bits & bit]}

    def _smi(self) -> dict:
        try:
            command = ["nvidia-smi", f"--id={self.name}", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
            said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
            sm, memory, celsius, watts = (float(field) for field in said.strip().splitlines()[0].split(","))
        except (OSError, ValueError, IndexError, subprocess.SubprocessError):
            return {}
        return {"sm_mhz": sm, "memory_mhz": memory, "celsius": celsius, "watts": watts}


def is_descendant(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


def hold_clocks(name: str, library: str = LIBRARY) -> None:
    """Lock a GPU's clocks, print NVML's status (0: they are), and give them back when standard input ends: when
    whoever asked is done, or gone, however that came about. What somebody had locked before cannot be asked for, and
    is not given back."""
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
