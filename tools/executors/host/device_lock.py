"""Reserves a device for one job at a time: by a lock on this host, and only while no other process uses the GPU."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.errors import DeviceBusyError
from tools.executors.host.nvidia import NvidiaDriver, Occupant
from tools.harness.device.nvml import is_descendant

PROCESS_EXIT_WAIT_S, POLL_INTERVAL_S = 8.0, 0.02
"""Seconds within which an ended process disappears from the driver's list, even if it was killed with gigabytes on its
GPU, and seconds between two checks."""
UTILISATION_DECAY_WAIT_S = 1.5
"""Seconds within which work that has ended disappears from a GPU's share of time in use."""
BUSY_GPU_PERCENT = 10
"""Per cent of the time in use from which a GPU without a process of this executor counts as used by others."""


class OtherProcesses:
    """Finds processes on the GPUs that this process did not start."""

    def __init__(self, driver: NvidiaDriver) -> None:
        self.driver = driver
        self._first_pids: dict[str, frozenset[int]] = {}
        """UUID of a GPU -> processes that were on it before the first job."""
        self._busy_percent_before_ours: dict[str, int] = {}
        """UUID of a GPU on which a warm process stays -> its share of time in use before that, in per cent."""
        self._driver_lists_ours = False
        """Whether the driver has listed a process of ours under the number that it has here."""

    def list_other_processes(self, device: dict[str, Any]) -> list[str]:
        """Return descriptions of the processes on a GPU that this process did not start.

        Processes that were there before the first job belong to others, wherever they run. New ones get a little time
        to end, because processes of a killed job may end later than the job. Of those that stay, only processes in
        /proc count, or all if the driver lists ours under the numbers known here: in a container, ours may have other
        numbers.
        """
        if device["kind"] != "cuda":
            return []
        self.remember_initial_state(device)
        first_pids = self._first_pids[device["details"]["uuid"]]
        unrelated = self._list_unrelated(device)
        end = time.monotonic() + PROCESS_EXIT_WAIT_S
        while (new := [p for p in unrelated if p.pid not in first_pids]) and time.monotonic() < end:
            if not self._driver_lists_ours and not any(_is_in_proc(p) for p in new):
                break
            time.sleep(POLL_INTERVAL_S)
            unrelated = self._list_unrelated(device)
        if not self._driver_lists_ours:
            unrelated = [p for p in unrelated if p.pid in first_pids or _is_in_proc(p)]
        return [f"process {process.pid} ({process.name})" for process in unrelated]

    def remember_initial_state(self, device: dict[str, Any], *, ours_stay: bool = False) -> None:
        """Record the processes on a GPU and its share of time in use before the first job runs there. `ours_stay`: from
        now on a warm process of ours stays on it."""
        if device["kind"] != "cuda":
            return
        uuid = device["details"]["uuid"]
        if uuid not in self._first_pids:
            self._first_pids[uuid] = frozenset(process.pid for process in self._list_unrelated(device))
        if ours_stay and uuid not in self._busy_percent_before_ours:
            self._busy_percent_before_ours[uuid] = self._busy_percent_without_ours(device)

    def _list_unrelated(self, device: dict[str, Any]) -> list[Occupant]:
        """Return the processes on the GPU that do not descend from this one, and record whether the driver lists one
        that does."""
        listed, ours = self.driver.occupants(device), os.getpid()
        unrelated = [process for process in listed if not is_descendant(process.pid, ours)]
        self._driver_lists_ours |= len(unrelated) < len(listed)
        return unrelated

    def _busy_percent_without_ours(self, device: dict[str, Any]) -> int:
        """Return the per cent of the time in which others' kernels run on a GPU, or did before a warm process of ours
        came; 0 if it is unknown."""
        if device["kind"] != "cuda":
            return 0
        if (remembered := self._busy_percent_before_ours.get(device["details"]["uuid"])) is not None:
            return remembered
        lowest, end = self.driver.busy_percent(device) or 0, time.monotonic() + UTILISATION_DECAY_WAIT_S
        while lowest >= BUSY_GPU_PERCENT and time.monotonic() < end:
            time.sleep(POLL_INTERVAL_S)
            lowest = min(lowest, self.driver.busy_percent(device) or 0)
        return lowest

    def raise_if_busy(self, device: dict[str, Any]) -> None:
        """Raise DeviceBusyError with the names of other processes on the GPU, because they would disturb every
        measurement."""
        others = self.list_other_processes(device)
        percent = 0 if others else self._busy_percent_without_ours(device)
        if others or percent >= BUSY_GPU_PERCENT:
            users = (
                ", ".join(others)
                or f"somebody whom the driver does not name (kernels ran {percent}% of the time, none of them ours)"
            )
            raise DeviceBusyError(
                f"{device['name']} (cuda:{device['index']}) is in use by {users}; wait until it has ended, or choose "
                f"another GPU "
                "with the setting `gpu` or with CUDA_VISIBLE_DEVICES"
            )


def _is_in_proc(process: Occupant) -> bool:
    return Path(f"/proc/{process.pid}").exists()


@contextlib.contextmanager
def device_lock(kind: str, index: int, wait_s: float) -> Iterator[None]:
    """Hold this host's lock of one device; raise DeviceBusyError, with the holder's name, after `wait_s` seconds."""
    path = Path(tempfile.gettempdir()) / f"kernelwright-{kind}-{index}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except PermissionError:  # another user created the file; read access is enough for a lock
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "unknown"
                    raise DeviceBusyError(
                        f"the {kind} device {index} has been in use for {wait_s:g} s by {holder}"
                    ) from error
                time.sleep(0.02)
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} of user {os.getuid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
