"""A task folder around a file that somebody has: the file as it is, what it states of the contract, and `FILL:` where
something is unknown; nothing of the user's code is rewritten."""

from __future__ import annotations

import json
import keyword
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.artifacts import Artifact, Candidate, Task
from tools.errors import KernelwrightError, SettingsError
from tools.executors.base import Executor, Job, Limits
from tools.executors.protocol import Parameter
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import open_language
from tools.languages.cpp_signature import ENTRY_SIGNATURE
from tools.languages.cpp_source import ENTRY
from tools.screen.screen import screen
from tools.store.blobs import Blobs
from tools.tasks.cuda_file import CFile, drawn, extension, with_headers
from tools.tasks.draft import CONFIG, FILL, refuse_used_folder, write_draft
from tools.tasks.loader import detect_language, read_source
from tools.tasks.python_file import PythonFile, project_files

CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".c")
SUFFIXES = (*CPP_SUFFIXES, ".cu", ".cuh", ".py")
IMPORT = """\
import importlib, os, sys
sys.path.insert(0, os.path.abspath("baseline"))
try:
    import torch
    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
    found = importlib.import_module(sys.argv[1])
    for name in sys.argv[2].split("."):
        found = getattr(found, name)
except ModuleNotFoundError as error:
    sys.exit(f"it needs {error.name}, which is not installed here; install it beside torch")
except BaseException as error:
    lines = str(error).strip().splitlines() or [""]
    sys.exit(f"{type(error).__name__}: {next((line for line in lines if 'error' in line), lines[0])}")
"""
"""Imports the baseline that the arguments name, and prints in one line why that failed."""
REFERENCE = f'''\
"""What {{chosen}} of {{file}} must compute."""

import torch

{{outputs}}
{{inout}}workloads = [{{{{"dims": {{dims}}}}}}]  # {FILL} the sizes to be timed


def make_inputs(dims, seed):
    random = torch.Generator().manual_seed(seed)
    return {{{{
{{values}}
    }}}}


def reference({{parameters}}):
    # {FILL} the answer with torch, returned{{order}}
    raise NotImplementedError("say in reference.py what the kernel computes")
'''
ENTRY_OF_PYTHON = "run_kernel"
IMPORT_LIMIT_S = 300.0
_CUTLASS = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*["<]cut(?:lass|e)/""", re.MULTILINE)


class Scaffold(Artifact):
    """The task folder that `init` wrote, and what it found in the file."""

    folder: str = ""
    problem: str = ""
    """Why what was written does not compile or import here, in one line; empty: it does, or nothing was tried."""
    language: str
    kernels: tuple[str, ...]
    launchers: tuple[str, ...]
    """Functions and classes that launch; in Python with the line."""
    chosen: str
    """The function that the kernel or the baseline stands for."""
    call: str = ""
    """`baseline.call` of task.yaml; empty: the file's text is the kernel."""
    left_out: tuple[str, ...] = ()
    """Parameters that stay at their defaults, and a `main`, which a kernel does not need."""
    files: dict[str, str]
    """Path in the folder -> text."""
    to_fill: tuple[str, ...] = ()
    """What the screen refuses first; then file:line and the question, for all marked `FILL:`."""

    def text(self) -> str:
        """What was found and written, as lines of text; a problem comes first."""
        others = " (for another one: --entry NAME)" if len(self.launchers) > 1 else ""
        role = f"your function {self.call} is the baseline, as it is" if self.call else "the file's text is the kernel"
        rows = [
            *filter(None, [self.problem]),
            f"kernels: {', '.join(self.kernels) or 'none'}",
            f"launched by: {', '.join(self.launchers) or 'none'}",
            *[f"left out: {', '.join(self.left_out)}"] * bool(self.left_out),
            f"{self.folder}: written around {self.chosen}{others}; {role}",
            f"files: {', '.join(self.files)}",
            "to fill:",
            *self.to_fill,
        ]
        return "\n".join([*rows, f"then: python -m graph check {self.folder}/config.yaml"])


def scaffold(
    file: Path, folder: Path, entry: str | None = None, machine: tuple[Executor, Blobs] | None = None
) -> Scaffold:
    """Write the task folder of `file`, and compile or import on `machine` what was written.

    SettingsError where there is nothing to begin with, or `folder` holds something.
    """
    source = read_source(file)
    refuse_used_folder(folder)
    if file.suffix not in SUFFIXES:
        raise SettingsError(f"{file}: is in no known language; the name must end in one of {', '.join(SUFFIXES)}")
    draft = (_draft_of_python if file.suffix == ".py" else _draft_of_c)(file.resolve(), source, entry)
    questions = write_draft(folder, draft.files)
    kernel = next((path for path in draft.files if path.startswith("kernel.")), "")
    if refused := screen(draft.files[kernel], draft.language) if kernel else []:
        questions.insert(0, f"{kernel}, {refused[0]} ({len(refused)} in all: python -m tools screen {folder})")
    problem = _problem(draft, *machine) if machine else ""
    return draft.model_copy(update={"folder": str(folder), "problem": problem, "to_fill": tuple(questions)})


def _draft_of_c(file: Path, source: str, entry: str | None) -> Scaffold:
    """A file in the contract, or whose launcher `solve` can call, as kernel; an extension of torch as baseline; else
    the file as kernel with the question for its `solve`."""
    headers = {file: source}
    text = with_headers(source, file, headers)
    root = Path(os.path.commonpath([path.parent for path in headers]))
    copies = {f"baseline/{path.relative_to(root).as_posix()}": content for path, content in headers.items()}
    language = "cpp" if file.suffix in CPP_SUFFIXES else "cutlass" if _CUTLASS.search(text) else "cuda"
    parsed, kind = CFile(text), open_language(language)
    function = parsed.choose(entry or (ENTRY if ENTRY in parsed.functions else None))
    facts: dict[str, Any] = {"language": language, "kernels": parsed.kernels, "launchers": parsed.launchers}
    facts |= {"chosen": function.name, "files": copies}
    parameters: Sequence[Parameter] = parsed.sketched_parameters(function)
    if function.takes_tensors:
        module = re.sub(r"\W", "_", f"{file.stem}_extension")
        name, added = extension(function, source, file.relative_to(root).as_posix(), module)
        facts |= {"files": copies | added, "call": f"{module}:{name}"}
        build = f'  build: ["{{python}}", {module}.py]\n'
        return _finished(file, _values(parameters), ["out"] * function.returns, settings=build, **facts)
    try:
        solve = "" if function.name == ENTRY else parsed.solve(function)
        parameters = kind.parameters(f"{text}\n{solve}")
        facts["left_out"] = tuple({"main"} & {*parsed.functions}) if solve else ()
        text = parsed.without("main") if solve else text
    except SettingsError as error:
        rows = enumerate(text.replace("\\\n", "\n").splitlines(), 1)
        launches = [f"// line {at}: {line.strip()}" for at, line in rows if "<<<" in line]
        ask = f"// {FILL} write {ENTRY_SIGNATURE}, which does what {function.name} does, every condition included"
        reason = str(error).split("; ")[0].replace(f"`{ENTRY}`", function.name)
        solve = "\n".join([f"{ask}; init does not know enough: {reason}", *launches, ""])
    kernel = {f"kernel{kind.suffix}": f"{text.rstrip()}\n\n{solve}" if solve else text}
    facts["files"] = kernel | copies if solve else kernel
    return _finished(file, _values(parameters), [p.name for p in parameters if p.pointer and not p.const], **facts)


def _draft_of_python(file: Path, source: str, entry: str | None) -> Scaffold:
    """A file with `run_kernel` as kernel; any other with the modules of its project as baseline."""
    python = PythonFile(source, file.name)
    function = python.choose(entry)
    values, left_out = python.arguments(function)
    cuda = {f"baseline/{name}.cu": text for name, text in python.cuda_sources.items()}
    facts: dict[str, Any] = {
        "language": "cuda" if cuda else detect_language(file).name,
        "kernels": (*python.kernels, *(name for text in cuda.values() for name in CFile(text).kernels)),
        "launchers": tuple(f"{name} (line {python.functions[name].line})" for name in python.launchers),
        "chosen": function.name,
    }
    if function.name == ENTRY_OF_PYTHON:
        return _finished(file, values, [], files={"kernel.py": source}, **facts)
    root, texts = project_files(file, source)
    path = file.relative_to(root).with_suffix("")
    module = ".".join(path.parts)
    if len(path.parts) == 1 and (not module.isidentifier() or module in sys.stdlib_module_names):
        module = re.sub(r"\W", "_", f"file_{module}")
        texts[f"{module}.py"] = texts.pop(file.name)
    facts["files"] = {f"baseline/{path}": text for path, text in texts.items()} | cuda
    facts |= {"call": f"{module}:{function.name}", "left_out": tuple(left_out)}
    init = f"  init: []  # {FILL} the arguments of {function.name}({', '.join(function.required)})\n"
    return _finished(file, values, python.returned(function), settings=init * bool(function.required), **facts)


def _problem(draft: Scaffold, executor: Executor, blobs: Blobs) -> str:
    """Build the kernel, or import the baseline; return the first error in one line, empty without one."""
    toolchain, language = read_toolchain(executor, blobs), open_language(draft.language)
    what = draft.call or next(iter(draft.files))
    if what == "kernel.py":
        return ""
    if draft.call and draft.language == "cuda" and not toolchain.torch_cuda:
        return f"{what} was not built, because torch has no CUDA here; `check` builds it on a machine with a GPU"
    try:
        if draft.call:
            files = {path: blobs.put(text) for path, text in draft.files.items()}
            argv = ("{python}", "-I", "-c", IMPORT, *draft.call.split(":"))
            job = Job(files=files, argv=argv, limits=Limits(wall_s=IMPORT_LIMIT_S, memory_bytes=0))
        else:
            task = Task(name="init", language=draft.language, arguments=(), reference="", workloads=())
            candidate = Candidate(language=draft.language, files={what: draft.files[what]})
            job = language.build(task, candidate, blobs, toolchain)
        done = executor.run(job)
    except KernelwrightError as error:
        return f"{what} was not tried: {error}"
    said = blobs.text(done.files["stderr.txt"]).strip()
    lines = (said if draft.call else language.trim_log(said)).splitlines() or ["no error line"]
    verb = "import on this machine" if draft.call else "compile"
    return f"{what} does not {verb}: {lines[0]}" if done.exit_code else ""


def _values(parameters: Sequence[Parameter]) -> dict[str, str]:
    return {p.name: drawn(p.name, str(p.dtype), is_tensor=bool(p.pointer)) for p in parameters}


def _finished(file: Path, values: dict[str, str], results: Sequence[str], settings: str = "", **facts: Any) -> Scaffold:
    """The scaffold of these facts, with reference.py, task.yaml and config.yaml.

    `values`: argument -> the text that draws it. `results`: what a kernel may write or a function returns; for a
    result that is no argument a buffer is added. `settings`: lines of task.yaml below `baseline:`.
    """
    draft = Scaffold(**facts)
    changed = [name for name in results if draft.call and name in values]
    outputs = [name for name in results if name not in changed]
    ask = f"what {draft.chosen} {'returns, in its order' if results else 'writes'}; name in `inout` what it changes"
    if results and not draft.call:
        ask = "the pointers without const; take out what is only read, and name in `inout` what is read and written"
    settings = f'baseline:\n  call: "{draft.call}"\n{settings}' * bool(draft.call)
    sizes = [name for name, text in values.items() if text == f'dims["{name}"]'] or ["M", "N"]
    shape = "(" + ", ".join(f'dims["{name}"]' for name in sizes[:2]) + ",)"[len(sizes) > 1 :]
    empty = f"torch.empty(SHAPE)  # {FILL} its shape and type"
    values = values | {name: empty for name in outputs if name not in values}
    texts = [text.replace("SHAPE", shape).partition("  #") for text in values.values()]
    is_free = not any(keyword.iskeyword(name) or name == "torch" for name in values)
    reference = REFERENCE.format(
        chosen=draft.chosen,
        file=file.name,
        outputs=f"outputs = {json.dumps(outputs)}  # {FILL} {ask}",
        inout=f"inout = {json.dumps(changed)}  # {FILL} returned, so perhaps changed in place\n" * bool(changed),
        dims=json.dumps(dict.fromkeys(sizes, 1024 if len(sizes) > 1 else 1 << 20)),
        values="\n".join(f'        "{n}": {text},{mark}{q}' for n, (text, mark, q) in zip(values, texts, strict=True)),
        parameters=", ".join(values) if is_free else "**given",
        order=f" in this order: {', '.join([*outputs, *changed])}" if len(results) > 1 else "",
    )
    task = f"name: {file.stem}\nlanguage: {draft.language}\n{settings}"
    files = draft.files | {"reference.py": reference, "task.yaml": task, "config.yaml": CONFIG}
    return draft.model_copy(update={"files": files})
