"""Find a part by its name in a table, or by the import path of a stranger's class.

Every seam (language, executor, profiler, model) has one table `name -> "package.module:Class"` beside its base. Nothing
is imported before it is asked for, and a third party extends by config: `my_package.my_module:MyClass` works wherever a
name does.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar, cast

from tools.cli.suggestions import suggest_or_list
from tools.errors import KernelwrightError, SettingsError

T = TypeVar("T")
BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What a stranger's code raises when something is wrong with it; our own errors are not among them."""


def load(table: Mapping[str, str], name: str, base: Callable[..., T], *, key: str) -> Callable[..., T]:
    """Return the class that `name` stands for.

    `base` is the abstract class that it must extend; it is typed as a callable because mypy accepts no abstract class
    where a `type` is expected. `key` is the setting that an error names.
    Raises SettingsError for an unknown name, an import path that fails, or a class of another kind.
    """
    assert isinstance(base, type), "a seam's base is a class"
    path = table.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon:
        raise SettingsError(
            f"{key}: {name!r} is not known; {suggest_or_list(name, sorted(table))}, or package.module:Class for your "
            "own"
        )
    with guarded(
        lambda said: f"{key}: {name!r} cannot be imported ({said}); install its package, or mend the path or the module"
    ):
        found: Any = getattr(importlib.import_module(module_name), attribute)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise SettingsError(
            f"{key}: {name!r} is not a {base.__name__}; it must be a class that extends "
            f"{base.__module__}.{base.__name__}"
        )
    if inspect.isabstract(found):
        lacking = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        raise SettingsError(f"{key}: {name!r} has no {lacking} of its own; add it to the class")
    return cast(Callable[..., T], found)


class guarded(AbstractContextManager[None]):
    """A stranger's code runs inside: whatever it raises, classes of its own and its exit included, is one
    SettingsError. Our own errors and Ctrl-C pass."""

    def __init__(self, sentence: Callable[[str], str]) -> None:
        """`sentence`: what to say, from what was raised."""
        self.sentence = sentence

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception | SystemExit) and not isinstance(error, KernelwrightError):
            raise SettingsError(self.sentence(wrong(error))) from error


def wrong(error: BaseException) -> str:
    """What a stranger's code raised, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
