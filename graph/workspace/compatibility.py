"""What in a workspace cannot be read: another version of Kernelwright wrote it, or it is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from tools.artifacts import Artifact
from tools.errors import StorageError, WorkspaceError
from tools.store.records import Records, strange


def told(error: ValueError, root: Path) -> WorkspaceError | None:
    """One sentence for an `error` that something kept in the workspace brings about; None where it is none of these: a fault of ours.

    What is kept is read as what `error` is about, and must be found at fault in the same way.
    """
    if not isinstance(error, ValidationError):
        return None
    kinds = [kind for kind in _kinds(Artifact) if kind.__name__ == error.title]
    for name, content in _kept(root):
        if any(_problems(kind, content) == error.errors() for kind in kinds):
            return strange(error, root, name)
    return None


def _kinds(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _kept(root: Path) -> Iterator[tuple[str, bytes | dict[str, Any]]]:
    """Name and content of each version's memory, as it lies there, and of each record."""
    for path in sorted((root / "memory").glob("*.json")):
        yield f"memory/{path.name}", path.read_bytes()
    try:
        records = Records(root)
    except (StorageError, WorkspaceError):
        # Nothing was read from them then: they cannot be what the error is about.
        return
    for record in records:
        yield f"record {record.id}", record.payload


def _problems(kind: type[BaseModel], content: bytes | dict[str, Any]) -> list[Any]:
    try:
        if isinstance(content, bytes):
            kind.model_validate_json(content)
        else:
            kind.model_validate(content)
    except ValidationError as error:
        return list(error.errors())
    return []
