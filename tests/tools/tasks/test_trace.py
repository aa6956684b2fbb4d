from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import one_sentence
from tools.artifacts import Argument, Task, Workload
from tools.tasks import trace

TASK = Task(
    name="softmax",
    language="cuda",
    arguments=(
        Argument(name="x", role="input", dtype="float32", shape=("rows", "columns")),
        Argument(name="out", role="output", dtype="float32", shape=("rows", "columns")),
        Argument(name="rows", role="scalar", dtype="int32"),
    ),
    reference="",
    baseline="__global__ void softmax_kernel(const float* x, float* out, int rows) {}",
    workloads=(
        Workload(name="a", dims={"rows": 8, "columns": 4, "eps": 1e-5}),
        Workload(name="b", dims={"rows": 9, "columns": 5, "eps": 1e-5}),
    ),
)
"""eps is the same everywhere, the other two vary."""


def launch(rows: int, duration: float, **more: object) -> dict[str, object]:
    said = {"kernel": "void softmax_kernel<float>(float const*)", "grid": [rows, 1, 1], "block": [64, 1, 1]}
    return {**said, "scalars": {"rows": rows}, "shapes": {"x": [rows, 4]}, "duration_us": duration, **more}


def parts(folder: Path, *launches: dict[str, object], task: Task = TASK) -> tuple[trace.LaunchGroup, ...]:
    path = folder / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, launches)))
    return trace.group_launches(trace.read_trace(path), task, path)


@pytest.mark.parametrize(
    ("launches", "kept", "weights"),
    [
        ([launch(8, 5.0)] * 3, [(8, "all", 3)], [(8, 3)]),
        (
            [launch(8, 10.0)] * 8 + [launch(16, 20.0), launch(32, 1.0)],
            [(8, "all", 8), (16, "all", 1)],
            [(8, 8), (16, 1)],
        ),
        ([launch(8, 95.0), launch(16, 5.0)], [(8, "all", 1)], [(8, 1)]),
        ([launch(8, 10.0)] * 6 + [launch(8, 100.0)] * 2, [(8, "slow", 2), (8, "fast", 6)], [(8, 8)]),
        ([launch(8, 1.0)] * 6 + [launch(8, 100.0)] * 2, [(8, "slow", 2)], [(8, 8)]),
        ([launch(8, 10.0)] * 5 + [launch(8, 100.0)] * 2, [(8, "all", 7)], [(8, 7)]),
        ([launch(8, 10.0), launch(8, 9.0, kernel="other_kernel")], [(8, "all", 1)], [(8, 1)]),
    ],
    ids=[
        "one size",
        "nine tenths of the time",
        "the rest is left out",
        "split",
        "only the slow matter",
        "too few to split",
        "other kernels",
    ],
)
def test_launches_become_weighted_sizes(
    tmp_path: Path, launches: list[dict[str, object]], kept: list[tuple[int, str, int]], weights: list[tuple[int, int]]
) -> None:
    found = parts(tmp_path, *launches)
    assert [(part.dims["rows"], part.speed, part.launches) for part in found if part.selected] == kept
    assert trace.workload_weights(found) == tuple(
        ({"rows": rows, "columns": 4, "eps": 1e-5}, count) for rows, count in weights
    )
    assert sum(part.share for part in found) == pytest.approx(1)


def test_a_csv_says_the_same_as_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        'Kernel,Grid,Scalars,Shapes,Duration\nsoftmax_kernel,"8,1,1",rows=8,x=8x4,5\nsoftmax_kernel,"9,1,1",rows=9,x=9x4,1.5\n'
    )
    found = trace.group_launches(trace.read_trace(path), TASK, path)
    assert found == parts(tmp_path, launch(8, 5.0), launch(9, 1.5))


@pytest.mark.parametrize(
    ("launches", "told"),
    [
        ([launch(8, 5.0, shapes={})], ":1: columns is missing"),
        ([launch(8, 5.0), launch(8, 5.0, shapes={"x": [9, 4]})], ":2: rows is 8 and 9"),
        ([launch(8, 0.0)], ":1: its duration is 0.0; it must be above 0"),
        ([{"kernel": "softmax_kernel"}], ":1: has no 'duration'"),
        ([launch(8, 5.0, kernel="one"), launch(8, 9.0, kernel="two")], "only two, one"),
        ([], "contains no launch"),
    ],
)
def test_what_a_trace_does_not_say_is_one_sentence_that_names_the_line(
    tmp_path: Path, launches: list[dict[str, object]], told: str
) -> None:
    with one_sentence(told):
        parts(tmp_path, *launches)
