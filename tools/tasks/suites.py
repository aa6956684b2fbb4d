"""The interface of benchmark suites: how a suite's problem is recognised and converted to a task folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from tools.artifacts import Artifact
from tools.errors import SettingsError
from tools.registry import load_class

SUITES = {
    "execbench": "tools.tasks.execbench:ExecBench",
    "gpumode": "tools.tasks.gpumode:GpuMode",
    "kernelbench": "tools.tasks.kernelbench:KernelBench",
}
"""Name -> class, in the order in which formats are tried; a new suite is one file and one line here.

`execbench` is the common format of SOL-ExecBench and FlashInfer-Bench."""


class SuiteSource(Artifact):
    """What a reader made a task folder of."""

    path: str
    """Of the problem."""
    sizes: str = ""
    """What replaced the suite's own sizes."""


class SuiteFormat(ABC):
    """The problem format of a benchmark suite."""

    problem_description: str
    """What a problem of the suite is on disk, for error messages."""

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """Return whether `path` looks like a problem of this suite and not like a task folder or a config."""

    @abstractmethod
    def task_files(self, problem: Path, sizes: str) -> tuple[dict[str, str], str]:
        """Return the task folder's files (name -> text) and a sentence about its workloads.

        `sizes`, e.g. "M=8; M=64", replaces the suite's own sizes. Raises SettingsError for a problem that cannot become
        a task.
        """


def recognise_suite(path: Path) -> SuiteFormat | None:
    """Return the first suite whose problems `path` looks like, or None."""
    return next((suite for suite in _all_suites() if suite.recognises(path)), None)


def task_files_of(problem: Path, sizes: str) -> tuple[dict[str, str], str]:
    """Return what `SuiteFormat.task_files` of the problem's suite does; SettingsError if it is of none."""
    suite = recognise_suite(problem)
    if suite is None:
        known = ", ".join(suite.problem_description for suite in _all_suites())
        raise SettingsError(f"{problem}: not a problem of a suite; give one of these: {known}")
    return suite.task_files(problem, sizes)


def write_task_folder(problem: Path, folder: Path, sizes: str) -> tuple[Path, str]:
    """Write the task folder of a suite's problem; return the folder and a sentence about its sizes.

    Raises SettingsError for a path that is no problem of a suite, and for existing files with other contents, which
    are not overwritten.
    """
    files, sentence = task_files_of(problem, sizes)
    source = SuiteSource(path=str(problem.resolve()), sizes=sizes)
    files["task.yaml"] += f"problem: {source.model_dump_json()}\n"
    for name, content in files.items():
        path = folder / name
        # The user may have changed the language in task.yaml, or another machine wrote it.
        if name != "task.yaml" and path.exists() and path.read_text(encoding="utf-8") != content:
            raise SettingsError(
                f"{path}: exists with other contents and is not overwritten; name another folder with --out"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if not (folder / name).exists():
            (folder / name).write_text(content, encoding="utf-8")
    return folder, sentence


def _all_suites() -> list[SuiteFormat]:
    return [load_class(SUITES, name, SuiteFormat, key="suite")() for name in SUITES]
