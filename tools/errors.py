"""Every exception of the project.

    KernelwrightError
    ├── SettingsError            the user can mend it: one sentence that names the key or file      exit 2
    │   ├── WorkspaceError       the workspace is locked, dirty, foreign or incomplete              exit 2
    │   └── DiskFullError        no room to keep evidence; no finished work is lost                 exit 2
    └── InfrastructureError      the machine failed, never the kernel's fault                       exit 4
        ├── DeviceBusyError      another process uses the device
        ├── HarnessError         the harness died or answered nonsense
        ├── StorageError         a record or blob is missing, damaged or cannot be written
        └── ProviderError        no model answered
            ├── RefusalError     it will not answer this
            └── OverloadedError  it has no room now, after all retries

    PendingError and BudgetError end a run in order: somebody's answer is awaited (exit 6), a cap is reached (exit 3).
    UnusableAnswerError ends none: what a model said cannot be read, which costs an iteration at most.

A kernel that does not compile, is wrong, crashes or is slow is data (`Failed`), not an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class KernelwrightError(Exception):
    """Root of every error that this project raises on purpose."""

    workspace: Path | None = None
    """Of the run that it ended, where that can be taken up again."""
    usage: Mapping[str, str | int | float] | None = None
    """What a model took before, by the fields of `agents.models.base.Usage`; None: nothing that is known of."""


class SettingsError(KernelwrightError):
    """Something the user wrote cannot be used; the message names it, what is allowed and what to do."""


class WorkspaceError(SettingsError):
    """The workspace is in use, has changed behind our back, or is not one of ours."""


class DiskFullError(SettingsError):
    """There is no room to write; what is finished stays, and the run resumes when the user has freed some space."""


class InfrastructureError(KernelwrightError):
    """The machine, not the kernel, failed; never counted against an idea."""


class DeviceBusyError(InfrastructureError):
    """Another process uses the device, so that no measurement would be worth anything."""


class HarnessError(InfrastructureError):
    """The process beside the device died, timed out or answered something that cannot be read."""


class StorageError(InfrastructureError):
    """A record or blob is missing, damaged or cannot be written."""


class ProviderError(InfrastructureError):
    """A model could not be asked, or what it sent cannot be an answer; the message names the role's entry in the
    config."""


class RefusalError(ProviderError):
    """The model declined to answer."""


class OverloadedError(ProviderError):
    """The provider has no room now, and retries did not help."""


class PendingError(KernelwrightError):
    """An answer is awaited from outside; the message names the file to write, and the run is resumed when it is
    there."""

    def __init__(self, message: str, file: Path) -> None:
        super().__init__(message)
        self.file = file
        """To be written by whoever answers."""


class UnusableAnswerError(KernelwrightError):
    """A model answered, and nothing in it can be made out, even when it was asked again: no failure of a machine."""


class BudgetError(KernelwrightError):
    """What comes next would pass a cap, or has reached it; the message names it."""
