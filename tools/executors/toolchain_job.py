"""Asks the machine with the device for its toolchain: one job for each executor."""

from __future__ import annotations

import json

from pydantic import ValidationError

from tools.errors import HarnessError
from tools.executors.base import Executor, Job, Limits
from tools.executors.harness_job import harness_files
from tools.executors.toolchain import Toolchain
from tools.store.blobs import Blobs

SCRIPT = "harness/compilation/toolchain.py"
STEP_LIMITS_S = {"version": 60.0, "build": 180.0, "run": 20.0}
"""Seconds after which a step of a trial build is blamed on the machine and not on the compiler."""


def read_toolchain(executor: Executor, blobs: Blobs) -> Toolchain:
    """Return the toolchain of the machine of `executor`, which is asked at the first call.

    Raises HarnessError if a trial build takes too long, or if the machine gives no answer.
    """
    return executor.toolchain(lambda there: _ask(there, blobs))


def _ask(executor: Executor, blobs: Blobs) -> Toolchain:
    job = Job(
        files=harness_files(blobs),
        argv=("{python}", "-I", SCRIPT, json.dumps(STEP_LIMITS_S)),
        limits=Limits(wall_s=600.0),
        results=("toolchain.json",),
    )
    finished = executor.run(job)
    complaint = blobs.text(finished.files["stderr.txt"]).strip()
    try:
        return Toolchain.model_validate_json(blobs.get(finished.files["toolchain.json"]))
    except (KeyError, ValidationError) as error:
        raise HarnessError(f"the machine does not say what is installed there: {complaint[-300:] or error}") from error
