"""What Triton's recipes share: edits on a module, and knobs that stand in the source as module constants."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from agents.models.playbook.analysis.unit import CppUnit
from agents.models.playbook.recipe import Recipe
from tools.languages.cpp_source import CppEdit as CppEdit
from tools.languages.triton_source import LaunchCall, PythonEdit, PythonKernel, PythonModule, parse_module

CONSTANT_PREFIX = "KW_"
"""Of the module constants that carry knobs; local names begin with kw_."""


class TritonRecipe(Recipe):
    """A recipe on the Python syntax tree."""

    language: ClassVar[str] = "triton"

    def edit(self, source: str, knobs: Mapping[str, str]) -> str:
        """`source` with every place rewritten, or its constants set to `knobs` where that was done before."""
        module = parse_module(source)
        if module is None or not module.kernels:
            return source
        changed = self.rewritten(module, knobs)
        if changed is None:
            return self.set_knobs(source, knobs)
        return changed if parse_module(changed) is not None else source

    @abstractmethod
    def rewritten(self, module: PythonModule, knobs: Mapping[str, str]) -> str | None:
        """The new source, or None where nothing is understood or nothing is left to do."""

    def sites(self, unit: CppUnit, knobs: Mapping[str, str]) -> Iterator[Sequence[CppEdit]]:
        """None: these recipes read Python, not C."""
        return iter(())

    def named(self, knob: str) -> str:
        """The module constant that carries a knob."""
        return f"{CONSTANT_PREFIX}{self.name.removeprefix('triton_').upper()}_{knob}"

    def constants(self, knobs: Mapping[str, str]) -> str:
        """Lines that set this recipe's constants."""
        return "".join(f"{self.named(knob)} = {self.value(knobs, knob)}\n" for knob in self.knobs)

    def options(self, module: PythonModule, launch: LaunchCall) -> list[PythonEdit]:
        """Edits that make a launch's warps and stages constants; what is given as anything but a number stays."""
        edits, added = [], ""
        for option, knob in (("num_warps", "WARPS"), ("num_stages", "STAGES")):
            value = launch.options.get(option)
            if knob not in self.knobs:
                continue  # Stages reach only loops with a product.
            if value is None:
                added += f", {option}={self.named(knob)}"
            elif is_number(value):
                edits.append(PythonEdit(*module.byte_span(value), self.named(knob)))
        end = last_argument_end(module, launch.node)
        return [*edits, *([PythonEdit(end, end, added)] if added and end else [])]

    def knob_value_pattern(self, knob: str) -> str:
        """See `Recipe.knob_value_pattern`."""
        return rf"^({self.named(knob)} = )({self.written})()$"


def first_kernel_start(module: PythonModule) -> int:
    """Byte before the first kernel, its decorators included: where module constants may be inserted."""
    first = min(module.kernels.values(), key=lambda k: k.node.lineno).node
    return module.line_start(min([first.lineno, *(d.lineno for d in first.decorator_list)]))


def first_line(function: ast.FunctionDef) -> int:
    """Return the number of the first line of a function, its decorators included."""
    return min([function.lineno, *(d.lineno for d in function.decorator_list)])


def triton_name(module: PythonModule) -> str | None:
    """What the file calls the package `triton`."""
    for node in module.tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "triton":
                    return alias.asname or "triton"
    return None


def launches_of(module: PythonModule, kernel: PythonKernel) -> tuple[LaunchCall, ...]:
    """Its launches, where all of them are understood; none when the kernel's name is used in any other way."""
    found = tuple(launch for launch in module.launches if launch.kernel.name == kernel.name)
    uses = sum(isinstance(n, ast.Name) and n.id == kernel.name for n in ast.walk(module.tree))
    return found if found and uses == len(found) and not any(launch.opaque for launch in found) else ()


def statement_of(launch: LaunchCall) -> ast.Expr | None:
    """The statement that is nothing but this launch."""
    for node in ast.walk(launch.function) if launch.function is not None else ():
        if isinstance(node, ast.Expr) and node.value is launch.node:
            return node
    return None


def indentation(module: PythonModule, node: ast.stmt) -> str:
    """The white space before a statement, which must be the first of its line."""
    line = module.lines(node.lineno, node.lineno)
    return line[: len(line) - len(line.lstrip())]


def starts_line(module: PythonModule, node: ast.stmt) -> bool:
    """Whether nothing but white space stands before `node` on its line, and nothing but a comment behind its end."""
    assert node.end_lineno is not None
    start, end = module.byte_span(node)
    line = module.source.encode()
    before = line[module.line_start(node.lineno) : start].decode()
    behind = line[end : module.line_start(node.end_lineno + 1)].decode().strip()
    return not before.strip() and (not behind or behind.startswith("#"))


def last_argument_end(module: PythonModule, call: ast.Call) -> int:
    """Byte behind the last argument of a call; 0 where there is none."""
    ends = [module.byte_span(a)[1] for a in call.args] + [module.byte_span(k)[1] for k in call.keywords]
    return max(ends, default=0)


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)
