"""The provider `anthropic`: the real SDK against a server on this machine (`anthropic_server`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.artifacts import GatekeeperBrief, Review
from agents.models.base import (
    AnswerReply,
    PromptBlock,
    Request,
    Tool,
    ToolCallReply,
    ToolResult,
    Turn,
    UnfitReply,
    Usage,
)
from agents.models.providers.anthropic import Anthropic
from tests.agents.models.anthropic_server import Server
from tests.agents.models.scripted_server import Step
from tests.contracts.test_models import TASK
from tools.errors import KernelwrightError, OverloadedError, ProviderError, RefusalError, SettingsError

REVIEW = Review(
    veto=True, quote="new_one;", reason="It reads past the end of x, as line 4 shows; the rest of the change is right."
)
SAID = Step(REVIEW.model_dump_json())
LONG = '{"reason": "' + "word " * 2000
TOOLS = (
    Tool(
        name="compile",
        description="Compile a file.",
        parameters={"type": "object", "properties": {"source": {"type": "string"}}},
    ),
)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(SAID) as running:
        yield running


def opened(server: Server, **options: object) -> Anthropic:
    return Anthropic(
        {
            "model": "claude-opus-5-5",
            "base_url": server.url,
            "max_tokens": 2000,
            "timeout_s": 20,
            "max_retries": 0,
            **options,
        }
    )


def request(
    *turns: Turn,
    answer: str = "Review",
    tools: tuple[Tool, ...] = (),
    iteration: str = "4",
    ends_in: float | None = None,
) -> Request:
    """`ends_in`: seconds that the run has left for it."""
    prompt = (
        PromptBlock(scope="stable", text="Rules. " * 400),
        PromptBlock(scope="run", text="Task. " * 400),
        PromptBlock(scope="iteration", text=f"Iteration {iteration}. " * 300),
    )
    brief = GatekeeperBrief(task=TASK, diff="-old;\n+new_one;\n")
    ends = {} if ends_in is None else {"ends": time.monotonic() + ends_in}
    return Request(role="gatekeeper", brief=brief, answer=answer, prompt=prompt, tools=tools, turns=turns, **ends)


def read_in_all(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write + usage.cache_write_1h


def limits(server: Server) -> list[int]:
    return [body["max_tokens"] for body in server.bodies]


# ---------------------------------------------------------------- what is sent


def test_a_request_is_sent_as_newer_models_take_it_and_its_usage_is_the_apis(server: Server) -> None:
    server.script = [Step(REVIEW.model_dump_json(), thinking="Hm.")]
    model = opened(server, effort="high", thinking="adaptive")
    reply = model.ask(request(tools=TOOLS))
    model.ask(request(tools=TOOLS))
    assert isinstance(reply, AnswerReply) and reply.answer == REVIEW
    took = reply.usage
    assert took.model == "claude-opus-5-5" and took.cache_write_1h > 1000 and took.output > 20 and took.seconds > 0
    body = server.bodies[0]
    assert server.asked[0].raw == server.asked[1].raw, "the same request is the same bytes, or the cache is lost"
    assert (
        body["stream"] is True
        and body["thinking"] == {"type": "adaptive"}
        and body["output_config"]["effort"] == "high"
    )
    assert not {"temperature", "top_p", "top_k", "tool_choice"} & body.keys()
    assert body["tools"][0]["input_schema"] == TOOLS[0].parameters
    assert [block["text"][:5] for block in body["system"]] == ["Rules", "## Ho"]
    assert [block["text"][:5] for block in body["messages"][0]["content"]] == ["Task.", "Itera"]


def test_only_options_that_are_given_are_sent(server: Server) -> None:
    opened(server).ask(request())
    opened(server, thinking="off").ask(request())
    plain, off = server.bodies
    assert not {"thinking", "output_config", "tools"} & plain.keys() and off["thinking"] == {"type": "disabled"}


# ---------------------------------------------------------------- conversations


def test_tools_are_called_and_their_results_sent_back_with_the_thinking(server: Server) -> None:
    wishes = (("compile", {"source": "a"}), ("compile", {"source": "b"}))
    server.script = [Step("Compiling.", wishes, thinking="I compile."), SAID]
    model = opened(server)
    first = model.ask(request(tools=TOOLS))
    assert isinstance(first, ToolCallReply) and [(call.name, call.arguments) for call in first.calls] == list(wishes)
    results = tuple(
        ToolResult(id=call.id, text="" if index else "error: x", failed=not index)
        for index, call in enumerate(first.calls)
    )
    second = model.ask(request(Turn(said=first.said, results=results, refused=("No more tools.",)), tools=TOOLS))
    assert isinstance(second, AnswerReply)
    _, said, told = server.bodies[1]["messages"]
    assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert said["content"][0] == {"type": "thinking", "thinking": "I compile.", "signature": "signed"}
    assert [block["type"] for block in told["content"]] == ["tool_result", "tool_result", "text"]
    assert told["content"][0]["is_error"] and "- No more tools." in told["content"][2]["text"]


@pytest.mark.parametrize("text", ['{"veto": "perhaps"}', "I would rather not say.", " \n"])
def test_an_answer_that_does_not_fit_is_unfit_and_asked_again(server: Server, text: str) -> None:
    server.script = [Step(text), SAID]
    model = opened(server)
    first = model.ask(request())
    assert isinstance(first, UnfitReply) and first.faults and first.usage.output > 0
    assert isinstance(model.ask(request(Turn(said=first.said, refused=first.faults))), AnswerReply)
    assert first.faults[0] in server.bodies[1]["messages"][-1]["content"][-1]["text"]


# ---------------------------------------------------------------- answers that break off


def test_json_that_breaks_off_is_asked_for_with_twice_the_room(server: Server) -> None:
    server.script = [Step(REVIEW.model_copy(update={"reason": "word " * 200}).model_dump_json())]
    reply = opened(server, max_tokens=200).ask(request())
    assert isinstance(reply, AnswerReply) and limits(server) == [200, 400] and len(server.bodies[1]["messages"]) == 1
    assert reply.usage.output > 400, "both answers are paid for"


def test_free_text_that_breaks_off_is_gone_on_with(server: Server) -> None:
    long = REVIEW.model_copy(update={"reason": " ".join(f"word {number}" for number in range(120))})
    whole = "Here it is:\n" + long.model_dump_json()
    server.script = [Step(whole), Step(whole[800:]), SAID]
    reply = opened(server, max_tokens=200).ask(request())
    assert isinstance(reply, AnswerReply) and reply.answer == long
    assert [message["role"] for message in server.bodies[1]["messages"]] == ["user", "assistant", "user"]
    assert "format" not in server.bodies[1].get("output_config", {}), "a form would begin a new object"
    assert isinstance(opened(server).ask(request(Turn(said=reply.said, refused=("no",)))), AnswerReply)


@pytest.mark.parametrize(
    "step",
    [Step(LONG), Step("Well, " + LONG), Step("Compiling.", (("compile", {"source": "x" * 9000}),), thinking="Hm.")],
    ids=["JSON", "text", "a call"],
)
def test_an_answer_without_an_end_is_unfit_within_bounds(server: Server, step: Step) -> None:
    server.script = [step]
    model = opened(server, max_tokens=200)
    reply = model.ask(request(tools=TOOLS))
    assert isinstance(reply, UnfitReply) and "shorter" in reply.faults[0]
    assert sum(limits(server)) == model.usage_bound(request(tools=TOOLS)).output
    server.script = [SAID]
    assert isinstance(
        opened(server).ask(request(Turn(said=reply.said, refused=reply.faults), tools=TOOLS)), AnswerReply
    )


def test_more_room_than_the_model_has_is_no_end_of_the_run(server: Server) -> None:
    server.most_output, server.script = 300, [Step(LONG)]
    reply = opened(server, max_tokens=200).ask(request())
    assert isinstance(reply, UnfitReply) and reply.usage.output > 0 and limits(server) == [200, 400]


@pytest.mark.parametrize(
    "broken",
    [
        *(Step("{}", cut=cut) for cut in (0, 1, 4)),
        Step("{}", cut=4, quiet=True),
        Step("{}", garbage=True),
        Step("{}", mid="api_error"),
    ],
)
def test_a_stream_that_breaks_off_is_begun_anew(server: Server, broken: Step) -> None:
    server.script = [broken, SAID]
    reply = opened(server).ask(request())
    assert isinstance(reply, AnswerReply) and reply.answer == REVIEW and len(server.bodies) == 2
    if broken.cut != 0:
        assert reply.usage.cache_read + reply.usage.cache_write_1h > 1500, "what was read twice is counted twice"


def test_streams_that_always_break_off_end_within_bounds(server: Server) -> None:
    server.script = [replace(SAID, cut=3)]
    model = opened(server)
    with pytest.raises(ProviderError, match=r"models\.gatekeeper.*no complete answer") as raised:
        model.ask(request())
    took, bound = Usage.model_validate(raised.value.usage), model.usage_bound(request())
    assert bound.cache_write_1h > read_in_all(took) > 3 * 1500 and took.output > 0, "it was paid for"
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("script", "timeout_s", "ends_in", "told"),
    [
        ([Step(pings=True)], 0.3, None, r"longer than 0\.3 s"),
        ([Step(pings=True)], 500, 0.3, "no answer came before the run's time ended"),
        ([Step("x" * 4000, pause_s=0.1)], 500, 0.3, "no answer came before the run's time ended"),
        ([replace(SAID, cut=3)] * 2 + [Step(pings=True)], 500, 0.5, "no answer came before the run's time ended"),
    ],
    ids=["signs of life", "the run's end", "the run's end while it drips", "the run's end in the last try"],
)
def test_an_answer_without_end_is_given_up(
    server: Server, script: list[Step], timeout_s: float, ends_in: float | None, told: str
) -> None:
    server.script = script
    with pytest.raises(ProviderError, match=rf"models\.gatekeeper: .*{told}"):
        opened(server, timeout_s=timeout_s).ask(request(ends_in=ends_in))


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("step", "kind", "told"),
    [
        (Step("No.", stop="refusal"), RefusalError, r"claude-opus-5-5 declined to answer \(cyber\)"),
        (Step("{", stop="model_context_window_exceeded"), ProviderError, "context"),
        (Step("{", mid="overloaded_error"), OverloadedError, "in the middle"),
        (Step(status=429), OverloadedError, "is overloaded"),
        (Step(status=529), OverloadedError, "is overloaded"),
        (Step(status=500, message="because\nof this"), ProviderError, "answered 500: because of this"),
        (Step(status=400), SettingsError, "change the option"),
        (Step(status=403), SettingsError, "does not give access"),
        (Step(status=404), SettingsError, "'claude-opus-5-5' is not available"),
    ],
)
def test_each_refusal_of_the_server_is_told_with_its_cause(
    server: Server, step: Step, kind: type[KernelwrightError], told: str
) -> None:
    server.script = [step]
    with pytest.raises(kind, match=rf"models\.gatekeeper.*{told}") as raised:
        opened(server).ask(request())
    assert type(raised.value) is kind and (
        not step.stop or Usage.model_validate(raised.value.usage).cache_write_1h > 1000
    )


def test_a_request_that_was_not_taken_is_sent_again(server: Server) -> None:
    server.script = [Step(status=429, headers={"retry-after": "0.01"}), SAID]
    assert isinstance(opened(server, max_retries=1).ask(request()), AnswerReply)


def test_a_server_that_does_not_answer_is_told_by_the_role_that_asked(server: Server) -> None:
    with pytest.raises(ProviderError, match=r"models\.gatekeeper"):
        opened(server, base_url="http://127.0.0.1:9").ask(request())


# ---------------------------------------------------------------- what it takes at most


def test_the_end_of_the_run_cuts_the_counting_of_tokens(server: Server) -> None:
    server.counting_s = 2.0
    model, ending = opened(server), request(ends_in=0.5)
    assert (
        model.usage_bound(ending) == model.estimated_usage_bound(ending)
        and server.counted == 1
        and model.server_counts_tokens
    )
    server.counting_s = 0.0
    assert model.usage_bound(request()) != model.estimated_usage_bound(request())


def test_a_server_that_counts_no_tokens_is_asked_once(server: Server) -> None:
    server.counts = False
    model = opened(server, cache_ttl="5m")
    bound = model.usage_bound(request())
    assert model.usage_bound(request()) == bound and server.counted == 1
    assert bound.cache_write > 3 * 5000 / 3 and bound.cache_write_1h == 0
