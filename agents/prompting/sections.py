"""From a brief to what stands in each section of a prompt: foreign pieces to be fenced, and values of ours for the
templates' sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from agents.artifacts import AnalystBrief, Brief, CoderBrief, GatekeeperBrief, PlannedMethod, PlannerBrief, Tried
from agents.checks.cited_figures import quantity_text
from agents.prompting.past_attempts import attempts_of_earlier_runs, attempts_of_run
from agents.prompting.token_budget import Item
from agents.text.fencing import cut, line, plain
from knowledge_base.artifacts import Page, Passage
from knowledge_base.experience.free_methods import EXPERIENCE_PATH
from knowledge_base.pages.wiki import section_text
from tools.artifacts import Finding
from tools.gate.ranking import FRAMEWORKS, contestant_label
from tools.roofline.hardware import Headroom, Spec

FAILURE = 3600
"""Characters of one failure with its source, where the budget does not hold them whole; older ones are shortened
first."""
WHOLE = 3
"""Method pages that are shown whole."""
OWN = 150
"""Tokens of a section's own sentences and note, at most."""
LINK = re.compile(r"\[([^\]\n]*)\]\((?:https?://[^\s)]+|[\w./-]+\.md(?:#[\w-]*)?)\)")
"""A link of Markdown. Code has brackets before parentheses, too (`kernel[grid](x)`), but no address between these."""


IMPORTS = re.compile(r"^import triton.*\n+", re.MULTILINE)
"""That every example of Triton begins with."""
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
"""A block of code."""


class Content(NamedTuple):
    """What one section holds."""

    items: tuple[Item, ...] = ()
    """Foreign text, for one fence."""
    values: Mapping[str, object] = {}
    """For the section's own sentences: numbers and flags, never foreign text."""


Fill = Callable[[Brief, int | None], Content | None]
"""A brief and the section's budget -> its content; None: the section does not stand in this prompt."""


# ---------------------------------------------------------------- for the whole run


def contract(brief: Brief, most: int | None) -> Content | None:
    """The task: arguments, visible workloads, ranges, precision."""
    task = brief.task
    if task is None:
        return None
    numeric = task.numeric
    types = dict.fromkeys(a.dtype for a in task.outputs if a.dtype in numeric.floor)
    caps = {dtype: f"cap {numeric.cap[dtype]:g}" for dtype in numeric.cap}
    floors = [f"{dtype} floor {numeric.floor[dtype]:g} {caps.get(dtype, 'without a cap')}" for dtype in types]
    ranges = [f"{name} {low}..{high}" for name, (low, high) in task.dims_range.items()]
    rows = [f"name: {task.name}", "arguments, in ABI order:"]
    rows += [
        f"  {a.name}: {a.role} {a.dtype}{' [' + ', '.join(a.shape) + ']' if a.role != 'scalar' else ''}"
        for a in task.arguments
    ]
    # What the judge draws in secret never stands in a Task; a flag that says so is believed even here.
    rows += ["visible workloads (timed, and weighed so):"]
    visible = [w for w in task.workloads if not w.hidden]
    own = {name: f", may become slower by {100 * margin:.3g} % at most" for name, margin in task.margins.items()}
    rows += [
        f"  {w.name}: {' '.join(f'{k}={v}' for k, v in w.dims.items())}, weight {w.weight:g}{own.get(w.name, '')}"
        for w in visible
    ]
    rows += [f"further sizes that must be right are drawn from: {', '.join(ranges) or 'nothing'}"]
    rows += [f"precision {numeric.precision}; error of outputs: {', '.join(floors) or 'exact'}"]
    rows += [f"build flags: {' '.join(task.build_flags)}"] if task.build_flags else []
    called = ", ".join(f"torch.ops.{name}" for name in task.library or ())
    rows += (
        [f"library: host code may call {called} (or .out) on arguments and scratch, beside kernels of its own"]
        if called
        else []
    )
    kept = [Item("contract", (_indented(row), _indented(row, 120))) for row in rows]
    told = [
        Item("inferred", (f"inferred: {line(said, 300)}", f"inferred: {line(said, 60)}"), rank=1)
        for said in task.inferred
    ]
    return Content((*kept, *told))


def _indented(row: str, most: int = 400) -> str:
    return (len(row) - len(row.lstrip(" "))) * " " + line(row, most)


def reference(brief: Brief, most: int | None) -> Content | None:
    """reference.py, whole."""
    return Content((_whole("reference.py", brief.task.reference),)) if brief.task else None


def specs(brief: Brief, most: int | None) -> Content | None:
    """What is published of the device, each line with its citation."""
    if isinstance(brief, GatekeeperBrief):
        return None
    known = brief.architecture
    architecture = (
        [Item("architecture", (f"architecture: {line(known, 100)}, as the driver reports it",))] if known else []
    )
    return Content((*architecture, *(_spec(spec) for spec in brief.specs)), {"count": len(brief.specs)})


def _spec(spec: Spec) -> Item:
    caveat = f" ({line(spec.caveat, 200)})" if spec.caveat else ""
    return Item(spec.metric, (f"{spec}{caveat}", str(spec)))


def earlier(brief: Brief, most: int | None) -> Content | None:
    """Outcomes of earlier runs."""
    if not isinstance(brief, PlannerBrief):
        return None
    told = attempts_of_earlier_runs(brief.memory, _inner(most), brief.task.baseline or "")
    said = f"your predictions so far, of any operator: {line(brief.forecasts, 200)}"
    fared = [Item("predictions", (said,))] if brief.forecasts else []
    return Content((*fared, *told.items), {"counts": told.counts, "count": len(brief.memory)})


# ---------------------------------------------------------------- until a version is accepted


def kernel(brief: Brief, most: int | None) -> Content | None:
    """The incumbent, whole."""
    return (
        None if isinstance(brief, GatekeeperBrief) or not brief.source else Content((_whole("kernel", brief.source),))
    )


def champion(brief: Brief, most: int | None) -> Content | None:
    """For an ablation, the kernel that it takes a method out of."""
    if not isinstance(brief, CoderBrief) or not brief.champion:
        return None
    return Content((_whole("champion", brief.champion),))


def findings(brief: Brief, most: int | None) -> Content | None:
    """Rules that fired, and how far the kernel is from the roof."""
    if isinstance(brief, GatekeeperBrief) or (isinstance(brief, CoderBrief) and not brief.source):
        return None
    rows = [_finding(finding) for finding in brief.findings]
    if brief.headroom is not None:
        rows.insert(0, Item("headroom", (_headroom(brief.headroom),)))
    return Content(tuple(rows), {"count": len(brief.findings)})


def records(brief: Brief, most: int | None) -> Content | None:
    """The measurements that an answer may name, and for a plan what the analysis made of them."""
    if not isinstance(brief, PlannerBrief | AnalystBrief) or not brief.records:
        return None
    named = Item("records", (f"records: {', '.join(map(plain, brief.records))}",))
    if isinstance(brief, AnalystBrief):
        listed = Item("sections", (f"sections of the profiler's report: {line(', '.join(brief.sections), 400)}",))
        return Content((named, listed) if brief.sections else (named,))
    said = brief.analysis
    analysis = (
        [Item("analysis", tuple(f"the profiler-analyst: {line(said, most)}" for most in (1200, 400)), rank=1)]
        if said
        else []
    )
    return Content((named, *analysis))


def counters(brief: Brief, most: int | None) -> Content | None:
    """What was counted and is not 0, by record; times stand elsewhere."""
    held = {} if isinstance(brief, GatekeeperBrief) else brief.seen.counters
    rows = {
        name: ", ".join(f"{m} {quantity_text(q)}" for m, q in sorted(metrics.items()) if q.value)
        for name, metrics in held.items()
    }
    levels = {
        name: tuple(f"record {line(name, 40)}: {line(said, most)}" for most in (4000, 1500))
        for name, said in rows.items()
        if said
    }
    asked = () if isinstance(brief, GatekeeperBrief) else brief.seen.section
    items = [Item(name, told) for name, told in levels.items()]
    items += [Item(f"section {at}", (line(said, 1500),)) for at, said in enumerate(asked)]
    return Content(tuple(items)) if items else None


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.4g} us"


def machine_code(brief: Brief, most: int | None) -> Content | None:
    """The hot loops."""
    found = () if isinstance(brief, GatekeeperBrief) else brief.seen.machine_code
    rows = (Item(f"loop {at}", (plain(text), cut(text, 900), line(text, 80))) for at, text in enumerate(found, 1))
    return Content(tuple(rows)) if found else None


def standing(brief: Brief, most: int | None) -> Content | None:
    """The incumbent's times beside what they are held against."""
    held = {} if isinstance(brief, GatekeeperBrief) else brief.seen.times
    rows = {
        name: "; ".join(f"{line(what, 60)} {_us(s)}" for what, s in times.items() if s is not None)
        for name, times in held.items()
    }
    return Content(tuple(Item(name, (f"{line(name, 120)}: {said}",)) for name, said in rows.items())) if rows else None


def _finding(found: Finding) -> Item:
    where = f", line {found.line}" if found.line else ""
    cited = f" (records {', '.join(found.evidence)})" if found.evidence else ""
    start = f"{found.rule} [{found.severity}, {found.axis}{where}]"
    return Item(found.rule, (f"{start}: {line(found.text, 400)}{cited}", f"{start}: {line(found.text, 90)}{cited}"))


def _headroom(room: Headroom) -> str:
    def share(value: float | None) -> str:
        return "N/A" if value is None else f"{value:.2f}"

    gaps = (
        f"total {share(room.total)}, compute {share(room.compute)}, memory {share(room.memory)}, latency "
        f"{share(room.latency)}"
    )
    return f"headroom: {gaps}; bound by {room.bound}"


def remarks(brief: Brief, most: int | None) -> Content | None:
    """What compiler and profiler say themselves."""
    if not isinstance(brief, AnalystBrief) or not brief.remarks:
        return None
    seen = dict.fromkeys(
        f"{r.tool}, {r.kind}{f', line {r.line}' if r.line else ''}: {line(r.text, 240)}" for r in brief.remarks
    )
    return Content(tuple(Item(text.split(":", 1)[0], (text,)) for text in seen), {"count": len(seen)})


def skills(brief: Brief, most: int | None) -> Content | None:
    """The skill pages whose signal fired."""
    found = () if isinstance(brief, GatekeeperBrief) else brief.skills
    return Content(tuple(map(_skill, found)), {"count": len(found)}) if found else None


def _skill(page: Page) -> Item:
    head = f"# {page.head.id}: {line(page.head.title, 160)} ({_cited(page)})"
    parts = {name: _text(section_text(page.body, name)) for name in ("Causes", "Fixes", "Anti-patterns")}
    full = "\n".join(f"{name}:\n{text}" for name, text in parts.items() if text) or _text(page.body)
    fixes = f"Fixes:\n{parts['Fixes']}" if parts["Fixes"] else cut(full, 400)
    return Item(page.head.id, (f"{head}\n{full}", f"{head}\n{fixes}"))


def methods(brief: Brief, most: int | None) -> Content | None:
    """The method pages that fit best, whole, and the names of the others."""
    if not isinstance(brief, PlannerBrief):
        return None
    fired = {finding.rule for finding in brief.findings}
    pages = brief.dossier.methods
    told = [_method(page, fired, brief.architecture) for page in pages[:WHOLE]]
    others = (*pages[WHOLE:], *(page for page in brief.dossier.earlier if page.head.type == "method"))
    # Of pages that fit less, and of those that were listed before, what they are called is enough.
    told += [Item(page.head.id, (_method(page, fired, brief.architecture).levels[-1],), rank=1) for page in others]
    return Content(tuple(told), {"count": len(told)})


def _method(page: Page, fired: set[str], architecture: str) -> Item:
    rules = ", ".join(rule for rule in page.head.rules if rule in fired) or "no rule that fired"
    start = (
        f"# {page.head.id} [{page.head.axis}, priority {page.head.priority}]: {line(page.head.title, 160)} "
        f"({_cited(page)})"
    )
    head = f"{start}\nanswers {rules}{_knobs(page)}{_signature(page, architecture)}"
    body = _text(IMPORTS.sub("", re.sub(r"\A#+ .*\n+", "", page.body.strip())))
    short = "\n".join(
        part
        for part in (_text(section_text(page.body, name)) for name in ("What", "When it pays", "When it is legal"))
        if part
    )
    return Item(page.head.id, (f"{head}\n{body}", f"{head}\n{short or cut(body, 900)}", head, start))


def _knobs(page: Page) -> str:
    knobs = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in page.head.knobs.items())
    return f"; knobs {knobs}" if knobs else ""


def _signature(page: Page, architecture: str) -> str:
    """What the machine code must show, on this architecture where it is known."""
    known = page.head.signature
    shown = {architecture: known[architecture]} if architecture in known else {} if architecture else known
    found = "; ".join(f"{name}: {line(pattern, 200)}" for name, pattern in shown.items())
    return f"; signature {found}" if found else ""


def moved(brief: Brief, most: int | None) -> Content | None:
    """What the last attempts did to which counters, newest first."""
    tried = [one for one in brief.tried if one.moved][::-1] if isinstance(brief, PlannerBrief | CoderBrief) else []
    rows = [
        Item(
            f"v{one.iteration}",
            tuple(
                f"v{one.iteration} {line(' + '.join(one.methods), 160)}, {one.verdict}: {line(_moved(one), most)}"
                for most in (900, 200)
            ),
        )
        for one in tried
    ]
    return Content(tuple(rows)) if rows else None


def _moved(one: Tried) -> str:
    return ", ".join(f"{name} {before:.4g} -> {after:.4g}" for name, (before, after) in one.moved.items())


def operator(brief: Brief, most: int | None) -> Content | None:
    """The page on what the reference computes."""
    found = () if isinstance(brief, GatekeeperBrief) else brief.seen.operator
    return Content(tuple(map(_passage, found))) if found else None


def passages(brief: Brief, most: int | None) -> Content | None:
    """What retrieval found, less the pages that are shown anyway."""
    if not isinstance(brief, PlannerBrief):
        return None
    shown = {page.path for page in (*brief.dossier.methods[:WHOLE], *brief.skills)} | {
        one.path for one in brief.seen.operator
    }
    rows = tuple(_passage(passage) for passage in brief.dossier.passages if passage.path not in shown)
    return Content(rows, {"count": len(rows)}) if rows else None


def _passage(found: Passage) -> Item:
    head = f"# {line(' > '.join(found.heading), 200)} ({found.citation})"
    # Its own heading is told already.
    text = _text(re.sub(r"\A#+ .*\n+", "", found.text))
    return Item(str(found.citation), (f"{head}\n{cut(text, 1500)}", f"{head}\n{line(text, 240)}"))


# ---------------------------------------------------------------- for this iteration


def attempts(brief: Brief, most: int | None) -> Content | None:
    """This run's attempts; for a coder those with a method of the plan, which say how not to write it."""
    if not isinstance(brief, PlannerBrief | CoderBrief):
        return None
    planned = {item.method for item in brief.plan.methods} if isinstance(brief, CoderBrief) else None
    tried = tuple(one for one in brief.tried if planned is None or planned & {*one.methods, *one.planned})
    if planned is not None and not tried:
        return None
    told = attempts_of_run(tried, _inner(most))
    return Content(told.items, {"counts": told.counts, "count": len(tried), "planned": planned is not None})


def plan(brief: Brief, most: int | None) -> Content | None:
    """The coder's plan."""
    if not isinstance(brief, CoderBrief) or brief.first:
        return None
    figures = tuple(Item("figures", (f"a figure that the plan rests on: {figure}",)) for figure in brief.plan.figures)
    return Content((*map(_planned, brief.plan.methods), *figures), {"count": len(brief.plan.methods)})


def _planned(item: PlannedMethod) -> Item:
    expected = ", ".join(f"{m.metric} {m.direction} to x{m.factor:g}" for m in item.hypothesis.expected)
    signature = "".join(f"\nsignature {target}: {line(pattern, 120)}" for target, pattern in item.signature.items())
    change = f"change: {line(item.hypothesis.change, 6000)}\nbecause: {line(item.hypothesis.rationale, 900)}"
    return Item(item.method, (f"# {item.method} [{item.axis}]\n{change}\nexpected: {expected}{signature}",))


def pages(brief: Brief, most: int | None) -> Content | None:
    """The planned methods' pages, with code."""
    if not isinstance(brief, CoderBrief) or not brief.pages:
        return None
    return Content(tuple(_page(page, brief.architecture) for page in brief.pages))


def _page(page: Page, architecture: str) -> Item:
    head = f"# {page.head.id}: {line(page.head.title, 160)}{_knobs(page)}{_signature(page, architecture)}"
    wanted = ("How", "When it is legal", "Pitfalls")
    parts = {name: IMPORTS.sub("", section_text(page.body, name)) for name in wanted}
    if not parts["How"]:
        return Item(page.head.id, (f"{head}\n{_text(page.body)}", f"{head}\n{cut(_text(page.body), 1500)}", head))
    how, legal, pitfalls = (f"\n{name}:\n{_text(text)}" if text else "" for name, text in parts.items())
    code = f"\nHow:\n{_text(_code(parts['How']))}" if CODE.search(parts["How"]) else ""
    # What is legal the planner has looked at; code says most in the fewest words.
    levels = [
        head + text for text in dict.fromkeys((how + legal + pitfalls, how + pitfalls, code + pitfalls, code, ""))
    ]
    return Item(page.head.id, tuple(levels), dear=levels.index(head + code + pitfalls) if code else None)


def _code(text: str) -> str:
    """The blocks of code in `text`, the first with what leads to it; what is left out between and after them is
    marked."""
    first, *others = CODE.finditer(text)
    rest = "" if text[(others or [first])[-1].end() :].strip() == "" else "\n[…]"
    return "\n[…]\n".join([text[: first.end()], *(found[0] for found in others)]) + rest


def hints(brief: Brief, most: int | None) -> Content | None:
    """What handlers say of the kernel's shape: texts of ours."""
    return Content(values={"hints": brief.hints}) if isinstance(brief, CoderBrief) and brief.hints else None


def frameworks(brief: Brief, most: int | None) -> Content | None:
    """Times of torch, of other libraries and of the incumbent: figures of ours."""
    times = brief.frameworks if isinstance(brief, PlannerBrief | CoderBrief) else None
    if times is None:
        return None
    others = "torch" if {*times.against} <= {*FRAMEWORKS} else "the other"
    return Content(
        values={"times": times, "others": others, "names": {name: contestant_label(name) for name in times.against}}
    )


def failures(brief: Brief, most: int | None) -> Content | None:
    """Drafts of this iteration that failed, newest first."""
    if not isinstance(brief, CoderBrief) or not brief.failures:
        return None
    rows = tuple(
        Item(f"failure {at}", (plain(text), cut(text, FAILURE), cut(text, FAILURE // 4), line(text, 200)))
        for at, text in enumerate(reversed(brief.failures), 1)
    )
    stand = tuple(
        Item(f"sound draft {at}", (plain(text), line(text, 200)), rank=1) for at, text in enumerate(brief.sound, 1)
    )
    return Content((*rows, *stand), {"count": len(rows)})


def diff(brief: Brief, most: int | None) -> Content | None:
    """What the reviewer reads, whole."""
    return Content((_whole("diff", brief.diff),)) if isinstance(brief, GatekeeperBrief) else None


def iteration(brief: Brief, most: int | None) -> Content:
    """What is owed now."""
    if isinstance(brief, PlannerBrief):
        budget = dict(sorted(brief.budget.items()))
        return Content(
            values={"methods": brief.methods_per_iteration, "candidates": brief.candidates, "budget": budget}
        )
    if isinstance(brief, CoderBrief):
        values = {
            "candidates": brief.plan.candidates,
            "failures": len(brief.failures),
            "without": bool(brief.without),
            "first": brief.first,
        }
        if not brief.without:
            return Content(values=values)
        knobs = " ".join(f"{name}={value}" for name, value in sorted(brief.champion_knobs.items()))
        asked = (
            f"leave out, each once: {line(', '.join(brief.without), 600)}\nthe champion's knobs: "
            f"{line(knobs, 600) or 'none'}"
        )
        return Content((Item("ablation", (asked,)),), values)
    return Content(
        values={"rules": len({finding.rule for finding in brief.findings})} if isinstance(brief, AnalystBrief) else {}
    )


_NAMED_ALIKE: tuple[Fill, ...] = (
    *(
        reference,
        specs,
        operator,
        kernel,
        champion,
        findings,
        counters,
        machine_code,
        standing,
        frameworks,
        remarks,
        records,
    ),
    *(skills, methods, passages, attempts, moved, plan, pages, hints, failures, diff, iteration),
)
SECTIONS: dict[str, Fill] = {"task": contract, "memory": earlier, **{fill.__name__: fill for fill in _NAMED_ALIKE}}
"""Section of budget.yaml -> what fills it; the others are text alone."""


def _inner(most: int | None) -> int | None:
    """What a section's own sentences and a note leave of its budget."""
    return None if most is None else max(0, most - OWN)


def _whole(name: str, text: str) -> Item:
    return Item(name, (plain(text),))


def _cited(page: Page) -> str:
    if page.path.startswith(EXPERIENCE_PATH):
        return f"own experience: record {', '.join(page.head.sources)}"
    return f"<gpu-wiki>/{page.path}:{page.body_line}"


def _text(markdown: str) -> str:
    """Without the addresses of links, of which a reader here can follow none."""
    return cut(LINK.sub(r"\1", markdown), 1 << 20)
