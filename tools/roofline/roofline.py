"""The roofline model: operations, bytes and seconds against roofs -> headroom, method budget, target. Pure.

With `t_m = bytes / bandwidth`, `t_c = operations / compute roof` and `t_l` the latency of one empty call, the roof's
time is `max(t_m, t_c) + t_l`. The gap of an axis alone does not say whether a kernel is near its peak: one at the
memory roof is far from the compute roof by nature.

The operations are those of the reference. A better algorithm needs fewer, so the roof's time is what to aim at and no
lower bound: what no honest kernel can undercut is `memory_floor_seconds`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from tools.artifacts import Axis, Bound, Quantity, Task
from tools.executors.base import Device
from tools.roofline.hardware import Headroom, Roof, RoofMetric, Spec, Target

Precision = Literal["float32", "float64", "tf32", "float16", "bfloat16", "float8", "int8", "other"]
VECTOR_TYPES = ("float32", "float64")
"""The types in which operators other than products compute."""
ROOF_BY_WIKI_METRIC: dict[str, RoofMetric] = {
    "memory_bandwidth": "memory_bandwidth",
    "fp32": "compute_float32",
    "tf32_tensor": "compute_tf32",
    "fp16_tensor": "compute_float16",
    "bf16_tensor": "compute_bfloat16",
    "fp8_tensor": "compute_float8",
    "int8_tensor": "compute_int8",
}
"""The wiki's name of a peak -> the roof's metric."""
SCALE_BY_SI_PREFIX = {"G": 1e9, "T": 1e12, "P": 1e15}
MIN_OPEN_HEADROOM = 0.15
"""Headroom of an axis below which the method budget gives it nothing unless a finding asks for it (A4)."""
MIN_AGREEMENT_RATIO = 0.95
"""Minimum ratio of two measurements of a roof at which one confirms the other."""
MAX_BALANCED_RATIO = 1.25
"""Ratio of memory and compute time within which both are the limit."""


def compute_headroom(
    flops: float | None,
    unique_bytes: int,
    seconds: float,
    roofs: Sequence[Roof],
    precision: Precision = "float32",
) -> Headroom:
    """Return the distance of one measured call from the roofs.

    `flops`: operations of a call, None where nobody counted them; `unique_bytes`: inputs and outputs, each once;
    `seconds` > 0. Gaps are clipped to 0..1 and None where their roof or count is missing: `compute = 1 - t_c/t`,
    `memory = 1 - t_m/t`, and `latency = 1 - (t_m + t_c + t_l)/t`, the share that neither explains even if the two never
    overlapped.
    """
    if seconds <= 0:
        raise ValueError(f"seconds must be positive, not {seconds}")
    bandwidth, compute = best_roof(roofs, "memory_bandwidth"), compute_roof(roofs, precision)
    t_m, t_c, t_l = _roof_times(flops, unique_bytes, roofs, precision)
    known = [t for t in (t_m, t_c) if t is not None]
    roof_s, bound = roof_time(flops, unique_bytes, roofs, precision)
    return Headroom(
        total=_headroom_of(roof_s, seconds),
        compute=_headroom_of(t_c, seconds),
        memory=_headroom_of(t_m, seconds),
        latency=_headroom_of(sum(known) + t_l, seconds) if known else None,
        roof_s=roof_s,
        bound=bound,
        intensity=flops / unique_bytes if flops is not None and unique_bytes else None,
        ridge=compute.value / bandwidth.value if compute and bandwidth else None,
    )


def roof_time(
    flops: float | None, unique_bytes: int, roofs: Sequence[Roof], precision: Precision = "float32"
) -> tuple[float | None, Bound]:
    """Return the seconds of one call at the roofs, and the binding roof.

    The seconds are None if no roof is known, and for counted products whose type has no known roof, because the memory
    alone says little of their time.
    """
    t_m, t_c, t_l = _roof_times(flops, unique_bytes, roofs, precision)
    if t_c is None and flops is not None and precision not in VECTOR_TYPES:
        return None, "unknown"
    known = [t for t in (t_m, t_c) if t is not None]
    return max(known) + t_l if known else None, _binding_axis(t_m, t_c, t_l)


def reason_faster_than_roof(seconds: float | None, roof_s: float | None, bound: Bound) -> str:
    """Return a sentence that says why a kernel takes less time than its roof; empty where it does not."""
    if seconds is None or roof_s is None or seconds >= roof_s:
        return ""
    fewer_operations = "needs fewer operations than the reference, or computes in a type with a higher roof"
    fewer_bytes = "moves fewer bytes than its tensors hold, or finds them in the cache"
    why = {"compute": fewer_operations, "memory": fewer_bytes}.get(bound, f"{fewer_operations}, or {fewer_bytes}")
    return f"The kernel is faster than this roof: it {why}."


def _roof_times(
    flops: float | None, unique_bytes: int, roofs: Sequence[Roof], precision: Precision
) -> tuple[float | None, float | None, float]:
    """Return the seconds of memory, arithmetic and a launch at their roofs; None if the roof is unknown."""
    bandwidth, compute, launch = (
        best_roof(roofs, "memory_bandwidth"),
        compute_roof(roofs, precision),
        best_roof(roofs, "launch_latency"),
    )
    t_m = unique_bytes / bandwidth.value if bandwidth else None
    t_c = flops / compute.value if compute and flops is not None else None
    return t_m, t_c, launch.value if launch else 0.0


def roof_precision(task: Task) -> Precision:
    """Return the type of the compute roof of a task: that of the reference's products, where most operations are.

    Products in float32 take the task's `precision`. Other operations are held against float64 if an output is float64
    (or an input, if all outputs are integers), else float32.
    """
    if task.product_type == "float32":
        relaxed: dict[str, Precision] = {"tf32": "tf32", "bf16": "bfloat16"}
        return relaxed.get(task.numeric.precision, "float32")
    if task.product_type:
        return task.product_type
    outputs, inputs = [a.dtype for a in task.outputs], [a.dtype for a in task.arguments if a.is_read]
    floating = any("float" in dtype for dtype in outputs)
    return "float64" if "float64" in (outputs if floating else inputs) else "float32"


def combine_headrooms(parts: Sequence[tuple[float, float, Headroom]]) -> Headroom:
    """Return the headroom of an objective over (weight, seconds, headroom): gaps weighted by the share of the time.

    A gap is None if one of its parts is None. The other fields are those of the part that takes the most time.
    """
    shares = [weight * seconds for weight, seconds, _ in parts]
    largest = parts[max(range(len(parts)), key=shares.__getitem__)][2]

    def weighted_mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        return sum(share * value for share, value in zip(shares, known, strict=True)) / sum(shares)

    gaps = [gap for _, _, gap in parts]
    roof_s = [gap.roof_s for gap in gaps]
    return largest.model_copy(
        update={
            "total": weighted_mean([gap.total for gap in gaps]),
            "compute": weighted_mean([gap.compute for gap in gaps]),
            "memory": weighted_mean([gap.memory for gap in gaps]),
            "latency": weighted_mean([gap.latency for gap in gaps]),
            "roof_s": None
            if None in roof_s
            else sum(weight * (t or 0.0) for (weight, _, _), t in zip(parts, roof_s, strict=True)),
        }
    )


def memory_floor_seconds(unique_bytes: int, roofs: Sequence[Roof]) -> float | None:
    """Return the least seconds of a kernel that moves `unique_bytes` (inputs and outputs, each once) to or from memory.

    The bound uses the highest known bandwidth, measured or cited, and one launch. Operations do not count, because an
    honest kernel can need fewer than the reference. Returns None if no bandwidth is known.
    """
    bandwidths = [roof.value for roof in roofs if roof.metric == "memory_bandwidth" and roof.value > 0]
    launches = [roof.value for roof in roofs if roof.metric == "launch_latency" and roof.value > 0]
    return unique_bytes / max(bandwidths) + min(launches, default=0.0) if bandwidths else None


def best_roof(roofs: Sequence[Roof], metric: str) -> Roof | None:
    """Return the roof of a metric: a measured one before a published one, the best if there are several."""
    found = [roof for roof in roofs if roof.metric == metric and roof.value > 0]
    measured = [roof for roof in found if roof.origin == "measured"] or found
    pick = min if metric == "launch_latency" else max
    return pick(measured, key=lambda roof: roof.value, default=None)


def reason_roof_may_be_low(roofs: Sequence[Roof], metric: str) -> str:
    """Return why the device may exceed the best roof of a metric; empty without a reason."""
    binding = best_roof(roofs, metric)
    return binding.doubt if binding is not None and confirming_roof(roofs, metric) is None else ""


def best_of_repeats(runs: Iterable[Sequence[Roof]]) -> tuple[Roof, ...]:
    """Return the best roof of each metric over repeated measurements, with how many of them agree with it.

    The share of other processes is the smallest among those that agree: the least disturbed one found the same.
    """
    runs, made = tuple(runs), []
    if len(runs) == 1:
        return tuple(runs[0])
    every = [roof for run in runs for roof in run]
    for best in filter(None, (best_roof(every, metric) for metric in dict.fromkeys(roof.metric for roof in every))):
        ratios = ((roof, roof.value / best.value) for roof in every if roof.metric == best.metric)
        alike = [roof for roof, ratio in ratios if min(ratio, 1.0 / ratio) >= MIN_AGREEMENT_RATIO]
        others = min((roof.others for roof in alike if roof.others is not None), default=None)
        made.append(best.model_copy(update={"others": others, "repeats": len(runs), "agreeing": len(alike)}))
    return tuple(made)


def confirming_roof(roofs: Sequence[Roof], metric: str) -> Roof | None:
    """Return an undisturbed measurement that agrees with the best, doubted roof of a metric; None if there is none."""
    binding = best_roof(roofs, metric)
    if binding is None or not binding.doubt:
        return None
    for other in roofs:
        alike = (
            MIN_AGREEMENT_RATIO * binding.value <= other.value
            if metric != "launch_latency"
            else MIN_AGREEMENT_RATIO * other.value <= binding.value
        )
        # Where no measurement sees other processes, the doubt is that none agreed, which another one can end.
        watched = other.others is not None or binding.others is None
        if other.metric == metric and other.value > 0 and alike and watched and not other.doubt:
            return other
    return None


def reason_binding_roof_may_be_low(found: Headroom, roofs: Sequence[Roof], precision: Precision) -> str:
    """Return why the roof that binds a kernel may be higher; empty without a reason."""
    compute = compute_roof(roofs, precision)
    each = ("memory_bandwidth", *((compute.metric,) if compute else ()), "launch_latency")
    # If no single roof is the limit, all of them contribute to the roof's time.
    binding = {"memory": each[:1], "compute": each[1:-1]}.get(found.bound, each)
    return next(filter(None, (reason_roof_may_be_low(roofs, metric) for metric in binding)), "")


def roofs_from_specs(specs: Sequence[Spec]) -> tuple[Roof, ...]:
    """Return the roofs that follow from cited figures.

    Sparse peaks, units that are no rate of bytes or operations, and figures that may not set targets give no roof.
    """
    cited: dict[RoofMetric, Roof] = {}
    for spec in specs:
        metric = ROOF_BY_WIKI_METRIC.get(spec.metric)
        scale = SCALE_BY_SI_PREFIX.get(spec.unit[:1])
        if (
            metric is None
            or scale is None
            or not spec.sets_targets
            or spec.qualifier == "sparse"
            or spec.unit[1:] not in ("B/s", "FLOPS", "FLOP/s", "OPS")
        ):
            continue
        unit = "B/s" if metric == "memory_bandwidth" else "op/s"
        cited[metric] = Roof(
            metric=metric, value=spec.value * scale, unit=unit, origin="cited", source=str(spec.citation)
        )
    return tuple(cited.values())


def method_budget(
    headroom: Headroom, methods: int = 3, per_axis: int = 2, *, asked: Collection[Axis] = ()
) -> dict[Axis, int]:
    """Return the number of methods for each axis in this iteration: `methods` in proportion to the gaps, at most
    `per_axis` on one axis (A4).

    An open axis (its gap is unknown or at least MIN_OPEN_HEADROOM) gets at least one method, and so does an axis in
    `asked`, which findings or pages ask for; `methods` bounds the plan, not this sum. Occupancy has no gap of its own
    and gets what latency gets.
    """
    gaps: dict[Axis, float | None] = {
        "compute": headroom.compute,
        "memory": headroom.memory,
        "latency": headroom.latency,
    }
    shares = {
        axis: 1.0 if gap is None else gap for axis, gap in gaps.items() if gap is None or gap >= MIN_OPEN_HEADROOM
    }
    given: dict[Axis, int] = dict.fromkeys(gaps, 0)
    for _ in range(methods):
        # Largest remainders, with a cap: the next method goes to the axis furthest below its share.
        left = [axis for axis in shares if given[axis] < per_axis]
        if not left:
            break
        given[max(left, key=lambda axis: methods * shares[axis] / sum(shares.values()) - given[axis])] += 1
    given.update({axis: max(given[axis], min(1, methods, per_axis)) for axis in shares})
    given["occupancy"] = given["latency"]
    return given | {axis: max(given[axis], min(1, methods, per_axis)) for axis in asked}


def roofline_target(
    workloads: Sequence[tuple[float, Headroom]],
    roofs: Sequence[Roof],
    fraction: float = 0.90,
    precision: Precision = "float32",
) -> Target:
    """Return the objective time at `fraction` of the roof: the sum of weight x roof time / fraction."""
    roof_times = [(weight, headroom.roof_s) for weight, headroom in workloads]
    if not roof_times or any(roof_s is None for _, roof_s in roof_times):
        return Target(description=f"{fraction:.0%} of the roof: UNKNOWN, none is known for {precision}", seconds=None)
    bounds = {headroom.bound for _, headroom in workloads}
    roof = (None if bounds == {"compute"} else best_roof(roofs, "memory_bandwidth")) or compute_roof(roofs, precision)
    seconds = sum(weight * roof_s for weight, roof_s in roof_times if roof_s is not None) / fraction
    origin = roof.origin if roof else "known"
    return Target(
        description=f"{fraction:.0%} of the {origin} roof over {len(roof_times)} workloads", seconds=seconds, roof=roof
    )


def roofline_facts(
    headroom: Headroom,
    device: Device,
    unique_bytes: int,
    seconds: float,
    roofs: Sequence[Roof],
    precision: Precision = "float32",
) -> Mapping[str, Quantity]:
    """Return the metrics of roofline, device and workload that rules read; unknown ones are left out, so that no rule
    fires on them."""
    launch = best_roof(roofs, "launch_latency")
    gaps = {"compute": headroom.compute, "memory": headroom.memory}
    values: dict[str, tuple[float | None, str]] = {
        "roofline.headroom": (headroom.total, "fraction"),
        "roofline.intensity": (headroom.intensity, "op/byte"),
        "roofline.ridge": (headroom.ridge, "op/byte"),
        "roofline.intensity_over_ridge": (
            headroom.intensity / headroom.ridge if headroom.intensity is not None and headroom.ridge else None,
            "ratio",
        ),
        "roofline.matrix_units": (float(precision not in ("float32", "other")), "allowed"),
        "roofline.latency_gap": (headroom.latency, "fraction"),
        "roofline.launch_share": (min(launch.value / seconds, 1.0) if launch else None, "fraction"),
        "device.units": (float(device.units), "cores" if device.kind == "cpu" else "units"),
        "workload.unique_bytes": (float(unique_bytes), "bytes"),
        "workload.seconds": (seconds, "s"),
        "workload.bytes_over_cache": (
            unique_bytes / device.last_level_cache if device.last_level_cache else None,
            "ratio",
        ),
    }
    for axis, gap in gaps.items():
        values[f"roofline.fraction_of_{axis}_roof"] = (1.0 - gap if gap is not None else None, "fraction")
    return {name: Quantity(value=value, unit=unit) for name, (value, unit) in values.items() if value is not None}


def compute_roof(roofs: Sequence[Roof], precision: Precision) -> Roof | None:
    """Return the compute roof of `precision`; None if it is unknown, since no other type's stands in."""
    return best_roof(roofs, f"compute_{precision}")


def _headroom_of(roof_s: float | None, seconds: float) -> float | None:
    return None if roof_s is None else min(max(1.0 - roof_s / seconds, 0.0), 1.0)


def _binding_axis(t_m: float | None, t_c: float | None, t_l: float) -> Bound:
    if t_m is None or t_c is None:
        return "unknown"
    if t_l > max(t_m, t_c):
        return "latency"
    if max(t_m, t_c) <= MAX_BALANCED_RATIO * min(t_m, t_c):
        return "mixed"
    return "memory" if t_m > t_c else "compute"
