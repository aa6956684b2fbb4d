"""Calls a reference without values: the shapes, types and operations of a workload of any size, in seconds."""

import math
import re
import time
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from harness.reference.contract import Arg, Contract, ContractError
from harness.reference.flops import FlopCounter
from harness.reference.outputs import infer_roles, set_roles

SHAPES_S = 12.0
"""Seconds of a core for the calls without values of all workloads. A tensor without values costs up to a millisecond
for each operation, so a reference of many small operations is quicker with values."""
LARGE_PRODUCT = 10**8
"""Product of a workload's integer dims above which its shapes are determined before its values."""
CPU_OPERATIONS, GPU_OPERATIONS = 2e10, 2e13
"""Operations that the checks of values may take: a few seconds."""
ELEMENT_OPERATIONS = 10
"""Operations that the checks of an argument's element take as long as: it is drawn, copied, widened and compared."""
VALUES_S = 15.0
"""Seconds that the checks of values may take in workloads whose shapes are known, as those before them predict."""
NEEDS_VALUES = ("DataDependentOutputException", "DynamicOutputShapeException", "UnsupportedOperatorException")
"""Errors of an operator that has no answer without values."""
CALLS_OF_FIRST, CALLS_OF_OTHERS = 9, 3
"""Calls of the reference that the checks of the first workload, and of each other one, make."""


class TooSlow(ContractError):
    """The calls without values took all of their time."""


class Numbers(TorchDispatchMode):
    """Gives NaN for each float that is read from a tensor without values, and ends a call that takes too long."""

    def __init__(self, end: float):
        super().__init__()
        self.end = end

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if time.process_time() > self.end:
            raise TooSlow("the call without values takes too long")
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            # A kernel's outputs have sizes that no value decides, so any index may stand for those that are unknown.
            tensors = [one for one in args if isinstance(one, torch.Tensor)]
            if type(error).__name__ == NEEDS_VALUES[1] and not any(one.is_floating_point() for one in tensors):
                with torch._subclasses.fake_tensor.unset_fake_temporarily():
                    return func(*_pytree.tree_map_only(torch.Tensor, zeros, args), **(kwargs or {}))
            # Constructors read rates of dropout from linspace. No integer, and so no size, can be made of NaN.
            if func is torch.ops.aten._local_scalar_dense.default and args[0].is_floating_point():
                return math.nan
            raise


def zeros(like: torch.Tensor) -> torch.Tensor:
    """Return zeros, with values, of the shape and type of a tensor without."""
    return torch.zeros(like.shape, dtype=like.dtype)


def apply_to_tensors(module: torch.nn.Module, function, recurse: bool = True) -> torch.nn.Module:
    """Do what `Module._apply` does, which cannot exchange tensors without values."""
    for child in module.children() if recurse else ():
        child._apply(function)
    for held, kind in ((module._parameters, torch.nn.Parameter), (module._buffers, lambda one, _: one)):
        held.update((name, kind(function(one), one.requires_grad)) for name, one in held.items() if one is not None)
    return module


def is_large(text: str, sizes: list[dict]) -> bool:
    """Whether a reference says that its sizes are large, or the integer dims of one have a large product."""
    largest = max(map(product_of_sizes, sizes), default=0)
    return largest > LARGE_PRODUCT or bool(re.search(r"^large = True", text, re.MULTILINE))


def product_of_sizes(dims: dict) -> int:
    """Return the product of the dims that are integers above 0."""
    return math.prod(v for v in dims.values() if isinstance(v, int) and v > 0)


class ShapedCall(NamedTuple):
    """Arguments without values at one set of dims."""

    dims: dict
    args: list[Arg]
    counter: FlopCounter | None
    """Operations of a call; None: the reference was not called at these dims."""


def call_without_values(contract: Contract, dims: dict, parameters: list[dict]) -> ShapedCall:
    """Return the call at `dims`, in a context without values."""
    args = contract.build(dims, 1, parameters, 0)
    set_roles(args, infer_roles(contract, args, []))
    with FlopCounter() as counter:
        answer = contract.call(args)
    expected = [tuple(a.value.shape) for a in args if a.is_written]
    if answer is not None and [tuple(one.shape) for one in answer] != expected:
        raise ContractError("the outputs have other shapes than their buffers")
    return ShapedCall(dims, args, counter)


def derive_arguments(calls: list[ShapedCall], dims: dict) -> list[Arg] | None:
    """Return the arguments at `dims`, as those of two calls or more that have the first one's names and ranks follow
    their dims; None if one does not."""
    calls = [call for call in calls if _names_and_ranks(call) == _names_and_ranks(calls[0])]
    derived = []
    for same in zip(*(call.args for call in calls), strict=True) if len(calls) > 1 else ():
        numbers = zip(*(one.value.shape if one.is_tensor else (one.value,) for one in same), strict=True)
        found = [derive_number([call.dims for call in calls], seen, dims) for seen in numbers]
        if None in found:
            return None
        first = same[0]
        value = torch.empty(found, dtype=first.value.dtype, device="meta") if first.is_tensor else found[0]
        derived.append(Arg(first.name, value, first.dtype, first.role))
    return derived or None


def _names_and_ranks(call: ShapedCall) -> list[tuple]:
    return [(a.name, a.is_tensor and a.value.dim()) for a in call.args]


def derive_number(known: list[dict], seen: tuple, dims: dict) -> float | None:
    """Return the number at `dims` that is the same dim, or the same number, at all `known` dims, where it was `seen`;
    None if there is none, or several."""
    numbers = {dims[name] for name in dims if [at.get(name) for at in known] == [*seen]}
    numbers |= {*seen} if len({*seen}) == 1 else set()
    return numbers.pop() if len(numbers) == 1 else None


def calls_without_values(
    text: str, workloads: Callable[[Contract], list[tuple[str, dict]]], parameters: list[dict]
) -> tuple[Contract | None, dict[str, ShapedCall]]:
    """Return the reference imported without values (None: it needs some), and workload -> its call without values.

    A workload that needs values, or more time, has the arguments that follow from those of the others, or is left out.
    The reference is imported for these calls alone: what it keeps of them must not reach a call with values.
    """
    # Its import takes seconds, which are not those of the calls.
    from torch._subclasses.fake_tensor import FakeTensorMode

    found: dict[str, ShapedCall] = {}
    needing: dict[str, dict] = {}
    with (
        mock.patch.object(torch.distributions.Distribution, "_validate_args", False),  # It reads values.
        mock.patch.object(torch.nn.Module, "_apply", apply_to_tensors),
        FakeTensorMode(allow_non_fake_inputs=True),
        Numbers(time.process_time() + SHAPES_S),
    ):
        try:
            contract = Contract(text)
        except ContractError:
            return None, {}
        if not contract.has_make_inputs or contract.get("outputs") is None:
            return None, {}
        listed = workloads(contract)
        for name, dims in sorted(listed, key=lambda workload: product_of_sizes(workload[1])):
            try:
                found[name] = call_without_values(contract, dims, parameters)
            except ContractError as error:
                if isinstance(error, TooSlow) or type(error.__cause__).__name__ in NEEDS_VALUES:
                    needing[name] = dims
    called = [found[name] for name, _ in listed if name in found]
    return contract, found | {
        name: ShapedCall(dims, args, None) for name, dims in needing.items() if (args := derive_arguments(called, dims))
    }


class ValueBudget:
    """The work that the checks of values may do on a kind of device, and its time."""

    def __init__(self, device: str):
        self.left = CPU_OPERATIONS if device == "cpu" else GPU_OPERATIONS
        self.calls = CALLS_OF_FIRST
        self.begun = self.end = time.monotonic()
        self.work, self.pace = 0.0, 0.0

    def affords(self, call: ShapedCall) -> bool:
        """Return whether the checks of this workload fit, and count them if they do; unknown work does not fit.

        The slowest workload before, by operation, says how long they take.
        """
        now = time.monotonic()
        self.pace = max(self.pace, (now - self.begun) / self.work if self.work else 0.0)
        elements = sum(a.value.numel() for a in call.args if a.is_tensor)
        work = self.calls * (call.counter.total + ELEMENT_OPERATIONS * elements) if call.counter else math.inf
        if work > self.left or work * self.pace > self.end + VALUES_S - now:
            self.work = 0.0
            return False
        self.left, self.calls = self.left - work, CALLS_OF_OTHERS
        self.begun, self.work = now, work
        return True
