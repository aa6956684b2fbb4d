"""What every model provider promises (`agents.models.base`): each Brief has the answer type that is owed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from agents.artifacts import (
    Analysis,
    AnalystBrief,
    Brief,
    CoderBrief,
    Dossier,
    Drafts,
    GatekeeperBrief,
    Hypothesis,
    Plan,
    PlannedMethod,
    PlannerBrief,
    Prediction,
    Queries,
    RetrieverBrief,
    Review,
    RoleName,
)
from agents.models.base import PROVIDERS, AnswerReply, Model, Reply, Request
from agents.models.playbook.model import answer_brief
from agents.prompting.render import render_blocks
from agents.roles.agent import open_model
from knowledge_base.pages.wiki import Wiki
from tests.agents.models import anthropic_server, openai_server, scripted
from tests.agents.models.scripted_server import Step
from tests.contracts.conftest import task
from tools.artifacts import Finding
from tools.errors import PendingError, SettingsError
from tools.languages.cpp import Cpp
from tools.roofline.hardware import Headroom

TASK = task(Cpp())
PAGES = tuple(page for page in Wiki.open().pages if page.head.type == "method" and "cpp" in page.head.languages)
FINDINGS = (
    Finding(rule="single_threaded", severity="high", axis="occupancy", text="One thread.", evidence=("record1",)),
    Finding(
        rule="scalar_math_call", severity="high", axis="compute", text="Calls expf.", line=4, evidence=("record1",)
    ),
)
HEADROOM = Headroom(total=0.9, compute=0.9, memory=0.8, latency=0.1, bound="compute")
PLAN = Plan(
    methods=(
        PlannedMethod(
            method="openmp-parallel-outer",
            axis="occupancy",
            hypothesis=Hypothesis(
                change="Threads over i.",
                rationale="Iterations are independent.",
                citations=("<gpu-wiki>/methods/openmp-parallel-outer.md:1",),
                expected=(Prediction(metric="time", direction="down", factor=0.6, confidence=0.7),),
            ),
        ),
    ),
    candidates=2,
)
DIFF = "--- a/kernel.cpp\n+++ b/kernel.cpp\n@@ -4 +4 @@\n-  old;\n+  new_one;\n"
ASKED: dict[RoleName, tuple[Brief, type]] = {
    "knowledge_retriever": (RetrieverBrief(task=TASK, findings=FINDINGS, bottleneck="compute"), Queries),
    "profiler_analyst": (
        AnalystBrief(
            source=TASK.baseline or "", findings=FINDINGS, remarks=(), headroom=HEADROOM, records=("record1",)
        ),
        Analysis,
    ),
    "planner": (
        PlannerBrief(
            task=TASK,
            source=TASK.baseline or "",
            findings=FINDINGS,
            headroom=HEADROOM,
            dossier=Dossier(queries=(), passages=(), methods=PAGES, attempts=()),
            tried=(),
            budget={"compute": 2, "memory": 2, "latency": 1, "occupancy": 1},
            methods_per_iteration=3,
            candidates=2,
            records=("record1",),
        ),
        Plan,
    ),
    "coder": (CoderBrief(task=TASK, source=TASK.baseline or "", plan=PLAN, pages=PAGES, tried=()), Drafts),
    "gatekeeper": (GatekeeperBrief(task=TASK, diff=DIFF), Review),
}


def canned(properties: Collection[str]) -> str:
    """The playbook's answer of the type that has these `properties`, for a server that has only seen the prompt."""
    answers = [answer_brief(brief) for brief, _ in ASKED.values()]
    return next(each for each in answers if type(each).model_fields.keys() == set(properties)).model_dump_json()


@contextmanager
def anthropic_served() -> Iterator[dict[str, object]]:
    def answered(body: dict[str, Any]) -> Step:
        owed = body["messages"][0]["content"][-1]["text"].rpartition("## Your task now")[2]
        return Step(canned(next(kind for _, kind in ASKED.values() if kind.__name__ in owed).model_fields))

    with anthropic_server.Server(answer=answered) as server:
        yield {"model": "claude-opus-5-5", "base_url": server.url}


@contextmanager
def anthropic_constrained() -> Iterator[dict[str, object]]:
    """The server holds each answer but drafts to its schema."""

    def answered(body: dict[str, Any]) -> Step:
        form = body.get("output_config", {}).get("format")
        return Step(canned(form["schema"]["properties"] if form else Drafts.model_fields))

    with anthropic_server.Server(answer=answered) as server:
        yield {"model": "claude-opus-5-5", "base_url": server.url, "structured": "json_schema"}


@contextmanager
def openai_served() -> Iterator[dict[str, object]]:
    """Drafts are asked for as fenced code, everything else by its schema."""

    def answered(body: dict[str, Any]) -> Step:
        form = body.get("response_format")
        properties = form["json_schema"]["schema"]["properties"] if form else Drafts.model_fields
        return Step(canned(properties))

    with openai_server.Server(answer=answered) as server:
        yield {"model": "m", "base_url": server.url}


SERVED: dict[str, Callable[[], AbstractContextManager[dict[str, object]]]] = {
    "anthropic": anthropic_served,
    "anthropic, constrained": anthropic_constrained,
    "openai_compatible": openai_served,
}
"""Provider -> a server on this machine that answers it, as the options that lead there."""


@pytest.fixture(params=[*sorted(PROVIDERS), "anthropic, constrained"])
def provider(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Each registered provider that works without a key or a network, with the options, or the server here, that it
    cannot do without."""
    script = tmp_path / "script.jsonl"
    needed: dict[str, dict[str, Any]] = {
        "command": {"argv": [sys.executable, scripted.__file__]},
        "manual": {"folder": str(tmp_path / "desk")},
        "recorded": {"path": str(script)},
    }
    if request.param == "recorded":
        for role in ASKED:
            replied(role, {"provider": "playbook", "record": str(script)})
    with SERVED.get(request.param, nullcontext)() as options:
        choice = {"provider": request.param.partition(",")[0], **needed.get(request.param, {}), **(options or {})}
        try:
            open_model("planner", choice)
        except SettingsError as error:
            assert "\n" not in str(error)
            pytest.skip(str(error))
        yield choice


def asked(role: RoleName, model: Model) -> Request:
    brief, owed = ASKED[role]
    prompt = render_blocks(role, brief, owed.__name__) if model.reads == "prompt" else ()
    return Request(role=role, brief=brief, answer=owed.__name__, prompt=prompt)


def replied(role: RoleName, choice: dict[str, Any]) -> Reply:
    """The reply to the role's brief; where it comes by a file, somebody writes that file."""
    model = open_model(role, choice)
    assert isinstance(model, Model)
    request = asked(role, model)
    try:
        return model.ask(request)
    except PendingError as pending:
        assert not pending.file.exists() and str(pending.file) in str(pending)
        pending.file.write_text(
            scripted.answer(pending.file.with_name(pending.file.name.replace("answer", "prompt")).read_text())
        )
        return model.ask(request)


@pytest.mark.parametrize("role", sorted(ASKED))
def test_each_brief_has_the_answer_that_is_owed_within_its_bound(provider: dict[str, Any], role: RoleName) -> None:
    model = open_model(role, provider)
    bound, answered = model.usage_bound(asked(role, model)), replied(role, provider)
    assert isinstance(answered, AnswerReply) and isinstance(answered.answer, ASKED[role][1])
    assert AnswerReply.model_validate_json(answered.model_dump_json()) == answered, (
        "a kept reply must read back as it was"
    )
    used = answered.usage
    read = [usage.input + usage.cache_read + usage.cache_write + usage.cache_write_1h for usage in (used, bound)]
    assert (
        used.model == bound.model and 0 <= read[0] <= read[1] and 0 <= used.output <= bound.output and used.seconds >= 0
    )


@pytest.mark.parametrize("role", sorted(ASKED))
@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_an_unknown_option_is_refused_by_name(name: str, role: RoleName) -> None:
    with pytest.raises(SettingsError, match="no_such_option"):
        open_model(role, {"provider": name, "no_such_option": 1})


def test_what_the_answers_are_worth(provider: dict[str, Any]) -> None:
    """The substance that later nodes rely on, whoever answers."""
    replies = {role: replied(role, provider) for role in ASKED}
    answers = {role: reply.answer for role, reply in replies.items() if isinstance(reply, AnswerReply)}
    queries, analysis, plan, drafts, review = (
        answers[role] for role in ("knowledge_retriever", "profiler_analyst", "planner", "coder", "gatekeeper")
    )
    assert isinstance(queries, Queries) and {query.purpose for query in queries.queries} == {"kernel", "bottleneck"}
    assert isinstance(analysis, Analysis) and set(analysis.ranking) <= {finding.rule for finding in FINDINGS}
    assert isinstance(plan, Plan) and {method.method for method in plan.methods} <= {page.head.id for page in PAGES}
    assert all(method.hypothesis.citations and method.hypothesis.expected for method in plan.methods)
    assert isinstance(drafts, Drafts) and drafts.drafts
    assert all("solve" in draft.source and draft.source != TASK.baseline for draft in drafts.drafts)
    assert all(set(draft.methods) <= {method.method for method in PLAN.methods} for draft in drafts.drafts)
    assert isinstance(review, Review) and (not review.veto or review.quote in DIFF)
