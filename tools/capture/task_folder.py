"""Writes the task folder of an observation: reference.py, task.yaml, the user's code, and captured.json."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts import Artifact
from tools.capture.call_text import CALL, FILL, CallText, is_torch, literal
from tools.capture.contract import ObservedContract, TaskArgument, TaskWorkload, identifier, infer_contract
from tools.capture.integers import RECORDED_INTEGERS, fit_recorded_calls, recorded_arguments, reorderings
from tools.capture.observation import Content, Observation, read_observation
from tools.capture.program import run_program
from tools.capture.user_code import (
    has_effects,
    imported_files,
    is_pure_torch,
    needed_statements,
    text_of_statements,
)
from tools.errors import SettingsError

CONFIG = """\
task: .
# models: {default: {provider: anthropic, model: claude-opus-5-5}}
# budget: {usd: 10}
"""
NOISE = 1e18
"""A value above this comes from memory that the program had not written yet."""
_DRAWS = '''
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


class CapturedTask(Artifact):
    """The task folder that `capture` wrote, and what it says."""

    folder: str
    lines: tuple[str, ...]
    """What was seen and written, one sentence or row each."""
    to_fill: tuple[str, ...]

    def text(self) -> str:
        """The same as lines of text."""
        rows = [*self.lines, *(["to fill:", *self.to_fill] if self.to_fill else [])]
        return "\n".join([*rows, f"then: python -m graph check {self.folder}"])


def capture(
    program: Sequence[str], target: str, out: Path | None, python: str = "", *, whole_floats: bool = False
) -> CapturedTask:
    """Run a program once, record the calls of `target`, and write their task folder; default: named as the target.

    Raises SettingsError if the program cannot start, nothing was recorded, or the folder holds something.
    """
    target = target_in_script(program, target)
    folder = out or Path(identifier(re.split(r"[:.]", target)[-1]).strip("_"))
    _refuse_full_folder(folder)
    recorded = run_program(program, target, python, whole_floats=whole_floats)
    return write_captured_task(read_observation(recorded, target), folder)


def target_in_script(program: Sequence[str], target: str) -> str:
    """Return the target, as `__main__:name` if its module is the program itself, which is not imported by its name."""
    module, colon, name = target.partition(":")
    script = Path(program[0]).stem if program and program[0] != "-m" else "".join(program[1:2])
    return f"__main__:{name}" if colon and module == script else target


def _refuse_full_folder(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder}: is not empty; capture overwrites nothing, so name another folder with --out")


def write_captured_task(observation: Observation, folder: Path) -> CapturedTask:
    """Write the task folder of an observation. SettingsError where `folder` holds something."""
    _refuse_full_folder(folder)
    contract = infer_contract(observation)
    files, module, notes = _user_files(observation)
    text = CallText(contract, module)
    if text.needs_wrapper():
        baseline = f"{CALL}:{CALL}"
        files[f"baseline/{CALL}.py"] = text.wrapper()
    else:
        baseline = f"{module}:{text.path}"
    reference, contract, more = _reference(contract, text)
    name = identifier(text.path.rpartition(".")[2].rpartition(":")[2]).strip("_")
    is_small = any(a.dtype in ("bfloat16", "float16") or a.dtype.startswith("float8") for a in contract.arguments)
    is_triton = observation.form == "triton" or observation.device != "cpu" or is_small
    files |= {
        "reference.py": reference,
        "task.yaml": f"name: {name}\nlanguage: {'triton' if is_triton else 'cpp'}\nlibrary: [reference]\n"
        f'baseline: {{call: "{baseline}"}}\n',
        "config.yaml": CONFIG,
        "captured.json": json.dumps(_evidence(contract, baseline, notes + more), indent=1) + "\n",
    }
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    marked = tuple(
        f"{path}:{number}: {line.split(FILL, 1)[1].strip()}"
        for path, content in files.items()
        if not path.startswith("baseline/") or path == f"baseline/{CALL}.py"
        for number, line in enumerate(content.splitlines(), 1)
        if FILL in line
    )
    return CapturedTask(
        folder=str(folder), lines=tuple(_summary(contract, baseline, files, notes + more)), to_fill=marked
    )


def _user_files(observation: Observation) -> tuple[dict[str, str], str, list[str]]:
    """Return the user's files that the target needs, the module of the target below baseline/, and notes."""
    module = observation.target.rpartition(":")[0]
    if is_torch(observation):
        return {}, module, []
    if module == "__main__":
        path = Path(observation.file)
        source = path.read_text(encoding="utf-8")
        tree, stem = ast.parse(source), identifier(path.stem)
        name, notes = observation.target.rpartition(":")[2].partition(".")[0], []
        if has_effects(tree):
            source = text_of_statements(source, needed_statements(tree, name))
            notes.append(f"baseline/{stem}.py holds what {name} needs of {path.name}, whose import runs the program.")
        imported = imported_files({**observation.modules, stem: str(path)}, stem)
        files = {f"baseline/{one}": file.read_text(encoding="utf-8") for one, file in imported.items() if file != path}
        return {**files, f"baseline/{stem}.py": source}, stem, notes
    imported = imported_files(observation.modules, module)
    binary = [str(file) for file in imported.values() if file.suffix != ".py"]
    notes = [f"{', '.join(binary)}: not text, so it must be installed where jobs run."] * bool(binary)
    if not imported:
        notes.append(f"{module} is an installed package; it must be installed where jobs run.")
    texts = {f"baseline/{p}": f.read_text(encoding="utf-8") for p, f in imported.items() if f.suffix == ".py"}
    return texts, module, notes


# ---------------------------------------------------------------- reference.py


def _reference(contract: ObservedContract, text: CallText) -> tuple[str, ObservedContract, list[str]]:
    """Return the text of reference.py, the contract with the workloads that fit in it, and notes."""
    observation, notes = contract.observation, list[str]()
    whole = recorded_arguments(contract)
    tables = ""
    if whole:
        calls, kept, notes = fit_recorded_calls(contract, whole)
        if not kept:
            raise SettingsError("capture: no call's integers fit into reference.py; call the program with smaller ones")
        lost = tuple(workload for workload in contract.workloads if workload not in kept)
        contract = contract.model_copy(update={"workloads": tuple(kept), "left_out": (*lost, *contract.left_out)})
        tables = (
            f"\nHELD = {literal(contract.held)}\nREORDERING = {literal(reorderings(whole, calls))}\nRECORDED = {{\n"
        )
        tables += "".join(f"    {key!r}: [{', '.join(map(literal, found))}],\n" for key, found in calls.items()) + "}\n"
    outputs = tuple(a.name for a in contract.arguments if a.role == "output")
    changed = tuple(a.name for a in contract.arguments if a.role == "inout")
    head = [
        f'"""What {observation.target} computes, with arguments as `{" ".join(observation.command)}` gave them.',
        "",
    ]
    head += ["`python -m graph capture` wrote this; captured.json beside it has the evidence.", '"""', ""]
    head += ["from __future__ import annotations", ""]
    head += ["import base64", "import zlib", ""] if whole else []
    head += ["import torch", ""]
    head += [f"outputs = {literal(outputs)}"] if outputs else []
    head += [f"inout = {literal(changed)}  # {_INOUT}"] if changed else []
    head += ["workloads = ["]
    head += [
        f"    {literal({'name': w.name, 'dims': w.dims, 'weight': float(w.calls)})},  # {w.share:.1%} of the time"
        for w in contract.workloads
    ]
    head += ["]", f"dims_range = {literal(contract.dims_range)}"] if contract.dims_range else ["]"]
    makes = [
        "",
        "",
        'def make_inputs(dims, seed, device="cpu"):',
        "    random = torch.Generator(device).manual_seed(seed)",
    ]
    makes += ["    return {"]
    recorded_names = {a.name for a in whole}
    makes += [f'        "{a.name}": {_draw(contract, a, a.name in recorded_names)},' for a in contract.arguments]
    makes += ["    }", ""]
    body = "\n".join([*head, *makes, *_reference_function(contract, text, notes)])
    return (
        body + _DRAWS.replace("\ndef", "\n\ndef") + ("\n" + RECORDED_INTEGERS + tables if whole else ""),
        contract,
        notes,
    )


_INOUT = "the content before the call counts; what is only written belongs into `outputs`"


def _reference_function(contract: ObservedContract, text: CallText, notes: list[str]) -> list[str]:
    """Return the lines of `reference`: an operator of torch, the user's own pure torch, or a line to fill."""
    observation = contract.observation
    parameters = ", ".join(a.name for a in contract.arguments)
    definition = [f"def reference({parameters}):"]
    if is_torch(observation) and not text.unknown:
        lines = [f"    {line}" for line in text.body()]
        module = observation.target.rpartition(":")[0]
        return ["", *definition, *(line.replace(f"{text.path}(", f"{module}.{text.path}(") for line in lines)]
    if observation.form in ("function", "module") and observation.file and not text.unknown:
        source = Path(observation.file).read_text(encoding="utf-8")
        needed = needed_statements(ast.parse(source), text.path.partition(".")[0])
        # Imports of the future stand at the top of a file alone.
        own = text_of_statements(source, [one for one in needed if getattr(one, "module", "") != "__future__"])
        clashes = {"reference", "make_inputs", "normal", "uniform", "integers", "recorded"}
        free = not any(getattr(one, "name", "") in clashes for one in needed)
        if is_pure_torch(needed) and free and not text.imports:
            notes.append("The reference is the user's own function, which is plain torch; the baseline is the same.")
            setup = [text.setup()] if text.setup() else []
            marker = (
                f"# The user's own code, from {Path(observation.file).name}: what it computes is right by definition."
            )
            return ["", marker, own, *setup, "", *definition, *(f"    {line}" for line in text.body())]
    wanted = ", ".join(a.name for a in contract.arguments if a.role == "output") or "nothing: it changes its arguments"
    return [
        "",
        *definition,
        f"    # {FILL} the answer of {observation.target} with torch; it returns {wanted}",
        '    raise NotImplementedError("say in reference.py what the function computes")',
    ]


def _draw(contract: ObservedContract, argument: TaskArgument, is_recorded: bool) -> str:
    """Return the expression that makes an argument."""
    if argument.role == "scalar":
        return str(argument.value)
    order = argument.order or tuple(range(len(argument.shape)))
    extents = [str(argument.shape[axis]) for axis in order]
    shape = f"({', '.join(extents)}{',' * (len(extents) == 1)})"
    dtype = f"torch.{argument.dtype}"
    if argument.role == "output":
        made = f"torch.empty({shape}, dtype={dtype}, device=device)"
    elif is_recorded:
        return f'recorded("{argument.name}", dims, seed, {dtype}, {shape}).to(device)'
    else:
        made = _drawn_values(contents_of(contract, argument.path), shape, argument.dtype)
    back = [order.index(axis) for axis in range(len(order))]
    return f"{made}.permute({', '.join(map(str, back))})" if argument.order else made


def contents_of(contract: ObservedContract, path: str) -> list[Content]:
    """Return what was recorded of an argument's values, in all calls of the workloads."""
    calls = [c for w in (*contract.workloads, *contract.left_out) for g in w.groups for c in g.calls if c.contents]
    return [call.contents[call.tensors.index(path)] for call in calls]


def _drawn_values(contents: list[Content], shape: str, dtype: str) -> str:
    count = max(len(contents), 1)
    mean = sum(c.mean for c in contents) / count
    deviation = (sum(c.std**2 for c in contents) / count) ** 0.5
    low, high = min((c.min for c in contents), default=0.0), max((c.max for c in contents), default=0.0)
    given = f"random, {shape}, torch.{dtype}"
    if dtype == "bool":
        return f"uniform({given.replace('torch.bool', 'torch.float32')}, 0.0, 1.0) < {mean:.4g}"
    if "int" in dtype:
        return f"integers({given}, {int(low)}, {int(high)})"
    if max(abs(low), abs(high)) > NOISE:
        return f"normal({given}, 0.0, 1.0)"
    if low == high:
        # A constant would let a kernel leave it out; values near it do not.
        return f"normal({given}, {low:.6g}, {abs(low) / 10 or 0.1:.3g})"
    return f"uniform({given}, {low:.6g}, {high:.6g})" if low >= 0 else f"normal({given}, {mean:.6g}, {deviation:.6g})"


# ---------------------------------------------------------------- what was seen


def _evidence(contract: ObservedContract, baseline: str, notes: list[str]) -> dict[str, object]:
    """Return captured.json: each statement of the task with what was seen; no environment, no values of floats."""
    observation = contract.observation

    def size(workload: TaskWorkload) -> dict[str, object]:
        fields = workload.model_dump(include={"name", "dims", "calls", "replays", "median_s", "first_s", "share"})
        call = workload.groups[0].calls[0]
        return fields | {"call": _call_without_values(call.model_dump(mode="json", exclude_defaults=True))}

    return {
        **observation.model_dump(
            mode="json",
            include={"target", "form", "command", "processes", "apart", "versions", "device", "exit_code"},
        ),
        "baseline": baseline,
        "overhead": {"wall_s": observation.wall_s, "recorder_s": observation.own_s},
        "arguments": [a.model_dump(mode="json") for a in contract.arguments],
        "workloads": [size(workload) for workload in contract.workloads],
        "left_out": [size(workload) for workload in contract.left_out],
        "dims_range": contract.dims_range,
        "notes": [*contract.notes, *notes],
    }


def _call_without_values(call: dict[str, object]) -> dict[str, object]:
    """Return a call without the recorded integers, which stand in reference.py."""
    contents = [{k: v for k, v in one.items() if k != "zlib"} for one in call.get("contents", ())]  # type: ignore[attr-defined]
    return {**call, "contents": contents}


def _summary(contract: ObservedContract, baseline: str, files: dict[str, str], notes: list[str]) -> list[str]:
    observation = contract.observation
    covered = sum(workload.share for workload in contract.workloads)
    calls = sum(group.count for group in observation.groups)
    head = (
        f"{observation.target}: {calls} calls of {len(observation.groups)} classes in {observation.processes} "
        f"process{'es' * (observation.processes != 1)}, called by {contract.sample.caller or 'unknown'}; the recorder "
        f"took {observation.own_s / max(observation.wall_s, 1e-9):.1%} of {observation.wall_s:.1f} s"
    )
    rows = [head, *(f"apart: {count} {reason}" for reason, count in observation.apart.items())]
    for a in contract.arguments:
        extents = [re.sub(r'dims\["(\w+)"\]', r"\1", str(one)) for one in (*a.shape, a.value)]
        what = f"{a.dtype} = {extents[-1]}" if a.role == "scalar" else f"{a.dtype}[{', '.join(extents[:-1])}]"
        rows.append(f"  {a.name:<16} {a.role:<7} {what:<32} {a.evidence}")
    rows += [
        f"  workload {w.name}: {w.calls} calls, median {w.median_s * 1e6:.4g} us, {w.share:.1%} of the time"
        for w in contract.workloads
    ]
    rows.append(f"  the workloads cover {covered:.1%} of the time of all calls; {len(contract.left_out)} are left out")
    rows += [f"  {note}" for note in (*contract.notes, *notes)]
    rows += [f"  the program ended with exit code {observation.exit_code}"] * (observation.exit_code != 0)
    rows.append(f"written: {', '.join(sorted(files))}; baseline: {baseline}")
    return rows
