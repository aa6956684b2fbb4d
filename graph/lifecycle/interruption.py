"""The interruption of a run: its message, what remains, and the workspace from which it can be resumed."""

from __future__ import annotations

import logging
import queue
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graph.services import Services
from graph.workspace.folder import Workspace
from graph.workspace.versions import checkpoint_path, read_state
from tools.errors import (
    DiskFullError,
    InfrastructureError,
    KernelwrightError,
    PendingError,
    SettingsError,
    StorageError,
    WorkspaceError,
)
from tools.store.blobs import disk_full_error, disk_full_error_if_low


@contextmanager
def resumable(workspace: Workspace) -> Iterator[None]:
    """Let exceptions that end a run name the workspace from which it can be resumed.

    A workspace whose v0 is refused is deleted: resumed, it would be refused again.
    """
    root = workspace.root
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(str(root)) from None
    except (sqlite3.DatabaseError, InfrastructureError) as error:
        failure = _machine_failure(error, checkpoint_path(workspace))
        failure.workspace = root
        raise failure from error
    except (DiskFullError, WorkspaceError) as error:
        error.workspace = root
        raise
    except PendingError as error:
        error.workspace = root
        workspace.set_awaited(str(error))
        raise
    except SettingsError as error:
        # Without a checkpoint git still says whether there is anything to keep.
        if workspace.repository.head() or read_state(workspace).get("baseline"):
            error.workspace = root
        else:
            workspace.discard()
        raise


@contextmanager
def stop_on_interrupt(services: Services) -> Iterator[None]:
    """Let the first Ctrl-C stop the run after its current job or exchange, and the second at once."""
    executor = services.executor
    # Its put may interrupt itself; whoever writes must not do so from a signal handler, which may have interrupted a
    # write.
    pressed: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def stop(_number: int, _frame: object) -> None:
        if executor.stopping.is_set():
            # LangGraph's threads still hand in what they were at, to a pool that takes nothing any more: a traceback on
            # stderr for each.
            logging.getLogger("concurrent.futures").disabled = True
            executor.end_jobs()
            raise KeyboardInterrupt
        executor.stopping.set()
        pressed.put(True)

    def announce_interrupt() -> None:
        if pressed.get():
            services.emit("interrupt", {"workspace": str(services.workspace.root)})

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    announcer = threading.Thread(target=announce_interrupt, daemon=True)
    announcer.start()
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        pressed.put(False)
        announcer.join()


def _machine_failure(error: sqlite3.DatabaseError | InfrastructureError, checkpoint: Path) -> KernelwrightError:
    """Return the error to raise: DiskFullError if the disk is full, else the failure itself, a checkpoint's as
    StorageError."""
    full = disk_full_error_if_low(checkpoint.parent)
    if full is not None:
        return full
    if isinstance(error, InfrastructureError):
        return error
    if "full" in str(error):
        return disk_full_error(checkpoint.parent)
    return StorageError(
        f"{checkpoint}: the checkpoint cannot be used ({error}); `resume` makes a damaged one again from git and "
        "records"
    )
