"""The real judge on a small C++ softmax, and the brief of a plan for it."""

from __future__ import annotations

from pathlib import Path

from agents.artifacts import CoderBrief, Hypothesis, Plan, PlannedMethod, Prediction
from agents.tool_use.workbench import Workbench
from knowledge_base.pages.wiki import Wiki
from knowledge_base.search.index import Index
from tests.tools.builders import open_judge
from tests.tools.judge.test_judge import NAIVE, POLICY, Counting, kernel, softmax
from tools.judge.judge import Judge
from tools.languages.cpp import Cpp
from tools.store.records import Records

METHOD = "vector-exp"
WIKI = Wiki.open()


def plan(candidates: int = 2) -> Plan:
    hypothesis = Hypothesis(
        change="One exponential each.",
        rationale="The sum is formed too often.",
        citations=("<gpu-wiki>/methods/vector-exp.md:20",),
        expected=(Prediction(metric="time", direction="down", factor=0.1, confidence=0.9),),
    )
    return Plan(methods=(PlannedMethod(method=METHOD, axis="compute", hypothesis=hypothesis),), candidates=candidates)


def brief(candidates: int = 2) -> CoderBrief:
    return CoderBrief(task=softmax(), source=NAIVE, plan=plan(candidates), pages=(), tried=())


def judge(root: Path, executor: Counting) -> Judge:
    return open_judge(softmax(), Cpp(), executor, Records(root), POLICY.model_copy(update={"pairs": 8, "batches": 1}))


def bench(judge: Judge, **changes: object) -> Workbench:
    naive = kernel(NAIVE)
    given = {
        "product": "H200",
        "variant": "SXM5",
        "incumbent": naive,
        "baseline": naive,
        "index": Index(WIKI),
        **changes,
    }
    return Workbench(judge=judge.rehearsal_judge(), wiki=WIKI, **given)  # type: ignore[arg-type]
