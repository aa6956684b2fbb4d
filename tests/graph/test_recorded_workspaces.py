"""What must not change: two workspaces made at commit f92a695 are shown, reported and judged as they were then.

Who breaks a test here changes what readers of old workspaces see: a figure, a word or a verdict. Each workspace is a
git repository with its checkpoint, packed as tests/fixtures/workspaces/*.tar.xz: one run on a C++ softmax, one on
PyTorch logic alone. tests/fixtures/verdicts.jsonl.xz holds what the gate was asked and what it answered.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.artifacts import Dossier
from graph.lifecycle import run as runs
from graph.lifecycle.explain import around
from graph.lifecycle.verify import accepted, read, verify
from graph.nodes import gate as gate_node
from graph.report.content.summary import versions
from graph.report.content.version_files import render_baseline
from graph.services import open_agents
from graph.state import State
from graph.workspace.folder import peek
from tests.graph.conftest import RECORDED, git, graph, on_its_machine, unpacked
from tools.artifacts import Verdict
from tools.gate import gate
from tools.gate.policy import Policy
from tools.store.records import record_key
from tools.store.repository import Repository

FIXTURES = Path(__file__).parents[1] / "fixtures"
PACKED = sorted(RECORDED.glob("*.tar.xz"))


@pytest.fixture(params=PACKED, ids=lambda path: path.name.split("-2026")[0])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of the recorded workspaces, unpacked and checked out."""
    return on_its_machine(unpacked(request.param, tmp_path), monkeypatch)


def shown(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    from graph.__main__ import main

    assert main(["show", str(root)]) == 0
    plain = capsys.readouterr().out
    assert main(["show", "--json", str(root)]) == 0
    return (plain + capsys.readouterr().out).replace(str(root), "WORKSPACE")


def test_show_says_the_same_of_a_finished_run(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(workspace, capsys) == (FIXTURES / "workspaces" / f"{workspace.name}.show.txt").read_text()


def test_a_report_made_again_has_the_same_words_and_figures(workspace: Path) -> None:
    runs.write_report(workspace)
    changed = [
        line for line in git(workspace, "diff", "-U0", "report.md").splitlines()[4:] if not line.startswith("@@")
    ]
    # Why a run ended was said by its key, and what noise leaves open of a prediction as what nobody measured.
    told = [line for line in changed if "observed factor is" not in line]
    then, now = (
        [line[1:].replace("| N/A |", "| unknown |") for line in told if line.startswith(sign)] for sign in ("-|", "+|")
    )
    assert then == now
    assert [line.split(" ", 1)[0] for line in told if line[1] != "|"] == [
        "-Stopped:",
        "+It",
    ] and "It stopped because" in told[1]


def gates(root: Path) -> Iterator[State]:
    """The state before each call of the gate, from the checkpoints."""
    for iteration in range(1, len(versions(root))):
        yield from (before for before, _ in around(peek(root), iteration, "gate"))


def test_the_gate_asked_again_gives_the_same_verdicts_and_files(workspace: Path) -> None:
    """From the records alone: verdict, versions/vN and, but for the version of its schema, memory/vN.json come out
    byte by byte."""
    judged = 0
    with runs.opened(workspace, reading=True) as services:
        services.agents.update(
            open_agents(services.settings, services.records, services.emit, services.ledger, workspace)
        )
        for state in gates(workspace):
            evidence = gate_node._gather(state, services)
            record = services.records.get(commit_of(workspace, state["iteration"]).trailers["Evidence"])
            verdict = gate.decide(evidence, services.settings.judge)
            # The claim is a field that protocol 2 had not.
            assert verdict.model_dump(mode="json", exclude={"claim"}) == record.payload
            old = Verdict.model_validate(record.payload)
            own = (
                services.records.find(record_key("inspection", candidate=old.candidate))
                if old.outcome == "accept"
                else None
            )
            gate_node._write(state, services, evidence.trial, old, record, own)
            judged += 1
    assert judged >= 2
    # A version's folder holds its own profile since, and its parent's then.
    own = r"versions/v\d+/(roofline.json|analysis.md|profile_summary.md|profile_details.md|hypothesis.md)"
    changed = [
        line[3:] for line in git(workspace, "status", "--porcelain", "versions", "memory", "records").splitlines()
    ]
    for name in changed:
        assert re.fullmatch(own, name) or without_news((workspace / name).read_text()) == without_news(
            git(workspace, "show", f"HEAD:{name}")
        )


def test_the_readme_names_instructions_of_methods_that_the_kernel_asks_for(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with runs.opened(workspace, reading=True) as services:
        # Another compiler may be here.
        built = next(record for record in services.records if record.kind == "build")
        monkeypatch.setattr(services.judge.builder, "build", lambda candidate: built)
        state = next(gates(workspace))
        baseline, inspection = services.candidate(state["baseline"]), services.records.get(state["profile"])
        checked, calibration = (
            services.judge.read_or_check_correctness(baseline, None, "baseline"),
            services.judge.read_or_measure_calibration(baseline),
        )
        readme = render_baseline(services, state, baseline, checked, calibration, inspection)["README.md"]  # type: ignore[arg-type]
        offered = Dossier.model_validate(services.records.get(state["dossier"]).payload).methods
        signed = [
            page.head.id
            for page in services.guide.about("method", "cpp")
            if services.architecture in page.head.signature
        ]
    told = re.findall(r"^- ([\w-]+): `.*` \(front matter", readme, re.MULTILINE)
    assert told == [page.head.id for page in offered if page.head.id in signed] and len(told) < len(signed)


def without_news(text: str) -> object:
    """What protocol 2 had not: a claim, how noisy the machine was, the version of memory's schema, methods that
    plans name themselves, predictions with their confidence, which of them noise hides (those it called missed),
    what nothing confirmed as a note, and the word for outcomes that say nothing."""
    news = {"claim", "noise_floor", "schema_version", "hit", "free", "forecasts"}

    def clean(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        sibling = ("verdict", "inconclusive") in pairs and "effect" in dict(pairs)
        skipped = news | ({"effect", "note"} if sibling else set())
        return {name: value for name, value in pairs if name not in skipped}

    text = re.sub('(": "|: )neutral(",|,)', r"\1unknown\2", text)
    return json.loads(text, object_pairs_hook=clean) if text.startswith(("{", "[")) else text


def commit_of(root: Path, iteration: int) -> Any:
    commit = Repository(root).find_commit("Version", f"v{iteration}")
    return next(c for c in Repository(root).log() if c.id == commit)


def test_every_claim_still_follows_from_its_records(workspace: Path, tmp_path: Path) -> None:
    repository = Repository(workspace)
    claims = accepted(repository)
    assert claims
    for number, commit in enumerate(claims):
        copy = repository.clone_to(tmp_path / f"copy{number}", commit.id)
        assert read(copy, commit).candidate.id == commit.trailers["Candidate"]


@pytest.mark.slow
def test_no_claim_is_refuted_when_it_is_measured_again(workspace: Path) -> None:
    """On a quiet machine all agree; noise may leave one inconclusive, and nothing may refute an honest commit."""
    assert {result.outcome for result in verify(workspace)} <= {"agree", "inconclusive"}


@pytest.mark.slow
def test_an_old_version_can_be_the_start_of_a_new_run(recorded: Path) -> None:
    sizes = {"M": 700, "N": 520}
    done = graph(
        "restart",
        str(recorded),
        "v1",
        "--json",
        "--budget",
        "wall_s=40",
        "--set",
        "dims=M=700 N=520",
        "judge.min_effect=0.03",
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode in {0, 3}, found["status"]) == (True, "finished"), done.stderr
    root = Path(found["workspace"])
    try:
        old = Repository(recorded).find_commit("Version", "v1")
        assert git(root, "show", f"{found['commits'][0]}:kernel.cpp") == git(recorded, "show", f"{old}:kernel.cpp")
        assert f"{recorded.name} v1" in (root / "README.md").read_text()
        settings = (root / "settings.yaml").read_text()
        assert (
            f"linked_to: {recorded.name} v1\n" in settings
            and "min_effect: 0.03\n" in settings
            and "dims: M=700 N=520\n" in settings
        )
        task, before = (json.loads((place / "task" / "task.json").read_text())["task"] for place in (root, recorded))
        assert [w["dims"] for w in task["workloads"]] == [sizes] and task["baseline"] != before["baseline"]
        same = ("name", "language", "reference", "numeric", "build_flags", "arguments")
        assert {key: task[key] for key in same} == {key: before[key] for key in same}
        # Where the work began is not forgotten, though nothing may have been gained in this run.
        assert (
            found["against"]["original"][0] > 1.5
            and "against the kernel that the linked runs began with: " in (root / "report.md").read_text()
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)


CASES = [json.loads(line) for line in lzma.decompress((FIXTURES / "verdicts.jsonl.xz").read_bytes()).splitlines()]


def test_the_gate_answers_recorded_evidence_as_before() -> None:
    assert len(CASES) > 70
    for case in CASES:
        answer = gate.decide(gate.GateEvidence.model_validate(case["evidence"]), Policy.model_validate(case["policy"]))
        then = case["verdict"]
        if answer.outcome == "inconclusive" and then["outcome"] == "reject_perf":
            # What a noise floor hides was called a failure.
            assert "Not faster by enough" in then["reasons"][0] and "noise floor is too high" in answer.reasons[0]
            assert (
                answer.speedup is not None
                and answer.speedup.high > 1 + Policy.model_validate(case["policy"]).min_effect
            )
            continue
        assert answer.model_dump(mode="json", exclude={"claim"}) == then
