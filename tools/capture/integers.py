"""Recorded integers in reference.py: which fit in it, and how make_inputs may reorder them without breaking them."""

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Sequence
from typing import Any

from tools.capture.contract import ObservedContract, TaskArgument, TaskWorkload
from tools.capture.observation import ObservedCall
from tools.errors import SettingsError

MOST_TEXT = 1 << 16
"""Characters of recorded integers in a reference.py."""
MOST_BY_CHANCE = 8
"""A list of no more integers than these may rise by chance."""
RECORDED_INTEGERS = '''
def recorded(name, dims, seed, dtype, shape):
    """Return the recorded content `name` at these dims: with seed 0 as it was, else of another call or redrawn.

    Rows of all tensors with one number of rows are drawn together, so that what belongs together stays together.
    """
    calls = RECORDED.get(tuple(dims[size] for size in HELD))
    if calls is None:
        raise ValueError("no call with these sizes was recorded, and the integers of others do not fit")
    data = bytearray(zlib.decompress(base64.b64decode(calls[seed % len(calls)][name])))
    values = torch.frombuffer(data, dtype=dtype).reshape(shape)
    form, order = REORDERING[name]
    if seed == 0 or form == "kept":
        return values
    pieces = values.long().diff() if form == "sums" else values.long()  # A rising list is sums of its gaps.
    rows, random = len(pieces), torch.Generator().manual_seed(seed * 1_000_003 + len(pieces))
    pieces = pieces[torch.randperm(rows, generator=random)]
    if order in ("mixed", "apart"):
        pieces = mixed(pieces, random, order == "apart" and len(pieces.unique()) == rows)
    if form == "sums":
        pieces = torch.cat([values[:1].long(), pieces]).cumsum(0)
    known = pieces[pieces >= 0].unique()
    if form == "ids" and len(known) > 2:  # They keep their structure and get other names; two values are a mask.
        low, count = int(known[0]), int(known[-1] - known[0]) + 1
        names = torch.randperm(min(count, 1 << 20), generator=torch.Generator().manual_seed(seed))[: len(known)] + low
        pieces = torch.where(pieces < 0, pieces, names[torch.searchsorted(known, pieces.clamp(min=low))])
    return pieces.to(dtype)


def mixed(values, random, apart):
    """Return values of which neighbours come nearer by up to half of the way, which keeps sum, range and step; those
    that must stay `apart` remain different."""
    odd, step = values[1::2], math.gcd(*(values - values[0]).tolist()) or 1
    even = values[: 2 * len(odd) : 2]
    for _ in range(9):
        found, share = values.clone(), torch.rand(len(odd), generator=random, dtype=torch.float64) / 2
        moved = ((odd - even) // step * share).round().long() * step
        found[: 2 * len(odd) : 2] += moved
        found[1::2] -= moved
        if not apart or len(found.unique()) == len(values):
            return found
    return values
'''


def recorded_arguments(contract: ObservedContract) -> list[TaskArgument]:
    """Return the arguments whose content was recorded whole: integers, and floats of the same two values."""
    whole = list[TaskArgument]()
    for argument in (a for a in contract.arguments if a.path in contract.sample.tensors):
        contents = [call.content(argument.path) for w in contract.workloads for call in w.recorded]
        is_mask = argument.role == "input" and len({(one.few_values, bool(one.zlib)) for one in contents}) == 1
        if contents[0].zlib and ("float" not in argument.dtype or is_mask):
            whole.append(argument)
    return whole


def stored_type(argument: TaskArgument) -> str:
    """Return the type in which an argument is recorded: of floats it is whether each is the larger of two values."""
    return "bool" if "float" in argument.dtype else argument.dtype


def recorded_calls(calls: Sequence[ObservedCall], arguments: Sequence[TaskArgument]) -> list[dict[str, str]]:
    """Return the contents of the recorded arguments by name, of each different call that has all of them."""
    contents = [{a.name: call.content(a.path).zlib for a in arguments} for call in calls]
    return [one for at, one in enumerate(contents) if all(one.values()) and one not in contents[:at]]


def fit_recorded_calls(
    contract: ObservedContract, arguments: Sequence[TaskArgument]
) -> tuple[dict[tuple[int | float, ...], list[dict[str, str]]], ObservedContract]:
    """Return the recorded calls by the held dims, and the contract with the workloads that have one.

    Each workload's first call comes before the second call of any, up to `MOST_TEXT` characters. SettingsError if not
    even one fits.
    """
    chosen: dict[tuple[int | float, ...], list[dict[str, str]]] = {}
    length, kept = 0, list[TaskWorkload]()
    by_workload = ((w, enumerate(recorded_calls(w.recorded, arguments))) for w in contract.workloads)
    numbered = [(turn, w, call) for w, calls in by_workload for turn, call in calls]
    for turn, workload, call in sorted(numbered, key=lambda one: one[0]):
        size = sum(map(len, call.values()))
        if length + size < MOST_TEXT and (turn == 0 or workload in kept):
            length += size
            chosen.setdefault(tuple(workload.dims[name] for name in contract.held), []).append(call)
            kept += [workload] * (turn == 0)
    if not kept:
        raise SettingsError("capture: no call's integers fit into reference.py; call the program with smaller ones")
    lost = [workload for workload in contract.workloads if workload not in kept]
    names = ", ".join(str(workload.dims) for workload in lost)
    note = [f"{names}: left out, because their integers are larger than {MOST_TEXT >> 10} KiB together."] * bool(lost)
    update = {"workloads": (*kept,), "left_out": (*lost, *contract.left_out), "notes": (*contract.notes, *note)}
    return chosen, contract.model_copy(update=update)


def reorderings(contract: ObservedContract, arguments: Sequence[TaskArgument]) -> dict[str, tuple[str, str]]:
    """Return for each argument its form (`rows`, `ids`, `sums`, or `kept`) and how its rows are redrawn (`permuted`,
    `mixed`, or `apart` if mixed but all different), judged by all that was recorded of it."""
    calls = [call for call in contract.recorded if recorded_calls([call], arguments)]
    arrays = {a.name: [_array(call, a) for call in calls] for a in arguments}
    forms = {a.name: "kept" if a.role == "inout" else _form(arrays[a.name]) for a in arguments}
    for one, other in itertools.permutations(forms, 2):
        pairs = list(zip(arrays[one], arrays[other], strict=True))
        # A list that rises goes with no other list of its length, unless both are sums of the lengths of something.
        beside = forms[one] == "sums" != forms[other] and all(a.shape[:1] == b.shape[:1] for a, b in pairs)
        if beside or all(_tells_of(a, b.astype(int)) for a, b in pairs):
            forms |= dict.fromkeys((one, other), "kept")
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in (name for name, found in arrays.items() if found[0].ndim):
        groups.setdefault(tuple(len(a) - (forms[name] == "sums") for a in arrays[name]), []).append(name)
    orders = dict[str, str]()
    for names in groups.values():
        if any(forms[name] == "kept" for name in names):
            forms |= dict.fromkeys(names, "kept")
        if all(a.ndim == 1 and bool((a >= 0).all()) for name in names for a in arrays[name]):
            orders |= dict.fromkeys(names, "mixed" if "sums" in map(forms.get, names) else "apart")
    return {name: (form, orders.get(name, "permuted")) for name, form in forms.items()}


def _array(call: ObservedCall, argument: TaskArgument) -> Any:
    """Return the recorded content of an argument."""
    import numpy

    data = zlib.decompress(base64.b64decode(call.content(argument.path).zlib))
    return numpy.frombuffer(data, stored_type(argument)).reshape(call.leaves[argument.path].shape)


def _form(arrays: Sequence[Any]) -> str:
    """Return what kind of integers the contents of an argument are."""
    if arrays[0].ndim == 0:
        return "kept"
    lines = [line for a in arrays for line in a.reshape(-1, a.shape[-1])]
    rising = all(bool((line[1:] >= line[:-1]).all()) for line in lines)
    if arrays[0].ndim == 1:
        is_offsets = all(a[0] == 0 and len(a) > 2 for a in arrays)
        return "sums" if rising and (is_offsets or sum(map(len, arrays)) > MOST_BY_CHANCE) else "rows"
    lines += [column for a in arrays for column in a.reshape(len(a), -1).T]
    ordered = any(len(x) > MOST_BY_CHANCE and x[0] < x[-1] and bool((x[1:] >= x[:-1]).all()) for x in lines)
    return "rows" if rising else "kept" if ordered else "ids"


def _tells_of(one: Any, other: Any) -> bool:
    """Whether integers count the values of another tensor, are the sums of these counts, or say how to sort it."""
    import numpy

    counts = numpy.unique(one[one >= 0], return_counts=True)[1]
    for found in (other, numpy.diff(other)) if other.ndim == 1 and len(counts) > 1 else ():
        if numpy.array_equal(numpy.sort(found[found != 0]), numpy.sort(counts)) and counts.max() > 1:
            return True
    if one.size != other.size or not numpy.array_equal(numpy.sort(other, None), numpy.arange(one.size)):
        return False
    ordered = one.reshape(-1)[other.reshape(-1)]
    return bool((ordered[1:] >= ordered[:-1]).all()) and one.size > 2
