"""A task folder around a file that somebody has: kernel, reference.py, task.yaml and config.yaml, with `FILL:` where
something is unknown."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from tools.artifacts import Artifact
from tools.errors import SettingsError
from tools.languages.cpp_source import ENTRY
from tools.languages.triton_source import parse_module
from tools.tasks.cuda_file import FILL, CudaFile, EntrySketch, SourceParameter
from tools.tasks.loader import detect_language, read_source

CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".c")
CUDA_SUFFIXES = (".cu", ".cuh")
CONFIG = """\
task: .
# The default is the playbook: in CUDA it only searches constants; in CUTLASS and CuTe DSL it changes
# nothing. A language model can change any kernel (docs/your-model.md):
# models: {default: {provider: anthropic, model: claude-opus-5-5}}
# budget: {usd: 10}
"""
_INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">].*$""", re.MULTILINE)
_CUTLASS = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*["<]cut(?:lass|e)/""", re.MULTILINE)
_ENDS_PROCESS = re.compile(r"^.*\b(?:exit|abort)\s*\(.*$", re.MULTILINE)
_SIZE_TYPE = re.compile(r"int|long|size_t")
_DTYPES = {
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "_Float16": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "bool": "bool",
    "unsigned char": "uint8",
}
_PROPOSED_SIZES = {1: 1 << 20, 2: 1024, 3: 256}
"""Number of dimensions -> the size that is proposed for each; 32 for more."""


class Scaffold(Artifact):
    """The task folder that `init` wrote, and what it found in the file."""

    folder: str
    kernels: tuple[str, ...]
    launchers: tuple[str, ...]
    chosen: str
    """The function that `solve` or `run_kernel` stands for."""
    inlined: tuple[str, ...]
    """Headers beside the file, whose text now stands in the kernel."""
    left_out: tuple[str, ...]
    """Functions of the file that the kernel does not need."""
    to_fill: tuple[str, ...]
    """file:line and the question, for each line that is marked `FILL:`."""

    def text(self) -> str:
        """The same as lines of text."""
        rows = [f"kernels: {', '.join(self.kernels) or 'none'}", f"launchers: {', '.join(self.launchers) or 'none'}"]
        rows += [f"inlined headers: {', '.join(self.inlined)}"] if self.inlined else []
        rows += [f"left out because unused: {', '.join(self.left_out)}"] if self.left_out else []
        others = " (for another one: --entry NAME)" if len({*self.kernels, *self.launchers}) > 1 else ""
        rows += [f"{self.folder}: written around {self.chosen}{others}"]
        rows += ["to fill:", *self.to_fill] if self.to_fill else ["nothing is left to fill"]
        return "\n".join([*rows, f"then: python -m graph check {self.folder}/config.yaml"])


def scaffold(file: Path, folder: Path, entry: str | None = None) -> Scaffold:
    """Write the task folder of `file`. SettingsError where there is nothing to begin with, or `folder` holds
    something."""
    source = read_source(file)
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder}: is not empty; init overwrites nothing, so name another folder with --out")
    inlined: list[str] = []
    left_out: tuple[str, ...] = ()
    if file.suffix in CPP_SUFFIXES + CUDA_SUFFIXES:
        language = "cpp" if file.suffix in CPP_SUFFIXES else "cutlass" if _CUTLASS.search(source) else "cuda"
        parsed = CudaFile(with_headers(source, file.resolve(), inlined))
        function = parsed.choose(entry)
        sketch, chosen = parsed.sketch_solve(function), function.name
        kernels, launchers = tuple(parsed.kernels), tuple(parsed.launchers)
        kernel, left_out = parsed.needed_source(sketch)
        kernel = _ENDS_PROCESS.sub(rf"\g<0>  // {FILL} a kernel may not end the process; remove this", kernel)
        kernel += "" if chosen == ENTRY else _solve(sketch)
    elif file.suffix == ".py":
        language = detect_language(file).name
        kernel, sketch, kernels, launchers, chosen = _python(source, entry)
    else:
        raise SettingsError(
            f"{file}: is in no known language; the name must end in one of "
            f"{', '.join((*CPP_SUFFIXES, *CUDA_SUFFIXES, '.py'))}"
        )
    name = {"cuda": "kernel.cu", "cutlass": "kernel.cu", "cpp": "kernel.cpp"}.get(language, "kernel.py")
    files = {
        name: kernel,
        "reference.py": _reference(sketch, file.name, chosen),
        "task.yaml": f"name: {file.stem}\nlanguage: {language}\n",
        "config.yaml": CONFIG,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        (folder / path).write_text(content, encoding="utf-8")
    marked = (
        f"{path}:{number}: {line.split(FILL, 1)[1].strip()}"
        for path, content in files.items()
        for number, line in enumerate(content.splitlines(), 1)
        if FILL in line
    )
    return Scaffold(
        folder=str(folder),
        kernels=kernels,
        launchers=launchers,
        chosen=chosen,
        inlined=tuple(inlined),
        left_out=tuple(one for one in left_out if one != chosen or one == "main"),
        to_fill=tuple(marked),
    )


def with_headers(source: str, file: Path, inlined: list[str]) -> str:
    """`source` with the headers that lie beside `file` inserted, each once; their names are added to `inlined`."""

    def header(found: re.Match[str]) -> str:
        beside = (file.parent / found[1]).resolve()
        if not beside.is_file():
            known = '"' not in found[0] or _CUTLASS.search(found[0])
            return found[0] + ("" if known else f"  // {FILL} this header is not in the folder of the file")
        if found[1] in inlined:
            return ""
        inlined.append(found[1])
        return with_headers(read_source(beside), beside, inlined)

    return _INCLUDE.sub(header, re.sub(r"^[ \t]*#[ \t]*pragma once.*\n", "", source, flags=re.MULTILINE))


def _solve(sketch: EntrySketch) -> str:
    listed = ", ".join(f"{p.type} {p.name}" for p in sketch.parameters.values())
    listed += ", cudaStream_t stream" * sketch.takes_stream
    body = "".join(f"  {line}\n" for line in sketch.lines)
    return f'\nextern "C" void {ENTRY}({listed}) {{\n{body}}}\n'


def _python(source: str, entry: str | None) -> tuple[str, EntrySketch, tuple[str, ...], tuple[str, ...], str]:
    """A Triton or CuTe DSL file with `run_kernel`: the file's own, or one around the function that launches."""
    module = parse_module(source)
    if module is None or not module.kernels:
        raise SettingsError(
            "no function under @triton.jit or @cute.jit was found; for PyTorch logic without a kernel a reference.py "
            "alone is a task"
        )
    launching = {launch.function.name: launch.function for launch in module.launches if launch.function is not None}
    # In CuTe DSL no launch stands in host code, so that any function may be the one.
    launching = launching or {name: node for name, node in module.functions.items() if name in (entry, "run_kernel")}
    chosen = entry or next(iter(sorted(launching, key=lambda n: n != "run_kernel")), "")
    if chosen not in launching:
        raise SettingsError(
            f"--entry: no function {chosen!r} launches a kernel; there are {', '.join(launching) or 'none'}"
        )
    function, sketch = launching[chosen], EntrySketch()
    returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(function))
    for argument in function.args.args:
        annotation = ast.unparse(argument.annotation) if argument.annotation else ""
        plain = (
            annotation
            if annotation in ("int", "float", "bool")
            else "int"
            if re.fullmatch(r"[A-Z]\w?|n_\w+", argument.arg)
            else ""
        )
        sketch.parameters[argument.arg] = SourceParameter(plain or "const float*", argument.arg)
    called = f"{chosen}({', '.join(sketch.parameters)})"
    if chosen == "run_kernel":
        return source, sketch, tuple(module.kernels), tuple(launching), chosen
    if returns:
        sketch.parameters["out"] = SourceParameter("float*", "out")
        called = f"out.copy_({called})  # {FILL} let {chosen} write into out itself; the copy costs time"
    sketch.lines = [called]
    kernel = f"{source.rstrip()}\n\n\ndef run_kernel({', '.join(sketch.parameters)}):\n    {called}\n"
    return kernel, sketch, tuple(module.kernels), tuple(launching), chosen


def _reference(sketch: EntrySketch, file: str, chosen: str) -> str:
    """reference.py: inputs for the parameters of `chosen`, and a `reference` that the user fills."""
    parameters = sketch.parameters.values()
    outputs = [p.name for p in parameters if p.is_pointer and "const" not in p.type]
    sizes = [p.name for p in parameters if not p.is_pointer and _SIZE_TYPE.search(p.type)] or ["N"]
    point = ", ".join(f'"{name}": {_PROPOSED_SIZES.get(len(sizes), 32)}' for name in sizes)
    lines = [f'"""What {chosen} of {file} must compute."""', "", "import torch", ""]
    lines += [f"outputs = {json.dumps(outputs)}"] if outputs else [f"outputs = []  # {FILL} what the kernel writes"]
    lines += [f'workloads = [{{"dims": {{{point}}}}}]  # {FILL} the sizes to be timed: {", ".join(sizes)}']
    lines += ["", "", "def make_inputs(dims, seed):", "    random = torch.Generator().manual_seed(seed)"]
    lines += [f'    {name} = dims["{name}"]' for name in sizes]
    shape = f"({', '.join(sizes[:2])}{',' * (len(sizes) == 1)})"
    for p in parameters:
        if p.is_pointer:
            lines.append(f"    {p.name} = {_tensor(p, shape, p.name in outputs)}  # {FILL} its sizes")
        elif p.name not in sizes:
            lines.append(f"    {p.name} = {'True' if p.type == 'bool' else '1.0'}  # {FILL} its value")
    lines += [f"    return dict({', '.join(f'{name}={name}' for name in sketch.parameters)})", "", ""]
    lines += [f"def reference({', '.join(sketch.parameters)}):"]
    order = f" in this order: {', '.join(outputs)}" if len(outputs) > 1 else ""
    lines += [f"    # {FILL} the answer with torch, returned{order}"]
    return "\n".join([*lines, '    raise NotImplementedError("say in reference.py what the kernel computes")', ""])


def _tensor(parameter: SourceParameter, shape: str, is_output: bool) -> str:
    """An expression for a tensor of the pointer's type: zeros for an output, random values for an input."""
    base = parameter.type.replace("const ", "").removesuffix("*").strip()
    dtype = _DTYPES.get(base, base.removesuffix("_t") if re.fullmatch(r"u?int\d+_t", base) else "float32")
    keyword = "" if dtype == "float32" else f", dtype=torch.{dtype}"
    if is_output:
        return f"torch.zeros({shape}{keyword})"
    if "float" in dtype:
        return f"torch.randn({shape}, generator=random){f'.to(torch.{dtype})' if keyword else ''}"
    return f"torch.randint(0, 2, {shape}, generator=random{keyword})"
