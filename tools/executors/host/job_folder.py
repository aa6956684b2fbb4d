"""Creates a job's folder, writes its files from blobs, verifies them, and stores the results."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from tools.errors import DiskFullError, HarnessError, InfrastructureError, StorageError
from tools.store.blobs import Blobs, write_error


def write_job_files(files: dict[str, str], blobs: Blobs, folder: Path) -> None:
    """Write the blobs to their relative paths. Raises StorageError if a blob is missing or damaged, or a path leaves
    the folder."""
    for relative, sha in files.items():
        pure = PurePosixPath(relative)
        if pure.is_absolute() or ".." in pure.parts:
            raise StorageError(f"a job may not hold the path {relative!r}; use paths within the job's folder")
        path = folder / pure
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blobs.get(sha))


def verify_unchanged(files: dict[str, str], folder: Path) -> None:
    """Raise HarnessError if a file of the harness differs from its blob."""
    for relative, sha in files.items():
        try:
            actual_sha = hashlib.sha256((folder / relative).read_bytes()).hexdigest()
        except OSError:
            actual_sha = ""
        if actual_sha != sha:
            raise HarnessError(f"{relative} was changed while a job ran, so its measurements do not count")


def collect_results(job: dict[str, Any], blobs: Blobs, folder: Path) -> dict[str, str]:
    """Store the requested result files with the job's stdout and stderr, and return path -> sha256; links are not
    followed."""
    sha_by_path: dict[str, str] = {}
    for pattern in (*job["results"], "stdout.txt", "stderr.txt"):
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not path.is_symlink():
                sha_by_path[path.relative_to(folder).as_posix()] = blobs.put(path.read_bytes())
    return sha_by_path


@contextlib.contextmanager
def job_folder(scratch: Path) -> Iterator[str]:
    """Create a folder below `scratch` and delete it afterwards."""
    scratch.mkdir(parents=True, exist_ok=True)
    name = tempfile.mkdtemp(dir=scratch, prefix="job-")
    try:
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)


@contextlib.contextmanager
def translate_disk_errors(scratch: Path) -> Iterator[None]:
    """Turn a full disk and other errors of the file system into an exception with one sentence."""
    try:
        yield
    except OSError as error:
        translated = write_error(scratch / "job", error)
        if isinstance(translated, DiskFullError):
            raise translated from error
        raise InfrastructureError(f"{error.filename or scratch}: {error.strerror}; a job could not be run") from error
