"""What a CUDA or C++ file defines and launches, and `solve` around a host function where the source makes it certain.

Nothing of the file is rewritten. Arguments of reference.py are Python texts that draw them, marked `FILL:` where the
source does not state them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tools.cli.suggestions import suggest_or_list
from tools.errors import SettingsError
from tools.executors.protocol import Parameter
from tools.languages.cpp_signature import STREAM_TYPE, read_solve_parameters
from tools.languages.cpp_source import ENTRY, CppSource, function_declarator, walk

if TYPE_CHECKING:
    from tree_sitter import Node

FILL = "FILL:"
"""Begins what is left to the user, in every file that `init` writes."""
_HOST_COPY = re.compile(r"\bcudaMemcpy\w*(?=\s*\()")
_SCALAR_REFERENCE = re.compile(r"^((?:const\s+)?\w+(?:\s+const)?)\s*&\s*(\w+)$")
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
        """Host functions that launch a kernel or take torch's tensors; in a file without launches, all of them."""
        hosts = {name: f for name, f in self.functions.items() if not f.is_kernel}
        plain = "<<<" not in self.unit.source and not self.kernels
        return tuple(name for name, f in hosts.items() if plain or f.takes_tensors or "<<<" in f.text)

    def choose(self, entry: str | None) -> CFunction:
        """The function named `entry`; without a name the first launcher that no other function calls, else a kernel."""
        if entry is not None and entry not in self.functions:
            known = suggest_or_list(entry, list(self.functions))
            raise SettingsError(f"--entry: there is no kernel or function {entry!r} in the file; {known}")
        others = {name: f.text for name, f in self.functions.items() if name != "main"}

        def rank(name: str) -> tuple[bool, bool]:
            called = rf"\b{name.split('::')[-1]}\b"
            return name == "main", any(re.search(called, text) for other, text in others.items() if other != name)

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
        declared, given = [], []
        for name, text in function.parameters.items():
            reference = _SCALAR_REFERENCE.match(text)
            declared += [] if STREAM_TYPE in text else [f"{reference[1]}* {name}" if reference else text]
            given.append("stream" if STREAM_TYPE in text else f"*{name}" if reference else name)
        result, call = " ".join(_SPECIFIER.sub(" ", function.head).split()), f"{function.name}({', '.join(given)});"
        if result != "void":
            declared, call = [*declared, f"{result}* result"], f"*result = {call}"
        listed = ", ".join([*declared, *[f"{STREAM_TYPE} stream"] * ("stream" in given)])
        return f'extern "C" void {ENTRY}({listed}) {{\n  {call}\n}}\n'

    def parameters(self, solve: str = "") -> list[Parameter]:
        """The parameters of `solve`, of the file's or the given one. SettingsError for a type that no kernel takes."""
        try:
            return [p for p in read_solve_parameters(f"{self.unit.source}\n{solve}", "", "cuda") if p.dtype]
        except SettingsError as error:
            reason = str(error).removeprefix(": ").split("; ")[0].replace(f"`{ENTRY}`", "the function")
            raise SettingsError(reason) from None

    def sketched_parameters(self, function: CFunction) -> list[Parameter]:
        """Those of the kernel that `function` names first, or its own, by their form: float32 for types and sizes."""
        named = (f for name, f in self.functions.items() if f.is_kernel and re.search(rf"\b{name}\b", function.text))
        return [
            Parameter(
                name=name,
                dtype="int64" if re.search("int|long|size_t", text) else "float32",
                pointer=re.search(r"[*&\[]", text) is not None,
                const="const" in text,
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
        parameters = {}
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
