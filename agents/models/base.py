"""The interface of model providers: one exchange takes a typed brief and a rendered prompt, and returns a typed answer
or tool calls."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from agents.artifacts import Answer, Brief, CoderBrief, RoleName
from tools.artifacts import Artifact

PROVIDERS = {
    "playbook": "agents.models.playbook.model:Playbook",
    "anthropic": "agents.models.providers.anthropic:Anthropic",
    "openai_compatible": "agents.models.providers.openai_compatible:OpenAICompatible",
    "command": "agents.models.providers.command:Command",
    "manual": "agents.models.providers.manual:Manual",
    "recorded": "agents.models.providers.recorded:Recorded",
}
"""Name -> class; a new provider needs one file and one line here."""
CHARACTERS_PER_TOKEN = 3
"""Gives an upper bound of a prompt's tokens where nobody counts them: code and Markdown have more characters per
token."""
MIN_TIMEOUT_S = 0.01
"""Lower limit in seconds of a time-out that is shortened to the remaining time."""

Scope = Literal["stable", "run", "version", "iteration"]
"""How long a block of the prompt stays byte for byte the same: for all runs, for a run, until a version is accepted,
or for an iteration."""


class PromptBlock(Artifact):
    """A block of the prompt. Blocks follow the order stable, run, version, iteration, so that the text that a cache can
    keep comes first.

    Text that several prompts share ends at the end of a block, where a provider can place a cache mark.
    """

    scope: Scope
    text: str
    answers: tuple[str, ...] = ()
    """Answer types whose form the provider explains after this block, in its own words."""


class Tool(Artifact):
    """A tool that the model may call before it answers."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    """JSON schema of the arguments, which form an object."""


class ToolCall(Artifact):
    """A call of a tool by the model."""

    id: str
    name: str
    arguments: dict[str, JsonValue]
    fault: str = ""
    """Why the arguments cannot be read; the call then fails with this text and is not executed."""


class ToolResult(Artifact):
    """The result of a tool call."""

    id: str
    text: str
    failed: bool = False


class Turn(Artifact):
    """An earlier exchange of this conversation: the model's message and what it was told in return."""

    said: str
    """The model's message in its provider's own format (`said` of the reply); only that provider reads it."""
    results: tuple[ToolResult, ...] = ()
    refused: tuple[str, ...] = ()
    """Why the answer was not accepted, one sentence for each fault."""


class Request(Artifact):
    """Everything that a model receives for one exchange."""

    role: RoleName
    brief: Brief
    answer: str
    """Name of the answer type that the model must return."""
    prompt: tuple[PromptBlock, ...] = ()
    """The rendered prompt; empty for a model that reads the brief."""
    tools: tuple[Tool, ...] = ()
    turns: tuple[Turn, ...] = ()
    number: int = 0
    """Number of earlier conversations of the run with this role for this purpose. It is set when the model is asked and
    is no part of the question."""
    ends: float | None = Field(default=None, exclude=True)
    """End of the run's time in monotonic seconds; None: there is no cap. It is set when the model is asked, stands
    in no record and is no part of the question."""

    @property
    def remaining_s(self) -> float:
        """Remaining seconds of the run's time; infinite when time has no cap."""
        return math.inf if self.ends is None else self.ends - time.monotonic()

    def clip_timeout_s(self, timeout_s: float) -> float:
        """Return a provider's time-out in seconds, shortened to the remaining time of the run."""
        return min(timeout_s, max(self.remaining_s, MIN_TIMEOUT_S))

    @property
    def purpose(self) -> str:
        """Purpose within the role: `ablation`, `repair` of failed drafts, or empty for the usual question."""
        if not isinstance(self.brief, CoderBrief):
            return ""
        if self.brief.ablated_methods:
            return "ablation"
        return "repair" if self.brief.failures else ""

    @property
    def refused(self) -> tuple[str, ...]:
        """Why the previous answer was not accepted; empty when none was refused."""
        return self.turns[-1].refused if self.turns else ()


class Usage(Artifact):
    """Tokens and seconds that an exchange took; zero for the playbook."""

    model: str = ""
    """Name of the model as prices list it; empty when no language model answered."""
    input: int = 0
    """Tokens read at the full price, without those of `cache_read` and `cache_write…`."""
    cache_read: int = 0
    cache_write: int = 0
    """Tokens written to a cache that lasts five minutes."""
    cache_write_1h: int = 0
    output: int = 0
    seconds: float = 0.0

    def combined_with(self, other: Usage) -> Usage:
        """Return the sum of both, under this usage's model name."""
        counts = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "seconds")
        return self.model_copy(update={name: getattr(self, name) + getattr(other, name) for name in counts})


class AnswerReply(Artifact):
    """A reply that is the answer."""

    kind: Literal["answered"] = "answered"
    answer: Answer
    said: str = ""
    usage: Usage = Usage()


class ToolCallReply(Artifact):
    """A reply in which the model calls tools before it answers."""

    kind: Literal["called"] = "called"
    calls: tuple[ToolCall, ...]
    said: str
    usage: Usage = Usage()


class UnfitReply(Artifact):
    """A reply that cannot be read as the answer; the model is told the `faults` and asked again."""

    kind: Literal["unfit"] = "unfit"
    faults: tuple[str, ...]
    """One sentence for each fault: what is wrong, and what is wanted."""
    usable: Answer | None = None
    """The part of the reply that can be used, if any; it counts when no better answer follows."""
    said: str
    usage: Usage = Usage()


Reply = Annotated[AnswerReply | ToolCallReply | UnfitReply, Field(discriminator="kind")]


class Model(ABC):
    """One provider, configured for one role."""

    reads: Literal["brief", "prompt"] = "prompt"
    """Whether the model answers from the typed brief or from the rendered prompt."""
    calls_tools: bool = False
    """Whether the model can reply with tool calls."""
    bills: Literal["nothing", "tokens", "unseen"] = "tokens"
    """How an exchange is billed; unseen: its tokens and cost remain unknown to Kernelwright."""
    folder: Path | None = None
    """Folder of the run's workspace, if there is one; set when the model is opened."""

    def __init__(self, options: dict[str, Any]) -> None:
        """`options` is the role's entry in the config without `provider`; a provider raises SettingsError for an
        unknown key."""
        self.options = options

    @property
    def name(self) -> str:
        """Name of the model as prices list it; empty for no language model, or one without a name."""
        return str(self.options.get("model", ""))

    @property
    def provider(self) -> str:
        """Name of the provider as records show it."""
        return type(self).__name__

    @abstractmethod
    def ask(self, request: Request) -> Reply:
        """Perform one exchange. ProviderError when the provider fails, PendingError when a person has not answered
        yet."""

    def require_access(self, entry: str) -> None:
        """Raise the error of an exchange if the server does not answer or refuses the key, as far as a call that costs
        nothing shows; `entry` is the key below `models:`. By default there is nothing to call."""
        del entry

    def usage_bound(self, request: Request) -> Usage:
        """Return the most that `ask(request)` can take, to be reserved beforehand; zero by default."""
        return Usage()

    def estimated_usage_bound(self, request: Request) -> Usage:
        """Return about the same for an estimate before the run, without any request to a server."""
        return self.usage_bound(request)
