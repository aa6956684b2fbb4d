"""The roofline model: operations, bytes and seconds against roofs -> headroom, method budget, target. Pure.

With `t_m = bytes / bandwidth`, `t_c = operations / compute roof` and `t_l` the latency of one empty call, the roof's
time is `max(t_m, t_c) + t_l`. The gap of an axis alone does not say whether a kernel is near its peak: one at the
memory roof is far from the compute roof by nature.

The operations are those of the reference. A better algorithm needs fewer, so the roof's time is what to aim at and no
lower bound: what no honest kernel can undercut is `memory_floor`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from tools.artifacts import Axis, Bound, Quantity, Task
from tools.executors.base import Device
from tools.roofline.hardware import Headroom, Roof, RoofMetric, Spec, Target

Precision = Literal["float32", "float64", "tf32", "float16", "bfloat16"]
PUBLISHED: dict[str, RoofMetric] = {
    "memory_bandwidth": "memory_bandwidth",
    "fp32": "compute_float32",
    "tf32_tensor": "compute_tf32",
    "fp16_tensor": "compute_float16",
    "bf16_tensor": "compute_bfloat16",
}
"""What the wiki calls a peak -> the roof that it is."""
PREFIXES = {"G": 1e9, "T": 1e12, "P": 1e15}
CLOSED = 0.15
"""Gap of an axis below which no method is spent on it unasked (A4)."""
ALIKE = 0.95
"""Ratio of two measurements of a roof from which on the one bears out the other."""
BALANCED = 1.25
"""Within this factor memory and compute time are both the limit."""


def headroom(
    flops: float | None,
    unique_bytes: int,
    seconds: float,
    roofs: Sequence[Roof],
    precision: Precision = "float32",
) -> Headroom:
    """Distance of one measured call from the roofs.

    `flops`: operations of a call, None where nobody counted them; `unique_bytes`: inputs and outputs, each once;
    `seconds` > 0. Gaps are clipped to 0..1 and None where their roof or count is missing: `compute = 1 - t_c/t`,
    `memory = 1 - t_m/t`, and `latency = 1 - (t_m + t_c + t_l)/t`, the share that neither explains even if the two never
    overlapped.
    """
    if seconds <= 0:
        raise ValueError(f"seconds must be positive, not {seconds}")
    bandwidth, compute = best(roofs, "memory_bandwidth"), peak(roofs, precision)
    t_m, t_c, t_l = _times(flops, unique_bytes, roofs, precision)
    known = [t for t in (t_m, t_c) if t is not None]
    roof_s, bound = roof_time(flops, unique_bytes, roofs, precision)
    return Headroom(
        total=_gap(roof_s, seconds),
        compute=_gap(t_c, seconds),
        memory=_gap(t_m, seconds),
        latency=_gap(sum(known) + t_l, seconds) if known else None,
        roof_s=roof_s,
        bound=bound,
        intensity=flops / unique_bytes if flops is not None and unique_bytes else None,
        ridge=compute.value / bandwidth.value if compute and bandwidth else None,
    )


def roof_time(
    flops: float | None, unique_bytes: int, roofs: Sequence[Roof], precision: Precision = "float32"
) -> tuple[float | None, Bound]:
    """Seconds in which the roofs would do one call, and which of them binds; None where no roof is known."""
    t_m, t_c, t_l = _times(flops, unique_bytes, roofs, precision)
    known = [t for t in (t_m, t_c) if t is not None]
    return max(known) + t_l if known else None, _bound(t_m, t_c, t_l)


def _times(
    flops: float | None, unique_bytes: int, roofs: Sequence[Roof], precision: Precision
) -> tuple[float | None, float | None, float]:
    """Seconds that memory, arithmetic and a launch take at their roofs."""
    bandwidth, compute, launch = best(roofs, "memory_bandwidth"), peak(roofs, precision), best(roofs, "launch_latency")
    t_m = unique_bytes / bandwidth.value if bandwidth else None
    t_c = flops / compute.value if compute and flops is not None else None
    return t_m, t_c, launch.value if launch else 0.0


def precision(task: Task) -> Precision:
    """Which compute roof a task is held against: float64 where an output is, or an input where all outputs are
    integers.

    Else that of the matrix units where the task lets them in: all inputs of one 16-bit type, or float32 under a policy
    of tf32 or bf16. On a device without such a roof it is float32's (see `headroom`).
    """
    floating = ("float64", "float32", "float16", "bfloat16")
    roles = ("output", "input")
    outputs, inputs = ([a.dtype for a in task.arguments if a.role == role and a.dtype in floating] for role in roles)
    if "float64" in (outputs or inputs):
        return "float64"
    kinds = set(inputs or outputs)
    if kinds == {"float16"}:
        return "float16"
    if kinds == {"bfloat16"}:
        return "bfloat16"
    relaxed: dict[str, Precision] = {"tf32": "tf32", "bf16": "bfloat16"}
    return relaxed.get(task.numeric.precision, "float32")


def whole(parts: Sequence[tuple[float, float, Headroom]]) -> Headroom:
    """Headroom of an objective of (weight, seconds, headroom) each: gaps weighted by the shares of the time, None as
    soon as one is None.

    What is no gap is that of the part that takes the most time.
    """
    shares = [weight * seconds for weight, seconds, _ in parts]
    largest = parts[max(range(len(parts)), key=shares.__getitem__)][2]

    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        return sum(share * value for share, value in zip(shares, known, strict=True)) / sum(shares)

    gaps = [gap for _, _, gap in parts]
    roof_s = [gap.roof_s for gap in gaps]
    return largest.model_copy(
        update={
            "total": mean([gap.total for gap in gaps]),
            "compute": mean([gap.compute for gap in gaps]),
            "memory": mean([gap.memory for gap in gaps]),
            "latency": mean([gap.latency for gap in gaps]),
            "roof_s": None
            if None in roof_s
            else sum(weight * (t or 0.0) for (weight, _, _), t in zip(parts, roof_s, strict=True)),
        }
    )


def memory_floor(unique_bytes: int, roofs: Sequence[Roof]) -> float | None:
    """Seconds that no kernel can undercut which moves `unique_bytes` (inputs and outputs, each once) to or from memory.

    The highest bandwidth that is known, measured or cited, and one launch. Operations do not enter: those that are
    counted are the reference's, and an honest kernel may need fewer. None where no bandwidth is known.
    """
    bandwidths = [roof.value for roof in roofs if roof.metric == "memory_bandwidth" and roof.value > 0]
    launches = [roof.value for roof in roofs if roof.metric == "launch_latency" and roof.value > 0]
    return unique_bytes / max(bandwidths) + min(launches, default=0.0) if bandwidths else None


def best(roofs: Sequence[Roof], metric: str) -> Roof | None:
    """The roof to hold a kernel against: what was measured here before what is published, the higher where there are
    several."""
    found = [roof for roof in roofs if roof.metric == metric and roof.value > 0]
    measured = [roof for roof in found if roof.origin == "measured"] or found
    pick = min if metric == "launch_latency" else max
    return pick(measured, key=lambda roof: roof.value, default=None)


def doubt(roofs: Sequence[Roof], metric: str) -> str:
    """Why the device may do more than the `best` of a metric; empty where nothing speaks for it."""
    binding = best(roofs, metric)
    return binding.doubt if binding is not None and borne_out(roofs, metric) is None else ""


def borne_out(roofs: Sequence[Roof], metric: str) -> Roof | None:
    """The measurement, made alone, that found nearly as much as the `best` of a metric, which others accompanied;
    None: there is none."""
    binding = best(roofs, metric)
    if binding is None or not binding.doubt:
        return None
    for other in roofs:
        alike = (
            ALIKE * binding.value <= other.value if metric != "launch_latency" else ALIKE * other.value <= binding.value
        )
        if other.metric == metric and other.value > 0 and alike and other.others is not None and not other.doubt:
            return other
    return None


def doubted(found: Headroom, roofs: Sequence[Roof], precision: Precision) -> str:
    """Why the roof that binds a kernel may lie higher; empty where nothing speaks for it."""
    compute = peak(roofs, precision)
    each = ("memory_bandwidth", *((compute.metric,) if compute else ()), "launch_latency")
    # Where no single one is the limit, all have their part in the roof's time.
    binding = {"memory": each[:1], "compute": each[1:-1]}.get(found.bound, each)
    return next(filter(None, (doubt(roofs, metric) for metric in binding)), "")


def published(specs: Sequence[Spec]) -> tuple[Roof, ...]:
    """The roofs that cited figures give.

    A sparse peak, a unit that is not a rate of bytes or operations, and a figure that neither its vendor published nor
    anybody measured are no roofs.
    """
    cited: dict[RoofMetric, Roof] = {}
    for spec in specs:
        metric = PUBLISHED.get(spec.metric)
        scale = PREFIXES.get(spec.unit[:1])
        if (
            metric is None
            or scale is None
            or not spec.sets_targets
            or spec.qualifier == "sparse"
            or spec.unit[1:] not in ("B/s", "FLOPS", "FLOP/s")
        ):
            continue
        unit = "B/s" if metric == "memory_bandwidth" else "op/s"
        cited[metric] = Roof(
            metric=metric, value=spec.value * scale, unit=unit, origin="cited", source=str(spec.citation)
        )
    return tuple(cited.values())


def budget(headroom: Headroom, methods: int = 3, per_axis: int = 2, *, asked: Collection[Axis] = ()) -> dict[Axis, int]:
    """How many methods each axis is worth this iteration: `methods` in proportion to the gaps, at most `per_axis` on
    one (A4).

    An axis that is open (its gap is unknown, or at least CLOSED) keeps one even where its share rounds to none, and so
    does one that findings or pages ask for; `methods` bounds the plan, not this sum. Occupancy has no gap of its own:
    what latency is worth, it is, too.
    """
    gaps: dict[Axis, float | None] = {
        "compute": headroom.compute,
        "memory": headroom.memory,
        "latency": headroom.latency,
    }
    shares = {axis: 1.0 if gap is None else gap for axis, gap in gaps.items() if gap is None or gap >= CLOSED}
    given: dict[Axis, int] = dict.fromkeys(gaps, 0)
    for _ in range(methods):
        # Always the axis furthest behind its due share: the largest remainders, with a cap.
        left = [axis for axis in shares if given[axis] < per_axis]
        if not left:
            break
        given[max(left, key=lambda axis: methods * shares[axis] / sum(shares.values()) - given[axis])] += 1
    given.update({axis: max(given[axis], min(1, methods, per_axis)) for axis in shares})
    given["occupancy"] = given["latency"]
    return given | {axis: max(given[axis], min(1, methods, per_axis)) for axis in asked}


def target(
    workloads: Sequence[tuple[float, Headroom]],
    roofs: Sequence[Roof],
    fraction: float = 0.90,
    precision: Precision = "float32",
) -> Target:
    """The objective time at `fraction` of the roof: the sum over (weight, headroom) of weight x roof time /
    fraction."""
    roof_times = [(weight, headroom.roof_s) for weight, headroom in workloads]
    if not roof_times or any(roof_s is None for _, roof_s in roof_times):
        return Target(description=f"{fraction:.0%} of the roof: UNKNOWN, no roof is known", seconds=None)
    bounds = {headroom.bound for _, headroom in workloads}
    roof = (None if bounds == {"compute"} else best(roofs, "memory_bandwidth")) or peak(roofs, precision)
    seconds = sum(weight * roof_s for weight, roof_s in roof_times if roof_s is not None) / fraction
    origin = roof.origin if roof else "known"
    return Target(
        description=f"{fraction:.0%} of the {origin} roof over {len(roof_times)} workloads", seconds=seconds, roof=roof
    )


def facts(
    headroom: Headroom,
    device: Device,
    unique_bytes: int,
    seconds: float,
    roofs: Sequence[Roof],
    precision: Precision = "float32",
) -> Mapping[str, Quantity]:
    """What rules may ask of roofline, device and workload; what is not known is left out, so that no rule fires on
    it."""
    launch = best(roofs, "launch_latency")
    gaps = {"compute": headroom.compute, "memory": headroom.memory}
    values: dict[str, tuple[float | None, str]] = {
        "roofline.headroom": (headroom.total, "fraction"),
        "roofline.intensity": (headroom.intensity, "op/byte"),
        "roofline.ridge": (headroom.ridge, "op/byte"),
        "roofline.intensity_over_ridge": (
            headroom.intensity / headroom.ridge if headroom.intensity is not None and headroom.ridge else None,
            "ratio",
        ),
        "roofline.matrix_units": (float(precision != "float32"), "allowed"),
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


def traffic(metrics: Mapping[str, Quantity], input_bytes: int, unique_bytes: int) -> Mapping[str, Quantity]:
    """How often the counted call moved its data: bytes that it loaded over those of its inputs, and device memory's
    over the unique ones.

    `metrics` are a profiler's; empty where it counted no bytes.
    """
    wholes = {
        "ncu.global_bytes.ld": ("roofline.loads_over_inputs", input_bytes),
        "ncu.dram_bytes": ("roofline.dram_over_unique", unique_bytes),
    }
    return {
        name: Quantity(value=metrics[counted].value / whole, unit="ratio")
        for counted, (name, whole) in wholes.items()
        if counted in metrics and whole
    }


def peak(roofs: Sequence[Roof], precision: Precision) -> Roof | None:
    """The compute roof of `precision`; float32's where the device has none of its own for a narrower type."""
    own = best(roofs, f"compute_{precision}")
    return own if own or precision == "float64" else best(roofs, "compute_float32")


def _gap(roof_s: float | None, seconds: float) -> float | None:
    return None if roof_s is None else min(max(1.0 - roof_s / seconds, 0.0), 1.0)


def _bound(t_m: float | None, t_c: float | None, t_l: float) -> Bound:
    if t_m is None or t_c is None:
        return "unknown"
    if t_l > max(t_m, t_c):
        return "latency"
    if max(t_m, t_c) <= BALANCED * min(t_m, t_c):
        return "mixed"
    return "memory" if t_m > t_c else "compute"
