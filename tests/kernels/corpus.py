"""Judges the kernels of corpus.yaml, each up to the first stage that refuses it.

`python -m tests.kernels.corpus --device cpu` judges the entries of the lanes fast and slow, and `--device cuda` those
of the lane gpu. Each outcome is written to `--out` when it is known: an entry that ends this program costs one outcome,
and the next start goes on behind it. `--screen` asks the screen alone, which needs no device; `--again` judges anew
what has an outcome. `python -m tests.readme` draws docs/attacks.md from the outcomes.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import count
from math import prod
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from pydantic import Field

from tests.tools.builders import open_judge
from tools.artifacts import Artifact, BaselineFunction, Candidate, Failed, Interval, Passed, Trial, Unmeasured, digest
from tools.errors import KernelwrightError
from tools.executors.base import pick_device
from tools.executors.local import LocalExecutor
from tools.gate import confirmation, ranking
from tools.gate.judge_settings import JudgeSettings
from tools.judge.judge import Judge
from tools.languages.base import Language, open_language
from tools.roofline import microbenchmarks
from tools.roofline.hardware import Roof
from tools.roofline.lower_bounds import limits_for_trial
from tools.screen.screen import screen
from tools.store.records import Records
from tools.tasks.loader import LoadedTask, load_task_files

KERNELS = Path(__file__).parent
SUFFIXES = {"cpp": ".cpp", "triton": ".py", "cutedsl": ".py", "cuda": ".cu"}
SETTINGS = JudgeSettings(pairs=8, batches=2, warm_pairs=0, confirm_rounds=8, job_limit_s=300)
SECRET = b"s" * 32
LOCK_WAIT_S = 1800.0
"""Seconds that the script waits for a device that others use."""
LANES = {"cpu": ("fast", "slow"), "cuda": ("gpu",)}
PASSED = ("", "no gain")
"""Stages at which nothing is held against a kernel."""


class Entry(Artifact):
    """One kernel of corpus.yaml."""

    file: str
    """Path below tests/kernels."""
    task: str
    """Folder below tasks/, with the reference and the plain kernel that this one is compared with."""
    language: Literal["cpp", "triton", "cuda", "cutedsl"]
    """Of the kernel, or of the task's plain kernel beside which a function runs."""
    is_function: bool = False
    """Whether it is the user's own function `own`, over which a gain is reported; a doubt refuses it."""
    attack: str
    """What it does, or what is odd about an honest one."""
    kind: str = Field(alias="class")
    """Its class in the catalogue of reward hacks, `remembering` or `honest`."""
    verdict: Literal["refused", "accepted"]
    lane: Literal["fast", "slow", "gpu"]
    at_most: float | None = None
    """The gain that one to be refused may be confirmed at, where what is left of it is honestly faster."""
    at_least: float | None = None
    """The gain that an honest one is confirmed at."""
    screened: bool = True
    """Whether the screen's refusal ends the trial; False for an attack on what lies behind the screen."""

    screen: Literal["passes", "refuses", ""] = ""
    """What the screen says of it, where no trial is recorded that shows it."""

    def source(self) -> str:
        """The kernel's text."""
        return (KERNELS / self.file).read_text(encoding="utf-8")

    def candidate(self) -> Candidate:
        return Candidate(language=self.language, files={f"kernel{SUFFIXES[self.language]}": self.source()})

    def refusal_of_screen(self) -> str:
        """The first sentence with which the screen refuses it; empty if it does not. Functions are not screened."""
        if self.is_function:
            return ""
        found: dict[str, Any] = {}
        exec((KERNELS / "tasks" / self.task / "reference.py").read_text(encoding="utf-8"), found)
        dims = min((one["dims"] for one in found["workloads"]), key=lambda dims: prod(dims.values()))
        tensors = [name for name, value in found["make_inputs"](dims, 0).items() if isinstance(value, torch.Tensor)]
        files = self.candidate().files
        return next((said for text in files.values() for said in screen(text, self.language, files, tensors)), "")

    def digest(self) -> str:
        """Of the kernel and of its task: an outcome of others is outdated."""
        files = (KERNELS / "tasks" / self.task / name for name in ("reference.py", f"kernel{SUFFIXES[self.language]}"))
        task = [path.read_text(encoding="utf-8") for path in files if path.exists()]
        return digest("\0".join((self.source(), str(self.screened), *task)))[:16]

    def fault(self, outcome: Outcome) -> str:
        """What is wrong with this outcome; empty if the verdict is right."""
        if self.verdict == "accepted":
            low = outcome.confirmed.low if outcome.confirmed else 0.0
            if outcome.stage not in PASSED:
                return f"an honest kernel is refused ({outcome.stage}): {outcome.reason}"
            return f"a gain of {low:.3g} is confirmed" if self.at_least and low < self.at_least else ""
        if outcome.stage or (self.at_most and outcome.confirmed and outcome.confirmed.low < self.at_most):
            return ""
        return f"gets through with a gain of {outcome.confirmed.estimate if outcome.confirmed else 1.0:.3g}"


class Outcome(Artifact):
    """What became of one entry."""

    digest: str
    date: str
    seconds: float
    stage: str = ""
    """The stage that refused it: screen, build, correctness, timing, limits (faster than the device can be),
    confirmation, `no gain`; `doubt` of a function; `machine` where the judge did not get to an answer. Empty for a confirmed gain."""
    reason: str = ""
    screen: str = ""
    """The first refusal of the screen; empty if it lets the source pass."""
    trial: Interval | None = None
    """The gain by the paired timing, or the plain kernel's over a function."""
    confirmed: Interval | None = None
    """The gain by the confirmation."""


class BehindScreen(Judge):
    """The judge of a kernel that got past the screen."""

    def screen_failure(self, candidate: Candidate) -> Failed | Unmeasured | None:
        return None


class Bench:
    """Judges entries on one machine; each task is loaded once."""

    def __init__(self, folder: Path, executor: LocalExecutor) -> None:
        self.records, self.executor = Records(folder), executor
        self.tasks: dict[Path, LoadedTask] = {}
        self.attempts = count(1)

    @cached_property
    def first_roofs(self) -> tuple[Roof, ...]:
        return self.roofs(open_language("cpp"))

    def roofs(self, language: Language) -> tuple[Roof, ...]:
        """The roofs of the language's device, measured anew."""
        return microbenchmarks.read_or_measure_roofs(language, self.executor, self.records, attempt=next(self.attempts))

    def outcome(self, entry: Entry, *, screen_alone: bool = False) -> Outcome:
        """Judge one entry up to the first refusal."""
        begin = time.monotonic()
        made = {"digest": entry.digest(), "date": datetime.now(UTC).date().isoformat()}
        try:
            found = self._judged(entry, screen_alone=screen_alone)
        except KernelwrightError as error:
            found = {"stage": "machine", "reason": str(error)}
        return Outcome.model_validate({**made, **found, "seconds": round(time.monotonic() - begin, 1)})

    def load(self, entry: Entry) -> tuple[LoadedTask, Candidate]:
        """The entry's task and the plain kernel."""
        folder = KERNELS / "tasks" / entry.task
        kernel = folder / f"kernel{SUFFIXES[entry.language]}"
        if kernel not in self.tasks:
            files = (kernel, folder / "reference.py", "", self.executor, self.records.blobs)
            self.tasks[kernel] = load_task_files(*files)
        return self.tasks[kernel], Candidate(language=entry.language, files={kernel.name: kernel.read_text()})

    def _judged(self, entry: Entry, *, screen_alone: bool) -> dict[str, object]:
        refused = entry.refusal_of_screen()
        said: dict[str, object] = {"screen": refused}
        if screen_alone or (refused and entry.screened):
            return said | {"stage": "screen" if refused else "", "reason": refused}
        (found, plain), candidate = self.load(entry), entry.candidate()
        if entry.is_function:
            return self._compared(entry, found, plain)
        kind, language = Judge if entry.screened else BehindScreen, open_language(entry.language)
        judge = open_judge(found.task, language, self.executor, self.records, SETTINGS, kind=kind, secret=SECRET)
        trial = judge.judge(candidate, plain, plain, siblings=1, iteration=1)
        if not isinstance(trial, Passed):
            stage = trial.stage if isinstance(trial, Failed) else "machine"
            return said | {"stage": stage, "reason": trial.reason}
        return said | {"trial": trial.speedup} | self._confirmed(judge, found, trial, candidate, plain)

    def _compared(self, entry: Entry, found: LoadedTask, plain: Candidate) -> dict[str, object]:
        """What a report says of a function beside the plain kernel."""
        name = Path(entry.file).stem
        function = BaselineFunction(call=f"{name}:own", files={f"{name}.py": entry.source()})
        task, language = found.task.model_copy(update={"baseline_function": function}), open_language(entry.language)
        judge = open_judge(task, language, self.executor, self.records, SETTINGS, secret=SECRET)
        first = judge.read_or_check_user_function(language.device)
        record = judge.read_or_measure_benchmark({"baseline": plain}, ())
        factors = ranking.factors_over_function(record, SETTINGS.objective, "baseline")
        doubts = ranking.doubts_about_function(record, first, SETTINGS.objective)
        stage = {"stage": "doubt", "reason": doubts[0]} if doubts else {}
        return {**stage, "trial": next(iter(factors.values()), None)}

    def _confirmed(
        self, judge: Judge, found: LoadedTask, trial: Passed, candidate: Candidate, plain: Candidate
    ) -> Mapping[str, object]:
        """What comes behind a trial that passed."""
        least = 1 + SETTINGS.min_effect
        if trial.speedup.low <= least:
            return {"stage": "no gain"}
        if impossible := self._impossible(judge, found, trial):
            return {"stage": "limits", "reason": impossible}
        contests = judge.confirm_until_settled(candidate, plain)
        if problem := confirmation.contest_problem(contests[-1]):
            return {"stage": "confirmation", "reason": problem}
        claim = confirmation.claim_of(contests, SETTINGS.objective, SETTINGS.confidence, SETTINGS.min_effect)
        gain = claim.speedup
        return {"stage": "" if gain.low > least else "no gain", "confirmed": gain}

    def _impossible(self, judge: Judge, found: LoadedTask, trial: Trial) -> str:
        """Which measured time no kernel can have; empty for none."""
        device = pick_device(self.executor.devices(), judge.language.device)
        limits = limits_for_trial(
            trial,
            {w.name: w.unique_bytes for w in found.workloads},
            device.last_level_cache,
            self.first_roofs if judge.language.device == "cpu" else self.roofs(judge.language),
            lambda: self.roofs(judge.language),
            judge.read_or_count_needed_bytes,
        )
        short = limits.impossible_measurements(trial.measurements) if isinstance(trial, Passed) else ()
        return f"{short[0].workload}: {short[0].candidate_s:.3g} s a call" if short else ""


def entries() -> tuple[Entry, ...]:
    """All entries of corpus.yaml."""
    return tuple(Entry.model_validate(one) for one in yaml.safe_load((KERNELS / "corpus.yaml").read_text()))


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """File -> the outcome that `path` has of it."""
    read = json.loads(path.read_text()) if path.exists() else {}
    return {file: Outcome.model_validate(one) for file, one in read.items()}


def recorded_outcomes() -> dict[str, Outcome]:
    """The outcomes that are committed, of both devices, for the kernels as they are now."""
    digests = {one.file: one.digest() for one in entries()}
    read = {file: one for device in LANES for file, one in read_outcomes(results_path(device)).items()}
    return {file: one for file, one in read.items() if digests.get(file) == one.digest and one.stage != "machine"}


def results_path(device: str) -> Path:
    """The file that outcomes of a device are committed in."""
    return KERNELS / f"results_{device}.json"


def write(path: Path, known: Mapping[str, Outcome]) -> None:
    """Write the outcomes that are known, by file."""
    rows = {file: known[file].model_dump(mode="json", exclude_defaults=True) for file in sorted(known)}
    path.write_text(json.dumps(rows, indent=1) + "\n")


def outcomes(chosen: Sequence[Entry], path: Path, *, screen_alone: bool) -> Iterator[tuple[Entry, Outcome]]:
    """Judge the entries and write each outcome to `path`, beside those that are there."""
    known = read_outcomes(path)
    with tempfile.TemporaryDirectory() as folder:
        benches: list[Bench] = []
        for entry in chosen:
            # Should this program end on it, this is what stays.
            known[entry.file] = Outcome(digest=entry.digest(), date="", seconds=0, stage="machine", reason="no answer")
            write(path, known)
            if not benches:
                at = Path(tempfile.mkdtemp(dir=folder))
                benches = [Bench(at, LocalExecutor(Records(at).blobs, at / "scratch", lock_wait_s=LOCK_WAIT_S))]
            known[entry.file] = benches[0].outcome(entry, screen_alone=screen_alone)
            write(path, known)
            yield entry, known[entry.file]
            if known[entry.file].stage == "machine":
                benches.pop().executor.close()
        for bench in benches:
            bench.executor.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=LANES, default="cpu")
    parser.add_argument("--lane", action="append", help="instead of those of the device; may be repeated")
    parser.add_argument("--out", type=Path, help="default: tests/kernels/results_<device>.json")
    parser.add_argument("--screen", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--only", default="", help="a pattern in the names of the files to judge")
    given = parser.parse_args()
    path = given.out or results_path(given.device)
    known = {} if given.again else read_outcomes(path)
    chosen = [
        one for one in entries() if one.lane in (given.lane or LANES[given.device]) and re.search(given.only, one.file)
    ]
    chosen = [one for one in chosen if one.file not in known or known[one.file].digest != one.digest()]
    for entry, found in outcomes(chosen, path, screen_alone=given.screen):
        fault = entry.fault(found)
        gain = f" {found.confirmed.estimate:.2f}x" if found.confirmed else ""
        print(
            f"{entry.file:22} {found.seconds:6.1f} s  {found.stage or 'confirmed'}{gain}  {found.reason[:120]}",
            flush=True,
        )
        if fault:
            print(f"    WRONG: {fault}", flush=True)


if __name__ == "__main__":
    main()
