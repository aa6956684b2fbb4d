"""The runs of a suite. Each is a process; as many run at a time as there are devices of the kind, and an unfinished run
is resumed by the next score."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from graph.score import table
from graph.score.result import Ending, Result, read_result
from graph.score.suite import SuiteProblem, merge_settings, read_suite, settings_digest
from graph.settings import Settings
from graph.workspace.folder import WORKSPACE_NAME, is_workspace
from tools.errors import SettingsError, WorkspaceError
from tools.executors.base import Device
from tools.store.blobs import write_atomically
from tools.store.records import Records, record_key
from tools.tasks.loader import detect_language
from tools.tasks.task_handle import open_machine

PR_SET_PDEATHSIG = 1
ROOT = Path(__file__).resolve().parents[2]
"""The folder of the packages that this process runs."""
Say = Callable[[str], None]


class ProblemRun:
    """One problem of a suite with its run."""

    def __init__(self, problem: SuiteProblem, out: Path, suite: Path) -> None:
        self.name, self.out = problem.name, out
        self.notes = out / ".score"
        self.ending = self._read_ending()
        self.settings: Settings | None = None
        self._finished: Result | None = None
        try:
            self.settings = problem.run_settings(out, suite)
            kind = detect_language(Path(self.settings.task or self.settings.kernel or "")).device
            current_digest = settings_digest(self.settings)
        except SettingsError as error:
            self.kind, self.ending = "cpu", Ending(settings_digest="", code=2, reason=str(error), final=True)
            return
        self.kind = kind
        if self.ending is not None and self.ending.settings_digest != current_digest and self.workspace is not None:
            raise SettingsError(
                f"{suite}: {self.name} was started with other settings or files in {self.workspace}; remove that "
                f"folder to score it anew, or name another with --out"
            )
        if self.ending is None and self.workspace is not None:
            raise SettingsError(
                f"{suite}: {self.name} has a run in {self.workspace} that this score did not begin; name another --out"
            )
        if self.ending is None or self.ending.settings_digest != current_digest:
            self.ending = Ending(settings_digest=current_digest)

    def _read_ending(self) -> Ending | None:
        try:
            return Ending.model_validate_json((self.notes / f"{self.name}.json").read_bytes())
        except (OSError, ValidationError):
            return None

    @property
    def workspace(self) -> Path | None:
        """The newest workspace that has a record of its task; older ones, which a killed process left, are deleted."""
        made = [
            (m, path) for path in self.out.iterdir() if (m := WORKSPACE_NAME.fullmatch(path.name)) and m[1] == self.name
        ]
        for _, path in sorted(made, key=lambda one: (one[0][2], int(one[0][3] or 1)), reverse=True):
            records = Records(path)
            if is_workspace(path) and (records.find(record_key("task")) or records.find(record_key("loaded"))):
                return path
            if self._read_ending() is not None:
                shutil.rmtree(path)
        return None

    @property
    def is_done(self) -> bool:
        """Nothing remains to be run."""
        return self.settings is None or self.result().status != "unfinished"

    def result(self) -> Result:
        """The result so far."""
        # The records of a finished run stay as they are, and there may be hundreds of runs.
        found = self._finished or read_result(self.name, self.workspace, self.ending)
        self._finished = found if found.status == "finished" else None
        return found

    def start(self, slot: Device | None) -> subprocess.Popen[bytes]:
        """Start the run, or resume it, on the GPU `slot`."""
        assert self.settings is not None and self.ending is not None, "there is something to run"
        import yaml

        config, workspace = self.notes / f"{self.name}.yaml", self.workspace
        config.write_text(
            yaml.safe_dump(self.settings.model_dump(mode="json", exclude_none=True), sort_keys=False), encoding="utf-8"
        )
        self._write_ending(Ending(settings_digest=self.ending.settings_digest))
        work = ["resume", str(workspace)] if workspace else ["run", str(config)]
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {
            **os.environ,
            "PYTHONPATH": paths,
            **({"CUDA_VISIBLE_DEVICES": slot.details["uuid"]} if slot else {}),
        }
        with (
            (self.notes / f"{self.name}.out").open("wb") as said,
            (self.notes / f"{self.name}.err").open("wb") as complained,
        ):
            return subprocess.Popen(
                [sys.executable, "-m", "graph", *work, "--quiet", "--json"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=complained,
                # Ctrl-C is passed on once, by this process.
                process_group=0,
                preexec_fn=_die_with_parent,
            )

    def record_exit(self, code: int) -> None:
        """Save how the process ended."""
        assert self.ending is not None
        output = (self.notes / f"{self.name}.out").read_text(encoding="utf-8", errors="replace").splitlines()
        complained = (self.notes / f"{self.name}.err").read_text(encoding="utf-8", errors="replace").splitlines()
        try:
            printed = json.loads(output[-1])
            status, reason = printed["status"], printed.get("reason") or ""
        except (ValueError, LookupError):
            status, reason = (
                "lost",
                complained[-1] if complained else f"it ended with exit code {code} and said nothing",
            )
        final = status in ("refused", "not_measured") and self.workspace is None
        self._write_ending(Ending(settings_digest=self.ending.settings_digest, code=code, reason=reason, final=final))

    def _write_ending(self, ending: Ending) -> None:
        self.ending = ending
        write_atomically(self.notes / f"{self.name}.json", ending.model_dump_json().encode())


def _die_with_parent() -> None:
    """Let the kernel end the child process as soon as its parent ends, for whatever reason."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


AS_PUBLISHED: Mapping[str, Any] = {"judge": {"inputs": "as_published"}}
"""Keys of a config with which a kernel is checked on the inputs of its suite alone."""


def score(suite: Path, out: Path, say: Say, over: Mapping[str, Any] = MappingProxyType({})) -> table.Score:
    """Run the unfinished problems of a suite; write score.md, score.json and score.html into `out` after each of them.

    `over`: keys of a config for all problems, over the suite's own.

    SettingsError for a suite that cannot be read, or where `out` holds runs of other settings.
    """
    problems = [replace(problem, settings=merge_settings(problem.settings, over)) for problem in read_suite(suite)]
    out = out.resolve()
    with _lock(out):
        entries = [ProblemRun(problem, out, suite) for problem in problems]
        with open_machine(None) as (executor, _):
            devices = executor.devices()
        found = table.write_score(suite.stem, [entry.result() for entry in entries], out)
        for kind in ("cuda", "cpu"):
            todo = [entry for entry in entries if entry.kind == kind and not entry.is_done]
            slots: list[Device | None] = [device for device in devices if device.kind == kind == "cuda"]
            for entry in run_all(todo, slots or [None], say):
                found = table.write_score(suite.stem, [one.result() for one in entries], out)
                say(f"{entry.name}: {next(one for one in found.results if one.problem == entry.name).sentence()}")
    return found


def run_all(todo: Sequence[ProblemRun], slots: list[Device | None], say: Say) -> Iterator[ProblemRun]:
    """Yield each run when its process has ended; as many run at a time as there are `slots`. The slot None is any
    device."""
    waiting = list(todo)
    running: dict[int, tuple[ProblemRun, subprocess.Popen[bytes], Device | None]] = {}
    try:
        while waiting or running:
            while waiting and slots:
                entry, slot = waiting.pop(0), slots.pop()
                process = entry.start(slot)
                running[os.pidfd_open(process.pid)] = (entry, process, slot)
                say(
                    f"{entry.name}: "
                    f"{'goes on' if entry.workspace else 'begins'}{f' on GPU {slot.index}' if slot else ''}"
                )
            for handle in wait(list(running)):
                entry, process, slot = running.pop(handle)  # type: ignore[arg-type]
                os.close(handle)  # type: ignore[arg-type]
                entry.record_exit(process.wait())
                slots.append(slot)
                yield entry
    except KeyboardInterrupt:
        for _, process, _ in running.values():
            process.send_signal(signal.SIGINT)
        for entry, process, _ in running.values():
            entry.record_exit(process.wait())
        raise


@contextmanager
def _lock(out: Path) -> Iterator[None]:
    """Hold the lock of a folder: one score at a time works there."""
    (out / ".score").mkdir(parents=True, exist_ok=True)
    with closing((out / ".score" / "lock").open("a")) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WorkspaceError(
                f"{out}: another score is working there; wait until it ends, or name another folder with --out"
            ) from None
        yield
