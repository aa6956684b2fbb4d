"""`verify` believes git and its own measurement, and nothing else: it agrees with the honest commit and with no
doctored one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graph.__main__ import _report_verification, main
from graph.lifecycle.rendering import replay
from graph.lifecycle.verify import (
    MAX_LOOKS,
    MAX_OTHER_CPU_SHARE,
    Look,
    RecordedClaim,
    Verification,
    accepted_commits,
    compare_claim,
    compare_speedups,
    measure_claim,
    read_claim,
    unexpected_changes,
    verify,
    verify_commit,
)
from tests.graph.conftest import ROOT, TASK, TRIES, FinishedRun, gain_of, printed_json
from tests.support import Capsys, run_captured
from tools.artifacts import Candidate, Failed, Interval, Outcome, Passed, Record, Unmeasured, Verdict
from tools.executors.choice import ExecutorChoice
from tools.store.records import Records, record_key
from tools.store.repository import Commit, Repository
from tools.tasks.loader import read_frozen_task, write_frozen_task

Message = Callable[[str, Path], str]
KERNEL = (TASK / "kernel.cpp").read_text()
SLOW = KERNEL.replace("#include <cmath>", "#include <cmath>\n// The same once more.")
WRONG = KERNEL.replace("/ total;", "/ (total * 1.001f);")


def git(root: Path, *arguments: str, stdin: str | None = None) -> str:
    named = ["-c", "user.name=Mallory", "-c", "user.email=mallory@example.invalid"]
    return run_captured(["git", *named, *arguments], cwd=root, input=stdin, check=True).stdout


def on_top(root: Path, doctor: Callable[[Path], object], message: Message = lambda text, _: text) -> None:
    """Amend the last accepted commit of a copy: everything that was committed after it is gone, and `doctor` may
    change what it holds."""
    last = accepted_commits(Repository(root))[-1]
    git(root, "checkout", "-q", "-f", last.id)
    doctor(root)
    git(root, "add", "--all", ".")
    git(root, "commit", "-q", "--amend", "--file=-", stdin=message(git(root, "log", "-1", "--format=%B"), root))


def nothing(root: Path) -> None:
    """Leave the content of the commit as it is."""


def edited(name: str, old: str, new: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text((root / name).read_text().replace(old, new, 1))


def verdict_file(root: Path) -> Path:
    return root / "records" / f"{accepted_commits(Repository(root))[-1].trailers['Evidence']}.json"


def altered_verdict(root: Path) -> None:
    path = verdict_file(root)
    record = json.loads(path.read_text())
    record["payload"]["speedup"] |= {"estimate": 99.5, "low": 90.1, "high": 120.2}
    path.write_text(json.dumps(record, indent=1))


def other_task(root: Path) -> None:
    """Frozen again in good order, so that only the commit's own word tells."""
    task = read_frozen_task(root / "task")
    write_frozen_task(task.model_copy(update={"reference": task.reference + "\n# easier\n"}), root / "task")


def says(trailer: str, value: str = "") -> Message:
    """The trailer with another value, or without any."""
    return lambda text, _: re.sub(
        rf"^{trailer}: .*\n", f"{trailer}: {value}\n" if value else "", text, flags=re.MULTILINE
    )


def other_evidence(text: str, root: Path) -> str:
    return says("Evidence", next(record.id for record in Records(root) if record.kind == "environment"))(text, root)


def forged(
    root: Path,
    change: Callable[[Record], dict[str, Any] | None],
    candidate: str = "",
    source: str = "",
    confidence: float | None = None,
) -> None:
    """The last accepted commit of a copy with other payloads in what its verdict cites, and all of it in order,
    message too."""
    last = accepted_commits(Repository(root))[-1]
    records = Records(root)
    before = Verdict.model_validate(records.get(last.trailers["Evidence"]).payload)
    cited = []
    for record in map(records.get, before.records):
        payload = change(record)
        made = payload and records.add(
            record.model_copy(update={"key": record_key("forged", of=record.id), "payload": payload})
        )
        cited.append((made or record).id)
    verdict = before.model_copy(update={"candidate": candidate or before.candidate, "records": tuple(cited)})
    if confidence is not None and verdict.speedup is not None:
        speedup = verdict.speedup.model_copy(update={"confidence": confidence})
        verdict = verdict.model_copy(update={"speedup": speedup})
    old = records.get(last.trailers["Evidence"])
    evidence = old.model_copy(update={"payload": verdict.model_dump(mode="json")})

    def doctor(root: Path) -> None:
        (root / "records" / f"{old.id}.json").unlink()
        (root / "records" / f"{evidence.id}.json").write_text(evidence.model_dump_json(indent=1) + "\n")
        if source:
            (root / "kernel.cpp").write_text(source)

    def message(text: str, root: Path) -> str:
        return says("Evidence", evidence.id)(says("Candidate", verdict.candidate or "")(text, root), root)

    on_top(root, doctor, message)


def claimed(root: Path, source: str) -> None:
    """The last accepted commit of a copy with `source` in it: only measuring tells."""
    candidate = Candidate(language="cpp", files={"kernel.cpp": source}).id

    def change(record: Record) -> dict[str, Any] | None:
        if record.kind == "confirmation":
            return {**record.payload, "candidates": {**record.payload["candidates"], "candidate": candidate}}
        return {**record.payload, "candidate": candidate} if record.kind in ("build", "correctness", "timing") else None

    forged(root, change, candidate, source)


@pytest.fixture
def measured(finished: FinishedRun, tmp_path: Path) -> Path:
    """A copy of a run whose kernel is soon measured again."""
    return Path(shutil.copytree(finished.root, tmp_path / finished.root.name, symlinks=True))


@pytest.mark.slow
def test_verify_agrees_with_an_accepted_version(finished: FinishedRun, capsys: Capsys) -> None:
    def look(*options: str) -> tuple[int, Verification]:
        code = main(["verify", str(finished.root), "--json", *options])
        (found,) = (Verification.model_validate(one) for one in printed_json(capsys)["versions"])
        assert found.outcome != "disagree", found.reason
        return code, found

    commits = accepted_commits(Repository(finished.root))
    assert look()[1].commit == commits[-1].id, "without an id the last accepted version is meant"
    # A neighbour's load can never make an honest claim wrong, but it may hide a gain for a while, and a small one for
    # as long as it lasts.
    most = max(commits, key=gain_of)
    for _ in range(TRIES):
        code, found = look(most.id)
        if code == 0:
            break
    assert (found.outcome, found.commit, found.candidate) == ("agree", most.id, most.trailers["Candidate"]), (
        found.sentence()
    )
    assert found.claimed is not None and found.measured is not None and found.measured.low > 1.05
    assert found.measured != found.claimed, "it measured nothing of its own"
    assert Repository(finished.root).drift() == ()


def children(process: int) -> list[str]:
    """Command lines of what a process has started."""
    found = []
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [Path(f"/proc/{child}/cmdline").read_text() for child in listed.read_text().split()]
    return found


@pytest.mark.slow
def test_ctrl_c_while_it_measures_leads_back_to_it_and_not_to_resume(finished: FinishedRun) -> None:
    command = [sys.executable, "-m", "graph", "verify", str(finished.root), "--json"]
    asked = subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # It measures from the moment on in which it starts processes of its own.
    while asked.poll() is None and not any("launcher" in command for command in children(asked.pid)):
        time.sleep(0.05)
    os.kill(asked.pid, signal.SIGINT)
    said, errors = asked.communicate(timeout=60)
    assert asked.returncode == 130, errors
    assert errors == "interrupted; nothing was changed; run the command again\n"
    assert json.loads(said)["status"] == "interrupted" and not Repository(finished.root).drift()


@pytest.mark.parametrize(
    ("doctor", "message", "told"),
    [
        (edited("kernel.cpp", "\n", "\n// mine\n"), None, "kernel.cpp differs from what the records say"),
        (lambda root: (root / "kernel.cpp").unlink(), None, "kernel.cpp is missing"),
        (nothing, says("Speedup", "99.5 [90.1, 120.2]"), "block of trailers differs"),
        (nothing, says("Speedup"), "block of trailers differs"),
        (altered_verdict, None, "does not match its id"),
        (lambda root: verdict_file(root).unlink(), None, "closes no iteration of the records"),
        (nothing, says("Evidence"), "closes no iteration of the records"),
        (nothing, other_evidence, "closes no iteration of the records"),
        (edited("task/reference.py", "\n", "\n# easier\n"), None, "which only the first commit writes"),
        (other_task, None, "which only the first commit writes"),
        (edited("settings.yaml", "min_effect: 0.02", "min_effect: 0.0"), None, "which only the first commit writes"),
        (nothing, says("Task"), "block of trailers differs"),
        (nothing, says("Candidate"), "closes no iteration of the records"),
        (nothing, says("Protocol", "0.9"), "block of trailers differs"),
    ],
)
def test_verify_disagrees_with_a_doctored_commit(
    copied: Path, doctor: Callable[[Path], object], message: Message | None, told: str
) -> None:
    on_top(copied, doctor, message or (lambda text, _: text))
    (found,) = unexpected_changes(Repository(copied), replay(Repository(copied)))
    assert told in found.reason and _report_verification((found,), as_json=False) == 1


def test_verify_does_not_judge_another_protocol(copied: Path, capsys: Capsys) -> None:
    git(copied, "filter-branch", "-f", "--msg-filter", "sed 's/^Protocol: .*/Protocol: 0.9/'", "HEAD")
    assert main(["verify", str(copied)]) == 5
    said = capsys.readouterr().out
    assert said.count(": inconclusive: made under protocol 0.9") == 2 and "disagree" not in said


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ("other kernels", "of other kernels"),
        ("nothing", "does not show the gain"),
        ("rounds", "the speed-up does not follow from the records"),
        ("verdict", "the confidence of its interval is below what the settings demand"),
    ],
)
def test_a_verdict_must_follow_from_records_of_its_own_kernels_at_the_confidence_of_the_settings(
    copied: Path, changes: str, told: str
) -> None:
    def change(record: Record) -> dict[str, Any] | None:
        if record.kind != "confirmation" or changes == "verdict":
            return None
        if changes == "other kernels":
            return {**record.payload, "candidates": {"incumbent": "x", "candidate": "y"}}
        result = record.payload["result"]
        if changes == "rounds":
            faster = [
                {**w, "rounds": [{**one, "candidate": one["candidate"] / 1.6} for one in w["rounds"]]}
                for w in result["workloads"]
            ]
            return {**record.payload, "result": {**result, "workloads": faster}}
        same = [{**w, "rounds": [dict.fromkeys(one, 1.0) for one in w["rounds"]]} for w in result["workloads"]]
        return {**record.payload, "result": {**result, "workloads": same}}

    forged(copied, change, confidence=0.5 if changes == "verdict" else None)
    found = verify_commit(Repository(copied), accepted_commits(Repository(copied))[-1])
    assert found.outcome == "disagree" and told in found.reason


@pytest.mark.slow
def test_a_clone_is_enough_and_the_folder_is_not_believed(measured: Path, tmp_path: Path) -> None:
    altered_verdict(measured)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(measured), str(clone))
    (found,) = verify(clone, "v1")
    assert found.outcome != "disagree" and found.measured is not None, found.reason


@pytest.mark.slow
def test_a_clone_does_not_choose_what_runs_here(copied: Path, tmp_path: Path) -> None:
    payload, ran = tmp_path / "payload.sh", tmp_path / "ran"
    payload.write_text(f'#!/bin/sh\ntouch {ran}\nexec {sys.executable} "$@"\n')
    payload.chmod(0o755)
    commit = accepted_commits(Repository(copied))[-1]
    git(copied, "checkout", "-q", "-f", commit.id)
    claim = read_claim(Repository(copied), commit)
    chosen = claim.settings.model_copy(
        update={"executor": ExecutorChoice.model_validate({"kind": "local", "python": str(payload)}), "gpu": 77}
    )
    assert measure_claim(replace(claim, settings=chosen), tmp_path / "scratch") and not ran.exists()


def test_a_measurement_that_cannot_wait_is_not_put_into_bundles(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verify", str(copied), "--executor", "bundle"]) == 2
    assert "cannot wait for bundles" in capsys.readouterr().err and not (tmp_path / "bundles").exists()


@pytest.mark.slow
@pytest.mark.parametrize("trailers", ["", "\n\nVersion: v7\nVerdict: reject_perf\n"])
def test_verify_disagrees_with_a_kernel_that_nobody_accepted(measured: Path, trailers: str) -> None:
    """The accepted commit below stays as it was; what HEAD holds is another kernel."""
    (measured / "kernel.cpp").write_text(SLOW)
    git(measured, "commit", "-q", "--all", "--file=-", stdin=f"accept v1: 14x{trailers}")
    head = git(measured, "rev-parse", "HEAD").strip()
    found = verify(measured)
    assert [v.commit for v in found if v.outcome == "disagree"] == [head]
    assert "not a commit of the run" in found[0].reason and "kernel.cpp differs from" in found[0].reason
    assert len(found) == 2 and found[1].measured is not None, "the accepted version is still verified"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "told"),
    [(SLOW, f"the last of {MAX_LOOKS} looks"), (WRONG, "failed at correctness")],
    ids=["slow", "wrong"],
)
def test_verify_disagrees_with_a_kernel_that_is_not_what_it_claims(
    measured: Path, source: str, told: str, capsys: Capsys
) -> None:
    claimed(measured, source)
    for _ in range(4):  # While others keep the machine busy it says so, and refutes nothing.
        found = verify_commit(Repository(measured), accepted_commits(Repository(measured))[-1])
        if found.outcome == "disagree":
            break
        assert found.outcome == "inconclusive" and ("others took up to" in found.reason or "noise" in found.reason)
    else:
        pytest.skip("others kept this machine busy all the time, so that nothing could be refuted")
    assert told in found.reason


def test_what_is_no_accepted_commit_is_refused(copied: Path, capsys: Capsys) -> None:
    log = Repository(copied).log()
    others = [commit.id for commit in log if commit.trailers.get("Verdict") != "accept"]
    for name in ("nonsense", "0000000", "HEAD", "", *others):
        assert main(["verify", str(copied), name]) == 2
        said = capsys.readouterr().err
        assert repr(name) in said and "accepted are: v1" in said
    git(copied, "checkout", "-q", "-f", log[-1].id)
    assert main(["verify", str(copied)]) == 2 and "no version was accepted" in capsys.readouterr().err


# ---------------------------------------------------------------- the claim against a fresh trial

CLAIM = Interval(estimate=4.0, low=3.8, high=4.2)


@pytest.fixture(scope="module")
def claim(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Commit, RecordedClaim]:
    repository = Repository(recorded)
    last = accepted_commits(repository)[-1]
    read_back = read_claim(repository.clone_to(tmp_path_factory.mktemp("claim") / "clone", last.id), last)
    return last, replace(read_back, speedup=CLAIM)


def judged(outcome: Outcome) -> Verdict:
    return Verdict(outcome=outcome, reasons=("Why.",), candidate="c", incumbent="i")


def passed(low: float, high: float) -> Passed:
    return Passed(
        candidate="c", measurements=(), speedup=Interval(estimate=(low + high) / 2, low=low, high=high), records=()
    )


@pytest.mark.parametrize(
    ("trial", "verdict", "outcome", "code"),
    [
        (passed(3.7, 4.3), "accept", "agree", 0),
        (passed(6.0, 6.2), "accept", "agree", 0),
        (passed(0.9, 3.9), "inconclusive", "inconclusive", 5),
        (passed(1.2, 5.0), "accept", "inconclusive", 5),
        (passed(2.4, 2.6), "accept", "disagree", 1),
        (passed(1.0, 1.8), "inconclusive", "disagree", 1),
        (passed(3.7, 4.3), "reject_perf", "inconclusive", 5),
        (passed(3.7, 4.3), "reject_correctness", "disagree", 1),
        (passed(0.9, 1.01), "reject_perf", "disagree", 1),
        (Failed(candidate="c", stage="correctness", reason="wrong"), "reject_correctness", "disagree", 1),
        (Unmeasured(candidate="c", reason="no machine"), "infra_error", "inconclusive", 5),
    ],
)
def test_outcomes_and_their_exit_codes(
    claim: tuple[Commit, RecordedClaim], trial: Passed | Failed | Unmeasured, verdict: Outcome, outcome: str, code: int
) -> None:
    look = Look(trial, judged(verdict), others=0.0)
    found = compare_claim(*claim, [look])
    assert found.outcome == outcome
    assert _report_verification((found,), as_json=False) == code
    assert ("Not measured again: the total over v0" in found.sentence()) == (found.measured is not None)
    agreed = found.model_copy(update={"outcome": "agree"})
    assert _report_verification((agreed, found), as_json=True) == code


@pytest.mark.parametrize(
    ("claimed", "measured", "outcome"),
    [
        ((3.8, 4.0, 4.2), (3.8, 3.9, 4.0), "agree"),
        ((3.8, 4.0, 4.2), (6.0, 6.1, 6.2), "agree"),
        ((3.8, 4.0, 4.2), (3.6, 3.7, 3.75), "agree"),
        ((3.8, 4.0, 4.2), (3.3, 3.5, 3.65), "inconclusive"),
        ((3.8, 4.0, 4.2), (3.3, 3.5, 3.6), "disagree"),
        ((1.5 * 1.6, 1.6 * 1.6, 1.7 * 1.6), (1.5, 1.6, 1.7), "disagree"),
        ((2.47 * 1.6, 3.19 * 1.6, 3.43 * 1.6), (2.47, 3.19, 3.43), "disagree"),
        ((1.02 * 2.6, 1.05 * 2.6, 1.08 * 2.6), (1.02, 1.05, 1.08), "disagree"),
        ((2.0, 8.0, 9.0), (2.9, 3.0, 3.1), "inconclusive"),
        ((1.03, 1.04, 1.05), (0.99, 1.0, 1.01), "agree"),
    ],
)
def test_a_claim_is_refuted_from_above_alone(
    claimed: tuple[float, float, float], measured: tuple[float, float, float], outcome: str
) -> None:
    one, other = (Interval(low=low, estimate=estimate, high=high) for low, estimate, high in (claimed, measured))
    assert compare_speedups(one, other) == outcome


@pytest.mark.parametrize(("trial", "verdict"), [(passed(1.2, 1.8), "accept"), (passed(0.9, 1.01), "reject_perf")])
def test_a_busy_machine_refutes_nothing(claim: tuple[Commit, RecordedClaim], trial: Passed, verdict: Outcome) -> None:
    looks = [Look(trial, judged(verdict), others=share) for share in (2 * MAX_OTHER_CPU_SHARE, 0.0)]
    found = compare_claim(*claim, looks)
    assert found.outcome == "inconclusive" and f"{2 * MAX_OTHER_CPU_SHARE:.0%} of the CPU time" in found.reason
    wrong = Look(trial, judged("reject_correctness"), others=2 * MAX_OTHER_CPU_SHARE)
    assert compare_claim(*claim, [*looks, wrong]).outcome == "disagree"


def test_another_kind_of_device_refutes_no_figure(claim: tuple[Commit, RecordedClaim]) -> None:
    commit, claimed = claim
    for device, outcome in (("AMD EPYC", "disagree"), ("Intel Xeon", "inconclusive")):
        look = Look(passed(1.2, 1.8), judged("reject_perf"), others=0.0, device=device)
        found = compare_claim(commit, replace(claimed, device="AMD EPYC"), [look])
        assert found.outcome == outcome and ("claimed on AMD EPYC" in found.reason) == (outcome == "inconclusive")
