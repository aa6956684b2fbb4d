"""The seam for model providers: one exchange, a typed brief and a rendered prompt in, a typed answer or tool calls
out."""

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
"""Name -> class; a new provider is one file and one line here."""
CHARACTERS_PER_TOKEN = 3
"""For an upper bound of what a prompt costs where nobody counts its tokens: code and Markdown come to more
characters a token."""
SHORTEST_S = 0.01
"""Of the time-outs that are cut."""

Scope = Literal["stable", "run", "version", "iteration"]
"""How long a stretch of the prompt stays byte for byte the same: for all runs, a run, until a version is accepted,
an iteration."""


class Block(Artifact):
    """A stretch of the prompt. Blocks stand in the order stable, run, version, iteration, so that what is kept in a
    cache comes first.

    What several prompts share ends where a block ends: there a provider that says what is to be cached says so.
    """

    scope: Scope
    text: str
    answers: tuple[str, ...] = ()
    """Answer types whose form is explained behind it; how, is the provider's to say."""


class Tool(Artifact):
    """Something that the model may ask us to do before it answers."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    """JSON schema of its arguments, an object."""


class ToolCall(Artifact):
    """The model's wish."""

    id: str
    name: str
    arguments: dict[str, JsonValue]
    fault: str = ""
    """Why the arguments cannot be read as they were written; the call then fails with this, and nothing is done."""


class ToolResult(Artifact):
    """What came of it."""

    id: str
    text: str
    failed: bool = False


class Turn(Artifact):
    """One exchange that came before in this conversation: what the model said, and what it was told then."""

    said: str
    """As its provider keeps it (`said` of the reply), for nobody else to read."""
    results: tuple[ToolResult, ...] = ()
    refused: tuple[str, ...] = ()
    """Why the answer was not accepted, one sentence a fault."""


class Request(Artifact):
    """One exchange."""

    role: RoleName
    brief: Brief
    answer: str
    """Name of the answer type that is owed."""
    prompt: tuple[Block, ...] = ()
    """Empty for a model that reads the brief itself."""
    tools: tuple[Tool, ...] = ()
    turns: tuple[Turn, ...] = ()
    number: int = 0
    """Conversations that the run had before with this role for this purpose. Set when a model is asked: no part of
    what is asked."""
    ends: float | None = Field(default=None, exclude=True)
    """When the run's time is up, monotonic seconds; None: never. Set when a model is asked: in no record, and no
    part of what is asked."""

    @property
    def left_s(self) -> float:
        """Seconds of the run's time that are left; infinite where no cap is on time."""
        return math.inf if self.ends is None else self.ends - time.monotonic()

    def at_most(self, timeout_s: float) -> float:
        """A provider's time-out, cut to what is left of the run's time."""
        return min(timeout_s, max(self.left_s, SHORTEST_S))

    @property
    def purpose(self) -> str:
        """What it is for within its role: a kernel without each of its methods, one that is mended; else empty."""
        if not isinstance(self.brief, CoderBrief):
            return ""
        if self.brief.without:
            return "ablation"
        return "mend" if self.brief.failures else ""

    @property
    def refused(self) -> tuple[str, ...]:
        """Why the answer before was not accepted; empty: nothing was refused."""
        return self.turns[-1].refused if self.turns else ()


class Usage(Artifact):
    """What an exchange took; zero for the playbook."""

    model: str = ""
    """As prices name it; empty: no language model."""
    input: int = 0
    """Tokens read at the full price: those of `cache_read` and `cache_write…` are not among them."""
    cache_read: int = 0
    cache_write: int = 0
    """Tokens written to a cache that is kept for five minutes."""
    cache_write_1h: int = 0
    output: int = 0
    seconds: float = 0.0

    def plus(self, other: Usage) -> Usage:
        """Both together, of this one's model."""
        counts = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "seconds")
        return self.model_copy(update={name: getattr(self, name) + getattr(other, name) for name in counts})


class Answered(Artifact):
    """The answer."""

    kind: Literal["answered"] = "answered"
    answer: Answer
    said: str = ""
    usage: Usage = Usage()


class Called(Artifact):
    """The model wants tools first."""

    kind: Literal["called"] = "called"
    calls: tuple[ToolCall, ...]
    said: str
    usage: Usage = Usage()


class Unfit(Artifact):
    """What was said cannot be taken for the answer: it is asked again, `faults` being told."""

    kind: Literal["unfit"] = "unfit"
    faults: tuple[str, ...]
    """One sentence each: what is wrong, and what is wanted."""
    usable: Answer | None = None
    """What is right of it, where a part is: it stands when nothing better comes."""
    said: str
    usage: Usage = Usage()


Reply = Annotated[Answered | Called | Unfit, Field(discriminator="kind")]


class Model(ABC):
    """One provider, configured for one role."""

    reads: Literal["brief", "prompt"] = "prompt"
    """What a request must hold for it."""
    calls_tools: bool = False
    """Whether it can answer with `Called`."""
    bills: Literal["nothing", "tokens", "unseen"] = "tokens"
    """What an exchange is paid by; unseen: in a way that we do not get to know."""
    folder: Path | None = None
    """Of the run's workspace, where there is one; set when the model is opened."""

    def __init__(self, options: dict[str, Any]) -> None:
        """`options` is the role's entry in the config, less `provider`; a provider raises SettingsError for a key it
        does not know."""
        self.options = options

    @property
    def name(self) -> str:
        """Of the model, as prices have it; empty: no language model, or none that was named."""
        return str(self.options.get("model", ""))

    @property
    def provider(self) -> str:
        """Who answers, as records name it."""
        return type(self).__name__

    @abstractmethod
    def ask(self, request: Request) -> Reply:
        """One exchange. ProviderError when the provider fails, PendingError when the answer is somebody's who has
        not given it yet."""

    def bound(self, request: Request) -> Usage:
        """What `ask(request)` takes at most, to be reserved before it; the default: nothing that we know of."""
        return Usage()

    def assumed_bound(self, request: Request) -> Usage:
        """About the same, for an estimate before the run: nothing is sent to find it out."""
        return self.bound(request)
