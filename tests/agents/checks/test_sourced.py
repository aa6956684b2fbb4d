"""What a model says of the hardware is returned to it when it names no source, once, and left out when it insists."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import Analysis, AnalystBrief, Dossier, Hypothesis, Movement, Plan, PlannedMethod, PlannerBrief
from agents.checks.sourced import LEFT_OUT, faults, known
from agents.roles import planner, profiler_analyst
from agents.roles.agent import REPAIRS
from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs import lookup
from tests.agents.scripted import agent
from tests.contracts.test_models import ASKED, FINDINGS
from tools.roofline.hardware import Spec

WIKI = Wiki.open()
RECORD = "0123456789abcdef"
BANDWIDTH = lookup.resolve(WIKI, "H200", "memory_bandwidth", "SXM5")
METHOD = "openmp-parallel-outer"
PAGE = next(page for page in WIKI.pages if page.head.id == METHOD)
GUESS = "The part has 132 SMs."


def cited() -> Spec:
    assert isinstance(BANDWIDTH, Spec)
    return BANDWIDTH


def planner_brief() -> PlannerBrief:
    given, _ = ASKED["planner"]
    assert isinstance(given, PlannerBrief)
    dossier = Dossier(queries=(), passages=(), methods=(PAGE,), attempts=())
    return given.model_copy(update={"dossier": dossier, "records": (RECORD,), "specs": (cited(),)})


def analyst_brief() -> AnalystBrief:
    given, _ = ASKED["profiler_analyst"]
    assert isinstance(given, AnalystBrief)
    return given.model_copy(update={"findings": FINDINGS[:1], "records": (RECORD,), "specs": (cited(),)})


def made(rationale: str, reason: str = "By rule.") -> Plan:
    hypothesis = Hypothesis(
        change="Threads over rows.",
        rationale=rationale,
        citations=(RECORD,),
        expected=(Movement(metric="time", direction="down", factor=0.5, confidence=0.5),),
    )
    return Plan(methods=(PlannedMethod(method=METHOD, axis=PAGE.head.axis or "compute", hypothesis=hypothesis),), variants=1, reason=reason)


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
    ("rationale", "sourced"),
    [
        ("Rows of 4096 elements are independent; tiles of 64 x 64 fit.", True),
        (f"It streams at 2.1 TB/s by record {RECORD}.", True),
        ("It streams at 2.1 TB/s by record fedcba9876543210.", False),
        (f"Record {RECORD} shows a stall; the card has 200 SMs.", False),
        (f"Memory allows {cited().value} {cited().unit} <- {cited().citation}.", True),
        (f"Memory allows {cited().value * 1000:g} GB/s <- {cited().citation}.", True),
        (f"Memory allows {cited().value * 3:g} TB/s <- {cited().citation}.", False),
        ("Memory allows 4.8 TB/s <- <gpu-wiki>/hardware/nvidia/invented.md:24.", False),
        (f"It reaches 4000 TFLOPS (<gpu-wiki>/{PAGE.path}:{PAGE.body_line}), a page that was shown and is no spec.", False),
    ],
)
def test_a_source_that_was_given_vouches_and_for_its_own_value_only(rationale: str, sourced: bool) -> None:
    assert len(faults(made(rationale), known(planner_brief()))) == (not sourced)


def test_an_analysis_is_returned_and_then_left_out(tmp_path: Path) -> None:
    wrong, right = (Analysis(ranking=("single_threaded",), text=text) for text in (GUESS, f"See record {RECORD}."))
    asked, model = agent("profiler_analyst", tmp_path / "a", [wrong, right])
    assert profiler_analyst.analyse(asked, analyst_brief()) == right
    assert model.asked[1].refused[0].startswith("text: '132 SMs' stands without a source")
    asked, model = agent("profiler_analyst", tmp_path / "b", [wrong] * (REPAIRS + 1))
    assert profiler_analyst.analyse(asked, analyst_brief()) == Analysis(ranking=("single_threaded",), text=LEFT_OUT)
