"""The tables of screen.yaml: for C++ mostly the names that are refused, for Python the names that are allowed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from tools.artifacts import Artifact


class RefusedNames(Artifact):
    """Names that C++ may not use, with the reason; patterns are separated by spaces."""

    reason: str
    names: str = ""
    """Patterns that are refused at each use."""
    calls: str = ""
    """Patterns that are refused only in a call of a function that the source does not define: kernels also use these
    words for their own variables and functions."""
    std: str = ""
    """Patterns that are refused behind `std::`."""
    members: str = ""
    """Patterns that are refused behind `.` and `->`."""


class AllowedNames(Artifact):
    """Names that one side of a Python file (host code or device code) may use, as patterns separated by spaces; dotted
    names are full names after the imports are resolved."""

    purpose: str
    """What code on this side is for, quoted in refusals of attributes and methods."""
    calls: str
    values: str
    """Dotted names that may be used as values."""
    types: str
    """Builtins that may be used as values."""
    annotation_types: str
    """Dotted names that annotations may use."""
    attributes: str
    methods: str
    builtins: str
    """Builtins that may be called."""
    modules: str
    allows_element_writes: bool = False
    """Whether elements may be written (`out[i] = …`)."""


class PythonRules(Artifact):
    """Names that kernels in Python may use; `tools.screen.python_module` applies them."""

    decorators: str
    calls_at_import: str
    """Functions of torch and triton that may be called when the file is imported."""
    host: AllowedNames
    kernel: AllowedNames
    framework_modules: str = "triton, triton.language"
    decorator_names: str = "triton.jit, autotune and heuristics"
    library_calls: str = ""
    """Operators of torch that the task lets host code call, as patterns."""
    builder_calls: str = ""
    """Functions that a function under `functools.cache` may call to return a compiled kernel."""

    def with_cute_dsl(self, more: CuteRules) -> PythonRules:
        """These rules extended by the names of CuTe DSL."""
        host, kernel = (
            side.model_copy(update=_extended_patterns(side, given))
            for side, given in ((self.host, more.host), (self.kernel, more.kernel))
        )
        update = {
            "decorators": f"{self.decorators} {more.decorators}",
            "builder_calls": more.builder_calls,
            "host": host,
            "kernel": kernel,
        }
        update |= {
            "framework_modules": "cutlass, cutlass.cute",
            "decorator_names": "cute.jit, cute.kernel, and functools.cache where a kernel is compiled",
        }
        return self.model_copy(update=update)

    def with_library(self, operators: Collection[str]) -> PythonRules:
        """These rules with the task's operators added; `aten.mm` allows `torch.mm` and `torch.ops.aten.mm.out`."""
        patterns = " ".join(rf"torch\.(ops\.aten\.)?{name.removeprefix('aten.')}(\.\w+)?" for name in operators)
        host = self.host.model_copy(update={"calls": f"{self.host.calls} {patterns}".strip()})
        return self.model_copy(update={"host": host, "library_calls": patterns})


class CuteRules(Artifact):
    """Names that kernels in CuTe DSL may use in addition, by field of `AllowedNames`."""

    decorators: str
    builder_calls: str
    host: dict[str, str]
    kernel: dict[str, str | bool]


def _extended_patterns(side: AllowedNames, more: Mapping[str, str | bool]) -> dict[str, str | bool]:
    """Fields of `side` with the patterns of `more` appended."""
    return {name: f"{getattr(side, name)} {value}" if isinstance(value, str) else value for name, value in more.items()}


class CudaRules(Artifact):
    """Headers, allowed names and refused names of CUDA C++ in addition to those of C++."""

    headers: str
    """Patterns of whole header names that may be included."""
    allowed: str
    """Patterns of names that C++ refuses and device code may use."""
    refusals: tuple[RefusedNames, ...]


class ScreenRules(Artifact):
    """All tables of screen.yaml."""

    headers: str
    pragmas: tuple[str, ...]
    attributes: str
    keywords: str
    python: PythonRules
    cutedsl: CuteRules
    cuda: CudaRules
    refusals: tuple[RefusedNames, ...]
    allowed: str = ""
    """Patterns of names that are allowed although a refusal matches them."""

    @property
    def with_cuda_refusals(self) -> ScreenRules:
        """These rules with the refusals and allowed names of CUDA added."""
        return self.model_copy(update={"refusals": (*self.cuda.refusals, *self.refusals), "allowed": self.cuda.allowed})

    def allows_header(self, name: str, *, cuda: bool) -> bool:
        """Whether a kernel may include `name`."""
        is_cuda_header = cuda and re.fullmatch("|".join(self.cuda.headers.split()), name)
        return bool(is_cuda_header) or name in self.headers.split()

    def refusal_reason(self, name: str, kind: Literal["names", "calls", "std", "members"]) -> str | None:
        """Why `name` is refused as a name, a call, a name of std or a member; None: it is not."""
        if self.allowed and re.fullmatch(self.allowed.replace(" ", "|"), name):
            return None
        for refusal in self.refusals:
            if re.fullmatch(f"(__builtin_)?({getattr(refusal, kind).replace(' ', '|')})", name):
                return refusal.reason
        return None

    def allows_pragma(self, text: str) -> bool:
        """Whether the table allows the text behind `#pragma`."""
        return any(re.fullmatch(pattern, text) for pattern in self.pragmas)


@cache
def load_screen_rules() -> ScreenRules:
    """The rules of screen.yaml, read once."""
    import yaml

    return ScreenRules.model_validate(
        yaml.safe_load((Path(__file__).parent / "screen.yaml").read_text(encoding="utf-8"))
    )
