"""Detects changes of a workspace that the run did not make: files that match neither git nor the run's own writes
(C1)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.artifacts import Record, digest
from tools.errors import StorageError, WorkspaceError
from tools.store.blobs import write_error
from tools.store.records import Records, record_key
from tools.store.repository import Commit, Repository, unrelated_commits

POINTER_FILE = "current_iteration.txt"
"""The file that holds the number of the last closed version."""
FROZEN_PATHS = (".gitignore", "settings.yaml", "task")
"""Paths that exist before the first commit; their readers check them."""


def announce_writes(root: Path, texts: Mapping[str, str]) -> None:
    """Log the digests of files that the run is about to write (relative path -> text), to recognise them as its own."""
    path = _path_of_own_writes_log(root)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{digest(text)} {relative}\n" for relative, text in texts.items()))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise write_error(path, error) from error


def forget_writes(root: Path) -> None:
    """Delete the log of writes after a commit, from which on git says what the files hold."""
    _path_of_own_writes_log(root).unlink(missing_ok=True)


def drifted_paths(repository: Repository, expected: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the sorted paths that changed outside the run, except for the `expected` ones and new files of the
    stores."""
    changed = repository.drift((*expected, *(() if repository.head() else FROZEN_PATHS)))
    path = _path_of_own_writes_log(repository.root)
    noted = set(path.read_text(encoding="utf-8").splitlines()) if changed and path.is_file() else set()
    return tuple(name for name in changed if not _is_as_written(repository.root, name, noted))


def drift_sentence(repository: Repository, found: Sequence[str]) -> str:
    """Return one sentence that names the changed paths and the git commands that restore them."""
    return (
        f"{repository.root}: {', '.join(found)} changed outside the run; {repository.drift_remedy(found)} in that "
        f"folder puts it right"
    )


def replacement_sentence(repository: Repository) -> str:
    """Return one sentence about what makes git show other objects than the commits hold; empty: there is nothing."""
    found = ", ".join(repository.replaced_objects())
    said = f"{repository.root}: .git/{found} was not made by this run and makes git show other commits; delete it"
    return said if found else ""


def closing_record(commit: Commit, records: Records) -> Record | None:
    """Return the record that the run closes with `commit`; None: there is none, so the commit is a stranger's.

    A version's record is the verdict on its iteration and candidate, the report's the end of the run, a mask's its own.
    """
    said = commit.trailers
    try:
        record = records.get(said.get("Evidence") or said.get("Report") or "")
    except StorageError:
        return None
    if "Version" not in said:
        closes = record.kind == "final" if "Report" in said else bool(record.payload.get("masking"))
        return record if closes else None
    iteration, restored = (said.get(name, "v")[1:] for name in ("Version", "Restores"))
    instead = {"instead": int(restored)} if restored.isdigit() else {}
    if not iteration.isdigit() or record.key != record_key("verdict", iteration=int(iteration), **instead):
        return None
    outcome = record.payload["outcome"] if int(iteration) else "baseline"
    same = (said.get("Candidate"), said.get("Verdict")) == (record.payload["candidate"] or "none", outcome)
    return record if same else None


def run_commits(history: Sequence[Commit], records: Records) -> tuple[Commit, ...]:
    """Return the commits of `history` that the run made, in its order."""
    others = unrelated_commits(history, lambda commit: closing_record(commit, records) is not None)
    return tuple(commit for commit in history if commit.id not in others)


def foreign_commit_sentence(repository: Repository, history: Sequence[Commit], records: Records) -> str:
    """Return one sentence about the newest commit that the run did not make; empty: the run made all commits."""
    own = run_commits(history, records)
    return stranger_sentence(repository.root, [commit.id for commit in history if commit not in own])


def stranger_sentence(root: Path, found: Sequence[str]) -> str:
    """Return one sentence about the first of the commits `found`, which the run did not make; empty: there is none."""
    advice = "undo it with `git reset`, or start a new run from that kernel"
    return f"{root}: commit {found[0][:12]} was not made by this run; {advice}" if found else ""


def refuse_drift(repository: Repository, expected: Sequence[str] = ()) -> None:
    """Raise WorkspaceError if a path changed outside the run, except for the `expected` ones."""
    if found := drifted_paths(repository, expected):
        raise WorkspaceError(drift_sentence(repository, found))


def _path_of_own_writes_log(root: Path) -> Path:
    return root / ".kernelwright" / "written"


def _is_as_written(root: Path, name: str, noted: set[str]) -> bool:
    path = root / name
    return path.is_file() and f"{digest(path.read_bytes())} {name}" in noted
