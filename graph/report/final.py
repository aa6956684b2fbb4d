"""report.md, report.html and benchmark.md, from records alone."""

from __future__ import annotations

from graph.artifacts import FinalBenchmark
from graph.report import html
from graph.report.content.phrases import render
from graph.report.content.view import View, view
from graph.report.prompts import name_of
from graph.services import Services
from graph.state import State

MARKDOWN, HTML, BENCHMARK = "report.md", "report.html", "benchmark.md"
FILES = (MARKDOWN, HTML, BENCHMARK)
"""What finalise writes, relative to the workspace."""
NO_BENCHMARK = "# Final benchmark\n\nThere is none of the best kernel yet.\n"


def benchmark(found: FinalBenchmark, record: str) -> str:
    """benchmark.md."""
    return render("benchmark.md", found=found, record=record)


def reports(state: State, services: Services) -> dict[str, str]:
    """File name -> text of the report in its two renderings, and of the final benchmark, or that there is none of
    the best kernel."""
    found = view(state, services)
    contest = benchmark(found.final, found.final_record) if found.final and found.final_record else NO_BENCHMARK
    return {MARKDOWN: markdown(found), HTML: html.html(found), BENCHMARK: contest}


def markdown(found: View) -> str:
    """report.md: headline, versions, evidence, attribution, predictions, budget, what was not collected."""
    return render("report.md", **vars(found), prompt=name_of)
