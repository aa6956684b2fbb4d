"""The seam for model providers: one exchange, a typed brief in and a typed answer out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from agents.artifacts import Answer, Brief, RoleName
from tools.artifacts import Artifact

PROVIDERS = {"playbook": "agents.models.playbook.model:Playbook"}
"""Name -> class; a new provider is one file and one line here."""


class Request(Artifact):
    """One exchange."""

    role: RoleName
    brief: Brief
    answer: str
    """Name of the answer type that is owed."""
    refused: tuple[str, ...] = ()
    """Why the answer before was not accepted, one sentence a fault; empty: this is the first time of asking."""


class Tokens(Artifact):
    """What an exchange cost; zero for the playbook."""

    input: int = 0
    output: int = 0
    seconds: float = 0.0


class Answered(Artifact):
    """A model's reply, parsed."""

    answer: Answer
    usage: Tokens = Tokens()


class Model(ABC):
    """One provider, configured for one role."""

    def __init__(self, options: dict[str, Any]) -> None:
        """`options` is the role's entry in the config, less `provider`; a provider raises SettingsError for a key it does not know."""
        self.options = options

    @abstractmethod
    def ask(self, request: Request) -> Answered:
        """One exchange. Raises InfrastructureError when the provider fails."""
