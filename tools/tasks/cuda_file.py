"""What a CUDA or C++ file defines and launches, and `solve` around a host function where the source makes it certain.

Nothing of the file is rewritten. Arguments of reference.py are Python texts that draw them, marked `FILL:` where the
source does not state them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tools.cli.suggestions import suggest_or_list
from tools.errors import SettingsError
from tools.executors.protocol import Parameter
from tools.languages.cpp_signature import STREAM_TYPE
from tools.languages.cpp_source import ENTRY, CppSource, function_declarator, walk
from tools.tasks.draft import FILL
from tools.tasks.loader import read_source

if TYPE_CHECKING:
    from tree_sitter import Node

EXTENSION = '''\
"""Builds {source} as an extension of torch where that is not done, and has its {name}."""

from pathlib import Path

import torch
from torch.utils import cpp_extension

HERE = Path(__file__).resolve().parent
try:
    import {built} as built
except ImportError:
    files = [str(HERE / "{source}")]
    built = cpp_extension.load("{built}", files, extra_include_paths=[str(HERE)], build_directory=str(HERE))
{name} = built.{name}
'''
BINDING = """\
#include <torch/extension.h>
#include "{source}"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{name}", &{function}); }}
"""
_INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*"([^"]+)".*$""", re.MULTILINE)
_HOST_COPY = re.compile(r"\bcudaMemcpy\w*(?=\s*\()")
_SPECIFIER = re.compile(r'\b(?:static|inline|extern|constexpr|__\w+__)\b|"C"')


def drawn(name: str, dtype: str, is_tensor: bool = True) -> str:
    """The text that draws an argument. A tensor's shape is still called SHAPE; a whole number is a size."""
    if not is_tensor:
        return f'dims["{name}"]' if "int" in dtype else f"{'True' if dtype == 'bool' else '1.0'}  # {FILL} its value"
    if "float" not in dtype:
        return f"torch.randint(0, 2, SHAPE, generator=random, dtype=torch.{dtype})  # {FILL} its shape and values"
    cast = f".to(torch.{dtype})" * (dtype != "float32")
    return f"torch.randn(SHAPE, generator=random){cast}  # {FILL} its shape, type and values"


@dataclass(frozen=True)
class CFunction:
    """A free function of the file that has a body."""

    name: str
    """With its namespaces."""
    text: str
    """Its source, with `template <…>`."""
    head: str
    """Its source before the name."""
    parameters: dict[str, str]
    """Name -> its declaration."""

    @property
    def is_kernel(self) -> bool:
        return "__global__" in self.head

    def mentions(self, name: str) -> bool:
        """Whether the function's text contains the last part of a function's name."""
        return re.search(rf"\b{name.rpartition('::')[2]}\b", self.text) is not None

    @property
    def returns(self) -> bool:
        return self.head.split()[-1:] != ["void"]

    @property
    def takes_tensors(self) -> bool:
        return any(re.search(r"\bTensor\b", declared) for declared in self.parameters.values())


class CFile:
    """A parsed CUDA or C++ file."""

    def __init__(self, source: str) -> None:
        self.unit = CppSource(source, "cuda")

    @cached_property
    def functions(self) -> dict[str, CFunction]:
        """Free functions by name, in order."""
        read = (self._read(node) for node in walk(self.unit.root) if node.type == "function_definition")
        return {f.name: f for f in read if f is not None}

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(name for name, f in self.functions.items() if f.is_kernel)

    @property
    def launchers(self) -> tuple[str, ...]:
        """Host functions that launch, name a kernel or take torch's tensors; in a file without kernels, all of them."""
        hosts = {name: f for name, f in self.functions.items() if not f.is_kernel}
        known = (
            n for n, f in hosts.items() if f.takes_tensors or "<<<" in f.text or any(map(f.mentions, self.kernels))
        )
        return tuple(known if self.kernels or "<<<" in self.unit.source else hosts)

    def choose(self, entry: str | None) -> CFunction:
        """The function named `entry`; without a name the first launcher that no other function calls, else a kernel."""
        if entry is not None and entry not in self.functions:
            known = suggest_or_list(entry, list(self.functions))
            raise SettingsError(f"--entry: there is no kernel or function {entry!r} in the file; {known}")

        def rank(name: str) -> tuple[bool, bool]:
            callers = (f for f in self.functions.values() if f.name not in (name, "main"))
            return name == "main", any(f.mentions(name) for f in callers)

        known_names = [*sorted(self.launchers, key=rank), *self.functions]
        if not known_names:
            raise SettingsError(
                "no function with a body was found in the file; give the file that defines the kernel or the loop, or "
                "put its computation into a free function"
            )
        return self.functions[entry or known_names[0]]

    def solve(self, function: CFunction) -> str:
        """`solve` that calls `function`. SettingsError with the reason where it is not certain that this is the whole
        of what the function does, on pointers to the device's memory."""
        copies = _HOST_COPY.search(self.without("main"))
        reasons = {
            "main takes no pointers": function.name == "main",
            f"{function.name} is a kernel, and only its launch states blocks and threads": function.is_kernel,
            f"{function.name} is a template, and nothing states its types": function.head.startswith("template"),
            f"the file copies memory ({copies and copies[0]}), so its pointers may be the host's": copies is not None,
        }
        if reason := next((reason for reason, holds in reasons.items() if holds), None):
            raise SettingsError(reason)
        streams = [name for name, text in function.parameters.items() if STREAM_TYPE in text]
        declared = [text for name, text in function.parameters.items() if name not in streams]
        given = ["stream" if name in streams else name for name in function.parameters]
        result, call = " ".join(_SPECIFIER.sub(" ", function.head).split()), f"{function.name}({', '.join(given)});"
        if result != "void":
            declared, call = [*declared, f"{result}* result"], f"*result = {call}"
        listed = ", ".join([*declared, *[f"{STREAM_TYPE} stream"] * bool(streams)])
        return f'extern "C" void {ENTRY}({listed}) {{\n  {call}\n}}\n'

    def sketched_parameters(self, function: CFunction) -> list[Parameter]:
        """The parameters of `function`, or of the kernel that it names first if it takes no tensors, by their form."""
        named = (self.functions[n] for n in self.kernels if function.mentions(n) and not function.takes_tensors)
        return [
            Parameter(
                name=name,
                dtype="bool" if "bool" in text else "int64" if re.search("int|long|size_t", text) else "float32",
                pointer=re.search(r"[*\[]|Tensor|&", text) is not None,
                const="const" in text or "Tensor" in text,
            )
            for name, text in next(named, function).parameters.items()
        ]

    def without(self, name: str) -> str:
        """The source without the function `name`."""
        text = self.functions[name].text if name in self.functions else ""
        return self.unit.source.replace(text, "", 1)

    def _read(self, node: Node) -> CFunction | None:
        name, declarator = self.unit.function_name(node), function_declarator(node)
        above = [*_ancestors(node)]
        if not name or declarator is None or any(n.type.startswith(("class_", "struct_")) for n in above):
            return None
        spaces = [n.child_by_field_name("name") for n in reversed(above) if n.type == "namespace_definition"]
        outer = above[1] if above[1].type == "template_declaration" else node
        listed = declarator.child_by_field_name("parameters")
        parameters = dict[str, str]()
        for one in listed.named_children if listed is not None else ():
            if one.type.endswith("parameter_declaration"):
                named = [n for n in walk(one.child_by_field_name("declarator")) if n.type == "identifier"]
                text = " ".join(self.unit.text(one).split("=")[0].split())
                parameters[self.unit.text(named[0]) if named else f"arg{len(parameters)}"] = text
        full = "::".join([*(self.unit.text(n) for n in spaces if n is not None), name])
        head = self.unit.code[outer.start_byte : declarator.start_byte].decode()
        return CFunction(full, self.unit.text(outer), head, parameters)


def _ancestors(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def extension(function: CFunction, source: str, path: str, module: str) -> tuple[str, dict[str, str]]:
    """The name under which a built extension has `function`, and the texts of `module`, which builds the file at `path`
    with torch, and of a binding where the file has none."""
    bound = re.search(r"\bPYBIND11_MODULE\s*\(\s*(\w+)", source)
    name = function.name.rpartition("::")[2]
    exported = re.search(rf'\.def\(\s*"(\w+)"[^;]*?\b{name}\b', source)
    name = exported[1] if exported else name
    built = f"{module}_built" if bound is None or bound[1] == "TORCH_EXTENSION_NAME" else bound[1]
    loader = EXTENSION.format(source=path if bound else f"{module}.cu", built=built, name=name)
    binding = BINDING.format(source=path, name=name, function=function.name)
    files = {f"baseline/{module}.py": loader, f"baseline/{module}.cu": binding}
    return name, dict([*files.items()][: 1 if bound else 2])


def with_headers(source: str, file: Path, headers: dict[Path, str]) -> str:
    """`source` with the headers that lie beside `file` inserted, each once; they are added to `headers`."""

    def header(found: re.Match[str]) -> str:
        beside = (file.parent / found[1]).resolve()
        if not beside.is_file() or beside in headers:
            return "" if beside in headers else found[0]
        headers[beside] = read_source(beside)
        return with_headers(headers[beside], beside, headers)

    return _INCLUDE.sub(header, re.sub(r"^[ \t]*#[ \t]*pragma once.*\n", "", source, flags=re.MULTILINE))
