import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tools.artifacts import Record
from tools.executors.local import Local
from tools.languages.cpp import Cpp
from tools.roofline.microbenchmarks import (
    PROGRAM,
    Arithmetic,
    Ceilings,
    CudaCeilings,
    attempts,
    cuda_roofs,
    every,
    highest,
    measure,
    of,
    roofs,
)
from tools.store.records import Records


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


def test_a_loop_that_was_optimised_away_gives_no_roof():
    # Twice the work in the same time: twice the rate.
    vanished = tried().model_copy(update={"threads_doubled": (12.0, 14.0)})
    assert "compute_float32" not in {roof.metric for roof in roofs(ceilings(vanished), "record")}


def test_what_a_later_attempt_found_higher_counts(tmp_path):
    records = Records(tmp_path)

    def add(device: str, bandwidth: float, call: float, others: float | None) -> Record:
        found = ceilings().model_copy(update={"bandwidth": {"copy": (bandwidth,)}, "call": (call,), "others": others})
        named = {"key": f"{device}{bandwidth}", "environment": "", "device": device, "protocol": 1}
        return records.add(Record(kind="roof", **named, payload=found.model_dump(mode="json")))

    first = of(add("cpu:0 a", 5.0, 1e-9, 0.6))
    assert highest(first, records) == first and [record.device for record in attempts(first, records)] == ["cpu:0 a"]
    again = add("cpu:0 a", 9.0, 2e-9, 0.0)
    add("cpu:0 another", 20.0, 5e-10, None)
    best = {roof.metric: roof for roof in highest(first, records)}
    assert len(attempts(first, records)) == 2 and len(best) == len(first)
    assert (best["memory_bandwidth"].value, best["memory_bandwidth"].source, best["memory_bandwidth"].doubt) == (9.0, again.id, "")
    assert best["launch_latency"].value == 1e-9 and best["launch_latency"].doubt
    left_out = tuple(roof for roof in first if roof.metric != "compute_float32")
    assert "compute_float32" in {roof.metric for roof in highest(left_out, records)}, "another measurement has it"
    assert set(every(first, records)) == {*first, *of(again)}, "each measurement once, and of this device alone"


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
    assert records.get(first[0].source).kind == "roof"


def test_roofs_of_a_gpu_are_medians_of_a_real_measurement():
    # Recorded on an H200 by harness/device/roofs_cuda.py.
    found = CudaCeilings.model_validate_json((Path(__file__).parents[1] / "fixtures" / "roofs_h200.json").read_text())
    made = {roof.metric: roof for roof in cuda_roofs(found, "record")}
    assert made["memory_bandwidth"].value == median(found.bandwidth["read"]) > median(found.bandwidth["copy"])
    assert made["compute_float32"].value < made["compute_tf32"].value < made["compute_float16"].value
    assert made["launch_latency"].value == median(found.launch["device"]) < min(found.launch["event"])
    assert {(roof.origin, roof.source) for roof in made.values()} == {("measured", "record")}
    # A type that could not be tried gives no roof.
    less = found.model_copy(update={"products": {"float32": found.products["float32"]}})
    assert "compute_float16" not in {roof.metric for roof in cuda_roofs(less, "record")}


def stat(*cores: tuple[int, int, int, int]) -> str:
    """A /proc/stat of these cores: user, system, idle and stolen seconds, of a hundred ticks each."""
    rows = [(f"cpu{at}", *core) for at, core in enumerate(cores)]
    whole = ("cpu ", *(sum(column) for column in zip(*cores, strict=True)))
    lines = [
        f"{name} {100 * user} 0 {100 * system} {100 * idle} 0 0 0 {100 * stolen} 0 0" for name, user, system, idle, stolen in (whole, *rows)
    ]
    return "\n".join([*lines, "intr 1 2 3", "ctxt 5"])


@pytest.fixture(scope="module")
def shares(tmp_path_factory):
    """Two files, own seconds, wall seconds -> what the program makes of them."""
    folder = tmp_path_factory.mktemp("stat")
    (folder / "shares.cpp").write_text(
        f'#define main roofs_main\n#include "{PROGRAM}"\n#undef main\n'
        'int main(int, char** v) { std::printf("%.3f", others(Cores(v[1]), Cores(v[2]), std::atof(v[3]), std::atof(v[4]))); }\n'
    )
    subprocess.run(["c++", "-std=c++17", "-O1", "-pthread", "shares.cpp", "-o", "shares"], cwd=folder, check=True)

    def found(before: str, after: str, own: float, wall: float) -> float:
        (folder / "before").write_text(before)
        (folder / "after").write_text(after)
        command = [folder / "shares", folder / "before", folder / "after", str(own), str(wall)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what its cores were at")
def test_the_share_of_others_is_that_of_our_own_cores(shares):
    ours = sorted(os.sched_getaffinity(0))
    many = max(ours) + 61
    idle = [(7, 3, 90, 0)] * many

    def after(user: int, system: int, stolen: int) -> str:
        """Ten seconds later, and what our cores did in them; all others were idle."""
        at_work = (7 + user, 3 + system, 100 - user - system - stolen, stolen)
        return stat(*(at_work if core in ours else (7, 3, 100, 0) for core in range(many)))

    count = len(ours)
    assert shares(stat(*idle), after(6, 2, 0), 8 * count, 10) == 0.0
    assert shares(stat(*idle), after(6, 2, 0), 3 * count, 10) == 0.5
    assert shares(stat(*idle), after(3, 1, 5), 4 * count, 10) == 0.5, "what other virtual machines took is not idle"
    # Less than we took ourselves: a sandbox that counts nothing. Nothing is made up then.
    assert shares(stat(*idle), stat(*idle), 8 * count, 10) == -1.0
    assert shares("", "", 8, 10) == -1.0
