"""What a provider's cheapest call shows before a run's first job: through the real SDKs, to a server on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.models.base import PROVIDERS, Model
from agents.roles.agent import open_model
from tests.agents.models import anthropic_server, openai_server
from tests.agents.models.scripted_server import Server, Step
from tests.support import one_sentence
from tools.errors import KernelwrightError, OverloadedError, ProviderError, SettingsError

KEY = "an0pAqu3-k3y"
SERVERS: dict[str, type[Server]] = {"anthropic": anthropic_server.Server, "openai_compatible": openai_server.Server}
both = pytest.mark.parametrize("provider", sorted(SERVERS))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)


def opened(provider: str, url: str, **more: Any) -> Model:
    options = {"model": "m", "base_url": url, "api_key_env": "MY_KEY", "max_retries": 0, **more}
    return open_model("coder", {"provider": provider, **options}, entry="default")


@both
def test_the_models_are_asked_for_with_the_key_and_nothing_is_paid(provider: str, tmp_path: Path) -> None:
    with SERVERS[provider](Step()) as server:
        opened(provider, server.url).require_access("default")
        opened(provider, server.url, record=str(tmp_path / "run.jsonl")).require_access("default")
    assert len(server.looked_up) == 2 and not server.asked
    for asked in server.looked_up:
        assert asked.path.partition("?")[0] == "/v1/models" and KEY in str(asked.headers)


def test_anthropic_lists_one_model_and_bedrock_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    with anthropic_server.Server(Step()) as server:
        opened("anthropic", server.url).require_access("default")
        opened("anthropic", server.url, platform="bedrock", region="eu-central-1").require_access("default")
    assert [asked.path for asked in server.looked_up] == ["/v1/models?limit=1"]


@both
@pytest.mark.parametrize(
    ("listing", "kind", "told"),
    [
        (Step(status=401, message=f"{KEY} is unknown"), SettingsError, "MY_KEY does not give access"),
        (Step(status=403), SettingsError, "MY_KEY does not give access"),
        (Step(status=503), OverloadedError, "is overloaded"),
        (Step(status=502, message="bad gateway"), ProviderError, "answered 502: bad gateway; check the server"),
        (Step(pause_s=1.0), ProviderError, "0.2 s"),
    ],
    ids=["a wrong key", "a key without a right", "overloaded", "down", "silent"],
)
def test_a_key_or_server_that_would_fail_the_first_exchange_is_told_in_one_sentence(
    provider: str, listing: Step, kind: type[KernelwrightError], told: str
) -> None:
    with SERVERS[provider](Step()) as server:
        server.listing = listing
        with pytest.raises(kind, match=rf"models\.default: .*{told}") as raised:
            opened(provider, server.url, timeout_s=0.2 if listing.pause_s else 60).require_access("default")
    assert type(raised.value) is kind and KEY not in str(raised.value) and "\n" not in str(raised.value)


@both
def test_an_address_without_a_server_is_named(provider: str) -> None:
    with pytest.raises(ProviderError, match=r"models\.default: no server answers at http://127\.0\.0\.1:9/?.*; "):
        opened(provider, "http://127.0.0.1:9").require_access("default")


@both
@pytest.mark.parametrize(
    "listing",
    [
        *(Step(status=status, message="no such call") for status in (400, 404, 405, 501)),
        Step(status=403, message="Missing scopes: api.model.read"),
        Step(body={"models": ["in a form of its own"]}),
    ],
    ids=["400", "404", "405", "501", "a restricted key", "another form"],
)
def test_a_server_without_this_call_is_left_to_the_first_exchange(provider: str, listing: Step) -> None:
    with SERVERS[provider](Step()) as server:
        server.listing = listing
        opened(provider, server.url).require_access("default")
    assert server.looked_up


def test_a_key_that_is_refused_as_a_bad_request_is_told_as_a_key() -> None:
    with openai_server.Server(Step()) as server:
        server.listing = Step(status=400, message="API key not valid. Please pass a valid API key.")
        with one_sentence("models.default: MY_KEY does not give access"):
            opened("openai_compatible", server.url).require_access("default")


def test_other_providers_have_nothing_to_ask(tmp_path: Path) -> None:
    options: dict[str, dict[str, Any]] = {"playbook": {}, "manual": {}, "command": {"argv": ["cat"]}}
    assert set(PROVIDERS) == {*SERVERS, *options, "recorded"}
    for provider, given in options.items():
        open_model("coder", {"provider": provider, **given}).require_access("coder")
