"""Opens the executor that a user names, with its options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from yaml import YAMLError

from tools.cli.validation import read_yaml, validation_sentences
from tools.errors import SettingsError
from tools.executors.base import EXECUTORS, Executor
from tools.registry import load_class
from tools.store.blobs import Blobs


class ExecutorChoice(BaseModel):
    """The executor that runs jobs; further keys are its own options."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str = "local"
    """local, ssh, bundle, or your own executor as package.module:Class; `executor: local` is short for
    `executor: {kind: local}`."""

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value


def parse_choice(text: str) -> ExecutorChoice:
    """Return the executor that `text` names in the words of a config. Raises SettingsError."""
    try:
        return ExecutorChoice.model_validate(read_yaml(text))
    except (ValidationError, YAMLError):
        raise SettingsError(f"executor: {text!r} is neither a name nor like {{kind: ssh, host: gpu1}}") from None


def open_executor(
    choice: ExecutorChoice, blobs: Blobs, scratch: Path, gpu: int | None = None, clocks: str = "observe"
) -> Executor:
    """Open the executor that a config names, with its options; SettingsError for an unknown name or option.

    `gpu`, where given, is the index of the GPU to use; `clocks`: "lock" where it must hold that GPU's clocks.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    kind = cast(type[Executor], load_class(EXECUTORS, choice.kind, Executor, key="executor.kind"))
    try:
        options = kind.options.model_validate(choice.model_extra)
    except ValidationError as error:
        required = {name: field for name, field in kind.options.model_fields.items() if field.is_required()}
        form = "".join(f", {name}: {(field.examples or ['…'])[0]}" for name, field in required.items())
        sentences = validation_sentences(error, kind.options, "executor.")
        raise SettingsError(f"{sentences}; the form is `executor: {{kind: {choice.kind}{form}}}`") from None
    chosen = options.model_dump(exclude_unset=True)
    chosen |= ({} if gpu is None else {"gpu": gpu}) | ({} if clocks == "observe" else {"clocks": clocks})
    opened: Callable[..., Executor] = kind
    return opened(blobs, scratch, **chosen)
