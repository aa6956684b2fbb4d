import pytest

from tools.artifacts import Argument, Device, Headroom, Roof, Task, Workload
from tools.roofline import budget, facts, headroom, memory_floor, precision, target


def roof(metric, value, origin="measured"):
    return Roof(metric=metric, value=value, unit="", origin=origin, source="r")


# By hand: 100 bytes/s, 1000 op/s, a call of 1 s.
ROOFS = (roof("memory_bandwidth", 100.0), roof("compute_float32", 1000.0), roof("launch_latency", 1.0))


def test_memory_bound_by_hand():
    seen = headroom(flops=2000, unique_bytes=900, seconds=40.0, roofs=ROOFS)  # t_m = 9, t_c = 2, t_l = 1
    assert (seen.roof_s, seen.bound, seen.ridge) == (10.0, "memory", 10.0)
    assert seen.intensity == pytest.approx(2000 / 900)
    assert seen.total == pytest.approx(0.75)
    assert seen.memory == pytest.approx(1 - 9 / 40)
    assert seen.compute == pytest.approx(1 - 2 / 40)
    assert seen.latency == pytest.approx(1 - 12 / 40)


def test_bounds():
    assert headroom(9000, 100, 20.0, ROOFS).bound == "compute"
    assert headroom(1000, 100, 20.0, ROOFS).bound == "mixed"
    assert headroom(1, 1, 20.0, ROOFS).bound == "latency"
    assert headroom(None, 100, 20.0, ROOFS).bound == "unknown"


def test_faster_than_the_roof_is_clipped():
    seen = headroom(2000, 900, 5.0, ROOFS)
    assert seen.total == seen.memory == 0.0


def test_missing_roofs_are_carried_through():
    nothing = headroom(10, 10, 1.0, ())
    assert nothing == Headroom(total=None, compute=None, memory=None, latency=None, intensity=1.0)
    only_memory = headroom(None, 100, 4.0, ROOFS[:1])
    assert (only_memory.compute, only_memory.memory, only_memory.roof_s) == (None, 0.75, 1.0)
    assert headroom(10, 10, 1.0, ROOFS, precision="float64").compute is None


def test_measured_goes_before_cited():
    mixed = (roof("memory_bandwidth", 500.0, "cited"), *ROOFS)
    assert headroom(None, 100, 4.0, mixed).memory == 0.75


def test_the_floor_is_the_datas_whatever_the_reference_computes():
    assert memory_floor(900, ROOFS) == pytest.approx(9.0 + 1.0)
    # The highest bandwidth that anybody claims: a floor must not be beaten by an honest kernel.
    assert memory_floor(900, (*ROOFS, roof("memory_bandwidth", 300.0, "cited"))) == pytest.approx(3.0 + 1.0)
    assert memory_floor(900, ROOFS[:1]) == 9.0
    assert memory_floor(900, ROOFS[1:]) is None


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        (("float32",), ("float32",), "float32"),
        (("float64",), ("float64",), "float64"),
        (("float64",), ("float32",), "float32"),
        (("float32",), ("float32", "float64"), "float64"),
        (("float64", "int32"), ("int64",), "float64"),
        (("int32",), ("int32",), "float32"),
    ],
)
def test_the_compute_roof_is_that_of_the_outputs_type(inputs, outputs, expected):
    arguments = [Argument(name=f"i{n}", role="input", dtype=d, shape=("N",)) for n, d in enumerate(inputs)]
    arguments += [Argument(name=f"o{n}", role="output", dtype=d, shape=("N",)) for n, d in enumerate(outputs)]
    workloads = (Workload(name="w", dims={"N": 8}),)
    assert precision(Task(name="t", language="cpp", arguments=tuple(arguments), reference="", workloads=workloads)) == expected


def test_a_float64_tasks_target_names_its_own_roof():
    roofs = (*ROOFS, roof("compute_float64", 500.0))
    seen = headroom(9000, 100, 40.0, roofs, "float64")
    assert (seen.roof_s, seen.bound) == (19.0, "compute")
    found = target(((1.0, seen),), roofs, 1.0, "float64")
    assert found.roof is not None
    assert found.roof.metric == "compute_float64"


def test_seconds_must_be_positive():
    with pytest.raises(ValueError, match="positive"):
        headroom(1, 1, 0.0, ROOFS)


def gaps(compute, memory, latency):
    return Headroom(total=0.9, compute=compute, memory=memory, latency=latency)


def test_budget_follows_the_gaps_within_the_cap():
    assert budget(gaps(0.9, 0.9, 0.9)) == {"compute": 1, "memory": 1, "latency": 1, "occupancy": 1}
    assert budget(gaps(0.9, 0.1, 0.2)) == {"compute": 2, "memory": 0, "latency": 1, "occupancy": 1}
    assert budget(gaps(0.9, 0.0, 0.0)) == {"compute": 2, "memory": 0, "latency": 0, "occupancy": 0}
    assert sum(budget(gaps(0.0, 0.1, 0.1)).values()) == 0


def test_one_method_an_iteration_still_leaves_every_open_axis_a_chance():
    assert budget(gaps(0.99, 0.98, 0.97), methods=1) == {"compute": 1, "memory": 1, "latency": 1, "occupancy": 1}
    assert budget(gaps(None, 0.05, None), methods=1) == {"compute": 1, "memory": 0, "latency": 1, "occupancy": 1}
    assert not any(budget(gaps(0.9, 0.9, 0.9), methods=0).values())


def test_target_is_the_weighted_roof_time_over_the_fraction():
    seen = headroom(2000, 900, 40.0, ROOFS)
    goal = target(((1.0, seen), (2.0, seen)), ROOFS, fraction=0.5)
    assert goal.seconds == pytest.approx(60.0)
    assert goal.roof == ROOFS[0]
    assert target(((1.0, headroom(None, 1, 1.0, ())),), ()).seconds is None


def test_facts_leave_out_what_is_unknown():
    device = Device(kind="cpu", name="x", units=4, last_level_cache=450)
    known = facts(headroom(2000, 900, 40.0, ROOFS), device, 900, 40.0, ROOFS)
    assert known["roofline.fraction_of_memory_roof"].value == pytest.approx(9 / 40)
    assert known["workload.bytes_over_cache"].value == 2.0
    assert known["roofline.launch_share"].value == pytest.approx(1 / 40)
    unknown = facts(headroom(None, 900, 40.0, ()), device.model_copy(update={"last_level_cache": 0}), 900, 40.0, ())
    assert not {"roofline.headroom", "roofline.launch_share", "workload.bytes_over_cache"} & set(unknown)
