"""The closed versions of a workspace and the incumbent among them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from graph.artifacts import Closing, Masking, VersionMemory
from graph.state import State
from graph.workspace import drift
from graph.workspace.folder import Workspace
from tools.artifacts import Record, Verdict
from tools.errors import StorageError
from tools.store.records import Records, record_key, unreadable_artifact_error


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


def recorded_versions(workspace: Workspace) -> dict[int, tuple[VersionMemory, str]]:
    """Return iteration -> memory of each closed version with its commit's id: verdict, kernel, methods and figures as
    the record says that the run's own commit names. A version without such a commit is left out."""
    records, found = workspace.records, {}
    commits = {c.trailers.get("Version"): c for c in drift.run_commits(workspace.repository.log(), records)}
    for memory in read_versions(workspace.root):
        commit = commits.get(f"v{memory.iteration}")
        if commit is None:
            continue
        verdict = Verdict.model_validate(records.get(commit.trailers["Evidence"]).payload)
        key = {"id": verdict.candidate, "iteration": memory.iteration}
        record = records.find(record_key("candidate", **key)) or records.find(
            record_key("plan", iteration=key["iteration"])
        )
        said = {
            "verdict": verdict.outcome if memory.iteration else "baseline",
            "reasons": verdict.reasons,
            "candidate": verdict.candidate,
            "parent": verdict.incumbent if memory.iteration else "",
            "methods": _methods_of(record) if memory.iteration else (),
            "speedup": verdict.reported_speedup,
        }
        found[memory.iteration] = (memory.model_copy(update=said), commit.id)
    return found


def _methods_of(record: Record | None) -> tuple[str, ...]:
    """Return the methods of a candidate's record or of a plan's."""
    methods = record.payload["methods"] if record else ()
    return tuple(one if isinstance(one, str) else one["method"] for one in methods)


def closing_of(record: Record, records: Records) -> Closing:
    """Return the closing that a record is, or that a verdict or the end of a run rests on; StorageError without one.

    The end of a run is stored after its closing, whose state names it here.
    """
    for one in (record, *map(records.get, reversed(record.parents))):
        if one.kind == "closing":
            closing = Closing.model_validate(one.payload)
            ended = State(report=record.id) if record.kind == "final" else State()
            return closing.model_copy(update={"state": State(**{**closing.state, **ended})})
    raise StorageError(f"record {record.id} names no record of the state that it closed")


def accepted_version_of(root: Path, candidate: str) -> str:
    """Return v<N>, the last version that accepted this candidate; v0 if none did (the baseline)."""
    accepted = (m.iteration for m in read_versions(root) if m.candidate == candidate and m.verdict == "accept")
    return f"v{max(accepted, default=0)}"


def masked_memories(closed: Sequence[VersionMemory], masking: Masking) -> tuple[VersionMemory, ...]:
    """Return the closed versions (all, in order) after a mask or unmask."""
    after = list(closed)
    for n in masking.versions:
        attempts = tuple(one.model_copy(update={"masked": masking.masked}) for one in closed[n].attempts)
        after[n] = closed[n].model_copy(update={"masked": masking.masked, "attempts": attempts})
    return tuple(after)


def memory_texts(before: Sequence[VersionMemory], after: Sequence[VersionMemory]) -> dict[str, str]:
    """Return relative path -> text of memory/v<N>.json of each version that differs."""
    changed = [new for old, new in zip(before, after, strict=True) if new != old]
    return {f"memory/v{new.iteration}.json": new.model_dump_json(indent=1) + "\n" for new in changed}


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
