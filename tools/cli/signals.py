"""How a command ends as a process: Ctrl-C while it works or ends gives exit code 130, or the one that it already
has, and no traceback."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NoReturn

INTERRUPTED = 130


def process(main: Callable[[], int]) -> NoReturn:
    """Run `main` as this process and exit with what it returns; a second Ctrl-C that `main` does not handle itself ends
    it at once.

    The interpreter still has work when `main` is over: it waits for threads, calls what was registered for the end, and
    takes modules down. A Ctrl-C that comes meanwhile, as a second one often does, would print a traceback of a command
    that has said how it ended.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        if pressed:
            os._exit(INTERRUPTED)
        pressed = True
        raise KeyboardInterrupt

    # What is registered first is called last. Nothing is left to say from there on, and only modules are taken down.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as a shell has it for what it starts in the background
        signal.signal(signal.SIGINT, press)
    code = INTERRUPTED

    def ended(_kind: object, error: BaseException | None, _trace: object) -> bool:
        """Whether it was an interrupt, which may arrive as something else when it was raised in the middle of an
        import; or an exit."""
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
    # A thread may never end; then Ctrl-C must still work.
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    raise SystemExit(code)
