"""The provider `manual`: a person, or any program that writes files, answers. The run pauses until the answer exists,
and `resume` continues with it.

`<folder>/003-coder-1a2b3c4d.prompt.md` is the question, `….answer.md` beside it the answer. An unreadable answer is
moved to `….answer.1.md`, and `….refused.md` gives the reason; the prompt stays open, however often. A readable answer
whose content is refused leads to a new prompt with the reasons in it. No text that a person wrote is ever deleted.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from agents.models import options as provider_options
from agents.models.answers import parsing
from agents.models.base import AnswerReply, Model, Request, Usage
from tools.artifacts import digest
from tools.errors import PendingError, SettingsError
from tools.store.blobs import write_atomically

HALF_WRITTEN_S = 2.0
"""An unreadable answer that is younger than this many seconds may be half written and is not refused yet."""


class ManualOptions(provider_options.ProviderOptions):
    """Options of the provider `manual`."""

    folder: str | None = None
    """Folder of the files. Default: `manual/` in the run's workspace, which git ignores. Several runs can share one
    folder, so that their prompts are answered together: each prompt names its run."""


class Manual(Model):
    """Asks through a file. PendingError names the file to write until it exists and can be read."""

    bills = "nothing"

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.settings = provider_options.read_options("manual", ManualOptions, options)
        chosen = self.settings.folder
        there = chosen and next(
            one for one in (Path(chosen).absolute(), *Path(chosen).absolute().parents) if one.exists()
        )
        if there and not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            raise SettingsError(
                f"models.folder: {chosen} is not a writable folder; name one, which is created if it does not exist"
            )

    @property
    def directory(self) -> Path:
        """Folder of prompts and answers."""
        if self.settings.folder is not None:
            return Path(self.settings.folder)
        return (self.folder or Path.cwd()) / "manual"

    def ask(self, request: Request) -> AnswerReply:
        """Return the answer from its file. The same request finds the same files, also in another process."""
        stem = self._file_stem(request)
        prompt, answer, refused = (self.directory / f"{stem}.{what}.md" for what in ("prompt", "answer", "refused"))
        if not prompt.exists():
            # Without paths and commands, which the error names: a model on another machine may read the file alone.
            write_atomically(prompt, parsing.request_as_text(request).encode())
        try:
            said, written = answer.read_text(encoding="utf-8", errors="replace"), answer.stat().st_mtime
        except FileNotFoundError:
            before = f" (the previous one was refused, see {refused.name})" if refused.exists() else ""
            raise _pending_error(request, f"read {prompt} and write the answer to {answer}{before}", answer) from None
        except OSError as error:
            raise _pending_error(
                request, f"{answer} cannot be read ({error.strerror}): write the answer to {prompt.name} there", answer
            ) from error
        if not said.strip():
            raise _pending_error(request, f"{answer} is empty: write the answer to {prompt.name} there", answer)
        reply = parsing.parse_answer(said, request, said=said, usage=Usage())
        if isinstance(reply, AnswerReply):
            refused.unlink(missing_ok=True)
            return reply
        if time.time() - written < HALF_WRITTEN_S:
            raise _pending_error(request, f"{answer} is not complete yet ({reply.faults[0]}): finish it", answer)
        moved = _move_aside(answer)
        reasons = "\n".join(f"- {fault}" for fault in reply.faults)
        write_atomically(
            refused, f"{moved.name} cannot be read as the answer to {prompt.name}:\n\n{reasons}\n".encode()
        )
        raise _pending_error(
            request,
            f"{refused} says why the answer, kept as {moved.name}, was refused: write another one to {answer}",
            answer,
        )

    def _file_stem(self, request: Request) -> str:
        """Return `<n>-<role>-<hash>`: n counts the prompts in the folder; the hash of the prompt's content makes sure
        that each prompt is asked once."""
        name = f"{request.role}-{digest(request.model_dump_json(include={'role', 'answer', 'prompt', 'turns'}))[:8]}"
        existing = next(self.directory.glob(f"*-{name}.prompt.md"), None)
        if existing is not None:
            return existing.name.removesuffix(".prompt.md")
        return f"{sum(1 for _ in self.directory.glob('*.prompt.md')) + 1:03d}-{name}"


def _move_aside(answer: Path) -> Path:
    """Rename an answer to a name that is not used yet, and return the new path."""
    number = 1
    while (moved := answer.with_name(answer.name.replace(".answer.md", f".answer.{number}.md"))).exists():
        number += 1
    return answer.rename(moved)


def _pending_error(request: Request, what: str, answer: Path) -> PendingError:
    return PendingError(f"models.{request.role}: {what}", answer)
