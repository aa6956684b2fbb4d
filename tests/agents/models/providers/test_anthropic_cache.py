"""Prompt caching by the order of blocks, against a server that keeps the API's rules."""

from __future__ import annotations

import pytest

from agents.models.base import PromptBlock, Scope, Tool, ToolCallReply, ToolResult, Turn
from tests.agents.models.anthropic_rules import Cache
from tests.agents.models.anthropic_server import Server
from tests.agents.models.providers.test_anthropic import TOOLS, opened, request
from tests.agents.models.providers.test_anthropic import server as server
from tests.agents.models.scripted_server import Step


@pytest.mark.parametrize("tools", [(), TOOLS], ids=["answer", "tools"])
def test_of_many_blocks_the_last_are_marked(server: Server, tools: tuple[Tool, ...]) -> None:
    """At most four marks; nothing of an iteration is written to be kept that nobody will ask about again."""
    scopes: tuple[Scope, ...] = ("stable", "run", "run", "version", "version", "iteration", "iteration")
    prompt = tuple(
        PromptBlock(scope=scope, text=f"{at}. " * 900, answers=("Review",) * (at == 2))
        for at, scope in enumerate(scopes)
    )
    opened(server).ask(request(tools=tools).model_copy(update={"prompt": prompt}))
    body = server.bodies[0]
    sent = [*body["system"], *body["messages"][0]["content"]]
    marks = {at: block["cache_control"]["ttl"] for at, block in enumerate(sent) if "cache_control" in block}
    assert marks == ({3: "1h", 4: "1h", 5: "5m", 6: "5m"} if tools else {1: "1h", 2: "1h", 3: "1h", 4: "1h"})


def test_a_schema_that_the_server_enforces_costs_what_roles_share(server: Server) -> None:
    """It is part of the cache's key."""
    read = []
    for structured in ("none", "json_schema"):
        server.cache = Cache()
        for answer in ("Review", "Queries"):
            asked = request(answer=answer)
            shared = tuple(
                block.model_copy(update={"answers": ("Review", "Queries")} if block.scope == "run" else {})
                for block in asked.prompt
            )
            usage = opened(server, structured=structured).ask(asked.model_copy(update={"prompt": shared})).usage
        read.append(usage.cache_read)
    assert read[0] > 1000 and read[1] == 0


def test_the_next_iteration_reads_all_but_its_own_and_the_next_run_what_is_stable(server: Server) -> None:
    model, whole = opened(server), request()
    other = whole.prompt[1].model_copy(update={"text": "Another task. " * 300})
    another_run = whole.model_copy(update={"prompt": (whole.prompt[0], other, whole.prompt[2])})
    first, second, run = (
        model.ask(asked).usage for asked in (request(iteration="1"), request(iteration="2"), another_run)
    )
    assert first.cache_read == 0 and second.cache_read == first.cache_write_1h > 1000
    assert second.cache_write_1h == 0 and second.cache_write == 0 and second.input > 500
    assert run.cache_read > 512 and run.cache_write_1h > 512


def test_each_round_of_tools_reads_the_rounds_before(server: Server) -> None:
    model, turns = opened(server), tuple[Turn, ...]()
    server.script = [Step(thinking="Hm.", calls=(("compile", {"source": "x" * 2000}),) * 3)]
    usages = []
    for _ in range(5):
        reply = model.ask(request(*turns, tools=TOOLS))
        assert isinstance(reply, ToolCallReply)
        usages.append(reply.usage)
        turns += (Turn(said=reply.said, results=tuple(ToolResult(id=call.id, text="ok") for call in reply.calls)),)
    written = [usage.cache_read + usage.cache_write + usage.cache_write_1h for usage in usages]
    assert [usage.cache_read for usage in usages] == [0, *written[:-1]], (
        "a round did not read all that the one before left"
    )
    assert all(usage.input == 0 for usage in usages)
