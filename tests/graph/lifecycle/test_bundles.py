"""A run whose jobs are carried to another machine and back (`executor: bundle`)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.graph.conftest import SHORT, configured, graph

MOST = 16
"""Bundles of one iteration on a busy machine. Five come before it, four in it and one behind it; each roof, contest or
batch that must be repeated is one more."""
CANARY = "sk-canary-0123456789"


@pytest.mark.slow
def test_a_run_that_is_carried_ends_with_few_bundles_which_hold_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    here, there = tmp_path / "bundles", tmp_path / "there"
    there.mkdir()
    config = configured(tmp_path, **SHORT, executor={"kind": "bundle", "folder": str(here)})
    command = ["run", str(config)]
    for _ in range(MOST):
        done = graph(*command, "--json", home=tmp_path / "home")
        found = json.loads(done.stdout.splitlines()[-1])
        if done.returncode != 6:
            break
        results = Path(found["file"])
        bundle = shutil.copy(results.with_name(results.name.replace(".results.zip", ".pyz")), there)
        environment = {"PATH": os.environ["PATH"]}
        subprocess.run([sys.executable, "-I", bundle], cwd="/", env=environment, check=True, stdout=subprocess.PIPE)
        shutil.copy(there / results.name, here)
        if found["workspace"]:
            command = ["resume", found["workspace"]]
    assert found["status"] == "finished" and set(found["verdicts"]) == {"v1"}, done.stderr
    secret = (Path(found["workspace"]) / ".kernelwright" / "secret").read_bytes().strip()
    checks = (Path(found["workspace"]) / "env_check.md").read_text()
    assert "| host python | ok |" in checks and "| host disk |" in checks and "| host clock |" not in checks
    for path in here.glob("*.pyz"):
        with zipfile.ZipFile(path) as archive:
            content = b"".join(archive.read(name) for name in archive.namelist())
        assert CANARY.encode() not in content and secret not in content
