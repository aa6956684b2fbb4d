import pytest

from tools.artifacts import Argument, NumericTolerance, Task
from tools.executors.base import Device
from tools.roofline.hardware import Citation, Headroom, Roof, Spec
from tools.roofline.roofline import (
    MIN_AGREEMENT_RATIO,
    best_roof,
    compute_headroom,
    confirming_roof,
    memory_floor_seconds,
    method_budget,
    reason_binding_roof_may_be_low,
    reason_faster_than_roof,
    reason_roof_may_be_low,
    roof_precision,
    roofline_facts,
    roofline_target,
    roofs_from_specs,
)


def roof(metric, value, origin="measured", others=None):
    return Roof(metric=metric, value=value, unit="", origin=origin, source=f"r{value:g}", others=others)


# By hand: 100 bytes/s, 1000 op/s, a call of 1 s.
ROOFS = (roof("memory_bandwidth", 100.0), roof("compute_float32", 1000.0), roof("launch_latency", 1.0))


def test_memory_bound_by_hand():
    seen = compute_headroom(flops=2000, unique_bytes=900, seconds=40.0, roofs=ROOFS)  # t_m = 9, t_c = 2, t_l = 1
    assert (seen.roof_s, seen.bound, seen.ridge) == (10.0, "memory", 10.0)
    assert seen.intensity == pytest.approx(2000 / 900)
    gaps = (seen.total, seen.memory, seen.compute, seen.latency)
    assert gaps == pytest.approx((0.75, 1 - 9 / 40, 1 - 2 / 40, 1 - 12 / 40))


def test_bounds():
    assert compute_headroom(9000, 100, 20.0, ROOFS).bound == "compute"
    assert compute_headroom(1000, 100, 20.0, ROOFS).bound == "mixed"
    assert compute_headroom(1, 1, 20.0, ROOFS).bound == "latency"
    assert compute_headroom(None, 100, 20.0, ROOFS).bound == "unknown"
    nothing = compute_headroom(10, 10, 1.0, ())
    assert nothing == Headroom(total=None, compute=None, memory=None, latency=None, intensity=1.0), (
        "what is not known is not made up"
    )
    beyond = compute_headroom(2000, 900, 5.0, ROOFS)
    assert beyond.total == beyond.memory == 0.0, "faster than the roof is clipped"
    with pytest.raises(ValueError, match="positive"):
        compute_headroom(1, 1, 0.0, ROOFS)


def test_the_floor_is_the_datas_whatever_the_reference_computes():
    assert memory_floor_seconds(900, ROOFS) == pytest.approx(9.0 + 1.0)
    # The highest bandwidth that anybody claims: a floor must not be beaten by an honest kernel.
    assert memory_floor_seconds(900, (*ROOFS, roof("memory_bandwidth", 300.0, "cited"))) == pytest.approx(3.0 + 1.0)
    assert memory_floor_seconds(900, ROOFS[:1]) == 9.0
    assert memory_floor_seconds(900, ROOFS[1:]) is None


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        (["float32"], ["float32"], "float32"),
        (["float64"], ["float64"], "float64"),
        (["float64"], ["float32"], "float32"),
        (["float64"], ["int32"], "float64"),
        (["bfloat16"], ["bfloat16"], "float32"),
    ],
)
def test_what_is_no_product_is_held_against_the_vector_units(inputs, outputs, expected):
    roles = [("input", dtype) for dtype in inputs] + [("output", dtype) for dtype in outputs]
    arguments = tuple(
        Argument(name=f"x{n}", role=role, dtype=dtype, shape=("N",)) for n, (role, dtype) in enumerate(roles)
    )
    task = Task(name="t", language="cpp", arguments=arguments, reference="", workloads=())
    assert roof_precision(task) == expected


def gaps(compute, memory, latency):
    return Headroom(total=0.9, compute=compute, memory=memory, latency=latency)


def test_budget_follows_the_gaps_within_the_cap():
    assert method_budget(gaps(0.9, 0.9, 0.9)) == {"compute": 1, "memory": 1, "latency": 1, "occupancy": 1}
    assert method_budget(gaps(0.9, 0.1, 0.2)) == {"compute": 2, "memory": 0, "latency": 1, "occupancy": 1}
    assert method_budget(gaps(0.9, 0.0, 0.0)) == {"compute": 2, "memory": 0, "latency": 0, "occupancy": 0}
    assert sum(method_budget(gaps(0.0, 0.1, 0.1)).values()) == 0
    asked = method_budget(gaps(0.9, 0.1, 0.1), asked=("memory", "occupancy", "compute"))
    assert asked == {"compute": 2, "memory": 1, "latency": 0, "occupancy": 1}, "a finding or a page keeps its axis open"
    one = {"compute": 1, "memory": 1, "latency": 1, "occupancy": 1}
    assert method_budget(gaps(0.99, 0.98, 0.97), methods=1) == one, (
        "one method an iteration leaves every open axis a chance"
    )


def test_target_is_the_weighted_roof_time_over_the_fraction():
    seen = compute_headroom(2000, 900, 40.0, ROOFS)
    goal = roofline_target(((1.0, seen), (2.0, seen)), ROOFS, fraction=0.5)
    assert goal.seconds == pytest.approx(60.0)
    assert goal.roof == ROOFS[0]
    assert roofline_target(((1.0, compute_headroom(None, 1, 1.0, ())),), ()).seconds is None


def test_facts_leave_out_what_is_unknown():
    device = Device(kind="cpu", name="x", units=4, last_level_cache=450)
    known = roofline_facts(compute_headroom(2000, 900, 40.0, ROOFS), device, 900, 40.0, ROOFS)
    assert known["roofline.fraction_of_memory_roof"].value == pytest.approx(9 / 40)
    assert known["workload.bytes_over_cache"].value == 2.0
    assert known["roofline.launch_share"].value == pytest.approx(1 / 40)
    unknown = roofline_facts(
        compute_headroom(None, 900, 40.0, ()), device.model_copy(update={"last_level_cache": 0}), 900, 40.0, ()
    )
    assert not {"roofline.headroom", "roofline.launch_share", "workload.bytes_over_cache"} & set(unknown)


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "tf32", "float8", "int8", "other"])
def test_no_other_types_roof_stands_in_for_an_unknown_one_of_a_product(precision):
    seen = compute_headroom(2000, 900, 40.0, ROOFS, precision=precision)
    assert (seen.compute, seen.total, seen.roof_s, seen.bound) == (None, None, None, "unknown")
    assert seen.memory == pytest.approx(1 - 9 / 40), "the memory's is known"
    goal = roofline_target(((1.0, seen),), ROOFS, precision=precision)
    assert goal.seconds is None and goal.description.endswith(f"UNKNOWN, none is known for {precision}")
    if precision != "other":
        faster = (*ROOFS, roof(f"compute_{precision}", 8000.0))
        assert compute_headroom(2000, 900, 40.0, faster, precision).compute == pytest.approx(1 - 0.25 / 40)


@pytest.mark.parametrize(
    ("counted", "policy", "expected"),
    [
        ("int8", "ieee", "int8"),
        ("float8", "ieee", "float8"),
        ("float32", "tf32", "tf32"),
        ("float32", "ieee", "float32"),
        ("other", "ieee", "other"),
        ("", "ieee", "float32"),
    ],
)
def test_the_roof_of_a_product_is_that_of_the_type_counted_in_the_reference(counted, policy, expected):
    """Beside bfloat16 inputs, which are no product by themselves."""
    held = Argument(name="x", role="input", dtype="bfloat16", shape=("N",))
    numeric = NumericTolerance(precision=policy)
    asked = Task(name="t", language="cpp", arguments=(held,), reference="", workloads=(), numeric=numeric)
    assert roof_precision(asked.model_copy(update={"product_type": counted})) == expected


def test_a_time_below_its_roof_has_a_sentence_that_says_why():
    assert reason_faster_than_roof(10.0, 10.0, "compute") == reason_faster_than_roof(10.0, None, "unknown") == ""
    said = reason_faster_than_roof(101e-6, 577e-6, "compute")
    assert said.startswith("The kernel is faster than this roof: it needs fewer operations") and said.count(".") == 1
    assert "in the cache" in reason_faster_than_roof(1.0, 2.0, "memory") and "in the cache" not in said


def spec(metric, value, unit, qualifier="", evidence="vendor"):
    citation = Citation(path="p.md", line=3, sha256="0" * 64)
    return Spec(
        metric=metric, value=value, unit=unit, qualifier=qualifier, product="P", citation=citation, evidence=evidence
    )


@pytest.mark.parametrize(
    ("evidence", "counts"), [("vendor", True), ("measured", True), ("unofficial", False), ("mention", False)]
)
def test_a_figure_that_nobody_answers_for_is_no_roof(evidence, counts):
    assert roofs_from_specs((spec("bf16_tensor", 9.0, "TFLOPS", "sparse"), spec("tdp", 700.0, "W"))) == (), (
        "a sparse peak is none either"
    )
    assert [r.value for r in roofs_from_specs((spec("int8_tensor", 1978.9, "TOPS", "dense"),))] == [1978.9e12]
    found = roofs_from_specs((spec("memory_bandwidth", 2.5, "TB/s", evidence=evidence),))
    assert [(r.value, r.origin, r.source) for r in found] == [(2.5e12, "cited", "<gpu-wiki>/p.md:3")] * counts


def test_a_target_prefers_what_was_measured_here():
    cited = roofs_from_specs((spec("memory_bandwidth", 2.5, "TB/s"),))
    assert best_roof((*cited, *ROOFS), "memory_bandwidth").origin == "measured"
    assert compute_headroom(None, 100, 4.0, (*cited, *ROOFS)).memory == 0.75
    assert best_roof(cited, "memory_bandwidth").origin == "cited"


@pytest.mark.parametrize(
    ("metric", "value", "others", "cleared"),
    [
        ("memory_bandwidth", 1.001 * MIN_AGREEMENT_RATIO, 0.0, True),
        ("memory_bandwidth", 0.999 * MIN_AGREEMENT_RATIO, 0.0, False),
        ("memory_bandwidth", 1.0, 0.4, False),
        ("memory_bandwidth", 1.0, None, False),
        ("compute_float32", 1.0, 0.0, False),
    ],
)
def test_only_the_same_roof_measured_alone_clears_a_doubt(
    metric: str, value: float, others: float | None, cleared: bool
):
    pressed, other = roof("memory_bandwidth", 1.0, others=0.5), roof(metric, value, others=others)
    assert bool(reason_roof_may_be_low((pressed, other), "memory_bandwidth")) != cleared
    assert confirming_roof((pressed, other), "memory_bandwidth") == (other if cleared else None)
    assert reason_roof_may_be_low((other,), "memory_bandwidth") == "" or others == 0.4, (
        "nothing speaks for one made alone"
    )


def test_a_later_measurement_ends_the_doubt_about_one_that_none_confirmed():
    alone = roof("memory_bandwidth", 1.0).model_copy(update={"repeats": 2, "agreeing": 1})
    again = alone.model_copy(update={"value": 0.97, "agreeing": 2})
    assert reason_roof_may_be_low((alone,), "memory_bandwidth") == "no two of its 2 measurements agree"
    assert confirming_roof((alone, again), "memory_bandwidth") == again
    assert reason_roof_may_be_low((alone, again), "memory_bandwidth") == ""


@pytest.mark.parametrize(
    ("flops", "unique_bytes", "asked"),
    [
        (2000, 900, {"memory_bandwidth"}),
        (9000, 100, {"compute_float32"}),
        (1, 1, {"memory_bandwidth", "compute_float32", "launch_latency"}),
        (1000, 100, {"memory_bandwidth", "compute_float32", "launch_latency"}),
    ],
)
def test_the_roof_that_binds_is_the_one_to_doubt(flops: float, unique_bytes: int, asked: set[str]):
    for metric in ("memory_bandwidth", "compute_float32", "launch_latency"):
        roofs = tuple(one.model_copy(update={"others": 0.5 if one.metric == metric else 0.0}) for one in ROOFS)
        assert bool(
            reason_binding_roof_may_be_low(compute_headroom(flops, unique_bytes, 40.0, roofs), roofs, "float32")
        ) == (metric in asked), metric
