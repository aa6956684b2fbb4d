"""Recorded integers in reference.py: which fit in it, and how make_inputs may reorder them without breaking them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence

from tools.capture.contract import ObservedContract, TaskArgument, TaskWorkload
from tools.errors import SettingsError

MOST_TEXT = 1 << 16
"""Characters of recorded integers in a reference.py."""
RECORDED_INTEGERS = '''
def recorded(name, dims, seed, dtype, shape):
    """Return the recorded integers `name` at these dims: with seed 0 as they were, else of another call or reordered.

    Rows of all tensors with one number of rows change places together, so that what belongs together stays together.
    """
    calls = RECORDED.get(tuple(dims[size] for size in HELD))
    if calls is None:
        raise ValueError("no call with these sizes was recorded, and the integers of others do not fit")
    data = bytearray(zlib.decompress(base64.b64decode(calls[seed % len(calls)][name])))
    values = torch.frombuffer(data, dtype=dtype).reshape(shape)
    how = REORDERING[name]
    if seed == 0 or how == "kept":
        return values
    rows = len(values) - (how == "offsets")
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed * 1_000_003 + rows))
    if how == "offsets":  # of consecutive pieces, whose lengths change places
        return torch.cat([values[:1], values.diff()[order].cumsum(0).to(dtype)])
    values = values[order]
    known = values[values >= 0].unique()
    if how == "ids" and len(known) > 2:  # They keep their structure and get other names; two values are a mask.
        names = known[torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))]
        values = torch.where(values < 0, values, names[torch.searchsorted(known, values.clamp(min=int(known[0])))])
    return values
'''


def recorded_arguments(contract: ObservedContract) -> list[TaskArgument]:
    """Return the arguments whose integers were recorded whole."""
    call = contract.sample
    whole = {path for path, content in zip(call.tensors, call.contents, strict=False) if content.zlib}
    return [a for a in contract.arguments if a.path in whole]


def recorded_calls(workload: TaskWorkload, arguments: Sequence[TaskArgument]) -> list[dict[str, str]]:
    """Return the contents of the recorded arguments by name, of each different call of a workload."""
    calls = []
    for call in (call for group in workload.groups for call in group.calls):
        contents = {a.name: call.contents[call.tensors.index(a.path)].zlib for a in arguments}
        if all(contents.values()) and contents not in calls:
            calls.append(contents)
    return calls


def fit_recorded_calls(
    contract: ObservedContract, arguments: Sequence[TaskArgument]
) -> tuple[dict[tuple[int | float, ...], list[dict[str, str]]], ObservedContract]:
    """Return the recorded calls by the held dims, and the contract with the workloads that have one.

    Each workload's first call comes before the second call of any, up to `MOST_TEXT` characters. SettingsError if not
    even one fits.
    """
    chosen: dict[tuple[int | float, ...], list[dict[str, str]]] = {}
    length, kept = 0, list[TaskWorkload]()
    numbered = [(turn, w, call) for w in contract.workloads for turn, call in enumerate(recorded_calls(w, arguments))]
    for turn, workload, call in sorted(numbered, key=lambda one: one[0]):
        size = sum(map(len, call.values()))
        if length + size < MOST_TEXT and (turn == 0 or workload in kept):
            length += size
            chosen.setdefault(tuple(workload.dims[name] for name in contract.held), []).append(call)
            kept += [workload] * (turn == 0)
    if not kept:
        raise SettingsError("capture: no call's integers fit into reference.py; call the program with smaller ones")
    lost = [workload for workload in contract.workloads if workload not in kept]
    names = ", ".join(workload.name for workload in lost)
    note = [f"{names}: left out, because their integers are larger than {MOST_TEXT >> 10} KiB together."] * bool(lost)
    update = {"workloads": (*kept,), "left_out": (*lost, *contract.left_out), "notes": (*contract.notes, *note)}
    return chosen, contract.model_copy(update=update)


def reorderings(
    arguments: Sequence[TaskArgument], calls: Mapping[tuple[int | float, ...], Sequence[Mapping[str, str]]]
) -> dict[str, str]:
    """Return for each argument how its integers may be reordered, judged by all that was recorded of it: `offsets`,
    `rows`, `ids`, or `kept`."""
    import numpy

    found: dict[str, str] = {}
    for argument in arguments:
        arrays = [
            numpy.frombuffer(zlib.decompress(base64.b64decode(call[argument.name])), argument.dtype)
            for group in calls.values()
            for call in group
        ]
        rising = all(bool((a[1:] >= a[:-1]).all()) for a in arrays)
        if len(argument.shape) != 1 or argument.role == "inout":
            found[argument.name] = "ids" if argument.shape and argument.role != "inout" else "kept"
        elif rising and all(a[0] == 0 and len(a) > 2 for a in arrays):
            found[argument.name] = "offsets"
        else:
            found[argument.name] = "kept" if rising and sum(map(len, arrays)) > 8 else "rows"
    for argument in arguments:
        # Rows beside a list that must stay sorted must stay where they are.
        if found[argument.name] == "kept" and argument.shape:
            found |= {a.name: "kept" for a in arguments if a.shape[:1] == argument.shape[:1]}
    return found
