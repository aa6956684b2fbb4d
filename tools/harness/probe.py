"""Answers a probe: which arguments, roles, shapes, operations and bytes a reference has at each dims."""

import math
import random
import sys

import torch
from compare import Expected, copied, expect, mark, results, widened
from contract import Arg, Contract, ContractError, size_of, spoken
from flops import Counter
from sizes import built, check_dims, dims_range, wanted

UNITS = 128
"""Of the last place, by which a reference may differ from itself: twice what was seen of any operation."""


def probe(request: dict) -> dict:
    """A ProbeResult; raises ContractError with the sentence for the user."""
    contract = Contract(request["reference"])
    workloads = wanted(contract, request)
    answer = {
        "kind": "probe",
        "has_make_inputs": contract.has_make_inputs,
        "dims_range": dims_range(contract),
        "rtol": number(contract, "rtol"),
        "atol": number(contract, "atol"),
        "workloads": [],
    }
    inferred: list[str] = []
    roles: dict[str, str] = {}
    if request["dims"] and contract.get("workloads"):
        inferred.append("The sizes that were given are timed; the reference's own `workloads` are not.")
    for at, (name, dims, weight, margin) in enumerate(workloads):
        args = built(contract, name, dims, request)
        check_dims(contract, dims, request["reference"], given=bool(request["dims"]))
        contract.check_call(args)
        room(args, dims, request["memory_bytes"])
        if at == 0:
            inferred += said_of_buffers(contract, request, args)
            roles = infer_roles(contract, args, inferred)
        set_roles(args, roles)
        flops, compared = run_once(contract, args, dims, first=at == 0, inferred=inferred)
        answer["workloads"].append(
            {
                "name": name,
                "dims": dims,
                "weight": weight,
                "margin": margin,
                "arguments": [seen(a, compared.get(a.name)) for a in args],
                "flops": flops,
                "unique_bytes": size_of(args),
            }
        )
    if request["trace"]:
        import trace

        answer |= trace.traces(contract, [dims for _, dims, *_ in workloads], answer["dims_range"], roles)
    return answer | {"inferred": inferred}


def seen(a: Arg, compared: int | None) -> dict:
    """A SeenArgument; a scalar that is infinite or NaN has no JSON."""
    told = a.json() | {"compared": compared}
    return told | {"value": a.value if isinstance(a.value, int) or (isinstance(a.value, float) and math.isfinite(a.value)) else None}


def number(contract: Contract, name: str) -> float | None:
    value = contract.get(name)
    if value is not None and not isinstance(value, (int, float)):
        raise ContractError(f"reference.py: `{name}` must be a number, not {value!r}")
    return None if value is None else float(value)


def room(args: list[Arg], dims: dict, memory: int) -> None:
    """Inputs and outputs, a native copy, and float64 copies must fit."""
    need = sum(a.value.numel() * (2 * a.value.element_size() + 16) for a in args if a.is_tensor)
    if need > memory:
        raise ContractError(
            f"the workload {spoken(dims)} needs about {need:,} bytes with its float64 copies, and {memory:,} are allowed; use smaller dims"
        )


def said_of_buffers(contract: Contract, request: dict, args: list[Arg]) -> list[str]:
    if contract.has_make_inputs:
        return []
    count = next((a.value.numel() for a in args if a.is_tensor), 0)
    origin = "as --ptr-size says" if request["pointer_elements"] else "the product of the two largest dims"
    return [f"Every pointer is a flat buffer of {count} elements ({origin})."]


def infer_roles(contract: Contract, args: list[Arg], inferred: list[str]) -> dict[str, str]:
    """Which tensors are outputs: as declared, else those that a call changes, else the last ones, one for each tensor returned."""
    tensors = [a.name for a in args if a.is_tensor]
    if not tensors:
        raise ContractError("there is no tensor among the arguments; a kernel needs at least one output")
    declared = contract.get("outputs") if contract.has_make_inputs else None
    if declared is not None:
        outputs = [declared] if isinstance(declared, str) else list(declared)
        unknown = [name for name in outputs if name not in tensors]
        if unknown or not outputs:
            raise ContractError(
                f"reference.py: `outputs` names {unknown or 'nothing'}; add a buffer of that name to make_inputs, or name what it gives "
                f"({', '.join(tensors)})"
            )
    else:
        outputs = seen_outputs(contract, args, tensors, inferred)
    return {name: "output" if name in outputs else "input" for name in tensors}


def seen_outputs(contract: Contract, args: list[Arg], tensors: list[str], inferred: list[str]) -> list[str]:
    own = copied(args)
    returned = contract.call(own)
    changed = [a.name for a, b in zip(args, own, strict=True) if a.is_tensor and not same(a.value, b.value)]
    if changed:
        inferred.append(f"{', '.join(changed)}: output, because reference() changes it.")
        return changed
    if returned:
        outputs = tensors[-len(returned) :]
        if contract.has_make_inputs and (read := reads(contract, args, outputs, returned)):
            what = ", ".join(f"{list(one.shape)}" for one in returned)
            raise ContractError(
                f"reference.py: reference(...) reads {read}, so that make_inputs leaves no buffer for what it returns (of shape {what}); "
                "add one for each tensor returned, as the last ones, such as 'out': torch.empty(...)"
            )
        inferred.append(f"{', '.join(outputs)}: output, the last of the pointers, because reference() returns {len(returned)} tensor(s).")
        return outputs
    raise ContractError("reference.py: reference(...) neither returns a tensor nor changes one; return the outputs or write them")


def reads(contract: Contract, args: list[Arg], names: list[str], returned: tuple) -> str:
    """The first of these tensors whose values have a say in what is returned; empty where none has."""
    for name in names:
        other = copied(args)
        value = next(a.value for a in other if a.name == name)
        if value.is_floating_point():
            value.normal_()
        else:
            value.copy_(value == 0)
        try:
            again = contract.call(other)
        except ContractError:
            return name
        if not all(same(one, two) for one, two in zip(returned, again, strict=True)):
            return name
    return ""


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def set_roles(args: list[Arg], roles: dict[str, str]) -> None:
    for a in args:
        a.role = roles[a.name] if a.is_tensor else "scalar"


def run_once(contract: Contract, args: list[Arg], dims: dict, *, first: bool, inferred: list[str]) -> tuple[float | None, dict[str, int]]:
    """Run the reference as often as is needed to count its operations and the elements that it defines of each output.

    The first dims stand for all where the reference makes its own inputs; there read-write outputs are looked for as well.
    """
    counter = Counter()
    own = copied(args)
    try:
        with counter:
            returned = contract.call(own)
    except ContractError as error:
        # A reference that cannot run under the counter may still run without it.
        own = copied(args)
        try:
            returned = contract.call(own)
        except ContractError:
            raise error from None
        counter.total = 0.0
    for a, b in zip(args, own, strict=True):
        if a.role == "input" and a.is_tensor and not same(a.value, b.value):
            raise ContractError(f"reference.py: reference(...) changes its input {a.name!r}; name it in `outputs`, or work on a copy")
    if first:
        look_for_chance(contract, args, own, returned, inferred)
    if first and returned is None:
        look_for_read_outputs(contract, args, own)
    if not first and contract.has_make_inputs:
        return counter.total or None, {}
    expected, note = expect(contract, args)
    if first and note:
        inferred.append(f"The oracle computes in the task's own precision, not float64: {note}.")
    for found in expected:
        check_count(contract, found, next(a.value.numel() for a in args if a.name == found.name), dims)
    return counter.total or None, {found.name: found.compared for found in expected}


def look_for_chance(contract: Contract, args: list[Arg], own: list[Arg], returned: tuple | None, inferred: list[str]) -> None:
    """A reference that gives something else when it is called again cannot say what is right. `own`, `returned`: of the first call.

    Where it draws from a generator that the whole process shares, any difference is chance; else the last digits may differ, and all of
    them where in float64, which kernels are held against, they do not, and those lie close to both: chance would move them as well.
    """
    # A reference may return the same buffer each time.
    first = None if returned is None else [tensor.clone() for tensor in returned]
    again = copied(args)
    before = generators()
    second = contract.call(again)
    moved = generators() != before
    equal = same if moved else alike
    names = [a.name for a in args if a.role == "output"]
    if first is None or second is None:
        pairs = [(a.name, a.value, b.value) for a, b in zip(own, again, strict=True) if a.role == "output"]
    else:
        pairs = list(zip(names, first, second, strict=False))
    for name, one, other in pairs:
        if equal(one, other):
            continue
        found = f"gives another {name!r} when it is called again with the same arguments, {apart(one, other)}"
        if not moved and steady(contract, args, *zip(*(answers for _, *answers in pairs), strict=True)):
            inferred.append(f"reference.py: reference(...) {found}; in float64, which kernels are held against, it does not.")
            return
        raise ContractError(
            f"reference.py: reference(...) {found} (random numbers, dropout in training, memory that was never written?); nothing can be "
            "checked against it, so make it depend on them alone"
        )


def steady(contract: Contract, args: list[Arg], *natives: tuple[torch.Tensor, ...]) -> bool:
    """Whether the reference is the same twice in float64, to the precision of the task, and all its answers `natives` in its own dtypes
    are about that; False where it cannot be told."""
    calls = []
    try:
        for _ in range(2):
            wide = widened(args, outputs=not contract.returns)
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
            if not all(same(one, answer) for answer in (other, *own)):
                return False
            continue
        close = torch.finfo(dtype).eps ** 0.5
        precise = one.dtype is torch.float64 and dtype is not torch.float64
        if not precise or not alike(one, other, dtype) or any(bool((strayed(one, answer) > close).any()) for answer in own):
            return False
    return True


def apart(one: torch.Tensor, other: torch.Tensor) -> str:
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


def alike(one: torch.Tensor, other: torch.Tensor, dtype: torch.dtype | None = None) -> bool:
    """Equal but for what the order of parallel sums may move: some units in the last place (of `dtype`, or their own).

    Of torch's operations on a CPU `index_put_(accumulate=True)` was found to sum in another order each time: a million terms into ten
    elements moved them by 64 units (torch 2.13, two threads).
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.dtype.is_floating_point or same(one, other):
        return same(one, other)
    eps = torch.finfo(dtype or one.dtype).eps
    return bool((strayed(one, other) <= min(UNITS * eps, eps**0.5)).all())


def strayed(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """How far each element lies from its other value, as a share of itself and the middle one together; infinity where one is NaN.

    Not of the largest, beside which chance in all others would not be seen.
    """
    one, other = one.to(torch.float64).flatten(), other.to(torch.float64).flatten()
    finite = one[torch.isfinite(one)].abs()
    middle = finite.median() if finite.numel() else 0.0
    far = ((one - other).abs() / (one.abs() + middle)).nan_to_num(nan=torch.inf)
    return torch.where((one == other) | ((one != one) & (other != other)), 0.0, far)


def check_count(contract: Contract, found: Expected, allocated: int, dims: dict) -> None:
    """Seed style: a reference that returns less than the buffer holds must return as much as some of the sizes make."""
    count = found.count
    if contract.has_make_inputs or not contract.returns or count == allocated:
        return
    sizes = [v for v in dims.values() if isinstance(v, int) and v > 1]
    products = {1}
    for size in sizes * 2:
        products |= {product * size for product in products if count % (product * size) == 0}
    if count not in products:
        raise ContractError(
            f"reference.py: reference(...) returned {count:,} of the {allocated:,} elements of output {found.name!r}, which is no "
            f"product of the dims {spoken(dims)}; return the whole output, name its sizes in --dims, or define make_inputs(dims, seed)"
        )


def look_for_read_outputs(contract: Contract, args: list[Arg], plain: list[Arg]) -> None:
    """A reference that reads what it writes (in place) does not fit: kernels write their outputs to buffers of their own."""
    marked = copied(args)
    mark(marked)
    contract.call(marked)
    for before, a, b in zip(args, plain, marked, strict=True):
        if a.role != "output":
            continue
        written = ~((before.value == a.value) | ((before.value != before.value) & (a.value != a.value)))
        if bool(written.any()) and not same(a.value[written], b.value[written]):
            raise ContractError(f"reference.py: reference(...) reads its output {a.name!r} before writing it; give it an input of its own")
