"""The provider `anthropic`: the real SDK against a server on this machine (`anthropic_server`)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from agents.artifacts import Drafts, GatekeeperBrief, Review
from agents.models.anthropic import Anthropic
from agents.models.base import Answered, Block, Called, Request, Tool, ToolResult, Turn, Unfit, Usage
from tests.agents.models.anthropic_rules import conform
from tests.agents.models.anthropic_server import Server, Step
from tests.contracts.test_models import TASK
from tools.errors import OverloadedError, ProviderError, RefusalError, SettingsError

REVIEW = Review(veto=True, quote="new_one;", reason="It reads past the end of x, as line 4 shows; the rest of the change is right.")
TOOLS = (Tool(name="compile", description="Compile a file.", parameters={"type": "object", "properties": {"source": {"type": "string"}}}),)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def opened(server: Server, **options: object) -> Anthropic:
    return Anthropic({"model": "claude-opus-5-5", "base_url": server.url, "max_tokens": 2000, "timeout_s": 20, **options})


def request(*turns: Turn, answer: str = "Review", tools: tuple[Tool, ...] = (), iteration: str = "4") -> Request:
    prompt = (
        Block(scope="stable", text="Rules. " * 400),
        Block(scope="run", text="Task. " * 400),
        Block(scope="iteration", text=f"Iteration {iteration}. " * 300),
    )
    brief = GatekeeperBrief(task=TASK, diff="-old;\n+new_one;\n")
    return Request(role="gatekeeper", brief=brief, answer=answer, prompt=prompt, tools=tools, turns=turns)


def test_an_answer_is_read_and_its_usage_is_the_apis(server: Server) -> None:
    server.script = [Step(text=REVIEW.model_dump_json(), thinking="Hm.")]
    reply = opened(server).ask(request())
    assert isinstance(reply, Answered) and reply.answer == REVIEW
    took = reply.usage
    assert took.model == "claude-opus-5-5" and took.cache_write_1h > 1000 and took.input > 500 and took.output > 20 and took.seconds > 0


# ---------------------------------------------------------------- what is sent


def test_a_request_is_sent_as_newer_models_take_it(server: Server) -> None:
    server.script = [Step(text=REVIEW.model_dump_json())] * 2
    model = opened(server, effort="high", thinking="adaptive")
    model.ask(request(tools=TOOLS))
    model.ask(request(tools=TOOLS))
    body = server.bodies[0]
    assert server.raw[0] == server.raw[1], "the same request is the same bytes, or the cache is lost"
    assert body["stream"] is True and body["thinking"] == {"type": "adaptive"} and body["output_config"]["effort"] == "high"
    assert not {"temperature", "top_p", "top_k", "tool_choice"} & body.keys()
    assert body["tools"][0]["input_schema"] == TOOLS[0].parameters
    assert [block["text"][:5] for block in body["system"]] == ["Rules", "## Ho"]
    assert [block["text"][:5] for block in body["messages"][0]["content"]] == ["Task.", "Itera"]


def test_only_options_that_are_given_are_sent(server: Server) -> None:
    server.script = [Step(text=REVIEW.model_dump_json())] * 2
    opened(server).ask(request())
    opened(server, thinking="off").ask(request())
    plain, off = server.bodies
    assert not {"thinking", "output_config", "tools"} & plain.keys()
    assert off["thinking"] == {"type": "disabled"}


def test_maps_travel_as_pairs(server: Server) -> None:
    draft = {"source": "void solve() {}", "methods": ["tiling"], "knobs": {"TILE": "64", "UNROLL": "4"}, "note": ""}
    server.answer = lambda body: Step(
        text=json.dumps(conform({"drafts": [draft], "skipped": {"omp": "one loop"}}, body["output_config"]["format"]["schema"]))
    )
    reply = opened(server, structured="json_schema").ask(request(answer="Drafts"))
    assert isinstance(reply, Answered) and isinstance(reply.answer, Drafts)
    assert reply.answer.drafts[0].knobs == {"TILE": "64", "UNROLL": "4"} and reply.answer.skipped == {"omp": "one loop"}
    assert '"name": "TILE"' in json.loads(reply.said)[-1]["content"][-1]["text"], "pairs were not what was sent"


# ---------------------------------------------------------------- conversations


def test_tools_are_called_and_their_results_sent_back_with_the_thinking(server: Server) -> None:
    server.script = [
        Step(thinking="I compile.", text="Compiling.", calls=(("compile", {"source": "a"}), ("compile", {"source": "b"}))),
        Step(text=REVIEW.model_dump_json()),
    ]
    model = opened(server)
    first = model.ask(request(tools=TOOLS))
    assert isinstance(first, Called) and [call.arguments for call in first.calls] == [{"source": "a"}, {"source": "b"}]
    results = tuple(ToolResult(id=call.id, text="" if index else "error: x", failed=not index) for index, call in enumerate(first.calls))
    second = model.ask(request(Turn(said=first.said, results=results, refused=("No more tools.",)), tools=TOOLS))
    assert isinstance(second, Answered)
    _, said, told = server.bodies[1]["messages"]
    assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert said["content"][0] == {"type": "thinking", "thinking": "I compile.", "signature": "signed"}
    assert [block["type"] for block in told["content"]] == ["tool_result", "tool_result", "text"]
    assert told["content"][0]["is_error"] and "- No more tools." in told["content"][2]["text"]


@pytest.mark.parametrize("text", ['{"veto": "perhaps"}', '{"veto": tr', "I would rather not say.", "", " \n"])
def test_an_answer_that_does_not_fit_is_unfit_and_asked_again(server: Server, text: str) -> None:
    server.script = [Step(text=text), Step(text=REVIEW.model_dump_json())]
    model = opened(server)
    first = model.ask(request())
    assert isinstance(first, Unfit) and first.faults and first.usage.output > 0
    second = model.ask(request(Turn(said=first.said, refused=first.faults)))
    assert isinstance(second, Answered)
    assert first.faults[0] in server.bodies[1]["messages"][-1]["content"][-1]["text"]


# ---------------------------------------------------------------- answers that break off


def test_json_that_breaks_off_is_asked_for_with_twice_the_room(server: Server) -> None:
    long = REVIEW.model_copy(update={"reason": "word " * 200}).model_dump_json()
    server.script = [Step(text=long), Step(text=long)]
    reply = opened(server, max_tokens=200).ask(request())
    assert isinstance(reply, Answered)
    assert [body["max_tokens"] for body in server.bodies] == [200, 400]
    assert reply.usage.output > 400, "both answers are paid for"
    assert len(server.bodies[1]["messages"]) == 1


def test_a_call_without_an_end_is_unfit_and_can_be_asked_for_again(server: Server) -> None:
    server.answer = lambda body: Step(thinking="Hm.", text="Compiling.", calls=(("compile", {"source": "x" * 9000}),))
    reply = opened(server, max_tokens=200).ask(request(tools=TOOLS))
    assert isinstance(reply, Unfit)
    server.answer = lambda body: Step(text=REVIEW.model_dump_json())
    assert isinstance(opened(server).ask(request(Turn(said=reply.said, refused=reply.faults), tools=TOOLS)), Answered)


def test_free_text_that_breaks_off_is_gone_on_with(server: Server) -> None:
    reason = " ".join(f"word {number}" for number in range(120))
    whole = "Here it is:\n" + REVIEW.model_copy(update={"reason": reason}).model_dump_json()
    server.script = [Step(text=whole), Step(text=whole[800:])]
    reply = opened(server, max_tokens=200).ask(request())
    assert isinstance(reply, Answered) and isinstance(reply.answer, Review) and reply.answer.reason == reason
    assert [message["role"] for message in server.bodies[1]["messages"]] == ["user", "assistant", "user"]
    assert "format" not in server.bodies[1].get("output_config", {}), "a form would begin a new object"
    server.script = [Step(text=REVIEW.model_dump_json())]
    assert isinstance(opened(server).ask(request(Turn(said=reply.said, refused=("no",)))), Answered)


@pytest.mark.parametrize("text", ['{"reason": "' + "word " * 2000, "Well, " + "word " * 2000])
def test_an_answer_without_an_end_is_unfit_within_bounds(server: Server, text: str) -> None:
    server.answer = lambda body: Step(text=text)
    model = opened(server, max_tokens=200)
    reply = model.ask(request())
    assert isinstance(reply, Unfit) and "shorter" in reply.faults[0]
    assert sum(body["max_tokens"] for body in server.bodies) == model.bound(request()).output
    server.answer = lambda body: Step(text=REVIEW.model_dump_json())
    assert isinstance(opened(server).ask(request(Turn(said=reply.said, refused=reply.faults))), Answered)


def test_more_room_than_the_model_has_is_no_end_of_the_run(server: Server) -> None:
    server.most_output = 300
    server.answer = lambda body: Step(text='{"reason": "' + "word " * 2000)
    reply = opened(server, max_tokens=200).ask(request())
    assert isinstance(reply, Unfit) and reply.usage.output > 0 and [body["max_tokens"] for body in server.bodies] == [200, 400]


@pytest.mark.parametrize(
    "broken",
    [
        Step(text="{", cut=1),
        Step(text='{"veto": false}', cut=4),
        Step(text="{}", cut=0),
        Step(text="{}", garbage=True),
        Step(text="{}", mid="api_error"),
    ],
)
def test_a_stream_that_breaks_off_is_begun_anew(server: Server, broken: Step) -> None:
    server.script = [broken, Step(text=REVIEW.model_dump_json())]
    reply = opened(server).ask(request())
    assert isinstance(reply, Answered) and reply.answer == REVIEW
    assert len(server.bodies) == 2
    if broken.cut != 0:
        assert reply.usage.cache_read + reply.usage.cache_write_1h > 1500, "what was read twice is counted twice"


def test_streams_that_always_break_off_end_within_bounds(server: Server) -> None:
    server.answer = lambda body: Step(text=REVIEW.model_dump_json(), cut=3)
    model = opened(server)
    with pytest.raises(ProviderError, match=r"models\.gatekeeper.*no whole answer") as raised:
        model.ask(request())
    assert len(server.bodies) == 3
    took, bound = Usage.model_validate(raised.value.usage), model.bound(request())
    read_in_all = took.input + took.cache_read + took.cache_write + took.cache_write_1h
    assert bound.cache_write_1h > read_in_all > 3 * 1500 and took.output > 0, "it was paid for"


def test_signs_of_life_without_end_are_given_up(server: Server) -> None:
    server.answer = lambda body: Step(pings=True)
    with pytest.raises(ProviderError, match=r"models\.gatekeeper: .*longer than 0\.3 s"):
        opened(server, timeout_s=0.3, max_retries=0).ask(request())


@pytest.mark.parametrize("step", [Step(pings=True), Step(text="x" * 4000, pause_s=0.5)], ids=["signs of life", "drips"])
def test_the_end_of_the_run_cuts_its_time_outs(server: Server, step: Step) -> None:
    server.answer = lambda body: step
    with pytest.raises(ProviderError, match=r"models\.gatekeeper: no answer before the run's time was up"):
        opened(server, timeout_s=500, max_retries=0).ask(request().model_copy(update={"ends": time.monotonic() + 0.3}))


def test_the_last_try_that_the_run_has_no_time_for_blames_no_time_out(server: Server) -> None:
    server.script = [Step(text=REVIEW.model_dump_json(), cut=3)] * 2 + [Step(pings=True)]
    with pytest.raises(ProviderError, match=r"models\.gatekeeper: no answer before the run's time was up"):
        opened(server, timeout_s=500, max_retries=0).ask(request().model_copy(update={"ends": time.monotonic() + 0.5}))


def test_the_end_of_the_run_cuts_the_counting_of_tokens(server: Server) -> None:
    server.counting_s = 0.8
    model, ending = opened(server), request().model_copy(update={"ends": time.monotonic() + 0.1})
    assert model.bound(ending) == model.assumed_bound(ending) and server.counted == 1 and model.counts
    server.counting_s = 0.0
    assert model.bound(request()) != model.assumed_bound(request())


# ---------------------------------------------------------------- errors


def test_a_refusal_is_an_error_of_its_own(server: Server) -> None:
    server.script = [Step(text="No.", stop="refusal")]
    with pytest.raises(RefusalError, match=r"models\.gatekeeper: claude-opus-5-5 declines to answer \(cyber\)") as raised:
        opened(server).ask(request())
    assert Usage.model_validate(raised.value.usage).cache_write_1h > 1000


def test_a_full_context_is_told(server: Server) -> None:
    server.script = [Step(text="{", stop="model_context_window_exceeded")]
    with pytest.raises(ProviderError, match="context"):
        opened(server).ask(request())


@pytest.mark.parametrize("status", [429, 500])
def test_a_request_that_was_not_taken_is_sent_again(server: Server, status: int) -> None:
    server.script = [Step(status=status, headers={"retry-after": "0.01"}), Step(text=REVIEW.model_dump_json())]
    assert isinstance(opened(server).ask(request()), Answered)
    assert len(server.headers) == 2


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (429, OverloadedError, "no room"),
        (529, OverloadedError, "no room"),
        (500, ProviderError, "could not be asked"),
        (400, SettingsError, "change the option"),
        (403, SettingsError, "does not give access"),
        (404, SettingsError, r"models\.gatekeeper\.model: 'claude-opus-5-5' is not served"),
    ],
)
def test_what_the_server_says_no_to(server: Server, status: int, kind: type[Exception], told: str) -> None:
    server.answer = lambda body: Step(status=status, headers={"retry-after": "0.01"}, message="because\nof this")
    with pytest.raises(kind, match=told) as raised:
        opened(server, max_retries=1).ask(request())
    assert type(raised.value) is kind and "because of this" in str(raised.value) and "models.gatekeeper" in str(raised.value)


def test_a_server_that_has_no_room_in_the_middle_is_overloaded(server: Server) -> None:
    server.answer = lambda body: Step(text="{", mid="overloaded_error")
    with pytest.raises(OverloadedError, match="in the middle"):
        opened(server).ask(request())


def test_a_server_that_is_not_there(server: Server) -> None:
    with pytest.raises(ProviderError, match=r"models\.gatekeeper"):
        opened(server, base_url="http://127.0.0.1:9", max_retries=0).ask(request())


# ---------------------------------------------------------------- what it takes at most


def test_tokens_are_counted_before_the_call(server: Server) -> None:
    server.script = [Step(text=REVIEW.model_dump_json())]
    model = opened(server)
    bound = model.bound(request())
    reply = model.ask(request())
    assert server.counted == 1 and bound.model == "claude-opus-5-5"
    read = reply.usage.input + reply.usage.cache_write + reply.usage.cache_write_1h
    assert read < bound.cache_write_1h < 4 * read + 3 * 2000 and reply.usage.output <= bound.output == 3 * 2000


def test_a_server_that_counts_no_tokens_is_asked_once(server: Server) -> None:
    server.counts = False
    model = opened(server, cache_ttl="5m")
    bound = model.bound(request())
    assert model.bound(request()) == bound and server.counted == 1
    assert bound.cache_write > 3 * 5000 / 3 and bound.cache_write_1h == 0


def test_what_was_paid_before_a_users_mistake_showed_is_told(server: Server) -> None:
    server.script = [Step(text=REVIEW.model_dump_json(), cut=3), Step(status=401)]
    with pytest.raises(SettingsError) as caught:
        opened(server).ask(request())
    told = Usage.model_validate(caught.value.usage)
    assert len(server.bodies) == 2 and told.input + told.cache_write + told.cache_write_1h > 0
