"""What is made of times, roofs and findings: by hand, with known figures."""

from tools.analysis import diagnosis
from tools.artifacts import Argument, Profile, Quantity, Remark, Task, Workload
from tools.executors.base import Device
from tools.executors.protocol import ProbedWorkload
from tools.roofline.hardware import Roof

ROOFS = (
    Roof(metric="memory_bandwidth", value=100.0, unit="B/s", origin="measured", source="r1"),
    Roof(metric="compute_float32", value=1000.0, unit="op/s", origin="measured", source="r1"),
)
DEVICE = Device(kind="cpu", name="a CPU", units=4)


def seen(name, flops=100.0, unique_bytes=1000, weight=1.0):
    return ProbedWorkload(name=name, dims={}, weight=weight, arguments=(), flops=flops, unique_bytes=unique_bytes)


def task(*names):
    return Task(
        name="t", language="cpp", arguments=(), reference="", workloads=tuple(Workload(name=n, dims={}) for n in names)
    )


def profile(**metrics):
    remark = Remark(tool="gcc", line=7, kind="missed", text="loop not vectorized: why")
    named = {name.replace("__", "."): Quantity(value=value) for name, value in metrics.items()}
    return Profile(tool="static", launch="static", source="k", metrics=named, remarks=(remark,))


def test_the_whole_is_weighted_by_time():
    placed = diagnosis.compute_task_roofline(
        task("a", "b"), [seen("a"), seen("b")], {"a": 20.0, "b": 80.0}, ROOFS, DEVICE
    )
    found = diagnosis.diagnose(placed, [], {}, DEVICE, "a")
    # Each takes 10 s at the roof: gaps of 0.5 and 0.875, in 20 and 80 of 100 s.
    assert abs(found.headroom.total - (0.2 * 0.5 + 0.8 * 0.875)) < 1e-9
    assert "20.0 % of the measured roof" in found.headline


def test_the_workloads_with_most_weight_and_farthest_from_the_roof_are_profiled_and_named():
    sizes = [seen("a"), seen("b", weight=9.0), seen("c"), seen("d", unique_bytes=10)]
    placed = diagnosis.compute_task_roofline(
        task("a", "b", "c", "d"), sizes, {"a": 20.0, "b": 11.0, "c": 80.0, "d": 0.2}, ROOFS, DEVICE
    )
    names = diagnosis.profiled_workloads(sizes, {row.workload: row.headroom for row in placed.workloads})
    assert names == ("b", "c") and diagnosis.profiled_workloads(sizes, {}) == ("b",)
    assert diagnosis.profiled_workloads([seen("a", unique_bytes=10), seen("b")], {}) == ("b",), "of equals the larger"
    near = profile(ncu__stall_share__membar=0.0).model_copy(update={"workload": "b"})
    stalled = profile(ncu__stall_share__membar=0.9).model_copy(update={"workload": "c"})
    found = diagnosis.diagnose(placed, [(near, "rb"), (stalled, "rc")], {}, DEVICE, "b")
    (finding,) = [one for one in found.findings if one.rule == "stall_membar"]
    assert finding.text.startswith("at c: warps spend 90%") and finding.evidence == ("rc",)


def test_a_float64_task_is_held_against_its_own_roof():
    out = Argument(name="out", role="output", dtype="float64", shape=("N",))
    roofs = (*ROOFS, Roof(metric="compute_float64", value=5.0, unit="op/s", origin="measured", source="r1"))
    (placed,) = diagnosis.compute_task_roofline(
        task("a").model_copy(update={"arguments": (out,)}), [seen("a")], {"a": 50.0}, roofs, DEVICE
    ).workloads
    assert (placed.bound, placed.roof_s) == ("compute", 20.0)


def test_the_first_finding_is_the_largest_lack_and_names_its_evidence():
    placed = diagnosis.compute_task_roofline(task("a"), [seen("a")], {"a": 100.0}, ROOFS, DEVICE)
    found = diagnosis.diagnose(placed, [(profile(compiler__loops_missed=2.0), "rec")], {"ncu": "not here"}, DEVICE, "a")
    assert "the main finding is loop_not_vectorised: " in found.headline
    told = diagnosis.render_diagnosis(found, "cpp", kept=False)
    assert all(
        said in told
        for said in ("record rec", "gcc, line 7: loop not vectorized: why", "ncu: N/A, not here", "--store")
    )
    assert "--store" not in diagnosis.render_diagnosis(found, "cpp", kept=True)


def test_no_roof_stands_above_a_measured_time_without_the_reason():
    placed = diagnosis.compute_task_roofline(task("a"), [seen("a")], {"a": 1e-9}, ROOFS, DEVICE)
    assert placed.workloads[0].roof_s > 1e-9 and "a: The kernel is faster than this roof: it " in placed.remark


def test_what_is_not_known_is_said():
    placed = diagnosis.compute_task_roofline(task("a"), [seen("a", flops=None)], {}, (), DEVICE)
    assert placed.workloads[0].roof_s is None
    told = diagnosis.render_roofline(placed)
    assert all(said in told for said in ("nothing was timed", "could not be counted", "no roof is known here"))
    timed = diagnosis.compute_task_roofline(task("a"), [seen("a")], {"a": 1.0}, (), DEVICE)
    assert "the distance to the roof is unknown" in diagnosis.diagnose(timed, [], {}, DEVICE, "a").headline


def test_utilisation_is_what_is_reached_of_the_measured_and_of_the_cited_roofs():
    placed = diagnosis.compute_task_roofline(task("a"), [seen("a", flops=4000.0)], {"a": 20.0}, ROOFS, DEVICE)
    cited = Roof(metric="memory_bandwidth", value=200.0, unit="B/s", origin="cited", source="<gpu-wiki>/a.md:3")
    _, _, row, source = diagnosis.render_utilisation(task("a"), placed, (cited,)).splitlines()
    assert (
        " ".join(row.split()) == "a 20 s 50 B/s 50.0 % 25.0 % 200 op/s 20.0 % N/A"
        and "cited: <gpu-wiki>/a.md:3" in source
    )
