"""The workspace of a run: its folder with lock, secret, records and artifacts."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO

from graph.settings import Settings, load
from graph.workspace import clock, drift
from tools.errors import DiskFullError, SettingsError, WorkspaceError
from tools.store.blobs import write_atomically
from tools.store.records import Records
from tools.store.repository import Repository

MIN_FREE_BYTES = 64 << 20
"""The free bytes on the disk that a run needs to start."""


WORKSPACE_NAME = re.compile(r"(.+)-(\d{8}T\d{6}Z)(?:-(\d+))?")
"""The name of a workspace: the name of its run, the second of its start, and its number in that second."""


class Workspace:
    """An open workspace; `lock` is None if it is only read."""

    def __init__(self, root: Path, lock: IO[str] | None, created_folders: tuple[Path, ...] = ()) -> None:
        """`created_folders`: the parent folders that were created for it, the innermost first."""
        self.root = root
        self._lock = lock
        self._made = created_folders
        self.secret = bytes.fromhex((self.private / "secret").read_text())
        self.repository = Repository(root, self.secret)
        self._clock = None if lock is None else clock.Clock(self._clock_path)

    @cached_property
    def records(self) -> Records:
        """The records, read at the first use: `verify` uses git's copy alone, and a damaged file here must not stop
        it."""
        return Records(self.root, self.private / "blobs")

    @property
    def private(self) -> Path:
        """`.kernelwright/`: checkpoint, lock, secret, events, caches; never in git."""
        return self.root / ".kernelwright"

    @property
    def _clock_path(self) -> Path:
        return self.private / "wall_s"

    def wall_s(self) -> float:
        """Return the wall seconds of the run over all its processes, which is the time that its lock was held."""
        return self._clock.seconds() if self._clock else clock.read_wall_seconds(self._clock_path)

    @property
    def wall_s_before(self) -> float:
        """The wall seconds of the run before this process."""
        return self._clock.before if self._clock else self.wall_s()

    @property
    def task_folder(self) -> Path:
        """The folder of the frozen task."""
        return self.root / "task"

    def version(self, iteration: int) -> Path:
        """`versions/v<N>`."""
        return self.root / "versions" / f"v{iteration}"

    def write(self, texts: Mapping[str, str]) -> None:
        """Write artifacts (relative path -> text), each atomically. The log of writes survives a power failure; they
        need not, as the records can render them again."""
        drift.announce_writes(self.root, texts)
        for relative, text in texts.items():
            write_atomically(self.root / relative, text.encode(), durable=False)

    def commit(self, paths: Sequence[str], message: str, trailers: Mapping[str, str], expect_parent: str | None) -> str:
        """Commit paths and return the commit's id; raise WorkspaceError if a file was changed outside the run."""
        drift.refuse_drift(self.repository)
        made = self.repository.commit(paths, message, trailers, expect_parent)
        drift.forget_writes(self.root)
        return made

    @property
    def awaited(self) -> str | None:
        """The answer that the run waits for, in one sentence; None: it does not wait."""
        path = self.private / "awaited.txt"
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def set_awaited(self, sentence: str | None) -> None:
        """Save the answer that the run waits for, or with None that the run continues."""
        path = self.private / "awaited.txt"
        if sentence is None:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, sentence.encode())

    def settings(self) -> Settings:
        """The run's settings as frozen at its start."""
        return load(self.root / "settings.yaml")

    def discard(self) -> None:
        """Delete the workspace and the folders that were created for it, after a refused run."""
        _remove_folders(self.root, self._made)

    def close(self) -> None:
        """Stop the clock and release the lock."""
        if self._clock is not None:
            self._clock.close()
        if self._lock is not None:
            self._lock.close()


def create(settings: Settings) -> Workspace:
    """Create and lock a workspace `<workspaces>/<run>-<utc>` with an empty repository."""
    import yaml

    name = settings.run_name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise SettingsError(f"name: {name!r} cannot name a folder; use letters, digits, '.', '_' and '-', at most 64")
    parent = Path(settings.workspaces).resolve()
    created_folders = tuple(folder for folder in (parent, *parent.parents) if not folder.exists())
    root = _new_folder(parent, f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    try:
        private = root / ".kernelwright"
        # Private: it holds the secret and the hidden sizes.
        private.mkdir(mode=0o700)
        write_atomically(private / "secret", secrets.token_hex(32).encode())
        (private / "secret").chmod(0o600)
        write_atomically(
            root / "settings.yaml", yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False).encode()
        )
        Repository(root).init()
        return Workspace(root, _lock(root), created_folders)
    except BaseException:
        _remove_folders(root, created_folders)
        raise


def _remove_folders(root: Path, created_folders: tuple[Path, ...]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    with contextlib.suppress(OSError):  # another run has begun beside it
        for folder in created_folders:
            folder.rmdir()


def reopen(path: Path) -> Workspace:
    """Lock and open an existing workspace; raise WorkspaceError if it is none, or another process holds its lock."""
    root = _workspace_root(path)
    workspace = Workspace(root, _lock(root))
    workspace.repository.require_workspace()
    return workspace


def open_read_only(path: Path) -> Workspace:
    """Open an existing workspace without its lock, to read it while a run may be in progress."""
    return Workspace(_workspace_root(path), None)


def _workspace_root(path: Path) -> Path:
    if not is_workspace(path):
        raise WorkspaceError(f"{path}: not a Kernelwright workspace; {_suggest_workspace(path)}")
    return path.resolve()


def is_workspace(path: Path) -> bool:
    """Return whether the folder is a workspace: it has a secret and settings."""
    return (path / ".kernelwright" / "secret").is_file() and (path / "settings.yaml").is_file()


def _suggest_workspace(path: Path) -> str:
    """Return advice on which workspace to give instead: the newest run of a config, of a name or in a folder."""
    parent, name = (path, "") if path.is_dir() else (path.parent if path.parent.name else Path("workspaces"), path.name)
    if path.is_file() or (path / "reference.py").is_file():
        with contextlib.suppress(SettingsError):
            settings = load(path)
            parent, name = Path(settings.workspaces), settings.run_name
    stamped = ((WORKSPACE_NAME.fullmatch(made.name), made) for made in parent.glob("*") if is_workspace(made))
    found = [(match[2], int(match[3] or 1), made) for match, made in stamped if match and name in ("", match[1])]
    if not found:
        return f"give a folder that `python -m graph run` made; {parent} holds no run{f' of {name}' if name else ''}"
    return f"give {max(found)[2]}, the newest{f' of {name}' if name else ' there'}"


def _new_folder(parent: Path, stem: str) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(parent).free
        if free < MIN_FREE_BYTES:
            raise DiskFullError(
                f"{parent}: only {free >> 20} MiB of the disk are free and a run needs {MIN_FREE_BYTES >> 20}; free "
                f"some space"
            )
        for attempt in itertools.count(1):
            root = parent / (stem if attempt == 1 else f"{stem}-{attempt}")
            with contextlib.suppress(FileExistsError):
                root.mkdir()
                return root
    except OSError as error:
        raise SettingsError(
            f"workspaces: {parent} cannot be used ({error.strerror}); name a folder you may write to"
        ) from error
    raise AssertionError("unreachable")


def _lock(root: Path) -> IO[str]:
    """Take the exclusive lock of a workspace and return its file, which names the holder; it ends with the process."""
    path = root / ".kernelwright" / "lock"
    # Opened for appending: truncating before the lock is ours would wipe the holder's number.
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise WorkspaceError(
            f"{root}: in use by process {holder}; wait until it ends, or stop it, then resume"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
