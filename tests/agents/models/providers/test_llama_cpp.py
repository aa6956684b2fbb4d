"""What llama.cpp's server really answered, played again: the files in `llama_cpp/`, taken on 22 November 2026.

The server was the one in the package xllamacpp 2026.10.11549, the model SmolLM2-135M-Instruct (`review`) or its first
three layers. It was sent what the provider sends for such a REQUEST, with more words where the context had to overflow,
and in `context_full` a bias to quotes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import Review
from agents.models.base import AnswerReply, Model, Usage
from agents.roles.agent import open_model
from tests.agents.models import anthropic_server
from tests.agents.models.openai_server import Server
from tests.agents.models.providers.test_command import REQUEST
from tests.agents.models.scripted_server import Step
from tools.errors import OverloadedError, ProviderError, SettingsError


def llama_cpp(name: str) -> Step:
    return Step(file=Path(__file__).parent / "llama_cpp" / f"{name}.http")


def model(server: Server, **options: object) -> Model:
    return open_model(
        "gatekeeper",
        {"provider": "openai_compatible", "model": "smollm2", "base_url": server.url, "max_retries": 0, **options},
    )


def test_an_answer_by_its_grammar() -> None:
    """Tabs and line breaks between the tokens and all, with its own count of what it took and what it had in its
    cache."""
    with Server(llama_cpp("review")) as server:
        reply = model(server).ask(REQUEST)
        form = server.bodies[0]["response_format"]["json_schema"]["schema"]
    assert isinstance(reply, AnswerReply) and reply.answer == Review(veto=False, quote="veto.threo", reason="false")
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.output) == (139, 0, 56)
    assert form["required"] == ["veto", "quote", "reason"], "where all may be left out, this model answers `{  }`"


def test_a_prompt_beyond_its_context_is_told_as_that() -> None:
    with Server(llama_cpp("too_long")) as server, pytest.raises(ProviderError) as caught:
        model(server).ask(REQUEST)
    assert len(server.asked) == 1, "that is no fault of the form"
    assert "(request (3139 tokens) exceeds the available context size (512 tokens)" in str(caught.value)
    assert "give the server a larger context" in str(caught.value) and not isinstance(caught.value, SettingsError)


def test_a_context_that_fills_while_it_writes_is_told_and_paid_for() -> None:
    """It ends the answer as one that met max_tokens, and refuses to go on."""
    with (
        Server(llama_cpp("context_full"), llama_cpp("too_long")) as server,
        pytest.raises(ProviderError, match="larger context") as caught,
    ):
        model(server).ask(REQUEST)
    assert len(server.asked) == 2
    took = Usage.model_validate(caught.value.usage)
    assert took.input + took.cache_read + took.output == 512, "all of its context"


def test_a_server_that_still_loads_its_model_is_overloaded_and_asked_again() -> None:
    with Server(llama_cpp("loading")) as server, pytest.raises(OverloadedError, match="Loading model"):
        model(server).ask(REQUEST)
    with Server(llama_cpp("loading"), llama_cpp("review")) as server:
        assert isinstance(model(server, max_retries=1).ask(REQUEST), AnswerReply)


def test_a_prompt_too_long_for_its_messages_api_is_no_fault_of_an_option() -> None:
    """It speaks Anthropic's format, too; that the prompt is too long for it is no fault of an option."""
    with anthropic_server.Server(llama_cpp("messages_too_long")) as server:
        asked = open_model(
            "gatekeeper", {"provider": "anthropic", "model": "smollm2", "base_url": server.url, "max_retries": 0}
        )
        with pytest.raises(ProviderError, match=r"931 tokens\) exceeds .*; give the server a larger context") as caught:
            asked.ask(REQUEST)
    assert not isinstance(caught.value, SettingsError)
