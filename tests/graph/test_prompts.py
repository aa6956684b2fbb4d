"""What the nodes brief their agents with, as prompts: those of a whole run."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from agents.artifacts import CoderBrief, Dossier, PlannerBrief
from agents.models.base import Request
from agents.prompting.render import render_blocks
from knowledge_base.pages.wiki import Wiki
from tests.graph.conftest import QUICK, FinishedRun
from tools.contracts.checked_cases import draw_hidden_workloads
from tools.store.records import Records
from tools.tasks.loader import read_frozen_task


@pytest.fixture(scope="module")
def asked(finished: FinishedRun) -> list[Request]:
    """Every exchange of the run, in no particular order; a playbook reads briefs, so that the prompts are rendered
    here."""
    records = Records(finished.root)
    found = [
        Request.model_validate_json(records.blobs.get(r.blobs["request"])) for r in records if r.kind == "exchange"
    ]
    assert {one.role for one in found} >= {"planner", "coder", "profiler_analyst", "knowledge_retriever", "gatekeeper"}
    return found


def prompt(request: Request) -> str:
    return "\n".join(block.text for block in render_blocks(request.role, request.brief, request.answer))


def test_hidden_sizes_and_the_secret_stand_in_no_prompt_and_no_commit_of_a_run(
    finished: FinishedRun, asked: list[Request]
) -> None:
    secret = (Path(finished.root) / ".kernelwright" / "secret").read_text()
    hidden = draw_hidden_workloads(
        read_frozen_task(finished.root / "task"), bytes.fromhex(secret), QUICK["judge"]["hidden_workloads"]
    )
    (visible, *_) = read_frozen_task(finished.root / "task").workloads
    log = ["git", "log", "--all", "-p", "--text", "--format=%B"]
    committed = subprocess.run(log, cwd=finished.root, capture_output=True, check=True).stdout.decode(errors="replace")
    for everything in ("\n".join(map(prompt, asked)), committed):
        assert hidden and re.search(written(visible.dims), everything), "the pattern below would find nothing"
        assert secret not in everything and not [
            one for one in hidden if re.search(written(one.choices[0]), everything)
        ]


def test_no_prompt_names_the_machine_or_its_user(finished: FinishedRun, asked: list[Request]) -> None:
    everything = "\n".join(map(prompt, asked))
    places = {
        str(finished.root),
        str(finished.root.parent),
        tempfile.gettempdir(),
        str(Path.home()),
        sys.prefix,
        socket.gethostname(),
    }
    assert not [
        place for place in places if len(place) > 1 and re.search(rf"(?<![\w.]){re.escape(place)}(?![\w.])", everything)
    ]
    assert not re.search(r"(?<![\w./<>])/(?:home|Users|root|tmp)/", everything)


def written(dims: Mapping[str, float]) -> str:
    """A pattern for these sizes, one after the other, in any of the ways in which we write them."""
    return r"[\s,+]+".join(rf'"?{name}"?\s*[=:]\s*{value}\b' for name, value in dims.items())


def test_planner_and_coder_are_told_what_they_need(asked: list[Request]) -> None:
    plans = [one for one in asked if isinstance(one.brief, PlannerBrief)]
    for one in plans:
        assert isinstance(one.brief, PlannerBrief)
        assert one.brief.architecture and one.brief.architecture in prompt(one)
        fired = {finding.rule for finding in one.brief.findings}
        assert all(fired & set(page.head.rules) for page in one.brief.skills) and len(one.brief.skills) <= 5
    later = max(plans, key=lambda one: len(one.brief.tried) if isinstance(one.brief, PlannerBrief) else 0)
    assert re.search(r"^(resolved|pending|avoid): ", prompt(later), re.MULTILINE)
    for one in asked:
        if isinstance(one.brief, PlannerBrief | CoderBrief):
            assert re.search(r": incumbent [\d.]+ us; measured roof [\d.]+ us", prompt(one)), "times and roof"
            assert "objdump." in prompt(one) and "machine code of the hot loops" in prompt(one)
        if isinstance(one.brief, CoderBrief):
            assert one.brief.architecture and all(page.head.id in prompt(one) for page in one.brief.pages)


def test_what_is_retrieved_is_of_the_task_s_language_and_evidence_shows_each_place(finished: FinishedRun) -> None:
    languages = {page.path: page.head.languages for page in Wiki.open().pages}
    dossiers = {
        record.id: Dossier.model_validate(record.payload)
        for record in Records(finished.root)
        if record.kind == "dossier"
    }
    found = [passage for dossier in dossiers.values() for passage in dossier.passages]
    assert found and all("cpp" in languages[passage.path] or not languages[passage.path] for passage in found)
    told = (finished.root / "versions" / "v1" / "evidence.md").read_text()
    (first,) = (dossier for identity, dossier in dossiers.items() if identity in told)
    assert first.shortfall == "" and first.passages
    assert all(f"- {passage.citation}-{passage.last_line} " in told for passage in first.passages)
