"""Determines which input elements a reference's outputs depend on for the given values: ragged, sparse, paged and
early-exit operations leave much of their inputs unread.

Elements that no gradient reaches are candidates. They count as unread when no output changes although all of them take
other values together: above all values of the input, below, and between. Where an output changes (a maximum, a search,
an integer result), the module searches each row of the input, along the leading axes that it shares with the outputs,
for the longest part at either end that changes nothing. Such a result counts only if the same values change an output
when they replace the whole input, because a count of rare hits never changes. Whatever is not shown to be unread counts
as read. Booleans always do, and so do integers, which a kernel may use as indices; integers of one or two bytes are
data where gradients would reach some of them, and take values of their own range. Of an argument that is read and
written, elements that the reference leaves as they are need not be written, and count as read where other values of
them would change something.
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
"""Parts of a row: if nearly every row needs its first or its last part, the rows are not searched further."""


def look_for_needed(contract: Contract, args: list[Arg], seconds: float) -> tuple[int, list[str]]:
    """Return the bytes of the inputs that any kernel must read plus those of the outputs that the reference defines, at
    most the bytes of all tensors; and the floating inputs of which no other values that were tried change an output.

    What cannot be determined in about `seconds` counts.
    """
    probe = DependencyProbe(contract, args, seconds)
    with contextlib.suppress(ContractError):
        call_or_contract_error("counting what must be read", probe.find_unread)
    spared = sum(int(probe.spared[a.name].sum()) * a.value.element_size() for a in args if a.name in probe.spared)
    return total_bytes(args) - probe.undefined - spared, probe.idle


class DependencyProbe(TorchDispatchMode):
    """Calls a reference with changed inputs, in float32 at least. As a context, it stops operations after half of the
    time.

    It does not use float64, as the oracle does, because many calls must be made and only a change matters.
    """

    def __init__(self, contract: Contract, args: list[Arg], seconds: float):
        super().__init__()
        self.contract, self.args = contract, args
        self.end, self.seconds = time.monotonic() + seconds, seconds
        self.spared: dict[str, torch.Tensor] = {}
        """Input -> mask of the elements that are shown to be unread."""
        self.idle: list[str] = []
        """Inputs of which no other values change an output."""
        self.undefined = 0
        """Bytes of the outputs that the reference does not write."""
        self.unchanged: dict[str, torch.Tensor] = {}
        """In/out argument -> mask of the elements that the reference leaves as they are."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.seconds_left() < 0.5 * self.seconds:
            raise ContractError("it takes too long")
        return func(*args, **(kwargs or {}))

    def seconds_left(self) -> float:
        """Return the seconds until the time is spent."""
        return self.end - time.monotonic()

    def find_unread(self) -> None:
        """Search all inputs; the results are in `spared` and `undefined`."""
        self.wide = copy_arguments(self.args)
        for a in self.wide:
            if a.is_tensor and a.value.is_floating_point() and a.value.element_size() < 4:
                a.value = a.value.to(torch.float32)
        self.base = self.outputs_with({})
        outputs = [a for a in self.wide if a.is_written]
        self.unchanged = {
            a.name: one == a.value for a, one in zip(outputs, self.base, strict=True) if a.role == "inout"
        }
        if self.seconds_left() < 0.9 * self.seconds:
            return  # The search needs many calls, and one took a tenth of the time.
        for a, one in zip([a for a in self.args if a.is_written], self.base, strict=True):
            undefined = 0 if self.contract.returns else int(one.isnan().sum())
            if a.name in self.unchanged:
                undefined = int(self.unchanged[a.name].sum())
            self.undefined += (a.value.numel() - one.numel() + undefined) * a.value.element_size()
        if self.unchanged:
            self.base = self.outputs_with({})
        self.slack = [slack(one.nan_to_num_()) for one in self.base]
        inputs = {a.name: a.value for a in self.wide if a.is_read and a.value.dtype != torch.bool}
        self.inputs = {
            name: value for name, value in inputs.items() if value.is_floating_point() or value.element_size() <= 2
        }
        self.bounds = {name: bounds(value) for name, value in self.inputs.items()}
        for name, mask in self.masks_without_gradient().items():
            if self.rows_that_change({**self.spared, name: mask}).any():
                mask = self.unread_row_ends(name, mask)
                if self.rows_that_change({**self.spared, name: mask}).any():
                    continue
            if name in self.unchanged or self.rows_that_change({name: torch.ones_like(mask)}).any():
                self.spared[name] = mask
            else:
                self.idle += [name] * int(mask.all())

    def outputs_with(self, others: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """Return the outputs with `others` in place of the inputs of these names; of elements that are left as they
        are, how much they change."""
        args = [Arg(a.name, others.get(a.name, a.value), a.dtype, a.role) for a in self.wide]
        given = [(a.name, a.value) for a in args if a.is_written]
        for a in args:
            a.value = a.value.clone() if a.is_written else a.value
        mark(args)
        # A reference may return the same buffer each time.
        found = [one.clone() if one.is_floating_point() else one.double() for one in results(self.contract, args)]
        return [
            torch.where(self.unchanged[name], one - before.to(one.dtype), one) if name in self.unchanged else one
            for (name, before), one in zip(given, found, strict=True)
        ]

    def masks_without_gradient(self) -> dict[str, torch.Tensor]:
        """Return for each input a mask of the elements that no gradient reaches.

        If gradients cannot be computed in their part of the time, the mask of a floating input is full and integers are
        left out.
        """
        floating = {name: value for name, value in self.inputs.items() if value.is_floating_point()}
        found: tuple[torch.Tensor | None, ...] = ()
        for chosen in (self.inputs, floating) if len(floating) < len(self.inputs) else (floating,):
            leaves = [
                (value if name in floating else value.to(torch.float32)).detach().requires_grad_()
                for name, value in chosen.items()
            ]
            try:
                with torch.enable_grad(), self:
                    answers = [
                        one for one in self.outputs_with(dict(zip(chosen, leaves, strict=True))) if one.requires_grad
                    ]
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

    def rows_that_change(
        self, masks: dict[str, torch.Tensor], rows: tuple[int, ...] = (), draws: int = 3
    ) -> torch.Tensor:
        """Return which `rows` (leading axes of all outputs) change when the elements under `masks` take other values,
        tried `draws` times."""
        changed = torch.zeros(math.prod(rows), dtype=torch.bool, device=self.base[0].device)
        for draw in range(draws):
            outputs = self.outputs_with({name: self.replaced_input(name, mask, draw) for name, mask in masks.items()})
            for base, one, allowed in zip(self.base, outputs, self.slack, strict=True):
                changed |= ((one.nan_to_num_() - base).abs() > allowed).view(len(changed), -1).any(1)
            if changed.all():
                break
        return changed

    def replaced_input(self, name: str, mask: torch.Tensor, draw: int) -> torch.Tensor:
        """Return the input with other values under `mask`: its upper bound (draw 0), its lower bound (1) or random ones
        between these (2)."""
        value, (low, high) = self.inputs[name], self.bounds[name]
        drawn = (
            low + (high - low) * torch.rand(value.shape, device=value.device)
            if draw == 2
            else torch.tensor((high, low)[draw], dtype=torch.float64)
        )
        drawn = drawn if value.is_floating_point() else drawn.round()
        return torch.where(mask, drawn.to(value), value)

    def unread_row_ends(self, name: str, mask: torch.Tensor) -> torch.Tensor:
        """Return the part of `mask` at either end of its rows that changes no output, found by bisection for all rows
        at once."""
        shared_axes = takewhile(
            lambda extents: len(set(extents)) == 1,
            zip(mask.shape[:-1], *(one.shape for one in self.base), strict=False),
        )
        rows = tuple(extents[0] for extents in shared_axes)
        flat = mask.reshape(math.prod(rows), -1)
        columns = flat.shape[1]
        unread, positions = torch.zeros_like(flat), torch.arange(columns, device=mask.device)

        def moves(part: torch.Tensor) -> torch.Tensor:
            return self.rows_that_change({**self.spared, name: (unread | part).view_as(mask)}, rows, 2)[:, None]

        for order in (positions, positions.flip(0)):
            time_before = self.seconds_left()
            if moves(flat & (order >= columns - max(columns // ROW_PARTS, 1))).double().mean() > 0.9:
                continue
            search_s = time_before - self.seconds_left()
            low = torch.zeros(len(flat), 1, dtype=torch.int64, device=mask.device)
            high = low + columns
            while bool((low < high).any()) and self.seconds_left() > 4 * search_s:
                middle = (low + high) // 2
                changes = moves(flat & (order >= middle)) & (low < high)
                low, high = torch.where(changes, middle + 1, low), torch.where(changes, high, middle)
            unread |= flat & (order >= high)
        return unread.view_as(mask)


def bounds(value: torch.Tensor) -> tuple[float, float]:
    """Return a value below all elements, not negative if no element is, and one above all; for integers their minimum
    and maximum."""
    low, high = (float(one) for one in value.nan_to_num(posinf=0.0, neginf=0.0).aminmax())
    if not value.is_floating_point():
        return low, high
    span = (high - low) or abs(high) or 1.0
    return (low - span if low < 0 else low / 2), high + span


def slack(base: torch.Tensor) -> torch.Tensor:
    """Return how much another order of sums may change each element of an output, in proportion to the element and the
    mean of its row."""
    return torch.finfo(base.dtype).eps ** 0.7 * (base.abs() + base.abs().mean(-1, keepdim=True))
