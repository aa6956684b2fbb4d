"""`export --format patch`: the accepted kernel in a file beside the user's file, and a guard around the lines that the
user names.

The guard calls the kernel where it was judged and leaves everything else to the user's lines. That these lines compute
what the task computes is the user's statement: nothing here reads them.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from graph.export.accepted import ALIGNMENT, AcceptedKernel, TextByName, UserFile
from graph.export.bindings import C_TYPES
from tools.artifacts import Argument
from tools.errors import SettingsError
from tools.languages.cpp_source import ENTRY

SWITCH = "KERNELWRIGHT"
"""The macro without which the patched C++ or CUDA file compiles as it did before."""
HEADER = """\
// {title}
// `accepts` holds the conditions under which the kernel was judged. It cannot see how much memory a pointer has, or
// whether buffers overlap in part. The kernel runs on {stream} and was judged as built with {flags}.
#pragma once
#include <cstdint>
{includes}
{push_macros}
namespace {space} {{
{body}

inline bool accepts(const void* const (&pointers)[{count}]{scalars}) {{
{exact}  for (const void* pointer : pointers)
    if (!pointer || reinterpret_cast<std::uintptr_t>(pointer) % {align}) return false;
{distinct}{device}  return {sizes};
}}
}}  // namespace {space}
{pop_macros}
"""
EXACT = """\
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__USE_FAST_MATH__)
  return false;  // the kernel was judged with exact arithmetic
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
CPP_GUARD = """\
#ifdef {switch}
{indent}if ({streams}{space}::accepts({{{pointers}}}{scalars})) {space}::{entry}({arguments});
{indent}else
#endif
{indent}{{
{replaced}{indent}}}
"""
PYTHON_GUARD = """\
{indent}from {module} import _exported as _kernel
{indent}_arguments = _kernel.complete_arguments({{{arguments}}})
{indent}if isinstance(_arguments, dict):
{indent}    _kernel.run(**_arguments)
{indent}else:
{replaced}"""
_LAUNCH = re.compile(r"<<<(.*?)>>>", re.DOTALL)
_COMMA = re.compile(r",(?![^(<]*[)>])")
"""A comma that separates launch parameters, and not arguments within one."""
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include[^\n]*|pragma[ \t]+once[^\n]*)\n?", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


def patch(kernel: AcceptedKernel) -> TextByName:
    """A unified diff that guards the named lines of the user's file and adds the file that holds the kernel."""
    user_file = kernel.user_file
    if user_file is None:
        raise SettingsError("--format patch: name your file with --file; the run's own kernel file is not there")
    if user_file.lines is None:
        raise SettingsError(
            f"--format patch: say with --at which lines of {user_file.name} the kernel replaces, such as --at 12 or "
            f"--at 12-20"
        )
    if kernel.source == kernel.task.baseline:
        raise SettingsError(
            "--format patch: no version was accepted, so the patch would call your own kernel; run longer"
        )
    first, last = user_file.lines
    lines = user_file.text.splitlines(keepends=True)
    if not 1 <= first <= last <= len(lines):
        raise SettingsError(f"--at {first}-{last}: {user_file.name} has the lines 1 to {len(lines)}")
    space = f"{re.sub(r'[^A-Za-z0-9_]', '_', Path(user_file.name).stem)}_kernelwright"
    replaced = "".join(lines[first - 1 : last]).rstrip("\n") + "\n"
    if kernel.is_compiled:
        new_name, new_text = f"{space}{'.cuh' if kernel.device == 'cuda' else '.hpp'}", _header(kernel, space)
        include = f'#ifdef {SWITCH}\n#include "{new_name}"\n#endif\n'
        lines[first - 1 : last] = [_cpp_guard(kernel, space, replaced)]
        lines.insert(0, include)
    else:
        new_name, new_text = f"{space}.py", kernel.module_source()
        lines[first - 1 : last] = [_python_guard(kernel, user_file, space, replaced)]
    diff = [
        *_diff(user_file.text, "".join(lines), f"a/{user_file.name}", f"b/{user_file.name}"),
        *_diff("", new_text, "/dev/null", f"b/{new_name}"),
    ]
    return {f"{kernel.name}.patch": "".join(diff)}


def _diff(before: str, after: str, old_name: str, new_name: str) -> Iterable[str]:
    rows = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), old_name, new_name)
    for row in rows:
        yield row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n"


def _indent(replaced: str) -> str:
    return replaced[: len(replaced) - len(replaced.lstrip(" \t"))]


def _python_guard(kernel: AcceptedKernel, user_file: UserFile, module: str, replaced: str) -> str:
    """The user's Python lines behind a call of the kernel, whose arguments have the task's names there, too."""
    return PYTHON_GUARD.format(
        indent=_indent(replaced),
        module=f"{'.' * user_file.in_package}{module}",
        arguments=", ".join(f'"{a.name}": {a.name}' for a in kernel.task.arguments),
        replaced=textwrap.indent(replaced, "    "),
    )


def _cpp_guard(kernel: AcceptedKernel, space: str, replaced: str) -> str:
    """The user's C++ or CUDA lines behind a call of the kernel, whose arguments have the task's names there, too."""
    arguments = kernel.task.arguments
    parameters = [[one.strip() for one in _COMMA.split(launch)] for launch in _LAUNCH.findall(replaced)]
    named_streams = [launch[3] if len(launch) > 3 else "0" for launch in parameters]
    streams = {"0" if stream in ("nullptr", "NULL") else stream for stream in named_streams}
    given = ([*streams] if len(streams) == 1 else ["nullptr"]) if kernel.takes_stream else []
    streams -= {"0", *given}
    return CPP_GUARD.format(
        switch=SWITCH,
        indent=_indent(replaced),
        streams="".join(f"static_cast<cudaStream_t>({stream}) == nullptr && " for stream in sorted(streams)),
        space=space,
        entry=ENTRY,
        pointers=", ".join(a.name for a in arguments if a.role != "scalar"),
        scalars="".join(f", {a.name}" for a in arguments if a.role == "scalar"),
        arguments=", ".join([*(a.name for a in arguments), *given]),
        replaced=replaced,
    )


def _header(kernel: AcceptedKernel, space: str) -> str:
    """The kernel in a namespace, with `accepts` for its conditions; its macros stay within the header."""
    scalars = [a for a in kernel.task.arguments if a.role == "scalar"]
    pointers = [a for a in kernel.task.arguments if a.role != "scalar"]
    body = re.sub(r'extern\s+"C"\s*\{', "inline namespace entry {", _INCLUDE.sub("", kernel.source))
    body = re.sub(r'extern\s+"C"\s+', "static ", body)
    includes = [line.strip() for line in _INCLUDE.findall(_COMMENT.sub("", kernel.source)) if "pragma" not in line]
    macros = list(dict.fromkeys(_MACRO.findall(kernel.source)))
    pairs = [(i, j) for i, a in enumerate(pointers) if a.is_written for j in range(len(pointers)) if j != i]
    capability = kernel.architecture.removeprefix("sm_")
    text = HEADER.format(
        title=kernel.title,
        stream="the stream given" if kernel.takes_stream else "the default stream",
        flags=" ".join(kernel.flags) or "the compiler's defaults",
        includes="\n".join(includes),
        push_macros="\n".join(f'#pragma push_macro("{name}")\n#undef {name}' for name in macros),
        pop_macros="\n".join(f'#pragma pop_macro("{name}")' for name in macros),
        space=space,
        body=body.strip(),
        count=len(pointers),
        scalars="".join(f", {C_TYPES[a.dtype]} {a.name}" for a in scalars),
        align=ALIGNMENT[kernel.device],
        distinct="".join(f"  if (pointers[{i}] == pointers[{j}]) return false;\n" for i, j in pairs),
        exact="" if any(re.search("Ofast|fast.math", flag) for flag in kernel.flags) else EXACT,
        device=DEVICE.format(capability=capability) if kernel.device == "cuda" and capability.isdigit() else "",
        sizes=_size_condition(scalars, kernel.contract()),
    )
    return text.rstrip() + "\n"


def _size_condition(scalars: list[Argument], contract: dict[str, Any]) -> str:
    """C++ that is true at the sizes that were timed, and within the ranges whose drawn sizes were all correct."""

    def equals(a: Argument, value: Any) -> str:
        number = f"{float(value)!r}{'f' * (a.dtype == 'float32')}" if "float" in a.dtype else str(value).lower()
        return f"{a.name} == {number}"

    conditions = [" && ".join(equals(a, point[a.name]) for a in scalars) or "true" for point in contract["points"]]
    ranges = {a.name: contract["ranges"][a.name] for a in scalars if a.name in contract["ranges"]}
    if ranges:
        terms = [f"{low} <= {name} && {name} <= {high}" for name, (low, high) in ranges.items()]
        terms += [
            f"({' || '.join(equals(a, value) for value in contract['seen'].get(a.name, ()))})"
            for a in scalars
            if a.name not in ranges
        ]
        terms += [f"{' * '.join(f'static_cast<double>({name})' for name in ranges)} <= {contract['most']}.0"]
        conditions.append(" && ".join(terms))
    return " ||\n         ".join(f"({condition})" for condition in dict.fromkeys(conditions))
