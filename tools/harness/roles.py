"""Which tensors of a reference are outputs, and whether a kernel could write there: none can be input and output at once."""

from collections.abc import Sequence

import torch
from chance import alike, same
from compare import copied, mark
from contract import Arg, Contract, ContractError


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
    if not returned:
        raise ContractError("reference.py: reference(...) neither returns a tensor nor changes one; return the outputs or write them")
    # A reference may return the same buffer each time.
    outputs, why = returned_to(contract, args, tensors, [tensor.clone() for tensor in returned])
    inferred.append(f"{', '.join(outputs)}: output, {why}.")
    return outputs


def returned_to(contract: Contract, args: list[Arg], tensors: list[str], returned: list[torch.Tensor]) -> tuple[list[str], str]:
    """The tensors in which a kernel writes what the reference returns, and why these.

    They are the last ones. Where it reads one of those, which a kernel finds full of something else, they are the only others that it does
    not read and that have the shapes of what it returns.
    """
    last, why = tensors[-len(returned) :], f"the last of the pointers, because reference() returns {len(returned)} tensor(s)"
    # What sums in another order each time, or is drawn, shows nothing here; chance has a sentence of its own.
    if not contract.has_make_inputs or not agree(returned, asked(contract, copied(args))):
        return last, why
    read = next((name for name in last if reads(contract, args, name, returned)), None)
    if read is None:
        return last, why
    spare = [a.name for a in args if a.name not in last and any(fits(a, one) for one in returned)]
    spare = [name for name in spare if not reads(contract, args, name, returned)]
    given = {a.name: a for a in args}
    if len(spare) == len(returned) and all(fits(given[name], one) for name, one in zip(spare, returned, strict=True)):
        return spare, "because reference() does not read it and returns what has its shape"
    what = ", ".join(f"{list(one.shape)}" for one in returned)
    raise ContractError(
        f"reference.py: reference(...) reads {read!r}, where the buffer for what it returns (of shape {what}) is looked for, at the end of "
        "make_inputs; add one there for each tensor returned, such as 'out': torch.empty(...), or name those that are there in "
        "`outputs = (...)`"
    )


def fits(a: Arg, returned: torch.Tensor) -> bool:
    return a.is_tensor and a.value.shape == returned.shape and a.value.is_floating_point() == returned.is_floating_point()


def reads(contract: Contract, args: list[Arg], name: str, returned: Sequence[torch.Tensor]) -> bool:
    """Whether the values of this tensor have a say in what is returned."""
    other = copied(args)
    # Not a seed that make_inputs may have used as well.
    fresh = torch.Generator()
    fresh.seed()
    value = next(a.value for a in other if a.name == name)
    if value.is_floating_point():
        value.copy_(torch.randn(value.shape, generator=fresh))
    else:
        value.copy_(value == 0)
    try:
        return not agree(returned, asked(contract, other))
    except ContractError:
        return True


def agree(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor] | None) -> bool:
    return other is not None and len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))


def asked(contract: Contract, args: list[Arg]) -> tuple | None:
    """What the reference returns; how it answers made-up values does not say whether it returns at all."""
    before = contract.returns
    try:
        return contract.call(args)
    finally:
        contract.returns = before


def look_for_read_outputs(contract: Contract, args: list[Arg], plain: list[Arg]) -> None:
    """A reference that reads what it writes (in place) does not fit: kernels write their outputs to buffers of their own.

    `plain`: the arguments after a call with `args`.
    """
    written = {}
    for before, after in zip(args, plain, strict=True):
        if after.role == "output":
            if after.value.shape != before.value.shape:
                raise ContractError(
                    f"reference.py: reference(...) makes its output {after.name!r} of shape {tuple(after.value.shape)}, but make_inputs "
                    f"allocates {tuple(before.value.shape)}; make them the same"
                )
            where = ~((before.value == after.value) | ((before.value != before.value) & (after.value != after.value)))
            if bool(where.any()):
                written[after.name] = where
    if not written:
        return
    name = moved(contract, args, plain, written, marked=True)
    # Sums in another order move what is written as well.
    if name is not None and moved(contract, args, plain, written, marked=False) is None:
        raise ContractError(
            f"reference.py: reference(...) reads its output {name!r} before writing it; give it an input of its own: work on a copy, and "
            "return what it gives or write it to a buffer that is not read, such as 'out': torch.empty(...)"
        )


def moved(contract: Contract, args: list[Arg], plain: list[Arg], written: dict[str, torch.Tensor], *, marked: bool) -> str | None:
    """The first output in which another call writes something else, with the outputs `marked` before it or as they were."""
    own = copied(args)
    if marked:
        mark(own)
    try:
        asked(contract, own)
    except ContractError:
        return next(iter(written))
    first = {a.name: a.value for a in plain}
    return next((a.name for a in own if a.name in written and not alike(a.value[written[a.name]], first[a.name][written[a.name]])), None)
