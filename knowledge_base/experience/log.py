"""The log of outcomes: append-only JSONL under `KERNELWRIGHT_HOME/experience`, safe for many processes at once.

Of the lines about the same evidence and methods the one with the greatest stamp counts, so that masking an attempt is
one more line, and the union of two logs says the same whichever was merged into the other. What a kill tore off at the
end is ignored on reading and removed by the next append.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import ValidationError

from knowledge_base.artifacts import Attempt
from knowledge_base.experience import free_methods
from knowledge_base.experience.similarity import family
from knowledge_base.pages.wiki import HOME, home_folder
from tools.artifacts import Bound
from tools.errors import SettingsError, StorageError

LOG = "attempts.jsonl"


class Read(NamedTuple):
    """What files of lines hold."""

    attempts: tuple[Attempt, ...]
    """Every line that can be read, stamped."""
    damaged: tuple[str, ...]
    """Whole lines that are no attempts, as `file:line`."""


class Experience:
    """The attempts remembered under one home folder."""

    def __init__(self, home: Path | None = None) -> None:
        """`home`: None for `home_folder()`. Nothing is created before the first append."""
        self.home = home or home_folder()
        self.folder = self.home / "experience"

    def add(self, attempt: Attempt, *, anew: bool = False) -> bool:
        """Append `attempt`; False when it is there already (same evidence and methods, and the same masking unless
        it is stated `anew`, which unmasks nothing). StorageError when the disk refuses."""
        if attempt.verdict == "infra_error":
            raise ValueError("a machine's failure is no experience of a method")
        with self._locked() as file:
            lines = self.lines().attempts
            known = next((old for old in _counting(lines) if old.identity == attempt.identity), None)
            if known is not None and (anew or known.masked == attempt.masked):
                return False
            # What was edited or dropped of its free methods stays so.
            self._keep(file, lines, [attempt if known is None else attempt.model_copy(update={"free": known.free})])
        return True

    def restate(self, attempts: Iterable[Attempt]) -> None:
        """Append `attempts` once more, as they now are; of what was said before nothing counts."""
        with self._locked() as file:
            self._keep(file, self.lines().attempts, attempts)

    def _keep(self, file: BinaryIO, lines: Sequence[Attempt], attempts: Iterable[Attempt]) -> None:
        """Append `attempts` as the newest of all; `lines`: those that are there."""
        stamp = max([time.time_ns(), *(old.stamp + 1 for old in lines)])
        new = [one.model_copy(update={"stamp": stamp + number}) for number, one in enumerate(attempts)]
        _append(file, new)
        free_methods.draw(self.home, _visible([*lines, *new]))

    def refuse_unwritable(self) -> None:
        """SettingsError where nothing could be appended, before any work whose outcome would be lost. Creates
        nothing."""
        path = self.folder / LOG
        while not path.exists() and path != path.parent:
            path = path.parent
        fits = path.is_file() if path == self.folder / LOG else path.is_dir()
        if not fits or not os.access(path, os.W_OK):
            why = "may not be written" if fits else "is no folder" if path.is_file() else "is no file"
            raise SettingsError(
                f"{path} {why}, and what is learnt is kept in {self.folder}; mend that, or set {HOME} to a "
                f"writable folder"
            )

    def merge(self, lines: Iterable[Attempt]) -> int:
        """Append those of `lines` (stamped ones, see `read`) that are not here; how many that were. Commutes, and
        again adds nothing."""
        with self._locked() as file:
            old = self.lines().attempts
            here = {one.model_dump_json() for one in old}
            new = {
                text: one
                for one in lines
                if one.verdict != "infra_error" and (text := one.model_dump_json()) not in here
            }
            _append(file, sorted(new.values(), key=_order))
            free_methods.draw(self.home, _visible([*old, *new.values()]))
        return len(new)

    def attempts(self) -> tuple[Attempt, ...]:
        """Every attempt that counts and is not masked, newest first."""
        return _visible(self.lines().attempts)

    def like(
        self, operator: str, language: str, architecture: str, bottleneck: Bound | None = None
    ) -> tuple[Attempt, ...]:
        """Attempts on the same operator family, language and architecture, newest first; of a bottleneck where one
        is given."""
        return tuple(
            attempt
            for attempt in self.attempts()
            if (family(attempt.operator), attempt.language, attempt.architecture)
            == (family(operator), language, architecture)
            and bottleneck in (None, attempt.bottleneck)
        )

    def lines(self) -> Read:
        """Every line of the log, those included that no longer count."""
        return read(self.folder) if self.folder.is_dir() else Read((), ())

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """The log, open for appending, with nobody else writing it."""
        path = self.folder / LOG
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
        except OSError as error:
            raise StorageError(
                f"{path} cannot be written ({error.strerror}); free some space or set {HOME} to a writable folder"
            ) from error


def read(*places: Path) -> Read:
    """The lines of files, and of all `*.jsonl` directly in folders. SettingsError for what is neither."""
    attempts, damaged = [], []
    for place, path in [(one, file) for one in places for file in _files(one)]:
        try:
            # In a folder somebody may be writing; a file that is named is whole, whether or not its last line ends.
            whole = path.read_bytes() if place == path else path.read_bytes().rpartition(b"\n")[0]
        except OSError as error:
            raise SettingsError(f"{path} cannot be read ({error.strerror}); give logs that you may read") from error
        for number, line in enumerate(whole.split(b"\n"), 1):
            found = parse(line, number) if line.strip() else None
            if found is not None:
                attempts.append(found)
            elif line.strip():
                damaged.append(f"{path}:{number}")
    return Read(tuple(attempts), tuple(damaged))


def _files(place: Path) -> list[Path]:
    if place.is_dir():
        return sorted(place.glob("*.jsonl"))
    if not place.is_file():
        raise SettingsError(f"{place}: no such file; give a log (attempts.jsonl) or a folder that holds some")
    return [place]


def parse(line: bytes, number: int) -> Attempt | None:
    """The attempt in line `number` of a log; None: it is none."""
    try:
        found = Attempt.model_validate_json(line)
    except ValidationError:
        return None
    return found if found.stamp else found.model_copy(update={"stamp": number})


def _order(attempt: Attempt) -> tuple[int, str]:
    return attempt.stamp, attempt.model_dump_json()


def _counting(lines: Iterable[Attempt]) -> list[Attempt]:
    """Of each thing the line that counts, newest first."""
    latest: dict[tuple[str, ...], Attempt] = {}
    for one in sorted(lines, key=_order, reverse=True):
        latest.setdefault(one.identity, one)
    return list(latest.values())


def _visible(lines: Iterable[Attempt]) -> tuple[Attempt, ...]:
    return tuple(one for one in _counting(lines) if not one.masked)


def _append(file: BinaryIO, attempts: list[Attempt]) -> None:
    _mend(file)
    file.write(b"".join(one.model_dump_json().encode() + b"\n" for one in attempts))
    file.flush()
    os.fsync(file.fileno())


def _mend(file: BinaryIO) -> None:
    """Cut a torn last line off; one that only lacks its line feed is as torn, for nothing said that it had been
    written."""
    file.seek(0)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        file.truncate(whole)
