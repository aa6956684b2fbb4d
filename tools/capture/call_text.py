"""The observed call as Python text: the arguments for make_inputs, and the call for reference and baseline."""

from __future__ import annotations

from collections.abc import Mapping

from tools.capture.contract import ObservedContract, identifier, new_results
from tools.capture.observation import PARTS, ObservedValue
from tools.tasks.draft import FILL


class CallText:
    """Parts of a program that calls the target as the user's program did."""

    def __init__(self, contract: ObservedContract) -> None:
        self.contract, self.observation, self.sample = contract, contract.observation, contract.sample
        self.path = self.observation.target.rpartition(":")[2]
        self.names = {argument.path: argument.name for argument in contract.arguments}
        self.structs = dict[str, list[str]]()
        """Name -> fields of the dataclasses and named tuples among the arguments."""
        opaque = [(path, value.type) for path, value in self.sample.leaves.items() if value.kind == "opaque"]
        self.unknown = [f"# {FILL} {path} is a {kind}, which make_inputs cannot give\n" for path, kind in opaque]
        """Lines about what cannot be written down."""
        self.setup = {"module": self._module, "triton": self._launches}.get(self.observation.form, str)()
        """What stands before the function that calls the target."""

    def expression(self, path: str, value: ObservedValue, leaves: Mapping[str, str]) -> str:
        """Return a value as Python; `leaves` are the expressions of arguments by path."""
        if value.kind not in PARTS:
            return leaves.get(path) or value.code or repr(value.value)
        parts = {
            key: self.expression(path + PARTS[value.kind].format(key), item, leaves)
            for key, item in value.items.items()
        }
        if value.kind == "list":
            return f"[{', '.join(parts.values())}]"
        if value.kind == "tuple":
            return f"({''.join(f'{text}, ' for text in parts.values())})"
        if value.kind == "dict":
            return "{" + ", ".join(f"{key!r}: {text}" for key, text in parts.items()) + "}"
        self.structs[identifier(value.type)] = list(parts)
        return f"{identifier(value.type)}({', '.join(f'{key}={text}' for key, text in parts.items())})"

    def made(self, leaves: Mapping[str, str]) -> dict[str, str]:
        """Return name -> expression of what make_inputs gives: parameters, a module's state, outputs, and sizes."""
        given = {
            self.names.get(path, path): self.expression(path, value, leaves)
            for path, value in self.sample.arguments.items()
            if path not in self.sample.constexprs
        }
        rest = {self.names[path]: leaves[path] for path in new_results(self.sample)}
        sizes = {a.name: str(a.value) for a in self.contract.arguments if not a.path}
        return given | rest | sizes

    def parameters(self) -> str:
        """Return the parameters of a function that calls the target."""
        made = self.made(dict.fromkeys(self.names, "None"))
        return ", ".join(name for name in made if name not in self.contract.named("output"))

    def body(self, prefix: str = "") -> str:
        """Return the statements that call the target and return what the task calls outputs."""
        kinds = {"VAR_POSITIONAL": "*{0}", "VAR_KEYWORD": "**{0}", "KEYWORD_ONLY": "{0}={0}"}
        if self.observation.form == "triton":
            kinds = dict.fromkeys(("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"), "{0}={0}")
        parameters = self.observation.parameters.items()
        texts = [kinds.get(kind, "{0}").format(n) for n, kind in parameters if n not in self.sample.constexprs]
        given, named = ", ".join(texts), [text for text in texts if "=" in text or text.startswith("**")]
        if self.observation.form == "triton":
            carriers = {str(a.value): a.name for a in self.contract.arguments}
            key = "".join(carriers[f'dims["{name}"]'] + ", " for name in self.contract.workloads[0].dims)
            return f"    grid, options = _LAUNCHES[({key})]\n    _kernel[grid]({given}, **options)\n"
        positional = "".join(f"{text}, " for text in texts if text not in named)
        state = ", ".join(f'"{p[5:]}": {name}' for p, name in self.names.items() if p.startswith("self."))
        call = {
            "function": f"{prefix}{self.path}({given})",
            "module": f"torch.func.functional_call(_module, {{{state}}}, ({positional}), dict({', '.join(named)}))",
            "autograd": f"{self.path}.apply({given})",
            "operator": f"torch.ops.{self.sample.overload}({given})",
        }[self.observation.form]
        new = new_results(self.sample)
        if not new or new == ["result"]:
            return f"    return {call}\n" if new else f"    {call}\n"
        return f"    result = {call}\n    return {', '.join(new)}\n"

    def _module(self) -> str:
        """Return the statements that make the module as the program made it."""
        made = self.sample.made
        opaque = made is None or any(v.kind in ("opaque", "tensor") for one in made.values() for _, v in one.leaves(""))
        if opaque:
            self.unknown.append(f"# {FILL} the arguments with which {self.path} is made\n")
        given = ", ".join(f"{name}={self.expression('', value, {})}" for name, value in (made or {}).items())
        return f"_module = {self.path}({given}).train({self.sample.training})\n"

    def _launches(self) -> str:
        """Return the launches of a Triton kernel by size."""
        rows = ""
        for workload in (*self.contract.workloads, *self.contract.left_out):
            call = workload.recorded[0]
            constants = ", ".join(f"{n!r}: {self.expression(n, call.arguments[n], {})}" for n in call.constexprs)
            rows += f"    {tuple(workload.dims.values())!r}: ({call.grid!r}, {{{constants}}} | {call.options!r}),\n"
        return (
            f'_kernel = {self.path}\nwhile type(_kernel).__name__ in ("Autotuner", "Heuristics"):\n'
            f"    _kernel = _kernel.fn\n"
            f"# {', '.join(self.contract.workloads[0].dims)} -> the grid, and the constants and options that the "
            f"program or its autotuner chose.\n_LAUNCHES = {{\n{rows}}}\n"
        )

    def needs_wrapper(self) -> bool:
        """Whether the target cannot be called by the names of the task's arguments alone."""
        kinds = {*self.observation.parameters.values()}
        if self.observation.form != "function" or "." in self.path:
            return True
        new, results = new_results(self.sample), [v for _, v in self.sample.results.leaves("") if v.code != "None"]
        is_plain = kinds <= {"POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"} and all(one.kind == "tensor" for one in results)
        return not is_plain or len(new) not in (0, len(results))
