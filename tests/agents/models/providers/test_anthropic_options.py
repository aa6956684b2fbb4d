"""The options of `provider: anthropic` and the clients that they open."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.models.base import AnswerReply
from agents.models.providers.anthropic import Anthropic
from tests.agents.models.anthropic_server import TOKEN_OF_GOOGLE, Server
from tests.agents.models.providers.test_anthropic import REVIEW, SAID, request
from tests.support import one_sentence
from tools.errors import SettingsError


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "models.model: is missing"),
        ({"model": "m", "effort": "huge"}, "models.effort: must be 'low', 'medium', 'high', 'xhigh' or 'max'"),
        ({"model": "m", "base_url": "localhost:8000"}, "models.base_url: must be an address"),
        ({"model": "m", "platform": "azure"}, "models.platform: must be 'anthropic', 'bedrock' or 'vertex'"),
        ({"model": "m", "region": "eu-central-1"}, "models.region: only bedrock and vertex have one"),
        ({"model": "m", "platform": "bedrock", "project": "p"}, "models.project: only vertex has one"),
        ({"model": "m", "platform": "vertex", "api_key_env": "K"}, "models.api_key_env: vertex uses"),
    ],
)
def test_an_option_that_cannot_be_used_is_named_in_one_sentence(options: dict[str, Any], told: str) -> None:
    with one_sentence(told):
        Anthropic(options)


@pytest.mark.parametrize(("platform", "package"), [("bedrock", "boto3"), ("vertex", "google")])
def test_a_platform_names_the_package_that_it_lacks(
    platform: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [package, *(name for name in sys.modules if name.partition(".")[0] == package)]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingsError, match=rf'models\.platform: .* `pip install "kernelwright\[{platform}\]"`'):
        Anthropic({"model": "m", "platform": platform, "region": "eu-central-1"})


def test_bedrock_answers_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own paths and its own binary event stream, at a server on this machine."""
    pytest.importorskip("boto3")
    monkeypatch.setenv("MINE", "bedrock-key")
    with Server(SAID) as server:
        model = Anthropic(
            {
                "model": "anthropic.m",
                "platform": "bedrock",
                "region": "eu-central-1",
                "api_key_env": "MINE",
                "base_url": server.url,
            }
        )
        assert model.usage_bound(request()).cache_write_1h > 0, "without a count of tokens, by characters"
        reply = model.ask(request())
    assert isinstance(reply, AnswerReply) and reply.answer == REVIEW and reply.usage.cache_write_1h > 0
    assert server.asked[0].headers["authorization"] == "Bearer bedrock-key"


def test_vertex_answers_with_a_token_of_google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.auth")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(*form).decode()
    with Server(SAID) as server:
        account = {"type": "service_account", "project_id": "mine", "private_key": made, "private_key_id": "1"}
        account |= {"client_email": "me@mine.iam.gserviceaccount.com", "token_uri": f"{server.url}/token"}
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        model = Anthropic({"model": "m", "platform": "vertex", "region": "europe-west1", "base_url": server.url})
        reply = model.ask(request())
    assert isinstance(reply, AnswerReply) and reply.answer == REVIEW
    assert server.asked[0].headers["authorization"] == f"Bearer {TOKEN_OF_GOOGLE}"


@pytest.mark.parametrize("platform", ["bedrock", "vertex"])
def test_a_platform_without_credentials_is_found_when_it_is_opened(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("boto3" if platform == "bedrock" else "google.auth")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(SettingsError, match=r"models\.platform: .*credentials"):
        Anthropic({"model": "m", "platform": platform, "region": "eu-central-1"})
