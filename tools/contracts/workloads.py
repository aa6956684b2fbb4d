"""Which calls a candidate is checked on: visible, hidden, derived sizes and distributions (pure).

Everything that a kernel could prepare for is drawn from the run's secret by HMAC, after the candidate is frozen: the seeds depend on
its id, so that no candidate meets the numbers of another.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from math import exp, log, prod
from typing import get_args

from tools.artifacts import Dims, Task, Workload
from tools.executors.protocol import Case, Distribution

SEED_BITS = 31
"""Some generators (NumPy's legacy ones) take no more than 32 bits."""
DRAWS = 64
"""Tries to draw hidden dims that are no larger than what the user himself wants computed."""
ROUNDS = 3
"""How often each further distribution is drawn: how far it goes is drawn as well, and one draw may stop short of where a kernel breaks."""
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


def hidden_workloads(task: Task, secret: bytes, count: int) -> tuple[Workload, ...]:
    """`count` workloads whose ranged dims are drawn log-uniformly from `dims_range`, the same for all candidates of a run.

    Other dims and scalars are taken from a visible workload. The product of the ranged dims stays below the largest visible one, so
    that checking costs no more than what is timed. Empty where the task has no `dims_range`.
    """
    if not task.dims_range:
        return ()
    limit = max(_size(task, w.dims) for w in task.workloads)
    found = []
    for index in range(count):
        visible = task.workloads[draw(secret, "hidden", task.identity(), index, "workload") % len(task.workloads)]
        for attempt in range(DRAWS):
            ranged = {
                name: _between(draw(secret, "hidden", task.identity(), index, attempt, name), *task.dims_range[name])
                for name in task.dims_range
            }
            dims = {**visible.dims, **{name: value for name, value in ranged.items() if name in visible.dims}}
            if _size(task, dims) <= limit:
                found.append(Workload(name=f"hidden-{index + 1}", dims=dims, hidden=True))
                break
    return tuple(found)


def derived_sizes(task: Task) -> dict[str, Dims]:
    """Ragged and odd variants of the smallest visible workload: one less, the next prime, and each dim at 1; kept within `dims_range`.

    Only dims that size an argument or stand in `dims_range` are changed, never a scalar such as a number of groups. Where the range cuts
    a variant short, it is named after the dims that it then has.
    """
    base = smallest(task).dims
    sized = set(task.dims_range) | {axis for argument in task.arguments for axis in argument.shape}
    names = [name for name, value in base.items() if isinstance(value, int) and (name in sized or task.seed_style) and value > 1]
    if not names:
        return {}
    wanted: dict[str, Dims] = {
        "one-less": {name: int(base[name]) - 1 for name in names},
        "prime": {name: _prime_below(int(base[name])) for name in names},
        **{f"{name}-is-1": {name: 1} for name in names},
    }
    kept: dict[str, Dims] = {}
    for label, changes in wanted.items():
        clamped = {name: _clamp(int(value), *task.dims_range.get(name, (1, int(base[name])))) for name, value in changes.items()}
        dims = {**base, **clamped}
        if dims != base and dims not in kept.values():
            changed = [f"{name}-is-{value}" for name, value in clamped.items() if value != base[name]]
            kept[label if clamped == changes else "-".join(changed)] = dims
    return kept


def cases(
    task: Task, hidden: tuple[Workload, ...], seed: Callable[[str], int], *, against_baseline: bool, rounds: int = ROUNDS
) -> tuple[Case, ...]:
    """The calls to check, cheap doubts last: visible and hidden workloads as given, then derived sizes and distributions.

    `seed` gives a case's seed by its name. Without a baseline to say what is fair (`against_baseline`) derived sizes and distributions
    are left out, and hidden workloads are required. `rounds`: how often each distribution is drawn.
    """
    found = [Case(workload=w.name, dims=w.dims, seed=seed(w.name)) for w in task.workloads]
    found += [Case(workload=w.name, dims=w.dims, seed=seed(w.name), hidden=True, required=not against_baseline) for w in hidden]
    if not against_baseline:
        return tuple(found)
    for label, dims in derived_sizes(task).items():
        found.append(Case(workload=label, dims=dims, seed=seed(label), required=False))
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
