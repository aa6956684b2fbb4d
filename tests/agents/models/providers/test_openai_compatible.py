"""The provider for chat completions, through the real SDK and a real server on the loopback device."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from agents.artifacts import Drafts, GatekeeperBrief, Review
from agents.models.base import (
    AnswerReply,
    Model,
    PromptBlock,
    Request,
    Tool,
    ToolCall,
    ToolCallReply,
    ToolResult,
    Turn,
    UnfitReply,
    Usage,
)
from agents.models.time_limits import affordable_retries
from agents.roles.agent import Agent, open_model
from agents.tool_use.base import Toolbox
from tests.agents.models.openai_server import Server
from tests.agents.models.scripted_server import Step
from tests.contracts.test_models import ASKED, DIFF, TASK
from tools.errors import OverloadedError, ProviderError, RefusalError, SettingsError
from tools.store.records import Records

VETO = Review(veto=True, quote="new_one;", reason="It is not.")
SAID = VETO.model_dump_json()
CODE = (
    '#include <cmath>\nextern "C" void solve(const float* x, float* y, int n) {\n  for (int i = 0; i < n; '
    "++i) y[i] = x[i];\n}\n"
)
DRAFT = f"### draft: methods=openmp-parallel-outer knobs=TILE=64 note=first\n```cpp\n{CODE}```\n"
HALF = len(DRAFT) // 2
BLOCKS = (
    PromptBlock(scope="stable", text="You review."),
    PromptBlock(scope="run", text="The task."),
    PromptBlock(scope="iteration", text="The diff."),
)
LOOK = Tool(
    name="look",
    description="Look.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)


def model(server: Server | str, **options: Any) -> Model:
    url = server if isinstance(server, str) else server.url
    return open_model(
        "planner", {"provider": "openai_compatible", "model": "m", "base_url": url, "max_retries": 0, **options}
    )


def request(owed: str = "Review", ends_in: float | None = None, **more: Any) -> Request:
    """`ends_in`: seconds that the run has left for it."""
    role, brief = next((role, brief) for role, (brief, kind) in ASKED.items() if kind.__name__ == owed)
    ends = {} if ends_in is None else {"ends": time.monotonic() + ends_in}
    return Request(role=role, brief=brief, answer=owed, prompt=BLOCKS, **ends, **more)


def again(status: int) -> Step:
    """A refusal after which no test waits."""
    return Step(status=status, message="the server is not well", headers={"retry-after-ms": "20"})


def sent(server: Server) -> int:
    """Characters of all prompts."""
    return sum(len(json.dumps(body["messages"])) for body in server.bodies)


# ------------------------------------------------------------ answers


@pytest.mark.parametrize(
    "cached", [{"prompt_tokens_details": {"cached_tokens": 800}}, {"prompt_cache_hit_tokens": 800}]
)
def test_cached_tokens_are_not_counted_as_input(cached: dict[str, Any]) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050, **cached}
    with Server(Step(SAID, usage=usage)) as server:
        reply = model(server).ask(request())
    assert isinstance(reply, AnswerReply) and reply.answer == VETO
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.output, reply.usage.model) == (200, 800, 50, "m")
    assert reply.usage.seconds > 0 and server.asked[0].path == "/v1/chat/completions"


def test_a_server_that_tells_no_usage_is_counted_by_characters() -> None:
    with Server(Step(SAID, usage=None)) as server:
        reply = model(server).ask(request())
    assert reply.usage.input > 100 and reply.usage.output > 10


def test_stable_stands_in_the_system_message_and_run_before_iteration() -> None:
    with Server(Step(SAID)) as server:
        model(server).ask(request())
        model(server).ask(
            request().model_copy(update={"prompt": (*BLOCKS[:2], PromptBlock(scope="iteration", text="Another."))})
        )
    first, second = (body["messages"] for body in server.bodies)
    assert [message["role"] for message in first] == ["system", "user"] and first[0]["content"].startswith(
        "You review."
    )
    assert [told[1]["content"] for told in (first, second)] == ["The task.\n\nThe diff.", "The task.\n\nAnother."]
    assert first[0] == second[0], "what is stable is the same to the byte"


@pytest.mark.parametrize(
    ("owed", "structured", "form", "told"),
    [
        ("Review", "auto", "json_schema", '"veto"'),
        ("Review", "json_object", "json_object", '"veto"'),
        ("Review", "none", None, '"veto"'),
        ("Drafts", "auto", None, "### draft:"),
        ("Drafts", "json_schema", "json_schema", '"skipped"'),
    ],
)
def test_the_form_is_asked_for_and_stands_in_the_prompt(
    owed: str, structured: str, form: str | None, told: str
) -> None:
    with Server(Step(SAID if owed == "Review" else DRAFT)) as server:
        model(server, structured=structured).ask(request(owed))
    (body,) = server.bodies
    assert body.get("response_format", {}).get("type") == form and told in body["messages"][0]["content"]
    if form == "json_schema":
        asked = body["response_format"]["json_schema"]
        assert asked["name"] == owed and told.strip('"') in asked["schema"]["properties"]


def test_options_reach_the_server() -> None:
    more = {"top_k": 5, "chat_template_kwargs": {"thinking": False}}
    with Server(Step(DRAFT)) as server:
        asked = model(server, max_tokens=77, effort="low", extra=more, tools="off")
        assert not asked.calls_tools and isinstance(asked.ask(request("Drafts", tools=(LOOK,))), AnswerReply)
    (body,) = server.bodies
    assert {**body, "model": "m", "max_tokens": 77, "reasoning_effort": "low", **more} == body and "tools" not in body


def test_the_key_is_that_of_the_named_variable_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-another-service")
    monkeypatch.setenv("MY_KEY", "mine")
    with Server(Step(SAID)) as server:
        model(server).ask(request())
        model(server, api_key_env="MY_KEY").ask(request())
    assert "of-another-service" not in str(server.asked) and server.asked[1].headers["authorization"] == "Bearer mine"


# ------------------------------------------------------------ servers that take less


@pytest.mark.parametrize(
    ("key", "refusal", "instead"),
    [
        *(("response_format", Step(status=status, message="unknown field"), "") for status in (400, 422, 501)),
        (
            "max_tokens",
            Step(status=400, message="use 'max_completion_tokens' instead", code="unsupported"),
            "max_completion_tokens",
        ),
        ("stream_options", Step(status=400, message="stream_options is not allowed here"), "response_format"),
        ("tools", Step(status=400, message='"auto" tool choice requires --enable-auto-tool-choice'), "max_tokens"),
    ],
)
def test_what_a_server_does_not_take_is_left_out_from_then_on(key: str, refusal: Step, instead: str) -> None:
    with Server(Step(f"Sure:\n```json\n{SAID}\n```")) as server:
        server.refuses = {key: refusal}
        asked = model(server)
        assert all(isinstance(asked.ask(request(tools=(LOOK,) * (key == "tools"))), AnswerReply) for _ in range(2))
    assert [key in body for body in server.bodies] == [True, False, False]
    assert instead in str(server.bodies[1].keys()) and "veto" in server.bodies[1]["messages"][0]["content"]


def test_what_a_server_was_found_not_to_take_makes_no_paid_answer_lost(tmp_path: Path) -> None:
    """A resumed run has yet to find out, and asks for the same as the one before."""
    brief = ASKED["coder"][0]
    briefs = (brief, brief.model_copy(update={"source": "another"}))
    with Server(Step(DRAFT)) as server:
        server.refuses = {"tools": Step(status=400, message="tools are not supported")}
        for _ in range(2):
            resumed = Agent("coder", model(server), Records(tmp_path), lambda *_: None)
            assert all(resumed.ask(one, Drafts, toolbox=Looking()).drafts for one in briefs)
    assert len(server.asked) == 3, "once with tools, twice without, and nothing again"


# ------------------------------------------------------------ answers that are none


@pytest.mark.parametrize(
    ("text", "fault"), [('{"veto": "perhaps"}', "veto"), ('{"extra": 1}', "extra"), (" \n", "empty")]
)
def test_an_answer_that_does_not_fit_is_unfit_and_paid_for(text: str, fault: str) -> None:
    with Server(Step(text)) as server:
        reply = model(server).ask(request())
    assert isinstance(reply, UnfitReply) and fault in reply.faults[0] and reply.usage.output == 20


def test_a_refused_answer_is_asked_again_in_the_same_conversation(tmp_path: Path) -> None:
    with Server(Step("I like it."), Step(SAID)) as server:
        agent = Agent("gatekeeper", model(server), Records(tmp_path), lambda *_: None)
        assert agent.ask(GatekeeperBrief(task=TASK, diff=DIFF), Review) == VETO
    *_, said, told = server.bodies[1]["messages"]
    assert said == {"role": "assistant", "content": "I like it."} and "no JSON object Review" in told["content"]


def test_a_cut_off_answer_goes_on_within_the_bound() -> None:
    usage = {"prompt_tokens": 700, "completion_tokens": 30, "total_tokens": 730}
    asked = request("Drafts", turns=(Turn(said='{"content": "no"}', refused=("Shorter.",)),))
    with Server(Step(DRAFT[:HALF], stop="length", usage=usage), Step("```cpp\n" + DRAFT[HALF:], usage=usage)) as server:
        cut = model(server, max_tokens=30)
        reply, bound = cut.ask(asked), cut.usage_bound(asked)
    assert isinstance(reply, AnswerReply) and isinstance(reply.answer, Drafts) and reply.answer.drafts[0].source == CODE
    assert server.bodies[1]["messages"][-2] == {"role": "assistant", "content": DRAFT[:HALF]}
    assert (reply.usage.input, reply.usage.output) == (1400, 60), "both calls are paid for"
    assert reply.usage.output <= bound.output == 4 * 30 and bound.input * 3 >= sent(server)


@pytest.mark.parametrize(
    ("step", "calls", "fault"),
    [
        (Step("{ so on ", stop="length"), 3, "3 times 30 tokens"),
        (Step(stop="length", thinking="Hm. " * 9), 1, "gatekeeper.max_tokens"),
    ],
    ids=["no end", "thoughts leave no room"],
)
def test_an_answer_without_end_is_given_up(step: Step, calls: int, fault: str) -> None:
    with Server(step) as server:
        reply = model(server, max_tokens=30).ask(request())
    assert isinstance(reply, UnfitReply) and fault in reply.faults[0] and len(server.asked) == calls


@pytest.mark.parametrize(
    "step", [Step(refusal="I must not."), Step("{", stop="content_filter"), Step(status=400, code="content_filter")]
)
def test_a_model_that_declines_to_answer_is_told_as_that(step: Step) -> None:
    with Server(step) as server, pytest.raises(RefusalError, match="m declined to answer"):
        model(server).ask(request())


# ------------------------------------------------------------ what goes wrong


@pytest.mark.parametrize(
    ("refusal", "attempts", "error"),
    [
        (again(429), 3, OverloadedError),
        (again(503), 3, OverloadedError),
        (again(500), 3, ProviderError),
        (again(400), 1, ProviderError),
    ],
)
def test_what_may_be_gone_the_next_time_is_asked_again(
    refusal: Step, attempts: int, error: type[ProviderError]
) -> None:
    with Server(refusal) as server, pytest.raises(error, match="the server is not well"):
        model(server, structured="none", max_retries=2).ask(request())
    assert len(server.asked) == attempts
    if attempts == 3:
        with Server(refusal, refusal, Step(SAID)) as server:
            assert isinstance(model(server, max_retries=2).ask(request()), AnswerReply)
        assert all("response_format" in body for body in server.bodies), "that was no fault of the form"


@pytest.mark.parametrize(
    "how", [{"cut": 2}, {"cut": 2, "quiet": True}, {"garbage": True}], ids=["cut", "quiet", "garbage"]
)
def test_a_broken_stream_is_asked_for_once_more_and_paid_for(how: dict[str, Any]) -> None:
    broken = Step(SAID, **how)
    with Server(broken, Step(SAID)) as server:
        assert isinstance(model(server).ask(request()), AnswerReply)
    with (
        Server(broken) as server,
        pytest.raises(ProviderError, match=r"models\.gatekeeper: the stream from m at http://127") as caught,
    ):
        model(server).ask(request())
    took = Usage.model_validate(caught.value.usage)
    assert len(server.asked) == 2 and took.model == "m" and took.input >= sent(server) // 3 - 2 and took.output > 0


def test_streams_break_off_no_more_often_for_a_long_answer() -> None:
    """Each continuation asked for again as often would pass the bound."""
    cut = Step(SAID, cut=2)
    with (
        Server(cut, Step("{ and so on ", stop="length"), cut) as server,
        pytest.raises(ProviderError, match="broke off 2 times") as caught,
    ):
        model(server, max_tokens=30).ask(request())
    assert len(server.asked) == 3 and Usage.model_validate(caught.value.usage).output > 20


@pytest.mark.parametrize(
    ("step", "options", "ends_in", "told"),
    [
        (Step(pings=True), {"answer_s": 0.3, "timeout_s": 20}, None, "has not finished after 0.3 s; raise"),
        (Step(pause_s=30), {"timeout_s": 3}, None, "sent nothing for 3 s"),
        (Step(pings=True), {"timeout_s": 500}, 3, "no answer came before the run's time ended"),
        (Step(pause_s=30), {"timeout_s": 500}, 3, "no answer came before the run's time ended"),
    ],
    ids=["signs of life", "silence", "the run's end during signs of life", "the run's end during silence"],
)
def test_silence_and_signs_of_life_without_end_are_given_up(
    step: Step, options: dict[str, Any], ends_in: float | None, told: str
) -> None:
    with Server(step) as server, pytest.raises(ProviderError, match=rf"models\.gatekeeper: .*{told}"):
        model(server, **options).ask(request(ends_in=ends_in))


def test_no_more_is_tried_again_than_the_run_has_time_for() -> None:
    assert [affordable_retries(request(ends_in=left_s), 20) for left_s in (0.4, 1000, None)] == [0, 20, 20]


def test_a_later_attempt_has_only_what_the_run_has_left() -> None:
    with Server(again(503), Step(pause_s=30)) as server, pytest.raises(ProviderError, match="the run's time ended"):
        model(server, timeout_s=500, max_retries=1).ask(request(ends_in=3))
    assert len(server.asked) == 2


@pytest.mark.parametrize("pause", ["300", "Fri, 01 Jan 2100 00:00:00 GMT"])
@pytest.mark.parametrize(
    ("ends_in", "timeout_s"), [(100, 500), (1e9, 30)], ids=["the end of the run", "its own time-out"]
)
def test_a_server_that_asks_for_a_longer_pause_than_there_is_time_for_is_overloaded(
    pause: str, ends_in: float, timeout_s: float
) -> None:
    with Server(Step(status=429, headers={"retry-after": pause})) as server, pytest.raises(OverloadedError):
        model(server, timeout_s=timeout_s, max_retries=4).ask(request(ends_in=ends_in))
    assert len(server.asked) == 1


def test_a_key_that_a_server_repeats_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "an0pAqu3-k3y-0f-n0-kn0wn-k1nd"
    monkeypatch.setenv("MINE", key)
    for step in (
        Step(status=401, message=f"{'x' * 390} {key}"),
        Step(status=500, message=f"no {key}"),
        Step(refusal=f"Not {key}."),
    ):
        with Server(step) as server, pytest.raises((SettingsError, ProviderError)) as caught:
            model(server, api_key_env="MINE").ask(request())
        assert key[:8] not in str(caught.value) and "models.gatekeeper" in str(caught.value)


def test_a_server_that_is_not_there_is_named_with_what_to_start() -> None:
    with pytest.raises(ProviderError, match=r"http://127\.0\.0\.1:9/v1.*vllm serve"):
        model("http://127.0.0.1:9/v1").ask(request())


@pytest.mark.parametrize(
    ("step", "kind", "told"),
    [
        (Step(status=401), SettingsError, r"name its variable in api_key_env\) does not give access"),
        (Step(status=404), SettingsError, r"models\.gatekeeper\.model"),
        (Step(status=429, code="insufficient_quota"), ProviderError, "no money"),
    ],
)
def test_what_the_user_can_mend_is_said(step: Step, kind: type[Exception], told: str) -> None:
    with Server(step) as server, pytest.raises(kind, match=told) as caught:
        model(server).ask(request())
    assert type(caught.value) is kind, "no money is not no room"


# ------------------------------------------------------------ tools


class Looking(Toolbox):
    """Offers `look` and remembers what was looked at."""

    max_turns = 3
    tools = (LOOK,)

    def __init__(self) -> None:
        self.looked: list[ToolCall] = []

    def call(self, wanted: ToolCall) -> ToolResult:
        self.looked.append(wanted)
        return ToolResult(id=wanted.id, text=f"seen {wanted.arguments['at']}")


@pytest.mark.parametrize("no_index", [False, True])
def test_calls_in_pieces_are_put_together(no_index: bool) -> None:
    with Server(Step("Let me see.", (("look", '{"at": "line 1"}'), ("look", '{"at": "2"}')))) as server:
        server.no_index = no_index
        reply = model(server).ask(request("Drafts", tools=(LOOK,)))
    assert isinstance(reply, ToolCallReply)
    assert [(call.id, call.name, call.arguments["at"]) for call in reply.calls] == [
        ("call_0", "look", "line 1"),
        ("call_1", "look", "2"),
    ]
    assert server.bodies[0]["tools"] == [{"type": "function", "function": LOOK.model_dump()}]


@pytest.mark.parametrize("written", ['{"at": "x"', '["x"]', "x"])
def test_in_a_conversation_with_tools_a_call_that_cannot_be_read_fails_alone(written: str, tmp_path: Path) -> None:
    box = Looking()
    with Server(Step("", (("look", written), ("look", '{"at": "y"}')), thinking="Hm."), Step(DRAFT)) as server:
        agent = Agent("coder", model(server), Records(tmp_path), lambda *_: None)
        assert agent.ask(ASKED["coder"][0], Drafts, toolbox=box).drafts[0].source == CODE
    _, _, said, *results = server.bodies[1]["messages"]
    assert [call.id for call in box.looked] == ["call_1"] and said["reasoning_content"] == "Hm."
    assert [json.loads(call["function"]["arguments"]) for call in said["tool_calls"]] == [{}, {"at": "y"}], (
        "servers read the calls again"
    )
    assert [(told["role"], told["tool_call_id"]) for told in results] == [("tool", "call_0"), ("tool", "call_1")]
    assert results[0]["content"].startswith("failed: the arguments of look") and results[1]["content"] == "seen y"


# ------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"base_url": None}, ["base_url"]),
        ({"base_url": "localhost:8000"}, ["base_url"]),
        ({"api_key_env": "sk-secret"}, ["api_key_env"]),
        ({"extra": {"messages": []}}, ["extra"]),
        ({"max_tokens": 0, "timeout_s": float("inf"), "stucture": "none"}, ["stucture", "max_tokens", "timeout_s"]),
    ],
)
def test_each_mistake_in_the_options_is_a_line_that_names_its_key(options: dict[str, Any], keys: list[str]) -> None:
    given = {"provider": "openai_compatible", "model": "m", "base_url": "http://127.0.0.1:1/v1", **options}
    with pytest.raises(SettingsError) as caught:
        open_model("planner", {key: value for key, value in given.items() if value is not None})
    assert [line.partition(": ")[0] for line in str(caught.value).splitlines()] == [
        f"models.planner.{key}" for key in keys
    ]
    assert "secret" not in str(caught.value)
