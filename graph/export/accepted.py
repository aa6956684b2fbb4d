"""An accepted kernel with the conditions of its claim, and the Python text that calls it under them."""

from __future__ import annotations

import ast
import pprint
import re
from math import prod
from pathlib import Path
from typing import Any

from tools.artifacts import Argument, Artifact, Task
from tools.executors.protocol import ProbedWorkload

RUNTIME_SOURCE = Path(__file__).with_name("runtime.py")
TextByName = dict[str, str]
"""Name -> text."""
ALIGNMENT = {"cpu": 64, "cuda": 256}
"""Bytes that the judge's buffers are aligned to."""


class UserFile(Artifact):
    """The user's file that `--format patch` changes."""

    name: str
    text: str
    lines: tuple[int, int] | None
    """First and last line, from 1, that the kernel replaces; None: the user named none."""
    in_package: bool
    """An `__init__.py` lies beside the file."""


class AcceptedKernel(Artifact):
    """One accepted version of a workspace, with what its export needs."""

    task: Task
    probed_workloads: tuple[ProbedWorkload, ...]
    """The visible workloads as probed."""
    source: str
    """Text of the kernel."""
    suffix: str
    device: str
    takes_stream: bool = False
    """On a GPU: the kernel works on the stream that its caller chooses, and not only on the default one."""
    architecture: str = ""
    """Of the GPU that it was judged on, as the driver reports it."""
    flags: tuple[str, ...]
    """Of its build; empty for Triton."""
    covers_drawn_sizes: bool
    """Every size besides the visible ones that the judge drew was checked, none dropped."""
    user_file: UserFile | None = None
    """The user's file that the kernel came from; None where it is not there."""
    title: str
    """Which version of which workspace, and what it is claimed to be worth; one sentence."""

    @property
    def name(self) -> str:
        """The task's, as a Python module may be called."""
        return re.sub(r"\W|^(?=\d)", "_", self.task.name)

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The tensors that the kernel reads."""
        return tuple(a for a in self.task.arguments if a.is_read)

    @property
    def is_compiled(self) -> bool:
        """Built to a library with `solve`."""
        return self.suffix != ".py"

    def contract(self) -> dict[str, Any]:
        """What `runtime.Exported` takes."""
        task, ranges = self.task, self.task.dims_range if self._covers_ranges() else {}
        sized_names = {
            *(axis for a in task.arguments for axis in a.shape),
            *(a.name for a in task.arguments if a.role == "scalar"),
        }
        points = [
            {a.name: a.value if a.role == "scalar" else list(a.shape) for a in w.arguments}
            for w in self.probed_workloads
        ]
        values = [{**p, **w.dims} for p, w in zip(points, self.probed_workloads, strict=True)]
        unranged_values = {
            n: list(dict.fromkeys(v[n] for v in values))
            for n in sorted(sized_names - {*ranges})
            if all(n in v for v in values)
        }
        return {
            "name": self.name,
            "arguments": [(a.name, a.role, a.dtype, list(a.shape)) for a in task.arguments],
            "points": points,
            "ranges": {name: list(ends) for name, ends in ranges.items()},
            "seen": unranged_values,
            "named": self._names_axes(),
            "most": max(prod(int(w.dims[name]) for name in ranges if name in w.dims) for w in self.probed_workloads),
            "device": self.device,
            "align": ALIGNMENT[self.device],
            "triton": not self.is_compiled,
            "stream": self.takes_stream,
        }

    def _covers_ranges(self) -> bool:
        """Whether each shape at other sizes is known, and the kernel was right at all that were drawn."""
        return self.covers_drawn_sizes and self._names_axes() and not self.task.seed_style

    def _names_axes(self) -> bool:
        """Whether each axis has the size of the dim that it is named for, in all visible workloads."""
        tensors = [(position, a) for position, a in enumerate(self.task.arguments) if a.role != "scalar"]
        return all(
            w.dims.get(axis) == extent or (a.is_read and axis == str(extent))
            for w in self.probed_workloads
            for position, a in tensors
            for axis, extent in zip(a.shape, w.arguments[position].shape, strict=True)
        )

    def module_source(self, launch: str = "", options: str = "") -> str:
        """Source text up to and with `_exported`, which is called with a dict of arguments.

        `launch`: text that defines `_run(**arguments)`, in place of the kernel's own; `options`: further arguments of
        `Exported`.
        """
        runtime = RUNTIME_SOURCE.read_text(encoding="utf-8").split('"""\n', 1)[1]
        if not self.is_compiled:
            launch = f"{_without_docstring(self.source)}\n\n_run = run_kernel"
        lines = [f'"""{self.title}"""', runtime.rstrip(), launch]
        lines += [f"_CONTRACT = {pprint.pformat(self.contract(), width=120, sort_dicts=False)}"]
        if not launch:
            built = f"flags={list(self.flags)}, file='kernel{self.suffix}', source={python_literal(self.source)}"
            lines += [f"_CONTRACT.update({built})"]
        made = f"_exported = Exported(_CONTRACT{', _run' if launch else ''}{options})"
        return "\n\n".join(filter(None, [*lines, made])) + "\n"


def python_literal(text: str) -> str:
    """`text` as a Python literal that people can read where that is possible."""
    plain = '"""' not in text and not text.endswith(('"', "\\")) and "\r" not in text
    return f'r"""{text}"""' if plain else repr(text)


def _without_docstring(source: str) -> str:
    """A module without its docstring and `from __future__` lines, which only the first lines of a file may be."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        first = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if first or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines).strip()
