"""Recognises tasks that say little about a kernel: outputs that are one number, or that do not depend on the inputs."""

from collections.abc import Callable

import torch

from harness.reference.comparison import ExpectedOutput, copy_arguments, expected_outputs
from harness.reference.contract import Arg, Contract, ContractError
from harness.reference.determinism import is_equal

COARSE = {"bfloat16": 8, "tf32": 11}
"""Type -> bits of its significand; the exponent is that of float32."""


def coarse_errors(contract: Contract, args: list[Arg], expected: list[ExpectedOutput]) -> dict[str, float]:
    """Return for each coarser type the largest error of the float32 outputs when the inputs are rounded to that type
    and the computation is exact; empty if it cannot be computed."""
    found = {}
    for name, bits in COARSE.items():
        rounded = copy_arguments(args)
        for a in rounded:
            if a.is_read and a.value.dtype is torch.float32:
                bits_of_value = a.value.view(torch.int32)
                a.value = ((bits_of_value + (1 << (23 - bits))) & -(1 << (24 - bits))).view(torch.float32)
        try:
            rounded_outputs = {one.name: one.values for one in expected_outputs(contract, rounded)[0]}
        except ContractError:
            return {}
        comparable = [
            one for one in expected if one.dtype == "float32" and rounded_outputs[one.name].shape == one.values.shape
        ]
        errors = [one.error(rounded_outputs[one.name])["error"] for one in comparable]
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
    """Append to `inferred` a sentence for each output that a kernel could get right without computing it.

    `other` makes the arguments of another seed. The comparison is skipped if the reference refuses them or memory does
    not hold them.
    """
    varied = []
    for found in expected:
        defined = found.values if found.written is None else found.values[found.written]
        if defined.numel() > 1 and bool((defined == defined[0]).all()):
            inferred.append(
                f"Degenerate: output {found.name!r} is {defined[0].item():g} everywhere, so a kernel need not "
                f"compute it."
            )
        elif defined.numel() > 1:
            varied.append(found)
    try:
        others = other()
        inputs = [(a.value, b.value) for a, b in zip(args, others, strict=True) if a.is_read]
        if inputs and all(is_equal(one, two) for one, two in inputs):
            inferred.append(
                "Degenerate: make_inputs gives the same inputs for every seed, so a kernel is checked on these alone."
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
                f"Degenerate: output {found.name!r} hardly depends on the inputs: other inputs change it by "
                f"{error:.1e} at most, relative."
            )
