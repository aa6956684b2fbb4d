"""What a kernel may name and what it may not, as screen.yaml lists it: for C++ mostly what is refused, for Python
what is allowed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from tools.artifacts import Artifact


class Refusal(Artifact):
    """Names refused for one reason, apart by spaces."""

    reason: str
    names: str = ""
    """Patterns refused wherever they stand; most cannot be anything else."""
    calls: str = ""
    """Honest kernels give these to variables and functions of their own: refused only when called and not defined
    here."""
    std: str = ""
    """Refused behind std::."""


class PythonSide(Artifact):
    """What one side of a Python kernel may name; dotted names are those behind the file's imports."""

    about: str
    """What the attributes and methods of this side do, to stand behind "none of what"."""
    calls: str
    values: str
    """Dotted names that may be passed on."""
    types: str
    """Builtins that may be passed on."""
    types_of: str
    """Dotted names in annotations."""
    attributes: str
    methods: str
    builtins: str
    """Those that may be called."""
    modules: str
    in_place: bool = False
    """Elements may be written (`out[i] = …`)."""


class PythonRules(Artifact):
    """What kernels written in Python may name; see `tools.screen.python_module`."""

    decorators: str
    at_import: str
    """Names of torch and triton that may be called when the file is imported."""
    host: PythonSide
    kernel: PythonSide
    framework: str = "triton, triton.language"
    jits: str = "triton.jit, autotune and heuristics"
    library: str = ""
    """What the task lets host code call of torch, as patterns."""

    builders: str = ""
    """What functions under `functools.cache` may call, in order to return a compiled kernel."""

    def with_cute(self, more: CuteRules) -> PythonRules:
        """The same, with what CuTe DSL has besides."""
        host, kernel = (
            side.model_copy(update=_joined(side, given))
            for side, given in ((self.host, more.host), (self.kernel, more.kernel))
        )
        update = {
            "decorators": f"{self.decorators} {more.decorators}",
            "builders": more.builders,
            "host": host,
            "kernel": kernel,
        }
        update |= {
            "framework": "cutlass, cutlass.cute",
            "jits": "cute.jit, cute.kernel, and functools.cache where a kernel is compiled",
        }
        return self.model_copy(update=update)

    def calling(self, operators: Collection[str]) -> PythonRules:
        """The same, where host code may also call these (`aten.mm`), as `torch.mm` or `torch.ops.aten.mm.out`."""
        named = " ".join(rf"torch\.(ops\.aten\.)?{name.removeprefix('aten.')}(\.\w+)?" for name in operators)
        host = self.host.model_copy(update={"calls": f"{self.host.calls} {named}".strip()})
        return self.model_copy(update={"host": host, "library": named})


class CuteRules(Artifact):
    """What kernels in CuTe DSL may name beside that, by the fields of both sides."""

    decorators: str
    builders: str
    host: dict[str, str]
    kernel: dict[str, str | bool]


def _joined(side: PythonSide, more: Mapping[str, str | bool]) -> dict[str, str | bool]:
    return {name: f"{getattr(side, name)} {value}" if isinstance(value, str) else value for name, value in more.items()}


class CudaRules(Artifact):
    """What CUDA C++ has beside C++."""

    headers: str
    """Patterns over whole names."""
    allowed: str
    """Patterns that the refusals of C++ name and CUDA's device code may use."""
    refusals: tuple[Refusal, ...]


class Rules(Artifact):
    """screen.yaml."""

    headers: str
    pragmas: tuple[str, ...]
    attributes: str
    keywords: str
    python: PythonRules
    cutedsl: CuteRules
    cuda: CudaRules
    refusals: tuple[Refusal, ...]
    allowed: str = ""
    """Patterns of names that no refusal means."""

    @property
    def of_cuda(self) -> Rules:
        """The same with what is refused in CUDA besides."""
        return self.model_copy(update={"refusals": (*self.cuda.refusals, *self.refusals), "allowed": self.cuda.allowed})

    def allows_header(self, name: str, *, cuda: bool) -> bool:
        """Whether a kernel may include `name`."""
        own = cuda and re.fullmatch("|".join(self.cuda.headers.split()), name)
        return bool(own) or name in self.headers.split()

    def reason(self, name: str, kind: Literal["names", "calls", "std"]) -> str | None:
        """Why `name` is refused, or None."""
        if self.allowed and re.fullmatch(self.allowed.replace(" ", "|"), name):
            return None
        for refusal in self.refusals:
            if re.fullmatch(getattr(refusal, kind).replace(" ", "|"), name):
                return refusal.reason
        return None

    def allows_pragma(self, text: str) -> bool:
        """Whether the words behind #pragma stand in the table."""
        return any(re.fullmatch(pattern, text) for pattern in self.pragmas)


@cache
def rules() -> Rules:
    """What screen.yaml says."""
    import yaml

    return Rules.model_validate(yaml.safe_load((Path(__file__).parent / "screen.yaml").read_text(encoding="utf-8")))
