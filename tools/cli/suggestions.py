"""Suggests corrections for mistyped words, and the command-line parser that prints them."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from tools.errors import InfrastructureError, KernelwrightError, PendingError, SettingsError

EXECUTOR_HELP = "where jobs run, as in a config, e.g. '{kind: ssh, host: gpu1}'"
ENDINGS: dict[type[KernelwrightError], tuple[str, int, str]] = {
    SettingsError: ("refused", 2, "error: {}"),
    InfrastructureError: ("machine", 4, "error: {}"),
    PendingError: ("waiting", 6, "waiting: {}; then run the command again"),
}
"""Error -> the status, the exit code and the sentence of a command that ends with it."""


def suggest_name(word: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return `did you mean 'x'?` with the nearest word of `known`, or `otherwise` if no word is near.

    `cutoff`: the similarity from which on a word is near, 0..1 (difflib's ratio).
    """
    names = {name.lower(): name for name in sorted(known, reverse=True)}
    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=cutoff)
    return f"did you mean {names[near[0]]!r}?" if near else otherwise


def suggest_or_list(word: str, known: Sequence[str]) -> str:
    """Return a correction for `word`: the nearest word of `known`, if one is near, and the list of all."""
    near, listed = suggest_name(word, known), ", ".join(known) or "none"
    return f"{near} There are {listed}" if near else f"give one of {listed}"


class CommandLineError(SystemExit):
    """A command line that cannot be parsed; the reason is on stderr, and the exit code is argparse's, 2."""

    def __init__(self, reason: str) -> None:
        super().__init__(2)
        self.reason = reason
        """One sentence."""


def failure_json(error: KernelwrightError | CommandLineError) -> str:
    """Return the `--json` object of a command that ended with `error`; `graph` adds the workspace."""
    status = next((ending[0] for kind, ending in ENDINGS.items() if isinstance(error, kind)), "refused")
    return json.dumps({"status": status, "reason": error.reason if isinstance(error, CommandLineError) else str(error)})


def run_command(run: Callable[[], int], arguments: Sequence[str] | None) -> int:
    """Run a command and return its exit code: that of `run`, or of `ENDINGS` for an error.

    A failure prints one sentence on stderr, and an object if `--json` is among `arguments` (None: those of the
    process).
    """
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    ended: tuple[type[KernelwrightError | CommandLineError], ...] = (CommandLineError, *ENDINGS)
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; the interpreter must not write to it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ended as error:
        if as_json:
            sys.stdout.write(f"{failure_json(error)}\n")
        if isinstance(error, CommandLineError):
            raise
        code, sentence = next(ending[1:] for kind, ending in ENDINGS.items() if isinstance(error, kind))
        sys.stderr.write(f"{sentence.format(error)}\n")
    return code


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the machine of a command's jobs."""
    clocks = "observe the GPU's clocks (default), or lock them during the measurement (needs root)"
    parser.add_argument("--clocks", choices=("observe", "lock"), default="observe", metavar="HOW", help=clocks)
    executor = f"{EXECUTOR_HELP} (default: local)"
    parser.add_argument("--executor", default="local", metavar="EXECUTOR", help=executor)


class Parser(argparse.ArgumentParser):
    """An argparse parser that suggests a correction for a mistyped verb, option or choice, also in its sub-parsers."""

    def error(self, message: str) -> NoReturn:
        """Print the message like argparse, and raise CommandLineError with it."""
        try:
            super().error(message)
        except SystemExit:
            raise CommandLineError(message) from None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse like argparse, but end with one sentence and exit code 2 for an unknown argument."""
        found, strange = super().parse_known_args(args, namespace)
        for action in self._get_positional_actions():
            # Before Python 3.13 argparse drops an optional positional after the first option: `verify WORKSPACE --json
            # v1` would lose v1.
            left_out = (
                action.nargs == argparse.OPTIONAL and getattr(found, action.dest, action.default) == action.default
            )
            if left_out and strange and not strange[0].startswith("-"):
                setattr(found, action.dest, self._get_value(action, strange.pop(0)))
        if strange:
            name = strange[0].partition("=")[0]
            near = suggest_name(name, self._option_string_actions, cutoff=0.7) if name.startswith("-") else ""
            self.error(f"{strange[0]} is not known here; {near or 'leave it out'}")
        return found, strange

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"{value!r} is not known; {suggest_or_list(str(value), [str(one) for one in action.choices])}"
            )
