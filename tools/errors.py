"""Every exception of the project.

    KernelwrightError
    ├── SettingsError            a mistake of the user: one sentence that names the key or file     exit 2
    │   ├── UnusableTaskError    the contract is known, but no kernel can be judged by the reference exit 2
    │   ├── WorkspaceError       the workspace is locked, changed, of another program or incomplete exit 2
    │   └── DiskFullError        no space for records; no finished work is lost                     exit 2
    └── InfrastructureError      the machine failed, not the kernel                                 exit 4
        ├── DeviceBusyError      another process uses the device
        ├── HarnessError         the harness died or sent an unreadable answer
        ├── StorageError         a record or blob is missing, damaged or cannot be written
        └── ProviderError        no model answered
            ├── RefusalError     the model declines to answer
            └── OverloadedError  the provider has no capacity, after all retries

    PendingError and BudgetError end a run regularly: an answer or the run's machine is awaited (exit 6), a cap is
    reached (exit 3).
    UnusableAnswerError does not end a run: a model's answer cannot be read, which costs an iteration at most.

A kernel that does not compile, is wrong, crashes or is slow is data (`Failed`), not an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class KernelwrightError(Exception):
    """Base class of all errors that this project raises on purpose."""

    workspace: Path | None = None
    """Workspace of the run that the error ended, if the run can be resumed."""
    usage: Mapping[str, str | int | float] | None = None
    """Usage of a model before the error, by the fields of `agents.models.base.Usage`; None: unknown."""
    contract: Mapping[str, object] | None = None
    """Contract of the task whose check the error ended, where it is known."""


class SettingsError(KernelwrightError):
    """A setting or file of the user cannot be used; the message names it, what is allowed and what to do."""


class UnusableTaskError(SettingsError):
    """A reference has a contract, but no kernel can be judged by it."""

    def __init__(self, sentence: str, loaded: object) -> None:
        super().__init__(sentence)
        self.loaded = loaded
        """The `tools.tasks.loader.LoadedTask` as far as it is known."""


class WorkspaceError(SettingsError):
    """The workspace is in use, was changed by another program, or is not a workspace of this project."""


class DiskFullError(SettingsError):
    """The disk is full; what is finished stays, and the run can be resumed after the user has freed space."""


class InfrastructureError(KernelwrightError):
    """The machine failed, not the kernel; the failure never counts against a method."""


class DeviceBusyError(InfrastructureError):
    """Another process uses the device, so measurements would be worthless."""


class HarnessError(InfrastructureError):
    """The harness process died, timed out or sent an answer that cannot be read."""


class StorageError(InfrastructureError):
    """A record or blob is missing, damaged or cannot be written."""


class ProviderError(InfrastructureError):
    """A model could not be reached, or its response is not an answer; the message names the role's config entry."""


class RefusalError(ProviderError):
    """The model declined to answer."""


class OverloadedError(ProviderError):
    """The provider has no capacity, and retries did not help."""


class PendingError(KernelwrightError):
    """An answer from outside or the run's machine is awaited; the message names the file to write, or the device, with
    which the run can be resumed."""

    def __init__(self, message: str, file: Path | None = None) -> None:
        super().__init__(message)
        self.file = file
        """File that must contain the answer; None: no answer is awaited."""


class UnusableAnswerError(KernelwrightError):
    """A model's answer cannot be parsed, even after a second request; the machine did not fail."""


class BudgetError(KernelwrightError):
    """A cap is reached, or the next step would exceed it; the message names the cap."""
