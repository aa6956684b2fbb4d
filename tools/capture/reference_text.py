"""The text of an observation's reference.py: workloads, make_inputs, and the function where that is known."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.capture.call_text import FILL, CallText
from tools.capture.contract import ObservedContract, TaskArgument
from tools.capture.integers import RECORDED_INTEGERS, fit_recorded_calls, recorded_arguments, reorderings
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


def integers(random, shape, dtype, low, high):
    """Return integers from the least to the largest observed one."""
    return torch.randint(low, high + 1, shape, generator=random, device=random.device).to(dtype)
'''


def reference_text(contract: ObservedContract) -> tuple[str, ObservedContract]:
    """Return the text of reference.py, and the contract with the workloads whose integers fit in it."""
    observation, recorded, tables = contract.observation, recorded_arguments(contract), ""
    if recorded:
        calls, contract = fit_recorded_calls(contract, recorded)
        rows = "".join(f"    {key!r}: {found},\n" for key, found in calls.items())
        tables = f"\nHELD = {contract.held}\nREORDERING = {reorderings(recorded, calls)}\n"
        tables = f"\n{RECORDED_INTEGERS}{tables}RECORDED = {{\n{rows}}}\n"
    text = CallText(contract)
    leaves = {a.path: draw(contract, a, is_recorded=a in recorded) for a in contract.arguments if a.path}
    made = "".join(f'        "{name}": {one},\n' for name, one in text.made(leaves).items())
    structs = "".join(f'{n} = namedtuple("{n}", {fields})\n' for n, fields in text.structs.items())
    sizes = "".join(
        f"    { ({'name': w.name, 'dims': w.dims, 'weight': float(w.calls)}) },  # {w.share:.1%} of the time\n"
        for w in contract.workloads
    )
    found = {"outputs": contract.named("output"), "inout": contract.named("inout"), "dims_range": contract.dims_range}
    settings = "".join(f"{name} = {value}\n" for name, value in found.items() if value)
    head = f'''"""What {observation.target} computes, with arguments as `{" ".join(observation.command)}` gave them.

`python -m graph capture` wrote this; captured.json beside it has the evidence.
"""

from __future__ import annotations

import base64
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
    return head + _reference_function(contract, text) + DRAWS + tables, contract


def _reference_function(contract: ObservedContract, text: CallText) -> str:
    """Return `reference`: an operator of torch, the user's own pure torch, or a line to fill."""
    observation, definition = contract.observation, f"\ndef reference({text.parameters()}):\n"
    if is_torch(observation) and not text.unknown:
        return definition + text.body(f"{observation.target.rpartition(':')[0]}.")
    file = observation.modules.get(observation.target.rpartition(":")[0])
    if observation.form in ("function", "module") and file and not text.unknown:
        source = Path(file).read_text(encoding="utf-8")
        needed = needed_statements(ast.parse(source), text.path.partition(".")[0])
        clashes = {"reference", "make_inputs", "normal", "uniform", "integers", "recorded"}
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


def draw(contract: ObservedContract, argument: TaskArgument, *, is_recorded: bool) -> str:
    """Return the expression that makes an argument."""
    if argument.role == "scalar":
        return str(argument.value)
    shape, dtype = f"({''.join(f'{extent}, ' for extent in argument.shape)})", f"torch.{argument.dtype}"
    if argument.role == "output":
        return f"torch.empty({shape}, dtype={dtype}, device=device)"
    if is_recorded:
        return f'recorded("{argument.name}", dims, seed, {dtype}, {shape}).to(device)'
    groups = (group for workload in (*contract.workloads, *contract.left_out) for group in workload.groups)
    contents = [c.contents[c.tensors.index(argument.path)] for group in groups for c in group.calls]
    return _drawn_values(contents, shape, argument.dtype)


def _drawn_values(contents: list[Content], shape: str, dtype: str) -> str:
    mean = sum(c.mean for c in contents) / len(contents)
    deviation = (sum(c.std**2 for c in contents) / len(contents)) ** 0.5
    low, high = min(c.min for c in contents), max(c.max for c in contents)
    given = f"random, {shape}, torch.{dtype}"
    if dtype == "bool":
        return f"uniform(random, {shape}, torch.float32, 0.0, 1.0) < {mean:.4g}"
    if "int" in dtype:
        return f"integers({given}, {int(low)}, {int(high)})"
    if max(-low, high) > NOISE:
        return f"normal({given}, 0.0, 1.0)"
    if low == high:
        # A constant would let a kernel leave it out; values near it do not.
        return f"normal({given}, {low:.6g}, {abs(low) / 10 or 0.1:.3g})"
    return f"uniform({given}, {low:.6g}, {high:.6g})" if low >= 0 else f"normal({given}, {mean:.6g}, {deviation:.6g})"
