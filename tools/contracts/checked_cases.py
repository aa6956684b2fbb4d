"""The cases on which a candidate is checked: visible and hidden workloads, derived sizes and distributions (pure).

Everything that a kernel could prepare for is drawn from the run's secret by HMAC after the candidate is frozen. The
seeds depend on the candidate's id, so no candidate meets the numbers of another.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from math import exp, gcd, lcm, log, prod
from typing import Literal, NamedTuple, get_args

from tools.artifacts import DEFAULT_ERROR_FLOORS, Dims, Task, Workload
from tools.executors.protocol import Case, Distribution

SEED_BITS = 31
"""Bits of a seed: some generators (NumPy's legacy ones) take at most 32."""
MAX_DIM_DRAWS = 64
"""Attempts to draw hidden dims whose product is at most that of the largest visible workload."""
DISTRIBUTION_REPEATS = 3
"""How often each further distribution is drawn. Its extent is drawn as well, so one draw may stop short of the values
at which a kernel breaks."""
MAX_SHARED_POWER_OF_TWO = 64
"""The largest power of two that drawn sizes have in common with the visible sizes."""
SizeForm = Literal["ragged", "aligned", "related", "powers"]
"""What drawn sizes have in common with the visible sizes. "ragged": nothing; "aligned": the power of two in each size;
"related": that, and which dims divide or equal each other; "powers": all sizes are powers of two."""
OTHER_DISTRIBUTIONS = tuple(name for name in get_args(Distribution) if name != "as_given")


def draw_seed(secret: bytes, *question: object) -> int:
    """Return a seed below 2**31 that only the holder of `secret` can predict; equal questions give equal seeds."""
    return int(secret_digest(secret, *question), 16) >> (256 - SEED_BITS)


def secret_digest(secret: bytes, *question: object) -> str:
    """Return the HMAC-SHA256 of `question` in hex: it identifies a value and cannot be inverted by trying values."""
    return hmac.new(secret, "\0".join(map(str, question)).encode(), "sha256").hexdigest()


def smallest_workload(task: Task) -> Workload:
    """Return the visible workload with the smallest product of integer dims."""
    return min(task.workloads, key=lambda w: prod(v for v in w.dims.values() if isinstance(v, int) and v > 0))


class HiddenWorkload(NamedTuple):
    """A workload that is checked for correctness and not timed; no prompt contains its dims."""

    name: str
    choices: tuple[Dims, ...]
    """Dims in order of preference; the first that the reference accepts are used."""


def draw_hidden_workloads(task: Task, secret: bytes, count: int) -> tuple[HiddenWorkload, ...]:
    """Return `count` workloads with dims drawn log-uniformly from `dims_range`, the same for all candidates of a run.

    Of each two workloads, the first has ragged sizes and the second keeps what the visible sizes have in common. The
    further choices of a workload are for a reference that refuses the first; the last ones change a single dim. Dims
    without a range and scalars are taken from a visible workload. The product of the ranged dims does not exceed that
    of the largest visible workload, so checking a case costs at most what timing costs. The result is empty if the
    task has no `dims_range`.
    """
    if not task.dims_range:
        return ()
    limit = max(_product_of_ranged_dims(task, w.dims) for w in task.workloads)
    hidden = []
    for index in range(count):
        question = (secret, "hidden", task.identity(), index)
        base = task.workloads[draw_seed(*question, "workload") % len(task.workloads)].dims
        names = tuple(name for name in task.dims_range if name in base)
        forms: tuple[SizeForm, ...] = ("related", "aligned") if index % 2 else ("ragged", "aligned", "related")
        attempts = [(form, names) for form in (*forms, *forms, "powers")] + [("related", (name,)) for name in names]
        choices: list[Dims] = []
        for index_of_form, (form, changed_names) in enumerate(attempts):
            for attempt in range(MAX_DIM_DRAWS):
                drawn_sizes = {
                    name: _log_uniform(draw_seed(*question, index_of_form, attempt, name), *task.dims_range[name])
                    for name in changed_names
                }
                dims = _dims_in_form(task, base, form, drawn_sizes)
                if _product_of_ranged_dims(task, dims) <= limit:
                    choices += [dims] if dims not in choices else []
                    break
        if choices:
            hidden.append(HiddenWorkload(f"hidden-{index + 1}", tuple(choices)))
    return tuple(hidden)


def _dims_in_form(task: Task, base: Dims, form: SizeForm, wanted: dict[str, int]) -> Dims:
    """Return `base` with the sizes in `wanted`, each lowered to the next size that `form` allows and clamped to the
    dim's range."""
    dims = dict(base)
    settled_names = [
        name for name, value in base.items() if isinstance(value, int) and value > 1 and name not in wanted
    ]
    for name in sorted(wanted, key=lambda name: base[name]):
        low, high = task.dims_range.get(name, (1, max(_visible_sizes(task, name))))
        unit = _shared_power_of_two(task, name, min(high, int(base[name]))) if form != "ragged" else 1
        value = wanted[name]
        if form == "related":
            unit = lcm(unit, *(int(dims[other]) for other in settled_names if _is_multiple_of(task, name, other)))
            value = next(
                (
                    int(dims[other])
                    for other in settled_names
                    if _is_multiple_of(task, name, other) and _is_multiple_of(task, other, name)
                ),
                value,
            )
        elif form == "powers" and all(v & (v - 1) == 0 for v in _visible_sizes(task, name)):
            value = unit = 1 << (value.bit_length() - 1)
        dims[name] = _clamp(max(value // unit, -(-low // unit)) * unit, low, high)
        settled_names.append(name)
    return dims


def nearest_related_dims(task: Task, wanted: Dims) -> Dims:
    """Return the dims nearest to `wanted` that keep what the visible sizes have in common (`related`)."""
    base = task.workloads[0].dims
    return _dims_in_form(
        task, base, "related", {name: int(value) for name, value in wanted.items() if value != base[name]}
    )


def _visible_sizes(task: Task, name: str) -> list[int]:
    return [int(w.dims[name]) for w in task.workloads if name in w.dims]


def _shared_power_of_two(task: Task, name: str, upper_limit: int) -> int:
    """Return the power of two that divides all visible sizes of a dim, lowered until four multiples of it fit into
    `upper_limit`."""
    shared = gcd(*_visible_sizes(task, name), MAX_SHARED_POWER_OF_TWO)
    while shared > 1 and upper_limit < 4 * shared:
        shared //= 2
    return shared


def _is_multiple_of(task: Task, name: str, other: str) -> bool:
    """Return whether the dim `name` is a multiple of the dim `other` in every visible workload."""
    return all(w.dims.get(other) and w.dims.get(name, 1) % w.dims[other] == 0 for w in task.workloads)


def derive_sizes(task: Task) -> dict[str, tuple[Dims, ...]]:
    """Return variants of the smallest visible workload within `dims_range`: label -> dims in order of preference.

    The variants are half of each size (keeping what the visible sizes have in common), one less, the next smaller
    prime, and each dim at 1. Further choices of a variant change fewer dims, for a reference that refuses the first.
    Only dims that size an argument or have a range are changed, never a scalar such as a number of groups. A variant
    that a range limits is labelled with the sizes that it has.
    """
    base = smallest_workload(task).dims
    resizable = set(task.dims_range) | {axis for argument in task.arguments for axis in argument.shape}
    names = [
        name
        for name, value in base.items()
        if isinstance(value, int) and (name in resizable or task.seed_style) and value > 1
    ]
    if not names:
        return {}
    changes_by_label: dict[str, dict[str, int]] = {
        "half": {name: int(base[name]) // 2 for name in names},
        "one-less": {name: int(base[name]) - 1 for name in names},
        "prime": {name: _largest_prime_below(int(base[name])) for name in names},
        **{f"{name}-is-1": {name: 1} for name in names},
    }
    variants: dict[str, tuple[Dims, ...]] = {}
    for label, changes in changes_by_label.items():
        clamped = {
            name: _clamp(value, *task.dims_range.get(name, (1, int(base[name])))) for name, value in changes.items()
        }
        form: SizeForm = "related" if label == "half" else "ragged"
        subsets = [{n: v for n, v in clamped.items() if n != name} for name in clamped] + [
            {name: clamped[name]} for name in clamped
        ]
        variants_of_label = [_dims_in_form(task, base, form, sizes) for sizes in (clamped, *subsets)]
        first, *further_choices = [
            dims for at, dims in enumerate(variants_of_label) if dims != base and dims not in variants_of_label[:at]
        ] or [base]
        if first != base and first not in (choices[0] for choices in variants.values()):
            changed_labels = [f"{name}-is-{value}" for name, value in clamped.items() if value != base[name]]
            variants[label if clamped == changes else "-".join(changed_labels)] = (first, *further_choices)
    return variants


def cases_to_check(
    task: Task,
    hidden: tuple[HiddenWorkload, ...],
    seed: Callable[[str], int],
    *,
    against_baseline: bool,
    repeats: int = DISTRIBUTION_REPEATS,
) -> tuple[Case, ...]:
    """Return the cases to check: visible workloads, hidden workloads, derived sizes, then other distributions.

    `seed` maps a case's name to its seed. `against_baseline`: there is a baseline kernel that shows which cases are
    fair; without one, derived sizes and distributions are left out and hidden workloads are required. Each
    distribution is drawn `repeats` times.
    """
    checked = [Case(workload=w.name, dims=w.dims, seed=seed(w.name)) for w in task.workloads]
    checked += [
        Case(
            workload=name, dims=dims, spares=tuple(spares), seed=seed(name), hidden=True, required=not against_baseline
        )
        for name, (dims, *spares) in hidden
    ]
    if not against_baseline:
        return tuple(checked)
    for label, (dims, *spares) in derive_sizes(task).items():
        checked.append(Case(workload=label, dims=dims, spares=tuple(spares), seed=seed(label), required=False))
    if any(a.is_read and a.dtype in DEFAULT_ERROR_FLOORS for a in task.arguments):
        base = smallest_workload(task)
        checked += [
            Case(workload=base.name, dims=base.dims, seed=seed(f"{name}-{repeat}"), distribution=name, required=False)
            for repeat in range(repeats)
            for name in OTHER_DISTRIBUTIONS
        ]
    return tuple(checked)


def _product_of_ranged_dims(task: Task, dims: Dims) -> float:
    return prod(dims[name] for name in task.dims_range if name in dims)


def _log_uniform(seed: int, low: int, high: int) -> int:
    """Map a seed to an integer that is log-uniform in low … high, both included."""
    fraction = seed / (1 << SEED_BITS)
    bottom = max(low, 1)
    return _clamp(int(exp(log(bottom) + fraction * (log(high + 1) - log(bottom)))), low, high)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def _largest_prime_below(value: int) -> int:
    """Return the largest prime below `value`, or 1 if there is none."""
    return next((n for n in range(value - 1, 1, -1) if all(n % d for d in range(2, int(n**0.5) + 1))), 1)
