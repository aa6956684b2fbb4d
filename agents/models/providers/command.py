"""Any command line that reads a prompt and prints an answer; coding agents included.

    coder: {provider: command, argv: [some-agent, --print], timeout_s: 900, env: [SOME_AGENT_KEY]}

It is the user's own program and runs as the user: its folder is its working directory and no fence. Keys come from the
environment, and only those reach it that `env` lists.
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

from agents.models import options as given
from agents.models.answers import parsing
from agents.models.base import Answered, Model, Request, Unfit, Usage
from agents.models.redaction import without_keys
from tools.artifacts import digest
from tools.errors import ProviderError, SettingsError

PASSED_ON = ("PATH", "HOME", "LANG", "TERM")
PROMPT, ANSWER = "{prompt_file}", "{answer_file}"
"""In an argument: the path of the file. Without the first the prompt is on stdin, without the second the answer is
read from stdout."""
PR_SET_PDEATHSIG = 1
"""Of Linux's prctl."""
LARGEST = 4 << 20
"""Bytes of an answer, and of what else the program prints."""
FIRST_LOOK_S, LONGEST_LOOK_S = 0.002, 0.1
"""Between two looks at the program."""
TOLD = 300
"""Characters of a program's last line in a message."""


class Options(given.Options):
    """Of the provider `command`."""

    argv: tuple[str, ...]
    """Program and arguments; no shell reads them."""
    timeout_s: float = Field(default=600, gt=0, allow_inf_nan=False)
    """Seconds that the program may take for one answer; it is then killed with all that it started."""
    env: tuple[str, ...] = ()
    """Names of environment variables that are passed on beside PATH, HOME, LANG and TERM."""

    @field_validator("argv")
    @classmethod
    def _can_be_run(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not value[0] or any("\0" in one for one in value):
            raise ValueError(
                "must name a program and its arguments, such as [some-agent, --print], without NUL; write them there"
            )
        return value

    @field_validator("env")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        # What does not fit may hold a value, and is not repeated.
        if not all(re.fullmatch(r"[A-Za-z_]\w*", one) for one in value):
            raise ValueError(
                "must be a list of NAMES of environment variables, such as [SOME_AGENT_KEY], never NAME=value; name "
                "them there"
            )
        return value


class Command(Model):
    """One process an exchange, in a fresh folder: `.kernelwright/exchanges/` of the workspace, kept for review.

    Without a workspace it is a temporary one, which is removed unless the program fails; the message then says where it
    is.
    """

    bills = "unseen"

    @property
    def name(self) -> str:
        """Of the program: it does not say which model answered."""
        return Path(self.given.argv[0]).name

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.given = given.read("command", Options, options)
        program = shutil.which(self.given.argv[0])
        if program is None:
            raise SettingsError(
                f"models.argv: there is no program {self.given.argv[0]!r}; install it, put it on PATH or write its path"
            )
        here = next(
            (one for one in self.given.argv[1:] if not one.startswith(("/", "-")) and Path(one).is_file()), None
        )
        if here is not None:
            raise SettingsError(
                f"models.argv: {here!r} is taken from the current folder and the program runs in another; "
                f"write {str(Path(here).resolve())!r}"
            )
        unset = next((name for name in self.given.env if name not in os.environ), None)
        if unset is not None:
            raise SettingsError(
                f"models.env: the environment variable {unset} is not set; export it and run again, or take it out of "
                f"the list"
            )
        self.program = str(Path(program).absolute())

    def bound(self, request: Request) -> Usage:
        """Nothing that we know of."""
        return Usage(model=self.name)

    def ask(self, request: Request) -> Answered | Unfit:
        """Run it once. ProviderError when it fails, prints too much, or is not done in time; it is then gone with
        all it started."""
        argv = self.given.argv
        by_file = any(ANSWER in one for one in argv)
        text = parsing.as_text(
            request, "into the file answer.md in the current folder" if by_file else "on your standard output"
        )
        folder = self._folder(request, text)
        exchange = _Exchange(request.role, self.program, folder)
        (folder / "prompt.md").write_text(text, encoding="utf-8")
        start = time.monotonic()
        exchange.run(
            self._argv(folder),
            self._environment(),
            request.at_most(self.given.timeout_s),
            stdin=not any(PROMPT in one for one in argv),
        )
        seconds = time.monotonic() - start
        said = exchange.said("answer.md" if by_file else "stdout.txt")
        if self.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
        return parsing.read(said, request, said=said, usage=Usage(model=self.name, seconds=seconds))

    def _folder(self, request: Request, text: str) -> Path:
        if self.folder is None:
            return Path(tempfile.mkdtemp(prefix=f"kernelwright-{request.role}-"))
        parent = self.folder / ".kernelwright" / "exchanges"
        parent.mkdir(parents=True, exist_ok=True)
        # Asked before and killed since: the same prompt has another folder.
        return Path(
            tempfile.mkdtemp(
                prefix=f"{request.role}-{request.number + 1}.{len(request.turns)}-{digest(text)[:8]}-", dir=parent
            )
        )

    def _argv(self, folder: Path) -> list[str]:
        files = {PROMPT: str(folder / "prompt.md"), ANSWER: str(folder / "answer.md")}
        rest = list(self.given.argv[1:])
        for name, path in files.items():
            rest = [one.replace(name, path) for one in rest]
        return [self.program, *rest]

    def _environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in (*PASSED_ON, *self.given.env) if name in os.environ}


def _ends_with_us() -> Callable[[], object] | None:
    """What ties a child to this thread, which waits for it: killed at once, a run leaves nobody behind who goes on
    spending."""
    if sys.platform != "linux":
        return None
    return partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class _Exchange:
    """One run of a program in its folder."""

    def __init__(self, role: str, program: str, folder: Path) -> None:
        self.key = f"models.{role}"
        self.name = Path(program).name
        self.folder = folder

    def run(self, argv: list[str], environment: dict[str, str], timeout_s: float, *, stdin: bool) -> None:
        """Until it ends; its whole process group is killed then, or when time or room is used up."""
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
                    preexec_fn=_ends_with_us(),
                )
            except OSError as error:
                raise ProviderError(
                    f"{self.key}: {self.name} cannot be started ({error.strerror}); try it in {self.folder}"
                ) from error
        try:
            self._watch(process.pid, timeout_s)
        finally:
            # Before it is waited for: until then its number, which is its group's too, is nobody else's.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        if status != 0:
            how = f"was ended by signal {-status}" if status < 0 else f"ended with exit code {status}"
            raise ProviderError(f"{self.key}: {self.name} {how}: {self._last_words()}; look in {self.folder}")

    def _watch(self, pid: int, timeout_s: float) -> None:
        end, pause = time.monotonic() + timeout_s, FIRST_LOOK_S
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > end:
                raise ProviderError(
                    f"{self.key}: {self.name} was stopped after {timeout_s:g} s, its time-out; raise `timeout_s`, or "
                    f"look in {self.folder}"
                )
            for name in ("stdout.txt", "stderr.txt", "answer.md"):
                self._bounded(name)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK_S)

    def said(self, name: str) -> str:
        """The answer's text."""
        self._bounded(name)
        try:
            text = (self.folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            raise ProviderError(
                f"{self.key}: {self.name} ended well and wrote no {name}; look in {self.folder}"
            ) from None
        if not text.strip():
            raise ProviderError(
                f"{self.key}: {self.name} ended well and answered nothing: {self._last_words()}; look in {self.folder}"
            )
        return text

    def _bounded(self, name: str) -> None:
        path = self.folder / name
        if path.is_file() and path.stat().st_size > LARGEST:
            raise ProviderError(
                f"{self.key}: {self.name} wrote more than {LARGEST >> 20} MiB to {name}; look in {self.folder}"
            )

    def _last_words(self) -> str:
        """Of stderr, else of stdout: there some coding agents print why they fail, such as that nobody is logged in."""
        for name in ("stderr.txt", "stdout.txt"):
            lines = (self.folder / name).read_bytes()[-LARGEST:].decode(errors="replace").split("\n")
            if last := next((line.strip() for line in reversed(lines) if line.strip()), ""):
                return without_keys(last)[:TOLD]
        return "it said nothing"
