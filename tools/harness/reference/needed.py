"""What a reference's outputs depend on, with these very values: ragged, sparse, paged and early-exit work leaves much
of its inputs unread.

An element that no gradient reaches may be one of those. They are shown to be unread when no output moves though all of
them together take other values: higher than any that is there, lower, and between. Where one moves (a maximum, a
search, an integer answer), each row of the input, by the axes that it begins with like the outputs, is looked at for
how far from either end that is so. That nothing moves shows something only where the same values move an output when
they take the place of the whole input: what counts rare hits never moves. What is not shown counts as read, and so do
booleans wholly and integers, by which a kernel finds its way; but those of a byte or two are data where gradients would
reach some of them, and take the values that they may have.
"""

import contextlib
import math
import time
from itertools import takewhile

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.reference.comparison import copy_arguments, mark, results
from harness.reference.contract import Arg, Contract, ContractError, call_or_contract_error, total_bytes

ROW_PARTS = 16
"""Where nearly every row needs the first and the last of so many parts, rows are not looked at more closely."""


def needed_bytes(contract: Contract, args: list[Arg], seconds: float) -> int:
    """Bytes of the inputs that any kernel must read, and of the outputs that the reference defines; at most those of
    all tensors.

    What cannot be told, or not in about `seconds`, counts.
    """
    found = DependencyProbe(contract, args, seconds)
    with contextlib.suppress(ContractError):
        call_or_contract_error("counting what must be read", found.look)
    spared = sum(int(found.spared[a.name].sum()) * a.value.element_size() for a in args if a.name in found.spared)
    return total_bytes(args) - found.undefined - spared


class DependencyProbe(TorchDispatchMode):
    """The arguments of one call, in float32 at least, and what comes of others; as a context, operations end when half
    of the time has.

    Not in float64 as the oracle: what is asked is whether anything moves, which is asked often.
    """

    def __init__(self, contract: Contract, args: list[Arg], seconds: float):
        super().__init__()
        self.contract, self.args = contract, args
        self.end, self.seconds = time.monotonic() + seconds, seconds
        self.spared: dict[str, torch.Tensor] = {}
        """Input -> the elements that are shown not to count."""
        self.undefined = 0
        """Bytes of the outputs that the reference leaves alone."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.left() < 0.5 * self.seconds:
            raise ContractError("it takes too long")
        return func(*args, **(kwargs or {}))

    def left(self) -> float:
        return self.end - time.monotonic()

    def look(self) -> None:
        self.wide = copy_arguments(self.args)
        for a in self.wide:
            if a.is_tensor and a.value.is_floating_point() and a.value.element_size() < 4:
                a.value = a.value.to(torch.float32)
        self.base = self.call({})
        if self.left() < 0.9 * self.seconds:
            return  # It takes many calls.
        left = [0 if self.contract.returns else int(one.isnan().sum()) for one in self.base]
        outputs = [a for a in self.args if a.role == "output"]
        self.undefined = sum(
            (a.value.numel() - one.numel() + none) * a.value.element_size()
            for a, one, none in zip(outputs, self.base, left, strict=True)
        )
        self.slack = [slack(one.nan_to_num_()) for one in self.base]
        inputs = {
            a.name: a.value for a in self.wide if a.role == "input" and a.is_tensor and a.value.dtype != torch.bool
        }
        self.inputs = {
            name: value for name, value in inputs.items() if value.is_floating_point() or value.element_size() <= 2
        }
        self.bounds = {name: bounds(value) for name, value in self.inputs.items()}
        for name, mask in self.unreached().items():
            if self.moved({**self.spared, name: mask}).any():
                mask = self.ends(name, mask)
                if self.moved({**self.spared, name: mask}).any():
                    continue
            if self.moved({name: torch.ones_like(mask)}).any():
                self.spared[name] = mask

    def call(self, others: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """The outputs with `others` in place of the inputs of these names."""
        args = [Arg(a.name, others.get(a.name, a.value), a.dtype, a.role) for a in self.wide]
        for a in args:
            a.value = a.value.clone() if a.role == "output" else a.value
        mark(args)
        # A reference may return the same buffer each time.
        return [one.clone() if one.is_floating_point() else one.double() for one in results(self.contract, args)]

    def unreached(self) -> dict[str, torch.Tensor]:
        """Input -> the elements that no gradient reaches; all where there is none to be had in a part of the time,
        but none of integers."""
        floating = {name: value for name, value in self.inputs.items() if value.is_floating_point()}
        found: tuple[torch.Tensor | None, ...] = ()
        for chosen in (self.inputs, floating) if len(floating) < len(self.inputs) else (floating,):
            leaves = [
                (value if name in floating else value.to(torch.float32)).detach().requires_grad_()
                for name, value in chosen.items()
            ]
            try:
                with torch.enable_grad(), self:
                    answers = [one for one in self.call(dict(zip(chosen, leaves, strict=True))) if one.requires_grad]
                    found = torch.autograd.grad(
                        answers, leaves, [torch.randn_like(one) for one in answers], allow_unused=True
                    )
                break
            except (ContractError, RuntimeError):
                found = (None,) * len(leaves)
        masks = {
            name: torch.ones_like(self.inputs[name], dtype=torch.bool) if one is None else ~(one.abs() > 0)
            for name, one in zip(chosen, found, strict=True)
        }
        return {name: mask for name, mask in masks.items() if mask.any() and (name in floating or not mask.all())}

    def moved(self, masks: dict[str, torch.Tensor], rows: tuple[int, ...] = (), draws: int = 3) -> torch.Tensor:
        """In which `rows` (leading axes of all outputs) one moves when the elements under `masks` take other values."""
        seen = torch.zeros(math.prod(rows), dtype=torch.bool, device=self.base[0].device)
        for draw in range(draws):
            found = self.call({name: self.other(name, mask, draw) for name, mask in masks.items()})
            for base, one, allowed in zip(self.base, found, self.slack, strict=True):
                seen |= ((one.nan_to_num_() - base).abs() > allowed).view(len(seen), -1).any(1)
            if seen.all():
                break
        return seen

    def other(self, name: str, mask: torch.Tensor, draw: int) -> torch.Tensor:
        """The input with its upper bound under `mask`, the lower one, or values between these."""
        value, (low, high) = self.inputs[name], self.bounds[name]
        drawn = (
            low + (high - low) * torch.rand(value.shape, device=value.device)
            if draw == 2
            else torch.tensor((high, low)[draw], dtype=torch.float64)
        )
        drawn = drawn if value.is_floating_point() else drawn.round()
        return torch.where(mask, drawn.to(value), value)

    def ends(self, name: str, mask: torch.Tensor) -> torch.Tensor:
        """What of `mask` lies at either end of its rows, as far as it moves nothing: found by halving, for all rows
        at once."""
        alike = takewhile(
            lambda extents: len(set(extents)) == 1,
            zip(mask.shape[:-1], *(one.shape for one in self.base), strict=False),
        )
        rows = tuple(extents[0] for extents in alike)
        flat = mask.reshape(math.prod(rows), -1)
        columns = flat.shape[1]
        found, at = torch.zeros_like(flat), torch.arange(columns, device=mask.device)

        def moves(part: torch.Tensor) -> torch.Tensor:
            return self.moved({**self.spared, name: (found | part).view_as(mask)}, rows, 2)[:, None]

        for order in (at, at.flip(0)):
            before = self.left()
            if moves(flat & (order >= columns - max(columns // ROW_PARTS, 1))).double().mean() > 0.9:
                continue
            look = before - self.left()
            low = torch.zeros(len(flat), 1, dtype=torch.int64, device=mask.device)
            high = low + columns
            while bool((low < high).any()) and self.left() > 4 * look:
                middle = (low + high) // 2
                there = moves(flat & (order >= middle)) & (low < high)
                low, high = torch.where(there, middle + 1, low), torch.where(there, high, middle)
            found |= flat & (order >= high)
        return found.view_as(mask)


def bounds(value: torch.Tensor) -> tuple[float, float]:
    """A value below all of these, but not negative where none is, and one above all; of integers the least and the
    greatest."""
    low, high = (float(one) for one in value.nan_to_num(posinf=0.0, neginf=0.0).aminmax())
    if not value.is_floating_point():
        return low, high
    span = (high - low) or abs(high) or 1.0
    return (low - span if low < 0 else low / 2), high + span


def slack(base: torch.Tensor) -> torch.Tensor:
    """How much the order of sums may move each element of an output, as a share of it and of the mean one in its
    row."""
    return torch.finfo(base.dtype).eps ** 0.7 * (base.abs() + base.abs().mean(-1, keepdim=True))
