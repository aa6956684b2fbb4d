"""What a model says of the hardware is returned to it when it names no source, once, and left out when it insists."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents import planner, profiler_analyst
from agents.artifacts import Analysis, AnalystBrief, Dossier, Hypothesis, Movement, Plan, PlannedMethod, PlannerBrief
from agents.base import REPAIRS
from agents.models.base import Request
from agents.models.playbook.model import Playbook
from agents.sourced import LEFT_OUT, faults, known
from knowledge_base import specs
from knowledge_base.wiki import Wiki
from tests.agents.scripted import agent
from tools.artifacts import Argument, Finding, Task, Workload
from tools.hardware import Headroom, Spec

WIKI = Wiki.open()
RECORD = "0123456789abcdef"
BANDWIDTH = specs.resolve(WIKI, "H200", "memory_bandwidth", "SXM5")
FINDINGS = (Finding(rule="single_threaded", severity="high", axis="occupancy", text="One thread.", evidence=(RECORD,)),)
HEADROOM = Headroom(total=0.9, compute=0.9, memory=0.8, latency=0.1, bound="compute")
TASK = Task(
    name="scale",
    language="cpp",
    arguments=(Argument(name="x", role="input", dtype="float32", shape=("n",)), Argument(name="y", role="output", dtype="float32")),
    reference="",
    baseline="",
    workloads=(Workload(name="w", dims={"n": 64}),),
)
METHOD = "openmp-parallel-outer"
GUESS = "The part has 132 SMs."


def cited() -> Spec:
    assert isinstance(BANDWIDTH, Spec)
    return BANDWIDTH


def planner_brief() -> PlannerBrief:
    pages = tuple(page for page in WIKI.pages if page.head.id == METHOD)
    return PlannerBrief(
        task=TASK,
        source="",
        findings=FINDINGS,
        headroom=HEADROOM,
        dossier=Dossier(queries=(), passages=(), methods=pages, attempts=()),
        tried=(),
        budget={"compute": 1, "memory": 1, "latency": 1, "occupancy": 1},
        methods_per_iteration=1,
        variants=1,
        records=(RECORD,),
        specs=(cited(),),
    )


def analyst_brief() -> AnalystBrief:
    return AnalystBrief(source="", findings=FINDINGS, remarks=(), headroom=HEADROOM, records=(RECORD,), specs=(cited(),))


def made(rationale: str, reason: str = "By rule.") -> Plan:
    hypothesis = Hypothesis(
        change="Threads over rows.",
        rationale=rationale,
        citations=(RECORD,),
        expected=(Movement(metric="time", direction="down", factor=0.5, confidence=0.5),),
    )
    axis = next(page.head.axis for page in WIKI.pages if page.head.id == METHOD)
    assert axis is not None
    return Plan(methods=(PlannedMethod(method=METHOD, axis=axis, hypothesis=hypothesis),), variants=1, reason=reason)


def test_a_plan_is_returned_with_field_and_line_and_its_second_answer_counts(tmp_path: Path) -> None:
    asked, model = agent("planner", tmp_path, [made(f"Rows are independent. {GUESS}"), made("Rows are independent.")])
    plan = planner.plan(asked, planner_brief())
    assert plan == made("Rows are independent.")
    first, second = model.asked
    assert first.refused == ()
    (why,) = second.refused
    assert why.startswith(f"{METHOD}: hypothesis.rationale: '132 SMs'") and f'"{GUESS}"' in why and "citation" in why


def test_a_plan_that_insists_loses_the_method_and_the_figure(tmp_path: Path) -> None:
    insisting = made(GUESS, reason=f"It is big. {GUESS}")
    asked, model = agent("planner", tmp_path, [insisting] * (REPAIRS + 1))
    plan = planner.plan(asked, planner_brief())
    assert len(model.asked) == REPAIRS + 1, "bounded"
    assert plan.methods == () and "132" not in plan.model_dump_json()
    assert plan.reason == f"{LEFT_OUT}; {METHOD} struck out: its hypothesis states a figure of the hardware without a source"


@pytest.mark.parametrize(
    "rationale",
    [
        f"It streams at 2.1 TB/s by record {RECORD}.",
        f"Memory allows {cited().value} {cited().unit} <- {cited().citation}.",
        "Rows of 4096 elements are independent; tiles of 64 x 64 fit.",
    ],
)
def test_a_figure_with_a_source_that_was_given_passes_at_once(tmp_path: Path, rationale: str) -> None:
    asked, model = agent("planner", tmp_path, [made(rationale)])
    assert planner.plan(asked, planner_brief()).methods and len(model.asked) == 1


def test_sources_that_nobody_gave_do_not_count() -> None:
    sources = known(planner_brief())
    assert faults(made("It streams at 2.1 TB/s by record fedcba9876543210."), sources)
    assert faults(made("Memory allows 4.8 TB/s <- <gpu-wiki>/hardware/nvidia/invented.md:24."), sources)
    assert len(faults(made(GUESS, reason=GUESS), sources)) == 2


def test_a_citation_that_was_given_vouches_for_its_own_value_only() -> None:
    sources, spec = known(planner_brief()), cited()
    assert spec.unit == "TB/s" and not faults(made(f"Memory allows {spec.value * 1000:g} GB/s <- {spec.citation}."), sources)
    assert faults(made(f"Memory allows {spec.value * 3:g} TB/s <- {spec.citation}."), sources)
    page = planner_brief().dossier.methods[0]
    assert faults(made(f"It reaches 4000 TFLOPS (<gpu-wiki>/{page.path}:{page.body_line})."), sources), "a page that was shown is no spec"
    assert faults(made(f"Record {RECORD} shows a stall; the card has 200 SMs."), sources)


def test_an_analysis_is_returned_and_then_left_out(tmp_path: Path) -> None:
    wrong, right = (Analysis(ranking=("single_threaded",), text=text) for text in (GUESS, f"See record {RECORD}."))
    asked, model = agent("profiler_analyst", tmp_path / "a", [wrong, right])
    assert profiler_analyst.analyse(asked, analyst_brief()) == right
    assert model.asked[1].refused[0].startswith("text: '132 SMs' stands without a source")
    asked, model = agent("profiler_analyst", tmp_path / "b", [wrong] * (REPAIRS + 1))
    assert profiler_analyst.analyse(asked, analyst_brief()) == Analysis(ranking=("single_threaded",), text=LEFT_OUT)


def test_the_playbook_names_its_sources() -> None:
    for role, brief in (("planner", planner_brief()), ("profiler_analyst", analyst_brief())):
        answer = Playbook({}).ask(Request(role=role, brief=brief, answer="")).answer  # type: ignore[arg-type]
        assert isinstance(answer, (Plan, Analysis)) and not faults(answer, known(brief))
