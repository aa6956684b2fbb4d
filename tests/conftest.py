"""Every test works in a home of its own, reaches no machine but this one, and has no key that could be billed."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support import Beside
from tools.executors.local import LocalExecutor
from tools.store.blobs import Blobs

KEYS = ("ANTHROPIC_", "OPENAI_", "AWS_", "GOOGLE_", "CLOUDSDK_", "CLOUD_ML_", "AZURE_")
"""How the environment variables begin that models are reached by."""


# The same examples in each run, and no limit that a busy machine exceeds.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("steady")


def pytest_configure() -> None:
    """Ctrl-C works in tests of it, also where the shell that began them in the background has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing that the user has learnt is read or written. Searches go by words: a model would embed the wiki."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(home))
    monkeypatch.setenv("KERNELWRIGHT_EMBEDDER", "none")
    monkeypatch.delenv("KERNELWRIGHT_CHROMA", raising=False)
    return home


@pytest.fixture(autouse=True)
def no_keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key in the environment or in the folders where clients keep them; child processes inherit that."""
    for name in os.environ:
        if name.startswith(KEYS):
            monkeypatch.delenv(name)
    empty = tmp_path_factory.getbasetemp() / "no-keys"
    for name in ("ANTHROPIC_CONFIG_DIR", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, str(empty / name.lower()))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test fails that reaches for another machine: at once, and through any `except Exception` on the way."""

    def guarded(name: str) -> None:
        real = getattr(socket.socket, name)

        def connect(self: socket.socket, address: Any) -> Any:
            if self.family != socket.AF_UNIX and not is_here(address[0]):
                pytest.fail(f"a test must not connect to {address[0]}")
            return real(self, address)

        monkeypatch.setattr(socket.socket, name, connect)

    guarded("connect")
    guarded("connect_ex")
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *others: Any, **named: Any) -> Any:
        if not is_here(host):
            pytest.fail(f"a test must not look up {host}")
        return resolve(host, *others, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def is_here(host: str | bytes | None) -> bool:
    """Whether a connection to `host` stays on this machine."""
    name = host.decode() if isinstance(host, bytes) else host
    if name is None or name in ("", "localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """This machine and its blobs, for all tests of a module: the oracle starts once."""
    folder = tmp_path_factory.mktemp("beside")
    blobs = Blobs(folder / "blobs")
    with LocalExecutor(blobs, folder / "scratch") as executor:
        yield executor, blobs
