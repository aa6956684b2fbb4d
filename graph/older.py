"""What another version of Kernelwright wrote into a workspace and this one cannot read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from tools.artifacts import Artifact
from tools.errors import StorageError, WorkspaceError
from tools.records import Records


def told(error: ValueError, root: Path) -> WorkspaceError | None:
    """One sentence for an `error` that something kept in the workspace brings about; None where it is none of these: a fault of ours.

    What is kept is read as what `error` is about, and must be found at fault in the same way.
    """
    if not isinstance(error, ValidationError):
        return None
    kinds = [kind for kind in _kinds(Artifact) if kind.__name__ == error.title]
    for name, content in _kept(root):
        if any(_problems(kind, content) == error.errors() for kind in kinds):
            strange = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
            return WorkspaceError(
                f"{root}: {strange} of a {error.title} there ({name}) is not as this version writes it; "
                "use the version of Kernelwright that made the run"
            )
    return None


def _kinds(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _kept(root: Path) -> Iterator[tuple[str, Any]]:
    """Name and content of each record and of each version's memory."""
    try:
        for record in Records(root):
            yield f"record {record.id}", record.payload
    except StorageError:
        return
    for path in sorted((root / "memory").glob("*.json")):
        yield f"memory/{path.name}", json.loads(path.read_bytes())


def _problems(kind: type[BaseModel], content: Any) -> list[Any]:
    try:
        kind.model_validate(content)
    except ValidationError as error:
        return list(error.errors())
    return []
