"""A task folder around a file that somebody has: kernel, reference.py, task.yaml and config.yaml, what is unknown
marked `FILL:`."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from tools.artifacts import Artifact
from tools.errors import SettingsError
from tools.languages.cpp_source import ENTRY
from tools.languages.triton_source import parse_module
from tools.tasks.launches import FILL, CudaFile, Shim, Value
from tools.tasks.loader import detect_language, read_source

CPP = (".cpp", ".cc", ".cxx", ".c")
CUDA = (".cu", ".cuh")
CONFIG = """\
task: .
# Who answers; without it the playbook, which in CUDA and CuTe DSL only searches constants and settings (docs/your-model.md):
# models: {default: {provider: anthropic, model: claude-opus-5-5}}
# budget: {usd: 10}
"""
_INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">].*$""", re.MULTILINE)
_CUTLASS = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*["<]cut(?:lass|e)/""", re.MULTILINE)
_ENDS = re.compile(r"^.*\b(?:exit|abort)\s*\(.*$", re.MULTILINE)
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
_SIZES = {1: 1 << 20, 2: 1024, 3: 256}
"""Number of dimensions -> the size of those that nothing says; they are marked."""


class Scaffold(Artifact):
    """What `init` found and wrote."""

    folder: str
    kernels: tuple[str, ...]
    launchers: tuple[str, ...]
    chosen: str
    """The function that `solve` or `run_kernel` stands for."""
    inlined: tuple[str, ...]
    """Headers beside the file."""
    left_out: tuple[str, ...]
    """Functions of the file that the kernel does not need."""
    to_fill: tuple[str, ...]
    """file:line and what is asked, for each place that is marked."""

    def text(self) -> str:
        """The same for people."""
        found = [f"kernels: {', '.join(self.kernels) or 'none'}", f"launchers: {', '.join(self.launchers) or 'none'}"]
        found += [f"headers inlined: {', '.join(self.inlined)}"] if self.inlined else []
        found += [f"left out, as nothing here needs it: {', '.join(self.left_out)}"] if self.left_out else []
        others = " (another: --entry NAME)" if len({*self.kernels, *self.launchers}) > 1 else ""
        found += [f"{self.folder}: written around {self.chosen}{others}"]
        found += ["to fill:", *self.to_fill] if self.to_fill else ["nothing is left to fill"]
        return "\n".join([*found, f"then: python -m graph check {self.folder}/config.yaml"])


def scaffold(file: Path, folder: Path, entry: str | None = None) -> Scaffold:
    """Write the task folder of `file`. SettingsError where there is nothing to begin with, or `folder` holds
    something."""
    source = read_source(file)
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder}: is not empty, and init overwrites nothing; name another folder with --out")
    inlined: list[str] = []
    left_out: tuple[str, ...] = ()
    if file.suffix in CPP + CUDA:
        language = "cpp" if file.suffix in CPP else "cutlass" if _CUTLASS.search(source) else "cuda"
        parsed = CudaFile(with_headers(source, file.resolve(), inlined))
        function = parsed.chosen(entry)
        shim, kernels, launchers, chosen = (
            parsed.shim(function),
            tuple(parsed.kernels),
            tuple(parsed.launchers),
            function.name,
        )
        kernel, left_out = parsed.kept(shim)
        kernel = _ENDS.sub(rf"\g<0>  // {FILL} a kernel may not end the process: take that out", kernel)
        kernel += "" if chosen == ENTRY else _solve(shim)
    elif file.suffix == ".py":
        language = detect_language(file).name
        kernel, shim, kernels, launchers, chosen = _python(source, entry)
    else:
        raise SettingsError(
            f"{file}: is in no known language; its name must end in one of {', '.join((*CPP, *CUDA, '.py'))}"
        )
    name = {"cuda": "kernel.cu", "cutlass": "kernel.cu", "cpp": "kernel.cpp"}.get(language, "kernel.py")
    files = {
        name: kernel,
        "reference.py": _reference(shim, file.name, chosen),
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
    """`source` with the headers that lie beside it in their places, each once."""

    def header(found: re.Match[str]) -> str:
        beside = (file.parent / found[1]).resolve()
        if not beside.is_file():
            known = '"' not in found[0] or _CUTLASS.search(found[0])
            return found[0] + ("" if known else f"  // {FILL} this header does not lie beside the file")
        if found[1] in inlined:
            return ""
        inlined.append(found[1])
        return with_headers(read_source(beside), beside, inlined)

    return _INCLUDE.sub(header, re.sub(r"^[ \t]*#[ \t]*pragma once.*\n", "", source, flags=re.MULTILINE))


def _solve(shim: Shim) -> str:
    listed = ", ".join(f"{p.type} {p.name}" for p in shim.parameters.values())
    body = "".join(f"  {line}\n" for line in shim.lines)
    return f'\nextern "C" void {ENTRY}({listed}) {{\n{body}}}\n'


def _python(source: str, entry: str | None) -> tuple[str, Shim, tuple[str, ...], tuple[str, ...], str]:
    """A file in Triton or CuTe DSL with `run_kernel`: its own, or one around the function that launches."""
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
    function, shim = launching[chosen], Shim()
    returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(function))
    for argument in function.args.args:
        annotated = ast.unparse(argument.annotation) if argument.annotation else ""
        plain = (
            annotated
            if annotated in ("int", "float", "bool")
            else "int"
            if re.fullmatch(r"[A-Z]\w?|n_\w+", argument.arg)
            else ""
        )
        shim.parameters[argument.arg] = Value(plain or "const float*", argument.arg)
    called = f"{chosen}({', '.join(shim.parameters)})"
    if chosen == "run_kernel":
        return source, shim, tuple(module.kernels), tuple(launching), chosen
    if returns:
        shim.parameters["out"] = Value("float*", "out")
        called = f"out.copy_({called})  # {FILL} let {chosen} write into out itself; the copy costs time"
    shim.lines = [called]
    kernel = f"{source.rstrip()}\n\n\ndef run_kernel({', '.join(shim.parameters)}):\n    {called}\n"
    return kernel, shim, tuple(module.kernels), tuple(launching), chosen


def _reference(shim: Shim, file: str, chosen: str) -> str:
    scalars = [p for p in shim.parameters.values() if not p.pointer]
    written = [p.name for p in shim.parameters.values() if p.pointer and "const" not in p.type]
    shapes, guessed = _shapes(shim)
    used = {word for shape in shapes.values() for word in re.findall(r"[A-Za-z_]\w*", shape)}
    # A launch's number of elements is a size too, and what scales is a number.
    named = [p.name for p in scalars if re.search("int|long|size_t", p.type) or p.name in used] or ["N"]
    dims = {name: shim.sizes.get(name, _SIZES.get(len(named), 32)) for name in named}
    unknown = [name for name in dims if name not in shim.sizes]
    point = ", ".join(f'"{name}": {size}' for name, size in dims.items())
    lines = [f'"""What {chosen} of {file} must compute."""', "", "import torch", ""]
    lines += [f"outputs = {json.dumps(written)}"] if written else [f"outputs = []  # {FILL} what the kernel writes"]
    told = f"  # {FILL} the sizes to be timed: {', '.join(unknown)}" if unknown else ""
    lines += [f'workloads = [{{"dims": {{{point}}}}}]{told}', "", "", "def make_inputs(dims, seed):"]
    lines += ["    random = torch.Generator().manual_seed(seed)"]
    lines += [f'    {name} = dims["{name}"]' for name in dims]
    for p in shim.parameters.values():
        if p.pointer:
            asked = f"  # {FILL} its sizes" if p.name in guessed else ""
            lines.append(f"    {p.name} = {_made(p, shim, shapes[p.name], p.name in written)}{asked}")
        elif p.name not in dims:
            lines.append(f"    {p.name} = {'True' if p.type == 'bool' else '1.0'}  # {FILL} its value")
    lines += [f"    return dict({', '.join(f'{name}={name}' for name in shim.parameters)})", "", ""]
    lines += [f"def reference({', '.join(shim.parameters)}):"]
    order = f" in this order: {', '.join(written)}" if len(written) > 1 else ""
    lines += [f"    # {FILL} the answer with torch, returned{order}"]
    return "\n".join([*lines, '    raise NotImplementedError("say in reference.py what the kernel computes")', ""])


def _shapes(shim: Shim) -> tuple[dict[str, str], set[str]]:
    """Pointer -> its sizes as Python, and those whose sizes nothing says: as many elements as a size, or as all of
    them together."""
    sizes = [p.name for p in shim.parameters.values() if not p.pointer and re.search(r"int|long|size_t", p.type)]
    pointers = [p.name for p in shim.parameters.values() if p.pointer]
    told = {n: s for n, s in shim.shapes.items() if s[0] != "like"}
    same = {n: told[s[1]] for n, s in shim.shapes.items() if s[0] == "like" and s[1] in told}
    told |= same
    guess = next(iter(told.values()), tuple(sizes[:2]) or ("N",))
    # One number of elements, and several buffers: elementwise, which `check` finds out.
    flat = set(told.values()) == {tuple(sizes)} and len(sizes) == 1
    found = {
        name: f"({', '.join(told.get(name, guess))}{',' * (len(told.get(name, guess)) == 1)})" for name in pointers
    }
    return found, {name for name in pointers if name not in told and not flat}


def _made(value: Value, shim: Shim, shape: str, written: bool) -> str:
    base = value.type.replace("const ", "").removesuffix("*").strip()
    dtype = _DTYPES.get(base, base.removesuffix("_t") if re.fullmatch(r"u?int\d+_t", base) else "float32")
    kind = "" if dtype == "float32" else f", dtype=torch.{dtype}"
    initial = shim.initial.get(value.name, "empty" if written else "")
    if initial in ("empty", "zeros", "ones"):
        return f"torch.{initial.replace('empty', 'zeros')}({shape}{kind})"
    if initial:
        return f"torch.full({shape}, float('{initial}'){kind})"
    if "float" in dtype:
        return f"torch.randn({shape}, generator=random){f'.to(torch.{dtype})' if kind else ''}"
    return f"torch.randint(0, 2, {shape}, generator=random{kind})"
