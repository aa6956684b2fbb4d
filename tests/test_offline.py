"""The kill switch of tests/conftest.py: no test reaches another machine or finds a key."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from agents.roles.agent import open_model
from tests.agents.models.providers.test_anthropic import request
from tests.support import run_captured

KEPT = {
    name: f"value of {name}"
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS")
}


@pytest.fixture(scope="module", autouse=True)
def keys_of_the_developer() -> object:
    """Set before the guards of a single test work, as they are on somebody's machine."""
    before = {name: os.environ.get(name) for name in KEPT}
    os.environ.update(KEPT)
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def test_no_key_is_left_for_a_test_or_its_children() -> None:
    assert not [name for name in KEPT if name in os.environ]
    listed = run_captured([sys.executable, "-c", "import os; print(*os.environ)"], check=True).stdout
    assert "KERNELWRIGHT_HOME" in listed and not [name for name in KEPT if name in listed.split()]


def test_a_call_of_the_real_service_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-real-key-at-all")
    model = open_model("coder", {"provider": "anthropic", "model": "claude-opus-5-5"})
    with pytest.raises(pytest.fail.Exception, match=r"connect to|look up api"):
        model.ask(request())


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "0x7f.example", "example.org", b"example.org"])
def test_other_machines_are_out_of_reach(host: str) -> None:
    with pytest.raises(pytest.fail.Exception):
        socket.create_connection((host, 443), timeout=1)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize("call", ["connect", "connect_ex"])
def test_no_socket_connects_to_an_address_of_another_machine(family: socket.AddressFamily, call: str) -> None:
    address = ("192.0.2.1" if family is socket.AF_INET else "2001:db8::1", 443)
    with socket.socket(family) as own, pytest.raises(pytest.fail.Exception):
        getattr(own, call)(address)


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, listening.getsockname()[1]), timeout=60).close()
