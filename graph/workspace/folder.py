"""A run's folder: its lock, its secret, its records and where each artifact lies (design 10)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO

from graph.settings import Settings, load, parse
from graph.workspace import clock
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
        """The evidence, read when first asked for: `verify` believes git's copy alone, and a damaged file here must not stop it."""
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

    def write(self, relative: str, text: str) -> None:
        """Write one artifact atomically. It can be rendered again from the records, so it need not survive a power failure."""
        write_atomically(self.root / relative, text.encode(), durable=False)

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
        import yaml

        path = self.root / "settings.yaml"
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return parse(data, origin=str(path), base=self.root)

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
        write_atomically(root / "settings.yaml", yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False).encode())
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
    workspace.repository.check()
    return workspace


def peek(path: Path) -> Workspace:
    """Open an existing workspace without its lock, to read what is finished while a run may be going on."""
    return Workspace(_known(path), None)


def _known(path: Path) -> Path:
    if not _is_one(path):
        raise WorkspaceError(f"{path}: not a Kernelwright workspace; {_meant(path)}")
    return path.resolve()


def _is_one(path: Path) -> bool:
    return (path / ".kernelwright" / "secret").is_file() and (path / "settings.yaml").is_file()


def _meant(path: Path) -> str:
    """What to give instead: a config or its name was given, or the folder that holds workspaces."""
    if path.is_file() or (path / "reference.py").is_file():
        try:
            settings = load(path)
        except SettingsError:
            return "give a folder that `python -m graph run` made"
        found = _newest(Path(settings.workspaces), settings.run)
        started = f"no run of this config is in {settings.workspaces}/, and `python -m graph run {path}` starts one"
        return f"give {found}, the newest run of this config" if found else started
    if path.is_dir():
        found = _newest(path)
        return f"give one that is in it, the newest is {found}" if found else "give a folder that `python -m graph run` made"
    found = _newest(path.parent if path.parent.name else Path("workspaces"), path.name)
    return (
        f"give {found}, the newest of that name" if found else "there is none of that name; give a folder that `python -m graph run` made"
    )


def _newest(parent: Path, name: str = "") -> Path | None:
    """The workspace in `parent` that was made last, of a run of that name where one is given."""
    stamped = ((STAMP.fullmatch(path.name), path) for path in parent.glob("*") if _is_one(path))
    found = [(match[2], int(match[3] or 1), path) for match, path in stamped if match and name in ("", match[1])]
    return max(found)[2] if found else None


def _new_folder(parent: Path, stem: str) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(parent).free
    except OSError as error:
        raise SettingsError(f"workspaces: {parent} cannot be made ({error.strerror}); name a folder you may write to") from error
    if free < MINIMUM_FREE:
        raise DiskFullError(f"{parent}: only {free >> 20} MiB are free on the disk and a run needs {MINIMUM_FREE >> 20}; free some space")
    for attempt in range(1, 1000):
        root = parent / (stem if attempt == 1 else f"{stem}-{attempt}")
        try:
            root.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise SettingsError(f"workspaces: {root} cannot be made ({error.strerror}); name a folder you may write to") from error
        return root
    raise SettingsError(f"workspaces: {parent} holds a thousand runs of this second; wait a moment and run again")


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
        raise WorkspaceError(f"{root}: in use by process {holder}; wait until it ends, or stop it, then resume") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
