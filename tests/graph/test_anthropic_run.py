"""A whole run through the provider `anthropic` and its SDK, to a server here: within its cap, and its key in no file
that it leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.agents.models import scripted
from tests.agents.models.anthropic_server import Server
from tests.agents.models.scripted_server import Step
from tests.graph.conftest import configured, graph

KEY = "an0pAqu3-k3y-0f-n0-kn0wn-k1nd"


def said(body: dict[str, Any]) -> Step:
    """What the scripted program would answer to the prompt."""
    sent = [*body["system"], *(block for message in body["messages"] for block in message["content"])]
    text = "\n".join(block.get("text", "") for block in sent)
    role = re.search(rf"You are the ({'|'.join(scripted.ANSWERS).replace('_', '.')})", text)
    assert role, "the prompt names no role"
    return Step(text=json.dumps(scripted.ANSWERS[re.sub(r"\W", "_", role[1])](text)))


@pytest.mark.slow
def test_a_paid_run_leaves_its_key_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(answer=said) as server:
        server.key = KEY
        choice = {
            "provider": "anthropic",
            "model": "claude-sonnet-5-5",
            "base_url": server.url,
            "api_key_env": "MY_KEY",
        }
        config = configured(
            tmp_path, search={"iterations": 1, "candidates": 1}, models={"default": choice}, budget={"usd": 2}
        )
        monkeypatch.setenv("MY_KEY", KEY)
        done = graph("run", str(config), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert 0 < summary["usd"] < 2 and summary["tokens"] > 10_000
    assert len(server.asked) >= 4 and all(KEY in str(one.headers) for one in server.asked)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) > 50 and not [path for path in kept if KEY.encode() in path.read_bytes()]
    assert KEY not in done.stdout + done.stderr
