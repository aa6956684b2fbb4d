"""The provider `command`: any program that reads a prompt and prints an answer, such as a coding agent.

    coder: {provider: command, argv: [some-agent, --print], timeout_s: 900, env: [SOME_AGENT_KEY]}

It is the user's own program and runs as the user: its folder is its working directory and no sandbox. It receives only
the environment variables that `env` lists, keys included.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from agents.models import options as provider_options
from agents.models.answers import parsing
from agents.models.base import AnswerReply, Model, Request, UnfitReply, Usage
from agents.models.redaction import remove_keys
from tools.artifacts import digest
from tools.errors import ProviderError, SettingsError

PASSED_VARIABLES = ("PATH", "HOME", "LANG", "TERM")
PROMPT_PLACEHOLDER, ANSWER_PLACEHOLDER = "{prompt_file}", "{answer_file}"
"""Placeholders in arguments for the path of a file. Without the first the prompt goes to stdin, without the second the
answer is read from stdout."""
PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl that sets the signal for the parent's death."""
MAX_OUTPUT_BYTES = 4 << 20
"""Most bytes of an answer, and of each other output of the program."""
FIRST_POLL_S, LONGEST_POLL_S = 0.002, 0.1
"""Pauses between two polls of the program, in seconds."""
MAX_LAST_LINE_CHARS = 300
"""Most characters of a program's last line in a message."""


class CommandOptions(provider_options.ProviderOptions):
    """Options of the provider `command`."""

    argv: tuple[str, ...]
    """Program and its arguments, which no shell interprets."""
    timeout_s: float = Field(default=600, gt=0, allow_inf_nan=False)
    """Seconds that the program may take for one answer; it is then killed with all its child processes."""
    env: tuple[str, ...] = ()
    """Names of environment variables that the program receives besides PATH, HOME, LANG and TERM."""

    @field_validator("argv")
    @classmethod
    def _check_argv(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not value[0] or any("\0" in one for one in value):
            raise ValueError(
                "must be a program and its arguments without NUL characters, such as [some-agent, --print]; "
                "write them so"
            )
        return value

    @field_validator("env")
    @classmethod
    def _check_variable_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        # A wrong entry may contain a secret value, so the message does not repeat it.
        if not all(re.fullmatch(r"[A-Za-z_]\w*", one) for one in value):
            raise ValueError(
                "must be a list of NAMES of environment variables, such as [SOME_AGENT_KEY], never NAME=value; write "
                "them so"
            )
        return value


class Command(Model):
    """Runs one process per exchange in a new folder below `.kernelwright/exchanges/` of the workspace, kept for review.

    Without a workspace the folder is temporary. It is removed unless the program fails; the message then names it.
    """

    bills = "unseen"

    @property
    def name(self) -> str:
        """Name of the program, which does not report the model that answered."""
        return Path(self.settings.argv[0]).name

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.settings = provider_options.read_options("command", CommandOptions, options)
        program = shutil.which(self.settings.argv[0])
        if program is None:
            raise SettingsError(
                f"models.argv: cannot find the program {self.settings.argv[0]!r}; install it, put it on PATH or write "
                f"its path"
            )
        here = next(
            (one for one in self.settings.argv[1:] if not one.startswith(("/", "-")) and Path(one).is_file()), None
        )
        if here is not None:
            raise SettingsError(
                f"models.argv: {here!r} is a path below the current folder, and the program runs in another folder; "
                f"write {str(Path(here).resolve())!r}"
            )
        unset = next((name for name in self.settings.env if name not in os.environ), None)
        if unset is not None:
            raise SettingsError(
                f"models.env: the environment variable {unset} is not set; export it and run again, or remove it "
                f"from the list"
            )
        self.program = str(Path(program).absolute())

    def usage_bound(self, request: Request) -> Usage:
        """Return zero: the program's usage is unknown."""
        return Usage(model=self.name)

    def ask(self, request: Request) -> AnswerReply | UnfitReply:
        """Run the program once. ProviderError when it fails, prints too much or exceeds its time; it is then killed
        with all its child processes."""
        argv = self.settings.argv
        by_file = any(ANSWER_PLACEHOLDER in one for one in argv)
        text = parsing.request_as_text(
            request, "into the file answer.md in the current folder" if by_file else "on your standard output"
        )
        folder = self._make_exchange_folder(request, text)
        exchange = _ProgramRun(request.role, self.program, folder)
        (folder / "prompt.md").write_text(text, encoding="utf-8")
        start = time.monotonic()
        exchange.run(
            self._expand_argv(folder),
            self._child_environment(),
            request.clip_timeout_s(self.settings.timeout_s),
            stdin=not any(PROMPT_PLACEHOLDER in one for one in argv),
        )
        seconds = time.monotonic() - start
        answer_text = exchange.read_answer("answer.md" if by_file else "stdout.txt")
        if self.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
        return parsing.parse_answer(
            answer_text, request, said=answer_text, usage=Usage(model=self.name, seconds=seconds)
        )

    def _make_exchange_folder(self, request: Request, text: str) -> Path:
        if self.folder is None:
            return Path(tempfile.mkdtemp(prefix=f"kernelwright-{request.role}-"))
        parent = self.folder / ".kernelwright" / "exchanges"
        parent.mkdir(parents=True, exist_ok=True)
        # A run that was killed may repeat a prompt; it then gets another folder.
        return Path(
            tempfile.mkdtemp(
                prefix=f"{request.role}-{request.number + 1}.{len(request.turns)}-{digest(text)[:8]}-", dir=parent
            )
        )

    def _expand_argv(self, folder: Path) -> list[str]:
        files = {PROMPT_PLACEHOLDER: str(folder / "prompt.md"), ANSWER_PLACEHOLDER: str(folder / "answer.md")}
        rest = list(self.settings.argv[1:])
        for name, path in files.items():
            rest = [one.replace(name, path) for one in rest]
        return [self.program, *rest]

    def _child_environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in (*PASSED_VARIABLES, *self.settings.env) if name in os.environ}


def _kill_with_parent() -> Callable[[], object] | None:
    """Return a function for the child that kills it when this thread dies: a killed run then leaves no program that
    goes on spending."""
    if sys.platform != "linux":
        return None
    return partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class _ProgramRun:
    """One run of a program in its folder."""

    def __init__(self, role: str, program: str, folder: Path) -> None:
        self.key = f"models.{role}"
        self.name = Path(program).name
        self.folder = folder

    def run(self, argv: list[str], environment: dict[str, str], timeout_s: float, *, stdin: bool) -> None:
        """Run the program until it ends; then, or when time or output limits are exceeded, kill its process group."""
        source = self.folder / "prompt.md" if stdin else Path(os.devnull)
        with (
            source.open("rb") as prompt,
            (self.folder / "stdout.txt").open("wb") as out,
            (self.folder / "stderr.txt").open("wb") as err,
        ):
            try:
                process = subprocess.Popen(
                    argv,
                    cwd=self.folder,
                    env=environment,
                    stdin=prompt,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    preexec_fn=_kill_with_parent(),
                )
            except OSError as error:
                raise ProviderError(
                    f"{self.key}: {self.name} cannot be started ({error.strerror}); try it in {self.folder}"
                ) from error
        try:
            self._wait_for_exit(process.pid, timeout_s)
        finally:
            # Kill before waiting: until then no other process group can get the same number.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        if status != 0:
            how = f"was ended by signal {-status}" if status < 0 else f"ended with exit code {status}"
            raise ProviderError(f"{self.key}: {self.name} {how}: {self._last_output_line()}; look in {self.folder}")

    def _wait_for_exit(self, pid: int, timeout_s: float) -> None:
        end, pause = time.monotonic() + timeout_s, FIRST_POLL_S
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > end:
                raise ProviderError(
                    f"{self.key}: {self.name} was stopped after {timeout_s:g} s, its time-out; raise `timeout_s`, or "
                    f"look in {self.folder}"
                )
            for name in ("stdout.txt", "stderr.txt", "answer.md"):
                self._check_file_size(name)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL_S)

    def read_answer(self, name: str) -> str:
        """Return the text of the answer in file `name`."""
        self._check_file_size(name)
        try:
            text = (self.folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            raise ProviderError(
                f"{self.key}: {self.name} ended successfully but wrote no {name}; look in {self.folder}"
            ) from None
        if not text.strip():
            raise ProviderError(
                f"{self.key}: {self.name} ended successfully but gave no answer: {self._last_output_line()}; look in "
                f"{self.folder}"
            )
        return text

    def _check_file_size(self, name: str) -> None:
        path = self.folder / name
        if path.is_file() and path.stat().st_size > MAX_OUTPUT_BYTES:
            raise ProviderError(
                f"{self.key}: {self.name} wrote more than {MAX_OUTPUT_BYTES >> 20} MiB to {name}; look in {self.folder}"
            )

    def _last_output_line(self) -> str:
        """Return the last line of stderr, else of stdout, where some coding agents print why they fail."""
        for name in ("stderr.txt", "stdout.txt"):
            lines = (self.folder / name).read_bytes()[-MAX_OUTPUT_BYTES:].decode(errors="replace").split("\n")
            if last := next((line.strip() for line in reversed(lines) if line.strip()), ""):
                return remove_keys(last)[:MAX_LAST_LINE_CHARS]
        return "it printed nothing"
