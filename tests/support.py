"""What tests of every room use: a program's output, and a refusal in one sentence."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tools.errors import SettingsError
from tools.executors.local import LocalExecutor
from tools.executors.toolchain import Toolchain
from tools.executors.toolchain_job import read_toolchain
from tools.store.blobs import Blobs

Capsys = pytest.CaptureFixture[str]
"""The fixture `capsys`."""
Beside = tuple[LocalExecutor, Blobs]
"""The fixture `beside` of all rooms: this machine and its blobs."""
BARE = Toolchain(
    system="Linux",
    python="3.11",
    packages={},
    programs={},
    torch_cuda="",
    counters_need_root=False,
    cxx_argv=(),
    cxx_version="",
    cxx_flags=("-O3",),
    cxx_threads=0,
    cxx_float16=False,
    cutlass="",
    cutlass_folder="/nowhere",
)
"""A machine on which nothing is installed."""


def toolchain_here(folder: Path) -> Toolchain:
    """What is installed on this machine as it is now; `folder` holds the job."""
    blobs = Blobs(folder / "blobs")
    with LocalExecutor(blobs, folder) as executor:
        return read_toolchain(executor, blobs)


def run_captured(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended, with what it wrote as text; `options` are those of `subprocess.run`."""
    return subprocess.run(command, capture_output=True, text=True, **{"check": False, **options})


@contextmanager
def one_sentence(*words: str, error: type[Exception] = SettingsError, without: str = "Traceback") -> Iterator[None]:
    """The block must raise `error`, in one line that holds all `words` and not `without`."""
    with pytest.raises(error) as caught:
        yield
    said = str(caught.value)
    assert "\n" not in said and without not in said and all(word in said for word in words), said
