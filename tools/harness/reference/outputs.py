"""Determines which tensors of a reference are outputs, and whether a kernel can write there; a tensor that is read and
written is one only where the reference names it in `inout`."""

from collections.abc import Sequence

import torch

from harness.reference.comparison import copy_arguments, mark
from harness.reference.contract import Arg, Contract, ContractError, is_same_view
from harness.reference.dataflow import DataflowWatch
from harness.reference.determinism import is_equal, is_equal_at, is_equal_up_to_summation_order
from harness.reference.structures import flatten

SEED = 0x6B65726E656C
"""Seed of generated input values, which no make_inputs is likely to use itself."""


def infer_roles(contract: Contract, args: list[Arg], inferred: list[str]) -> dict[str, str]:
    """Return the role of each tensor: output or inout as declared; else output as changed by a call, else the last
    ones, one for each tensor returned."""
    tensors = [a.name for a in args if a.is_tensor]
    if not tensors:
        raise ContractError("there is no tensor among the arguments; a kernel needs at least one output")
    changed, outputs = (declared_names(contract, attribute, tensors) for attribute in ("inout", "outputs"))
    roles = dict.fromkeys(tensors, "input") | dict.fromkeys(changed or (), "inout")
    set_roles(args, roles)
    if both := {*(changed or ())} & {*(outputs or ())}:
        raise ContractError(
            f"reference.py: {min(both)!r} is named in `inout` and in `outputs`; leave it in `inout` if the kernel "
            f"reads what make_inputs puts there, else in `outputs`"
        )
    return roles | dict.fromkeys(seen_outputs(contract, args, inferred) if outputs is None else outputs, "output")


def set_roles(args: list[Arg], roles: dict[str, str]) -> None:
    """Set the role of each argument; scalars have their own."""
    for a in args:
        a.role = roles[a.name] if a.is_tensor else "scalar"


def declared_names(contract: Contract, attribute: str, tensors: list[str]) -> list[str] | None:
    """Return the tensors that the reference's `outputs` or `inout` names, those in a list or struct by its name; None
    if it has no such attribute."""
    declared = contract.get(attribute) if contract.has_make_inputs else None
    if declared is None:
        return None
    names = [declared] if isinstance(declared, str) else list(declared)
    found = [
        [name] if name in tensors else [leaf for leaf, _ in flatten(name, contract.made.get(name)) if leaf in tensors]
        for name in names
    ]
    unknown = [name for name, known in zip(names, found, strict=True) if not known]
    if unknown or not names:
        raise ContractError(
            f"reference.py: `{attribute}` names {unknown or 'nothing'}; add a buffer of that name to make_inputs, or "
            f"name some that it makes ({', '.join(tensors)})"
        )
    return [name for known in found for name in known]


def seen_outputs(contract: Contract, args: list[Arg], inferred: list[str]) -> list[str]:
    """Return the names of the outputs as a call shows them, and append the reason to `inferred`. With in/out arguments,
    they are what else it changes."""
    own = copy_arguments(args)
    returned = contract.call(own)
    flow = watch_call(contract, copy_arguments(args))
    written = flow.written if flow else set()
    if returned is not None:
        # A write counts if the result shows it; values equal to the old ones are writes as well.
        written = {a.name for a in own if a.name in written and any(is_same_view(one, a.value) for one in returned)}
    changed = [
        a.name
        for a, b in zip(args, own, strict=True)
        if a.role == "input" and (a.name in written or not is_equal(a.value, b.value))
    ]
    if any(a.role == "inout" for a in args) and not changed:
        return []
    if changed:
        inferred.append(f"{', '.join(changed)}: output, because reference() changes it.")
        return changed
    if not returned:
        raise ContractError(
            "reference.py: reference(...) neither returns a tensor nor changes one; return the outputs or write them"
        )
    # A reference may return the same buffer each time.
    outputs, why = returned_to(contract, args, flow, [tensor.clone() for tensor in returned])
    inferred.append(f"{', '.join(outputs)}: output, {why}.")
    return outputs


def returned_to(
    contract: Contract, args: list[Arg], flow: DataflowWatch | None, returned: list[torch.Tensor]
) -> tuple[list[str], str]:
    """Return the names of the tensors in which a kernel writes what the reference returns, and the reason.

    `flow` is of a call with `args`. They are the last tensors. If the reference reads one of these, or their shapes
    differ from the results, they are the only other tensors that it does not read and that have the shapes of the
    results.
    """
    tensors = [a for a in args if a.is_tensor]
    last, why = (
        tensors[-len(returned) :],
        f"the last of the pointers, because reference() returns {len(returned)} tensor(s)",
    )
    names = [a.name for a in last]
    # Results that differ between equal calls cannot show what is read; `look_for_chance` reports them.
    if not contract.has_make_inputs or not outputs_agree(
        returned, call_without_return_check(contract, copy_arguments(args))
    ):
        return names, why
    read = next((a.name for a in last if reads(contract, args, a.name, flow, returned)), None)
    if read is None and [a.value.shape for a in last] == [one.shape for one in returned]:
        in_order(last, returned)
        return names, why
    spare = [a for a in tensors if a not in last and any(fits(a, one) for one in returned)]
    spare = [a for a in spare if not reads(contract, args, a.name, flow, returned)]
    if len(spare) == len(returned) and all(fits(a, one) for a, one in zip(spare, returned, strict=True)):
        return [a.name for a in spare], "because reference() does not read it and returns what has its shape"
    if read is None:
        return names, why
    what = ", ".join(f"{list(one.shape)}" for one in returned)
    raise ContractError(
        f"reference.py: reference(...) reads {read!r}, where the buffer for what it returns (of shape {what}) is "
        f"looked for, at the end of "
        "make_inputs; add one there for each tensor returned, such as 'out': torch.empty(...), or name those "
        "that are there in "
        "`outputs = (...)`"
    )


def in_order(last: list[Arg], returned: Sequence[torch.Tensor]) -> None:
    """Raise ContractError if the returned types are those of the buffers in another order, as indices in place of
    values. Equal shapes do not show such a mistake."""
    buffers, answers = [a.value.is_floating_point() for a in last], [one.is_floating_point() for one in returned]
    if buffers != answers and sorted(buffers) == sorted(answers):
        listed = ", ".join(f"{a.name!r} ({a.dtype})" for a in last)
        given = ", ".join(str(one.dtype).removeprefix("torch.") for one in returned)
        raise ContractError(
            f"reference.py: reference(...) returns {given} for the outputs {listed}; put them in one order"
        )


def fits(a: Arg, returned: torch.Tensor) -> bool:
    """Whether a result has the buffer's shape and both are floating or neither is."""
    return a.value.shape == returned.shape and a.value.is_floating_point() == returned.is_floating_point()


def reads(
    contract: Contract, args: list[Arg], name: str, flow: DataflowWatch | None, returned: Sequence[torch.Tensor]
) -> bool:
    """Whether the result depends on this tensor: an operation reads its values, or other values change the result.

    Other values are tried because not all code shows its operations, such as a reference in NumPy. The comparison
    allows for another order of sums.
    """
    if flow is not None and name in flow.read:
        return True
    value = next(a.value for a in args if a.name == name)
    if value.is_floating_point():
        normal = torch.randn(value.shape, generator=torch.Generator().manual_seed(SEED))
        others = (normal, -normal, torch.full(value.shape, torch.nan))
    else:
        others = (value == 0, torch.zeros(value.shape))
    for other in others:
        own = copy_arguments(args)
        next(a.value for a in own if a.name == name).copy_(other)
        try:
            if not outputs_agree(returned, call_without_return_check(contract, own)):
                return True
        except ContractError:
            return True
    return False


def outputs_agree(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor] | None) -> bool:
    """Whether two lists of results are equal up to the order of sums; False if there is no second one."""
    return (
        other is not None
        and len(one) == len(other)
        and all(is_equal_up_to_summation_order(a, b) for a, b in zip(one, other, strict=True))
    )


def watch_call(contract: Contract, args: list[Arg]) -> DataflowWatch | None:
    """Return the reads and writes of a call with these arguments; None if the reference cannot run while it is
    watched."""
    try:
        with DataflowWatch(args) as flow:
            call_without_return_check(contract, args)
    except ContractError:
        return None
    return flow


def call_without_return_check(contract: Contract, args: list[Arg]) -> tuple | None:
    """Call the reference and return its result, without letting generated values decide whether it returns its
    outputs."""
    before = contract.returns
    try:
        return contract.call(args)
    finally:
        contract.returns = before


def look_for_read_outputs(contract: Contract, args: list[Arg], plain: list[Arg]) -> None:
    """Raise ContractError if the reference reads a tensor that it writes, or to which it returns its result: a kernel
    finds other values there.

    `plain` are the arguments after a call with `args`.
    """
    written = {}
    for before, after in zip(args, plain, strict=True):
        if after.role == "output":
            if after.value.shape != before.value.shape:
                raise ContractError(
                    f"reference.py: reference(...) makes its output {after.name!r} of shape "
                    f"{tuple(after.value.shape)}, but make_inputs "
                    f"allocates {tuple(before.value.shape)}; make them the same"
                )
            where = ~is_equal_at(before.value, after.value)
            if bool(where.any()):
                written[after.name] = where
    flow = watch_call(contract, copy_arguments(args))
    only_read = flow.read - flow.written - {*written} if flow and not contract.returns else set()
    used = flow.updated | only_read if flow else ()
    name = next((a.name for a in args if a.role == "output" and a.name in used), None)
    if name is None and contract.returns and flow:
        # The outputs are declared, so only a read that changes the result counts, not a copy that is overwritten.
        taken = [a.name for a in args if a.role == "output" and a.name in flow.read]
        returned = (
            [tensor.clone() for tensor in call_without_return_check(contract, copy_arguments(args)) or ()]
            if taken
            else []
        )
        name = next((one for one in taken if reads(contract, args, one, None, returned)), None)
    if name is None and written:
        name = changed_outputs(contract, args, plain, written, marked=True)
        # Another order of sums changes what is written as well.
        name = None if name is None or changed_outputs(contract, args, plain, written, marked=False) else name
    if name is not None:
        raise ContractError(
            f"reference.py: reference(...) reads its output {name!r} before writing it, but outputs hold noise when a "
            f'kernel begins; name it in `inout = ("{name}",)` and not in `outputs` if the kernel changes it in place, '
            f"else zero it first in reference, or take it out of `outputs` if the kernel only reads it"
        )


def changed_outputs(
    contract: Contract, args: list[Arg], plain: list[Arg], written: dict[str, torch.Tensor], *, marked: bool
) -> str | None:
    """Return the first output in which another call writes other values, with the outputs `marked` before it or as they
    were; None if there is none."""
    own = copy_arguments(args)
    if marked:
        mark(own)
    try:
        call_without_return_check(contract, own)
    except ContractError:
        return next(iter(written))
    first = {a.name: a.value for a in plain}
    return next(
        (
            a.name
            for a in own
            if a.name in written
            and not is_equal_up_to_summation_order(a.value[written[a.name]], first[a.name][written[a.name]])
        ),
        None,
    )
