"""Fills each section of a prompt from a brief: external text, which is fenced, and own values for the templates'
sentences. Each `fill_<section>` returns None if the section is not part of this prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from agents.artifacts import (
    AnalystBrief,
    Brief,
    CoderBrief,
    GatekeeperBrief,
    KernelBrief,
    PlannedMethod,
    PlannerBrief,
    RetrieverBrief,
    RunAttempt,
)
from agents.checks.cited_figures import quantity_text, times_lines
from agents.prompting.past_attempts import frontier_items, summarize_earlier_runs, summarize_run_attempts
from agents.prompting.relevance import names_other_vendor, text_for_language
from agents.prompting.token_budget import PromptItem
from agents.text.fencing import cut_middle, escape_invisible, one_line
from knowledge_base.artifacts import Page, Passage
from knowledge_base.experience.free_methods import EXPERIENCE_PATH
from knowledge_base.pages.wiki import section_text
from tools.analysis.rules import load_rules
from tools.artifacts import Finding
from tools.gate.ranking import FRAMEWORKS, USER_FUNCTION, contestant_label
from tools.roofline.hardware import Headroom, Spec

MAX_FAILURE_CHARS = 3600
"""Most characters of one failure with its source if the budget cannot hold all of them; older ones are shortened
first."""
MAX_WHOLE_PAGES = 3
"""Number of method pages that are shown whole."""
MAX_SIGNAL_LINES = 20
MAX_LOOP_CHARS = 2400
"""Most characters of the longest hot loop if the budget cannot hold it."""
_RECORDED_VALUES = re.compile(r"(['\"])[A-Za-z0-9+/=]{200,}\1")
ADAPTER_PATTERN = re.compile(r"^# ---- the code below makes the \w+ a task.*\n(?s:.*)", re.MULTILINE)
"""Matches what `tools/tasks` writes below a suite's problem to make it a task."""
SECTION_OVERHEAD_TOKENS = 150
"""Most tokens of a section's own sentences and note."""
LINK_PATTERN = re.compile(r"\[([^\]\n]*)\]\((?:https?://[^\s)]+|[\w./-]+\.md(?:#[\w-]*)?)\)")
"""Matches a Markdown link. Code also has brackets before parentheses (`kernel[grid](x)`), but no address in them."""


TRITON_IMPORTS_PATTERN = re.compile(r"^import triton.*\n+", re.MULTILINE)
"""Matches the imports at the start of every Triton example."""
CODE_BLOCK_PATTERN = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
"""Matches a fenced block of code."""


class SectionContent(NamedTuple):
    """The content of one section."""

    items: tuple[PromptItem, ...] = ()
    """External text, for one fence."""
    values: Mapping[str, object] = {}
    """Values for the section's own sentences: numbers and flags, never external text."""


SectionFiller = Callable[[Any, int | None], SectionContent | None]
"""Takes a brief, of a role whose blocks in budget.yaml have the section, and the section's token limit; returns its
content, or None if this prompt lacks the section."""


# ---------------------------------------------------------------- for the whole run


def fill_task(brief: Brief, most: int | None) -> SectionContent | None:
    """Return the task's contract: arguments, visible workloads, ranges, precision."""
    task = brief.task
    if task is None:
        return None
    numeric = task.numeric
    types = dict.fromkeys(a.dtype for a in task.outputs if a.dtype in numeric.floor)
    caps = {dtype: f"cap {numeric.cap[dtype]:g}" for dtype in numeric.cap}
    floors = [f"{dtype} floor {numeric.floor[dtype]:g} {caps.get(dtype, 'without a cap')}" for dtype in types]
    floors += ["beyond half a unit in the last place in 8 bits"] * any(name.startswith("float8") for name in types)
    ranges = [f"{name} {low}..{high}" for name, (low, high) in task.dims_range.items()]
    rows = [f"name: {task.name}", "arguments, in ABI order:"]
    rows += [
        f"  {a.name}: {a.role} {a.dtype}{' [' + ', '.join(a.shape) + ']' if a.role != 'scalar' else ''}"
        for a in task.arguments
    ]
    if any(a.role == "inout" for a in task.arguments):
        rows += ["inout: the kernel reads what the argument holds and changes it in place; each call finds it as given"]
    # A Task never contains the judge's hidden workloads; the flag is checked here all the same.
    rows += ["visible workloads (timed, with their weights):"]
    visible = [w for w in task.workloads if not w.hidden]
    own = {name: f", may become slower by {100 * margin:.3g} % at most" for name, margin in task.margins.items()}
    rows += [
        f"  {w.name}: {' '.join(f'{k}={v}' for k, v in w.dims.items())}, weight {w.weight:g}{own.get(w.name, '')}"
        for w in visible
    ]
    rows += [f"further sizes at which the result must be correct are drawn from: {', '.join(ranges) or 'nothing'}"]
    rows += [f"precision {numeric.precision}; error of outputs: {', '.join(floors) or 'exact'}"]
    rows += [f"build flags: {' '.join(task.build_flags)}"] if task.build_flags else []
    called = ", ".join(f"torch.ops.{name}" for name in task.library or ())
    rows += (
        [f"library: host code may call {called} (or .out) on arguments and scratch, besides its own kernels"]
        if called
        else []
    )
    contract_items = [PromptItem("contract", (_indented_line(row), _indented_line(row, 120))) for row in rows]
    inferred_items = [
        PromptItem("inferred", (f"inferred: {one_line(said, 300)}", f"inferred: {one_line(said, 60)}"), rank=1)
        for said in task.inferred
    ]
    return SectionContent((*contract_items, *inferred_items))


def _indented_line(row: str, most: int = 400) -> str:
    return (len(row) - len(row.lstrip(" "))) * " " + one_line(row, most)


def fill_reference(brief: Brief, most: int | None) -> SectionContent | None:
    """Return reference.py, but of a suite's problem its own lines alone, and of recorded values their length."""
    if brief.task is None:
        return None
    text = _RECORDED_VALUES.sub(
        lambda found: f'"{len(found[0]) - 2} characters of recorded values"', brief.task.reference
    )
    return SectionContent((_whole_item("reference.py", ADAPTER_PATTERN.sub("", text)),))


def fill_specs(brief: KernelBrief, most: int | None) -> SectionContent | None:
    """Return the published figures of the device, each line with its citation."""
    known = brief.architecture
    architecture = (
        [PromptItem("architecture", (f"architecture: {one_line(known, 100)}, as the driver reports it",))]
        if known
        else []
    )
    machine = [PromptItem(one.split(":")[0], (one_line(one, 400),)) for one in brief.machine]
    return SectionContent(
        (*architecture, *machine, *(_spec_item(spec) for spec in brief.specs)), {"count": len(brief.specs)}
    )


def _spec_item(spec: Spec) -> PromptItem:
    caveat = f" ({one_line(spec.caveat, 200)})" if spec.caveat else ""
    return PromptItem(spec.metric, (f"{spec}{caveat}", str(spec)))


def fill_memory(brief: PlannerBrief, most: int | None) -> SectionContent | None:
    """Return the outcomes of earlier runs."""
    summary = summarize_earlier_runs(brief.memory, _tokens_for_items(most), brief.task.baseline or "")
    forecast_text = f"your predictions so far, for all operators: {one_line(brief.forecasts, 200)}"
    forecast_items = [PromptItem("predictions", (forecast_text,))] if brief.forecasts else []
    return SectionContent((*forecast_items, *summary.items), {"counts": summary.counts, "count": len(brief.memory)})


# ---------------------------------------------------------------- until a version is accepted


def fill_kernel(
    brief: AnalystBrief | RetrieverBrief | PlannerBrief | CoderBrief, most: int | None
) -> SectionContent | None:
    """Return the whole incumbent."""
    return SectionContent((_whole_item("kernel", brief.source),)) if brief.source else None


def fill_champion(brief: Brief, most: int | None) -> SectionContent | None:
    """Return the kernel from which an ablation removes methods."""
    source = brief.champion if isinstance(brief, CoderBrief) else ""
    return SectionContent((_whole_item("champion", source),)) if source else None


def fill_user_function(brief: Brief, most: int | None) -> SectionContent | None:
    """Return the files of the user's own function, its module first, for a port of it."""
    is_port = isinstance(brief, CoderBrief) and brief.writes_first_kernel
    function = brief.task.baseline_function if is_port and brief.task else None
    if function is None or not function.files:
        return None
    module = function.call.partition(":")[0].replace(".", "/")
    own = (f"{module}.py", f"{module}/__init__.py")
    names = sorted(function.files, key=lambda name: (name not in own, name))
    items = (
        PromptItem(name, (text, cut_middle(text, MAX_FAILURE_CHARS)), rank=at)
        for at, name in enumerate(names)
        for text in [escape_invisible(f"# {name}\n{function.files[name]}")]
    )
    return SectionContent((PromptItem("call", (f"call: {one_line(function.call, 200)}",)), *items))


def fill_findings(brief: KernelBrief, most: int | None) -> SectionContent | None:
    """Return the rules that fired, and the headroom to the roof."""
    if isinstance(brief, CoderBrief) and not brief.source:
        return None
    rows = [_finding_item(finding) for finding in brief.findings]
    if brief.headroom is not None:
        rows.insert(0, PromptItem("headroom", (_headroom_text(brief.headroom),)))
    return SectionContent(tuple(rows), {"count": len(brief.findings)})


def fill_records(brief: PlannerBrief | AnalystBrief, most: int | None) -> SectionContent | None:
    """Return the ids of records that an answer may cite, and for a planner the text of the analysis."""
    if not brief.records:
        return None
    named = PromptItem("records", (f"records: {', '.join(map(escape_invisible, brief.records))}",))
    if isinstance(brief, AnalystBrief):
        listed = PromptItem(
            "sections", (f"sections of the profiler's report: {one_line(', '.join(brief.sections), 400)}",)
        )
        return SectionContent((named, listed) if brief.sections else (named,))
    said = brief.analysis
    analysis = (
        [PromptItem("analysis", tuple(f"the profiler-analyst: {one_line(said, most)}" for most in (1200, 400)), rank=1)]
        if said
        else []
    )
    return SectionContent((named, *analysis))


def fill_counters(brief: KernelBrief, most: int | None) -> SectionContent | None:
    """Return the counters that are not 0, by record, and the profiler section that was asked for."""
    fired = {finding.rule for finding in brief.findings}
    read = {condition.metric for rule in load_rules() if rule.id in fired for condition in rule.when}
    calls = brief.observations.calls
    # Those on which a finding rests come first: the end is cut. The headroom stands once, with the findings.
    rows = {
        name: "; ".join(filter(None, (calls.get(name), figures)))
        for name, metrics in brief.observations.counters.items()
        if (
            figures := ", ".join(
                f"{m} {quantity_text(q)}"
                for m, q in sorted(metrics.items(), key=lambda one: (one[0].partition("@")[0] not in read, one[0]))
                if q.value and not m.startswith("roofline.headroom")
            )
        )
    }
    levels = {
        name: tuple(f"record {one_line(name, 40)}: {one_line(said, limit)}" for limit in (2400, 1200))
        for name, said in rows.items()
    }
    items = [PromptItem(name, told) for name, told in levels.items()]
    items += [
        PromptItem(f"section {at}", (one_line(said, 1500),)) for at, said in enumerate(brief.observations.section)
    ]
    return SectionContent(tuple(items)) if items else None


def fill_machine_code(brief: KernelBrief, most: int | None) -> SectionContent | None:
    """Return the machine code of the hot loops: as many whole ones as fit, of the others the first line."""
    rows = [
        PromptItem(f"loop {at}", (escape_invisible(text), one_line(text.split("\n")[0])))
        for at, text in enumerate(brief.observations.machine_code, 1)
    ]
    if rows and len(rows[0].levels[0]) > MAX_LOOP_CHARS:
        start = rows[0].levels[0][:MAX_LOOP_CHARS].rsplit("\n", 1)[0]
        rows[0] = rows[0]._replace(levels=(rows[0].levels[0], f"{start}\n[…]", rows[0].levels[1]))
    return SectionContent(tuple(rows)) if rows else None


def fill_standing(brief: KernelBrief, most: int | None) -> SectionContent | None:
    """Return the incumbent's times with the times to compare them with."""
    lines = times_lines(brief.observations)
    rows = (PromptItem(line.split(":")[0], (one_line(line),)) for line in lines)
    return SectionContent(tuple(rows)) if lines else None


def _finding_item(found: Finding) -> PromptItem:
    where = f", line {found.line}" if found.line else ""
    cited = f" (records {', '.join(found.evidence)})" if found.evidence else ""
    start = f"{found.rule} [{found.severity}, {found.axis}{where}]"
    return PromptItem(
        found.rule, (f"{start}: {one_line(found.text, 400)}{cited}", f"{start}: {one_line(found.text, 90)}{cited}")
    )


def _headroom_text(room: Headroom) -> str:
    gaps = {"total": room.total, "compute": room.compute, "memory": room.memory, "latency": room.latency}
    shares = ", ".join(f"{axis} {'N/A' if gap is None else f'{gap:.0%}'}" for axis, gap in gaps.items())
    return f"headroom: {shares}; bound by {room.bound}"


def fill_remarks(brief: AnalystBrief | PlannerBrief, most: int | None) -> SectionContent | None:
    """Return the remarks of compiler and profiler."""
    if not brief.remarks:
        return None
    seen = {
        f"{r.tool}, {r.kind}{f', line {r.line}' if r.line else ''}: {one_line(r.text, 240)}": _estimated_gain(r.text)
        for r in brief.remarks
    }
    ranked = sorted(seen, key=lambda text: -seen[text])
    return SectionContent(tuple(PromptItem(text.split(":", 1)[0], (text,)) for text in ranked), {"count": len(seen)})


def _estimated_gain(remark: str) -> float:
    """Return the percentage that ncu estimates in a remark; 0: it estimates none."""
    found = re.search(r"\(ncu estimates ([\d.]+) %", remark)
    return float(found[1]) if found else 0.0


def fill_signals(brief: PlannerBrief, most: int | None) -> SectionContent | None:
    """Return the signals of this language that did not fire, by axis."""
    rows = brief.signals[:MAX_SIGNAL_LINES]
    return SectionContent(tuple(PromptItem(one.split(":")[0], (one_line(one),)) for one in rows)) if rows else None


def fill_skills(brief: KernelBrief, most: int | None) -> SectionContent | None:
    """Return the skill pages whose signal fired."""
    items = tuple(_skill_item(page, _language_of(brief)) for page in brief.skills)
    return SectionContent(items) if items else None


def _skill_item(page: Page, language: str) -> PromptItem:
    head = f"# {page.head.id}: {one_line(page.head.title, 160)} ({_page_citation(page)})"
    full = _named_sections(page, language, "Causes", "Fixes", "Anti-patterns") or _shown_text(page.body, language)
    fixes = _named_sections(page, language, "Fixes") or cut_middle(full, 400)
    return PromptItem(page.head.id, (f"{head}\n{full}", f"{head}\n{fixes}"))


def _named_sections(page: Page, language: str, *names: str) -> str:
    """Return those of a page's sections that say something for a kernel in `language`, each below its name."""
    said = {name: _shown_text(section_text(page.body, name), language) for name in names}
    return "\n".join(f"{name}:\n{text}" for name, text in said.items() if text)


def fill_methods(brief: PlannerBrief, most: int | None) -> SectionContent | None:
    """Return the best pages that answer findings whole, of the others that do so the essence, and the rest's heads."""
    fired, pages = {finding.rule for finding in brief.findings}, brief.dossier.methods
    answering = [page for page in pages if fired & {*page.head.rules}] or list(pages[:MAX_WHOLE_PAGES])
    rest = [page for page in pages if page not in answering]
    rest += [page for page in brief.dossier.earlier if page.head.type == "method"]
    items = [_method_item(page, fired, brief) for page in (*answering, *rest)]
    for at in range(MAX_WHOLE_PAGES, len(items)):
        first = 1 if at < len(answering) else -1
        items[at] = items[at]._replace(levels=items[at].levels[first:], rank=int(at >= len(answering)))
    return SectionContent(tuple(items), {"count": len(items)})


def _method_item(page: Page, fired: set[str], brief: PlannerBrief) -> PromptItem:
    rules = ", ".join(rule for rule in page.head.rules if rule in fired) or "no rule that fired"
    start = (
        f"# {page.head.id} [{page.head.axis}, priority {page.head.priority}]: {one_line(page.head.title, 160)} "
        f"({_page_citation(page)})"
    )
    head = f"{start}\nanswers {rules}{_knobs_text(page)}{_signature_text(page, brief.architecture)}"
    language = brief.task.language
    body = _shown_text(re.sub(r"\A#+ .*\n+", "", page.body.strip()), language)
    short = _named_sections(page, language, "What", "When it pays", "When it is legal")
    return PromptItem(page.head.id, (f"{head}\n{body}", f"{head}\n{short or cut_middle(body, 900)}", head, start))


def _knobs_text(page: Page) -> str:
    knobs = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in page.head.knobs.items())
    return f"; knobs {knobs}" if knobs else ""


def _signature_text(page: Page, architecture: str) -> str:
    """Return the patterns that the machine code must show; only those of this architecture if it is known."""
    known = page.head.signature
    shown = {architecture: known[architecture]} if architecture in known else {} if architecture else known
    found = "; ".join(f"{name}: {one_line(pattern, 200)}" for name, pattern in shown.items())
    return f"; signature {found}" if found else ""


def fill_moved(brief: PlannerBrief | CoderBrief, most: int | None) -> SectionContent | None:
    """Return the counters that the latest attempts changed, the newest attempt first."""
    tried = [one for one in brief.tried if one.counter_changes][::-1]
    rows = [
        PromptItem(
            f"v{one.iteration}",
            tuple(
                f"v{one.iteration} {one_line(' + '.join(one.methods), 160)}, {one.verdict}: "
                f"{one_line(_counter_changes_text(one), most)}"
                for most in (900, 200)
            ),
        )
        for one in tried
    ]
    return SectionContent(tuple(rows)) if rows else None


def _counter_changes_text(one: RunAttempt) -> str:
    return ", ".join(f"{name} {before:.4g} -> {after:.4g}" for name, (before, after) in one.counter_changes.items())


def fill_operator(brief: KernelBrief, most: int | None) -> SectionContent | None:
    """Return the page about the operator that the reference computes."""
    found = tuple(_passage_items(brief.observations.operator, brief))
    return SectionContent(found) if found else None


def fill_passages(brief: PlannerBrief, most: int | None) -> SectionContent | None:
    """Return the passages that retrieval found, without pages that the prompt shows in any case, of other operators and
    of other vendors."""
    own = {one.path for one in brief.observations.operator}
    shown = {page.path for page in (*brief.dossier.methods[:MAX_WHOLE_PAGES], *brief.skills)} | own
    rows = tuple(
        _passage_items(
            (one for one in brief.dossier.passages if one.path not in shown and (one.kind != "operator" or not own)),
            brief,
        )
    )
    return SectionContent(rows) if rows else None


def _passage_items(passages: Iterable[Passage], brief: KernelBrief) -> Iterator[PromptItem]:
    """Yield the passages, without those that are about another language or vendor alone."""
    for found in passages:
        head = f"# {one_line(' > '.join(found.heading), 200)} ({found.citation})"
        # The head already shows this heading.
        text = _shown_text(re.sub(r"\A#+ .*\n+", "", found.text), _language_of(brief))
        if text and not names_other_vendor(f"{head}\n{text}", brief.architecture):
            yield PromptItem(
                str(found.citation), (f"{head}\n{cut_middle(text, 1500)}", f"{head}\n{one_line(text, 240)}")
            )


# ---------------------------------------------------------------- for this iteration


def fill_attempts(brief: PlannerBrief | CoderBrief, most: int | None) -> SectionContent | None:
    """Return this run's attempts; for a coder only those with a planned method, which show how not to write it."""
    planned = {item.method for item in brief.plan.methods} if isinstance(brief, CoderBrief) else None
    tried = tuple(one for one in brief.tried if planned is None or planned & {*one.methods, *one.planned})
    if planned is not None and not tried:
        return None
    summary = summarize_run_attempts(tried, _tokens_for_items(most))
    return SectionContent(
        summary.items, {"counts": summary.counts, "count": len(tried), "planned": planned is not None}
    )


def fill_plan(brief: CoderBrief, most: int | None) -> SectionContent | None:
    """Return the plan that the coder carries out."""
    if brief.writes_first_kernel:
        return None
    figures = tuple(PromptItem("figures", (f"figure of the plan: {figure}",)) for figure in brief.plan.figures)
    return SectionContent(
        (*map(_planned_method_item, brief.plan.methods), *figures), {"count": len(brief.plan.methods)}
    )


def _planned_method_item(item: PlannedMethod) -> PromptItem:
    expected = ", ".join(f"{m.metric} {m.direction} to x{m.factor:g}" for m in item.hypothesis.expected)
    signature = "".join(f"\nsignature {target}: {one_line(pattern, 120)}" for target, pattern in item.signature.items())
    # As it was written: a change may hold code.
    change = "\n".join(
        f"{label}: {escape_invisible(text.strip())}"
        for label, text in (("change", item.hypothesis.change), ("because", item.hypothesis.rationale))
    )
    return PromptItem(item.method, (f"# {item.method} [{item.axis}]\n{change}\nexpected: {expected}{signature}",))


def fill_pages(brief: CoderBrief, most: int | None) -> SectionContent | None:
    """Return the pages of the planned methods, with code."""
    if not brief.pages:
        return None
    return SectionContent(tuple(_page_item(page, brief.architecture, brief.task.language) for page in brief.pages))


def _page_item(page: Page, architecture: str, language: str) -> PromptItem:
    head = f"# {page.head.id}: {one_line(page.head.title, 160)}{_knobs_text(page)}{_signature_text(page, architecture)}"
    how, legal, pitfalls = (
        f"\n{said}" if (said := _named_sections(page, language, name)) else ""
        for name in ("How", "When it is legal", "Pitfalls")
    )
    if not how:
        body = _shown_text(page.body, language)
        return PromptItem(page.head.id, (f"{head}\n{body}", f"{head}\n{cut_middle(body, 1500)}", head))
    code = _code_blocks_text(how) if CODE_BLOCK_PATTERN.search(how) else ""
    # The planner has checked legality; code says the most in the fewest words.
    levels = [
        head + text for text in dict.fromkeys((how + legal + pitfalls, how + pitfalls, code + pitfalls, code, ""))
    ]
    return PromptItem(page.head.id, tuple(levels), costly_level=levels.index(head + code + pitfalls) if code else None)


def _code_blocks_text(text: str) -> str:
    """Return the code blocks in `text`, the first with the text before it; `[…]` marks each omission."""
    first, *others = CODE_BLOCK_PATTERN.finditer(text)
    rest = "" if text[(others or [first])[-1].end() :].strip() == "" else "\n[…]"
    return "\n[…]\n".join([text[: first.end()], *(found[0] for found in others)]) + rest


def fill_hints(brief: CoderBrief, most: int | None) -> SectionContent | None:
    """Return the hints of handlers, which are trusted text."""
    return SectionContent(values={"hints": brief.hints}) if brief.hints else None


def fill_frameworks(brief: PlannerBrief | CoderBrief, most: int | None) -> SectionContent | None:
    """Return the measured times of torch, of rivals and of the incumbent."""
    times = brief.frameworks
    if times is None:
        return None
    others = "torch" if {*times.against} <= {*FRAMEWORKS} else "the other"
    names = {name: contestant_label(name) for name in times.against}
    return SectionContent(
        values={"times": times, "others": others, "names": {**names, USER_FUNCTION: "the user's own function"}}
    )


def fill_failures(brief: Brief, most: int | None) -> SectionContent | None:
    """Return this iteration's drafts that failed, the newest first, and those that passed."""
    if not isinstance(brief, CoderBrief) or not brief.failures:
        return None
    rows = tuple(
        PromptItem(
            f"failure {at}",
            (
                escape_invisible(text),
                cut_middle(text, MAX_FAILURE_CHARS),
                cut_middle(text, MAX_FAILURE_CHARS // 4),
                one_line(text, 200),
            ),
        )
        for at, text in enumerate(reversed(brief.failures), 1)
    )
    stand = tuple(
        PromptItem(f"sound draft {at}", (escape_invisible(text), one_line(text, 200)), rank=1)
        for at, text in enumerate(brief.passing_drafts, 1)
    )
    return SectionContent((*rows, *stand), {"count": len(rows)})


def fill_diff(brief: GatekeeperBrief, most: int | None) -> SectionContent | None:
    """Return the whole diff that the reviewer reads."""
    return SectionContent((_whole_item("diff", brief.diff),))


def fill_frontier(brief: PlannerBrief, most: int | None) -> SectionContent | None:
    """Return the correct candidates that lost, the fastest first."""
    rows = frontier_items(brief.frontier)
    return SectionContent(rows) if rows else None


def fill_parent(brief: CoderBrief, most: int | None) -> SectionContent | None:
    """Return the whole kernel from which the plan starts, unless that is the incumbent."""
    return SectionContent((_whole_item("parent", brief.parent),)) if brief.parent else None


def fill_role(brief: Brief, most: int | None) -> SectionContent:
    """Return what a role's text depends on."""
    return SectionContent(values={"first": isinstance(brief, CoderBrief) and brief.writes_first_kernel})


def fill_iteration(brief: Brief, most: int | None) -> SectionContent:
    """Return the values of the role's own sentences about the current question."""
    if isinstance(brief, PlannerBrief):
        budget = dict(sorted(brief.budget.items()))
        return SectionContent(
            values={"methods": brief.methods_per_iteration, "candidates": brief.candidates, "budget": budget}
        )
    if isinstance(brief, CoderBrief):
        values = {
            "candidates": brief.plan.candidates,
            "failures": len(brief.failures),
            "without": bool(brief.ablated_methods),
            "first": brief.writes_first_kernel,
            "ported": bool(brief.task.baseline_function and brief.task.baseline_function.files),
        }
        if not brief.ablated_methods:
            return SectionContent(values=values)
        knobs = " ".join(f"{name}={value}" for name, value in sorted(brief.champion_knobs.items()))
        ablation_text = (
            f"leave out, each once: {escape_invisible(', '.join(brief.ablated_methods))}\nthe champion's knobs: "
            f"{escape_invisible(knobs) or 'none'}"
        )
        return SectionContent((PromptItem("ablation", (ablation_text,)),), values)
    return SectionContent(
        values={"rules": len({finding.rule for finding in brief.findings})} if isinstance(brief, AnalystBrief) else {}
    )


_FILLERS: tuple[SectionFiller, ...] = (
    *(
        fill_task,
        fill_memory,
        fill_reference,
        fill_specs,
        fill_operator,
        fill_kernel,
        fill_champion,
        fill_user_function,
        fill_findings,
        fill_counters,
        fill_machine_code,
        fill_standing,
        fill_frameworks,
        fill_remarks,
        fill_signals,
        fill_records,
    ),
    *(
        fill_skills,
        fill_methods,
        fill_passages,
        fill_attempts,
        fill_moved,
        fill_plan,
        fill_frontier,
        fill_parent,
        fill_role,
        fill_pages,
        fill_hints,
        fill_failures,
        fill_diff,
        fill_iteration,
    ),
)
SECTIONS: dict[str, SectionFiller] = {fill.__name__.removeprefix("fill_"): fill for fill in _FILLERS}
"""Section of budget.yaml -> function that fills it; other sections are fixed text."""


def _tokens_for_items(most: int | None) -> int | None:
    """Return the tokens that a section's own sentences and note leave for its items."""
    return None if most is None else max(0, most - SECTION_OVERHEAD_TOKENS)


def _whole_item(name: str, text: str) -> PromptItem:
    return PromptItem(name, (escape_invisible(text),))


def _page_citation(page: Page) -> str:
    if page.path.startswith(EXPERIENCE_PATH):
        return f"own experience: record {', '.join(page.head.sources)}"
    return f"<gpu-wiki>/{page.path}:{page.body_line}"


def _language_of(brief: KernelBrief) -> str:
    return brief.task.language if brief.task else ""


def _shown_text(markdown: str, language: str) -> str:
    """Return Markdown for a kernel in `language`, without the addresses of links, which a model cannot follow."""
    markdown = TRITON_IMPORTS_PATTERN.sub("", text_for_language(markdown, language))
    return cut_middle(LINK_PATTERN.sub(r"\1", markdown), 1 << 20)
