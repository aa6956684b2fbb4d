"""Whether a reference answers twice alike: it may sum in another order, but what is drawn by chance cannot say what
is right."""

import random
import sys

import torch

from harness.reference.comparison import copy_arguments, float64_copies, mark, results
from harness.reference.contract import Arg, Contract, ContractError

UNITS = 128
"""Of the last place, by which a reference may differ from itself: twice what was seen of any operation."""


def look_for_chance(
    contract: Contract, args: list[Arg], own: list[Arg], returned: tuple | None, inferred: list[str]
) -> None:
    """A reference that gives something else when it is called again cannot say what is right. `own`, `returned`: of the
    first call.

    Where it draws from a generator that the whole process shares, any difference is chance; else the last digits may
    differ, and all of them where in float64, which kernels are held against, they do not, and those lie close to both:
    chance would move them as well.
    """
    # A reference may return the same buffer each time.
    first = None if returned is None else [tensor.clone() for tensor in returned]
    again = copy_arguments(args)
    before = generators()
    second = contract.call(again)
    moved = generators() != before
    equal = is_equal if moved else is_equal_up_to_summation_order
    names = [a.name for a in args if a.role == "output"]
    if first is None or second is None:
        pairs = [(a.name, a.value, b.value) for a, b in zip(own, again, strict=True) if a.role == "output"]
    else:
        pairs = list(zip(names, first, second, strict=False))
    for name, one, other in pairs:
        if equal(one, other):
            continue
        found = (
            f"gives another {name!r} when it is called again with the same arguments, {describe_difference(one, other)}"
        )
        if not moved and is_reproducible(contract, args, *zip(*(answers for _, *answers in pairs), strict=True)):
            inferred.append(
                f"reference.py: reference(...) {found}; in float64, which kernels are held against, it does not."
            )
            return
        raise ContractError(
            f"reference.py: reference(...) {found} (random numbers, dropout in training, memory that was never "
            f"written?); nothing can be "
            "checked against it, so make it depend on them alone"
        )


def is_reproducible(contract: Contract, args: list[Arg], *natives: tuple[torch.Tensor, ...]) -> bool:
    """Whether the reference is the same twice in float64, to the precision of the task, and all its answers
    `natives` in its own dtypes are about that; False where it cannot be told."""
    calls = []
    try:
        for _ in range(2):
            wide = float64_copies(args, outputs=not contract.returns)
            if not contract.returns:
                mark(wide)
            calls.append([tensor.clone() for tensor in results(contract, wide)])
    except ContractError:
        return False
    outputs = [a.value.dtype for a in args if a.role == "output"]
    for dtype, one, other, *own in zip(outputs, *calls, *natives, strict=True):
        if any(answer.shape != one.shape for answer in (other, *own)):
            return False
        if not dtype.is_floating_point:
            if not all(is_equal(one, answer) for answer in (other, *own)):
                return False
            continue
        close = torch.finfo(dtype).eps ** 0.5
        precise = one.dtype is torch.float64 and dtype is not torch.float64
        if (
            not precise
            or not is_equal_up_to_summation_order(one, other, dtype)
            or any(bool((strayed(one, answer) > close).any()) for answer in own)
        ):
            return False
    return True


def describe_difference(one: torch.Tensor, other: torch.Tensor) -> str:
    """How two results differ, in words."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"once {tuple(one.shape)} of {one.dtype}, once {tuple(other.shape)} of {other.dtype}"
    far = strayed(one, other) if one.dtype.is_floating_point else (one != other).to(torch.float64)
    at = int(far.argmax())
    values = f"once {one.flatten()[at].item()!r}, once {other.flatten()[at].item()!r}"
    return f"in {int((far > 0).sum())} of {one.numel()} elements, most in number {at}: {values}"


def generators() -> list:
    """The states of the random generators that a process shares: torch's, Python's and, where it is loaded, NumPy's."""
    numpy = sys.modules.get("numpy.random")
    return [torch.get_rng_state().tolist(), random.getstate(), repr(numpy.get_state(legacy=False)) if numpy else None]


def is_equal_up_to_summation_order(one: torch.Tensor, other: torch.Tensor, dtype: torch.dtype | None = None) -> bool:
    """Equal but for what the order of parallel sums may move: some units in the last place (of `dtype`, or their own).

    Of torch's operations on a CPU `index_put_(accumulate=True)` was found to sum in another order each time: a million
    terms into ten elements moved them by 64 units (torch 2.13, two threads).
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.dtype.is_floating_point or is_equal(one, other):
        return is_equal(one, other)
    eps = torch.finfo(dtype or one.dtype).eps
    return bool((strayed(one, other) <= min(UNITS * eps, eps**0.5)).all())


def strayed(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """How far each element lies from its other value, as a share of itself and the middle one together; infinity where
    one is NaN.

    Not of the largest, beside which chance in all others would not be seen.
    """
    one, other = one.to(torch.float64).flatten(), other.to(torch.float64).flatten()
    finite = one[torch.isfinite(one)].abs()
    middle = finite.median() if finite.numel() else 0.0
    far = ((one - other).abs() / (one.abs() + middle)).nan_to_num(nan=torch.inf)
    return torch.where((one == other) | ((one != one) & (other != other)), 0.0, far)


def is_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
