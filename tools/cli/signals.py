"""Ends a command as a process: Ctrl-C gives exit code 130, or the code that the command already has, and no
traceback."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NoReturn

INTERRUPTED_EXIT_CODE = 130


def run_as_process(main: Callable[[], int]) -> NoReturn:
    """Run `main` as this process and exit with its return value; a second Ctrl-C that `main` does not handle ends it
    at once.

    After `main` the interpreter still waits for threads, runs exit handlers and unloads modules. Without this function
    a Ctrl-C in that time would print a traceback after the command has reported its result.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        if pressed:
            os._exit(INTERRUPTED_EXIT_CODE)
        pressed = True
        raise KeyboardInterrupt

    # The handler that is registered first runs last; after it only modules are unloaded.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell sets this for background jobs
        signal.signal(signal.SIGINT, press)
    code = INTERRUPTED_EXIT_CODE

    def ended(_kind: object, error: BaseException | None, _trace: object) -> bool:
        """Whether the error is an exit or an interrupt; an interrupt during an import can arrive as another error."""
        nonlocal code
        if isinstance(error, SystemExit) and isinstance(error.code, int) and not pressed:
            code = error.code
            return True
        return isinstance(error, KeyboardInterrupt) or (pressed and error is not None)

    with ExitStack() as stack:
        stack.push(ended)
        code = main()
    with suppress(OSError, ValueError, KeyboardInterrupt):
        sys.stdout.flush()
        sys.stderr.flush()
    # A thread can run for ever; Ctrl-C must still work then.
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    raise SystemExit(code)
