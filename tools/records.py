"""The content-addressed store of evidence: `records/<id>.json` and `blobs/<sha256>`.

Writing is atomic (temporary file, fsync, rename) and blobs come before the record that names them, so a kill at any instant leaves
no record without its blobs. `find(key)` is what makes a resumed run repeat nothing.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tools.artifacts import Record, digest
from tools.errors import DiskFullError, StorageError

LARGE_BLOB = 1 << 20
"""Bytes above which a blob stays out of git."""


class Blobs:
    """Files named by the sha256 of their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, content: bytes | str) -> str:
        """Store `content` (text as UTF-8) and return its sha256."""
        data = content.encode() if isinstance(content, str) else content
        sha = digest(data)
        path = self.folder / sha
        if not path.exists():
            write_atomically(path, data)
        return sha

    def path(self, sha: str) -> Path:
        """Where the blob lies; StorageError when it does not."""
        path = self.folder / sha
        if not path.is_file():
            raise StorageError(f"blob {sha} is missing from {self.folder}; restore it from a copy of the workspace")
        return path

    def get(self, sha: str) -> bytes:
        """The blob's content, checked against its name."""
        data = self.path(sha).read_bytes()
        if digest(data) != sha:
            raise StorageError(f"blob {sha} in {self.folder} does not match its name; the file was changed or damaged")
        return data

    def text(self, sha: str) -> str:
        """The blob as UTF-8 text; undecodable bytes are replaced."""
        return self.get(sha).decode(errors="replace")


class Records:
    """All records of a workspace, indexed by key."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "records"
        self.blobs = Blobs(root / "blobs")
        self._by_key: dict[str, str] = {}
        for path in sorted(self.folder.glob("*.json")):
            self._by_key.setdefault(self._read(path).key, path.stem)

    def find(self, key: str) -> Record | None:
        """The finished record that answers `key`, or None."""
        identity = self._by_key.get(key)
        return self.get(identity) if identity else None

    def get(self, identity: str) -> Record:
        """The record with this id; StorageError when it is missing or altered."""
        record = self._read(self.folder / f"{identity}.json")
        if record.id != identity:
            raise StorageError(f"record {identity} does not match its id; the file was changed or damaged")
        return record

    def add(self, record: Record) -> Record:
        """Store `record` (its blobs must be there already); the first answer to a key stays the answer."""
        existing = self.find(record.key)
        if existing is not None:
            return existing
        for sha in record.blobs.values():
            self.blobs.path(sha)
        write_atomically(self.folder / f"{record.id}.json", record.model_dump_json(indent=1).encode() + b"\n")
        self._by_key[record.key] = record.id
        return record

    def __iter__(self) -> Iterator[Record]:
        for path in sorted(self.folder.glob("*.json")):
            yield self._read(path)

    def _read(self, path: Path) -> Record:
        try:
            return Record.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise StorageError(f"record {path.name} cannot be read: {error}") from error


def key(kind: str, **asked: object) -> str:
    """Hash of what was asked; the same question always has the same key."""
    return digest(json.dumps({"kind": kind, **asked}, sort_keys=True, default=str))[:24]


def write_atomically(path: Path, data: bytes) -> None:
    """Write so that a kill leaves the old file or the new one, never half; DiskFullError on a full disk, StorageError on any other failure."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(
                f"{path.parent}: no space left on the disk; free some space, then resume (nothing finished is lost)"
            ) from error
        raise StorageError(f"{path} cannot be written ({error.strerror}); check the folder and resume") from error
