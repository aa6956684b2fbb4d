"""What lies in a workspace and is not the run's: it holds neither what git says nor what the run has written there
since (C1)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.artifacts import digest
from tools.errors import WorkspaceError
from tools.store.records import write_error
from tools.store.repository import Commit, Repository, unrelated_commits

FROZEN = (".gitignore", "settings.yaml", "task")
"""What the first commit finds there; whoever reads it checks it."""


def note(root: Path, texts: Mapping[str, str]) -> None:
    """Keep what the run is about to write (relative path -> text), so that it can be told from what others write
    there."""
    path = _notes(root)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{digest(text)} {relative}\n" for relative, text in texts.items()))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise write_error(path, error) from error


def forget(root: Path) -> None:
    """What was written is committed: from now on git says what the files hold."""
    _notes(root).unlink(missing_ok=True)


def drifted(repository: Repository, expected: Sequence[str] = ()) -> tuple[str, ...]:
    """Paths that drifted, sorted, but for those `expected` to. New files of the stores are none: records are checked
    when they are read."""
    changed = repository.drift((*expected, *(() if repository.head() else FROZEN)))
    path = _notes(repository.root)
    noted = set(path.read_text(encoding="utf-8").splitlines()) if changed and path.is_file() else set()
    return tuple(name for name in changed if not _ours(repository.root, name, noted))


def told(repository: Repository, found: Sequence[str]) -> str:
    """One sentence that names them, with the commands that put them right."""
    return (
        f"{repository.root}: {', '.join(found)} changed outside the run; {repository.drift_remedy(found)} in that "
        f"folder puts it right"
    )


def stranger(root: Path, history: Sequence[Commit]) -> str:
    """One sentence on the newest commit that the run did not make; empty where it made all."""
    found = unrelated_commits(history)
    advice = "undo it with `git reset`, or start a new run from that kernel"
    return f"{root}: commit {found[0][:12]} was not made by this run; {advice}" if found else ""


def refuse(repository: Repository, expected: Sequence[str] = ()) -> None:
    """WorkspaceError where anything drifted but what was `expected` to."""
    if found := drifted(repository, expected):
        raise WorkspaceError(told(repository, found))


def _notes(root: Path) -> Path:
    return root / ".kernelwright" / "written"


def _ours(root: Path, name: str, noted: set[str]) -> bool:
    path = root / name
    return path.is_file() and f"{digest(path.read_bytes())} {name}" in noted
