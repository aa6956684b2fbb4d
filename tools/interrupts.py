"""How a command ends as a process: Ctrl-C at any moment gives exit code 130 or the one that it already has, never a traceback."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Callable
from typing import NoReturn

INTERRUPTED = 130


def process(main: Callable[[], int]) -> NoReturn:
    """Run `main` as this process and exit with what it returns.

    The interpreter still has work when `main` is over: it waits for threads, calls what was registered for the end, and takes modules
    down. A Ctrl-C that comes meanwhile, as a second one often does, would print a traceback of a command that has said how it ended.
    """
    # What is registered first is called last. From there on nothing can hang, so that Ctrl-C need not end it.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    code = INTERRUPTED
    try:
        code = main()
    except KeyboardInterrupt:
        pass
    finally:
        # A thread may never end; then Ctrl-C must still work.
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    raise SystemExit(code)
