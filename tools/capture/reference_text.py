"""The text of an observation's reference.py: workloads, make_inputs, and the function where that is known."""

from __future__ import annotations

import ast
import math
import re
from collections import defaultdict
from pathlib import Path

from tools.capture.call_text import CallText
from tools.capture.contract import ObservedContract, TaskArgument
from tools.capture.integers import RECORDED_INTEGERS, fit_recorded_calls, recorded_arguments, reorderings, stored_type
from tools.capture.observation import Content
from tools.capture.user_code import is_pure_torch, is_torch, needed_statements, text_of_statements
from tools.tasks.draft import FILL

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
    if distinct and math.prod(shape) <= high + 1 - low <= 64 * math.prod(shape):
        values = torch.randperm(high + 1 - low, generator=random, device=random.device)[: math.prod(shape)] + low
    else:
        values = torch.randint(low, high + 1, (math.prod(shape),), generator=random, device=random.device)
    values = values.reshape(shape)
    if rising:
        values = values.sort(-1).values
        if len(shape) == 1:
            values[0], values[-1] = low, high
    return values.to(dtype)


def choices(random, shape, dtype, shares):
    """Return the few observed values, each as often as it was observed, at random places."""
    ends = torch.tensor([*shares.values()], device=random.device).cumsum(0)[:-1]
    drawn = torch.bucketize(torch.rand(shape, generator=random, device=random.device), ends, right=True)
    return torch.tensor([*shares], dtype=torch.float64, device=random.device)[drawn].to(dtype)


def common(random, values, shares):
    """Return values of which these shares are the common observed ones, at random places but for the first of each
    row."""
    place, rest = torch.rand(values[..., 1:].shape, generator=random, device=random.device), values[..., 1:]
    for value, share in shares.items():
        rest.masked_fill_((place >= 0) & (place < share), value)
        place -= share
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
        f"    { {'dims': w.dims, 'weight': float(f'{w.calls / total:.4g}')} },  # {w.share:.1%} of the time\n"
        for w in contract.workloads
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
        clashes = {"reference", "make_inputs", *re.findall(r"^def (\w+)", DRAWS + RECORDED_INTEGERS, re.MULTILINE)}
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
        low, high = map(_number, contract.sample.content(argument.path).few_values)
        return f"torch.where({made}, {high}, {low}).to({dtype})"
    contents = [call.content(argument.path) for call in contract.recorded]
    made = _drawn_values(contents, shape, argument.dtype) + turned
    if "int" in argument.dtype:
        notes.append(
            f"{argument.name}: its integers are too large to be recorded; {made} draws them, which keeps nothing "
            "that they say of other arguments."
        )
    infinite = sum(share for one in contents for value, share in one.levels if math.isinf(value)) / len(contents)
    if infinite and argument.shape:
        notes.append(
            f"{argument.name}: {infinite:.0%} of its values are infinite, at random places in make_inputs; write "
            "the pattern there if there is one."
        )
    return made


def _number(value: float) -> str:
    """Return a number as Python."""
    return f"{value:g}".replace("inf", "torch.inf") if math.isinf(value) else repr(value)


def _drawn_values(contents: list[Content], shape: str, dtype: str) -> str:
    given, levels = f"random, {shape}, torch.{dtype}", defaultdict[float, float](float)
    for value, share in (pair for content in contents for pair in content.levels):
        levels[value] += round(share / len(contents), 6)
    shares = f"{{{', '.join(f'{_number(value)}: {share:.6g}' for value, share in levels.items())}}}"
    others = [c for c in contents if not c.few_values] or [Content(zlib="", min=v, max=v) for v in levels]
    low, high = min(c.min for c in others), max(c.max for c in others)
    orders = {"distinct": all(c.distinct for c in contents), "rising": all(c.rising for c in contents)}
    order = "".join(f", {name}=True" for name, is_so in orders.items() if is_so)
    if all(c.few_values for c in contents) and not order and (len(levels) > 1 or dtype == "bool" or math.isinf(low)):
        return f"choices({given}, {shares})"
    mean = sum(c.mean for c in others) / len(others)
    deviation = (sum(c.std**2 for c in others) / len(others)) ** 0.5
    if "int" in dtype:
        made = f"integers({given}, {int(low)}, {int(high)}{order})"
    elif max(-low, high) > NOISE:
        made = f"normal({given}, 0.0, 1.0)"
    elif low == high:
        # A constant would let a kernel leave it out; values near it do not.
        return f"normal({given}, {low:.6g}, {abs(low) / 10 or 0.1:.3g})"
    elif low >= 0:
        made = f"uniform({given}, {low:.6g}, {high:.6g})"
    else:
        made = f"normal({given}, {mean:.6g}, {deviation:.6g})"
    return f"common(random, {made}, {shares})" if levels and not order else made
