"""What a model says of the hardware is returned to it when it names no source, once, and left out when it insists; and
what a source is.

The sentences to refuse and to allow stand in fixtures/uncited.yaml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.artifacts import Analysis, AnalystBrief, Dossier, Hypothesis, Movement, Plan, PlannedMethod, PlannerBrief
from agents.checks.sourced import LEFT_OUT, Sources, faults, known, uncited
from agents.roles import planner, profiler_analyst
from agents.roles.agent import REPAIRS
from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs import lookup
from tests.agents.scripted import agent
from tests.contracts.test_models import ASKED, FINDINGS
from tools.roofline.hardware import Spec

WIKI = Wiki.open()
RECORD = "0123456789abcdef"
BANDWIDTH = lookup.resolve_spec(WIKI, "H200", "memory_bandwidth", "SXM5")
METHOD = "openmp-parallel-outer"
PAGE = next(page for page in WIKI.pages if page.head.id == METHOD)
GUESS = "The part has 132 SMs."
SENTENCES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "fixtures" / "uncited.yaml").read_text(encoding="utf-8")
)
CITED = "<gpu-wiki>/hardware/nvidia/h100-sxm5.md:24"


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
    return Plan(
        methods=(PlannedMethod(method=METHOD, axis=PAGE.head.axis or "compute", hypothesis=hypothesis),),
        candidates=1,
        reason=reason,
    )


def test_a_plan_is_returned_with_field_and_line_and_loses_the_method_and_the_figure_where_it_insists(
    tmp_path: Path,
) -> None:
    insisting = made(f"Rows are independent. {GUESS}", reason=f"It is big. {GUESS}")
    asked, model = agent("planner", tmp_path, [insisting] * (REPAIRS + 1))
    plan = planner.plan(asked, planner_brief())
    assert len(model.asked) == REPAIRS + 1, "bounded"
    why = next(
        fault for fault in model.asked[1].refused if fault.startswith(f"{METHOD}: hypothesis.rationale: '132 SMs'")
    )
    assert f'"{GUESS}"' in why and "citation" in why
    assert plan.methods == () and "132" not in plan.model_dump_json()
    assert (
        plan.reason
        == f"{LEFT_OUT}; {METHOD} struck out: its hypothesis states a figure of the hardware without a source"
    )


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
        (
            f"It reaches 4000 TFLOPS (<gpu-wiki>/{PAGE.path}:{PAGE.body_line}), a page that was shown and is no spec.",
            False,
        ),
    ],
)
def test_a_source_that_was_given_vouches_and_for_its_own_value_only(rationale: str, sourced: bool) -> None:
    assert len(faults(made(rationale), known(planner_brief()))) == (not sourced)


def test_an_analysis_is_returned_and_then_left_out(tmp_path: Path) -> None:
    asked, model = agent(
        "profiler_analyst", tmp_path, [Analysis(ranking=("single_threaded",), text=GUESS)] * (REPAIRS + 1)
    )
    assert profiler_analyst.analyse(asked, analyst_brief()) == Analysis(ranking=("single_threaded",), text=LEFT_OUT)
    assert model.asked[1].refused[0].startswith("text: '132 SMs' stands without a source")


# ---------------------------------------------------------------- figures in prose


@pytest.mark.parametrize(("sentence", "figure"), SENTENCES["refuse"])
def test_a_figure_without_a_source_is_found(sentence: str, figure: str) -> None:
    found = uncited(f"Something before. {sentence}\nSomething behind.")
    assert [one.sentence for one in found] == [sentence]
    assert found[0].figure in figure or figure in found[0].figure


@pytest.mark.parametrize("sentence", SENTENCES["allow"])
def test_what_is_no_figure_or_has_a_source_passes(sentence: str) -> None:
    assert uncited(sentence) == ()


def test_a_source_vouches_for_one_figure() -> None:
    assert uncited(f"It has 132 SMs <- {CITED} at 1980 MHz.")[0].figure == "1980 MHz"
    assert not uncited(f"It has 132 SMs <- {CITED} at 1980 MHz <- <gpu-wiki>/x.md:3.")
    assert [one.figure for one in uncited(f"It reached 2.1 TB/s of 4.2 TB/s (record {RECORD}).")] == ["2.1 TB/s"]
    assert uncited(f"It reached 2.1 TB/s. Record {RECORD} says more.")[0].figure == "2.1 TB/s"
    assert len(uncited("One line with 132 SMs\nand one with 700 W")) == 2


def test_a_record_vouches_within_its_clause() -> None:
    text = f"Record {RECORD} shows a stall; the card has 200 SMs at 3 GHz with 12 TB/s."
    assert [one.figure for one in uncited(text, Sources(frozenset({RECORD})))] == ["200 SMs", "3 GHz", "12 TB/s"]
    assert not uncited(
        f"It stalls, and it reached 2.1 TB/s by record {RECORD}; more fits.", Sources(frozenset({RECORD}))
    )


@pytest.mark.parametrize(
    ("figure", "cited", "vouched"),
    [
        ("3352 GB/s", "3352.0 GB/s", True),
        ("3.35 TB/s", "3352.0 GB/s", True),
        ("9.9 TB/s", "3352.0 GB/s", False),
        ("3.35 GB/s", "3352.0 GB/s", False),
        ("bandwidth of 3352", "3352.0 GB/s", True),
        ("132 SMs", "132.0 SM", True),
        ("200 SMs", "132.0 SM", False),
        ("132 SMs", "132.0 GB/s", False),
        ("989.4 TFLOPS", "989.4 TFLOPS", True),
        ("990 tera-FLOP/s", "989.4 TFLOPS", True),
        ("4000 TFLOPS", "989.4 TFLOPS", False),
        ("1.98 GHz", "1980.0 MHz", True),
        ("L2 of 50 MB", "50.0 MB", True),
        ("50 KB L2", "50.0 MB", False),
        ("228 KiB of shared memory", "228.0 KB", True),
        ("3000-3352 GB/s", "3352.0 GB/s", False),
    ],
)
def test_a_line_of_the_wiki_vouches_for_its_own_value(figure: str, cited: str, vouched: bool) -> None:
    found = uncited(f"There {figure} <- {CITED}.", Sources(specs=frozenset({(CITED, cited)})))
    assert len(found) == (0 if vouched else 1), found


@pytest.mark.parametrize(
    ("language", "figures"), [("cpp", 0), ("cuda", 0), ("python", 0), ("triton", 0), ("", 2), ("text", 2), ("md", 2)]
)
def test_fenced_kernel_source_is_no_prose_and_other_text_in_a_fence_is(language: str, figures: int) -> None:
    assert len(uncited(f"Before.\n```{language}\nIt has 132 SMs and 3.35 TB/s.\n```\nBehind.")) == figures
