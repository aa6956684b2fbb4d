"""Prompts say what is of this kernel: its language, its vendor, its problem; what an answer is about is never cut."""

from __future__ import annotations

import pytest

from agents.artifacts import CoderBrief, PlannerBrief
from agents.models.answers import parsing
from agents.models.base import Request
from agents.prompting.relevance import names_other_vendor, text_for_language
from agents.prompting.render import read_prompt_budget, render_blocks, render_sections
from tests.agents.prompting.test_render import KEYS, LAST, apart
from tools.artifacts import Remark
from tools.tasks import execbench, gpumode, kernelbench

NEVER_CUT = {"task", "reference", "kernel", "champion", "plan", "parent", "diff", "iteration"}
INSTRUCTIONS = {
    "planner": (8798, 8761),
    "coder": (7461, 7424),
    "profiler_analyst": (7120, 7045),
    "knowledge_retriever": (6473, 6436),
    "gatekeeper": (6826, 6776),
}
"""Role -> characters of our own words in its prompt for C++ and Triton on 27 November 2026, which they may not exceed."""


def section(name: str, role: str, brief: CoderBrief | PlannerBrief) -> str:
    parts = render_sections("coder" if role == "coder" else "planner", brief, "")
    return next((part.text for part in parts if part.section == name), "")


def coder_brief(**changed: object) -> CoderBrief:
    brief = LAST["triton", "coder"].brief
    assert isinstance(brief, CoderBrief)
    return brief.model_copy(update=changed)


def planner_brief(**changed: object) -> PlannerBrief:
    brief = LAST["triton", "planner"].brief
    assert isinstance(brief, PlannerBrief)
    return brief.model_copy(update=changed)


def test_what_an_answer_is_about_has_no_limit_and_an_ablation_says_what_to_leave_out() -> None:
    limits = {name: most for block in read_prompt_budget().blocks.values() for name, most in block.sections.items()}
    assert {name for name, most in limits.items() if most is None} == NEVER_CUT
    methods = tuple(f"a-method-with-a-long-name-{number}" for number in range(30))
    said = section("iteration", "coder", coder_brief(ablated_methods=methods, champion="c"))
    assert "leave out, each once: a-method" in said and methods[-1] in said and "left out:" not in said


def test_a_plan_keeps_its_lines_and_its_whole_reason() -> None:
    plan = coder_brief().plan
    code = "Use this loop:\n\n    for i in range(4):\n        total += x[i]"
    because = "because " * 300
    hypothesis = plan.methods[0].hypothesis.model_copy(update={"change": code, "rationale": because})
    planned = plan.methods[0].model_copy(update={"hypothesis": hypothesis})
    said = section("plan", "coder", coder_brief(plan=plan.model_copy(update={"methods": (planned,)})))
    assert code in said and because.strip() in said


@pytest.mark.parametrize("suite", [kernelbench, execbench, gpumode])
def test_a_problem_of_a_suite_comes_without_its_adapter(suite: object) -> None:
    template = suite.CONTRACT_TEMPLATE  # type: ignore[attr-defined]
    task = planner_brief().task.model_copy(update={"reference": f"def own_line():\n    return 1\n\n\n{template}"})
    said = section("reference", "planner", planner_brief(task=task))
    assert "own_line" in said and "def make_inputs" not in said and "def reference(" not in said


def test_recorded_values_come_as_their_length() -> None:
    task = planner_brief().task.model_copy(update={"reference": f"RECORDED = {{(): [{{'ids': '{'eNp7' * 900}'}}]}}\n"})
    said = section("reference", "planner", planner_brief(task=task))
    assert "'ids': \"3600 characters of recorded values\"" in said


def test_code_and_methods_of_other_languages_and_commands_are_left_out() -> None:
    text = (
        "```cpp compile\n#pragma omp parallel\n```\n```python triton\ntl.load\n```\n```sh\nncu --set full\n```\n"
        "1. Threads: [a](../methods/openmp-parallel-outer.md),\n   over rows.\n2. Wide: [b](../methods/triton-launch.md).\n"
    )
    assert text_for_language(text, "triton") == (
        "```python triton\ntl.load\n```\n2. Wide: [b](../methods/triton-launch.md).\n"
    )
    assert "omp parallel" in text_for_language(text, "cpp") and "tl.load" not in text_for_language(text, "cpp")
    assert text_for_language(text, "cutlass").count("```") == 0
    assert names_other_vendor("The MI300X of AMD", "sm_90") and not names_other_vendor("The MI300X", "gfx942")
    assert names_other_vendor("On Hopper, in PTX", "gfx942") and not names_other_vendor("On Hopper", "sm_90")


def test_passages_of_other_operators_and_vendors_are_left_out() -> None:
    brief = planner_brief()
    passage = next(one for one in brief.dossier.passages if one.kind == "method")
    other = passage.model_copy(update={"kind": "operator", "path": "operators/attention.md", "text": "ATTENTION"})
    vendor = passage.model_copy(update={"path": "profiling/x.md", "text": "On CDNA3 use VENDOR."})
    kept = passage.model_copy(update={"path": "profiling/y.md", "text": "KEPT"})
    dossier = brief.dossier.model_copy(update={"passages": (other, vendor, kept)})
    said = section("passages", "planner", planner_brief(dossier=dossier))
    assert "KEPT" in said and "ATTENTION" not in said and "VENDOR" not in said


def test_rules_that_cannot_apply_are_not_said() -> None:
    first = coder_brief(source="", plan=coder_brief().plan.model_copy(update={"methods": ()}))
    texts = {
        (name, tools): "\n".join(block.text for block in render_blocks("coder", brief, "Drafts", tools))
        for name, brief in (("first", first), ("plan", coder_brief()))
        for tools in (False, True)
    }
    assert all(("Use the tools" in text) == tools for (_, tools), text in texts.items())
    assert all(
        ("Variants are" in text and "incumbent" in text) == (name == "plan") for (name, _), text in texts.items()
    )


def test_a_planner_reads_the_advice_of_the_profiler_by_its_estimate_and_few_lines_of_other_signals() -> None:
    remarks = tuple(
        Remark(tool="ncu", line=0, kind="note", text=f"OPT Rule{gain}: do (ncu estimates {gain} % global)")
        for gain in (3, 61.5, 20)
    )
    brief = planner_brief(remarks=remarks, signals=tuple(f"axis{number}: signal" for number in range(40)))
    said = section("remarks", "planner", brief)
    assert said.index("61.5 %") < said.index("20 %") < said.index("3 %")
    assert section("signals", "planner", brief).count("\naxis") == 20


def test_a_prompt_for_a_person_names_no_file_and_no_command() -> None:
    one = LAST["triton", "coder"]
    request: Request = Request(
        role="coder", brief=one.brief, answer="Drafts", prompt=render_blocks("coder", one.brief, "Drafts")
    )
    last = parsing.request_as_text(request).rstrip().split("\n")[-1]
    assert last.startswith("- Define the entry function") and "python -m" not in parsing.request_as_text(request)


@pytest.mark.parametrize("key", KEYS, ids="-".join)
def test_our_own_words_are_not_more_than_they_were(key: tuple[str, str]) -> None:
    language, role = key
    one = LAST[key]
    shown = "\n".join(
        f"<!-- {block.scope} -->\n{block.text}" for block in render_blocks(one.role, one.brief, one.answer)
    )
    assert len(apart(shown)[0]) <= INSTRUCTIONS[role][language == "triton"]
