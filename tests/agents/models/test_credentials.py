"""Keys: from the environment only, and nowhere else to be found."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from agents.artifacts import Review
from agents.models.redaction import remove_keys
from agents.roles.agent import Agent, open_model
from tests.agents.models.anthropic_server import Server
from tests.agents.models.providers.test_anthropic import REVIEW, SAID, request
from tools.errors import SettingsError
from tools.store.records import Records

SECRET = "sk-ant-api03-" + "Zq7x" * 8
OPAQUE = "an0pAqu3-k3y-0f-n0-kn0wn-k1nd"


@pytest.mark.parametrize("key", [SECRET, OPAQUE])
def test_a_key_reaches_the_server_and_nothing_else(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", key)
    events: list[str] = []
    with Server(SAID) as server:
        server.key = key
        model = open_model(
            "gatekeeper", {"provider": "anthropic", "model": "m", "base_url": server.url, "api_key_env": "MY_KEY"}
        )
        agent = Agent(
            "gatekeeper", model, Records(tmp_path), lambda name, facts: events.append(f"{name} {dict(facts)}")
        )
        assert agent.ask(request().brief, Review) == REVIEW
        monkeypatch.setenv("OTHER_KEY", key + "x")
        wrong = open_model(
            "gatekeeper", {"provider": "anthropic", "model": "m", "base_url": server.url, "api_key_env": "OTHER_KEY"}
        )
        with pytest.raises(SettingsError, match="OTHER_KEY does not give access") as refused:
            wrong.ask(request())
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) >= 3 and events and caplog.text, "nothing was looked at"
    shown = (
        *(path.read_text() for path in kept),
        *events,
        caplog.text,
        str(refused.value),
        repr(model),
        str(vars(model.client.options)),
    )
    assert not any(key in where for where in shown)
    assert not any(key.encode() in one.raw for one in server.asked)


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": OPAQUE},
        {"api_key_env": SECRET},
        {"api_key_env": "AKIA" + "Q7" * 8},
        {"model": SECRET},
        {"base_url": f"https://me:{OPAQUE}@example.org"},
        {"base_url": f"https://example.org/?k={OPAQUE}"},
    ],
)
def test_a_pasted_key_is_refused_and_not_repeated(options: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as refused:
        open_model("coder", {"provider": "anthropic", "model": "m", **options})
    message = str(refused.value)
    assert (
        message.startswith(f"models.coder.{next(iter(options))}: ") and "api_key_env" in message and "\n" not in message
    )
    assert SECRET not in message and OPAQUE not in message and "AKIA" not in message


def test_a_missing_key_is_found_when_the_model_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "  ")
    with pytest.raises(SettingsError, match="ANTHROPIC_API_KEY is not set"):
        open_model("coder", {"provider": "anthropic", "model": "m"})
    with pytest.raises(SettingsError, match="MINE is not set"):
        open_model("coder", {"provider": "anthropic", "model": "m", "api_key_env": "MINE"})


def test_the_key_of_anthropic_is_not_sent_to_somebody_elses_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", OPAQUE)
    with Server(SAID) as server:
        open_model("coder", {"provider": "anthropic", "model": "m", "base_url": server.url}).ask(request())
        sent = str(server.asked)
    assert SECRET not in sent and OPAQUE not in sent


def test_what_comes_from_outside_is_shown_without_keys() -> None:
    shown = remove_keys(f"bad key {OPAQUE}, or was it {SECRET}?", OPAQUE)
    assert OPAQUE not in shown and SECRET not in shown and shown.startswith("bad key <secret>, or")
    assert remove_keys("nothing to hide", "") == "nothing to hide"
