"""The accepted kernel behind the user's own function: a header or module beside the file, and a few lines in it that call the kernel where
it was judged and leave everything else to what stands there."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from graph.export.accepted import ALIGNMENT, Accepted, Files
from graph.export.bindings import C
from tools.artifacts import Argument
from tools.errors import SettingsError
from tools.languages.cpp_source import ENTRY, text
from tools.tasks.launches import CudaFile, Function

HEADER = """\
// {title}
// Called where it was judged and nowhere else: `judged` holds the conditions. What no argument says (how much memory a pointer has, that
// buffers do not overlap in part) is as it was for the function that calls it.
#pragma once
#include <cstdint>
{includes}
{pushed}
namespace {space} {{
{body}

inline bool judged(const void* const (&pointers)[{count}]{scalars}) {{
  for (const void* pointer : pointers)
    if (reinterpret_cast<std::uintptr_t>(pointer) % {align}) return false;
{distinct}{device}  return {sizes};
}}
}}  // namespace {space}
{popped}
"""
DEVICE = """\
  static thread_local int known = -1, capability = 0;
  int at = 0, major = 0, minor = 0;
  if (cudaGetDevice(&at) != cudaSuccess) return false;
  if (at != known) {{
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, at) != cudaSuccess) return false;
    if (cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, at) != cudaSuccess) return false;
    known = at, capability = 10 * major + minor;
  }}
  if (capability != {capability}) return false;
"""
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include[^\n]*|pragma[ \t]+once[^\n]*)\n?", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


def patch(kernel: Accepted) -> Files:
    """A unified diff on the user's own file that also makes the file that holds the kernel."""
    if kernel.task.baseline is None or kernel.own is None:
        raise SettingsError(
            "--format patch: no file of yours is there that the run began with; name it with --file, or use --format python"
        )
    stem = f"{re.sub(r'[^A-Za-z0-9_]', '_', Path(kernel.own_name).stem)}_kernelwright"
    if kernel.compiled:
        beside, made = f"{stem}{'.cuh' if kernel.device == 'cuda' else '.hpp'}", _header(kernel, stem)
        changed = _guarded(kernel, kernel.own, stem, beside)
    else:
        beside, made = f"{stem}.py", kernel.module()
        changed = _guarded_python(kernel, kernel.own, stem)
    lines = [*_diff(kernel.own, changed, f"a/{kernel.own_name}", f"b/{kernel.own_name}"), *_diff("", made, "/dev/null", f"b/{beside}")]
    return {f"{kernel.name}.patch": "".join(lines)}


def _diff(before: str, after: str, old: str, new: str) -> Iterable[str]:
    for line in difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), old, new):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _far(kernel: Accepted, why: str) -> SettingsError:
    other = "torch-ext" if kernel.compiled else "python"
    return SettingsError(f"--format patch: {kernel.own_name}: {why}; call the kernel by hand, of --format {other}")


# ------------------------------------------------------------ C++ and CUDA


def _header(kernel: Accepted, space: str) -> str:
    """The kernel in a namespace of its own, its macros kept from the user's."""
    arguments, contract = kernel.task.arguments, kernel.contract()
    scalars = [a for a in arguments if a.role == "scalar"]
    pointers = [a for a in arguments if a.role != "scalar"]
    body = re.sub(r'extern\s+"C"\s*\{', "inline namespace entry {", _INCLUDE.sub("", kernel.source))
    body = re.sub(r'extern\s+"C"\s+', "static ", body)
    # A function of the user's by the same name would be found by its arguments' types, too.
    for name in {f.name for f in CudaFile(kernel.source).functions} - {ENTRY}:
        body = re.sub(rf"(?<![.\w])(?<!->)(?<!::){name}\b(?!\s*::)", f"{name}_judged", body)
    macros = list(dict.fromkeys(_MACRO.findall(kernel.source)))
    others = [(i, j) for i, a in enumerate(pointers) if a.role == "output" for j in range(len(pointers)) if j != i]
    capability = kernel.architecture.removeprefix("sm_")
    return (
        HEADER.format(
            title=kernel.title,
            includes="".join(f"{one.strip()}\n" for one in _INCLUDE.findall(_COMMENT.sub("", kernel.source)) if "pragma" not in one),
            pushed="\n".join(f'#pragma push_macro("{name}")\n#undef {name}' for name in macros),
            popped="\n".join(f'#pragma pop_macro("{name}")' for name in macros),
            space=space,
            body=body.strip(),
            count=len(pointers),
            scalars="".join(f", {C[a.dtype]} {a.name}" for a in scalars),
            align=ALIGNMENT[kernel.device],
            distinct="".join(f"  if (pointers[{i}] == pointers[{j}]) return false;\n" for i, j in others),
            device=DEVICE.format(capability=capability) if kernel.device == "cuda" and capability.isdigit() else "",
            sizes=_sizes(scalars, contract),
        ).rstrip()
        + "\n"
    )


def _sizes(scalars: list[Argument], contract: dict[str, Any]) -> str:
    """The sizes that were timed, or the ranges from which further ones were drawn and found right."""

    def equal(a: Argument, value: Any) -> str:
        shown = (
            str(value).lower() if a.dtype == "bool" else f"{float(value)!r}{'f' * (a.dtype == 'float32')}" if "float" in a.dtype else value
        )
        return f"{a.name} == {shown}"

    ways = [" && ".join(equal(a, point[a.name]) for a in scalars) or "true" for point in contract["points"]]
    ranges = {a.name: contract["ranges"][a.name] for a in scalars if a.name in contract["ranges"]}
    if ranges:
        asked = [f"{low} <= {name} && {name} <= {high}" for name, (low, high) in ranges.items()]
        asked += [f"({' || '.join(equal(a, v) for v in contract['seen'].get(a.name, ()))})" for a in scalars if a.name not in ranges]
        asked += [f"{' * '.join(f'static_cast<double>({name})' for name in ranges)} <= {contract['most']}.0"]
        ways.append(" && ".join(asked))
    return " ||\n         ".join(f"({way})" for way in dict.fromkeys(ways))


def _guarded(kernel: Accepted, own: str, space: str, header: str) -> str:
    """`own` with the kernel called in front of the body that does its work now, or of the launch that does."""
    file, begun = CudaFile(own), CudaFile(kernel.task.baseline or "")
    solve = next(f for f in begun.functions if f.name == ENTRY)
    called = [n for n in begun.calls(solve) if text(n.child_by_field_name("function") or n) in file.launchers]
    entry = next((f for f in file.functions if f.name == ENTRY), None) or next(
        (file.launchers[text(n.child_by_field_name("function") or n)] for n in called), None
    )
    if entry is not None and entry.plain:
        given = [p.name for p in entry.parameters] if not called or entry.name == ENTRY else _arguments(called[0])
        names = dict(zip(given, (p.name for p in entry.parameters), strict=True))
        at, end = _body(kernel, entry), None
        streams = _streams(entry)
        if any(s not in {p.name for p in entry.parameters} for s in streams):
            raise _far(kernel, f"{entry.name} launches on a stream that it makes itself")
    else:
        at, end, names, streams = _launch(kernel, file, solve)
    missing = [a.name for a in kernel.task.arguments if a.name not in names]
    if missing:
        raise _far(kernel, f"nothing there says what the kernel gets as {missing[0]!r}")
    pointers = ", ".join(names[a.name] for a in kernel.task.arguments if a.role != "scalar")
    scalars = "".join(f", {names[a.name]}" for a in kernel.task.arguments if a.role == "scalar")
    asked = "".join(f"static_cast<cudaStream_t>({s}) == nullptr && " for s in streams)
    call = f"{space}::{ENTRY}({', '.join(names[a.name] for a in kernel.task.arguments)});"
    guard = f"if ({asked}{space}::judged({{{pointers}}}{scalars}))"
    code = own.encode()
    if end is None:
        code = code[:at] + f"\n  {guard} {{\n    {call}\n    return;\n  }}".encode() + code[at:]
    else:
        code = code[:at] + f"{guard} {call}\n  else ".encode() + code[at:]
    changed = code.decode()
    behind = max((m.end() for m in re.finditer(r"^[ \t]*#[ \t]*include[^\n]*\n", own, re.MULTILINE) if m.end() <= at), default=0)
    return f'{changed[:behind]}#include "{header}"\n{changed[behind:]}'


def _arguments(call: Any) -> list[str]:
    return [text(c) for c in call.child_by_field_name("arguments").named_children if c.type != "comment"]


def _body(kernel: Accepted, entry: Function) -> int:
    """The byte behind the brace that opens the body."""
    body, kind = entry.node.child_by_field_name("body"), entry.node.child_by_field_name("type")
    if body is None or kind is None or text(kind) != "void":
        raise _far(kernel, f"{entry.name} returns something")
    return int(body.start_byte) + 1


def _streams(entry: Function) -> list[str]:
    """The streams of its launches, as they are written."""
    found = [next(text(c) for c in n.children if c.type == "kernel_call_syntax") for n in entry.launches]
    parts = [re.split(r",(?![^(<]*[)>])", one.removeprefix("<<<").removesuffix(">>>")) for one in found]
    return [s for s in dict.fromkeys(p[3].strip() for p in parts if len(p) > 3) if s not in ("0", "nullptr", "NULL")]


def _launch(kernel: Accepted, file: CudaFile, solve: Function) -> tuple[int, int, dict[str, str], list[str]]:
    """The one launch of the user's function: where it stands, and each argument of the kernel as it is written there."""
    launched = [text(n.child_by_field_name("function") or n) for n in solve.launches]
    hosts = [
        f for f in file.functions if not f.kernel and any(text(n.child_by_field_name("function") or n) in launched for n in f.launches)
    ]
    if len(launched) != 1 or not hosts or len(hosts[0].launches) != 1:
        raise _far(kernel, "there is no one launch in it that the kernel could stand for")
    host, node = hosts[0], hosts[0].launches[0]
    statement = node.parent
    if statement is None or statement.type != "expression_statement":
        raise _far(kernel, f"{host.name} launches within an expression")
    names = dict(zip(_arguments(solve.launches[0]), _arguments(node), strict=False))
    known = {p.name for p in host.parameters} | {name for name, _ in file.declared(host)}
    for a in kernel.task.arguments:
        size = re.fullmatch(r"(\w+)_(?:size(\d+)|numel)", a.name)
        if a.name not in names and a.name in known:
            names[a.name] = a.name
        elif a.name not in names and size and size[1] in known:
            names[a.name] = f"{size[1]}.size({size[2]})" if size[2] else f"{size[1]}.numel()"
    return int(statement.start_byte), int(statement.end_byte), names, _streams(host)


# ------------------------------------------------------------ Python


def _guarded_python(kernel: Accepted, own: str, module: str) -> str:
    """`own` with the kernel called first thing in the function that launches."""
    functions = {n.name: n for n in ast.parse(own).body if isinstance(n, ast.FunctionDef)}
    entry = functions.get("run_kernel")
    names = {a.name: a.name for a in kernel.task.arguments}
    if entry is None:
        begun = next(n for n in ast.parse(kernel.task.baseline or "").body if isinstance(n, ast.FunctionDef) and n.name == "run_kernel")
        calls = [n for n in ast.walk(begun) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in functions]
        if len(calls) != 1:
            raise _far(kernel, "there is no one function in it that the kernel could stand for")
        entry = functions[ast.unparse(calls[0].func)]
        names = {ast.unparse(given): a.arg for given, a in zip(calls[0].args, entry.args.args, strict=False)}
    given = ", ".join(f'"{a.name}": {names[a.name]}' for a in kernel.task.arguments if a.name in names)
    returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(entry))
    done = "return judged(given)" if returns else "judged(given)\n        return"
    first = entry.body[1] if len(entry.body) > 1 and ast.get_docstring(entry) is not None else entry.body[0]
    guard = f"    given = {{{given}}}\n    if isinstance(judged.filled(given), dict):\n        {done}\n"
    lines = own.splitlines(keepends=True)
    lines.insert(first.lineno - 1, guard)
    before = [n for n in ast.parse(own).body if n.lineno < entry.lineno]
    imports = [n.end_lineno or 0 for n in before if isinstance(n, ast.Import | ast.ImportFrom)]
    lines.insert(max(imports, default=0), f"from {module} import _exported as judged\n")
    return "".join(lines)
