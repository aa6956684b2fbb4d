"""A device for one job at a time: this host's lock on it, and nobody else's process on the GPU."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.errors import DeviceBusyError
from tools.executors.base import Device
from tools.executors.nvidia import Driver, Occupant
from tools.harness.device.nvml import descends

LINGER_S, POLL_S = 8.0, 0.02
"""A process that has ended, or was killed with gigabytes on its GPU, is listed there for less than this."""
QUIET_S = 1.5
"""Work of ours that has ended shows in a GPU's share of time in use for less than this."""
IDLE_SHARE = 10
"""Per cent of the time in use from which on a GPU without a process of ours is somebody else's."""


class ForeignProcesses:
    """Who else is on the GPUs; a CPU has none."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._first: dict[str, frozenset[int]] = {}
        """UUID of a GPU -> the processes that were on it before any of ours."""
        self._resident: dict[str, int] = {}
        """UUID of a GPU on which a process of ours stays -> its share of time in use before that, per cent."""
        self._telling = False
        """The driver has listed a process of ours under the number that we know it by."""

    def beside(self, device: Device) -> list[str]:
        """Processes on a GPU that are not ours.

        Those that were there before anything of ours are others', wherever they live. The rest are waited for a little:
        a job that was killed leaves processes that end later than it. Of those that stay only such count as /proc
        shows, or as are listed while the driver lists processes of ours under the numbers that we know: in a container
        ours may go by other numbers.
        """
        if device.kind != "cuda":
            return []
        self.note(device)
        first = self._first[device.details["uuid"]]
        found = self._strangers(device)
        end = time.monotonic() + LINGER_S
        while (new := [p for p in found if p.pid not in first]) and time.monotonic() < end:
            if not self._telling and not any(_shown(p) for p in new):
                break
            time.sleep(POLL_S)
            found = self._strangers(device)
        if not self._telling:
            found = [p for p in found if p.pid in first or _shown(p)]
        return [f"process {process.pid} ({process.name})" for process in found]

    def note(self, device: Device, *, stays: bool = False) -> None:
        """Before anything of ours runs on a GPU: who is there, and how busy it is; `stays`: from now on ours are
        there, too."""
        if device.kind != "cuda":
            return
        uuid = device.details["uuid"]
        if uuid not in self._first:
            self._first[uuid] = frozenset(process.pid for process in self._strangers(device))
        if stays and uuid not in self._resident:
            self._resident[uuid] = self._idle_share(device)

    def _strangers(self, device: Device) -> list[Occupant]:
        """Who does not descend from us; notes whether somebody does."""
        listed, ours = self.driver.occupants(device), os.getpid()
        found = [process for process in listed if not descends(process.pid, ours)]
        self._telling |= len(found) < len(listed)
        return found

    def _idle_share(self, device: Device) -> int:
        """Per cent of the time in which kernels run on a GPU without ours, or did when ours came to stay; 0 where
        that is not told."""
        if device.kind != "cuda":
            return 0
        if (known := self._resident.get(device.details["uuid"])) is not None:
            return known
        least, end = self.driver.share(device) or 0, time.monotonic() + QUIET_S
        while least >= IDLE_SHARE and time.monotonic() < end:
            time.sleep(POLL_S)
            least = min(least, self.driver.share(device) or 0)
        return least

    def refuse(self, device: Device) -> None:
        """DeviceBusyError that names who else is on the GPU: nothing measured beside them would be worth anything."""
        others = self.beside(device)
        share = 0 if others else self._idle_share(device)
        if others or share >= IDLE_SHARE:
            by = (
                ", ".join(others)
                or f"somebody whom the driver does not name (kernels ran {share}% of the time, none of them ours)"
            )
            raise DeviceBusyError(
                f"{device.name} (cuda:{device.index}) is in use by {by}; wait until it has ended, or choose "
                f"another GPU "
                "with the setting `gpu` or with CUDA_VISIBLE_DEVICES"
            )


def _shown(process: Occupant) -> bool:
    return Path(f"/proc/{process.pid}").exists()


@contextlib.contextmanager
def device_lock(kind: str, index: int, wait_s: float) -> Iterator[None]:
    """Hold this host's lock of one device; DeviceBusyError, naming the holder, after `wait_s` seconds."""
    path = Path(tempfile.gettempdir()) / f"kernelwright-{kind}-{index}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except PermissionError:  # another user made it; a lock needs no more than reading
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
