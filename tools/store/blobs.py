"""Stores files by the hash of their content, and writes files so that a kill leaves no half of one.

It needs the standard library alone, because it also runs on hosts that jobs are sent to.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from pathlib import Path

from tools.errors import DiskFullError, StorageError

MIN_FREE_BYTES = 16 << 20
"""Bytes of free disk below which a failed job is taken to have run out of disk: compilers and the harness need as
much."""


class Blobs:
    """Files named by the sha256 of their content. New ones lie in `folder`; those that evidence names move on to
    `archive`."""

    def __init__(self, folder: Path, archive: Path | None = None) -> None:
        self.folder = folder
        self.archive = archive or folder

    def put(self, content: bytes | str) -> str:
        """Store `content` (text as UTF-8) and return its sha256."""
        data = content.encode() if isinstance(content, str) else content
        sha = hashlib.sha256(data).hexdigest()
        if not self.has(sha):
            # A power failure may lose a blob that no record names yet: the job that needs it makes it again.
            write_atomically(self.folder / sha, data, durable=self.folder == self.archive)
        return sha

    def has(self, sha: str) -> bool:
        """Whether the blob is stored in the folder or in the archive."""
        return (self.folder / sha).is_file() or (self.archive / sha).is_file()

    def path(self, sha: str) -> Path:
        """Path of the blob's file; StorageError when the blob is missing."""
        for folder in (self.archive, self.folder):
            if (folder / sha).is_file():
                return folder / sha
        raise StorageError(f"blob {sha} is missing from {self.archive}; restore it from a copy of the workspace")

    def move_to_archive(self, sha: str) -> None:
        """Move the blob into the archive; called before a record names it."""
        path = self.path(sha)
        if path.parent != self.archive:
            write_atomically(self.archive / sha, path.read_bytes())
            path.unlink()

    def get(self, sha: str) -> bytes:
        """The blob's content, checked against its name."""
        path = self.path(sha)
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha:
            raise StorageError(f"blob {sha} in {path.parent} does not match its name; the file was changed or damaged")
        return data

    def text(self, sha: str) -> str:
        """The blob as UTF-8 text; undecodable bytes are replaced."""
        return self.get(sha).decode(errors="replace")


def write_atomically(path: Path, data: bytes, *, durable: bool = True, mode: int = 0o666) -> None:
    """Write `data` to `path` so that a kill leaves the old or the new file, never half of it; with `durable` a power
    failure does so too. The file's `mode` is that before the umask.

    DiskFullError on a full disk, StorageError on any other failure.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file of mkstemp could be read by its owner alone, even where the umask lets others read.
        temporary = path.parent / f".tmp-{secrets.token_hex(8)}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: Path, error: OSError) -> DiskFullError | StorageError:
    """The error to raise for a failed write to `path`: DiskFullError where the disk is full, else StorageError."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full_error(path.parent)
    return StorageError(f"{path} cannot be written ({error.strerror}); check the folder and resume")


def disk_full_error(folder: Path) -> DiskFullError:
    """The DiskFullError for `folder`, with the sentence that users read."""
    return DiskFullError(f"{folder}: no space left on the disk; no finished work is lost, free some space")


def disk_full_error_if_low(*folders: Path) -> DiskFullError | None:
    """DiskFullError where the disk of one of `folders` has less than `MIN_FREE_BYTES` free, else None.

    A program that runs out of disk space fails in many ways and rarely says why, so the disk itself is checked.
    """
    for folder in folders:
        try:
            free = shutil.disk_usage(folder).free
        except OSError:
            continue
        if free < MIN_FREE_BYTES:
            return disk_full_error(folder)
    return None
