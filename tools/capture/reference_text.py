"""The text of an observation's reference.py: workloads, make_inputs, and the function where that is known."""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from pathlib import Path

from tools.capture.call_text import FILL, CallText
from tools.capture.contract import ObservedContract, TaskArgument
from tools.capture.integers import RECORDED_INTEGERS, fit_recorded_calls, recorded_arguments, reorderings, stored_type
from tools.capture.observation import Content
from tools.capture.user_code import is_pure_torch, is_torch, needed_statements, text_of_statements

NOISE = 1e18
"""A value above this comes from memory that the program had not written yet."""
DRAWS = '''


def normal(random, shape, dtype, mean, deviation):
    """Return normal values, as the observed ones were spread."""
    return (torch.randn(shape, generator=random, device=random.device) * deviation + mean).to(dtype)


def uniform(random, shape, dtype, low, high):
    """Return evenly spread values between the least and the largest observed one."""
    return (torch.rand(shape, generator=random, device=random.device) * (high - low) + low).to(dtype)


def integers(random, shape, dtype, low, high, distinct=False, rising=False):
    """Return integers from the least to the largest observed one: all different, or rising along the last axis, if the
    observed ones were."""
    if distinct and math.prod(shape) <= high + 1 - low:
        values = torch.randperm(high + 1 - low, generator=random, device=random.device)[: math.prod(shape)] + low
    else:
        values = torch.randint(low, high + 1, (math.prod(shape),), generator=random, device=random.device)
    values = values.reshape(shape)
    if rising:
        values = values.sort(-1).values
        if len(shape) == 1:
            values[0], values[-1] = low, high
    return values.to(dtype)


def choices(random, shape, dtype, values, shares):
    """Return the few observed values, each as often as it was observed, at random places."""
    ends = torch.tensor(shares, device=random.device).cumsum(0)[:-1]
    drawn = torch.bucketize(torch.rand(shape, generator=random, device=random.device), ends, right=True)
    return torch.tensor(values, dtype=torch.float64, device=random.device)[drawn].to(dtype)


def infinite(random, values, low, high):
    """Return values of which these shares are -inf and inf at random places, but for the first of each row."""
    place, rest = torch.rand(values[..., 1:].shape, generator=random, device=random.device), values[..., 1:]
    rest.masked_fill_(place < low, -torch.inf).masked_fill_(place >= 1 - high, torch.inf)
    return values
'''


def reference_text(contract: ObservedContract) -> tuple[str, ObservedContract]:
    """Return the text of reference.py, and the contract with the workloads whose integers fit in it."""
    observation, recorded, tables = contract.observation, recorded_arguments(contract), ""
    notes = list[str]()
    if recorded:
        calls, contract = fit_recorded_calls(contract, recorded)
        forms = reorderings(contract, recorded)
        kept = ", ".join(name for name, (form, _) in forms.items() if form == "kept")
        notes += [f"{kept}: the recorded integers at every seed, since reordering could break what they say."] * bool(
            kept
        )
        rows = "".join(f"    {key!r}: {found},\n" for key, found in calls.items())
        tables = f"\nHELD = {contract.held}\nREORDERING = {forms}\n"
        tables = f"\n{RECORDED_INTEGERS}{tables}RECORDED = {{\n{rows}}}\n"
    text = CallText(contract)
    leaves = {a.path: draw(contract, a, notes, is_recorded=a in recorded) for a in contract.arguments if a.path}
    contract = contract.model_copy(update={"notes": (*contract.notes, *notes)})
    made = "".join(f'        "{name}": {one},\n' for name, one in text.made(leaves).items())
    structs = "".join(f'{n} = namedtuple("{n}", {fields})\n' for n, fields in text.structs.items())
    total = sum(w.calls for w in contract.workloads)
    sizes = "".join(
        f"    { {'name': w.name, 'dims': w.dims, 'weight': weight} },  # {w.share:.1%} of the time\n"
        for w, weight in ((one, float(f"{one.calls / total:.4g}")) for one in contract.workloads)
    )
    found = {"outputs": contract.named("output"), "inout": contract.named("inout"), "dims_range": contract.dims_range}
    settings = "".join(f"{name} = {value}\n" for name, value in found.items() if value)
    head = f'''"""What {observation.target} computes, with arguments as `{" ".join(observation.command)}` gave them.

`python -m graph capture` wrote this; captured.json beside it has the evidence.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections import namedtuple

import torch

{settings}workloads = [
{sizes}]
{structs}{"".join(text.unknown)}

def make_inputs(dims, seed, device="cpu"):
    random = torch.Generator(device).manual_seed(seed)
    return {{
{made}    }}

'''
    draws = "".join(
        f"\n\ndef {one.rstrip()}\n" for one in DRAWS.split("\n\n\ndef ")[1:] if f"{one.partition('(')[0]}(" in made
    )
    return f"{head}{_reference_function(contract, text)}{draws}{tables}", contract


def _reference_function(contract: ObservedContract, text: CallText) -> str:
    """Return `reference`: an operator of torch, the user's own pure torch, or a line to fill."""
    observation, definition = contract.observation, f"\ndef reference({text.parameters()}):\n"
    if is_torch(observation) and not text.unknown:
        return definition + text.body(f"{observation.target.rpartition(':')[0]}.")
    file = observation.modules.get(observation.target.rpartition(":")[0])
    if observation.form in ("function", "module") and file and not text.unknown:
        source = Path(file).read_text(encoding="utf-8")
        needed = needed_statements(ast.parse(source), text.path.partition(".")[0])
        clashes = {
            "reference",
            "make_inputs",
            "normal",
            "uniform",
            "integers",
            "choices",
            "infinite",
            "recorded",
            "mixed",
        }
        if is_pure_torch(needed) and not any(getattr(one, "name", "") in clashes for one in needed):
            # Imports of the future stand at the top of a file alone.
            own = text_of_statements(source, [one for one in needed if getattr(one, "module", "") != "__future__"])
            marker = f"# The user's own code, from {Path(file).name}: what it computes is right by definition."
            return f"{marker}\n{own}{text.setup}\n{definition}{text.body()}"
    wanted = ", ".join(contract.named("output")) or "nothing: it changes its arguments"
    return (
        f"{definition}    # {FILL} the answer of {observation.target} with torch; it returns {wanted}\n"
        f'    raise NotImplementedError("say in reference.py what the function computes")\n'
    )


def draw(contract: ObservedContract, argument: TaskArgument, notes: list[str], *, is_recorded: bool) -> str:
    """Return the expression that makes an argument, and append to `notes` what it does not keep of the observed one."""
    if argument.role == "scalar":
        return str(argument.value)
    order = contract.sample.leaves[argument.path].axes_in_memory() if argument.role != "output" else None
    turned = f".permute({', '.join(str(order.index(axis)) for axis in range(len(order)))})" if order else ""
    extents = [argument.shape[axis] for axis in order] if order and not is_recorded else argument.shape
    shape, dtype = f"({''.join(f'{extent}, ' for extent in extents)})", f"torch.{argument.dtype}"
    if argument.role == "output":
        return f"torch.empty({shape}, dtype={dtype}, device=device)"
    if is_recorded:
        made = f'recorded("{argument.name}", dims, seed, torch.{stored_type(argument)}, {shape}).to(device)'
        if "float" not in argument.dtype:
            return made
        low, high = (_number(one) for one in contract.sample.content(argument.path).two_values)
        return f"torch.where({made}, {high}, {low}).to({dtype})"
    groups = (group for workload in (*contract.workloads, *contract.left_out) for group in workload.groups)
    contents = [call.content(argument.path) for group in groups for call in group.calls]
    made = _drawn_values(contents, shape, argument.dtype) + turned
    if "int" in argument.dtype:
        notes.append(
            f"{argument.name}: its integers are too large to be recorded; {made} draws them, which keeps nothing "
            "that they say of other arguments."
        )
    ends = [sum(share) / len(contents) for share in zip(*(one.infinite for one in contents), strict=True)]
    if any(ends) and argument.shape:
        notes.append(
            f"{argument.name}: {sum(ends):.0%} of its values are infinite, at random places in make_inputs; write "
            "the pattern there if there is one."
        )
        return f"infinite(random, {made}, {ends[0]:.6g}, {ends[1]:.6g})"
    return made


def _number(value: float) -> str:
    """Return a number as Python."""
    return f"{value:g}".replace("inf", "torch.inf") if math.isinf(value) else repr(value)


def _drawn_values(contents: list[Content], shape: str, dtype: str) -> str:
    mean = sum(c.mean for c in contents) / len(contents)
    deviation = (sum(c.std**2 for c in contents) / len(contents)) ** 0.5
    low, high = min(c.min for c in contents), max(c.max for c in contents)
    given = f"random, {shape}, torch.{dtype}"
    if dtype == "bool":
        return f"uniform(random, {shape}, torch.float32, 0.0, 1.0) < {mean:.4g}"
    levels = defaultdict[float, float](float)
    for value, share in (pair for content in contents for pair in content.levels):
        levels[value] += share / len(contents)
    is_masked = any(sum(content.infinite) for content in contents)
    if all(content.is_of_few_values for content in contents) and (len(levels) > 1 or is_masked):
        return f"choices({given}, {[*levels]}, {[round(share, 6) for share in levels.values()]})"
    if "int" in dtype:
        kinds = {"distinct": all(c.distinct for c in contents), "rising": all(c.rising for c in contents)}
        more = "".join(f", {kind}=True" for kind, is_so in kinds.items() if is_so)
        negative = [value for value in levels if value < 0]
        if len(negative) == 1 and len(levels) > 1 and not kinds["rising"]:
            # A value such as -1 marks what does not count.
            places = f"uniform(random, {shape}, torch.float32, 0.0, 1.0) < {levels[low]:.6g}"
            return f"torch.where({places}, {int(low)}, integers({given}, 0, {int(high)})).to(torch.{dtype})"
        return f"integers({given}, {int(low)}, {int(high)}{more})"
    if max(-low, high) > NOISE:
        return f"normal({given}, 0.0, 1.0)"
    if low == high:
        # A constant would let a kernel leave it out; values near it do not.
        return f"normal({given}, {low:.6g}, {abs(low) / 10 or 0.1:.3g})"
    return f"uniform({given}, {low:.6g}, {high:.6g})" if low >= 0 else f"normal({given}, {mean:.6g}, {deviation:.6g})"
