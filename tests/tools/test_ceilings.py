import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tools.ceilings import Arithmetic, Ceilings, CudaCeilings, cuda_roofs, measure, roofs
from tools.executors.local import Local
from tools.languages.cpp import Cpp
from tools.records import Records


def tried(once=(10.0, 12.0), doubled=(11.0, 11.5)):
    return Arithmetic(once=once, doubled=doubled, threads_once=(6.0, 7.0), threads_doubled=doubled and (6.5, 6.0))


def ceilings(float32=None):
    return Ceilings(
        threads=2,
        array_bytes=1,
        bandwidth={"copy": (3.0, 4.0), "stream": (5.0, 2.0)},
        float32=float32 or tried(),
        float64=tried(),
        call=(2e-9, 1e-9),
    )


def test_the_best_try_is_the_roof_and_names_its_record():
    found = {roof.metric: roof for roof in roofs(ceilings(), "record")}
    assert {metric: roof.value for metric, roof in found.items()} == {
        "memory_bandwidth": 5.0,
        "compute_float32": 13.0,
        "compute_float64": 13.0,
        "launch_latency": 1e-9,
    }
    assert {(roof.origin, roof.source) for roof in found.values()} == {("measured", "record")}


def test_a_roof_says_that_others_used_the_machine_while_it_was_measured():
    for others, doubt in ((None, ""), (0.04, ""), (0.29, "others had 29.0 % of the machine meanwhile")):
        assert {roof.doubt for roof in roofs(ceilings().model_copy(update={"others": others}), "record")} == {doubt}


def test_a_loop_that_was_optimised_away_gives_no_roof():
    # Twice the work in the same time: twice the rate.
    vanished = tried().model_copy(update={"threads_doubled": (12.0, 14.0)})
    assert "compute_float32" not in {roof.metric for roof in roofs(ceilings(vanished), "record")}


@pytest.mark.slow
def test_really_measured_here(tmp_path):
    records = Records(tmp_path)
    with Local(records.blobs, tmp_path / "scratch") as executor:
        first = measure(Cpp(), executor, records)
        again = measure(Cpp(), executor, records)
    values = {roof.metric: roof.value for roof in first}
    assert first == again
    assert len(list(records)) == 1
    # No figure of any machine: only what must hold on all. Arithmetic is faster than memory, a call shorter than a microsecond.
    assert 1e8 < values["memory_bandwidth"] < values["compute_float32"]
    assert values["compute_float64"] < 1.2 * values["compute_float32"]
    assert 0 < values["launch_latency"] < 1e-6
    assert all(roof.others is not None and 0 <= roof.others <= 1 for roof in first)
    assert records.get(first[0].source).kind == "roof"


def test_roofs_of_a_gpu_are_medians_of_a_real_measurement():
    # Recorded on an H200 by harness/roofs_cuda.py.
    found = CudaCeilings.model_validate_json((Path(__file__).parent / "fixtures" / "roofs_h200.json").read_text())
    made = {roof.metric: roof for roof in cuda_roofs(found, "record")}
    assert made["memory_bandwidth"].value == median(found.bandwidth["read"]) > median(found.bandwidth["copy"])
    assert made["compute_float32"].value < made["compute_tf32"].value < made["compute_float16"].value
    assert made["launch_latency"].value == median(found.launch["device"]) < min(found.launch["event"])
    assert {(roof.origin, roof.source) for roof in made.values()} == {("measured", "record")}
    # A type that could not be tried gives no roof.
    less = found.model_copy(update={"products": {"float32": found.products["float32"]}})
    assert "compute_float16" not in {roof.metric for roof in cuda_roofs(less, "record")}


@pytest.mark.slow
def test_others_are_seen_while_roofs_are_measured(tmp_path):
    records = Records(tmp_path)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        with Local(records.blobs, tmp_path / "scratch") as executor:
            others = measure(Cpp(), executor, records)[0].others
    finally:
        for one in busy:
            one.kill()
            one.wait()
    # They have about half of it: as many threads as cores on either side.
    assert others is not None and others > 0.2
