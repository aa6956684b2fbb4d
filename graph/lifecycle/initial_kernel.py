"""v0 of a task without a kernel: torch.compile or the coder writes it, and the judge checks it (mission E4)."""

from __future__ import annotations

from agents.lift.from_reference import LANGUAGE_MODEL_CODER, lift_reference
from agents.roles import coder
from agents.tool_use.workbench import failure_text
from graph.artifacts import LiftResult
from graph.services import Services
from tools.artifacts import Candidate, Failed, Task, Unmeasured
from tools.errors import BudgetError, SettingsError
from tools.executors.base import Executor
from tools.judge import evidence
from tools.languages.base import Language, open_language
from tools.store.blobs import Blobs
from tools.tasks.inductor_code import generate_inductor_code
from tools.tasks.loader import LoadedTask

LIFT_ORIGIN = "torch.compile"
"""The origin of a v0 that no model wrote."""


def write_initial_kernel(loaded: LoadedTask, services: Services) -> LoadedTask:
    """Return the task with a v0 that compiles and agrees with its reference, as if the user had given it.

    v0 is the code of torch.compile if it can be lifted. Otherwise a language model writes it, with up to
    `search.fix_attempts` further attempts after a failure. Where the user gave a function of their own, a model ports
    it, and the lift comes last. Raises SettingsError if there is no correct v0.
    """
    agent = services.agents["coder"]
    attempts = 1 + services.settings.search.fix_attempts if agent.model.reads == "prompt" else 0
    asked = [agent.model.provider] * attempts
    origins = [*asked, LIFT_ORIGIN] if loaded.task.baseline_function else [LIFT_ORIGIN, *asked]
    failures: tuple[str, ...] = ()
    while True:
        origin = origins.pop(0)
        try:
            kernel = _lift(loaded, services) if origin == LIFT_ORIGIN else _ask_coder(loaded, services, failures)
        except SettingsError:
            # A coder that gives no kernel is not asked again.
            origins = [other for other in origins if other != origin]
            if not origins:
                raise
            continue
        fault = _kernel_failure(kernel, services)
        if fault is None:
            return with_kernel(loaded, kernel, origin)
        if not origins:
            description = (
                f"the one that {origin} gave"
                if origin == LIFT_ORIGIN
                else f"the one that the coder ({origin}) wrote from reference.py"
            )
            raise SettingsError(
                f"{loaded.task.name}: no kernel is given, and {description} is refused: "
                f"{fault.reason.rstrip('.')}; give "
                f"a kernel" + (f", or {LANGUAGE_MODEL_CODER}" if origin == LIFT_ORIGIN else "")
            )
        failures = (*failures, failure_text("the first version", fault, kernel.source))


def _lift(loaded: LoadedTask, services: Services) -> Candidate:
    limit_s = services.settings.judge.job_limit_s
    kernel = lift_initial_kernel(loaded.task, services.executor, services.records.blobs, limit_s)
    services.save_record("lift", LiftResult(source=kernel.source))
    return kernel


def lift_initial_kernel(task: Task, executor: Executor, blobs: Blobs, limit_s: float) -> Candidate:
    """Return the code of torch.compile for the reference as a kernel of the task's language; SettingsError:
    impossible."""
    try:
        source = lift_reference(task, generate_inductor_code(task, executor, blobs, limit_s))
    except SettingsError as error:
        raise SettingsError(f"{task.name}: no kernel is given, and none could be written: {error}") from error
    return Candidate(language=task.language, files={f"kernel{open_language(task.language).suffix}": source})


def _ask_coder(loaded: LoadedTask, services: Services, failures: tuple[str, ...]) -> Candidate:
    try:
        known = {"machine": services.machine, "architecture": services.architecture}
        suffix = services.language.suffix
        return coder.write_first_kernel(services.agents["coder"], loaded.task, suffix, failures, **known)
    except BudgetError as error:
        # Without v0 there is nothing to report.
        raise SettingsError(
            f"{loaded.task.name}: no kernel is given, and the coder cannot write one, {error}; raise it, or give "
            f"a kernel"
        ) from error


def with_kernel(loaded: LoadedTask, kernel: Candidate, origin: str) -> LoadedTask:
    """Return the task with `kernel` as its v0 and a sentence on its origin."""
    written = "ported from your function" if loaded.task.baseline_function else "written from reference.py"
    sentence = (
        f"is what {LIFT_ORIGIN} makes of reference.py"
        if origin == LIFT_ORIGIN
        else f"was {written} by the coder ({origin})"
    )
    inferred, authors = (*loaded.task.inferred, f"No kernel was given: v0 {sentence}."), loaded.task.authors
    if not loaded.task.baseline_function:
        authors = authors.model_copy(update={"baseline": "run"})
    task = loaded.task.model_copy(update={"baseline": kernel.source, "inferred": inferred, "authors": authors})
    return loaded.model_copy(update={"task": task})


def signature_mismatch(kernel: Candidate, task: Task, language: Language) -> str | None:
    """Return one sentence if the kernel's parameters differ from the task's arguments; None: they match."""
    try:
        parameters = language.parameters(kernel.source)
    except SettingsError as error:
        return str(error)
    expected = [(a.dtype, a.role != "scalar") for a in task.arguments]
    if all(p.pointer is None for p in parameters) or [(p.dtype, p.pointer) for p in parameters] == expected:
        return None
    listed = ", ".join(f"{a.dtype}{'*' if a.role != 'scalar' else ''} {a.name}" for a in task.arguments)
    return f"the kernel must take ({listed}), in this order."


def _kernel_failure(kernel: Candidate, services: Services) -> Failed | Unmeasured | None:
    judge = services.judge
    refused = judge.screen_failure(kernel)
    if refused is not None:
        return refused
    differs = signature_mismatch(kernel, services.task, services.language)
    if differs is not None:
        return Failed(candidate=kernel.id, stage="build", reason=differs)
    failed = evidence.build_failure(judge.builder.read_or_build(kernel))
    return (
        failed
        or evidence.correctness_failure(judge.read_or_check_correctness(kernel, None, "baseline"))
        or _derived_size_failure(kernel, services)
    )


def _derived_size_failure(kernel: Candidate, services: Services) -> Failed | None:
    """Return the failure of a written v0 on a size derived from the visible ones; None: it has none.

    A user's own kernel may fail there, and the size is then dropped for all candidates. So is a size at which a dim
    without a range has another value than in the visible workloads: code may be made for each of these.
    """
    task = services.task
    fixed = {n: {w.dims.get(n) for w in task.workloads} for n in task.workloads[0].dims if n not in task.dims_range}
    fixed = fixed if task.dims_range else {}
    record = services.judge.read_or_check_correctness(kernel, kernel, "first")
    failed = evidence.correctness_failure(record)
    if failed is not None:
        return failed
    for result in evidence.Correctness.model_validate(record.payload).cases:
        if (
            result.status == "dropped"
            and result.case.distribution == "as_given"
            and all(result.case.dims.get(name) in values for name, values in fixed.items())
            and result.reason.startswith("the baseline")
        ):
            reason = (
                f"wrong at the size {result.case.workload}: {result.reason.removeprefix('the baseline').lstrip(': ')}"
            )
            return Failed(candidate=kernel.id, stage="correctness", reason=reason, log=reason)
    return None
