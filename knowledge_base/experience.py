"""The log of outcomes: append-only JSONL under `KERNELWRIGHT_HOME/experience`, safe for many processes at once.

The newest line about the same evidence and methods is the one that counts, so that masking an attempt is one more line. What a kill
tore off at the end is ignored on reading and removed by the next append.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from knowledge_base.artifacts import Attempt
from tools.artifacts import Bound, DType
from tools.errors import StorageError

HOME = "KERNELWRIGHT_HOME"
LOG = "attempts.jsonl"


def home_folder() -> Path:
    """$KERNELWRIGHT_HOME, else ~/.local/share/kernelwright."""
    return Path(os.environ.get(HOME) or "~/.local/share/kernelwright").expanduser()


class Experience:
    """The attempts remembered under one home folder."""

    def __init__(self, home: Path | None = None) -> None:
        """`home`: None for `home_folder()`. Nothing is created before the first append."""
        self.home = home or home_folder()
        self.folder = self.home / "experience"

    def add(self, attempt: Attempt) -> bool:
        """Append `attempt`; False when it is there already (same evidence, methods and masking). StorageError when the disk refuses."""
        if attempt.verdict == "infra_error":
            raise ValueError("a machine's failure is no experience of a method")
        path = self.folder / LOG
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                known = {_identity(old): old.masked for old in self._all()}
                if known.get(_identity(attempt)) == attempt.masked:
                    return False
                _mend(file)
                file.write(attempt.model_dump_json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(
                f"{path} cannot be written ({error.strerror}); free some space or set {HOME} to a writable folder"
            ) from error
        return True

    def attempts(self) -> tuple[Attempt, ...]:
        """Every attempt that counts and is not masked, newest first."""
        latest: dict[tuple[str, ...], Attempt] = {}
        for attempt in self._all():
            latest.pop(_identity(attempt), None)
            latest[_identity(attempt)] = attempt
        return tuple(attempt for attempt in reversed(latest.values()) if not attempt.masked)

    def like(
        self, operator: str, language: str, architecture: str, dtype: DType | None = None, bottleneck: Bound | None = None
    ) -> tuple[Attempt, ...]:
        """Attempts on the same operator, language and architecture, newest first; dtype and bottleneck narrow where given."""
        return tuple(
            attempt
            for attempt in self.attempts()
            if (attempt.operator, attempt.language, attempt.architecture) == (operator, language, architecture)
            and dtype in (None, attempt.dtype)
            and bottleneck in (None, attempt.bottleneck)
        )

    def damaged(self) -> tuple[str, ...]:
        """Whole lines that are no attempts, as `file:line`; reading leaves them out."""
        return tuple(where for where, attempt in self._lines() if attempt is None)

    def _all(self) -> Iterator[Attempt]:
        return (attempt for _, attempt in self._lines() if attempt is not None)

    def _lines(self) -> Iterator[tuple[str, Attempt | None]]:
        for path in sorted(self.folder.glob("*.jsonl")):
            whole = path.read_bytes().rpartition(b"\n")[0]
            for number, line in enumerate(whole.split(b"\n"), 1):
                if line.strip():
                    yield f"{path}:{number}", _parse(line)


def _identity(attempt: Attempt) -> tuple[str, ...]:
    return (attempt.evidence, *attempt.methods)


def _parse(line: bytes) -> Attempt | None:
    try:
        return Attempt.model_validate_json(line)
    except ValidationError:
        return None


def _mend(file: BinaryIO) -> None:
    """Cut a torn last line off; one that only lacks its line feed is as torn, for nothing said that it had been written."""
    file.seek(0)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        file.truncate(whole)
