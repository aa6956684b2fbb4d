"""The accepted kernel behind the user's own function: a header or module beside the file, and a few lines in it that
call the kernel where it was judged and leave everything else to what stands there.

A file is changed only where it can be seen that the kernel stands for what it replaces: the file's function is still
the one that the run began with, and what it does not hand to the kernel has the value that the run gave it.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from graph.export.accepted import ALIGNMENT, Accepted, Files
from graph.export.bindings import C
from graph.export.place import Place, far
from tools.artifacts import Argument
from tools.errors import SettingsError
from tools.languages.cpp_source import ENTRY, CppEdit, CppSource, walk
from tools.tasks.launches import CudaFile

HEADER = """\
// {title}
// Called where it was judged and nowhere else: `judged` holds the conditions. What no argument says (how much memory a pointer has, that
// buffers do not overlap in part) is as it was for the function that calls it. Judged as built with {flags}.
#pragma once
#include <cstdint>
{includes}
{pushed}
namespace {space} {{
{body}

inline bool judged(const void* const (&pointers)[{count}]{scalars}) {{
{exact}  for (const void* pointer : pointers)
    if (!pointer || reinterpret_cast<std::uintptr_t>(pointer) % {align}) return false;
{distinct}{device}  return {sizes};
}}
}}  // namespace {space}
{popped}
"""
EXACT = """\
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__USE_FAST_MATH__)
  return false;  // it was judged with exact arithmetic
#endif
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
            "--format patch: no file of yours is there that the run began with; name it with --file, or use "
            "--format python"
        )
    if kernel.source == kernel.task.baseline:
        raise SettingsError(
            "--format patch: no version was accepted, so that it would call your own kernel again; run longer"
        )
    stem = f"{re.sub(r'[^A-Za-z0-9_]', '_', Path(kernel.own_name).stem)}_kernelwright"
    if kernel.compiled:
        beside, made = f"{stem}{'.cuh' if kernel.device == 'cuda' else '.hpp'}", _header(kernel, stem)
        changed = _guarded(kernel, kernel.own, stem, beside)
    else:
        beside, made = f"{stem}.py", kernel.module()
        changed = _guarded_python(kernel, kernel.own, stem)
    lines = [
        *_diff(kernel.own, changed, f"a/{kernel.own_name}", f"b/{kernel.own_name}"),
        *_diff("", made, "/dev/null", f"b/{beside}"),
    ]
    return {f"{kernel.name}.patch": "".join(lines)}


def _diff(before: str, after: str, old: str, new: str) -> Iterable[str]:
    for line in difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), old, new):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


# ------------------------------------------------------------ C++ and CUDA


def _header(kernel: Accepted, space: str) -> str:
    """The kernel in a namespace of its own, its macros kept from the user's."""
    arguments, contract = kernel.task.arguments, kernel.contract()
    scalars = [a for a in arguments if a.role == "scalar"]
    pointers = [a for a in arguments if a.role != "scalar"]
    body = _INCLUDE.sub("", _renamed(kernel))
    body = re.sub(r'extern\s+"C"\s*\{', "inline namespace entry {", body)
    body = re.sub(r'extern\s+"C"\s+', "static ", body)
    macros = list(dict.fromkeys(_MACRO.findall(kernel.source)))
    others = [(i, j) for i, a in enumerate(pointers) if a.role == "output" for j in range(len(pointers)) if j != i]
    capability = kernel.architecture.removeprefix("sm_")
    made = HEADER.format(
        title=kernel.title,
        flags=" ".join(kernel.flags) or "the compiler's own",
        includes="".join(
            f"{one.strip()}\n" for one in _INCLUDE.findall(_COMMENT.sub("", kernel.source)) if "pragma" not in one
        ),
        pushed="\n".join(f'#pragma push_macro("{name}")\n#undef {name}' for name in macros),
        popped="\n".join(f'#pragma pop_macro("{name}")' for name in macros),
        space=space,
        body=body.strip(),
        count=len(pointers),
        scalars="".join(f", {C[a.dtype]} {a.name}" for a in scalars),
        align=ALIGNMENT[kernel.device],
        distinct="".join(f"  if (pointers[{i}] == pointers[{j}]) return false;\n" for i, j in others),
        exact="" if any(re.search("Ofast|fast.math", flag) for flag in kernel.flags) else EXACT,
        device=DEVICE.format(capability=capability) if kernel.device == "cuda" and capability.isdigit() else "",
        sizes=_sizes(scalars, contract),
    )
    return made.rstrip() + "\n"


def _renamed(kernel: Accepted) -> str:
    """Its source, functions renamed that the user's file has, too: these would be found by the types of their
    arguments."""
    source = CppSource(kernel.source, "cuda")
    theirs = {f.name for f in CudaFile(kernel.own_whole).functions}
    both = ({f.name for f in CudaFile(kernel.source).functions} & theirs) - {ENTRY}
    found = [n for n in walk(source.root) if n.type == "identifier" and source.text(n) in both]
    return source.apply(CppEdit(n.end_byte, n.end_byte, "_judged") for n in found)


def _sizes(scalars: list[Argument], contract: dict[str, Any]) -> str:
    """The sizes that were timed, or the ranges from which further ones were drawn and found right."""

    def equal(a: Argument, value: Any) -> str:
        number = f"{float(value)!r}{'f' * (a.dtype == 'float32')}" if "float" in a.dtype else str(value).lower()
        return f"{a.name} == {number}"

    ways = [" && ".join(equal(a, point[a.name]) for a in scalars) or "true" for point in contract["points"]]
    ranges = {a.name: contract["ranges"][a.name] for a in scalars if a.name in contract["ranges"]}
    if ranges:
        asked = [f"{low} <= {name} && {name} <= {high}" for name, (low, high) in ranges.items()]
        asked += [
            f"({' || '.join(equal(a, v) for v in contract['seen'].get(a.name, ()))})"
            for a in scalars
            if a.name not in ranges
        ]
        asked += [f"{' * '.join(f'static_cast<double>({name})' for name in ranges)} <= {contract['most']}.0"]
        ways.append(" && ".join(asked))
    return " ||\n         ".join(f"({way})" for way in dict.fromkeys(ways))


def _guarded(kernel: Accepted, own: str, space: str, header: str) -> str:
    """`own` with the kernel called instead of its one launch, or of the body that does the work."""
    place = Place(kernel, own)
    missing = [a.name for a in kernel.task.arguments if a.name not in place.names]
    if missing:
        raise far(kernel, f"nothing there says what the kernel gets as {missing[0]!r}")
    given = {a.name: place.names[a.name] for a in kernel.task.arguments}
    pointers = ", ".join(given[a.name] for a in kernel.task.arguments if a.role != "scalar")
    scalars = "".join(f", {given[a.name]}" for a in kernel.task.arguments if a.role == "scalar")
    asked = "".join(f"{condition} && " for condition in place.conditions)
    call, guard = (
        f"{space}::{ENTRY}({', '.join(given.values())});",
        f"if ({asked}{space}::judged({{{pointers}}}{scalars}))",
    )
    node, source = place.node, CppSource(own, "cuda")
    if node.type == "compound_statement":
        edits = [CppEdit(node.start_byte + 1, node.start_byte + 1, f"\n  {guard} {{\n    {call}\n    return;\n  }}")]
    else:
        pad = source.indent(node)
        edits = [
            CppEdit(node.start_byte, node.start_byte, f"{{\n{pad}  {guard} {call}\n{pad}  else "),
            CppEdit(node.end_byte, node.end_byte, f"\n{pad}}}"),
        ]
    above = [n.end_byte for n in source.root.children if n.type == "preproc_include" and n.end_byte <= node.start_byte]
    at = max(above, default=0)
    return source.apply([CppEdit(at, at, f'#include "{header}"\n'), *edits])


# ------------------------------------------------------------ Python


def _guarded_python(kernel: Accepted, own: str, module: str) -> str:
    """`own` with the kernel called first thing in the function that launches."""
    before = {n.name: n for n in ast.parse(kernel.task.baseline or "").body if isinstance(n, ast.FunctionDef)}
    functions = {n.name: n for n in ast.parse(own).body if isinstance(n, ast.FunctionDef)}
    changed = [name for name, node in functions.items() if name in before and ast.dump(node) != ast.dump(before[name])]
    if changed:
        raise far(kernel, f"{changed[0]} has changed since the run began with it")
    entry, names = functions.get("run_kernel"), {a.name: a.name for a in kernel.task.arguments}
    if entry is None:
        calls = [
            n
            for n in ast.walk(before["run_kernel"])
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in functions
        ]
        if len(calls) != 1:
            raise far(kernel, "there is no one function in it that the kernel could stand for")
        entry = functions[ast.unparse(calls[0].func)]
        passed = [
            *zip(calls[0].args, [a.arg for a in entry.args.args], strict=False),
            *((k.value, k.arg or "") for k in calls[0].keywords),
        ]
        names = {ast.unparse(given): name for given, name in passed}
    taken = [a.arg for a in (*entry.args.posonlyargs, *entry.args.args, *entry.args.kwonlyargs)]
    rest = entry.args.kwarg.arg if entry.args.kwarg else ""
    lacking = [
        a.name for a in kernel.task.arguments if a.role != "output" and names.get(a.name) not in taken and not rest
    ]
    if lacking or {*taken} - {*names.values()} or entry.body[0].lineno == entry.lineno:
        raise far(
            kernel,
            f"{entry.name} does not take what the kernel does: "
            f"{', '.join([*lacking, *({*taken} - {*names.values()})])}",
        )
    given = ", ".join(
        f'"{a}": {n if n in taken else f"{rest}.get({n!r})"}' for a, n in names.items() if n in taken or rest
    )
    returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(entry))
    first = entry.body[1] if len(entry.body) > 1 and ast.get_docstring(entry) is not None else entry.body[0]
    margin = " " * first.col_offset
    done = [f"{margin}    return judged(given)"] if returns else [f"{margin}    judged(given)", f"{margin}    return"]
    guard = [f"{margin}given = {{{given}}}", f"{margin}if isinstance(judged.filled(given), dict):", *done]
    lines = own.splitlines(keepends=True)
    lines.insert(first.lineno - 1, "\n".join([*guard, ""]))
    above = [n for n in ast.parse(own).body if n.lineno < entry.lineno and isinstance(n, ast.Import | ast.ImportFrom)]
    lines.insert(
        max((n.end_lineno or 0 for n in above), default=0),
        f"from {'.' * kernel.own_package}{module} import _exported as judged\n",
    )
    return "".join(lines)
