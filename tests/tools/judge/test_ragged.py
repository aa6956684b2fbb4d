"""Kernels whose inputs say how much of the data counts: the bytes are counted for the inputs that were timed."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.tools.builders import open_judge
from tools.artifacts import Candidate, Interval, Passed
from tools.contracts.checked_cases import draw_seed
from tools.executors.local import LocalExecutor
from tools.gate.judge_settings import JudgeSettings
from tools.languages.cpp import Cpp
from tools.store.records import Records
from tools.tasks.loader import load_task_files

TASK = Path(__file__).parents[2] / "kernels" / "tasks" / "masked_mean"
SECRET = b"s" * 32


def test_what_is_needed_is_counted_for_the_inputs_that_were_timed(tmp_path: Path) -> None:
    with LocalExecutor(Records(tmp_path).blobs, tmp_path / "scratch") as executor:
        files = (TASK / "kernel.cpp", TASK / "reference.py", "R=64 C=500", executor, Records(tmp_path).blobs)
        settings = JudgeSettings(pairs=8, batches=2, warm_pairs=0)
        task = load_task_files(*files).task
        judge = open_judge(task, Cpp(), executor, Records(tmp_path), settings, secret=SECRET)
        plain = Candidate(language="cpp", files={"kernel.cpp": files[0].read_text()})
        timed = tuple(judge.read_or_measure_timing(plain, plain, None, batch).id for batch in range(2))
        gain = Interval(estimate=1.0, low=1.0, high=1.0)
        trial = Passed(candidate=plain.id, measurements=(), speedup=gain, records=timed)
        name = judge.task.workloads[0].name
        lengths = []
        for batch in range(2):
            g = torch.Generator().manual_seed(draw_seed(SECRET, "timing", plain.id, plain.id, batch, 0, name))
            torch.randn(64, 500, generator=g)
            lengths.append(int(torch.randint(1, 62, (64,), generator=g, dtype=torch.int32).sum()))
        counted = judge.read_or_count_needed_bytes(trial, (name,)).payload["unique_bytes"]
    assert counted == {name: 4 * (min(lengths) + 64 + 64)}
