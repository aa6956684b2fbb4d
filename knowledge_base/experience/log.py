"""The log of outcomes: append-only JSONL under `$KERNELWRIGHT_HOME/experience`, safe for many processes at once.

Of the lines about the same evidence and methods the one with the greatest stamp counts, so that masking an attempt is
one more line, and merging two logs gives the same result in either direction. A last line that a kill cut short counts
as damaged: it is named, it stays where it is, and the next append begins a line of its own.
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
from knowledge_base.experience.similarity import operator_family
from knowledge_base.pages.wiki import HOME_VARIABLE, home_folder
from tools.artifacts import Bound
from tools.errors import SettingsError, StorageError

LOG_FILE = "attempts.jsonl"


class LogLines(NamedTuple):
    """The lines of log files."""

    attempts: tuple[Attempt, ...]
    """Every line that can be read."""
    damaged: tuple[str, ...]
    """Lines that are no attempts, as `file:line`, with a remark on one that is cut short."""


class Experience:
    """The attempts remembered under one home folder."""

    def __init__(self, home: Path | None = None) -> None:
        """`home`: None for `home_folder()`. Nothing is created before the first append."""
        self.home = home or home_folder()
        self.folder = self.home / "experience"

    def add(self, attempt: Attempt, *, anew: bool = False) -> bool:
        """Append `attempt`; False when it is there already: same evidence and methods, and the same masking (or, with
        `anew`, any, so that a stated outcome unmasks nothing). StorageError when the disk refuses."""
        if attempt.verdict == "infra_error":
            raise ValueError("an infrastructure failure is no outcome of a method")
        with self._open_locked() as file:
            lines = self.read_lines().attempts
            known = next((old for old in _latest_lines(lines) if old.identity == attempt.identity), None)
            if known is not None and (anew or known.masked == attempt.masked):
                return False
            # Edits of its free methods stay.
            self._append_newest(
                file, lines, [attempt if known is None else attempt.model_copy(update={"free": known.free})]
            )
        return True

    def restate(self, attempts: Iterable[Attempt]) -> None:
        """Append `attempts` again as they are now, in the place of their earlier lines."""
        with self._open_locked() as file:
            self._append_newest(file, self.read_lines().attempts, attempts)

    def _append_newest(self, file: BinaryIO, lines: Sequence[Attempt], attempts: Iterable[Attempt]) -> None:
        """Append `attempts` with stamps above those of the existing `lines`."""
        stamp = max([time.time_ns(), *(old.stamp + 1 for old in lines)])
        new = [one.model_copy(update={"stamp": stamp + number}) for number, one in enumerate(attempts)]
        _append(file, new)
        free_methods.write_pages(self.home, _visible_attempts([*lines, *new]))

    def refuse_unwritable(self) -> None:
        """SettingsError where nothing can be appended, before any work whose outcome would be lost. Creates no
        file."""
        path = self.folder / LOG_FILE
        while not path.exists() and path != path.parent:
            path = path.parent
        fits = path.is_file() if path == self.folder / LOG_FILE else path.is_dir()
        if not fits or not os.access(path, os.W_OK):
            why = "is not writable" if fits else "is not a folder" if path.is_file() else "is not a file"
            raise SettingsError(
                f"{path} {why}, but the experience log is in {self.folder}; correct that, or set {HOME_VARIABLE} to a "
                f"writable folder"
            )

    def merge(self, lines: Iterable[Attempt]) -> int:
        """Append those of `lines` that the log does not hold, and return their number. Merging again adds nothing."""
        with self._open_locked() as file:
            old = self.read_lines().attempts
            here = {one.model_dump_json() for one in old}
            new = {
                text: one
                for one in lines
                if one.verdict != "infra_error" and (text := one.model_dump_json()) not in here
            }
            _append(file, sorted(new.values(), key=_merge_order))
            free_methods.write_pages(self.home, _visible_attempts([*old, *new.values()]))
        return len(new)

    def attempts(self) -> tuple[Attempt, ...]:
        """Every attempt that counts and is not masked, newest first."""
        return _visible_attempts(self.read_lines().attempts)

    def attempts_like(
        self, operator: str, language: str, architecture: str, bottleneck: Bound | None = None
    ) -> tuple[Attempt, ...]:
        """Attempts on the same operator family, language and architecture, newest first; of a bottleneck where one
        is given."""
        return tuple(
            attempt
            for attempt in self.attempts()
            if (operator_family(attempt.operator), attempt.language, attempt.architecture)
            == (operator_family(operator), language, architecture)
            and bottleneck in (None, attempt.bottleneck)
        )

    def read_lines(self) -> LogLines:
        """Every line of the log, including those that no longer count."""
        return read_logs(self.folder) if self.folder.is_dir() else LogLines((), ())

    def damage_sentence(self) -> str:
        """A sentence that names the lines that are no attempts; empty without any."""
        found = self.read_lines().damaged
        return f"the experience log is read without lines that are damaged: {', '.join(found)}" if found else ""

    @contextmanager
    def _open_locked(self) -> Iterator[BinaryIO]:
        """The log, opened for appending and locked against other writers."""
        path = self.folder / LOG_FILE
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
        except OSError as error:
            raise StorageError(
                f"{path} cannot be written ({error.strerror}); free space, or set {HOME_VARIABLE} to another folder"
            ) from error


def read_logs(*places: Path) -> LogLines:
    """The lines of files, and of all `*.jsonl` directly in folders. SettingsError for what is neither."""
    attempts, damaged = [], []
    for path in [file for one in places for file in _log_files(one)]:
        try:
            whole = path.read_bytes()
        except OSError as error:
            raise SettingsError(
                f"{path} cannot be read ({error.strerror}); give logs with permission to read"
            ) from error
        lines = whole.split(b"\n")
        for number, line in enumerate(lines, 1):
            found = parse_line(line) if line.strip() else None
            if found is not None:
                attempts.append(found)
            elif line.strip():
                damaged.append(f"{path}:{number}{' (cut short)' if number == len(lines) else ''}")
    return LogLines(tuple(attempts), tuple(damaged))


def _log_files(place: Path) -> list[Path]:
    if place.is_dir():
        return sorted(place.glob("*.jsonl"))
    if not place.is_file():
        raise SettingsError(f"{place}: no such file; give a log (attempts.jsonl) or a folder that holds some")
    return [place]


def parse_line(line: bytes) -> Attempt | None:
    """The attempt in a line of a log; None where the line is no attempt."""
    try:
        return Attempt.model_validate_json(line)
    except ValidationError:
        return None


def _merge_order(attempt: Attempt) -> tuple[int, str]:
    return attempt.stamp, attempt.model_dump_json()


def _latest_lines(lines: Iterable[Attempt]) -> list[Attempt]:
    """The line that counts of each outcome, newest first."""
    latest: dict[tuple[str, ...], Attempt] = {}
    for one in sorted(lines, key=_merge_order, reverse=True):
        latest.setdefault(one.identity, one)
    return list(latest.values())


def _visible_attempts(lines: Iterable[Attempt]) -> tuple[Attempt, ...]:
    return tuple(one for one in _latest_lines(lines) if not one.masked)


def _append(file: BinaryIO, attempts: list[Attempt]) -> None:
    file.seek(0)
    ended = file.read()[-1:] in (b"", b"\n")
    file.write((b"" if ended else b"\n") + b"".join(one.model_dump_json().encode() + b"\n" for one in attempts))
    file.flush()
    os.fsync(file.fileno())
