"""The observed call as Python text: for reference.py, and for a baseline that needs more than the task's arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tools.capture.contract import ObservedContract, TaskArgument
from tools.capture.observation import Observation, ObservedValue

FILL = "FILL:"
CALL = "observed_call"
"""Name of the baseline's module and function where the user's own cannot be called with the task's arguments."""
_SET_STATE = '''

def _set_state(values):
    """Let the module's parameters and buffers be these tensors."""
    for name, value in values.items():
        *path, last = name.split(".")
        owner = _module.get_submodule(".".join(path))
        (owner._parameters if last in owner._parameters else owner._buffers)[last] = value
'''


class CallText:
    """Parts of a program that calls the target as the user's program did; `module` is where the target stands."""

    def __init__(self, contract: ObservedContract, module: str) -> None:
        self.contract, self.observation, self.module = contract, contract.observation, module
        self.names = {argument.path: argument.name for argument in contract.arguments if argument.path}
        self.imports = set[tuple[str, str]]()
        self.unknown = list[str]()
        """Values that cannot be written down."""
        self.path = self.observation.target.rpartition(":")[2]
        self.parameters = [a.name for a in contract.arguments if a.path and not a.path.startswith("result")]

    def value(self, path: str, value: ObservedValue) -> str:
        """Return the expression of an argument or of what contains arguments."""
        if path in self.names:
            return self.names[path]
        if value.kind == "number":
            return repr(value.value)
        if isinstance(value.items, dict):
            parts = {
                key: self.value(f"{path}.{key}" if value.kind == "struct" else f"{path}[{key!r}]", item)
                for key, item in value.items.items()
            }
            if value.kind == "struct":
                module, _, name = value.type.partition(":")
                self.imports.add((self.module if module in ("__main__", "__mp_main__") else module, name))
                return f"{name}({', '.join(f'{key}={text}' for key, text in parts.items())})"
            return "{" + ", ".join(f"{key!r}: {text}" for key, text in parts.items()) + "}"
        inner = [self.value(f"{path}[{at}]", item) for at, item in enumerate(value.items)]
        if value.kind == "list":
            return f"[{', '.join(inner)}]"
        if value.kind == "tuple":
            return f"({', '.join(inner)}{',' * (len(inner) == 1)})"
        if value.kind != "fixed":
            self.unknown.append(f"{path} ({value.type})")
        return value.code or "None"

    def arguments(self) -> str:
        """Return the arguments of the call, in the order and by the kinds of the target's parameters."""
        values, parts = self.contract.sample.arguments, []
        for parameter in self.observation.parameters:
            if parameter.name not in values:
                continue
            text = self.value(parameter.name, values[parameter.name])
            prefix = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**", "KEYWORD_ONLY": f"{parameter.name}="}
            parts.append(prefix.get(parameter.kind, "") + text)
        return ", ".join(parts)

    def body(self) -> list[str]:
        """Return the statements that call the target and return what the task calls outputs."""
        calls = {
            "function": f"{self.path}({self.arguments()})",
            "module": f"_module({self.arguments()})",
            "autograd": f"{self.path}.apply({self.arguments()})",
            "operator": f"torch.ops.{self.contract.sample.overload}({self.arguments()})",
        }
        lines = self._module_state() if self.observation.form == "module" else []
        results = [path for path, _ in self.contract.sample.results.leaves("result")]
        new = [results[at] for at in self.contract.results]
        changed = [
            a.name for a in self.contract.arguments if a.role != "input" and a.path in self.contract.sample.leaves
        ]
        changed = [name for name in changed if self._role(name) != "scalar"]
        if self.observation.form == "triton":
            return self._launch()
        if not new:
            return [*lines, calls[self.observation.form]]
        if new == ["result"] and not changed:
            return [*lines, f"return {calls[self.observation.form]}"]
        return [*lines, f"result = {calls[self.observation.form]}", f"return {', '.join([*changed, *new])}"]

    def _role(self, name: str) -> str:
        return next(a.role for a in self.contract.arguments if a.name == name)

    def _module_state(self) -> list[str]:
        """Return the statements that give the module the task's parameters and the observed numbers."""
        state = {p: v for p, v in self.contract.sample.leaves.items() if p.startswith("self.")}
        tensors = [f'"{p[5:]}": {self.names[p]}' for p, v in state.items() if v.kind == "tensor"]
        numbers = [f"_module.{p[5:]} = {self.value(p, v)}" for p, v in state.items() if v.kind == "number"]
        numbers = [line for line in numbers if not line.startswith("_module.training")]
        return [f"_set_state({{{', '.join(tensors)}}})", *numbers] if tensors else numbers

    def setup(self) -> str:
        """Return what stands before the function: a module as the program made it, or the launches by size."""
        sample = self.contract.sample
        if self.observation.form == "module":
            made = sample.made
            if made is None:
                self.unknown.append(f"the arguments with which {self.path} is made")
            given = ", ".join(f"{name}={self.value(f'made.{name}', v)}" for name, v in (made or {}).items())
            training = sample.leaves.get("self.training")
            mode = "" if training is None else f"_module.train({bool(training.value)})\n"
            return f"\n_module = {self.path}({given})\n{mode}{_SET_STATE}"
        if self.observation.form == "triton":
            return self._launches()
        return ""

    def _keys(self) -> list[TaskArgument]:
        return [a for a in self.contract.arguments if a.path and (a.shape or a.dtype == "int32")]

    def _launches(self) -> str:
        rows = []
        for workload in (*self.contract.workloads, *self.contract.left_out):
            for group in workload.groups:
                call = group.calls[0]
                values = [call.leaves[a.path] for a in self._keys()]
                key = tuple(v.shape if v.kind == "tensor" else v.value for v in values)
                constants = {
                    name: call.arguments[name].value
                    for name in call.constexprs
                    if call.arguments[name].kind == "number"
                }
                rows.append(f"    {key!r}: ({call.grid!r}, {constants | call.options!r}),")
        return (
            f'\n_kernel = {self.path}\nwhile type(_kernel).__name__ in ("Autotuner", "Heuristics"):\n'
            "    _kernel = _kernel.fn\n"
            "# Sizes -> the grid, and the constants and options that the program or its autotuner chose.\n"
            "_LAUNCHES = {\n" + "\n".join(rows) + "\n}\n"
        )

    def _launch(self) -> list[str]:
        sample = self.contract.sample
        passed = [p for p in sample.arguments if p not in sample.constexprs or sample.arguments[p].kind != "number"]
        listed = ", ".join(f"{p}={self.value(p, sample.arguments[p])}" for p in passed)
        key = ", ".join(f"tuple({a.name}.shape)" if a.role != "scalar" else a.name for a in self._keys())
        return [f"grid, options = _LAUNCHES[{key},]", f"_kernel[grid]({listed}, **options)"]

    def needs_wrapper(self) -> bool:
        """Whether the target cannot be called by the names of the task's arguments alone."""
        if self.observation.form != "function" or self.unknown or "." in self.path:
            return True
        values = self.contract.sample.arguments
        results = [value for _, value in self.contract.sample.results.leaves("result")]
        fits = all(
            p.kind in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")
            and (self.names.get(p.name) == p.name or self.value(p.name, values[p.name]) == p.default)
            for p in self.observation.parameters
        )
        simple = (len(self.contract.results) == len(results) and not self._mixed()) or not self.contract.results
        return not (fits and simple)

    def _mixed(self) -> bool:
        return any(a.role == "inout" for a in self.contract.arguments)

    def wrapper(self) -> str:
        """Return the text of the baseline's module around the target."""
        body = "".join(f"    {line}\n" for line in self.body())
        setup = self.setup()
        imports = "".join(f"from {module} import {name}\n" for module, name in sorted(self.imports))
        if self.observation.form == "operator":
            imports += "import torch\n"
        else:
            imports += f"from {self.module} import {self.path.partition('.')[0]}\n"
        if "torch." in body + setup and "import torch\n" not in imports:
            imports = "import torch\n" + imports
        head = f'"""Calls {self.observation.target} as `{" ".join(self.observation.command)}` did."""\n\n'
        unknown = "".join(f"# {FILL} {one} is not known\n" for one in self.unknown)
        return f"{head}{imports}{unknown}{setup}\n\ndef {CALL}({', '.join(self.parameters)}):\n{body}"


def literal(value: object) -> str:
    """Return a number, a name or what contains these as Python text, with names in double quotes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def is_torch(observation: Observation) -> bool:
    """Whether the target is a function of torch itself."""
    return observation.form == "operator" or observation.target.split(":")[0].partition(".")[0] == "torch"
