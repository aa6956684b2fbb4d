"""The MCP server, asked by a real client over stdio as an editor would start it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from knowledge_base.experience.log import Experience
from knowledge_base.pages.wiki import HOME_VARIABLE
from tests.knowledge_base.experience.test_log import attempt
from tests.support import run_captured
from tools.artifacts import Interval

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "knowledge-base.md").read_text(encoding="utf-8")
ENTRIES = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", DOCS, flags=re.DOTALL | re.MULTILINE)]
READING = {"query", "spec", "recommend", "experience_list", "experience_search", "experience_stats"}


def talk(
    home: Path, conversation: Callable[[Client], Awaitable[None]], *arguments: str, command: list[str] | None = None
) -> None:
    argv = command or [sys.executable, "-P", "-m", "knowledge_base", "serve"]
    # In a folder that is not ours, as an editor starts it.
    server = StdioServerParameters(
        command=argv[0],
        args=[*argv[1:], *arguments],
        cwd=str(home),
        env={**os.environ, HOME_VARIABLE: str(home), "PYTHONPATH": str(ROOT)},
    )

    async def start() -> None:
        with anyio.fail_after(120):
            async with Client(server) as client:
                await conversation(client)

    anyio.run(start)


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    return answer.structured_content


def test_a_client_asks_everything_and_a_mistake_is_one_sentence(tmp_path: Path) -> None:
    log = Experience(tmp_path)
    log.add(attempt("a", effect=Interval(estimate=2.0, low=1.9, high=2.1)))
    log.add(attempt("b", methods=("simd-loop",), result="failure", verdict="reject_perf", note="slower by far"))

    async def conversation(client: Client) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == READING
        found = await ask(client, "query", text="GOMP_parallel", k=1)
        assert found["passages"][0]["path"] == "methods/openmp-parallel-outer.md"
        assert (await ask(client, "query", text="zzzunknown"))["explain"]
        for product, line in (("H200", "memory_bandwidth: 4.8 TB/s <- "), ("H300", "memory_bandwidth: UNKNOWN")):
            assert (await ask(client, "spec", product=product, metric="memory_bandwidth"))["line"].startswith(line)
        advised = await ask(
            client, "recommend", language="cpp", operator="softmax", arch="x86_64", bottleneck="compute"
        )
        assert (advised["proposed"][0]["methods"], advised["avoid"][0]["methods"]) == (["vector-exp"], ["simd-loop"])
        assert [one["evidence"] for one in (await ask(client, "experience_list"))["attempts"]] == ["b", "a"]
        assert [one["evidence"] for one in (await ask(client, "experience_search", text="slower"))["attempts"]] == ["b"]
        assert (await ask(client, "experience_stats"))["results"] == {"failure": 1, "success": 1}
        for tool, arguments, named in (
            ("recommend", {"language": "basic"}, "language basic"),
            ("query", {"text": "softmax", "k": 0}, "-k: must be at least 1"),
            ("experience_search", {"text": " "}, "no word"),
        ):
            answer = await client.call_tool(tool, arguments)
            assert answer.is_error and named in answer.content[0].text and "Traceback" not in answer.content[0].text
        # Another process adds while the server runs.
        log.add(attempt("c"))
        assert (await ask(client, "experience_stats"))["attempts"] == 3

    talk(tmp_path, conversation)


def test_outcomes_are_added_only_where_that_is_allowed(tmp_path: Path) -> None:
    outcome = {
        "operator": "softmax",
        "language": "cpp",
        "dtype": "float32",
        "methods": ["tile-loops"],
        "result": "success",
    }

    async def refused(client: Client) -> None:
        assert (await client.call_tool("experience_add", outcome)).is_error

    async def allowed(client: Client) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == READING | {"experience_add"}
        assert (await ask(client, "experience_add", **outcome))["added"] == 1
        assert (await ask(client, "experience_add", **outcome))["known"] == 1

    talk(tmp_path, refused)
    assert not (tmp_path / "experience").exists()
    talk(tmp_path, allowed, "--allow-add")
    (kept,) = Experience(tmp_path).attempts()
    assert kept.methods == ("tile-loops",) and kept.origin == "stated"


def test_the_entries_in_the_docs_start_a_server(tmp_path: Path) -> None:
    assert len(ENTRIES) >= 2 and "`.mcp.json`" in DOCS and "`.cursor/mcp.json`" in DOCS

    async def conversation(client: Client) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} >= READING

    for entry in ENTRIES:
        (server,) = entry["mcpServers"].values()
        assert server["command"].endswith("/.venv/bin/python")
        talk(tmp_path, conversation, command=[sys.executable, *server["args"]])


def test_nothing_but_the_protocol_goes_to_stdout(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    calls = (
        ("initialize", hello),
        ("notifications/initialized", {}),
        ("tools/call", {"name": "experience_stats", "arguments": {}}),
        ("tools/call", {"name": "recommend", "arguments": {"language": "basic"}}),
        ("tools/call", {"name": "nothing", "arguments": {}}),
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "knowledge_base", "serve", "--home", str(tmp_path)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    for number, (method, parameters) in enumerate(calls):
        asks = not method.startswith("notifications/")
        message = {"jsonrpc": "2.0", "method": method, "params": parameters} | ({"id": number} if asks else {})
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        while asks:
            said = json.loads(process.stdout.readline())
            assert said["jsonrpc"] == "2.0"
            asks = said.get("id") != number
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and not rest.strip()


def test_without_the_package_it_is_one_sentence(tmp_path: Path) -> None:
    hidden = (
        "import sys; sys.modules['mcp'] = None; sys.modules['mcp.server'] = None; "
        "sys.modules['mcp.server.mcpserver'] = None\n"
    )
    code = (
        f"{hidden}from knowledge_base.__main__ import main\nraise SystemExit(main(['serve', '--home', "
        f"{str(tmp_path)!r}]))"
    )
    done = run_captured([sys.executable, "-c", code], cwd=ROOT, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines() == ["error: serve: needs the package mcp; pip install 'kernelwright[mcp]'"]
