"""The closed versions of a workspace and the incumbent among them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from graph.artifacts import VersionMemory
from graph.state import State
from graph.workspace.folder import Workspace
from tools.store.records import unreadable_artifact_error


def read_versions(root: Path) -> tuple[VersionMemory, ...]:
    """Return memory/v<N>.json of every closed version of the workspace at `root`, in order."""
    paths = sorted((root / "memory").glob("v*.json"), key=lambda path: int(path.stem[1:]))
    return tuple(parse_memory(path.read_bytes(), root, path.stem) for path in paths)


def parse_memory(content: bytes, root: Path, version: str) -> VersionMemory:
    """Read the content of memory/<version>.json; WorkspaceError if it is damaged or has another schema."""
    try:
        return VersionMemory.model_validate_json(content)
    except ValidationError as error:
        raise unreadable_artifact_error(error, root, f"memory/{version}.json") from error


def accepted_version_of(root: Path, candidate: str) -> str:
    """Return v<N>, the last version that accepted this candidate; v0 if none did (the baseline)."""
    accepted = (m.iteration for m in read_versions(root) if m.candidate == candidate and m.verdict == "accept")
    return f"v{max(accepted, default=0)}"


def find_incumbent(memories: Sequence[VersionMemory]) -> VersionMemory:
    """Return the version whose kernel belongs at HEAD: the last accepted one that is not masked, else v0."""
    return max((m for m in memories if m.verdict in ("accept", "baseline") and not m.masked), key=lambda m: m.iteration)


def lineage(memories: Sequence[VersionMemory]) -> tuple[VersionMemory, ...]:
    """Return v0 and the accepted versions that led to the kernel at HEAD, each made from the one before it.

    The last one is the incumbent.
    """
    found = [find_incumbent(memories)] if memories else []
    for memory in reversed(memories[: found[0].iteration] if found else ()):
        if memory.verdict in ("accept", "baseline") and memory.candidate == found[-1].parent:
            found.append(memory)
    return tuple(reversed(found))


def restored_version(workspace: Workspace) -> VersionMemory | None:
    """Return the version whose kernel `mask` or `unmask` put back since the last iteration, or None."""
    for commit in workspace.repository.log():
        if "Restores" in commit.trailers:
            return next(m for m in read_versions(workspace.root) if f"v{m.iteration}" == commit.trailers["Restores"])
        if "Version" in commit.trailers:
            break
    return None


def checkpoint_path(workspace: Workspace) -> Path:
    """Return the path of LangGraph's checkpoint."""
    return workspace.private / "checkpoint.sqlite"


def read_checkpoint(path: Path) -> State | None:
    """Return the state in a checkpoint, empty if there is none yet; None if the file is cut short or damaged."""
    # Not at the top: LangGraph is slow to import.
    from langgraph.checkpoint.sqlite import SqliteSaver

    if not path.exists():
        return State()
    try:
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            # SQLite reads a page only when it needs it, so that a resumed run would meet the damage later.
            if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                return None
            found = SqliteSaver(connection).get_tuple({"configurable": {"thread_id": "run"}})
            return cast(State, dict(found.checkpoint["channel_values"])) if found else State()
    except sqlite3.DatabaseError as error:
        # Without a code Python itself could not read a column.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (0, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        return None
    except (
        LookupError,
        NotImplementedError,
        TypeError,
        ValueError,
    ):  # what LangGraph raises for bytes that it did not write
        return None


def read_state(workspace: Workspace, restored: VersionMemory | None = None) -> State:
    """Return the state in the workspace's checkpoint, empty if there is none yet.

    A damaged checkpoint counts as none. Fields that describe a version masked since the checkpoint are reset. `back` is
    the version whose kernel is about to be put back; by default the newest commits say which.
    """
    state = read_checkpoint(checkpoint_path(workspace)) or State()
    restored = restored or restored_version(workspace)
    if restored is not None and restored.candidate is not None and restored.candidate != state.get("incumbent"):
        # Its benchmark and its reason to stop are of another kernel.
        state |= State(incumbent=restored.candidate, report="", stop=None)
    return state
