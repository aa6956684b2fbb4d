"""What in a workspace cannot be read: another version of Kernelwright wrote it, or it is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from tools.artifacts import Artifact
from tools.errors import WorkspaceError
from tools.store.records import Records, unreadable_artifact_error


def told(error: ValueError, root: Path) -> WorkspaceError | None:
    """One sentence for an `error` that a record of the workspace brings about; None where none does: a fault of ours.

    Each record is read as what `error` is about, and must be found at fault in the same way.
    """
    if not isinstance(error, ValidationError):
        return None
    kinds = [kind for kind in _kinds(Artifact) if kind.__name__ == error.title]
    for record in Records(root):
        for kind in kinds:
            try:
                kind.model_validate(record.payload)
            except ValidationError as found:
                if found.errors() == error.errors():
                    return unreadable_artifact_error(error, root, f"record {record.id}")
    return None


def _kinds(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)
