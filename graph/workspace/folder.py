"""A run's folder: its lock, its secret, its records and where each artifact lies (design 10)."""

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
from tools.store.records import Records, write_atomically
from tools.store.repository import Repository

MINIMUM_FREE = 64 << 20
"""Bytes of free disk without which a run does not start."""


STAMP = re.compile(r"(.+)-(\d{8}T\d{6}Z)(?:-(\d+))?")
"""A workspace's name: its run's, the second in which it began, and which of that second it is."""


class Workspace:
    """An open workspace; `lock` is None for one that is only looked at."""

    def __init__(self, root: Path, lock: IO[str] | None, made: tuple[Path, ...] = ()) -> None:
        """`made`: the folders above that were made for it, the innermost first."""
        self.root = root
        self._lock = lock
        self._made = made
        self.secret = bytes.fromhex((self.private / "secret").read_text())
        self.repository = Repository(root, self.secret)
        self._clock = None if lock is None else clock.Clock(self._time)

    @cached_property
    def records(self) -> Records:
        """The evidence, read when first asked for: `verify` believes git's copy alone, and a damaged file here must
        not stop it."""
        return Records(self.root, self.private / "blobs")

    @property
    def private(self) -> Path:
        """`.kernelwright/`: checkpoint, lock, secret, events, caches; never in git."""
        return self.root / ".kernelwright"

    @property
    def _time(self) -> Path:
        return self.private / "wall_s"

    def wall_s(self) -> float:
        """Wall seconds of the run over all its processes: the time that somebody has held its lock."""
        return self._clock.seconds() if self._clock else clock.wall_s(self._time)

    @property
    def wall_s_before(self) -> float:
        """The same when this process took the lock."""
        return self._clock.before if self._clock else self.wall_s()

    @property
    def task_folder(self) -> Path:
        """The frozen inputs."""
        return self.root / "task"

    def version(self, iteration: int) -> Path:
        """`versions/v<N>`."""
        return self.root / "versions" / f"v{iteration}"

    def write(self, texts: Mapping[str, str]) -> None:
        """Write artifacts (relative path -> text), each atomically. They can be rendered again from the records, so
        they need not survive a power failure; the note of what they are to hold does, and comes first."""
        drift.note(self.root, texts)
        for relative, text in texts.items():
            write_atomically(self.root / relative, text.encode(), durable=False)

    def commit(self, paths: Sequence[str], message: str, trailers: Mapping[str, str], expect_parent: str | None) -> str:
        """`Repository.commit`; WorkspaceError where anything could go with it that the run did not write."""
        drift.refuse(self.repository)
        made = self.repository.commit(paths, message, trailers, expect_parent)
        drift.forget(self.root)
        return made

    @property
    def awaited(self) -> str | None:
        """What the run waits for, one sentence; None: it waits for nobody."""
        path = self.private / "awaited.txt"
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def awaits(self, sentence: str | None) -> None:
        """Say that the run waits for somebody, or that it goes on."""
        path = self.private / "awaited.txt"
        if sentence is None:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, sentence.encode())

    def settings(self) -> Settings:
        """The run's settings as frozen at its start."""
        return load(self.root / "settings.yaml")

    def discard(self) -> None:
        """Take it away, and what was made for it alone: of a run that was refused nothing stays."""
        _take_away(self.root, self._made)

    def close(self) -> None:
        """Give the lock back."""
        if self._clock is not None:
            self._clock.close()
        if self._lock is not None:
            self._lock.close()


def create(settings: Settings) -> Workspace:
    """A new workspace `<workspaces>/<run>-<utc>`, locked, with an empty repository."""
    import yaml

    name = settings.run
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise SettingsError(f"name: {name!r} cannot name a folder; use letters, digits, '.', '_' and '-', at most 64")
    parent = Path(settings.workspaces).resolve()
    made = tuple(folder for folder in (parent, *parent.parents) if not folder.exists())
    root = _new_folder(parent, f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    try:
        private = root / ".kernelwright"
        # What lies in it is nobody else's: the secret, and sizes that are hidden.
        private.mkdir(mode=0o700)
        write_atomically(private / "secret", secrets.token_hex(32).encode())
        (private / "secret").chmod(0o600)
        write_atomically(
            root / "settings.yaml", yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False).encode()
        )
        Repository(root).init()
        return Workspace(root, _lock(root), made)
    except BaseException:
        _take_away(root, made)
        raise


def _take_away(root: Path, made: tuple[Path, ...]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    with contextlib.suppress(OSError):  # another run has begun beside it
        for folder in made:
            folder.rmdir()


def reopen(path: Path) -> Workspace:
    """Lock and open an existing workspace; WorkspaceError when it is not one, or another run has it."""
    root = _known(path)
    workspace = Workspace(root, _lock(root))
    workspace.repository.require_workspace()
    return workspace


def peek(path: Path) -> Workspace:
    """Open an existing workspace without its lock, to read what is finished while a run may be going on."""
    return Workspace(_known(path), None)


def _known(path: Path) -> Path:
    if not is_workspace(path):
        raise WorkspaceError(f"{path}: not a Kernelwright workspace; {_meant(path)}")
    return path.resolve()


def is_workspace(path: Path) -> bool:
    """Whether a run's folder is whole enough to be opened."""
    return (path / ".kernelwright" / "secret").is_file() and (path / "settings.yaml").is_file()


def _meant(path: Path) -> str:
    """What to give instead: the newest run of a config or of a name, the newest in a folder of workspaces."""
    parent, name = (path, "") if path.is_dir() else (path.parent if path.parent.name else Path("workspaces"), path.name)
    if path.is_file() or (path / "reference.py").is_file():
        with contextlib.suppress(SettingsError):
            settings = load(path)
            parent, name = Path(settings.workspaces), settings.run
    stamped = ((STAMP.fullmatch(made.name), made) for made in parent.glob("*") if is_workspace(made))
    found = [(match[2], int(match[3] or 1), made) for match, made in stamped if match and name in ("", match[1])]
    if not found:
        return f"give a folder that `python -m graph run` made; {parent} holds no run{f' of {name}' if name else ''}"
    return f"give {max(found)[2]}, the newest{f' of {name}' if name else ' there'}"


def _new_folder(parent: Path, stem: str) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(parent).free
        if free < MINIMUM_FREE:
            raise DiskFullError(
                f"{parent}: only {free >> 20} MiB of the disk are free and a run needs {MINIMUM_FREE >> 20}; free "
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
    """An exclusive lock that ends with the process, however it ends; its file names the holder."""
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
