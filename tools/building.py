"""One build job: from a kernel's source to its library, or to the compiler's complaint."""

from __future__ import annotations

from tools import evidence
from tools.artifacts import Candidate, Task
from tools.errors import HarnessError, SettingsError
from tools.executors.base import Executor
from tools.languages.base import Language
from tools.records import Blobs


def compile_kernel(task: Task, candidate: Candidate, language: Language, executor: Executor, blobs: Blobs) -> evidence.Build:
    """Compile once, keep nothing but blobs. HarnessError when the compiler says it succeeded but left no library."""
    job = language.build(task, candidate, blobs)
    finished = executor.run(job)
    library = language.built(finished)
    if finished.exit_code == 0 and not finished.timed_out and library is None:
        raise HarnessError(f"{job.argv[0]} ended well but left no library; run `python -m tools env` and try again")
    log = "\n".join(filter(None, (blobs.text(finished.files[name]) for name in ("stderr.txt", "stdout.txt"))))
    if finished.timed_out:
        log += f"\nThe compiler was stopped after {job.limits.wall_s:g} s."
    toolchain = language.toolchain()
    return evidence.Build(
        candidate=candidate.id,
        ok=library is not None,
        library=library,
        compiled=language.compiled(finished),
        log=language.trim(log) or log[-2000:].strip(),
        log_blob=blobs.put(log),
        argv=job.argv,
        compiler=f"{toolchain.name} {toolchain.version}",
        seconds=finished.usage.wall_s,
    )


def compiled(task: Task, language: Language, executor: Executor, blobs: Blobs, *, name: str = "") -> str:
    """sha256 of the user's own kernel, compiled; SettingsError with the compiler's first complaint when it does not compile.

    `name`: how the user calls the file.
    """
    if task.baseline is None:
        raise SettingsError(f"task {task.name}: there is no kernel to compile, only a reference")
    built_as = f"kernel{language.suffix}"
    made = compile_kernel(task, Candidate(language=task.language, files={built_as: task.baseline}), language, executor, blobs)
    if made.library is None:
        name = name or built_as
        raise SettingsError(f"{name} does not compile with {made.compiler}; mend it and run again:\n{made.log.replace(built_as, name)}")
    return made.library
