import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.support import run_captured
from tools.artifacts import Record
from tools.roofline.lower_bounds import limits_from_roofs
from tools.roofline.microbenchmarks import (
    PROGRAM,
    ArithmeticRates,
    CpuCeilings,
    CudaCeilings,
    all_measured_roofs,
    best_measured_roofs,
    cpu_roofs,
    cuda_roofs,
    measure_until_agreed,
    roof_records_of_device,
    roofs_of_record,
)
from tools.store.records import Records


def tried(once=(10.0, 12.0), doubled=(11.0, 11.5)):
    return ArithmeticRates(once=once, doubled=doubled, threads_once=(6.0, 7.0), threads_doubled=doubled and (6.5, 6.0))


def ceilings(float32=None):
    return CpuCeilings(
        threads=2,
        array_bytes=1,
        bandwidth={"copy": (3.0, 4.0), "stream": (5.0, 2.0)},
        float32=float32 or tried(),
        float64=tried(),
        call=(2e-9, 1e-9),
    )


def test_the_best_try_is_the_roof_and_names_its_record():
    found = {roof.metric: roof for roof in cpu_roofs(ceilings(), "record")}
    expected = {"memory_bandwidth": 5.0, "compute_float32": 13.0, "compute_float64": 13.0, "launch_latency": 1e-9}
    assert {metric: roof.value for metric, roof in found.items()} == expected
    assert {(roof.origin, roof.source) for roof in found.values()} == {("measured", "record")}


def test_a_loop_that_was_optimised_away_gives_no_roof():
    # Twice the work in the same time: twice the rate.
    vanished = tried().model_copy(update={"threads_doubled": (12.0, 14.0)})
    assert "compute_float32" not in {roof.metric for roof in cpu_roofs(ceilings(vanished), "record")}


def test_what_a_later_attempt_found_higher_counts(tmp_path):
    records = Records(tmp_path)

    def add(device: str, bandwidth: float, call: float, others: float | None) -> Record:
        found = ceilings().model_copy(update={"bandwidth": {"copy": (bandwidth,)}, "call": (call,), "others": others})
        named = {"key": f"{device}{bandwidth}", "environment": "", "device": device, "protocol": 1}
        return records.add(Record(kind="roof", **named, payload=found.model_dump(mode="json")))

    first = roofs_of_record(add("cpu:0 a", 5.0, 1e-9, 0.6))
    assert best_measured_roofs(first, records) == first and [
        record.device for record in roof_records_of_device(first, records)
    ] == ["cpu:0 a"]
    again = add("cpu:0 a", 9.0, 2e-9, 0.0)
    add("cpu:0 another", 20.0, 5e-10, None)
    best = {roof.metric: roof for roof in best_measured_roofs(first, records)}
    assert len(roof_records_of_device(first, records)) == 2 and len(best) == len(first)
    assert (best["memory_bandwidth"].value, best["memory_bandwidth"].source, best["memory_bandwidth"].doubt) == (
        9.0,
        again.id,
        "",
    )
    assert best["launch_latency"].value == 1e-9 and best["launch_latency"].doubt
    left_out = tuple(roof for roof in first if roof.metric != "compute_float32")
    assert "compute_float32" in {roof.metric for roof in best_measured_roofs(left_out, records)}, (
        "another measurement has it"
    )
    assert set(all_measured_roofs(first, records)) == {*first, *roofs_of_record(again)}, (
        "each measurement once, and of this device alone"
    )


@pytest.mark.parametrize(
    ("bandwidths", "seconds", "measured", "doubt"),
    [
        ((10.0, 10.2), 1.0, 2, ""),
        ((10.0, 19.0, 18.5), 1.0, 3, ""),
        # Two that agree below the best confirm nothing: noise only slows down.
        ((19.0, 10.0, 10.1, 10.2, 10.0), 1.0, 5, "no two of its 5 measurements agree"),
        ((10.0, 19.0, 19.0), 2.4, 2, "no two of its 2 measurements agree"),
        ((10.0, 10.0), 9.0, 2, ""),
    ],
)
def test_a_roof_is_measured_until_the_two_best_agree_or_the_time_is_over(
    tmp_path: Path, bandwidths: tuple[float, ...], seconds: float, measured: int, doubt: str
):
    script = iter(bandwidths)
    calls: list[float] = []

    def measure() -> CpuCeilings:
        calls.append(next(script))
        return ceilings().model_copy(update={"bandwidth": {"copy": (calls[-1],)}, "others": 0.01 * len(calls)})

    found = measure_until_agreed(measure, lambda: seconds * len(calls))
    record = Record(kind="roof", key="k", device="cpu:0 a", payload=found.model_dump(mode="json"))
    roofs = {roof.metric: roof for roof in roofs_of_record(record)}
    best = roofs["memory_bandwidth"]
    assert (len(calls), best.repeats, best.value, best.doubt) == (measured, measured, max(calls), doubt)
    assert roofs["launch_latency"].agreeing == measured and not roofs["launch_latency"].doubt
    possible = limits_from_roofs({"w": 1 << 30}, 1 << 20, tuple(roofs.values()))
    assert possible.lower_bound("w").doubt == doubt, "what is doubted refuses no kernel"


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says what its cores were at")
def test_the_share_of_others_is_that_of_our_own_cores(tmp_path):
    (tmp_path / "shares.cpp").write_text(
        f'#define main roofs_main\n#include "{PROGRAM}"\n#undef main\n'
        'int main(int, char** v) { std::printf("%.3f", others(Cores(v[1]), Cores(v[2]), std::atof(v[3]), 10)); }\n'
    )
    subprocess.run(["c++", "-std=c++17", "-O1", "-pthread", "shares.cpp", "-o", "shares"], cwd=tmp_path, check=True)
    ours = sorted(os.sched_getaffinity(0))

    def share(busy: int, stolen: int, own: int) -> float:
        """Of ten seconds in which each of our cores was so long at work or another's; we used `own` seconds of each."""
        for file, did in (("before", (0, 0, 0)), ("after", (busy, 10 - busy - stolen, stolen))):
            counted = [
                (core, did if core in ours else (0, 10 * (file == "after"), 0)) for core in range(max(ours) + 61)
            ]
            rows = [
                f"cpu{core} {100 * user} 0 0 {100 * idle} 0 0 0 {100 * taken} 0 0\n"
                for core, (user, idle, taken) in counted
            ]
            (tmp_path / file).write_text("".join(["cpu  9 0 0 9 0 0 0 9 0 0\n", *rows]))
        command = [tmp_path / "shares", tmp_path / "before", tmp_path / "after", str(own * len(ours))]
        return float(run_captured(command, check=True).stdout)

    assert (share(8, 0, 8), share(8, 0, 3)) == (0.0, 0.5)
    assert share(4, 5, 4) == 0.5, "what other virtual machines took is not idle"
    assert share(0, 0, 8) == -1.0, "less than we took ourselves: a sandbox that counts nothing, and nothing is made up"
