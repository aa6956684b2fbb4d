"""Turns a request into a job for the harness, and the job's result files into a typed answer."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from tools.artifacts import Artifact, digest
from tools.errors import DiskFullError, HarnessError
from tools.executors.base import FinishedJob, Job, Limits, Needs
from tools.executors.protocol import RESULT_ADAPTER, HarnessFailure, HarnessRequest
from tools.store.blobs import Blobs

Answer = TypeVar("Answer", bound=Artifact)
HARNESS_FOLDER = Path(__file__).parents[1] / "harness"


def harness_job(
    request: HarnessRequest,
    files: Mapping[str, str],
    blobs: Blobs,
    *,
    needs: Needs | None = None,
    limits: Limits | None = None,
) -> Job:
    """Return the job that sends `request` to the harness, with `files` (path -> sha256) beside it; it writes
    `result.json`.

    An executor may keep one harness, and with it the oracle, for all jobs of a run. Another version of the harness has
    another warm key.
    """
    return Job(
        files={**harness_files(blobs), **files, "request.json": blobs.put(request.model_dump_json())},
        argv=("{python}", "-I", "harness/supervisor.py", "request.json"),
        # Workloads may use the free memory: the probe accepts those that fit.
        limits=(limits or Limits()).model_copy(update={"memory_bytes": 0, "file_bytes": 0}),
        needs=needs or Needs(),
        results=("result.json",),
        warm=f"harness-{harness_version()}",
    )


def harness_files(blobs: Blobs) -> dict[str, str]:
    """Return path in a job's folder -> sha256 for every module of the harness; each program that starts from one of
    them needs all."""
    return {name: blobs.put(text) for name, text in _harness_sources().items()}


def harness_version() -> str:
    """Return a hash of the harness's sources, which distinguishes it from an older one that is still warm."""
    return digest(b"".join(_harness_sources().values()))[:16]


@cache
def _harness_sources() -> dict[str, bytes]:
    return {
        f"harness/{path.relative_to(HARNESS_FOLDER).as_posix()}": path.read_bytes()
        for path in sorted(HARNESS_FOLDER.rglob("*.py"))
    }


def read_answer(finished: FinishedJob, blobs: Blobs, expected: type[Answer]) -> Answer:
    """Return the harness's typed answer.

    Raises DiskFullError if the harness had no space left on the disk, and HarnessError if it died, ran out of time,
    failed, or gave an answer of another type.
    """
    complaint = blobs.text(finished.files["stderr.txt"]).strip()[-600:] if "stderr.txt" in finished.files else ""
    if finished.timed_out:
        raise HarnessError(
            f"the harness did not end within its limit (judge.job_limit_s; of a probe of reference.py, 300 s); "
            f"{complaint}".rstrip("; ")
        )
    if "result.json" not in finished.files:
        raise HarnessError(f"the harness wrote no answer (exit {finished.exit_code}); {complaint}".rstrip("; "))
    try:
        result = RESULT_ADAPTER.validate_json(blobs.get(finished.files["result.json"]))
    except ValidationError as error:
        raise HarnessError(f"the harness's answer cannot be read: {error.errors()[0]['msg']}") from error
    if isinstance(result, HarnessFailure) and os.strerror(errno.ENOSPC) in result.error:
        raise DiskFullError(
            "the harness found no space left on the disk; no finished work is lost, free some space where it works "
            "(see TMPDIR)"
        )
    if isinstance(result, HarnessFailure):
        raise HarnessError(f"the harness failed: {result.error}")
    if not isinstance(result, expected):
        raise HarnessError(f"the harness answered {result.kind!r}, but {expected.__name__} was requested")
    return result
