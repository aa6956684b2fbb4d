"""Recognises tasks that say little about a kernel: outputs that are one number, or that do not depend on the
inputs, and inputs whose content a kernel can know."""

import hashlib
import random
import time
from collections.abc import Callable

import torch

from harness.reference.comparison import ExpectedOutput, copy_arguments, expected_outputs
from harness.reference.contract import Arg, Contract, ContractError, computable
from harness.reference.determinism import is_equal

DRAW_S = 3.0
"""Seconds in which input sets are drawn to be compared."""
INPUT_SETS = 8
"""Input sets that are compared, at most; two or more even where they take longer than `DRAW_S`."""
MOST_SORTED = 1 << 22
"""Elements of an input that is compared without regard to their order, at most."""
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


def known_contents(args: list[Arg], draw: Callable[[int], list[Arg]], deadline: float) -> dict[str, str]:
    """Return name -> how an input returns for other seeds, so that a kernel could hold it itself.

    `draw` makes the arguments of a seed; it raises ContractError if it cannot. After `deadline` there is one other set.
    """
    seeds, found = random.Random(0), dict[str, str]()
    contents: dict[str, list[tuple[bytes, bytes]]] = {}
    for at in range(INPUT_SETS):
        if at > 1 and time.monotonic() > deadline:
            break
        try:
            drawn = draw(seeds.randrange(1 << 31)) if at else args
        except ContractError:
            break
        for a in (a for a in drawn if a.is_read and a.value.numel()):
            contents.setdefault(a.name, []).append((fingerprint(a.value), values_of(a.value)))
    for name, seen in contents.items():
        (count, alike), total = (len({*kind}) for kind in zip(*seen, strict=True)), len(seen)
        if count == 1 < total:
            found[name] = "the same content in all input sets"
        elif alike == 1 < total and seen[0][1]:
            found[name] = "the same values in another order in all input sets"
        elif 2 * count <= total:
            found[name] = f"one of {count} contents in each of {total} input sets"
    return found


def values_of(tensor: torch.Tensor) -> bytes:
    """Return a hash of a tensor's values without regard to their order; empty for one of too many elements."""
    return fingerprint(computable(tensor).flatten().sort().values) if tensor.numel() <= MOST_SORTED else b""


def fingerprint(tensor: torch.Tensor) -> bytes:
    """Return a hash of a tensor's bytes."""
    return hashlib.sha256(tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy()).digest()


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
        else:
            varied.append(found)
    try:
        others = other()
        equal = {is_equal(a.value, b.value) for a, b in zip(args, others, strict=True) if a.is_read}
        if False not in equal:
            if equal:
                inferred.append(
                    "Degenerate: make_inputs gives the same inputs for every seed, so it is checked on these alone."
                )
            return
        changed = {now.name: now for now in expected_outputs(contract, others)[0]}
    except ContractError:
        return
    for found in varied:
        now = changed[found.name].values
        close = torch.finfo(getattr(torch, found.dtype)).eps ** 0.5 if found.floating else 0.0
        error = found.error(now)["error"] if now.shape == found.values.shape else None
        if error == 0:
            inferred.append(f"Degenerate: output {found.name!r} is the same for other inputs.")
        elif error is not None and error <= close and found.count > 1:
            inferred.append(
                f"Degenerate: output {found.name!r} hardly depends on the inputs: other inputs change it by "
                f"{error:.1e} at most, relative."
            )
