"""The content-addressed store of evidence: `records/<id>.json` and `blobs/<sha256>`.

Writing is atomic (temporary file, fsync, rename) and blobs come before the record that names them, so a kill at any
instant leaves no record without its blobs. `once(key, measure)` makes a resumed run repeat nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from tools.artifacts import Record, digest
from tools.errors import StorageError, WorkspaceError
from tools.store.blobs import Blobs, write_atomically

LARGE_BLOB_BYTES = 1 << 20
"""Bytes above which a blob stays out of git."""


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
