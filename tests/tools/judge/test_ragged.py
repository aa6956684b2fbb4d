"""Kernels whose inputs say how much of the data counts: what leaves the rest unread passes, what cheats does not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import prod
from pathlib import Path

import pytest
import torch

from tests.tools.builders import open_judge
from tools.artifacts import Candidate, Interval, Passed, Task
from tools.contracts.checked_cases import draw_seed
from tools.executors.base import pick_device
from tools.executors.local import LocalExecutor
from tools.gate.judge_settings import JudgeSettings
from tools.judge.judge import Judge
from tools.languages.cpp import Cpp
from tools.roofline import microbenchmarks
from tools.roofline.hardware import Roof
from tools.roofline.lower_bounds import limits_for_trial
from tools.store.records import Records
from tools.tasks.loader import LoadedTask, load_task_files

KERNELS = Path(__file__).parents[2] / "kernels"
SECRET = b"s" * 32
Place = tuple[Records, LocalExecutor]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("ragged")
    with LocalExecutor(Records(root).blobs, root / "scratch") as executor:
        yield Records(root), executor


def loaded(place: Place, name: str, dims: str = "") -> LoadedTask:
    return load_task_files(
        KERNELS / "plain" / f"{name}.cpp", KERNELS / "references" / f"{name}.py", dims, place[1], place[0].blobs
    )


def judge_of(place: Place, task: Task) -> Judge:
    return open_judge(task, Cpp(), place[1], place[0], JudgeSettings(pairs=8, batches=2, warm_pairs=0), secret=SECRET)


def kernel(kind: str, name: str) -> Candidate:
    return Candidate(language="cpp", files={"kernel.cpp": (KERNELS / kind / f"{name}.cpp").read_text()})


@pytest.mark.slow
@pytest.mark.parametrize("form", ["honest", "evil"])
@pytest.mark.parametrize("name", sorted(path.stem for path in (KERNELS / "plain").iterdir()))
def test_kernels_that_skip_unneeded_bytes_pass_and_those_that_cheat_do_not(place: Place, name: str, form: str) -> None:
    found = loaded(place, name)
    judge, plain = judge_of(place, found.task), kernel("plain", name)
    trial = judge.judge(kernel(form, name), plain, plain, siblings=1, iteration=1)
    attempts = count(1)
    needs, cache = (
        {w.name: w.unique_bytes for w in found.workloads},
        pick_device(place[1].devices(), "cpu").last_level_cache,
    )

    def roofs() -> tuple[Roof, ...]:
        return microbenchmarks.read_or_measure_roofs(Cpp(), place[1], place[0], attempt=next(attempts))

    possible = limits_for_trial(trial, needs, cache, roofs(), roofs, judge.read_or_count_needed_bytes)
    passed = isinstance(trial, Passed) and not possible.impossible_measurements(trial.measurements)
    assert passed == (form == "honest"), (trial, possible)
    if isinstance(trial, Passed):
        held = sum(4 * prod(a.shape) for a in found.workloads[0].arguments if a.role != "scalar")
        assert needs["large"] < 0.6 * held and trial.speedup.low > 1


def test_what_is_needed_is_counted_for_the_inputs_that_were_timed(place: Place) -> None:
    judge, plain = judge_of(place, loaded(place, "masked_mean", "R=64 C=500").task), kernel("plain", "masked_mean")
    timed = tuple(judge.read_or_measure_timing(plain, plain, None, batch).id for batch in range(2))
    trial = Passed(
        candidate=plain.id, measurements=(), speedup=Interval(estimate=1.0, low=1.0, high=1.0), records=timed
    )
    name = judge.task.workloads[0].name
    lengths = []
    for batch in range(2):
        g = torch.Generator().manual_seed(draw_seed(SECRET, "timing", plain.id, plain.id, batch, 0, name))
        torch.randn(64, 500, generator=g)
        lengths.append(int(torch.randint(1, 62, (64,), generator=g, dtype=torch.int32).sum()))
    assert judge.read_or_count_needed_bytes(trial, (name,)).payload["unique_bytes"] == {
        name: 4 * (min(lengths) + 64 + 64)
    }
