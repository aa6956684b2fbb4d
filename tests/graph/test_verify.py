"""`verify` believes git and its own measurement, and nothing else: it agrees with the honest commit and with no doctored one."""

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

import pytest

from graph.__main__ import main
from graph.verify import BUSY, LOOKS, Look, Verification, accepted, compare, read, verify
from tests.graph.conftest import ROOT, TASK, TRIES, FinishedRun, gain_of
from tools.artifacts import Candidate, Failed, Interval, Outcome, Passed, Record, Unmeasured, Verdict
from tools.records import Records, key
from tools.repository import Repository
from tools.task import freeze, thaw

Doctor = Callable[[Path], None]
SLOW = (TASK / "kernel.cpp").read_text().replace("#include <cmath>", "#include <cmath>\n// The same once more.")


def git(root: Path, *arguments: str, stdin: str | None = None) -> str:
    named = ["-c", "user.name=Mallory", "-c", "user.email=mallory@example.invalid"]
    return subprocess.run(["git", *named, *arguments], cwd=root, input=stdin, capture_output=True, text=True, check=True).stdout


def on_top(root: Path, doctor: Doctor, message: Callable[[str], str] = lambda text: text) -> None:
    """Amend the last accepted commit of a copy: everything that was committed after it is gone, and `doctor` may change what it holds."""
    last = accepted(Repository(root))[-1]
    git(root, "checkout", "-q", "-f", last.id)
    doctor(root)
    git(root, "add", "--all", "task", "settings.yaml", "records", "versions", "kernel.cpp")
    git(root, "commit", "-q", "--amend", "--file=-", stdin=message(git(root, "log", "-1", "--format=%B")))


def nothing(root: Path) -> None:
    """Leave the content of the commit as it is."""


def another_kernel(root: Path) -> None:
    path = root / "kernel.cpp"
    path.write_text(path.read_text() + "\n// mine\n")


def raised(message: str) -> str:
    return re.sub(r"^Speedup: .*$", "Speedup: 99.5 [90.1, 120.2]", message, flags=re.MULTILINE)


def verdict_file(root: Path) -> Path:
    return root / "records" / f"{accepted(Repository(root))[-1].trailers['Evidence']}.json"


def altered_verdict(root: Path) -> None:
    path = verdict_file(root)
    record = json.loads(path.read_text())
    record["payload"]["speedup"] |= {"estimate": 99.5, "low": 90.1, "high": 120.2}
    path.write_text(json.dumps(record, indent=1))


def missing_verdict(root: Path) -> None:
    verdict_file(root).unlink()


def missing_kernel(root: Path) -> None:
    (root / "kernel.cpp").unlink()


def binary_kernel(root: Path) -> None:
    (root / "kernel.cpp").write_bytes(b"\xff\xfe\x00")


def other_reference(root: Path) -> None:
    path = root / "task" / "reference.py"
    path.write_text(path.read_text() + "\n# easier\n")


def other_task(root: Path) -> None:
    """Frozen again in good order, so that only the commit's own word tells."""
    task = thaw(root / "task")
    freeze(task.model_copy(update={"reference": task.reference + "\n# easier\n"}), root / "task")


def without(trailer: str) -> Callable[[str], str]:
    return lambda message: re.sub(rf"^{trailer}: .*\n", "", message, flags=re.MULTILINE)


def other_settings(root: Path) -> None:
    path = root / "settings.yaml"
    path.write_text(path.read_text().replace("min_effect: 0.05", "min_effect: 0.0"))


def claimed(root: Path, source: str) -> None:
    """The last accepted commit of a copy with `source` in it and everything in order, records and message too: only measuring tells."""
    last = accepted(Repository(root))[-1]
    candidate = Candidate(language="cpp", files={"kernel.cpp": source})
    records = Records(root)
    before = Verdict.model_validate(records.get(last.trailers["Evidence"]).payload)
    passed_on = {}
    for identity in before.records:
        record = records.get(identity)
        if record.kind in ("build", "correctness", "timing", "confirmation"):
            payload = {**record.payload, "candidate": candidate.id}
            if record.kind == "confirmation":
                payload = {**record.payload, "candidates": {**record.payload["candidates"], "candidate": candidate.id}}
            passed_on[identity] = records.add(record.model_copy(update={"key": key("forged", of=identity), "payload": payload}))
    cited = tuple(passed_on[identity].id if identity in passed_on else identity for identity in before.records)
    verdict = before.model_copy(update={"candidate": candidate.id, "records": cited})
    forged = records.add(Record(kind="verdict", key=key("verdict", iteration=99), payload=verdict.model_dump(mode="json")))
    named = {"Candidate": candidate.id, "Evidence": forged.id}
    contents = {f"{r.id}.json": (root / "records" / f"{r.id}.json").read_text() for r in (forged, *passed_on.values())}

    def doctor(where: Path) -> None:
        (where / "kernel.cpp").write_text(source)
        for name, content in contents.items():
            (where / "records" / name).write_text(content)

    def message(text: str) -> str:
        for name, value in named.items():
            text = re.sub(rf"^{name}: .*$", f"{name}: {value}", text, flags=re.MULTILINE)
        return text

    on_top(root, doctor, message)


@pytest.mark.slow
def test_it_agrees_with_what_was_accepted(finished: FinishedRun, capsys: pytest.CaptureFixture[str]) -> None:
    def look(*options: str) -> tuple[int, Verification]:
        code = main(["verify", str(finished.root), "--json", *options])
        (found,) = (Verification.model_validate(one) for one in json.loads(capsys.readouterr().out)["versions"])
        assert found.outcome != "disagree", found.reason
        return code, found

    commits = accepted(Repository(finished.root))
    assert look()[1].commit == commits[-1].id, "without an id the last accepted version is meant"
    # A neighbour's load can never make an honest claim wrong, but it may hide a gain for a while, and a small one for as long as it lasts.
    most = max(commits, key=gain_of)
    for _ in range(TRIES):
        code, found = look(most.id)
        if code == 0:
            break
    assert (found.outcome, found.commit, found.candidate) == ("agree", most.id, most.trailers["Candidate"]), found.sentence()
    assert found.sentence().startswith(f"{most.trailers['Version']} {most.id[:12]} {found.candidate}: agree: claimed ")
    assert found.claimed is not None and found.measured is not None and found.measured.low > 1.05
    assert found.measured != found.claimed, "it measured nothing of its own"
    assert Repository(finished.root).is_clean()


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
    asked = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # It measures from the moment on in which it starts processes of its own.
    while asked.poll() is None and not any("launcher" in command for command in children(asked.pid)):
        time.sleep(0.05)
    os.kill(asked.pid, signal.SIGINT)
    said, errors = asked.communicate(timeout=60)
    assert asked.returncode == 130, errors
    assert errors == "interrupted; nothing was changed; run the command again\n"
    assert json.loads(said)["status"] == "interrupted" and Repository(finished.root).is_clean()


@pytest.mark.parametrize(
    ("doctor", "message", "says"),
    [
        (another_kernel, None, "kernel's content"),
        (nothing, raised, "speed-up in the commit message"),
        (nothing, without("Speedup"), "speed-up in the commit message"),
        (altered_verdict, None, "does not match its id"),
        (altered_verdict, raised, "does not match its id"),
        (missing_verdict, None, "missing"),
        (missing_kernel, None, "kernel.cpp is not in commit"),
        (binary_kernel, None, "kernel's content"),
        (nothing, without("Evidence"), "missing"),
        (other_reference, None, "not those of v0"),
        (other_task, None, "not those of v0"),
        (other_settings, None, "not those of v0"),
        (nothing, without("Task"), "frozen task"),
        (nothing, without("Candidate"), "kernel's content"),
    ],
)
def test_it_disagrees_with_a_doctored_commit(
    copied: Path, doctor: Doctor, message: Callable[[str], str] | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    on_top(copied, doctor, message or (lambda text: text))
    assert main(["verify", str(copied)]) == 1
    said = capsys.readouterr().out
    assert ": disagree: " in said and says in said


def test_evidence_must_be_a_verdict(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = next(record.id for record in Records(copied) if record.kind == "environment")
    on_top(copied, nothing, lambda message: re.sub(r"^Evidence: .*$", f"Evidence: {other}", message, flags=re.MULTILINE))
    assert main(["verify", str(copied)]) == 1
    assert "a record of kind 'environment'" in capsys.readouterr().out


def test_another_protocol_is_named_and_not_guessed(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on_top(copied, nothing, lambda message: re.sub(r"^Protocol: .*$", "Protocol: 0.9", message, flags=re.MULTILINE))
    assert main(["verify", str(copied)]) == 5
    assert ": inconclusive: measured under protocol 0.9" in capsys.readouterr().out


@pytest.mark.slow
def test_a_clone_is_enough_and_the_folder_is_not_believed(copied: Path, tmp_path: Path) -> None:
    altered_verdict(copied)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(copied), str(clone))
    (found,) = verify(clone, "v1")
    assert found.outcome != "disagree" and found.measured is not None, found.reason


@pytest.mark.slow
@pytest.mark.parametrize("trailers", ["", "\n\nVersion: v7\nVerdict: reject_perf\n"])
def test_it_disagrees_with_a_kernel_that_nobody_accepted(copied: Path, trailers: str) -> None:
    """The accepted commit below stays as it was; what HEAD holds is another kernel."""
    (copied / "kernel.cpp").write_text(SLOW)
    git(copied, "commit", "-q", "--all", "--file=-", stdin=f"accept v1: 14x{trailers}")
    head = git(copied, "rev-parse", "HEAD").strip()
    found = verify(copied)
    assert [v.commit for v in found if v.outcome == "disagree"] == [head]
    assert ("not a commit of the run" if not trailers else "changed the kernel") in found[0].reason
    assert len(found) == 2 and found[1].measured is not None, "the accepted version is still verified"


@pytest.mark.slow
def test_it_disagrees_with_a_kernel_that_is_slower(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claimed(copied, SLOW)
    for _ in range(4):  # While others keep the machine busy it says so, and refutes nothing.
        code = main(["verify", str(copied)])
        said = capsys.readouterr().out
        if code == 1:
            break
        assert code == 5 and ": inconclusive: claimed " in said and ("others took up to" in said or "noise floor" in said)
    else:
        pytest.skip("others kept this machine busy all the time, so that nothing could be refuted")
    assert ": disagree: claimed " in said and f"the last of {LOOKS} looks" in said


@pytest.mark.slow
def test_it_disagrees_with_a_kernel_that_is_wrong(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = SLOW.replace("/ total;", "/ (total * 1.001f);")
    assert wrong != SLOW
    claimed(copied, wrong)
    assert main(["verify", str(copied)]) == 1
    assert ": disagree: " in (said := capsys.readouterr().out) and "failed at correctness" in said


@pytest.mark.parametrize("name", ["nonsense", "0000000", "HEAD", ""])
def test_a_name_that_is_no_commit(finished: FinishedRun, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(finished.root), name]) == 2
    said = capsys.readouterr().err
    assert repr(name) in said and "accepted are: v1" in said


def test_commits_that_accepted_nothing_are_not_versions_to_verify(finished: FinishedRun, capsys: pytest.CaptureFixture[str]) -> None:
    for commit in Repository(finished.root).log():
        if commit.trailers.get("Verdict") != "accept":
            assert main(["verify", str(finished.root), commit.id]) == 2, commit.subject
            assert commit.id in capsys.readouterr().err


def test_nothing_was_accepted(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = Repository(copied).log()[-1]
    git(copied, "checkout", "-q", "-f", first.id)
    assert main(["verify", str(copied)]) == 2
    assert "no version was accepted" in capsys.readouterr().err


# ---------------------------------------------------------------- the claim against a fresh trial

CLAIM = Interval(estimate=4.0, low=3.8, high=4.2)


def passed(low: float, high: float) -> Passed:
    return Passed(candidate="c", measurements=(), speedup=Interval(estimate=(low + high) / 2, low=low, high=high), records=())


@pytest.mark.parametrize(
    ("trial", "verdict", "outcome", "code"),
    [
        (passed(3.7, 4.3), "accept", "agree", 0),
        (passed(6.0, 6.2), "accept", "agree", 0),
        (passed(2.8, 3.2), "accept", "agree", 0),
        (passed(2.3, 2.6), "accept", "inconclusive", 5),
        (passed(0.9, 3.9), "inconclusive", "inconclusive", 5),
        (passed(1.2, 1.8), "accept", "disagree", 1),
        (passed(1.0, 1.8), "inconclusive", "disagree", 1),
        (passed(3.7, 4.3), "reject_correctness", "disagree", 1),
        (passed(0.9, 1.01), "reject_perf", "disagree", 1),
        (Failed(candidate="c", stage="correctness", reason="wrong"), "reject_correctness", "disagree", 1),
        (Unmeasured(candidate="c", reason="no machine"), "infra_error", "inconclusive", 5),
    ],
)
def test_outcomes_and_their_exit_codes(
    finished: FinishedRun, tmp_path: Path, trial: Passed | Failed | Unmeasured, verdict: Outcome, outcome: str, code: int
) -> None:
    from graph.__main__ import _verified

    repository = Repository(finished.root)
    last = accepted(repository)[-1]
    claim = replace(read(repository.clone_to(tmp_path / "clone", last.id), last), speedup=CLAIM)
    look = Look(trial, Verdict(outcome=verdict, reasons=("Why.",), candidate="c", incumbent="i"), others=0.0)
    found = compare(last, claim, [look])
    assert found.outcome == outcome
    assert _verified((found,), as_json=False) == code
    agreed = found.model_copy(update={"outcome": "agree"})
    assert _verified((agreed, found), as_json=True) == code


@pytest.mark.parametrize(("trial", "verdict"), [(passed(1.2, 1.8), "accept"), (passed(0.9, 1.01), "reject_perf")])
def test_a_busy_machine_refutes_nothing(finished: FinishedRun, tmp_path: Path, trial: Passed, verdict: Outcome) -> None:
    repository = Repository(finished.root)
    last = accepted(repository)[-1]
    claim = replace(read(repository.clone_to(tmp_path / "clone", last.id), last), speedup=CLAIM)
    judged = Verdict(outcome=verdict, reasons=("Why.",), candidate="c", incumbent="i")
    looks = [Look(trial, judged, others=2 * BUSY), Look(trial, judged, others=0.0)]
    found = compare(last, claim, looks)
    assert found.outcome == "inconclusive" and f"{2 * BUSY:.0%} of the CPU time" in found.reason
    wrong = Verdict(outcome="reject_correctness", reasons=("Wrong.",), candidate="c", incumbent="i")
    assert compare(last, claim, [*looks, Look(trial, wrong, others=2 * BUSY)]).outcome == "disagree"


def test_a_confirmation_of_other_kernels_confirms_nothing(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = accepted(Repository(copied))[-1]
    records = Records(copied)
    before = Verdict.model_validate(records.get(last.trailers["Evidence"]).payload)
    confirmed = next(r for r in map(records.get, before.records) if r.kind == "confirmation")
    payload = {**confirmed.payload, "candidates": {"incumbent": "x", "candidate": "y"}}
    slow = [dict.fromkeys(round_, 1.0) for round_ in payload["result"]["workloads"][0]["rounds"]]
    same = {**confirmed.payload["result"], "workloads": [{"workload": "small", "rounds": slow}]}
    for number, (forged, says) in enumerate(
        [(payload, "of other kernels"), ({**confirmed.payload, "result": same}, "does not show the gain")]
    ):
        root = Path(shutil.copytree(copied, tmp_path / str(number), symlinks=True))
        other = Records(root).add(confirmed.model_copy(update={"key": key("forged", of=confirmed.id), "payload": forged}))
        cited = tuple(other.id if identity == confirmed.id else identity for identity in before.records)
        verdict = before.model_copy(update={"records": cited})
        named = Records(root).add(Record(kind="verdict", key=key("verdict", iteration=99), payload=verdict.model_dump(mode="json")))
        texts = {f"{r.id}.json": (root / "records" / f"{r.id}.json").read_text() for r in (other, named)}

        def doctor(where: Path, texts: dict[str, str] = texts) -> None:
            for name, text in texts.items():
                (where / "records" / name).write_text(text)

        on_top(root, doctor, lambda message, named=named: re.sub(r"^Evidence: .*$", f"Evidence: {named.id}", message, flags=re.MULTILINE))
        assert main(["verify", str(root)]) == 1
        assert says in capsys.readouterr().out
