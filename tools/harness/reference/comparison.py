"""Computes the float64 reference of one input set and the error of an output against it.

The error of an element is e = |out - ref64| / (|ref64| + rms of its output row). A row runs along the last axis; where
both terms are zero, 1e-12 takes their place. NaN and Inf must be at the same positions; integers and bool must be
equal. What changes a buffer in place is held to the change: ref64 - before takes the place of ref64 in the denominator.
There, and in a type of 8 bits, half a unit in the last place of the element does not count, which rounding alone may
cost. Where ref64 is beyond all numbers of such a type, the largest one is right, and so is what a conversion gives.
"""

import torch

from harness.numerics.unrounded import RoundingWatch, is_eight_bit_float
from harness.reference.contract import DTYPES, Arg, Contract, ContractError, computable

BLOCK = 1 << 18
"""Elements compared at a time on a CPU, so that temporaries stay in the cache."""
DEVICE_BLOCK = 1 << 25
"""Elements compared at a time on a GPU: enough to fill it, with temporaries of a few hundred megabytes."""
ZERO_ROW_SIZE = 1e-12
"""Denominator of the error in a row whose reference is all zero. Float64 rounds away what a kernel with a better
formula still computes, as in 1 + tanh(x) far below zero."""
SENTINEL = 0x7FF8_5EED_0BAD_F00D
"""A float64 NaN with this payload marks elements that the reference does not write."""


class ExpectedOutput:
    """The correct values of one output: rows x columns of float64, or integers."""

    def __init__(
        self,
        name: str,
        values: torch.Tensor,
        dtype: str,
        written: torch.Tensor | None,
        *,
        rounded: bool = False,
        before: torch.Tensor | None = None,
    ):
        """`before`: the content of an in/out argument."""
        shape = list(values.shape)
        while len(shape) > 1 and shape[-1] == 1:
            shape.pop()
        columns = shape[-1] if shape else 1
        self.name = name
        self.dtype = dtype
        self.shape = tuple(values.shape)
        self.count = values.numel()
        self.compared = self.count if written is None else int(written.sum())
        """Number of elements that the reference defines."""
        self.floating = values.dtype.is_floating_point
        self.kind = torch.finfo(DTYPES[dtype]) if self.floating else None
        self.narrow = is_eight_bit_float(DTYPES[dtype])
        self.rounded = rounded
        """Whether nothing but the reference's own rounding to 8 bits is known: the exact result may lie as near to a
        neighbour of its value, so a whole unit does not count."""
        self.values = values.reshape(-1)
        self.too_large = None
        """Where an 8-bit type has no number that is large enough; the largest one stands there."""
        if self.narrow:
            self.too_large = self.values.abs() > self.kind.max
            self.values = self.values.clamp(-self.kind.max, self.kind.max)
        self.written = written.reshape(-1) if written is not None else None
        self.change = None if before is None else self.values - before.reshape(-1).to(torch.float64)
        self.columns = max(columns, 1)
        self.rms = self._rms() if self.floating else None

    def _rms(self) -> torch.Tensor:
        """Return the root mean square of each row over its finite, written elements, or of their change."""
        rows = (self.values if self.change is None else self.change).view(-1, self.columns)
        total = torch.linalg.vector_norm(rows, dim=1)
        scale = torch.full_like(total, self.columns)
        if self.written is not None or not torch.isfinite(total).all():
            finite = torch.isfinite(rows)
            if self.written is not None:
                finite &= self.written.view(-1, self.columns)
            total = torch.linalg.vector_norm(
                torch.where(finite, rows, torch.zeros((), dtype=rows.dtype, device=rows.device)), dim=1
            )
            scale = finite.sum(1).clamp(min=1).to(rows.dtype)
        return total / scale.sqrt()

    def error(self, out: torch.Tensor, numeric: dict | None = None) -> dict:
        """Compare an output with the reference.

        Returns {"error": largest e or None, "problem": None or a difference that no number expresses, "index", "got",
        "expected"}. If a task's `numeric` has an atol, an element within atol + rtol * |ref| whose error is below the
        cap counts as exact.
        """
        out = out.reshape(-1)[: self.count]
        if self.narrow and not is_eight_bit_float(out.dtype):
            out = out.clamp(-self.kind.max, self.kind.max)
        return self._floating_error(out, numeric or {}) if self.floating else self._integer_error(out)

    def _integer_error(self, out: torch.Tensor) -> dict:
        if self.dtype == "bool" and out.dtype is torch.bool:
            out = out.view(torch.uint8)
        wrong = out.to(torch.int64) != self.values.to(torch.int64)
        if self.written is not None:
            wrong &= self.written
        count = int(wrong.sum())
        if not count:
            return {"error": 0.0, "problem": None}
        where = int(wrong.to(torch.uint8).argmax())
        return {"error": None, "problem": f"{count} of {self.count} integers differ", **self._element_at(out, where)}

    def _floating_error(self, out: torch.Tensor, numeric: dict) -> dict:
        atol, rtol = numeric.get("atol"), numeric.get("floor", {}).get(self.dtype, 0.0)
        cap = numeric.get("cap", {}).get(self.dtype, float("inf"))
        rows_at_once = max((BLOCK if self.values.device.type == "cpu" else DEVICE_BLOCK) // self.columns, 1)
        worst, where = 0.0, 0
        for start in range(0, self.count, rows_at_once * self.columns):
            end = min(start + rows_at_once * self.columns, self.count)
            ref = self.values[start:end]
            got = out[start:end].to(torch.float64)
            if self.narrow:
                got = self._saturated(got, ref, self.too_large[start:end])
            rms = self.rms[start // self.columns : start // self.columns + rows_at_once]
            size = ref if self.change is None else self.change[start:end]
            base = size.abs().view(-1, self.columns).add_(rms.unsqueeze(1)).view(-1)
            error = (got - ref).abs_()
            near = error <= atol + rtol * ref.abs() if atol else None
            if self.change is not None or self.narrow:
                error = error.sub_(self._rounding(got, ref)).clamp_(min=0.0)
            error.div_(base.masked_fill_(base == 0, ZERO_ROW_SIZE))
            if near is not None:
                error.masked_fill_(near & (error <= cap), 0.0)
            if self.written is not None:
                error.masked_fill_(~self.written[start:end], 0.0)
            top = float(error.max())
            if not top < float("inf"):
                problem = self._nonfinite_problem(error, got, ref)
                if problem is not None:
                    return {"error": None, "problem": problem[1], **self._element_at(out, start + problem[0])}
                top = float(error.max())
            if top > worst:
                worst, where = top, start + int(error.argmax())
        return {"error": worst, "problem": None, **self._element_at(out, where)}

    def _saturated(self, got, ref, too_large):
        """Return what was got, with the largest number in place of the infinity, or the NaN of a type without one, that
        a conversion gives for what is too large."""
        beyond = got.isnan() if self.dtype == "float8_e4m3fn" else got == ref.sign() * torch.inf
        return torch.where(too_large & beyond, ref, got)

    def _rounding(self, got, ref):
        """Return half a unit in the last place of each element, a whole one where the reference rounded itself."""
        size = torch.minimum(got.abs(), ref.abs()).clamp_(min=self.kind.tiny)
        return torch.exp2(torch.frexp(size)[1].double()).mul_(self.kind.eps / (2 if self.rounded else 4))

    def _nonfinite_problem(self, error, got, ref) -> tuple[int, str] | None:
        """Set the error of equal NaN and Inf to 0 in place, and return the first other one as (position, message) or
        None."""
        error.masked_fill_((got == ref) | (got.isnan() & ref.isnan()), 0.0)
        nonfinite = ~torch.isfinite(error)
        if not bool(nonfinite.any()):
            return None
        first = int(nonfinite.to(torch.uint8).argmax())
        if bool(got[first].isnan()) and not bool(ref[first].isnan()):
            return (
                first,
                f"{int(got.isnan().sum())} NaN where the reference has numbers (or elements that were never written)",
            )
        return first, "NaN or Inf not in the same places as in the reference"

    def _element_at(self, out: torch.Tensor, where: int) -> dict:
        """Return the index and both values of the element at the flat position `where`."""
        index, remaining = [], where
        for extent in reversed(self.shape):
            index.append(remaining % extent)
            remaining //= extent
        return {"index": index[::-1], "got": repr(out[where].item()), "expected": repr(self.values[where].item())}


def compare_output(expected: ExpectedOutput, out: torch.Tensor, torch_error, numeric: dict, args: list[Arg]) -> dict:
    """Return what an OutputVerdict is reached from: the output's error beside torch's own."""
    ties = {"ties": describe_ties(expected, out, args), "name": expected.name, "dtype": expected.dtype}
    return expected.error(out, numeric) | ties | {"torch_error": torch_error}


def describe_ties(expected: ExpectedOutput, out: torch.Tensor, args: list[Arg]) -> str:
    """Return ", ... ties ..." where integers that differ are indices into equal values of an input; else an empty
    text."""
    if expected.floating or expected.dtype == "bool" or not expected.error(out)["problem"]:
        return ""
    right = expected.values.view(expected.shape).to(torch.int64)
    got = out.reshape(-1)[: expected.count].view(expected.shape).to(torch.int64)
    for a in (a for a in args if a.is_read and a.value.numel() and a.value.dim() - right.dim() in (0, 1)):
        rows = computable(a.value)
        for axis in range(rows.dim()):
            both = torch.cat([one if one.dim() == rows.dim() else one.unsqueeze(axis) for one in (right, got)], axis)
            is_index = both.narrow(axis, 0, 1).shape == rows.narrow(axis, 0, 1).shape and bool((both >= 0).all())
            if is_index and int(both.max()) < rows.shape[axis]:
                equal = torch.eq(*rows.gather(axis, both).chunk(2, axis)).view(right.shape) & (right != got)
                if count := int(equal.sum()):
                    return f", of which {count} are ties: {a.name} holds equal values at both indices"
    return ""


def copy_arguments(args: list[Arg], *, wide: bool = False, outputs: bool = True) -> list[Arg]:
    """Return the arguments with clones of their tensors, floating ones in float64 if `wide`; without `outputs`, output
    tensors are passed through."""
    copied = []
    for a in args:
        value = a.value
        if a.is_tensor and (outputs or a.role != "output"):
            value = value.to(torch.float64 if wide and value.dtype.is_floating_point else value.dtype, copy=True)
        copied.append(Arg(a.name, value, a.dtype, a.role))
    return copied


def mark(args: list[Arg], integer: int = 0x5A) -> None:
    """Fill the outputs with values that show which elements the reference does not write."""
    for a in args:
        if a.role == "output":
            if a.value.dtype is torch.float64:
                a.value.view(torch.int64).fill_(SENTINEL)
            elif a.value.dtype.is_floating_point:
                a.value.fill_(float("nan"))
            else:
                a.value.fill_(integer & 1 if a.value.dtype is torch.bool else integer)


def results(contract: Contract, args: list[Arg]) -> list[torch.Tensor]:
    """Call the reference and return one tensor per output: what it returned, or else what it wrote."""
    outputs = [a for a in args if a.is_written]
    returned = contract.call(args)
    if returned is None:
        return [a.value for a in outputs]
    if len(returned) != len(outputs):
        names = ", ".join(a.name for a in outputs)
        raise ContractError(
            f"{contract.where} returned {len(returned)} tensors for {len(outputs)} outputs ({names}); "
            f"return one for each, or name the buffers of the others in `outputs`"
        )
    for tensor, a in zip(returned, outputs, strict=True):
        flat_ok = a.value.dim() == 1 and not contract.has_make_inputs and tensor.numel() <= a.value.numel()
        if not flat_ok and not contract.has_make_inputs and tensor.numel() > a.value.numel():
            raise ContractError(
                f"{contract.where} returned {tensor.numel():,} elements for output {a.name!r}, whose "
                f"buffer has "
                f"{a.value.numel():,}; give --ptr-size {tensor.numel()} or more"
            )
        if tensor.shape != a.value.shape and not flat_ok:
            raise ContractError(
                f"{contract.where} returned shape {tuple(tensor.shape)} for output {a.name!r}, "
                f"but make_inputs allocates {tuple(a.value.shape)}; make them the same"
            )
    return [t.contiguous() for t in returned]


def expected_outputs(contract: Contract, args: list[Arg]) -> tuple[list[ExpectedOutput], str]:
    """Return the float64 outputs, in native precision where the reference cannot run in float64, and a note that says
    why then."""
    outputs = [a for a in args if a.is_written]
    note = ""
    wide = copy_arguments(args, wide=True, outputs=not contract.returns)
    if not contract.returns:
        mark(wide)
    try:
        found, exact = _results_before_rounding(contract, wide)
        for a, one, before in zip(outputs, found, exact, strict=True):
            if a.value.dtype.is_floating_point and before is None and one.dtype is not torch.float64:
                note = f"the reference computes {a.name} in {one.dtype} for inputs of any type"
    except ContractError as error:
        note = f"the reference cannot run in float64 ({error})"
        wide = copy_arguments(args)
        mark(wide)
        found, exact = _results_before_rounding(contract, wide)
    expected = []
    for a, tensor, unrounded in zip(outputs, found, exact, strict=True):
        written, tensor = None, tensor if unrounded is None else unrounded
        in_place = any(tensor is w.value for w in wide)
        if a.value.dtype.is_floating_point:
            # A reference may return the same buffer each time.
            values = tensor.to(torch.float64, copy=not in_place)
            if in_place and tensor.dtype is torch.float64:
                written = tensor.view(torch.int64) != SENTINEL
        else:
            values = tensor.to(a.value.dtype, copy=not in_place)
            if in_place and bool((tensor == (0 if tensor.dtype is torch.bool else 0x5A)).any()):
                written = tensor == _call_again(contract, args, a.name)
        written = None if written is None or bool(written.all()) else written
        rounded = is_eight_bit_float(tensor.dtype)
        before = a.value if a.role == "inout" and values.is_floating_point() else None
        expected.append(ExpectedOutput(a.name, values, a.dtype, written, rounded=rounded, before=before))
    return expected, note


def _results_before_rounding(contract: Contract, args: list[Arg]) -> tuple[list[torch.Tensor], list]:
    """Return the results of a call, and for each its float64 values before the reference rounded them to 8 bits; None
    where it did not, or where these are not known."""
    outputs = [a for a in args if a.is_written]
    if not any(is_eight_bit_float(DTYPES[a.dtype]) for a in outputs):
        return results(contract, args), [None] * len(outputs)
    with RoundingWatch(args) as watch:
        found = results(contract, args)
    return found, [watch.before_rounding(one) for one in found]


def _call_again(contract: Contract, args: list[Arg], name: str) -> torch.Tensor:
    """Return the integer output `name` of a call whose outputs are filled with another mark."""
    own = copy_arguments(args)
    mark(own, 0x25)
    results(contract, own)
    return next(a.value for a in own if a.name == name)


def native_outputs(contract: Contract, args: list[Arg]) -> list[torch.Tensor]:
    """Return the reference's outputs in the task's own dtypes, which show torch's own accuracy."""
    changes = not contract.returns or any(a.role == "inout" for a in args)
    return results(contract, copy_arguments(args) if changes else args)
