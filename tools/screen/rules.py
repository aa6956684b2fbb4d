"""What a kernel may name and what it may not, as screen.yaml lists it: for C++ mostly what is refused, for Python what is allowed."""

from __future__ import annotations

import re
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
    """Honest kernels give these to variables and functions of their own: refused only when called and not defined here."""
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


class PythonRules(Artifact):
    """What kernels written in Python may name; see `tools.screen.python_module`."""

    decorators: str
    at_import: str
    """Names of torch and triton that may be called when the file is imported."""
    host: PythonSide
    kernel: PythonSide


class Rules(Artifact):
    """screen.yaml."""

    headers: str
    pragmas: tuple[str, ...]
    attributes: str
    keywords: str
    python: PythonRules
    refusals: tuple[Refusal, ...]

    def reason(self, name: str, kind: Literal["names", "calls", "std"]) -> str | None:
        """Why `name` is refused, or None."""
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
