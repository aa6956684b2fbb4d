"""The relay: which run it joins, and what it says when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from graph.bench.arguments import TOOLS
from graph.bench.channel import CallResult, listening
from graph.bench.relay import Relay, build_server
from graph.settings import load
from tests.graph.conftest import configured
from tools.errors import SettingsError


def test_it_joins_the_open_bench_of_the_same_task_and_no_other(tmp_path: Path) -> None:
    config = configured(tmp_path)
    settings = load(config)
    for number, task in ((1, settings.task), (2, str(tmp_path))):
        private = tmp_path / "workspaces" / f"quick-2026112{number}T000000Z" / ".kernelwright"
        private.mkdir(parents=True)
        (private / "secret").write_text("00")
        text = yaml.safe_dump({"name": "quick", "task": task})
        (private.parent / "settings.yaml").write_text(text)
    mine, other = sorted((tmp_path / "workspaces").iterdir())
    relay = Relay(config)
    with (
        listening(other / ".kernelwright", lambda tool, arguments: CallResult("another's")),
        listening(mine / ".kernelwright", lambda tool, arguments: CallResult(f"{tool} of mine")),
    ):
        assert relay.call("task", {}) == CallResult("task of mine")
    closed = relay.call("task", {})
    assert closed.failed and f"bench {mine}` continues" in closed.text
    assert relay.call("verdict", {"ticket": "v1"}).text.startswith("v1 has no verdict.")


def test_a_run_that_cannot_begin_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "reference.py").write_text("outputs = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    relay = Relay(folder)
    answer = relay.call("task", {})
    while "is being prepared" in answer.text:
        answer = relay.call("task", {})
    assert answer.failed and "error: " in answer.text
    with pytest.raises(SettingsError, match="does not exist"):
        Relay(tmp_path / "nothing")


def test_every_tool_says_what_it_does_and_takes(tmp_path: Path) -> None:
    import anyio

    tools = anyio.run(build_server(Relay(configured(tmp_path))).list_tools)
    assert [tool.name for tool in tools] == list(TOOLS)
    for tool in tools:
        assert tool.description and set(tool.input_schema["properties"]) == set(TOOLS[tool.name].model_fields)
    assert "twice as fast" in str(tools[list(TOOLS).index("submit")].input_schema)
