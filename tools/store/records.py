"""The content-addressed store of evidence: `records/<id>.json` and `blobs/<sha256>`.

Writing is atomic (temporary file, fsync, rename) and blobs come before the record that names them, so a kill at any
instant leaves no record without its blobs. `find(key)` is what makes a resumed run repeat nothing.
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

LARGE_BLOB = 1 << 20
"""Bytes above which a blob stays out of git."""
LEAST_FREE = 16 << 20
"""Bytes of free disk below which a failure says nothing about what failed: compilers and harness need that much to
work."""


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
            # What no record names yet may be lost with the power: whoever needs it makes it again.
            write_atomically(self.folder / sha, data, durable=self.folder == self.archive)
        return sha

    def has(self, sha: str) -> bool:
        """Whether the blob is here."""
        return (self.folder / sha).is_file() or (self.archive / sha).is_file()

    def path(self, sha: str) -> Path:
        """Where the blob lies; StorageError when it does not."""
        for folder in (self.archive, self.folder):
            if (folder / sha).is_file():
                return folder / sha
        raise StorageError(f"blob {sha} is missing from {self.archive}; restore it from a copy of the workspace")

    def keep(self, sha: str) -> None:
        """Move the blob into the archive, for a record is about to name it."""
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
    """All records of a workspace, by id and by key. Read once when opened: records never change, and one process
    writes them."""

    def __init__(self, root: Path, working: Path | None = None) -> None:
        """`working`: where blobs lie that no record names (requests with hidden sizes, say); default: beside the
        others."""
        self.folder = root / "records"
        self.blobs = Blobs(working or root / "blobs", root / "blobs")
        self.added: Callable[[Record], None] = lambda record: None
        """Told of each record that is new."""
        self._by_id: dict[str, Record] = {}
        self._by_key: dict[str, str] = {}
        for path in sorted(self.folder.glob("*.json")):
            self._know(_read(path))

    def find(self, key: str) -> Record | None:
        """The finished record that answers `key`, or None."""
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

    def add(self, record: Record) -> Record:
        """Store `record` (its blobs must be there already); the first answer to a key stays the answer."""
        existing = self.find(record.key)
        if existing is not None:
            return existing
        for sha in record.blobs.values():
            self.blobs.keep(sha)
        write_atomically(self.folder / f"{record.id}.json", record.model_dump_json(indent=1).encode() + b"\n")
        self._know(record)
        self.added(record)
        return record

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._by_id.values()))

    def _know(self, record: Record) -> None:
        self._by_id[record.id] = record
        self._by_key.setdefault(record.key, record.id)


def _read(path: Path) -> Record:
    """The record in a file, checked against the file's name; StorageError when it cannot be read or was altered,
    WorkspaceError when it is no record of this version."""
    try:
        record = Record.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StorageError(
            f"record {path.name} cannot be read ({error.strerror}); check the folder {path.parent}"
        ) from error
    except ValidationError as error:
        raise strange(error, path.parent.parent, f"record {path.stem}") from error
    if record.id != path.stem:
        raise StorageError(
            f"record {path.name} does not match its id; the file was changed or damaged, restore it from git"
        )
    return record


def strange(error: ValidationError, root: Path, name: str) -> WorkspaceError:
    """What it means that `name`, kept in the workspace at `root`, is not what is read it as: damage, or another
    version's work."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return WorkspaceError(f"{root}: {name} cannot be read, it is cut short or damaged; restore it from git")
    field = ".".join(str(part) for part in first["loc"]) or "the whole"
    return WorkspaceError(
        f"{root}: {field} of a {error.title} there ({name}) is not as this version writes it; "
        "use the version of Kernelwright that made the run"
    )


def key(kind: str, **asked: object) -> str:
    """Hash of what was asked; the same question always has the same key."""
    return digest(json.dumps({"kind": kind, **asked}, sort_keys=True, default=str))[:24]


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write so that a kill leaves the old file or the new one, never half; `durable`: a power failure too.

    DiskFullError on a full disk, StorageError on any other failure.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not mkstemp's: that is its owner's alone, and so would be what it becomes, where the umask lets others read.
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
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> DiskFullError | StorageError:
    """What a failed write to `path` means: the user can free some space, or the folder is at fault."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(path.parent)
    return StorageError(f"{path} cannot be written ({error.strerror}); check the folder and resume")


def disk_full(folder: Path) -> DiskFullError:
    """The one sentence for a disk without room."""
    return DiskFullError(f"{folder}: no space left on the disk; nothing finished is lost, free some space")


def without_room(*folders: Path) -> DiskFullError | None:
    """What something that failed while it wrote below `folders` means where one of their disks has less than
    LEAST_FREE, else None.

    A program that runs out of disk dies in many ways, and few of them say why; the disk can be asked.
    """
    for folder in folders:
        try:
            free = shutil.disk_usage(folder).free
        except OSError:
            continue
        if free < LEAST_FREE:
            return disk_full(folder)
    return None
