"""Checks that a reference is deterministic: the order of its sums may vary, but a random result cannot serve as the
correct one."""

import random
import sys

import torch

from harness.reference.comparison import copy_arguments, mark, results
from harness.reference.contract import Arg, Contract, ContractError, computable

UNITS = 128
"""Units in the last place by which a reference may differ from itself: twice the largest difference observed."""


def look_for_chance(
    contract: Contract, args: list[Arg], own: list[Arg], returned: tuple | None, inferred: list[str]
) -> None:
    """Raise ContractError if the reference gives another result when it is called again.

    `own` and `returned` are the arguments and the result of the first call. If the reference draws from a generator of
    the process, any difference is chance. Otherwise the last digits may differ. Larger differences are allowed if the
    float64 results, with which kernels are compared, agree with each other and lie close to both, because chance would
    change these as well.
    """
    # A reference may return the same buffer each time.
    first = None if returned is None else [tensor.clone() for tensor in returned]
    arguments = copy_arguments(args)
    states_before = random_states()
    second = contract.call(arguments)
    draws_random_numbers = random_states() != states_before
    equal = is_equal if draws_random_numbers else is_equal_up_to_summation_order
    names = [a.name for a in args if a.is_written]
    if first is None or second is None:
        pairs = [(a.name, a.value, b.value) for a, b in zip(own, arguments, strict=True) if a.is_written]
    else:
        pairs = list(zip(names, first, second, strict=False))
    for name, one, other in pairs:
        if equal(one, other):
            continue
        found = (
            f"gives another {name!r} when it is called again with the same arguments: {describe_difference(one, other)}"
        )
        if not draws_random_numbers and is_reproducible(
            contract, args, *zip(*(answers for _, *answers in pairs), strict=True)
        ):
            inferred.append(
                f"reference.py: reference(...) {found}; in float64, with which kernels are compared, it does not."
            )
            return
        raise ContractError(
            f"reference.py: reference(...) {found} (random numbers, dropout in training, memory that was never "
            f"written?); nothing can be "
            "checked against it, so make it depend on them alone"
        )


def is_reproducible(contract: Contract, args: list[Arg], *natives: tuple[torch.Tensor, ...]) -> bool:
    """Whether two float64 results agree to the precision of the task and are close to all `natives`, its results in its
    own dtypes; False where this cannot be determined."""
    calls = []
    try:
        for _ in range(2):
            wide = copy_arguments(args, wide=True, outputs=not contract.returns)
            if not contract.returns:
                mark(wide)
            calls.append([tensor.clone() for tensor in results(contract, wide)])
    except ContractError:
        return False
    outputs = [a.value.dtype for a in args if a.is_written]
    for dtype, one, other, *own in zip(outputs, *calls, *natives, strict=True):
        if any(answer.shape != one.shape for answer in (other, *own)):
            return False
        if not dtype.is_floating_point:
            if not all(is_equal(one, answer) for answer in (other, *own)):
                return False
            continue
        close = torch.finfo(dtype).eps ** 0.5
        is_float64 = one.dtype is torch.float64 and dtype is not torch.float64
        if (
            not is_float64
            or not is_equal_up_to_summation_order(one, other, dtype)
            or any(bool((strayed(one, answer) > close).any()) for answer in own)
        ):
            return False
    return True


def describe_difference(one: torch.Tensor, other: torch.Tensor) -> str:
    """Return a description of how two results differ: the count, and the position and values of the largest
    difference."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"once {tuple(one.shape)} of {one.dtype}, once {tuple(other.shape)} of {other.dtype}"
    far = strayed(one, other) if one.dtype.is_floating_point else (one != other).to(torch.float64)
    worst = int(far.argmax())
    values = f"once {one.flatten()[worst].item()!r}, once {other.flatten()[worst].item()!r}"
    return f"in {int((far > 0).sum())} of {one.numel()} elements, most in number {worst}: {values}"


def random_states() -> list:
    """Return the states of the process's random generators: torch's, Python's and, where it is loaded, NumPy's."""
    numpy = sys.modules.get("numpy.random")
    return [torch.get_rng_state().tolist(), random.getstate(), repr(numpy.get_state(legacy=False)) if numpy else None]


def is_equal_up_to_summation_order(one: torch.Tensor, other: torch.Tensor, dtype: torch.dtype | None = None) -> bool:
    """Whether two results differ by no more than another order of parallel sums explains: some units in the last place
    of `dtype`, or of their own.

    On a CPU, `index_put_(accumulate=True)` sums in another order each time: a million terms into ten elements differed
    by 64 units (torch 2.13, two threads).
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.dtype.is_floating_point or is_equal(one, other):
        return is_equal(one, other)
    eps = torch.finfo(dtype or one.dtype).eps
    return bool((strayed(one, other) <= min(UNITS * eps, eps**0.5)).all())


def strayed(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return for each element |one - other| / (|one| + median of |one|), and infinity where one is NaN.

    The median and not the maximum, because beside one large value random differences in all others would not show.
    """
    one, other = one.to(torch.float64).flatten(), other.to(torch.float64).flatten()
    finite = one[torch.isfinite(one)].abs()
    middle = finite.median() if finite.numel() else 0.0
    distance = ((one - other).abs() / (one.abs() + middle)).nan_to_num(nan=torch.inf)
    return torch.where(is_equal_at(one, other), 0.0, distance)


def is_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same shape and equal elements, with NaN equal to NaN."""
    return a.shape == b.shape and bool(is_equal_at(a, b).all())


def is_equal_at(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return where two tensors of the same shape are equal, with NaN equal to NaN."""
    a, b = computable(a), computable(b)
    return (a == b) | ((a != a) & (b != b))
