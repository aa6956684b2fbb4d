"""Calls a reference without values: the shapes, types and operations of a workload of any size, in seconds."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from harness.reference.contract import Arg, Contract, ContractError
from harness.reference.flops import FlopCounter
from harness.reference.outputs import declared_names

SHAPES_S = 12.0
"""Seconds of a core for the calls without values of all workloads. A tensor without values costs up to a millisecond
for each operation, so a reference of many small operations is quicker with values."""
LARGE_PRODUCT = 10**8
"""Product of a workload's integer dims above which its shapes are determined before its values."""
VALUE_OPERATIONS = {"cpu": 2e10}
"""Kind of device -> operations that the checks of values may take: a few seconds."""
GPU_OPERATIONS = 2e13
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
    """Gives NaN for each float that is read from a tensor without values, ends a call that takes too long, and records
    the operators that draw random numbers (attention is said to, whose dropout is a rare one)."""

    def __init__(self, end: float):
        super().__init__()
        self.end = end
        self.random: list[str] = []
        self.counter = FlopCounter()
        """Counts the operations of the call that is made."""

    def gru_by_one_step(self, tensor: torch.Tensor, hidden: torch.Tensor, *rest):
        """Return what `torch._VF.gru` does, whose thousands of small steps all have the shapes of the first."""
        if tensor.dim() != 3 or not isinstance(rest[-1], bool):
            return torch.gru(tensor, hidden, *rest)
        axis = int(rest[-1])
        steps, before, types = tensor.shape[axis], self.counter.total, self.counter.types.copy()
        output, last = torch.gru(tensor.narrow(axis, 0, 1), hidden, *rest)
        self.counter.total += (steps - 1) * (self.counter.total - before)
        for kind, count in (self.counter.types - types).items():
            self.counter.types[kind] += (steps - 1) * count
        return output.repeat_interleave(steps, axis), last

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if time.process_time() > self.end:
            raise TooSlow("the call without values takes too long")
        if torch.Tag.nondeterministic_seeded in func.tags and "attention" not in func.__name__:
            self.random.append(func.__name__.removesuffix(".default"))
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
    for name, one in module._parameters.items():
        if one is not None:
            module._parameters[name] = torch.nn.Parameter(function(one), one.requires_grad)
    module._buffers |= {name: function(one) for name, one in module._buffers.items() if one is not None}
    return module


def product_of_sizes(dims: dict) -> int:
    """Return the product of the dims that are integers above 0."""
    return math.prod(v for v in dims.values() if isinstance(v, int) and v > 0)


@contextlib.contextmanager
def without_values(end: float) -> Iterator[Numbers]:
    """Context in which new tensors have no values; no operation begins after `end` (`time.process_time`)."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    validates = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)  # It reads values.
    try:
        with (
            mock.patch.object(torch.nn.Module, "_apply", apply_to_tensors),
            FakeTensorMode(allow_non_fake_inputs=True),
            Numbers(end) as numbers,
            mock.patch.object(torch._VF, "gru", numbers.gru_by_one_step, create=True),
        ):
            yield numbers
    finally:
        torch.distributions.Distribution.set_default_validate_args(validates)


class ShapedCall:
    """Arguments without values at one set of dims, with the operations of a call."""

    def __init__(self, contract: Contract, dims: dict, parameters: list[dict], numbers: Numbers):
        self.dims = dims
        self.args: list[Arg] = contract.build(dims, 1, parameters, 0)
        tensors = [a.name for a in self.args if a.is_tensor]
        roles = dict.fromkeys(declared_names(contract, "outputs", tensors) or (), "output")
        roles |= dict.fromkeys(declared_names(contract, "inout", tensors) or (), "inout")
        for a in self.args:
            a.role = roles.get(a.name, "input") if a.is_tensor else "scalar"
        self.counter = numbers.counter = FlopCounter()
        numbers.random = []
        with self.counter:
            answer = contract.call(self.args)
        self.random = numbers.random
        """Operators that draw random numbers, which need not reach the result."""
        expected = [tuple(a.value.shape) for a in self.args if a.is_written]
        if answer is not None and [tuple(one.shape) for one in answer] != expected:
            raise ContractError("the outputs have other shapes than their buffers")


class DerivedCall(ShapedCall):
    """Arguments at dims at which the reference was not called."""

    def __init__(self, args: list[Arg], dims: dict):
        self.dims, self.args, self.counter, self.random = dims, args, FlopCounter(), []


def derive_arguments(calls: list[ShapedCall], dims: dict) -> list[Arg] | None:
    """Return the arguments at `dims`, as those of two calls or more that have the first one's names follow their dims;
    None if one does not."""
    calls = [call for call in calls if [a.name for a in call.args] == [a.name for a in calls[0].args]]
    if len(calls) < 2:
        return None
    derived = []
    for same in zip(*(call.args for call in calls), strict=True):
        seen = [[*one.value.shape] if one.is_tensor else [one.value] for one in same]
        if len({len(sizes) for sizes in seen}) > 1:
            return None
        sizes = [
            derive_number([(call.dims, one[axis]) for call, one in zip(calls, seen, strict=True)], dims)
            for axis in range(len(seen[0]))
        ]
        if None in sizes:
            return None
        value = torch.empty(sizes, dtype=same[0].value.dtype, device="meta") if same[0].is_tensor else sizes[0]
        derived.append(Arg(same[0].name, value, same[0].dtype, same[0].role))
    return derived


def derive_number(seen: list[tuple[dict, float]], dims: dict) -> float | None:
    """Return the number at `dims` that is the same dim, or the same number, at all dims that were seen; None if there
    is none, or several."""
    first, number = seen[0]
    numbers = {dims[name] for name in first if name in dims and all(at.get(name) == one for at, one in seen)}
    numbers |= {number} if all(one == number for _, one in seen) else set()
    return numbers.pop() if len(numbers) == 1 else None


def calls_without_values(
    text: str, workloads: Callable[[Contract], list[tuple[str, dict]]], parameters: list[dict]
) -> tuple[Contract | None, dict[str, ShapedCall]]:
    """Return the reference imported without values (None: it needs some), and workload -> its call without values.

    A workload that needs values, or more time, has the arguments that follow from those of the others, or is left out.
    The reference is imported for these calls alone: what it keeps of them must not reach a call with values. Raises
    ContractError for what a problem of a suite refuses itself.
    """
    import torch._subclasses.fake_tensor  # noqa: F401  (its import takes seconds, which are not those of the calls)

    found: dict[str, ShapedCall] = {}
    needing: dict[str, dict] = {}
    contract = None
    end = time.process_time() + SHAPES_S
    with without_values(end) as numbers:
        with unless_definite():
            contract = Contract(text)
            if not contract.has_make_inputs or contract.get("outputs") is None:
                return None, {}
        listed = workloads(contract) if contract else []
        for name, dims in sorted(listed, key=lambda workload: product_of_sizes(workload[1])):
            with unless_definite() as caught:
                found[name] = ShapedCall(contract, dims, parameters, numbers)
            if any(isinstance(error, TooSlow) or type(error.__cause__).__name__ in NEEDS_VALUES for error in caught):
                needing[name] = dims
    called = [found[name] for name, _ in listed if name in found]
    return contract, found | {
        name: DerivedCall(args, dims) for name, dims in needing.items() if (args := derive_arguments(called, dims))
    }


@contextlib.contextmanager
def unless_definite() -> Iterator[list[ContractError]]:
    """Context that ends at a ContractError, which its list then holds, unless values would not change it."""
    caught: list[ContractError] = []
    try:
        yield caught
    except ContractError as error:
        if error.is_definite:
            raise
        caught.append(error)


class ValueBudget:
    """The work that the checks of values may do on a kind of device, and its time."""

    def __init__(self, device: str):
        self.left = VALUE_OPERATIONS.get(device, GPU_OPERATIONS)
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
        work = self.calls * (call.counter.total + ELEMENT_OPERATIONS * elements)
        if work > self.left or work * self.pace > self.end + VALUES_S - now or isinstance(call, DerivedCall):
            self.work = 0.0
            return False
        self.left, self.calls = self.left - work, CALLS_OF_OTHERS
        self.begun, self.work = now, work
        return True
