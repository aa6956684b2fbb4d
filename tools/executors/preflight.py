"""Checks the host that runs jobs, as far as an executor can tell: its Python, torch, disk, clock and GPU."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import NamedTuple

from tools.errors import DeviceBusyError
from tools.executors.base import DeviceKind, Executor, Job, Needs
from tools.store.blobs import Blobs

ROOM_BYTES = 2 << 30
"""Bytes of free disk below which a compiler's caches may not fit."""
MAX_SKEW_S = 5.0
"""Seconds by which the host's clock may differ from this machine's."""
PROGRAM = """
import importlib.util, json, platform, shutil, sys, time
from importlib import metadata
torch = metadata.version("torch") if importlib.util.find_spec("torch") else ""
python = f"{platform.python_version()}, {sys.executable}"
print(json.dumps({"python": python, "torch": torch, "free": shutil.disk_usage(".").free, "now": time.time()}))
"""


class HostCheck(NamedTuple):
    """One property of the host."""

    name: str
    ok: bool
    value: str
    fix: str
    """One sentence on what to do if it is not ok."""


def check_host(executor: Executor, blobs: Blobs, needed: DeviceKind | None = None) -> list[HostCheck]:
    """Return the checks of the host that jobs can make, without its clock where answers are carried by files.

    `needed`: the kind of device that a run needs, None if that is not known; a run on the CPU looks at no GPU. Raises
    SettingsError or InfrastructureError, with what to do as its sentence, if the host cannot be reached or runs no job,
    and DeviceBusyError if a GPU that is needed is in use.
    """
    job = Job(files={}, argv=("{python}", "-c", PROGRAM))
    executor.gather((executor.devices, partial(executor.run, job)))
    devices, asked_at = executor.devices(), time.time()
    finished = executor.run(job)
    answered_at = time.time()
    if finished.exit_code:
        said = blobs.text(finished.files["stderr.txt"]).strip().splitlines()[-1:]
        return [HostCheck("host python", False, " ".join(said), "name a working Python under executor.python")]
    facts = json.loads(blobs.text(finished.files["stdout.txt"]))
    skew_s = max(asked_at - facts["now"], facts["now"] - answered_at, 0.0)
    torch_fix = "install torch there, or name the Python that has it under executor.python"
    checks = [
        HostCheck("host python", True, facts["python"], ""),
        HostCheck("host torch", bool(facts["torch"]), facts["torch"], torch_fix),
        HostCheck("host disk", facts["free"] >= ROOM_BYTES, f"{facts['free'] / 2**30:.1f} GiB free", "free some space"),
    ]
    if executor.answers_at_once:
        clock = f"differs by {skew_s:.1f} s"
        checks.append(HostCheck("host clock", skew_s <= MAX_SKEW_S, clock, "set it, e.g. with chrony"))
    if needed != "cpu" and any(device.kind == "cuda" for device in devices):
        try:
            executor.run(Job(files={}, argv=("true",), needs=Needs(device="cuda", exclusive=True)))
            checks.append(HostCheck("host GPU", True, "free", ""))
        except DeviceBusyError as error:
            if needed is not None:
                raise
            checks.append(HostCheck("host GPU", False, "in use", str(error)))
    return checks
