"""The provider that needs no language model: it answers every role's Brief by rule. It is called what it is, a
playbook."""

from __future__ import annotations

import re
from typing import Any

from agents.artifacts import (
    Analysis,
    AnalystBrief,
    Answer,
    Brief,
    CoderBrief,
    GatekeeperBrief,
    KnowledgeQuery,
    PlannerBrief,
    Queries,
    RetrieverBrief,
    Review,
)
from agents.models.base import AnswerReply, Model, Request
from agents.models.playbook.planning import SEVERITY_ORDER, plan_methods
from agents.models.playbook.search import write_drafts
from tools.artifacts import Axis
from tools.cli.formatting import describe_bottleneck
from tools.errors import SettingsError
from tools.roofline.hardware import Headroom

OPERATORS = (
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "batch_norm",
    "group_norm",
    "matmul",
    "linear",
    "conv",
    "transpose",
    "attention",
    "gelu",
    "silu",
    "sigmoid",
    "relu",
    "tanh",
    "exp",
    "log",
    "sum",
    "mean",
    "var",
    "max",
    "min",
    "cumsum",
    "argmax",
    "sort",
    "histogram",
    "embedding",
    "gather",
    "scatter",
    "pool",
    "einsum",
    "bmm",
    "stencil",
    "norm",
)
"""Words of torch and of C++ that tell what a kernel computes."""


class Playbook(Model):
    """No options. Deterministic: the same request has the same answer."""

    reads = "brief"
    bills = "nothing"

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        if options:
            unknown = ", ".join(sorted(map(repr, options)))
            raise SettingsError(
                f"models: the playbook provider takes no options; remove {unknown} or choose another provider"
            )

    def ask(self, request: Request) -> AnswerReply:
        """Answer at once, at no cost. Raises SettingsError when a method page names a recipe that does not exist."""
        return AnswerReply(answer=answer_brief(request.brief))


def answer_brief(brief: Brief) -> Answer:
    """The answer to any role's Brief.

    The gatekeeper's review is always empty: the deterministic screen has already run on the candidate, and the playbook
    has no rule that finds more in a diff. Only a language model can veto here.
    """
    match brief:
        case RetrieverBrief():
            return write_queries(brief)
        case AnalystBrief():
            return rank_findings(brief)
        case PlannerBrief():
            return plan_methods(brief)
        case CoderBrief():
            return write_drafts(brief)
        case GatekeeperBrief():
            return Review()


def write_queries(brief: RetrieverBrief) -> Queries:
    """One question about the kernel, one about each of the most severe findings."""
    task = brief.task
    text = f"{task.name} {task.reference} {task.baseline or ''}".lower()
    words = [w for w in OPERATORS if re.search(rf"(?<![a-z0-9]){w.replace('_', '_?')}f?(?![a-z0-9])", text)][:4]
    dtypes = sorted({a.dtype for a in task.arguments if a.role != "scalar"})
    kernel = " ".join(
        dict.fromkeys([*task.name.replace("-", "_").split("_"), *words, task.language, *dtypes, "kernel"])
    )
    ranked = sorted(brief.findings, key=lambda f: SEVERITY_ORDER[f.severity], reverse=True)
    queries = [KnowledgeQuery(text=kernel, purpose="kernel")]
    queries += [
        KnowledgeQuery(text=f"{f.rule.replace('_', ' ')} {f.axis} {task.language}", purpose="bottleneck")
        for f in ranked[:3]
    ]
    if not ranked:
        queries.append(
            KnowledgeQuery(
                text=f"{brief.bottleneck.replace('_', ' ')} bottleneck {task.language}", purpose="bottleneck"
            )
        )
    return Queries(queries=tuple(dict.fromkeys(queries)))


def rank_findings(brief: AnalystBrief) -> Analysis:
    """Findings by severity; among equals those on the axis with the greatest headroom first."""
    ranked = sorted(
        brief.findings,
        key=lambda f: (SEVERITY_ORDER[f.severity], axis_headroom(brief.headroom, f.axis), f.rule),
        reverse=True,
    )
    ranking = tuple(dict.fromkeys(f.rule for f in ranked))
    records = ", ".join(f"[record:{record}]" for record in brief.records) or "no record"
    if not ranked:
        return Analysis(ranking=(), text=f"No rule fired on the evidence of {records}.")
    bound = brief.headroom.bound
    limit = describe_bottleneck(bound) if bound == "unknown" else f"the kernel is {describe_bottleneck(bound)}"
    sentences = [f"By the evidence of {records}, {limit}."]
    for finding in ranked:
        where = f" at line {finding.line}" if finding.line else ""
        sentences.append(f"[rule:{finding.rule}] is of {finding.severity} severity on the {finding.axis} axis{where}.")
    return Analysis(ranking=ranking, text=" ".join(sentences))


def axis_headroom(headroom: Headroom, axis: Axis) -> float:
    """Distance from the roof on an axis; an axis that was not measured counts as the whole."""
    by_axis = {
        "compute": headroom.compute,
        "memory": headroom.memory,
        "latency": headroom.latency,
        "occupancy": headroom.latency,
    }
    found = by_axis[axis] if by_axis[axis] is not None else headroom.total
    return found if found is not None else 0.0
