"""Runs the user's program under the recorder and returns what the recorder wrote."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from tools.errors import SettingsError

PACKAGE = "_kernelwright_capture"
"""Name of the recorder's package in the user's process, where `harness` may be a package of the user's."""
VARIABLE = "KERNELWRIGHT_CAPTURE"
PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl(2) that names the signal for a process whose parent has ended."""
_BOOTSTRAP = f"""
import sys
# A sitecustomize of the user's that this one hides runs first.
def run_hidden_one():
    import importlib.machinery, importlib.util, os
    here = os.path.dirname(os.path.abspath(__file__))
    path = [one for one in sys.path if os.path.abspath(one) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
run_hidden_one()
from {PACKAGE} import install
install.start()
"""
_RUN_MAIN = f"import sys; from {PACKAGE}.install import run_main; run_main(sys.argv[1:])"


class Recorded(NamedTuple):
    """What the recorder wrote, and how the program ended."""

    processes: tuple[dict[str, Any], ...]
    """The record of each process."""
    command: tuple[str, ...]
    """The command as the user gave it."""
    exit_code: int


def run_program(command: Sequence[str], target: str, python: str = "") -> Recorded:
    """Run a script with its arguments, or `-m module`, once under the recorder; its output goes where ours goes.

    Raises SettingsError for a target or a command that cannot be right.
    """
    if not command:
        raise SettingsError(
            "capture: no program is given; write it after `--`, as in `capture --target pkg.mod:function -- bench.py`"
        )
    if command[0] != "-m" and not Path(command[0]).is_file():
        raise SettingsError(f"capture: {command[0]}: no such file; name a Python script, or `-m module`")
    # A process that outlives the program may still write.
    with tempfile.TemporaryDirectory(prefix="kernelwright-capture-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        record = folder / "record"
        record.mkdir()
        _write_recorder(folder)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", "")))),
            VARIABLE: f"{record}\n{target}",
        }
        through_main = ["-c", _RUN_MAIN] if target.startswith("__main__:") and command[0] != "-m" else []
        end_with_us = functools.partial(_end_with, os.getpid(), ctypes.CDLL(None).prctl)
        try:
            done = subprocess.run(
                [python or sys.executable, *through_main, *command],
                env=environment,
                check=False,
                preexec_fn=end_with_us,
            )
        except OSError as error:
            raise SettingsError(f"--python: {python} cannot be started ({error.strerror}); name a Python") from None
        processes = tuple(json.loads(path.read_text(encoding="utf-8")) for path in sorted(record.glob("*.json")))
    return Recorded(processes, tuple(command), done.returncode)


def _end_with(parent: int, prctl: Callable[[int, int], int]) -> None:
    """Let this process end when `parent` does: a program whose capture was killed would keep its GPU."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def _write_recorder(folder: Path) -> None:
    """Copy the recorder to a folder, under a name that hides no package of the user's."""
    (folder / "sitecustomize.py").write_text(_BOOTSTRAP, encoding="utf-8")
    (folder / PACKAGE).mkdir()
    for file in resources.files("tools.harness.capture").iterdir():
        if file.name.endswith(".py"):
            text = file.read_text(encoding="utf-8").replace("harness.capture", PACKAGE)
            (folder / PACKAGE / file.name).write_text(text, encoding="utf-8")
