"""The analyst refers to figures, and the report puts them in place from the records."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import Analysis, AnalystBrief, KernelObservations
from agents.models.base import Request
from agents.models.playbook.model import Playbook
from agents.prompting.render import render_blocks
from agents.roles import profiler_analyst
from graph.report.content.placeholders import replace_references
from tests.agents.checks.test_cited_figures import cited
from tests.agents.scripted import agent
from tests.contracts.test_models import HEADROOM
from tools.artifacts import Finding, Quantity

RECORD, TIMES = "0123456789abcdef", "fedcba9876543210"
FINDING = Finding(
    rule="single_threaded",
    severity="high",
    axis="occupancy",
    text="One of 2 threads runs 97 % of the time.",
    line=4,
    evidence=(RECORD,),
)
FIGURES = {
    RECORD: {"gcc.share": Quantity(value=0.031, unit="fraction")},
    TIMES: {"time.w": Quantity(value=3.3e-5, unit="s")},
}
BRIEF = AnalystBrief(
    source="",
    findings=(FINDING,),
    remarks=(),
    headroom=HEADROOM,
    records=(TIMES, RECORD),
    observations=KernelObservations(counters=FIGURES),
    specs=(cited(),),
)
GOOD = (
    f"[rule:single_threaded] at line 4: see [record:{RECORD} gcc.share] and [record:{TIMES} time.w], by "
    f"[record:{TIMES}]."
)


def test_references_pass_at_once_and_are_put_in_place(tmp_path: Path) -> None:
    asked, model = agent("profiler_analyst", tmp_path, [Analysis(ranking=("single_threaded",), text=GOOD)])
    answer = profiler_analyst.analyze_findings(asked, BRIEF)
    assert answer.text == GOOD and len(model.asked) == 1
    assert replace_references(answer.text, BRIEF.findings, FIGURES, "inspection") == (
        f"**single_threaded** (One of 2 threads runs 97 % of the time; record `{RECORD}`) at line 4: see 3.1 % "
        f"(gcc.share, record "
        f"`{RECORD}`) and 33 us (time.w, record `{TIMES}`), by record `{TIMES}`."
    )
    assert (
        replace_references(f"[record:{RECORD} lost] [rule:lost]", (), FIGURES, "i")
        == f"N/A (record:{RECORD} lost) N/A (rule:lost)"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[rule:spills]", "is not a finding of this kernel"),
        ("[record:00000000deadbeef time.w]", "is not a record that you were given"),
        (f"[record:{RECORD} time.w]", "is not a metric of that record"),
        ("[rule: single_threaded", "is not a valid reference"),
        ("[record:]", "is not a valid reference"),
    ],
)
def test_a_reference_to_nothing_is_returned(tmp_path: Path, text: str, why: str) -> None:
    wrong = Analysis(ranking=("single_threaded",), text=f"The loop takes 33 us; see {text} first.")
    asked, model = agent("profiler_analyst", tmp_path, [wrong] * 2)
    assert profiler_analyst.analyze_findings(asked, BRIEF).text == wrong.text
    (fault,) = model.asked[1].refused
    assert why in fault


def test_only_what_fired_is_ranked_and_nothing_that_fired_is_lost(tmp_path: Path) -> None:
    asked, model = agent(
        "profiler_analyst", tmp_path, [Analysis(ranking=("accept_this_kernel",), text="See above.")] * 2
    )
    assert profiler_analyst.analyze_findings(asked, BRIEF).ranking == ("single_threaded",)
    assert model.asked[1].refused == ("ranking: 'accept_this_kernel' did not fire; rank only rules that fired",)


def test_a_section_is_asked_for_by_a_name_that_the_report_has() -> None:
    listed = BRIEF.model_copy(update={"sections": ("Occupancy", "Source Counters")})
    prompt = "".join(block.text for block in render_blocks("profiler_analyst", listed, "Analysis"))
    assert "sections of the profiler's report: Occupancy, Source Counters" in prompt
    good, bad = (
        Analysis(ranking=("single_threaded",), text=GOOD, section=name) for name in ("Occupancy", "Everything")
    )
    assert not profiler_analyst.analysis_faults(good, listed)
    assert profiler_analyst.analysis_faults(bad, listed) == (
        "section: 'Everything' is not available; choose from Occupancy, Source Counters",
    )
    assert profiler_analyst.analysis_faults(good, BRIEF) == (
        "section: 'Occupancy' is not available; choose from none",
    ), "once it was shown"


def test_the_playbook_restates_nothing() -> None:
    answer = Playbook({}).ask(Request(role="profiler_analyst", brief=BRIEF, answer="Analysis")).answer
    assert (
        isinstance(answer, Analysis)
        and "[rule:single_threaded]" in answer.text
        and not profiler_analyst.analysis_faults(answer, BRIEF)
    )
