"""What the driver reports about the NVIDIA GPUs of this machine, through NVML and without CUDA in this process.

Mechanics and context only, never a target (law 2). Multi-instance GPUs are described as whole ones; the fleet's executor knows more.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.errors import InfrastructureError
from tools.executors.base import Device

NVML = "libnvidia-ml.so.1"
CUDA = "libcuda.so.1"
SPEED_OF_UNITS, SPEED_OF_MEMORY = 1, 2
SWITCH = {0: "off", 1: "on", None: "not reported"}
TEXT = 96
"""Bytes that hold any name, UUID or version which NVML gives."""
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Occupant:
    """A process that has a compute context on a GPU."""

    pid: int
    name: str
    """As the driver or the OS tells it; "a process of another container" where neither does."""


class _Process(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Share(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Driver:
    """NVIDIA's driver on this machine. Without one there are no GPUs, and that is no error."""

    def __init__(self, nvml: str = NVML, cuda: str = CUDA) -> None:
        """The libraries' names or paths; nothing is loaded before the first question."""
        self._names = (nvml, cuda)
        self._library: ctypes.CDLL | None = None
        self._devices: tuple[Device, ...] | None = None
        self.problem = ""
        """Why no GPU is listed, in one clause; empty when some are, or nobody has asked yet."""

    def devices(self) -> tuple[Device, ...]:
        """The GPUs that CUDA_VISIBLE_DEVICES leaves, in the order of the PCI bus; asked once, for nothing here changes while we run."""
        if self._devices is None:
            self._devices = self._look()
        return self._devices

    def share(self, device: Device) -> int | None:
        """Per cent of the last moment (up to a second) in which kernels ran on `device`, anybody's; None where it is not told."""
        library, handle = self._handle(device)
        found = _Share()
        if library is None or library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(found)):
            return None
        return int(found.gpu)

    def _handle(self, device: Device) -> tuple[ctypes.CDLL | None, ctypes.c_void_p]:
        library, handle = self._open(), ctypes.c_void_p()
        if library is None or library.nvmlDeviceGetHandleByUUID(device.details["uuid"].encode(), ctypes.byref(handle)):
            return None, handle
        return library, handle

    def occupants(self, device: Device) -> tuple[Occupant, ...]:
        """Processes with a compute context on `device`; empty where the driver does not tell."""
        library, handle = self._handle(device)
        if library is None:
            return ()
        found = (_Process * 256)()
        count = ctypes.c_uint(len(found))
        if library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found):
            return ()
        return tuple(Occupant(process.pid, self._name(library, process.pid)) for process in found[: count.value])

    def _open(self) -> ctypes.CDLL | None:
        if self._library is None:
            try:
                library = ctypes.CDLL(self._names[0])
            except OSError:
                self.problem = f"{self._names[0]} is not here, so no NVIDIA driver is"
                return None
            if status := library.nvmlInit_v2():
                self.problem = f"the NVIDIA driver does not answer (NVML error {status})"
                return None
            self._library = library
        return self._library

    def _look(self) -> tuple[Device, ...]:
        library = self._open()
        if library is None:
            return ()
        count = ctypes.c_uint()
        library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        attributes = self._attributes() if count.value else {}
        found = [self._describe(library, index, attributes) for index in range(count.value)]
        left = visible([device for device in found if device is not None])
        if not left:
            self.problem = self.problem or ("CUDA_VISIBLE_DEVICES hides every GPU" if found else "the driver lists no GPU")
        return left

    def _describe(self, library: ctypes.CDLL, index: int, attributes: dict[str, dict[str, object]]) -> Device | None:
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
            return None
        uuid = _text(lambda buffer, size: library.nvmlDeviceGetUUID(handle, buffer, size))
        cuda = attributes.get(uuid)
        if cuda is None:
            self.problem = self.problem or f"CUDA does not list the GPU {index} that the driver does"
            return None
        memory = _Memory()
        library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
        details = {
            "uuid": uuid,
            "driver": _text(lambda buffer, size: library.nvmlSystemGetDriverVersion(buffer, size)),
            "memory_bytes": str(memory.total),
            "mig": SWITCH.get(_number(lambda value: library.nvmlDeviceGetMigMode(handle, *_pair(value))), "not reported"),
            "ecc": SWITCH.get(_number(lambda value: library.nvmlDeviceGetEccMode(handle, *_pair(value))), "not reported"),
            "persistence": _said(_number(lambda value: library.nvmlDeviceGetPersistenceMode(handle, value))),
            "max_sm_clock_mhz": _said(_number(lambda value: library.nvmlDeviceGetMaxClockInfo(handle, SPEED_OF_UNITS, value))),
            "max_memory_clock_mhz": _said(_number(lambda value: library.nvmlDeviceGetMaxClockInfo(handle, SPEED_OF_MEMORY, value))),
            "power_limit_mw": _said(_number(lambda value: library.nvmlDeviceGetEnforcedPowerLimit(handle, value))),
        }
        return Device(
            kind="cuda",
            name=_text(lambda buffer, size: library.nvmlDeviceGetName(handle, buffer, size)),
            index=index,
            units=int(str(cuda["units"])),
            last_level_cache=int(str(cuda["last_level_cache"])),
            architecture=str(cuda["architecture"]),
            details=details,
        )

    def _attributes(self) -> dict[str, dict[str, object]]:
        """What only CUDA knows, by UUID. All GPUs are asked for: what is hidden from us is left out later, in one place."""
        script = Path(__file__).with_name("cuda_attributes.py")
        environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", str(script), self._names[1]],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            raise InfrastructureError(f"the CUDA driver did not answer within {PATIENCE_S:g} s; see whether `nvidia-smi` does") from None
        if done.returncode:
            self.problem = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the CUDA driver does not answer"
            return {}
        return {entry["uuid"]: entry for entry in json.loads(done.stdout)}

    def _name(self, library: ctypes.CDLL, pid: int) -> str:
        name = _text(lambda buffer, size: library.nvmlSystemGetProcessName(pid, buffer, size)) or _command(pid)
        return name or "a process of another container"


def visible(devices: list[Device]) -> tuple[Device, ...]:
    """Those that the user's CUDA_VISIBLE_DEVICES names (indices or UUIDs, up to the first that is neither); all where it is not set."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return tuple(devices)
    left: list[Device] = []
    for word in (part.strip() for part in wanted.split(",")):
        named = [d for d in devices if word == str(d.index) or (word.startswith("GPU-") and d.details["uuid"].startswith(word))]
        if len(named) != 1:
            break
        left += named
    return tuple(left)


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether `pid` is `ancestor` or one of its descendants, as /proc tells it."""
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            return False
    return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _text(ask: Callable[[ctypes.Array[ctypes.c_char], int], int]) -> str:
    buffer = ctypes.create_string_buffer(TEXT)
    return "" if ask(buffer, TEXT) else buffer.value.decode(errors="replace")


def _number(ask: Callable[[object], int]) -> int | None:
    value = ctypes.c_uint()
    return None if ask(ctypes.byref(value)) else value.value


def _pair(value: object) -> tuple[object, object]:
    """Current and pending state; only the first is wanted."""
    return value, ctypes.byref(ctypes.c_uint())


def _said(number: int | None) -> str:
    return "not reported" if number is None else str(number)
