"""Load a class by its name in a table, or by the import path of a third-party class.

Every interface (language, executor, profiler, model) has a table `name -> "package.module:Class"` beside its base
class. A module is imported when its class is first used. Third parties extend the product through the config:
`my_package.my_module:MyClass` works wherever a name does.
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
THIRD_PARTY_ERRORS = (
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
"""Exceptions that faulty third-party code raises; errors of this project are not among them."""


def load_class(table: Mapping[str, str], name: str, base: Callable[..., T], *, key: str) -> Callable[..., T]:
    """Return the class with this name in `table`, or with this import path.

    `base` is the abstract class that it must extend; it is typed as a callable because mypy accepts no abstract class
    where a `type` is expected. `key` is the setting that an error names.
    Raises SettingsError for an unknown name, an import path that fails, or a class that does not extend `base`.
    """
    assert isinstance(base, type), "the base of an interface is a class"
    path = table.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon:
        raise SettingsError(
            f"{key}: {name!r} is unknown; {suggest_or_list(name, sorted(table))}, or package.module:Class for your "
            "own class"
        )
    with third_party_errors_as_settings_errors(
        lambda error: (
            f"{key}: {name!r} cannot be imported ({error}); install its package, or correct the path or module"
        )
    ):
        loaded: Any = getattr(importlib.import_module(module_name), attribute)
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise SettingsError(
            f"{key}: {name!r} is not a {base.__name__}; it must be a class that extends "
            f"{base.__module__}.{base.__name__}"
        )
    if inspect.isabstract(loaded):
        missing = ", ".join(sorted(getattr(loaded, "__abstractmethods__", ())))
        raise SettingsError(f"{key}: {name!r} does not define {missing}; add it to the class")
    return cast(Callable[..., T], loaded)


class third_party_errors_as_settings_errors(AbstractContextManager[None]):
    """A context for third-party code: an exception of any class, and SystemExit, becomes one SettingsError.

    Errors of this project and KeyboardInterrupt pass unchanged.
    """

    def __init__(self, sentence: Callable[[str], str]) -> None:
        """`sentence` returns the message of the SettingsError for the description of an exception."""
        self.sentence = sentence

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception | SystemExit) and not isinstance(error, KernelwrightError):
            raise SettingsError(self.sentence(describe_error(error))) from error


def describe_error(error: BaseException) -> str:
    """Return an exception's class and message in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
