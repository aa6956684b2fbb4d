"""The provider for chat completions, through the real SDK and a real server on the loopback device."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from agents.artifacts import Drafts, GatekeeperBrief, Plan, Review
from agents.base import Agent, open_model
from agents.models.base import Answered, Block, Called, Model, Request, Tool, ToolCall, ToolResult, Turn, Unfit, Usage
from agents.models.patience import pause_s
from agents.toolbox import Toolbox
from tests.agents.models.openai_server import Breaks, Fails, Says, Server, serving
from tests.contracts.test_models import ASKED, DIFF, PLAN, TASK
from tools.errors import OverloadedError, ProviderError, RefusalError, SettingsError
from tools.records import Records

VETO = Review(veto=True, quote="new_one;", reason="It is not.")
CODE = '#include <cmath>\nextern "C" void solve(const float* x, float* y, int n) {\n  for (int i = 0; i < n; ++i) y[i] = x[i];\n}\n'
DRAFT = f"### draft: methods=openmp-parallel-outer knobs=TILE=64 note=first\n```cpp\n{CODE}```\n"
BLOCKS = (
    Block(scope="stable", text="You review."),
    Block(scope="run", text="The task."),
    Block(scope="iteration", text="The diff."),
)
LOOK = Tool(name="look", description="Look.", parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]})


def model(server: Server | str, **options: Any) -> Model:
    url = server if isinstance(server, str) else server.url
    return open_model("planner", {"provider": "openai_compatible", "model": "m", "base_url": url, "max_retries": 0, **options})


def request(owed: str = "Review", **more: Any) -> Request:
    role, brief = next((role, brief) for role, (brief, kind) in ASKED.items() if kind.__name__ == owed)
    return Request(role=role, brief=brief, answer=owed, prompt=BLOCKS, **more)


def last(server: Server) -> dict[str, Any]:
    return server.asked[-1].body


# ------------------------------------------------------------ answers


@pytest.mark.parametrize(
    "cached", [{"prompt_tokens_details": {"cached_tokens": 800}}, {"prompt_cache_hit_tokens": 800}], ids=["own", "other"]
)
def test_an_answer_with_its_usage(cached: dict[str, Any]) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050, **cached}
    with serving(Says(VETO.model_dump_json(), usage=usage)) as server:
        reply = model(server).ask(request())
    assert isinstance(reply, Answered) and reply.answer == VETO
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.output, reply.usage.model) == (200, 800, 50, "m"), (
        "prompt_tokens holds the cached ones, input does not"
    )
    assert reply.usage.seconds > 0 and server.asked[0].path == "/v1/chat/completions"


def test_a_server_that_tells_no_usage_is_counted_by_characters() -> None:
    with serving(Says(VETO.model_dump_json(), usage=None)) as server:
        reply = model(server).ask(request())
    assert reply.usage.input > 100 and reply.usage.output > 10


def test_stable_stands_in_the_system_message_and_run_before_iteration() -> None:
    with serving(Says(VETO.model_dump_json())) as server:
        model(server).ask(request())
        first = last(server)["messages"]
        model(server).ask(request().model_copy(update={"prompt": (*BLOCKS[:2], Block(scope="iteration", text="Another."))}))
        second = last(server)["messages"]
    assert [m["role"] for m in first] == ["system", "user"]
    assert first[0]["content"].startswith("You review.") and "Review" in first[0]["content"]
    assert first[1]["content"] == "The task.\n\nThe diff." and second[1]["content"] == "The task.\n\nAnother."
    assert first[0] == second[0], "what is stable is the same to the byte"


def test_json_is_held_to_a_schema_and_drafts_are_asked_for_as_code() -> None:
    with serving(Says(PLAN.model_dump_json())) as server:
        assert isinstance(model(server).ask(request("Plan")), Answered)
        asked = last(server)["response_format"]
    assert asked["type"] == "json_schema" and asked["json_schema"]["name"] == "Plan"
    assert set(asked["json_schema"]["schema"]["properties"]) == set(Plan.model_fields)
    with serving(Says(f"Here it is.\n\n{DRAFT}")) as server:
        reply = model(server).ask(request("Drafts"))
        assert "response_format" not in last(server) and "### draft:" in last(server)["messages"][0]["content"]
    assert isinstance(reply, Answered) and isinstance(reply.answer, Drafts)
    assert reply.answer.drafts[0].source == CODE and reply.answer.drafts[0].knobs == {"TILE": "64"}


def test_the_form_can_be_chosen() -> None:
    for structured, form in (("json_object", {"type": "json_object"}), ("none", None)):
        with serving(Says(VETO.model_dump_json())) as server:
            model(server, structured=structured).ask(request())
            assert last(server).get("response_format") == form
            assert '"veto"' in last(server)["messages"][0]["content"], "the schema stands in the prompt"
    with serving(Says(Drafts(drafts=()).model_dump_json())) as server:
        model(server, structured="json_schema").ask(request("Drafts"))
        assert last(server)["response_format"]["type"] == "json_schema"
        assert "### draft:" not in last(server)["messages"][0]["content"]


def test_options_reach_the_server() -> None:
    with serving(Says(VETO.model_dump_json())) as server:
        model(server, max_tokens=77, effort="low", extra={"top_k": 5, "chat_template_kwargs": {"thinking": False}}).ask(request())
    asked = last(server)
    assert (asked["max_tokens"], asked["reasoning_effort"], asked["top_k"]) == (77, "low", 5)
    assert asked["chat_template_kwargs"] == {"thinking": False} and asked["model"] == "m"


def test_the_key_is_that_of_the_named_variable_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-another-service")
    monkeypatch.setenv("MY_KEY", "mine")
    with serving(Says(VETO.model_dump_json())) as server:
        model(server).ask(request())
        assert "of-another-service" not in json.dumps(server.asked[-1].headers)
        model(server, api_key_env="MY_KEY").ask(request())
        assert server.asked[-1].headers["authorization"] == "Bearer mine"


# ------------------------------------------------------------ servers that take less


@pytest.mark.parametrize("status", [400, 422, 501])
def test_without_response_format_the_schema_stands_in_the_prompt_and_it_is_remembered(status: int) -> None:
    refusal = Fails(status, "unknown field")
    with serving(Says(f"Sure:\n```json\n{VETO.model_dump_json()}\n```"), refuses={"response_format": refusal}) as server:
        asked = model(server)
        assert isinstance(asked.ask(request()), Answered)
        assert len(server.asked) == 2
        assert isinstance(asked.ask(request()), Answered)
        assert len(server.asked) == 3, "it is not tried again"
    assert "veto" in last(server)["messages"][0]["content"]


@pytest.mark.parametrize(
    ("key", "refusal", "instead"),
    [
        (
            "max_tokens",
            Fails(400, "Unsupported parameter: use 'max_completion_tokens' instead", "unsupported_parameter"),
            "max_completion_tokens",
        ),
        ("stream_options", Fails(400, "stream_options is not allowed here"), None),
    ],
)
def test_a_parameter_that_is_not_known_is_left_out(key: str, refusal: Fails, instead: str | None) -> None:
    with serving(Says(VETO.model_dump_json()), refuses={key: refusal}) as server:
        assert isinstance(model(server).ask(request()), Answered)
    assert key not in last(server) and (instead is None or instead in last(server))
    assert "response_format" in last(server)


def test_a_server_without_tools_is_asked_without_them_from_then_on() -> None:
    with serving(Says(DRAFT), refuses={"tools": Fails(400, '"auto" tool choice requires --enable-auto-tool-choice')}) as server:
        asked = model(server)
        assert isinstance(asked.ask(request("Drafts", tools=(LOOK,))), Answered)
        assert isinstance(asked.ask(request("Drafts", tools=(LOOK,))), Answered)
        assert ["tools" in one.body for one in server.asked] == [True, False, False]


def test_what_a_server_was_found_not_to_take_makes_no_paid_answer_lost(tmp_path: Path) -> None:
    """A resumed run has yet to find out, and asks for the same as the one before."""
    brief = ASKED["coder"][0]
    briefs = (brief, brief.model_copy(update={"source": "another"}))
    with serving(Says(DRAFT), refuses={"tools": Fails(400, "tools are not supported")}) as server:
        for _ in range(2):
            resumed = Agent("coder", model(server), Records(tmp_path), lambda *_: None)
            assert all(resumed.ask(one, Drafts, toolbox=Looking()).drafts for one in briefs)
        assert len(server.asked) == 3, "once with tools, twice without, and nothing again"


def test_a_prompt_that_is_too_long_is_no_fault_of_the_form() -> None:
    with serving(Fails(400, "This model's maximum context length is 4096 tokens")) as server:
        with pytest.raises(ProviderError, match=r"no room for the prompt and models.gatekeeper.max_tokens 16000"):
            model(server).ask(request())
        assert len(server.asked) == 1


# ------------------------------------------------------------ what goes wrong


def test_an_answer_that_does_not_fit_is_unfit_with_a_sentence() -> None:
    with serving(Says('{"veto": "perhaps", "extra": 1}')) as server:
        reply = model(server).ask(request())
    assert isinstance(reply, Unfit) and any("veto" in fault for fault in reply.faults) and any("extra" in fault for fault in reply.faults)
    assert reply.usage.output == 20, "it is paid for even so"


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_answer_is_unfit(text: str) -> None:
    with serving(Says(text)) as server:
        reply = model(server).ask(request())
    assert isinstance(reply, Unfit) and "empty" in reply.faults[0]


def test_a_refused_answer_is_asked_again_in_the_same_conversation(tmp_path: Path) -> None:
    with serving(Says("I like it."), Says(VETO.model_dump_json())) as server:
        agent = Agent("gatekeeper", model(server), Records(tmp_path), lambda *_: None)
        assert agent.ask(GatekeeperBrief(task=TASK, diff=DIFF), Review) == VETO
        told = last(server)["messages"]
    assert [m["role"] for m in told] == ["system", "user", "assistant", "user"]
    assert told[2]["content"] == "I like it." and "no JSON object Review" in told[3]["content"]


def test_a_cut_off_answer_goes_on() -> None:
    half = len(DRAFT) // 2
    with serving(Says(DRAFT[:half], finish="length"), Says("```cpp\n" + DRAFT[half:])) as server:
        reply = model(server, max_tokens=30).ask(request("Drafts"))
        told = last(server)["messages"]
    assert isinstance(reply, Answered) and isinstance(reply.answer, Drafts) and reply.answer.drafts[0].source == CODE
    assert told[-2] == {"role": "assistant", "content": DRAFT[:half]} and told[-1]["role"] == "user"
    assert (reply.usage.input, reply.usage.output) == (200, 40), "both calls are paid for"


def test_an_answer_without_end_is_given_up() -> None:
    with serving(Says("{ and so on ", finish="length")) as server:
        reply = model(server, max_tokens=30).ask(request())
        assert len(server.asked) == 3
    assert isinstance(reply, Unfit) and "3 times 30 tokens" in reply.faults[0]


def test_thoughts_that_leave_no_room_for_an_answer_name_the_option() -> None:
    with serving(Says("", finish="length", thoughts="Hm. " * 9)) as server:
        reply = model(server, max_tokens=30).ask(request())
        assert len(server.asked) == 1
    assert isinstance(reply, Unfit) and "models.gatekeeper.max_tokens" in reply.faults[0]


@pytest.mark.parametrize("step", [Says(refusal="I must not."), Says("{", finish="content_filter"), Fails(400, "no", "content_filter")])
def test_a_refusal(step: Says | Fails) -> None:
    with serving(step) as server, pytest.raises(RefusalError, match="m declined to answer"):
        model(server).ask(request())


@pytest.mark.parametrize("status", [429, 503])
def test_no_room_after_all_retries(status: int) -> None:
    full = Fails(status, "too many at once", headers=(("retry-after-ms", "5"),))
    with serving(full) as server:
        with pytest.raises(OverloadedError, match="asked up to 3 times: too many at once"):
            model(server, max_retries=2).ask(request())
        assert len(server.asked) == 3
    with serving(full, full, Says(VETO.model_dump_json())) as server:
        assert isinstance(model(server, max_retries=2).ask(request()), Answered)


def test_a_server_that_fails_once_is_asked_again() -> None:
    with serving(Fails(500, headers=(("retry-after-ms", "5"),)), Says(VETO.model_dump_json())) as server:
        assert isinstance(model(server, max_retries=1).ask(request()), Answered)
        assert all("response_format" in one.body for one in server.asked), "that was no fault of the form"
    with serving(Fails(500)) as server, pytest.raises(ProviderError, match="answered 500: the server is not well"):
        model(server).ask(request())


@pytest.mark.parametrize("how", ["cut", "quiet", "garbage"])
def test_a_broken_stream_is_asked_for_once_more(how: str) -> None:
    with serving(Breaks(how), Says(VETO.model_dump_json())) as server:
        assert isinstance(model(server).ask(request()), Answered)
    with serving(Breaks(how)) as server:
        with pytest.raises(ProviderError, match=r"models\.gatekeeper: the stream from m at http://127") as caught:
            model(server).ask(request())
        assert len(server.asked) == 2
    took = Usage.model_validate(caught.value.usage)
    sent = sum(len(json.dumps(one.body["messages"])) for one in server.asked)
    assert took.model == "m" and took.input >= sent // 3 - 2 and took.output > 0, "both were paid for"


def test_streams_break_off_no_more_often_for_a_long_answer() -> None:
    """Each continuation asked for again as often would pass the bound."""
    half = Says("{ and so on ", finish="length")
    with serving(Breaks("cut"), half, Breaks("cut")) as server, pytest.raises(ProviderError, match="broke off 2 times") as caught:
        model(server, max_tokens=30).ask(request())
    assert len(server.asked) == 3 and Usage.model_validate(caught.value.usage).output > 20


def test_signs_of_life_without_end_are_given_up() -> None:
    with (
        serving(Says("{}", pings=True)) as server,
        pytest.raises(ProviderError, match=r"models.gatekeeper: .* not done after 0.3 s; raise"),
    ):
        model(server, answer_s=0.3, timeout_s=20).ask(request())


@pytest.mark.parametrize("step", [Says("{}", pings=True), Says("{}", waits=2.0)], ids=["signs of life", "silence"])
def test_the_end_of_the_run_cuts_its_time_outs(step: Says) -> None:
    with serving(step) as server, pytest.raises(ProviderError, match=r"models\.gatekeeper: no answer before the run's time was up"):
        model(server, timeout_s=500, max_retries=20).ask(ending(0.3))


def ending(seconds: float) -> Request:
    """A request that the run has so many seconds left for."""
    return request().model_copy(update={"ends": time.monotonic() + seconds})


def borne(server: Server) -> list[float]:
    """The silence that each attempt would bear, in seconds; the SDK tells it with the request."""
    return [float(one.headers["x-stainless-read-timeout"]) for one in server.asked]


def test_a_time_out_of_its_own_does_not_let_attempts_pass_the_end_of_the_run() -> None:
    with serving(Says("{}", waits=2.0)) as server:
        with pytest.raises(ProviderError, match=r"said nothing for 0.1 s"):
            model(server, timeout_s=0.1, max_retries=20).ask(ending(0.4))
        assert borne(server) == [0.1], "the pause before another is longer than what is left"


def test_a_pause_as_long_as_the_time_out_is_made_and_a_longer_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("agents.models.patience.time.sleep", slept.append)
    full = [Fails(503, headers=(("retry-after", seconds),)) for seconds in ("20", "21")]
    with serving(*full) as server, pytest.raises(OverloadedError):
        model(server, timeout_s=20, max_retries=5).ask(request())
    assert slept == [20.0] and len(server.asked) == 2


def test_every_attempt_has_what_the_run_has_left() -> None:
    full = Fails(503, headers=(("retry-after-ms", "20"),))
    with serving(full, full, Says(VETO.model_dump_json())) as server:
        assert isinstance(model(server, timeout_s=500, max_retries=2).ask(ending(100)), Answered)
        waits = borne(server)
    assert waits[0] <= 100 and waits[0] - waits[1] >= 0.02 and waits[1] - waits[2] >= 0.02
    with serving(full, Says(VETO.model_dump_json())) as server:
        assert isinstance(model(server, timeout_s=50, max_retries=2).ask(request()), Answered)
        assert borne(server) == [50, 50]


@pytest.mark.parametrize("header", [("retry-after", "300"), ("retry-after-ms", "300000"), ("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT")])
@pytest.mark.parametrize(("ends_in", "timeout_s"), [(100, 500), (1e9, 30)], ids=["the end of the run", "its own time-out"])
def test_nobody_waits_longer_than_that(header: tuple[str, str], ends_in: float, timeout_s: float) -> None:
    with serving(Fails(429, "too many at once", headers=(header,))) as server:
        with pytest.raises(OverloadedError, match="too many at once"):
            model(server, timeout_s=timeout_s, max_retries=4).ask(ending(ends_in))
        assert len(server.asked) == 1


@pytest.mark.parametrize(("status", "said", "attempts"), [(500, "false", 1), (400, "true", 2), (400, None, 1), (409, None, 2)])
def test_what_is_asked_again_is_what_may_be_gone_then(status: int, said: str | None, attempts: int) -> None:
    headers = (("retry-after-ms", "1"), *((("x-should-retry", said),) if said else ()))
    with serving(Fails(status, "broken", headers=headers)) as server:
        with pytest.raises(ProviderError, match="broken"):
            model(server, structured="none", max_retries=1).ask(request())
        assert len(server.asked) == attempts


@pytest.mark.parametrize(
    ("attempts", "headers", "seconds"),
    [
        (1, {}, 0.5),
        (3, {}, 2.0),
        (3, {"retry-after": "7.5"}, 7.5),
        (3, {"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        (3, {"retry-after": "inf"}, 2.0),
        (3, {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 2.0),
    ],
)
def test_the_pause_before_another_attempt(attempts: int, headers: dict[str, str], seconds: float) -> None:
    assert pause_s(attempts, headers) == seconds


def test_a_key_that_a_server_repeats_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "an0pAqu3-k3y-0f-n0-kn0wn-k1nd"
    monkeypatch.setenv("MINE", key)
    for step in (Fails(401, f"{'x' * 390} {key} is wrong"), Fails(500, f"no {key}"), Says(refusal=f"Not with {key}.")):
        with serving(step) as server, pytest.raises((SettingsError, ProviderError)) as caught:
            model(server, api_key_env="MINE").ask(request())
        assert key[:8] not in str(caught.value) and "models.gatekeeper" in str(caught.value)


def test_a_server_that_is_not_there_is_named_with_what_to_start() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ProviderError) as caught:
        model(url).ask(request())
    assert url in str(caught.value) and "vllm serve" in str(caught.value)


@pytest.mark.parametrize(
    ("step", "key"),
    [
        (Fails(401, "bad key"), "models.gatekeeper.api_key_env"),
        (Fails(404, "no such model"), "models.gatekeeper.model"),
    ],
)
def test_what_the_user_can_mend_is_a_settings_error(step: Fails, key: str) -> None:
    with serving(step) as server, pytest.raises(SettingsError, match=key):
        model(server).ask(request())


def test_no_money_is_not_no_room() -> None:
    with (
        serving(Fails(429, "You exceeded your quota", "insufficient_quota")) as server,
        pytest.raises(ProviderError, match="no money") as caught,
    ):
        model(server).ask(request())
    assert not isinstance(caught.value, OverloadedError)


# ------------------------------------------------------------ tools


class Looking(Toolbox):
    """Offers `look` and remembers what was looked at."""

    rounds = 3
    tools = (LOOK,)

    def __init__(self) -> None:
        self.looked: list[ToolCall] = []

    def call(self, wanted: ToolCall) -> ToolResult:
        self.looked.append(wanted)
        return ToolResult(id=wanted.id, text=f"seen {wanted.arguments['at']}")


@pytest.mark.parametrize("no_index", [False, True])
def test_calls_in_pieces_are_put_together(no_index: bool) -> None:
    calls = (("a", "look", '{"at": "line 1"}'), ("b", "look", '{"at": "line 2"}'))
    with serving(Says("Let me see.", calls, "tool_calls", no_index=no_index)) as server:
        reply = model(server).ask(request("Drafts", tools=(LOOK,)))
    assert isinstance(reply, Called)
    assert [(c.id, c.name, c.arguments) for c in reply.calls] == [("a", "look", {"at": "line 1"}), ("b", "look", {"at": "line 2"})]
    assert last(server)["tools"] == [{"type": "function", "function": LOOK.model_dump()}]


def test_a_conversation_with_tools_and_thoughts(tmp_path: Path) -> None:
    box = Looking()
    with serving(Says("", (("a", "look", '{"at": "x"}'),), "tool_calls", thoughts="Hm."), Says(DRAFT)) as server:
        agent = Agent("coder", model(server), Records(tmp_path), lambda *_: None)
        brief = ASKED["coder"][0]
        assert agent.ask(brief, Drafts, toolbox=box).drafts[0].source == CODE
        told = last(server)["messages"]
    assert [m["role"] for m in told] == ["system", "user", "assistant", "tool"]
    assert told[2]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "x"}'} and told[2]["reasoning_content"] == "Hm."
    assert told[3] == {"role": "tool", "tool_call_id": "a", "content": "seen x"}


@pytest.mark.parametrize("written", ['{"at": "x"', '["x"]', "x"])
def test_arguments_that_cannot_be_read_fail_that_call_and_the_conversation_goes_on(written: str, tmp_path: Path) -> None:
    box = Looking()
    calls = (("a", "look", written), ("b", "look", '{"at": "y"}'))
    with serving(Says("", calls, "tool_calls"), Says(DRAFT)) as server:
        agent = Agent("coder", model(server), Records(tmp_path), lambda *_: None)
        assert agent.ask(ASKED["coder"][0], Drafts, toolbox=box).drafts
        told = last(server)["messages"]
    assert [call.id for call in box.looked] == ["b"]
    assert told[3]["content"].startswith("failed: the arguments of look") and told[4]["content"] == "seen y"
    assert json.loads(told[2]["tool_calls"][0]["function"]["arguments"]) == {}, "servers read a conversation's calls again"


def test_tools_can_be_off() -> None:
    with serving(Says(DRAFT)) as server:
        asked = model(server, tools="off")
        assert not asked.calls_tools and isinstance(asked.ask(request("Drafts", tools=(LOOK,))), Answered)
    assert "tools" not in last(server)


def test_a_bound_is_not_passed_by_what_is_paid() -> None:
    half = len(DRAFT) // 2
    usage = {"prompt_tokens": 700, "completion_tokens": 30, "total_tokens": 730}
    with serving(Says(DRAFT[:half], finish="length", usage=usage), Says(DRAFT[half:], usage=usage)) as server:
        asked = model(server, max_tokens=30)
        turns = (Turn(said='{"content": "no"}', refused=("Shorter.",)),)
        bound = asked.bound(request("Drafts", turns=turns))
        paid = asked.ask(request("Drafts", turns=turns)).usage
        sent = sum(len(json.dumps(one.body["messages"])) for one in server.asked)
    assert paid.output <= bound.output == 4 * 30 and bound.model == "m" and bound.input * 3 >= sent
    assert not server.asked[0].body.get("stop")


# ------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"base_url": None}, "models.planner.base_url"),
        ({"base_url": "localhost:8000"}, "models.planner.base_url: must be an address"),
        ({"base_url": "http://me:secret@host/v1"}, "models.planner.base_url: must hold no user"),
        ({"api_key": "sk-secret"}, "models.planner.api_key: looks like a key"),
        ({"api_key_env": "sk-secret"}, "models.planner.api_key_env: looks like a key"),
        ({"api_key_env": "NOT_SET_ANYWHERE"}, "the environment variable NOT_SET_ANYWHERE is not set"),
        ({"structured": "xml"}, "models.planner.structured"),
        ({"max_tokens": 0}, "models.planner.max_tokens"),
        ({"model": "sk-secret" + "Zq7x" * 8}, "models.planner.model: looks like a key"),
        ({"timeout_s": float("inf")}, "models.planner.timeout_s: must be a finite number"),
        ({"extra": {"messages": []}}, "models.planner.extra: must not hold messages"),
        ({"max_token": 5}, "models.planner.max_token: unknown key; did you mean 'max_tokens'?"),
    ],
)
def test_a_mistake_is_one_sentence_that_repeats_no_secret(options: dict[str, Any], said: str) -> None:
    given = {"provider": "openai_compatible", "model": "m", "base_url": "http://127.0.0.1:1/v1", **options}
    with pytest.raises(SettingsError) as caught:
        open_model("planner", {key: value for key, value in given.items() if value is not None})
    text = str(caught.value)
    assert said in text and "\n" not in text and "secret" not in text


def test_several_mistakes_have_a_line_each() -> None:
    with pytest.raises(SettingsError) as caught:
        model("http://127.0.0.1:1/v1", max_tokens=0, timeout_s=-1, stucture="none")
    keys = [line.partition(": ")[0] for line in str(caught.value).splitlines()]
    assert keys == ["models.planner.stucture", "models.planner.max_tokens", "models.planner.timeout_s"]
