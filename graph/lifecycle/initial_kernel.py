"""v0 of a task that gives only PyTorch logic: the coder writes it, the judge says whether it is right (mission E4)."""

from __future__ import annotations

from agents.lift.from_reference import LANGUAGE_MODEL_CODER, lift_reference
from agents.roles import coder
from agents.tool_use.workbench import failure_text
from graph.artifacts import Lifted
from graph.services import Services
from tools.artifacts import Candidate, Failed, Task, Unmeasured
from tools.errors import BudgetError, SettingsError
from tools.executors.base import Executor
from tools.judge import evidence
from tools.languages.base import Language, open_language
from tools.store.records import Blobs
from tools.tasks.inductor_code import generate_inductor_code
from tools.tasks.loader import LoadedTask

LIFTED = "torch.compile"
"""Whose code v0 is where no model wrote it."""


def written(loaded: LoadedTask, services: Services) -> LoadedTask:
    """The task with a v0 that compiles and agrees with its reference; from here on it is as if the user had given it.

    It is what torch.compile makes of the reference, where that can be lifted: no model has to write what users have
    already. Else a language model writes it; it is told what was wrong and tries again, `search.fix_rounds` times.
    SettingsError, in one sentence, where no v0 comes of it.
    """
    agent = services.agents["coder"]
    failures: tuple[str, ...] = ()
    tries = 1 + services.settings.search.fix_rounds if agent.model.reads == "prompt" else 0
    try:
        made, by = (
            lift(loaded.task, services.executor, services.records.blobs, services.settings.judge.job_limit_s),
            LIFTED,
        )
        services.keep("lift", Lifted(source=made.source))
    except SettingsError:
        if not tries:
            raise
        made, tries = _asked(loaded, services, failures), tries - 1
        by = agent.model.provider
    while (fault := _fault(made, services)) is not None:
        if not tries:
            wrote = (
                f"the one that {by} gave" if by == LIFTED else f"the one that the coder ({by}) wrote from reference.py"
            )
            raise SettingsError(
                f"{loaded.task.name}: no kernel is given, and {wrote} is refused: {fault.reason.rstrip('.')}; give "
                f"a kernel" + (f", or {LANGUAGE_MODEL_CODER}" if by == LIFTED else "")
            )
        failures = (*failures, failure_text("the first version", fault, made.source))
        made, by, tries = _asked(loaded, services, failures), agent.model.provider, tries - 1
    return with_kernel(loaded, made, by)


def lift(task: Task, executor: Executor, blobs: Blobs, limit_s: float) -> Candidate:
    """What torch.compile makes of the reference, as a kernel of the task's language. SettingsError, in one sentence,
    where that is none."""
    try:
        source = lift_reference(task, generate_inductor_code(task, executor, blobs, limit_s))
    except SettingsError as error:
        raise SettingsError(f"{task.name}: no kernel is given, and none could be written: {error}") from error
    return Candidate(language=task.language, files={f"kernel{open_language(task.language).suffix}": source})


def _asked(loaded: LoadedTask, services: Services, failures: tuple[str, ...]) -> Candidate:
    try:
        return coder.write_first_kernel(services.agents["coder"], loaded.task, services.language.suffix, failures)
    except BudgetError as error:
        # Without v0 there is nothing to report.
        raise SettingsError(
            f"{loaded.task.name}: no kernel is given, and the coder cannot write one, {error}; raise it, or give "
            f"a kernel"
        ) from error


def with_kernel(loaded: LoadedTask, made: Candidate, by: str) -> LoadedTask:
    """The task with `made` as its v0, and the sentence that says where it comes from."""
    origin = (
        f"is what {LIFTED} makes of reference.py"
        if by == LIFTED
        else f"was written from reference.py by the coder ({by})"
    )
    task = loaded.task.model_copy(
        update={"baseline": made.source, "inferred": (*loaded.task.inferred, f"No kernel was given: v0 {origin}.")}
    )
    return loaded.model_copy(update={"task": task})


def misfit(made: Candidate, task: Task, language: Language) -> str | None:
    """How the kernel's parameters differ from the task's arguments, in one sentence."""
    try:
        taken = language.parameters(made.source)
    except SettingsError as error:
        return str(error)
    wanted = [(a.dtype, a.role != "scalar") for a in task.arguments]
    if all(p.pointer is None for p in taken) or [(p.dtype, p.pointer) for p in taken] == wanted:
        return None
    listed = ", ".join(f"{a.dtype}{'*' if a.role != 'scalar' else ''} {a.name}" for a in task.arguments)
    return f"the kernel must take ({listed}), in this order."


def _fault(made: Candidate, services: Services) -> Failed | Unmeasured | None:
    judge = services.judge
    refused = judge.screen_failure(made)
    if refused is not None:
        return refused
    differs = misfit(made, services.task, services.language)
    if differs is not None:
        return Failed(candidate=made.id, stage="build", reason=differs)
    failed = evidence.build_failure(judge.builder.read_or_build(made))
    return (
        failed
        or evidence.correctness_failure(judge.read_or_check_correctness(made, None, "baseline"))
        or _unfair(made, services)
    )


def _unfair(made: Candidate, services: Services) -> Failed | None:
    """A size derived from the visible ones on which it is wrong. A user's own kernel may be, and such a size is then
    asked of nobody; one written here must not take a size out of the contract."""
    record = services.judge.read_or_check_correctness(made, made, "first")
    failed = evidence.correctness_failure(record)
    if failed is not None:
        return failed
    for result in evidence.Correctness.model_validate(record.payload).cases:
        if (
            result.status == "dropped"
            and result.case.distribution == "as_given"
            and result.reason.startswith("the baseline")
        ):
            said = (
                f"wrong at the size {result.case.workload}: {result.reason.removeprefix('the baseline').lstrip(': ')}"
            )
            return Failed(candidate=made.id, stage="correctness", reason=said, log=said)
    return None
