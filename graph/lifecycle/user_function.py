"""The user's own function, checked against the reference and timed before anything else is."""

from __future__ import annotations

from typing import Literal

from tools.artifacts import Artifact, Record, Task
from tools.cli.formatting import format_seconds
from tools.errors import InfrastructureError, SettingsError
from tools.executors.base import Device, Executor, pick_device, reason_if_device_missing
from tools.gate import confirmation
from tools.gate.judge_settings import JudgeSettings
from tools.gate.ranking import USER_FUNCTION, user_function_seconds
from tools.judge.judge import Judge
from tools.languages.base import open_language
from tools.store.records import Records
from tools.tasks.loader import LoadedTask


class FunctionCheck(Artifact):
    """What a few calls of the user's function showed."""

    call: str
    status: Literal["agrees", "not_timed"]
    reason: str = ""
    """Why it could not be timed, as a sentence without an end."""
    seconds: float | None = None
    """Weighted sum of the median times of a call of each workload, by the device's events on a GPU; None: not timed."""
    device: str = ""

    def sentence(self) -> str:
        """Return the result in one sentence."""
        if self.status == "not_timed":
            about = self.reason if self.reason.startswith(self.call) else f"{self.call}: {self.reason}"
            return f"{about}, so it is not timed"
        timed = "" if self.seconds is None else f"; {format_seconds(self.seconds)} at {self.device}"
        return f"{self.call} agrees with the reference{timed}{f' ({self.reason})' if self.reason else ''}"


def open_judge(
    task: Task,
    executor: Executor,
    records: Records,
    policy: JudgeSettings,
    device: Device,
    environment: str = "",
    secret: bytes | None = None,
) -> Judge:
    """Return a judge that reports no events, with a secret of its own if none is given."""
    return Judge(
        task,
        open_language(task.language),
        executor,
        records,
        environment=environment,
        device=device.label,
        secret=executor.draw_secret() if secret is None else secret,
        policy=policy,
        emit=lambda kind, details: None,
    )


def check_user_function(
    loaded: LoadedTask, executor: Executor, records: Records, policy: JudgeSettings, environment: str = ""
) -> FunctionCheck | None:
    """Check the task's own function with two inputs of each workload, and time it where the device of the task's
    language is; None: the task names none. Raises SettingsError if it computes something else than the reference."""
    function, needed = loaded.task.baseline_function, open_language(loaded.task.language).device
    if function is None:
        return None
    absent = reason_if_device_missing(executor.devices(), needed)
    device = pick_device(executor.devices(), "cpu" if absent else needed)
    judge = open_judge(loaded.task, executor, records, policy, device, environment)
    try:
        record = judge.read_or_check_user_function(device.kind)
    except InfrastructureError as error:
        return FunctionCheck(call=function.call, status="not_timed", reason=str(error).rstrip("."))
    return _function_check(loaded.task.name, function.call, record, device, absent)


def _function_check(task: str, call: str, record: Record, device: Device, absent: str | None) -> FunctionCheck:
    result = confirmation.Contest.model_validate(record.payload).result
    if reason := result.unavailable.get(USER_FUNCTION, "").rstrip("."):
        if USER_FUNCTION in result.wrong:
            raise SettingsError(f"{task}: task.yaml: baseline: {reason}; correct the one that is wrong, and run again")
        return FunctionCheck(call=call, status="not_timed", reason=f"{reason} ({absent})" if absent else reason)
    if absent:
        return FunctionCheck(call=call, status="agrees", reason=f"on the CPU, and not timed: {absent}")
    return FunctionCheck(call=call, status="agrees", seconds=user_function_seconds(record), device=device.name)
