"""Which calls a candidate is checked on: visible, hidden, derived sizes and distributions (pure).

Everything that a kernel could prepare for is drawn from the run's secret by HMAC, after the candidate is frozen: the
seeds depend on its id, so that no candidate meets the numbers of another.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from math import exp, gcd, lcm, log, prod
from typing import Literal, NamedTuple, get_args

from tools.artifacts import Dims, Task, Workload
from tools.executors.protocol import Case, Distribution

SEED_BITS = 31
"""Some generators (NumPy's legacy ones) take no more than 32 bits."""
DRAWS = 64
"""Tries to draw hidden dims that are no larger than what the user himself wants computed."""
ROUNDS = 3
"""How often each further distribution is drawn: how far it goes is drawn as well, and one draw may stop short of
where a kernel breaks."""
SHARED = 64
"""The largest power of two that drawn sizes keep of what all visible ones are multiples of."""
Form = Literal["ragged", "aligned", "alike", "powers"]
"""What drawn sizes keep of the visible ones: nothing; the power of two in each; that and which of them divide or
equal each other; that they are powers of two."""
OTHER_DISTRIBUTIONS = tuple(name for name in get_args(Distribution) if name != "as_given")


def draw(secret: bytes, *asked: object) -> int:
    """A seed below 2**31 that only the holder of `secret` can foresee; the same question gives the same seed."""
    return int(secret_digest(secret, *asked), 16) >> (256 - SEED_BITS)


def secret_digest(secret: bytes, *asked: object) -> str:
    """HMAC-SHA256 in hex: names a thing without telling it, even where there are few things it could be."""
    return hmac.new(secret, "\0".join(map(str, asked)).encode(), "sha256").hexdigest()


def smallest(task: Task) -> Workload:
    """The visible workload with the smallest product of integer dims."""
    return min(task.workloads, key=lambda w: prod(v for v in w.dims.values() if isinstance(v, int) and v > 0))


class Hidden(NamedTuple):
    """A workload for correctness alone, whose dims no prompt can contain."""

    name: str
    choices: tuple[Dims, ...]
    """The first that the reference does not refuse is asked."""


def hidden_workloads(task: Task, secret: bytes, count: int) -> tuple[Hidden, ...]:
    """`count` workloads whose ranged dims are drawn log-uniformly from `dims_range`, the same for all candidates of a
    run.

    Of two the first is ragged and the second keeps what the visible sizes have in common; the choices behind are for a
    reference that refuses these, down to one dim alone that differs. Other dims and scalars are taken from a visible
    workload. The product of the ranged dims stays below the largest visible one, so that checking costs no more than
    what is timed. Empty where the task has no `dims_range`.
    """
    if not task.dims_range:
        return ()
    limit = max(_size(task, w.dims) for w in task.workloads)
    found = []
    for index in range(count):
        asked = (secret, "hidden", task.identity(), index)
        base = task.workloads[draw(*asked, "workload") % len(task.workloads)].dims
        names = tuple(name for name in task.dims_range if name in base)
        forms: tuple[Form, ...] = ("alike", "aligned") if index % 2 else ("ragged", "aligned", "alike")
        tried = [(form, names) for form in (*forms, *forms, "powers")] + [("alike", (name,)) for name in names]
        choices: list[Dims] = []
        for at, (form, changed) in enumerate(tried):
            for attempt in range(DRAWS):
                wanted = {name: _between(draw(*asked, at, attempt, name), *task.dims_range[name]) for name in changed}
                dims = _formed(task, base, form, wanted)
                if _size(task, dims) <= limit:
                    choices += [dims] if dims not in choices else []
                    break
        if choices:
            found.append(Hidden(f"hidden-{index + 1}", tuple(choices)))
    return tuple(found)


def _formed(task: Task, base: Dims, form: Form, wanted: dict[str, int]) -> Dims:
    """`base` with the sizes wanted, each changed to the next one below that keeps what `form` keeps, if its range
    has any."""
    dims = dict(base)
    settled = [name for name, value in base.items() if isinstance(value, int) and value > 1 and name not in wanted]
    for name in sorted(wanted, key=lambda name: base[name]):
        low, high = task.dims_range.get(name, (1, max(_visible(task, name))))
        unit = _unit(task, name, min(high, int(base[name]))) if form != "ragged" else 1
        value = wanted[name]
        if form == "alike":
            unit = lcm(unit, *(int(dims[other]) for other in settled if _holds(task, name, other)))
            value = next(
                (int(dims[other]) for other in settled if _holds(task, name, other) and _holds(task, other, name)),
                value,
            )
        elif form == "powers" and all(v & (v - 1) == 0 for v in _visible(task, name)):
            value = unit = 1 << (value.bit_length() - 1)
        dims[name] = _clamp(max(value // unit, -(-low // unit)) * unit, low, high)
        settled.append(name)
    return dims


def alike(task: Task, wanted: Dims) -> Dims:
    """The dims nearest to those wanted that keep what the visible sizes have in common."""
    base = task.workloads[0].dims
    return _formed(task, base, "alike", {name: int(value) for name, value in wanted.items() if value != base[name]})


def _visible(task: Task, name: str) -> list[int]:
    return [int(w.dims[name]) for w in task.workloads if name in w.dims]


def _unit(task: Task, name: str, most: int) -> int:
    """The power of two that all visible sizes of a dim are multiples of, as far as several such lie below `most`."""
    shared = gcd(*_visible(task, name), SHARED)
    while shared > 1 and most < 4 * shared:
        shared //= 2
    return shared


def _holds(task: Task, name: str, other: str) -> bool:
    """Whether `name` is a multiple of `other` in every visible workload."""
    return all(w.dims.get(other) and w.dims.get(name, 1) % w.dims[other] == 0 for w in task.workloads)


def derived_sizes(task: Task) -> dict[str, tuple[Dims, ...]]:
    """Variants of the smallest visible workload, kept within `dims_range`: half of it in what it has in common with the
    others, and ragged and odd ones: one less, the next prime, and each dim at 1.

    Behind each stand those in which fewer dims are changed, for a reference that refuses it. Only dims that size an
    argument or stand in `dims_range` are changed, never a scalar such as a number of groups. Where the range cuts a
    variant short, it is named after the dims that it then has.
    """
    base = smallest(task).dims
    sized = set(task.dims_range) | {axis for argument in task.arguments for axis in argument.shape}
    names = [
        name
        for name, value in base.items()
        if isinstance(value, int) and (name in sized or task.seed_style) and value > 1
    ]
    if not names:
        return {}
    wanted: dict[str, dict[str, int]] = {
        "half": {name: int(base[name]) // 2 for name in names},
        "one-less": {name: int(base[name]) - 1 for name in names},
        "prime": {name: _prime_below(int(base[name])) for name in names},
        **{f"{name}-is-1": {name: 1} for name in names},
    }
    kept: dict[str, tuple[Dims, ...]] = {}
    for label, changes in wanted.items():
        within = {
            name: _clamp(value, *task.dims_range.get(name, (1, int(base[name])))) for name, value in changes.items()
        }
        form: Form = "alike" if label == "half" else "ragged"
        fewer = [{n: v for n, v in within.items() if n != name} for name in within] + [
            {name: within[name]} for name in within
        ]
        tried = [_formed(task, base, form, some) for some in (within, *fewer)]
        first, *others = [dims for at, dims in enumerate(tried) if dims != base and dims not in tried[:at]] or [base]
        if first != base and first not in (choices[0] for choices in kept.values()):
            changed = [f"{name}-is-{value}" for name, value in within.items() if value != base[name]]
            kept[label if within == changes else "-".join(changed)] = (first, *others)
    return kept


def cases(
    task: Task, hidden: tuple[Hidden, ...], seed: Callable[[str], int], *, against_baseline: bool, rounds: int = ROUNDS
) -> tuple[Case, ...]:
    """The calls to check, cheap doubts last: visible and hidden workloads as given, then derived sizes and
    distributions.

    `seed` gives a case's seed by its name. Without a baseline to say what is fair (`against_baseline`) derived sizes
    and distributions are left out, and hidden workloads are required. `rounds`: how often each distribution is drawn.
    """
    found = [Case(workload=w.name, dims=w.dims, seed=seed(w.name)) for w in task.workloads]
    found += [
        Case(
            workload=name, dims=dims, spares=tuple(spares), seed=seed(name), hidden=True, required=not against_baseline
        )
        for name, (dims, *spares) in hidden
    ]
    if not against_baseline:
        return tuple(found)
    for label, (dims, *spares) in derived_sizes(task).items():
        found.append(Case(workload=label, dims=dims, spares=tuple(spares), seed=seed(label), required=False))
    if any(a.role == "input" and a.dtype in ("float64", "float32", "float16", "bfloat16") for a in task.arguments):
        base = smallest(task)
        found += [
            Case(workload=base.name, dims=base.dims, seed=seed(f"{name}-{round_}"), distribution=name, required=False)
            for round_ in range(rounds)
            for name in OTHER_DISTRIBUTIONS
        ]
    return tuple(found)


def _size(task: Task, dims: Dims) -> float:
    return prod(dims[name] for name in task.dims_range if name in dims)


def _between(seed: int, low: int, high: int) -> int:
    """Log-uniform in low … high, both included."""
    fraction = seed / (1 << SEED_BITS)
    bottom = max(low, 1)
    return _clamp(int(exp(log(bottom) + fraction * (log(high + 1) - log(bottom)))), low, high)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def _prime_below(value: int) -> int:
    """The largest prime below `value`; 1 where there is none."""
    return next((n for n in range(value - 1, 1, -1) if all(n % d for d in range(2, int(n**0.5) + 1))), 1)
