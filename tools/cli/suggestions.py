"""What a mistyped word was meant to be, wherever a user types one; and the command line's parser, which says it."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from tools.errors import InfrastructureError, KernelwrightError, SettingsError


def meant(word: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """`did you mean 'x'?` with the one of `known` that is nearest; `otherwise` where none is near.

    `cutoff`: likeness from which on a word is near, 0..1 (difflib's ratio).
    """
    names = {name.lower(): name for name in sorted(known, reverse=True)}
    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=cutoff)
    return f"did you mean {names[near[0]]!r}?" if near else otherwise


def offered(word: str, known: Sequence[str]) -> str:
    """What to give instead of `word`: the nearest of `known` where one is near, and all of them in any case."""
    near, listed = meant(word, known), ", ".join(known) or "none"
    return f"{near} There are {listed}" if near else f"give one of {listed}"


class Misread(SystemExit):
    """A command line cannot be read; it was said on stderr, and the exit code is argparse's, 2."""

    def __init__(self, reason: str) -> None:
        super().__init__(2)
        self.reason = reason
        """One sentence."""


def refusal(error: KernelwrightError | Misread) -> str:
    """The object of `--json` for a command that ended with `error`; that of `graph` tells the workspace too."""
    status = "machine" if isinstance(error, InfrastructureError) else "refused"
    return json.dumps({"status": status, "reason": error.reason if isinstance(error, Misread) else str(error)})


def answered(run: Callable[[], int], arguments: Sequence[str] | None) -> int:
    """The exit code of a command: what `run` gives back; 2 for input that cannot be used, 4 where the machine
    failed, with one sentence on stderr, and the same as an object where `--json` is among the `arguments` (None: the
    process's own)."""
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read it has what was wanted; nothing is left for the interpreter to write at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Misread, SettingsError, InfrastructureError) as error:
        if as_json:
            sys.stdout.write(f"{refusal(error)}\n")
        if isinstance(error, Misread):
            raise
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, SettingsError) else 4
    return code


class Parser(argparse.ArgumentParser):
    """An argparse parser that, for a mistyped verb, option or choice, says which was meant; its verbs' parsers do
    the same."""

    def error(self, message: str) -> NoReturn:
        """As argparse's, but what it raises tells the sentence."""
        try:
            super().error(message)
        except SystemExit:
            raise Misread(message) from None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse's, but nothing unknown is left over: it exits with code 2 and one sentence."""
        found, strange = super().parse_known_args(args, namespace)
        for action in self._get_positional_actions():
            # Before Python 3.13 argparse gives an optional one up at the first option: `verify WORKSPACE --json v1`
            # would lose its v1.
            left_out = (
                action.nargs == argparse.OPTIONAL and getattr(found, action.dest, action.default) == action.default
            )
            if left_out and strange and not strange[0].startswith("-"):
                setattr(found, action.dest, self._get_value(action, strange.pop(0)))
        if strange:
            name = strange[0].partition("=")[0]
            near = meant(name, self._option_string_actions, cutoff=0.7) if name.startswith("-") else ""
            self.error(f"{strange[0]} is not known here; {near or 'leave it out'}")
        return found, strange

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"{value!r} is not known; {offered(str(value), [str(one) for one in action.choices])}"
            )
