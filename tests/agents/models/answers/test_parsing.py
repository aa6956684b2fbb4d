"""From what models write to answers: JSON in all its surroundings, drafts as fenced code, and what is refused."""

from __future__ import annotations

import json

import pytest

from agents import artifacts
from agents.artifacts import Draft, Drafts, Review
from agents.models.answers import code_blocks, parsing
from agents.models.base import AnswerReply, PromptBlock, Request, UnfitReply, Usage
from tests.contracts.test_models import ASKED

VETO = Review(veto=True, quote="{ x[i] }", reason='It says "no".')
CODE = 'extern "C" void solve(float* x, int n) {\n  x[0] = \'"\';  // {"drafts": []}\n}\n'


def request(owed: str) -> Request:
    role, brief = next((role, brief) for role, (brief, kind) in ASKED.items() if kind.__name__ == owed)
    return Request(role=role, brief=brief, answer=owed)


def read(text: str, owed: str = "Review") -> artifacts.Answer | tuple[str, ...]:
    reply = parsing.parse_answer(text, request(owed), said="said", usage=Usage(output=3))
    assert reply.said == "said" and reply.usage.output == 3
    if isinstance(reply, UnfitReply):
        assert reply.faults and all("\n" not in fault for fault in reply.faults)
        return reply.faults
    assert isinstance(reply, AnswerReply)
    return reply.answer


WRITTEN = VETO.model_dump_json(indent=1)


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        f"```json\n{WRITTEN}\n```",
        f"I looked at it.\n\n~~~\n{WRITTEN}\n~~~\nThat is {{all}}.",
        f"The code has `{{ int i; }}` and an empty {{}} in it: {WRITTEN} I hope this helps!",
        f'First {{"note": "of no use"}}, then {WRITTEN}',
        f"{WRITTEN}\n\nOnce more, in short:\n{VETO.model_dump_json()}",
        f'<think>Perhaps {{"veto": false}}?</think>\n{WRITTEN}',
    ],
)
def test_the_answer_is_found_in_its_surroundings(text: str) -> None:
    assert read(text) == VETO


def test_what_stands_in_code_or_has_no_bottom_is_no_answer() -> None:
    code = '```cpp\n// {"veto": false}\n```\n'
    assert read(f"{code}{WRITTEN}") == VETO and isinstance(read(code), tuple)
    assert isinstance(read('{"a": ' * 3000 + "1" + "}" * 3000), tuple)


def test_each_missing_field_is_named() -> None:
    faults = read('{"methods": [{"method": "m"}]}', "Plan")
    assert faults == tuple(
        f"{name}: this field is missing; add it" for name in ("methods.0.axis", "methods.0.hypothesis", "candidates")
    )


# ------------------------------------------------------------ drafts


def block(header: str, code: str = CODE, fence: str = "```") -> str:
    return f"{header}\n{fence}cpp\n{code}{fence}\n"


def test_drafts_as_fenced_code() -> None:
    text = (
        "Two candidates follow, the first with `{` in it.\n\n"
        + block("### draft: methods=a,b knobs=TILE=64,UNROLL=4 note=tiles, so that methods=c is not needed")
        + "\nAnd:\n\n"
        + "## Draft 2: wider tiles, a title and no header\n\n"
        + block("## Draft 2: methods=a; knobs=none", "// second\n" + CODE, "````")
        + "### skipped: c=the loop carries a dependence = no lanes\n"
    )
    assert read(text, "Drafts") == Drafts(
        drafts=(
            Draft(
                source=CODE,
                methods=("a", "b"),
                knobs={"TILE": "64", "UNROLL": "4"},
                note="tiles, so that methods=c is not needed",
            ),
            Draft(source="// second\n" + CODE, methods=("a",)),
        ),
        skipped={"c": "the loop carries a dependence = no lanes"},
    )


def test_drafts_as_json_need_no_header() -> None:
    drafts = Drafts(drafts=(Draft(source="### draft: x\n" + CODE, methods=("a",)),))
    assert (
        read(drafts.model_dump_json(), "Drafts")
        == read(f"```json\n{drafts.model_dump_json()}\n```", "Drafts")
        == drafts
    )


@pytest.mark.parametrize(
    ("owed", "text", "said"),
    [
        ("Review", '{"veto": true,\n "quote": "x", }', "line 2, column 1"),
        (
            "Review",
            "{'veto': true}",
            "line 1, column 2: this is not JSON (Expecting property name enclosed in double quotes",
        ),
        ("Review", 'So:\n{"veto": true, "quote": "x', "this is not JSON (Unterminated string"),
        ("Review", '{"veto": true, "reason": "x"', "the JSON is cut off"),
        ("Review", '{"veto": yes}', "line 1, column 10: this is not JSON"),
        ("Review", "void f() { g(); }", "the answer contains no JSON object Review"),
        ("Review", '{"veto": true} or {"veto": false}', "2 different JSON objects each fit Review; give one"),
        ("Review", '{"veto": "perhaps"}', "veto: Input should be a valid boolean"),
        ("Review", '{"vetoed": true}', "vetoed: there is no such field in Review; leave it out"),
        ("Drafts", "### draft: methods=a\nNo code.", "line 1: no fenced block of code follows"),
        (
            "Drafts",
            "### draft: methods=a\n\n" + block("### draft: methods=b"),
            "line 1: no fenced block of code follows",
        ),
        ("Drafts", "### draft: methods=a\n```cpp\nint x;", "line 2: the block of code is not closed"),
        ("Drafts", block("### draft: methods=a") + block("As well:"), "line 8: a second block of code"),
        ("Drafts", block("### draft: methods=a", ""), "line 2: the block of code is empty"),
        ("Drafts", block("### draft: the first"), "line 1: write `### draft: methods=a,b"),
        ("Drafts", block("### draft: methods=a knobs=64"), "line 1: write knobs as NAME=value"),
        ("Drafts", block("### draft: methods=a methods=b"), "line 1: methods is given twice"),
        (
            "Drafts",
            block("### draft: methods=a") + "### skipped: c does not apply",
            "line 7: write one line `### skipped: METHOD=",
        ),
        ("Drafts", block("Here it is:"), "line 2: this block of code has no line `### draft: methods=...` before it"),
        ("Drafts", "I cannot.", "the answer has neither a line `### draft: ...` with a fenced block after it"),
    ],
)
def test_what_is_no_answer_is_said_with_its_place(owed: str, text: str, said: str) -> None:
    faults = read(text, owed)
    assert isinstance(faults, tuple) and said in faults[0], faults


@pytest.mark.parametrize(
    "text",
    [
        block("### draft: methods=a") + block("### draft: the second") + "### skipped: c does not apply\n",
        json.dumps({"drafts": [{"source": CODE, "methods": ["a"]}, {"source": CODE}, "no object"], "skipped": []}),
    ],
)
def test_one_draft_that_cannot_be_read_costs_that_draft_alone(text: str) -> None:
    reply = parsing.parse_answer(text, request("Drafts"), said="", usage=Usage())
    assert isinstance(reply, UnfitReply) and reply.usable == Drafts(drafts=(Draft(source=CODE, methods=("a",)),))


# ------------------------------------------------------------ how to answer


@pytest.mark.parametrize("owed", ["Plan", "Drafts", "Analysis", "Queries", "Review"])
@pytest.mark.parametrize("structured", [True, False])
def test_the_instruction_holds_the_schema_where_the_answer_is_json(owed: str, structured: bool) -> None:
    text = parsing.answer_instructions(owed, structured)
    assert ("```" in text) == (owed == "Drafts" and not structured)
    written = text.partition(f"JSON schema of {owed}:\n\n")[2].partition("\n")[0]
    assert bool(written) == (structured or owed != "Drafts")
    assert (
        not written
        or json.loads(written)["properties"].keys() == parsing.answer_schema(request(owed))["properties"].keys()
    )
    assert "schema" not in parsing.answer_instructions(owed, True, shown=False).lower()
    assert ("unchanged" in text) == (owed == "Drafts"), "what code must be is told to who writes code"


def test_the_example_of_the_instruction_can_be_read() -> None:
    text = parsing.answer_instructions("Drafts", False)
    example = "\n".join(line.removeprefix("    ") for line in text.splitlines() if line.startswith("    "))
    found, faults = code_blocks.parse_drafts(example)
    assert not faults and found.drafts[0].knobs == {"TILE": "64", "UNROLL": "4"}


def test_a_continuation_repeats_nothing() -> None:
    begun = block("### draft: methods=a")[:-20]
    rest = block("### draft: methods=a")[-20:]
    assert parsing.join_continuation(begun, rest) == begun + rest
    assert parsing.join_continuation(begun, "```cpp\n" + rest) == begun + rest
    assert parsing.join_continuation(begun, begun[-45:] + rest) == begun + rest
    assert parsing.join_continuation("  }\n  }\n", "  }\n}\n") == "  }\n  }\n  }\n}\n", "short repetitions are code"


def test_one_instruction_serves_several_types() -> None:
    text = parsing.answer_instructions(("Analysis", "Queries"), True)
    assert text.count("## How to answer") == 1 and "Analysis or Queries, whichever your task names" in text
    assert all(f"JSON schema of {owed}:" in text for owed in ("Analysis", "Queries"))


def test_the_form_stands_behind_the_block_that_names_it_else_behind_what_is_stable() -> None:
    stable, run, now = (PromptBlock(scope=scope, text=f"{scope}.") for scope in ("stable", "run", "iteration"))
    for second in (run, run.model_copy(update={"answers": ("Plan", "Queries")})):
        prompt = parsing.add_answer_instructions(
            request("Plan").model_copy(update={"prompt": (stable, second, now)}), True
        )
        assert ["## How to answer" in block.text for block in prompt].index(True) == 1
        assert "".join(block.text for block in prompt).count("## How to answer") == 1
        assert prompt[-1] == now and [block.scope for block in prompt if block.text.startswith("run")] == ["run"]
