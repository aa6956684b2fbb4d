"""Writes the task folder of an observation: reference.py, task.yaml, the user's code, and captured.json."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.artifacts import Artifact, digest
from tools.capture.call_text import CallText
from tools.capture.contract import ObservedContract, identifier, infer_contract
from tools.capture.observation import Observation, read_observation
from tools.capture.program import run_program
from tools.capture.reference_text import reference_text
from tools.capture.user_code import is_torch, needed_statements, text_of_statements
from tools.tasks.draft import CONFIG, refuse_used_folder, write_draft
from tools.tasks.python_file import project_files

CALL = "observed_call"
"""Name of the baseline's module and function where the user's own cannot be called with the task's arguments."""
MAX_LOADED_BYTES = 4 << 20


class CapturedTask(Artifact):
    """The task folder that `capture` wrote, and what it says."""

    folder: str
    lines: tuple[str, ...]
    """What was seen and written, one sentence or row each."""

    def text(self) -> str:
        """The same as lines of text."""
        return "\n".join(self.lines)


def capture(program: Sequence[str], target: str, out: Path | None, python: str = "") -> CapturedTask:
    """Run a program once, record the calls of `target`, and write their task folder; default: named as the target.

    Raises SettingsError if the program cannot start, nothing was recorded, or the folder holds something.
    """
    target = target_in_script(program, target)
    folder = out or Path(identifier(re.split(r"[:.]", target)[-1]))
    refuse_used_folder(folder)
    return write_captured_task(read_observation(run_program(program, target, python), target), folder)


def target_in_script(program: Sequence[str], target: str) -> str:
    """Return the target, as `__main__:name` if its module is the program itself, which is not imported by its name."""
    module, colon, name = target.partition(":")
    script = Path(program[0]).stem if program and program[0] != "-m" else "".join(program[1:2])
    return f"__main__:{name}" if colon and module == script else target


def write_captured_task(observation: Observation, folder: Path) -> CapturedTask:
    """Write the task folder of an observation."""
    files, module, notes = _user_files(observation)
    reference, contract = reference_text(infer_contract(observation))
    text = CallText(contract)
    baseline = f"{module}:{text.path}"
    if text.needs_wrapper():
        baseline = f"{CALL}:{CALL}"
        own = "" if observation.form == "operator" else f"from {module} import {text.path.partition('.')[0]}\n"
        files[f"baseline/{CALL}.py"] = (
            f'"""Calls {observation.target} as `{" ".join(observation.command)}` did."""\n\nimport torch\n{own}\n'
            f"{''.join(text.unknown)}{text.setup}\n\ndef {CALL}({text.parameters()}):\n{text.body()}"
        )
    # C++ takes none of these types; on a CPU, Triton's interpreter ran what imports it.
    is_small = any(a.dtype.startswith(("bfloat16", "float16", "float8")) for a in contract.arguments)
    imports = any(re.search(r"^\s*(import|from) triton\b", one, re.MULTILINE) for one in files.values())
    is_triton = imports or is_small or observation.form == "triton" or observation.device != "cpu"
    language = "triton" if is_triton else "cpp"
    contract = contract.model_copy(update={"notes": (*contract.notes, *notes)})
    files |= {
        "reference.py": reference,
        "task.yaml": f'language: {language}\nlibrary: [reference]\nbaseline: {{call: "{baseline}"}}\n',
        "config.yaml": CONFIG,
        "captured.json": json.dumps(_evidence(contract, baseline, reference), indent=1) + "\n",
    }
    beside = sorted(path for path in files if not path.startswith("baseline/"))
    written = f"written: {', '.join(beside)} and {len(files) - len(beside)} files below baseline/; baseline: {baseline}"
    lines = [*_summary(contract), written, *(f"to fill: {one}" for one in write_draft(folder, files))]
    return CapturedTask(folder=str(folder), lines=(*lines, f"then: python -m graph check {folder}"))


def _user_files(observation: Observation) -> tuple[dict[str, str], str, list[str]]:
    """Return the user's files that the target needs, the module of the target below baseline/, and notes."""
    module, notes = observation.target.rpartition(":")[0], list[str]()
    if module not in observation.modules or is_torch(observation):
        installed = [f"{module} is an installed package; it must be installed where jobs run."]
        return {}, module, [] if is_torch(observation) else installed
    file = Path(observation.modules[module])
    source = file.read_text(encoding="utf-8")
    root, texts = project_files(file, source, file.parents[module.count(".") + (file.stem == "__init__")])
    # What a package runs when it is imported is part of how the function works, unless the program is a large one.
    imported = {Path(path) for name, path in observation.modules.items() if not name.startswith("__")}
    loaded = [one for one in imported if one.is_relative_to(root) and one.is_file()]
    if sum(one.stat().st_size for one in loaded) < MAX_LOADED_BYTES:
        texts |= {one.relative_to(root).as_posix(): one.read_text(encoding="utf-8", errors="replace") for one in loaded}
    if module == "__main__":
        texts.pop(file.relative_to(root).as_posix(), None)
        module, name = identifier(file.stem), observation.target.rpartition(":")[2].partition(".")[0]
        texts[f"{module}.py"] = text_of_statements(source, needed_statements(ast.parse(source), name))
        notes.append(f"baseline/{module}.py holds what {name} needs of {file.name}, whose import may run the program.")
    return {f"baseline/{path}": text for path, text in texts.items()}, module, notes


# ---------------------------------------------------------------- what was seen


def _evidence(contract: ObservedContract, baseline: str, reference: str) -> dict[str, object]:
    """Return captured.json: the digest of reference.py, and each statement of the task with what was seen; no
    environment, and of the values of tensors neither the integers, which stand in reference.py, nor floats."""
    calls: Any = {"__all__": {"recorded"}}
    left_out: Any = {"observation": {"groups", "parameters", "modules"}, "workloads": calls, "left_out": calls}
    samples = [w.recorded[0].model_dump(mode="json", exclude_defaults=True) for w in contract.workloads]
    stated = contract.model_dump(mode="json", exclude=left_out)
    return {"baseline": baseline, "reference_sha256": digest(reference), **stated, "calls": samples}


def _summary(contract: ObservedContract) -> list[str]:
    observation = contract.observation
    calls = sum(group.count for group in observation.groups)
    head = f"{observation.target}: {calls} calls of {len(observation.groups)} classes"
    rows = [head, *(f"apart: {count} {reason}" for reason, count in observation.apart.items())]
    for a in contract.arguments:
        what = a.dtype + (f" = {a.value}" if a.role == "scalar" else f"[{', '.join(map(str, a.shape))}]")
        what = re.sub(r'dims\["(\w+)"\]', r"\1", what)
        rows.append(f"  {a.name:<16} {a.role:<7} {what:<32} {a.evidence}")
    rows += [
        f"  workload {w.dims}: {w.calls} calls, median {w.median_s * 1e6:.4g} us, {w.share:.1%} of the time"
        for w in contract.workloads
    ]
    covered = sum(workload.share for workload in contract.workloads)
    rows.append(f"  the workloads cover {covered:.1%} of the time of all calls; {len(contract.left_out)} are left out")
    return [*rows, *(f"  {note}" for note in contract.notes)]
