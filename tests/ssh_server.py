"""A real sshd on this machine, with keys and a configuration of its own, which tests of `ssh` log in to."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def running_sshd(folder: Path, client_lines: str = "", server_lines: str = "") -> Iterator[Path]:
    """An sshd with its files in `folder`; yields the configuration of ssh that knows it as `gpu1`. Skips without one."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if sshd is None or shutil.which("ssh") is None:
        pytest.skip("no sshd here; install openssh-server")
    folder.mkdir()
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        "UsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nPidFile none\n"
        f"MaxStartups 100\n{server_lines}"
    )
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    config = folder / "config"
    config.write_text(
        f"Host gpu1\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known\n{client_lines}"
    )
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=log) as server,
    ):
        try:
            wait_for_port(port, server)
            yield config
        finally:
            server.terminate()


def wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while True:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert server.poll() is None and time.monotonic() < end, "sshd does not listen"
        time.sleep(0.05)
