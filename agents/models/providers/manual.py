"""A person answers, or whatever else writes files: the run pauses until the answer is there, and `resume` goes on with
it.

`<folder>/003-coder-1a2b3c4d.prompt.md` asks, `….answer.md` beside it answers. An answer that cannot be read as one is
moved to `….answer.1.md` and `….refused.md` says why; the prompt stays asked, however often. An answer that can be read
and is refused for what it says comes back as a prompt of its own, with the reasons in it. Nothing that a person wrote
is ever deleted.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from agents.models import options as given
from agents.models.answers import parsing
from agents.models.base import Answered, Model, Request, Usage
from tools.artifacts import digest
from tools.errors import PendingError, SettingsError
from tools.store.records import write_atomically

SETTLED_S = 2.0
"""An answer that cannot be read and is younger may be half written; it is not held against anybody."""


class Options(given.Options):
    """Of the provider `manual`."""

    folder: str | None = None
    """Where the files are; default: `manual/` in the run's workspace, which git does not see."""


class Manual(Model):
    """Asks by a file. PendingError, naming the file to write, until it is there and can be read."""

    bills = "nothing"

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.given = given.read("manual", Options, options)
        chosen = self.given.folder
        there = chosen and next(
            one for one in (Path(chosen).absolute(), *Path(chosen).absolute().parents) if one.exists()
        )
        if there and not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            raise SettingsError(
                f"models.folder: {chosen} is no folder that can be written to; name one, which is made if it does "
                f"not exist"
            )

    @property
    def directory(self) -> Path:
        """Where prompts and answers lie."""
        if self.given.folder is not None:
            return Path(self.given.folder)
        return (self.folder or Path.cwd()) / "manual"

    def ask(self, request: Request) -> Answered:
        """The answer that lies there. The same request finds the same files, also in another process."""
        stem = self._stem(request)
        prompt, answer, refused = (self.directory / f"{stem}.{what}.md" for what in ("prompt", "answer", "refused"))
        if not prompt.exists():
            onward = f"then run `python -m graph resume {self.folder or 'WORKSPACE'}`"
            text = parsing.as_text(request, f"into the file {answer.name} beside this one, {onward}")
            write_atomically(prompt, text.encode())
        try:
            said, written = answer.read_text(encoding="utf-8", errors="replace"), answer.stat().st_mtime
        except FileNotFoundError:
            before = f" (the one before was refused, see {refused.name})" if refused.exists() else ""
            raise _pending(request, f"read {prompt} and write the answer to {answer}{before}", answer) from None
        except OSError as error:
            raise _pending(
                request, f"{answer} cannot be read ({error.strerror}): write the answer to {prompt.name} there", answer
            ) from error
        if not said.strip():
            raise _pending(request, f"{answer} is empty: write the answer to {prompt.name} there", answer)
        reply = parsing.read(said, request, said=said, usage=Usage())
        if isinstance(reply, Answered):
            refused.unlink(missing_ok=True)
            return reply
        if time.time() - written < SETTLED_S:
            raise _pending(request, f"{answer} is no whole answer yet ({reply.faults[0]}): finish it", answer)
        moved = _aside(answer)
        reasons = "\n".join(f"- {fault}" for fault in reply.faults)
        write_atomically(
            refused, f"{moved.name} cannot be taken for the answer to {prompt.name}:\n\n{reasons}\n".encode()
        )
        raise _pending(
            request,
            f"{refused} says why the answer, kept as {moved.name}, was refused: write another to {answer}",
            answer,
        )

    def _stem(self, request: Request) -> str:
        """`<n>-<role>-<hash>`: n counts the prompts in the folder, the hash is of what the prompt says, so that it
        is asked once."""
        asked = f"{request.role}-{digest(request.model_dump_json(include={'role', 'answer', 'prompt', 'turns'}))[:8]}"
        there = next(self.directory.glob(f"*-{asked}.prompt.md"), None)
        if there is not None:
            return there.name.removesuffix(".prompt.md")
        return f"{sum(1 for _ in self.directory.glob('*.prompt.md')) + 1:03d}-{asked}"


def _aside(answer: Path) -> Path:
    """Rename an answer to a name that none has yet."""
    number = 1
    while (moved := answer.with_name(answer.name.replace(".answer.md", f".answer.{number}.md"))).exists():
        number += 1
    return answer.rename(moved)


def _pending(request: Request, what: str, answer: Path) -> PendingError:
    return PendingError(f"models.{request.role}: {what}", answer)
