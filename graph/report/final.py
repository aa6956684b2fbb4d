"""report.md, report.html and benchmark.md, rendered from records alone."""

from __future__ import annotations

from graph.artifacts import Closing, FinalBenchmark
from graph.report.content.phrases import render
from graph.report.content.view import ReportData, gather_report
from graph.report.html import render_html
from graph.report.prompts import exchange_file
from graph.services import Services

MARKDOWN, HTML, BENCHMARK = "report.md", "report.html", "benchmark.md"
FILES = (MARKDOWN, HTML, BENCHMARK)
"""The files that finalise writes, relative to the workspace."""
NO_BENCHMARK = "# Final benchmark\n\nThe best kernel has no final benchmark yet.\n"


def render_benchmark(benchmark: FinalBenchmark, record: str) -> str:
    """benchmark.md of a final benchmark; `record`: the id of its record."""
    return render("benchmark.md", found=benchmark, record=record)


def render_reports(closing: Closing, services: Services) -> dict[str, str]:
    """File name -> text: the report as Markdown and as HTML, and the final benchmark or that there is none.

    `closing`: as `report_basis` gives it.
    """
    seen = gather_report(closing, services)
    benchmark = render_benchmark(seen.final, seen.final_record) if seen.final and seen.final_record else NO_BENCHMARK
    return {MARKDOWN: render_markdown(seen), HTML: render_html(seen), BENCHMARK: benchmark}


def render_markdown(seen: ReportData) -> str:
    """report.md: headline, versions, evidence, attribution, predictions, budget, and what was not collected."""
    return render("report.md", **vars(seen), prompt=exchange_file)
