"""Reads facts about the NVIDIA GPUs of this machine from the driver, through NVML and without CUDA in this process.

Mechanics and context only, never a target. Multi-instance GPUs are described as whole ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.errors import InfrastructureError
from tools.harness.device import cuda_attributes, nvml
from tools.harness.device.nvml import Nvml

NVML_NO_PERMISSION = "4"
"""NVML's error for users without root rights."""
SWITCH_STATE_NAMES = {0: "off", 1: "on", None: "not reported"}


@dataclass(frozen=True)
class Occupant:
    """A process that has a compute context on a GPU."""

    pid: int
    name: str
    """Name from the driver or the operating system, or "a process of another container" if neither knows it."""


LIMITS = (
    "warp_size",
    "max_threads_per_block",
    "max_threads_per_multi_processor",
    "shared_memory_per_block_optin",
    "shared_memory_per_multiprocessor",
    "regs_per_multiprocessor",
)
"""Attributes of a GPU that bound a kernel's launch; a device's details hold each after the word `limit`."""


class LockedClocks:
    """Locked clocks of one GPU. A process of its own holds the lock and releases it on request and when this process
    ends."""

    def __init__(self, uuid: str, library: str) -> None:
        self._gpu = (uuid, library)
        self._holder = subprocess.Popen(
            [sys.executable, "-I", "-S", nvml.__file__, *self._gpu],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        nvml_code = self._holder.stdout.readline().strip().decode() if self._holder.stdout else ""
        self.locked = nvml_code == "0"
        reason_by_code = {"": "the driver cannot lock them", NVML_NO_PERMISSION: "only root may lock them"}
        reason = reason_by_code.get(nvml_code, f"the driver did not lock them (NVML error {nvml_code})")
        self.state = "locked to what the power limit sustains" if self.locked else f"as found: {reason}"
        """Text for the environment's record."""

    def close(self) -> None:
        """Release the clocks; safe to call twice."""
        self._holder.communicate()
        if self.locked and self._holder.returncode:
            # The holder was killed before it could release the clocks.
            gpu = Nvml(*self._gpu)
            gpu.library.nvmlDeviceResetGpuLockedClocks(gpu.handle)
        self.locked = False


class NvidiaDriver:
    """NVIDIA's driver on this machine. A machine without one has no GPUs, which is not an error."""

    def __init__(self, library: str = nvml.LIBRARY, cuda: str = cuda_attributes.LIBRARY) -> None:
        """Take the libraries' names or paths; they are loaded at the first call."""
        self._names = (library, cuda)
        self._devices: tuple[dict[str, Any], ...] | None = None
        self._gpus: dict[str, Nvml] = {}
        """UUID -> NVML with the GPU's handle."""
        self.problem = ""
        """Why no GPU is listed, as a clause; empty if some are, or before the first call."""

    def devices(self) -> tuple[dict[str, Any], ...]:
        """Return the GPUs that CUDA_VISIBLE_DEVICES leaves, in the order of the PCI bus; read once, because they do not
        change."""
        if self._devices is None:
            self._devices = self._list_devices()
        return self._devices

    def lock_clocks(self, device: dict[str, Any]) -> LockedClocks:
        """Request constant clocks of `device` until the result is closed or this process ends."""
        return LockedClocks(device["details"]["uuid"], self._names[0])

    def busy_percent(self, device: dict[str, Any]) -> int | None:
        """Return the per cent of the last moment (up to a second) in which any kernel ran on `device`; None if
        unknown."""
        return self._gpus[device["details"]["uuid"]].busy_percent()

    def occupants(self, device: dict[str, Any]) -> tuple[Occupant, ...]:
        """Return the processes with a compute context on `device`; empty if the driver does not list them."""
        gpu = self._gpus[device["details"]["uuid"]]
        return tuple(
            Occupant(
                pid, gpu.text("nvmlSystemGetProcessName", pid) or _process_name(pid) or "a process of another container"
            )
            for pid in gpu.compute_pids() or ()
        )

    def _list_devices(self) -> tuple[dict[str, Any], ...]:
        try:
            count = nvml.count_gpus(nvml.load_library(self._names[0]))
            attributes_by_uuid = (
                {str(entry["uuid"]): entry for entry in cuda_attributes.read_attributes_in_child(self._names[1])}
                if count
                else {}
            )
        except TimeoutError as error:
            raise InfrastructureError(str(error)) from None
        except OSError as error:
            self.problem = str(error)
            return ()
        described = [
            device for index in range(count) if (device := self._describe(index, attributes_by_uuid)) is not None
        ]
        visible_gpus = visible_devices(described)
        if not visible_gpus:
            self.problem = self.problem or (
                "CUDA_VISIBLE_DEVICES hides every GPU" if described else "the driver lists no GPU"
            )
        return visible_gpus

    def _describe(self, index: int, known: dict[str, dict[str, object]]) -> dict[str, Any] | None:
        try:
            gpu = Nvml(str(index), self._names[0])
        except OSError:
            return None
        uuid = gpu.text("nvmlDeviceGetUUID", gpu.handle)
        cuda = known.get(uuid)
        if cuda is None:
            self.problem = self.problem or f"the driver lists GPU {index}, but CUDA does not"
            return None
        self._gpus[uuid] = gpu
        numbers = {
            "persistence": gpu.number("nvmlDeviceGetPersistenceMode"),
            "max_sm_clock_mhz": gpu.number("nvmlDeviceGetMaxClockInfo", before=(nvml.OF_UNITS,)),
            "max_memory_clock_mhz": gpu.number("nvmlDeviceGetMaxClockInfo", before=(nvml.OF_MEMORY,)),
            "power_limit_mw": gpu.number("nvmlDeviceGetEnforcedPowerLimit"),
        }
        return {
            "kind": "cuda",
            "name": gpu.text("nvmlDeviceGetName", gpu.handle),
            "index": index,
            "units": int(str(cuda["multi_processor_count"])),
            "last_level_cache": int(str(cuda["L2_cache_size"])),
            "architecture": f"sm_{cuda['major']}{cuda['minor']}",
            "details": {
                "uuid": uuid,
                "driver": gpu.text("nvmlSystemGetDriverVersion"),
                "memory_bytes": str(gpu.total_memory()),
                **{f"limit {name}": str(cuda[name]) for name in LIMITS if name in cuda},
                "mig": SWITCH_STATE_NAMES.get(gpu.number("nvmlDeviceGetMigMode", pending=True), "not reported"),
                "ecc": SWITCH_STATE_NAMES.get(gpu.number("nvmlDeviceGetEccMode", pending=True), "not reported"),
                **{name: "not reported" if number is None else str(number) for name, number in numbers.items()},
            },
        }


def visible_devices(devices: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the devices that the user's CUDA_VISIBLE_DEVICES names (indices or UUIDs, up to the first word that is
    neither), or all devices if it is not set."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return tuple(devices)
    selected: list[dict[str, Any]] = []
    for word in (part.strip() for part in setting.split(",")):
        matches = [
            d
            for d in devices
            if word == str(d["index"]) or (word.startswith("GPU-") and d["details"]["uuid"].startswith(word))
        ]
        if len(matches) != 1:
            break
        selected += matches
    return tuple(selected)


def _process_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
