"""The content-addressed store of evidence: `records/<id>.json` and `blobs/<sha256>`.

Writing is atomic (temporary file, fsync, rename) and blobs come before the record that names them, so a kill at any
instant leaves no record without its blobs. `once(key, measure)` makes a resumed run repeat nothing.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from tools.artifacts import Record, digest
from tools.errors import DiskFullError, StorageError, WorkspaceError

LARGE_BLOB_BYTES = 1 << 20
"""Bytes above which a blob stays out of git."""
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
        sha = digest(data)
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
        if digest(data) != sha:
            raise StorageError(f"blob {sha} in {path.parent} does not match its name; the file was changed or damaged")
        return data

    def text(self, sha: str) -> str:
        """The blob as UTF-8 text; undecodable bytes are replaced."""
        return self.get(sha).decode(errors="replace")


class Records:
    """All records of a workspace, by id and by key. They are read once, at the start: records never change, and one
    process writes them."""

    def __init__(self, root: Path, working: Path | None = None) -> None:
        """`root` is the workspace's folder; `working` holds the blobs that no record names (for example requests with
        hidden sizes) and is `root`/blobs by default."""
        self.folder = root / "records"
        self.blobs = Blobs(working or root / "blobs", root / "blobs")
        self.on_added: Callable[[Record], None] = lambda record: None
        """Callback, called with each new record."""
        self._by_id: dict[str, Record] = {}
        self._by_key: dict[str, str] = {}
        for path in sorted(self.folder.glob("*.json")):
            self._index(_read_record(path))

    def find(self, key: str) -> Record | None:
        """The record that answers `key`, or None."""
        identity = self._by_key.get(key)
        return self._by_id[identity] if identity else None

    def get(self, identity: str) -> Record:
        """The record with this id; StorageError when there is none."""
        record = self._by_id.get(identity)
        if record is None:
            raise StorageError(
                f"record {identity} is missing from {self.folder}; restore it from a copy of the workspace"
            )
        return record

    def once(self, key: str, measure: Callable[[], Record]) -> Record:
        """The record under `key`; where there is none, the one that `measure` returns, which is stored first."""
        return self.find(key) or self.add(measure())

    def add(self, record: Record) -> Record:
        """Store `record`, whose blobs must exist, and return it; where its key already has a record, return that."""
        existing = self.find(record.key)
        if existing is not None:
            return existing
        for sha in record.blobs.values():
            self.blobs.move_to_archive(sha)
        write_atomically(self.folder / f"{record.id}.json", record.model_dump_json(indent=1).encode() + b"\n")
        self._index(record)
        self.on_added(record)
        return record

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._by_id.values()))

    def _index(self, record: Record) -> None:
        self._by_id[record.id] = record
        self._by_key.setdefault(record.key, record.id)


def _read_record(path: Path) -> Record:
    """The record in a file, checked against the file's name; StorageError when it cannot be read or was altered,
    WorkspaceError when it is no record of this version."""
    try:
        record = Record.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StorageError(
            f"record {path.name} cannot be read ({error.strerror}); check the folder {path.parent}"
        ) from error
    except ValidationError as error:
        raise unreadable_artifact_error(error, path.parent.parent, f"record {path.stem}") from error
    if record.id != path.stem:
        raise StorageError(
            f"record {path.name} does not match its id; the file was changed or damaged, restore it from git"
        )
    return record


def unreadable_artifact_error(error: ValidationError, root: Path, name: str) -> WorkspaceError:
    """The WorkspaceError to raise when file `name` of the workspace at `root` fails validation with `error`: the file
    is damaged, or another version of Kernelwright wrote it."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return WorkspaceError(f"{root}: {name} cannot be read, it is cut short or damaged; restore it from git")
    field = ".".join(str(part) for part in first["loc"]) or "the whole"
    return WorkspaceError(
        f"{root}: {field} of a {error.title} ({name}) does not have the form that this version writes; "
        "use the version of Kernelwright that made the run"
    )


def record_key(kind: str, **question: object) -> str:
    """Key of a record: hash of its `kind` and of `question`, the fields that say what was measured or decided. Equal
    fields give equal keys."""
    return digest(json.dumps({"kind": kind, **question}, sort_keys=True, default=str))[:24]


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write `data` to `path` so that a kill leaves the old or the new file, never half of it; with `durable` a power
    failure does so too.

    DiskFullError on a full disk, StorageError on any other failure.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file of mkstemp could be read by its owner alone, even where the umask lets others read.
        temporary = path.parent / f".tmp-{secrets.token_hex(8)}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
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
