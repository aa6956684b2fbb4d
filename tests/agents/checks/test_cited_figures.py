"""The figures of plans and analyses are resolved exactly against the brief, and prose is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import Analysis, AnalystBrief, Dossier, Figure, KernelObservations, PlannerBrief
from agents.checks.cited_figures import figure_faults
from agents.roles import planner, profiler_analyst
from agents.roles.agent import MAX_REPAIRS
from graph.report.content.phrases import render
from graph.report.content.placeholders import text_with_figures
from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs import lookup
from tests.agents.scripted import agent
from tests.contracts.test_models import ASKED, FINDINGS, PLAN
from tools.artifacts import Quantity
from tools.roofline.hardware import Spec

WIKI = Wiki.open()
RECORD = "0123456789abcdef"
BANDWIDTH = lookup.resolve_spec(WIKI, "H200", "memory_bandwidth", "SXM5")
METHOD = "openmp-parallel-outer"
PAGE = next(page for page in WIKI.pages if page.head.id == METHOD)
PASSAGE = next(passage for passage in WIKI.passages() if "8 bytes" in passage.text)
COUNTERS = {"gcc.share": Quantity(value=0.03141592, unit="fraction"), "time.w": Quantity(value=3.3e-5, unit="s")}


def cited() -> Spec:
    assert isinstance(BANDWIDTH, Spec)
    return BANDWIDTH


def planner_brief() -> PlannerBrief:
    given, _ = ASKED["planner"]
    assert isinstance(given, PlannerBrief)
    dossier = Dossier(queries=(), passages=(PASSAGE,), methods=(PAGE,), attempts=())
    seen = KernelObservations(counters={RECORD: COUNTERS}, times={"w": {"measured roof": 6.904e-5}})
    return given.model_copy(
        update={"dossier": dossier, "records": (RECORD,), "specs": (cited(),), "observations": seen}
    )


def analyst_brief() -> AnalystBrief:
    given, _ = ASKED["profiler_analyst"]
    assert isinstance(given, AnalystBrief)
    return given.model_copy(update={"findings": FINDINGS[:1], "records": (RECORD,), "specs": (cited(),)})


def figure(**changed: object) -> Figure:
    """The one of the brief's spec, with some fields changed."""
    spec = cited()
    exact = {"metric": spec.metric, "value": spec.value, "unit": spec.unit, "citation": str(spec.citation)}
    return Figure.model_validate({**exact, **changed})


@pytest.mark.parametrize(
    ("named", "fault"),
    [
        (figure(), ""),
        (
            figure(value=cited().value / 1000, unit="TB/s"),
            f"differs from {cited().citation}, which gives {cited()}; copy",
        ),
        (figure(metric="compute_float32"), f"differs from {cited().citation}, which gives"),
        (figure(value=cited().value + 1), f"differs from {cited().citation}, which gives"),
        (
            figure(citation="<gpu-wiki>/hardware/nvidia/invented.md:24"),
            "is not among the specs, records and lines that you were given",
        ),
        (figure(citation="fedcba9876543210"), "is not among the specs, records and lines that you were given"),
        (figure(citation=f"<gpu-wiki>/{PAGE.path}:{PAGE.body_line}"), "does not occur in <gpu-wiki>/methods/"),
        (figure(citation=RECORD), f"does not occur in {RECORD}"),
        (Figure(metric="gcc.share", value=0.03142, unit="fraction", citation=RECORD), ""),
        (Figure(metric="gcc.share", value=0.04, unit="fraction", citation=RECORD), "gives 0.03142 fraction; copy"),
        (Figure(metric="time.w", value=33, unit="us", citation=RECORD), ""),
        (Figure(metric="time.w", value=33, unit="ms", citation=RECORD), "gives 33 us; copy value and unit"),
        (Figure(metric="measured roof", value=69.04, unit="us", citation=RECORD), ""),
        (Figure(metric="bytes", value=8, unit="bytes", citation=str(PASSAGE.citation)), ""),
        (Figure(metric="bytes", value=987654, unit="bytes", citation=str(PASSAGE.citation)), "does not occur in"),
    ],
)
def test_a_figure_equals_its_source_or_is_refused_with_one_sentence(named: Figure, fault: str) -> None:
    found = figure_faults((named,), planner_brief())
    assert len(found) == bool(fault) and all(fault in sentence for sentence in found)


def test_a_plan_that_quotes_a_figure_of_its_prompt_in_prose_passes(tmp_path: Path) -> None:
    (method,) = PLAN.methods
    quoting = method.hypothesis.model_copy(
        update={
            "rationale": f"Memory allows {cited().value} {cited().unit}, the loop takes 33 us.",
            "citations": (RECORD,),
        }
    )
    plan = PLAN.model_copy(
        update={"methods": (method.model_copy(update={"hypothesis": quoting}),), "reason": "4.8 TB/s is far."}
    )
    asked, model = agent("planner", tmp_path, [plan])
    assert planner.write_plan(asked, planner_brief()) == plan and len(model.asked) == 1


def test_a_figure_that_does_not_resolve_is_returned_once_and_then_left_out(tmp_path: Path) -> None:
    wrong, right = figure(value=1.0), figure()
    cites = PLAN.methods[0].hypothesis.model_copy(update={"citations": (RECORD,)})
    sound = PLAN.methods[0].model_copy(update={"hypothesis": cites})
    plan = PLAN.model_copy(update={"methods": (sound,), "figures": (wrong, right)})
    asked, model = agent("planner", tmp_path / "plan", [plan] * (MAX_REPAIRS + 1))
    made = planner.write_plan(asked, planner_brief())
    (fault,) = model.asked[1].refused
    assert fault.startswith(f"figures: {wrong.metric} 1 ") and made.reason == f"left out: {fault}"
    assert made.methods == (sound,) and made.figures == (right,), "the method stays"
    said = Analysis(ranking=("single_threaded",), text="Memory waits.", figures=(wrong, right))
    asked, model = agent("profiler_analyst", tmp_path / "analysis", [said] * (MAX_REPAIRS + 1))
    answer = profiler_analyst.analyze_findings(asked, analyst_brief())
    assert answer.figures == (right,) and answer.text == "Memory waits." and len(model.asked[1].refused) == 1


def test_reports_print_the_figures_with_their_citations() -> None:
    plan = PLAN.model_copy(update={"figures": (figure(),)})
    state = {"incumbent": "a", "profile": "b", "plan": "c"}
    text = render("hypothesis.md", iteration=1, state=state, plan=plan, architecture="x86_64")
    assert f"- {figure()}\n" in text and str(figure()).endswith(f"<- {cited().citation}")
    said = Analysis(ranking=(), text="Memory waits.", figures=(figure(),))
    assert text_with_figures(said, (), {}, "inspection") == f"Memory waits. It rests on {figure()}."
