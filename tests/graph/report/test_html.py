"""report.html: well-formed, self-contained, every figure led to its record, and whatever others named escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agents.artifacts import GatekeeperBrief, Prediction, Review
from agents.models.base import UnfitReply
from graph.__main__ import main
from graph.artifacts import FinalBenchmark, Inspection
from graph.lifecycle import run as runs
from graph.report import final, html, prompts
from graph.report.content.report_rows import counter_rows, proposal_records
from graph.report.content.view import ReportData, gather_report, report_basis
from graph.report.links import Links
from graph.workspace.drift import drifted_paths
from graph.workspace.folder import open_read_only
from graph.workspace.versions import read_state, read_versions
from tests.agents.scripted import agent
from tests.contracts.conftest import task
from tests.graph.conftest import git
from tools.artifacts import UNBOUNDED_RATIO, Interval, Quantity
from tools.cli.formatting import format_seconds
from tools.languages.cpp import Cpp
from tools.roofline.hardware import Headroom, Roof
from tools.store.repository import Repository

VOID = {"meta", "link", "br", "hr", "img", "input"}
HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(2)>&lt;{{ 7 * 7 }}]]>"""


class Page(HTMLParser):
    """A page taken apart; an element that is not closed, or closed twice, is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice"
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, f"</{tag}> closes {self._open[-1:]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.text).split())


def checked(text: str, root: Path) -> Page:
    """The page, when nothing in it can load or run anything and all that it points to is there."""
    found = Page(text)
    names = {tag for tag, _ in found.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "image", "foreignobject"}
    attributes = {name for _, given in found.tags for name in given}
    assert not [
        name for name in attributes if name.startswith("on") or name in ("src", "srcset", "style", "xlink:href")
    ]
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style and "@import" not in style
    (policy,) = (given["content"] for tag, given in found.tags if given.get("http-equiv") == "Content-Security-Policy")
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{hashed}';")
    ids = found.all("id")
    assert len(ids) == len(set(ids)), "two elements have one id"
    for href in found.all("href"):
        if href.startswith("#"):
            assert href[1:] in ids, href
        else:
            assert re.fullmatch(r"[A-Za-z0-9_./-]+", href) and (root / href).is_file(), href
    for described in (*found.all("aria-labelledby"), *found.all("aria-describedby")):
        assert described in ids
    return found


@pytest.fixture
def seen(copied: Path) -> Iterator[ReportData]:
    with runs.open_services(copied, reading=True) as services:
        yield gather_report(report_basis(read_state(services.workspace), services), services)


def figures(text: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", text, re.DOTALL)


# ---------------------------------------------------------------- as a run leaves it


def test_it_is_well_formed_self_contained_and_all_its_links_lead_somewhere(seen: ReportData, copied: Path) -> None:
    text = html.render_html(seen)
    found = checked(text, copied)
    drawn = figures(text)
    assert len(drawn) == len(html.CHARTS)
    assert not re.search(r"#[0-9a-f]{6}\b", "".join(drawn)), "a colour that stays as it is in the dark"
    for one in drawn:
        assert re.search(r"<title id=.*?</title><desc id=.*?</desc>", one), "a figure without a name or a description"
        assert 'href="#r-' in one, "a figure without a record"
    assert all(given.get("scope") in ("col", "row") for tag, given in found.tags if tag == "th")
    known = {record.id for record in seen.records}
    named = {href.removeprefix("#r-") for href in found.all("href") if href.startswith("#r-")}
    assert named and named <= known


def test_both_renderings_tell_the_same_figures(seen: ReportData) -> None:
    markdown = final.render_markdown(seen)
    told = Page(html.render_html(seen)).said
    headline = re.search(r"\*\*(\S+ \[.*?\])\*\* over the baseline", markdown)
    assert headline and headline[1] in told
    rows = re.findall(r"^\| (.*) \|$", markdown.partition("## Workloads")[2].partition("##")[0], re.MULTILINE)[1:]
    assert rows
    for cell in (cell for row in rows for cell in row.split(" | ")[:-1] if cell != "N/A" and "---" not in cell):
        assert cell in told, cell


def test_what_plans_were_made_from_and_warm_times_are_shown_where_the_record_of_the_end_names_them(
    copied: Path,
) -> None:
    with runs.open_services(copied, reading=True) as services:
        state = read_state(services.workspace)
        made = services.records.get(state["report"])
        old = services.records.add(made.model_copy(update={"key": "old", "payload": {**made.payload, "proposals": {}}}))
        ids = proposal_records(read_versions(copied), services.records)
        new = services.records.add(old.model_copy(update={"key": "new", "payload": {**old.payload, "proposals": ids}}))
        bases = [report_basis({**state, "report": record.id}, services) for record in (old, new)]
        texts = [final.render_reports(basis, services) for basis in bases]
    for name in (final.MARKDOWN, final.HTML):
        assert not any(title in texts[0][name] for title in ("Cold and warm", "Evidence used"))
        said = Page(texts[1][name]).said if name == final.HTML else texts[1][name]
        for iteration, identities in ids.items():
            kept = {record.kind: record.payload for record in map(services.records.get, identities)}
            assert all(query["text"] in said for query in kept["dossier"]["queries"]) and f"v{iteration}" in said
            assert all(
                f"{one['citation']['path']}:{one['citation']['line']}" in said for one in kept["dossier"]["passages"]
            )
            assert all(cited in said for item in kept["plan"]["methods"] for cited in item["hypothesis"]["citations"])
            for m in kept["trial"]["trial"]["measurements"]:
                assert f"{format_seconds(m['warm_incumbent_s'])} → {format_seconds(m['warm_candidate_s'])}" in said


def test_prompts_and_replies_lie_in_files_for_review_without_secrets(copied: Path) -> None:
    key = "AKIA" + "Q7" * 8
    unfit = UnfitReply(faults=("veto: is missing",), said="I like it.")
    asked, _ = agent("gatekeeper", copied, [unfit, Review(veto=True, reason=f"See\n{key}.")])
    asked.ask(GatekeeperBrief(task=task(Cpp()), diff=f"+ {key} of /home/somebody"), Review)
    before = set((copied / "prompts").iterdir())
    workspace = open_read_only(copied)
    for _ in range(2):
        for record in workspace.records:
            prompts.write_exchange(workspace, record)
    first, second = (path.read_text() for path in sorted(set((copied / "prompts").iterdir()) - before))
    assert "You are the reviewer" in first and "<secret> of ~" in first and "I like it." in first
    assert "refused: veto: is missing" in second and "    See\n    <secret>." in second and key not in first + second
    assert [
        name for name in git(copied, "ls-files", "-o").split() if name.endswith("-gatekeeper.md")
    ] and not drifted_paths(Repository(copied))


def test_counters_that_a_hypothesis_names_are_compared_between_parent_and_version(seen: ReportData) -> None:
    memory = next(
        m for m in seen.memories if m.predictions and m.candidate and m.predictions[0].planned.method in m.methods
    )
    inspection, (scored, *_), rows = seen.inspections[memory.parent], memory.predictions, []
    for direction, factor, before, after, hit in (
        ("down", 0.5, 8.0, 5.0, True),
        ("down", 0.5, 8.0, 9.0, False),
        ("down", 0.1, 8.0, 5.0, False),
        ("down", 0.1, 8.0, 0.0, True),
        ("up", 2.0, 0.0, 3.0, True),
        ("up", 2.0, 3.0, None, None),
    ):
        said = Prediction(metric="ncu.spills", direction=direction, factor=factor, confidence=0.7)  # type: ignore[arg-type]
        hypothesis = scored.planned.hypothesis.model_copy(
            update={"expected": (*scored.planned.hypothesis.expected, said)}
        )
        planned = scored.planned.model_copy(update={"hypothesis": hypothesis})
        told = memory.model_copy(update={"predictions": (scored.model_copy(update={"planned": planned}),)})
        counted = {
            kernel: inspection.model_copy(update={"facts": {"ncu.spills": Quantity(value=value)}})
            for kernel, value in ((memory.parent, before), (memory.candidate, after))
            if value is not None
        }
        rows += counter_rows([told], counted)
        assert rows[-1].hit is hit, (direction, factor, before, after)
    for text in (
        final.render_markdown(replace(seen, counters=tuple(rows))),
        html.render_html(replace(seen, counters=tuple(rows))),
    ):
        assert text.count("ncu.spills") == 6 and "confidence 0.7" in text
    assert not seen.counters and "ncu.spills" not in html.render_html(seen)


def test_the_report_of_a_masked_version_is_not_what_it_was(copied: Path) -> None:
    """HEAD had the kernel of v1, and a report and a benchmark of v2's; after `unmask` the report from between."""
    names = (final.MARKDOWN, final.HTML, final.BENCHMARK)
    first = [git(copied, "show", f"HEAD:{name}") for name in names]
    assert main(["mask", str(copied), "v2"]) == 0
    told = [git(copied, "show", f"HEAD:{name}") for name in names]
    assert ["(masked)" in text for text in told] == [
        True,
        True,
        False,
    ] and "The best kernel has no final benchmark yet" in told[2]
    assert all("No final benchmark yet" in text for text in told[:2]) and git(copied, "status", "--porcelain") == ""
    assert [main([verb, str(copied), *version]) for verb, version in (("report", []), ("unmask", ["v2"]))] == [0, 0]
    again = [git(copied, "show", f"HEAD:{name}") for name in names]
    assert [text.count("(masked)") for text in again] == [0, 0, 0] and again[2] == first[2]
    assert again[0].splitlines()[2] == first[0].splitlines()[2], "the headline"
    assert git(copied, "status", "--porcelain") == ""


# ---------------------------------------------------------------- what others named


def test_nothing_that_others_named_becomes_markup(seen: ReportData, copied: Path) -> None:
    def named(inspection: Inspection) -> Inspection:
        findings = tuple(f.model_copy(update={"rule": HOSTILE}) for f in inspection.findings)
        rooflines = tuple(r.model_copy(update={"workload": HOSTILE}) for r in inspection.rooflines)
        return inspection.model_copy(
            update={"missing": {HOSTILE: HOSTILE}, "findings": findings, "rooflines": rooflines}
        )

    verdicts = {n: (r, v.model_copy(update={"reasons": (HOSTILE,)})) for n, (r, v) in seen.verdicts.items()}
    attributions = {
        n: (
            r,
            a.model_copy(
                update={"methods": tuple(m.model_copy(update={"method": HOSTILE, "note": HOSTILE}) for m in a.methods)}
            ),
        )
        for n, (r, a) in seen.attributions.items()
    }
    memories = tuple(m.model_copy(update={"methods": (HOSTILE,), "knobs": {HOSTILE: HOSTILE}}) for m in seen.memories)
    hostile = replace(
        seen,
        task=seen.task.model_copy(update={"name": HOSTILE, "inferred": (HOSTILE,)}),
        workspace=HOSTILE,
        memories=memories,
        workloads=tuple(replace(row, name=HOSTILE, dims={HOSTILE: 1}) for row in seen.workloads),
        verdicts=verdicts,
        steps=tuple(replace(step, methods=(HOSTILE,)) for step in seen.steps),
        points=tuple(replace(point, workload=HOSTILE) for point in seen.points),
        roofs=tuple(roof.model_copy(update={"source": HOSTILE}) for roof in seen.roofs),
        inspections={c: named(i) for c, i in seen.inspections.items()},
        analyses=dict.fromkeys(seen.analyses, HOSTILE),
        attributions=attributions,
        caps={HOSTILE: HOSTILE},
    )
    text = html.render_html(hostile)
    found = checked(text, copied)
    assert found.said.count("<script>alert(1)</script>") > 20 and "<script" not in text and "<img" not in text
    assert found.said.count("{{ 7 * 7 }}") > 20


def test_prose_is_escaped_before_its_records_become_links(seen: ReportData) -> None:
    record = seen.steps[0].record
    links = Links(seen.records)
    told = html.prose(f"<b>x</b> **strong** `{record}` 0123456789abcdef", links)
    assert (
        told == f'&lt;b&gt;x&lt;/b&gt; <strong>strong</strong> <a class="id" href="#r-{record}">{record}</a> '
        f"0123456789abcdef"
    )
    assert [found.id for found in links.named_records] == [record]


# ---------------------------------------------------------------- what was not collected, and losses


def test_an_unfinished_run_has_a_report(copied: Path) -> None:
    with runs.open_services(copied, reading=True) as services:
        state = read_state(services.workspace)
        for said in ("report", "stop"):
            del state[said]  # type: ignore[misc]
        texts = final.render_reports(report_basis(state, services), services)
    found = checked(texts["report.html"], copied)
    assert "It has not stopped yet." in found.said
    assert "No final benchmark yet" in found.said and "No final benchmark yet" in texts["report.md"]
    assert len(figures(texts["report.html"])) == len(html.CHARTS)


def test_an_answer_with_faults_is_named(seen: ReportData) -> None:
    told = "draft 1: `// ... <same>` replaces code that was left out"
    asked = seen.exchanges[0]
    faulty = asked.model_copy(update={"payload": {**asked.payload, "faults": [told, "no JSON"]}})
    found = replace(seen, exchanges=(faulty, *seen.exchanges[1:]))
    for text in (Page(html.render_html(found)).said, final.render_markdown(found)):
        assert text.count("Answers with faults") == 1 and f"{told}; no JSON" in text
    assert "Answers with faults" not in html.render_html(seen)


def test_where_no_version_was_accepted_the_baseline_is_the_best(seen: ReportData, copied: Path) -> None:
    assert seen.final is not None
    kept = FinalBenchmark.model_validate(
        seen.final.model_dump()
        | {"best": "baseline", "overall": {name: seen.final.overall[name] for name in ("eager", "compile")}}
    )
    refused = replace(
        seen,
        final=kept,
        attributions={},
        steps=tuple(replace(step, outcome="reject_correctness", speedup=None, so_far=1.0) for step in seen.steps),
        workloads=tuple(replace(row, speedup=None, best_s=row.baseline_s) for row in seen.workloads),
    )
    text = html.render_html(refused)
    found = checked(text, copied)
    assert "No version was accepted" in found.said and "1 (the baseline)" in found.said
    assert "N/A: no version became champion" in found.said and "the baseline against torch eager" in found.said
    assert "refused: wrong" in figures(text)[0] and "untimed" in figures(text)[0]


def test_what_no_profiler_and_no_log_told_is_not_drawn(seen: ReportData, copied: Path) -> None:
    unknown = Headroom(total=None, compute=None, memory=None, latency=None)

    def bare(inspection: Inspection) -> Inspection:
        rows = tuple(row.model_copy(update={"headroom": unknown, "flops": None}) for row in inspection.rooflines)
        return inspection.model_copy(
            update={"headroom": unknown, "rooflines": rows, "missing": {"ncu": "no permission"}}
        )

    found = checked(
        html.render_html(
            replace(
                seen,
                inspections={c: bare(i) for c, i in seen.inspections.items()},
                points=(),
                roofs=(),
                steps=(),
                attributions={},
                expenses=(),
                workloads=tuple(replace(row, of_roof=None, inspection=None) for row in seen.workloads),
            )
        ),
        copied,
    )
    for said in (
        "N/A: no iteration was closed",
        "N/A: no operations of the reference were counted",
        "N/A, the log of events",
    ):
        assert said in found.said
    assert "ncu on v0: N/A, no permission" in found.said
    assert not [tag for tag, _ in found.tags if tag == "svg"]


def test_a_loss_is_called_one_and_a_margin_of_its_own_and_a_published_roof_are_labelled(
    seen: ReportData, copied: Path
) -> None:
    assert seen.final is not None
    loss = Interval(estimate=0.8, low=0.7, high=0.9)
    open_ = Interval(estimate=1.1, low=1 / UNBOUNDED_RATIO, high=UNBOUNDED_RATIO)
    lost = replace(
        seen,
        final=seen.final.model_copy(update={"overall": {**seen.final.overall, "baseline": loss, "eager": loss}}),
        workloads=tuple(
            replace(row, speedup=loss, against={**row.against, "eager": open_}, margin=0.0, own_margin=True)
            for row in seen.workloads
        ),
        steps=tuple(replace(step, speedup=open_) for step in seen.steps),
        roofs=(
            *seen.roofs,
            Roof(
                metric="memory_bandwidth", value=5e10, unit="B/s", origin="cited", source="<gpu-wiki>/hardware/x.md:3"
            ),
        ),
    )
    found = checked(html.render_html(lost), copied)
    # Against eager, and each workload against the baseline; in the headline the times stand between.
    assert found.said.count("0.8× [0.7, 0.9] (a loss)") == 1 + len(seen.workloads)
    assert re.search(r"0\.8× \[0\.7, 0\.9\] over the baseline: .{1,40} \(a loss\)", found.said)
    assert "1.1× [N/A] (no difference shown)" in found.said and "0.0 % (its own)" in found.said
    assert "(a loss)" in final.render_markdown(lost) and "50 GB/s, cited" in found.said
    assert (
        "**Less than the verdicts say**" in final.render_markdown(lost) and "Less than the verdicts say" in found.said
    )
    assert "Less than the verdicts say" not in final.render_markdown(seen)
