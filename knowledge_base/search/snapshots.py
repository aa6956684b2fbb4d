"""Indexes that can be thrown away: each in a folder named by the hash of what it holds, written once, whole or not at all.

Whoever finds none builds it, under a lock, in a folder beside it, and renames that when it is whole, with the hashes of its files. Each
reader checks these; where the files are no longer what was written, it is built anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MANIFEST = "manifest.json"
"""Hashes of a generation's files; the last that is written."""
BUILDING = "building-"
KEPT, UNUSED_S = 4, 3600
WAIT_S = 120.0
"""For another process that builds."""


class Unavailable(Exception):
    """Why there are no vectors here, in one clause; the lexical half answers alone."""


class Generations:
    """The generations in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def opened(self, key: str, write: Callable[[Path], None]) -> Path:
        """The generation `key`, whole. Where there is none, `write` fills an empty folder; Unavailable says why that could not be."""
        place = self._whole(key)
        if place is None:
            with self._lock():
                place = self._whole(key) or self._build(key, write)
        with suppress(OSError):
            os.utime(place)
        return place

    def condemn(self, key: str) -> None:
        """Have a generation built anew that cannot be used."""
        with self._lock(), suppress(OSError):
            for place in self.folder.glob(f"{key}-*"):
                (place / MANIFEST).unlink()

    def _whole(self, key: str) -> Path | None:
        """The generation `key`, if it is there and its files are what was written."""
        return next((place for place in sorted(self.folder.glob(f"{key}-*")) if intact(place)), None)

    def _build(self, key: str, write: Callable[[Path], None]) -> Path:
        """Write a generation and rename it when it is whole. The lock is held: what is half made was left by a kill."""
        for old in (*self.folder.glob(f"{BUILDING}*"), *self.folder.glob(f"{key}-*")):
            shutil.rmtree(old, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix=BUILDING, dir=self.folder))
        write(made)
        sums = {file.relative_to(made).as_posix(): _sum(file) for file in sorted(made.rglob("*")) if file.is_file()}
        (made / MANIFEST).write_text(json.dumps(sums), encoding="utf-8")
        place = made.rename(self.folder / f"{key}-{made.name.removeprefix(BUILDING)}")
        self._sweep()
        return place

    def _sweep(self) -> None:
        """Remove generations that nobody has opened for an hour, less the newest few."""
        found = sorted((one for one in self.folder.iterdir() if one.is_dir()), key=lambda one: -one.stat().st_mtime)
        for old in found[KEPT:]:
            if time.time() - old.stat().st_mtime > UNUSED_S:
                shutil.rmtree(old, ignore_errors=True)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Held by the one process that builds; Unavailable when another one does for too long, or nothing can be written here."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / "lock").open("w")
        except OSError as error:
            raise Unavailable(f"{self.folder} cannot be written ({error.strerror})") from error
        with file:
            until = time.monotonic() + WAIT_S
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise Unavailable(f"another process builds the index in {self.folder}") from None
                    time.sleep(0.05)
            yield


def intact(place: Path) -> bool:
    """Whether a generation is there and its files are what was written."""
    try:
        sums = json.loads((place / MANIFEST).read_bytes())
        return all(_sum(place / name) == said for name, said in sums.items())
    except (OSError, ValueError, AttributeError):
        return False


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
