"""Calls a reference without values: the shapes, types and operations of a workload of any size, in seconds."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from unittest import mock

import torch
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
CALLS_OF_FIRST, CALLS_OF_OTHERS = 9, 3
"""Calls of the reference that the checks of the first workload, and of each other one, make."""


class Numbers(TorchDispatchMode):
    """Gives NaN for each float that is read from a tensor without values, ends a call that takes too long, and records
    the operators that draw random numbers (attention is said to, whose dropout is a rare one)."""

    def __init__(self, end: float):
        super().__init__()
        self.end = end
        self.random: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if time.process_time() > self.end:
            raise ContractError("the call without values takes too long")
        if torch.Tag.nondeterministic_seeded in func.tags and "attention" not in func.__name__:
            self.random.append(func.__name__.removesuffix(".default"))
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            # Constructors read rates of dropout from linspace. No integer, and so no size, can be made of NaN.
            if func is torch.ops.aten._local_scalar_dense.default and args[0].is_floating_point():
                return math.nan
            raise


def apply_to_tensors(module: torch.nn.Module, function, recurse: bool = True) -> torch.nn.Module:
    """Do what `Module._apply` does, which cannot exchange tensors without values."""
    for child in module.children() if recurse else ():
        child._apply(function)
    for name, one in module._parameters.items():
        if one is not None:
            module._parameters[name] = torch.nn.Parameter(function(one), one.requires_grad)
    module._buffers |= {name: function(one) for name, one in module._buffers.items() if one is not None}
    return module


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
        ):
            yield numbers
    finally:
        torch.distributions.Distribution.set_default_validate_args(validates)


class ShapedCall:
    """Arguments without values at one set of dims, with the operations of a call."""

    def __init__(self, contract: Contract, dims: dict, parameters: list[dict], numbers: Numbers):
        self.args: list[Arg] = contract.build(dims, 1, parameters, 0)
        tensors = [a.name for a in self.args if a.is_tensor]
        roles = dict.fromkeys(declared_names(contract, "outputs", tensors) or (), "output")
        roles |= dict.fromkeys(declared_names(contract, "inout", tensors) or (), "inout")
        for a in self.args:
            a.role = roles.get(a.name, "input") if a.is_tensor else "scalar"
        self.counter = FlopCounter()
        numbers.random = []
        with self.counter:
            answer = contract.call(self.args)
        self.random = numbers.random
        """Operators that draw random numbers, which need not reach the result."""
        expected = [tuple(a.value.shape) for a in self.args if a.is_written]
        if answer is not None and [tuple(one.shape) for one in answer] != expected:
            raise ContractError("the outputs have other shapes than their buffers")


def calls_without_values(
    text: str, workloads: Callable[[Contract], list[tuple[str, dict]]], parameters: list[dict]
) -> tuple[Contract | None, dict[str, ShapedCall]]:
    """Return the reference imported without values (None: it needs some), and workload -> its call without values.

    A workload that needs values is left out. The reference is imported for these calls alone: what it keeps of them
    must not reach a call with values. Raises ContractError for what a problem of a suite refuses itself.
    """
    import torch._subclasses.fake_tensor  # noqa: F401  (its import takes seconds, which are not those of the calls)

    found: dict[str, ShapedCall] = {}
    contract = None
    end = time.process_time() + SHAPES_S
    with without_values(end) as numbers:
        with unless_definite():
            contract = Contract(text)
            if not contract.has_make_inputs or contract.get("outputs") is None:
                return None, {}
        for name, dims in workloads(contract) if contract else ():
            with unless_definite():
                found[name] = ShapedCall(contract, dims, parameters, numbers)
    return contract, found


@contextlib.contextmanager
def unless_definite():
    """Context that ends at a ContractError, unless values would not change it."""
    try:
        yield
    except ContractError as error:
        if error.is_definite:
            raise


class ValueBudget:
    """The work that the checks of values may do on a kind of device."""

    def __init__(self, device: str):
        self.left = VALUE_OPERATIONS.get(device, GPU_OPERATIONS)
        self.calls = CALLS_OF_FIRST

    def affords(self, call: ShapedCall) -> bool:
        """Return whether the checks of this workload fit, and count them if they do."""
        work = self.calls * (call.counter.total + sum(a.value.numel() for a in call.args if a.is_tensor))
        if work > self.left:
            return False
        self.left, self.calls = self.left - work, CALLS_OF_OTHERS
        return True
