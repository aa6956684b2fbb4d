"""What the driver's management library says about the GPU around a measurement; nvidia-smi where its Python binding is missing."""

import os
import subprocess
from pathlib import Path

SLOWED = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "thermal", 0x40: "hardware thermal", 0x80: "power brake"}
"""Reasons for lower clocks that spoil a measurement, by NVML's bit."""
FIELDS = "clocks.sm,clocks.mem,temperature.gpu,power.draw"


class Watch:
    """One GPU, named as in CUDA_VISIBLE_DEVICES (an index or a UUID)."""

    def __init__(self, name: str):
        self.name = name
        self.source = "pynvml"
        self.stamp = self.busy = 0
        self.library = self.handle = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self.library = pynvml
            self.handle = pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else pynvml.nvmlDeviceGetHandleByUUID(name)
        except Exception as error:
            self.library = None
            self.source = "nvidia-smi"
            self.missing = f"{type(error).__name__}: {error}"

    def reasons(self) -> int:
        """NVML's bits of SLOWED that are set now; 0 where that cannot be known."""
        if self.library is None:
            return 0
        read = getattr(self.library, "nvmlDeviceGetCurrentClocksEventReasons", None)
        read = read or self.library.nvmlDeviceGetCurrentClocksThrottleReasons
        return self._ask(read, 0) & sum(SLOWED)

    def foreign(self) -> list[int]:
        """Processes that compute on the GPU and do not descend from this one."""
        if self.library is None:
            return []
        running = self._ask(self.library.nvmlDeviceGetComputeRunningProcesses, [])
        return [p.pid for p in running if alive(p.pid) and not descends(p.pid, os.getpid())]

    def state(self) -> tuple[int, int]:
        """(reasons for lower clocks, samples so far in which others computed); equal before and after when undisturbed."""
        others = self.foreign()
        if others:
            self.busy += self._used(others)
        return self.reasons(), self.busy

    def _used(self, others: list[int]) -> int:
        def ask(handle):
            return self.library.nvmlDeviceGetProcessUtilization(handle, self.stamp)

        samples = self._ask(ask, None)
        if samples is None:
            return 1  # nobody says how busy they are
        self.stamp = max((s.timeStamp for s in samples), default=self.stamp)
        return sum(1 for s in samples if s.pid in others and s.smUtil)

    def read(self) -> dict:
        """Clocks in MHz, temperature in degrees Celsius, power in watts, reasons for lower clocks; empty where nothing answers."""
        if self.library is None:
            return self._smi()
        lib = self.library
        return {
            "sm_mhz": self._ask(lambda h: lib.nvmlDeviceGetClockInfo(h, lib.NVML_CLOCK_SM), None),
            "memory_mhz": self._ask(lambda h: lib.nvmlDeviceGetClockInfo(h, lib.NVML_CLOCK_MEM), None),
            "celsius": self._ask(lambda h: lib.nvmlDeviceGetTemperature(h, lib.NVML_TEMPERATURE_GPU), None),
            "watts": self._ask(lambda h: lib.nvmlDeviceGetPowerUsage(h) / 1000, None),
            "reasons": self.reasons(),
        }

    def summary(self, before: dict, after: dict) -> dict:
        """Both readings as one dict of telemetry."""
        if not before or not after:
            return {"source": "absent"}
        found = {"source": self.source, "foreign_processes": len(self.foreign())}
        for name in ("sm_mhz", "memory_mhz", "celsius", "watts"):
            found |= {f"{name}_before": before[name], f"{name}_after": after[name]}
        bits = before["reasons"] | after["reasons"]
        return found | {"slowed_by": [text for bit, text in SLOWED.items() if bits & bit]}

    def _ask(self, function, otherwise):
        try:
            return function(self.handle)
        except Exception:
            return otherwise

    def _smi(self) -> dict:
        try:
            command = ["nvidia-smi", f"--id={self.name}", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
            said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
            sm, memory, celsius, watts = (float(field) for field in said.strip().splitlines()[0].split(","))
        except (OSError, ValueError, IndexError, subprocess.SubprocessError):
            return {}
        return {"sm_mhz": sm, "memory_mhz": memory, "celsius": celsius, "watts": watts, "reasons": 0}


def alive(pid: int) -> bool:
    """A process that has just ended may still be listed; so may one in another namespace, which has no number here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False
