"""What makes a task say little about a kernel: outputs that are one number, or that other inputs would not change."""

from collections.abc import Callable

import torch

from harness.reference.comparison import ExpectedOutput, copy_arguments, expected_outputs
from harness.reference.contract import Arg, Contract, ContractError
from harness.reference.determinism import is_equal

COARSE = {"bfloat16": 8, "tf32": 11}
"""Type -> bits of its numbers, which have the exponents of float32."""


def coarse_errors(contract: Contract, args: list[Arg], expected: list[ExpectedOutput]) -> dict[str, float]:
    """Of each coarser type the largest error of the float32 outputs, computed exactly of inputs that were rounded to
    it."""
    found = {}
    for name, bits in COARSE.items():
        rounded = copy_arguments(args)
        for a in rounded:
            if a.is_tensor and a.role == "input" and a.value.dtype is torch.float32:
                whole = a.value.view(torch.int32)
                a.value = ((whole + (1 << (23 - bits))) & -(1 << (24 - bits))).view(torch.float32)
        try:
            now = {one.name: one.values for one in expected_outputs(contract, rounded)[0]}
        except ContractError:
            return {}
        like = [one for one in expected if one.dtype == "float32" and now[one.name].shape == one.values.shape]
        errors = [one.error(now[one.name])["error"] for one in like]
        if errors and None not in errors:
            found[name] = max(errors)
    return found


def look_for_degenerate(
    contract: Contract,
    args: list[Arg],
    expected: list[ExpectedOutput],
    other: Callable[[], list[Arg]],
    inferred: list[str],
) -> None:
    """Say of each output what a kernel could leave out and still be right; `other` makes the arguments of another seed.

    A reference that refuses these, or has no room for them, is not asked.
    """
    varied = []
    for found in expected:
        kept = found.values if found.written is None else found.values[found.written]
        if kept.numel() > 1 and bool((kept == kept[0]).all()):
            inferred.append(
                f"Degenerate: output {found.name!r} is {kept[0].item():g} everywhere, so that nothing need be "
                f"computed for it."
            )
        elif kept.numel() > 1:
            varied.append(found)
    try:
        others = other()
        inputs = [(a.value, b.value) for a, b in zip(args, others, strict=True) if a.is_tensor and a.role == "input"]
        if inputs and all(is_equal(one, two) for one, two in inputs):
            inferred.append(
                "Degenerate: make_inputs gives the same inputs for another seed, and a kernel is checked on "
                "these alone."
            )
        if not inputs or all(is_equal(one, two) for one, two in inputs):
            return
        changed = {now.name: now for now in expected_outputs(contract, others)[0]}
    except ContractError:
        return
    for found in varied:
        now = changed[found.name].values
        close = torch.finfo(getattr(torch, found.dtype)).eps ** 0.5 if found.floating else 0.0
        error = found.error(now)["error"] if now.shape == found.values.shape else None
        if error is not None and error <= close:
            inferred.append(
                f"Degenerate: output {found.name!r} hardly depends on the inputs: for others it differs by "
                f"{error:.1e} at most, relative."
            )
