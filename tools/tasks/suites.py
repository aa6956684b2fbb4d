"""The seam for benchmark suites: how a problem of one is recognised and turned into a task folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from tools.errors import SettingsError
from tools.registry import load_class

SUITES = {
    "execbench": "tools.tasks.execbench:ExecBench",
    "gpumode": "tools.tasks.gpumode:GpuMode",
    "kernelbench": "tools.tasks.kernelbench:KernelBench",
}
"""Name -> class, in the order in which they are asked; a new suite is one file and one line here.

`execbench` is the format that SOL-ExecBench and FlashInfer-Bench share."""


class SuiteFormat(ABC):
    """One suite's format of problems."""

    problems: str
    """What a problem of it is on disk, for the sentence about a path that is none."""

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """Return whether `path` looks like a problem of this suite, and not like a task folder or a config."""

    @abstractmethod
    def task_files(self, problem: Path, sizes: str) -> tuple[dict[str, str], str]:
        """Return the task folder's files (name -> text) and a sentence about its workloads.

        `sizes` replaces the suite's own, e.g. "M=8; M=64". SettingsError for what cannot be a task.
        """


def recognise_suite(path: Path) -> SuiteFormat | None:
    """Return the suite that a path looks like a problem of, or None."""
    return next((suite for suite in _all_suites() if suite.recognises(path)), None)


def write_task_folder(problem: Path, folder: Path, sizes: str) -> tuple[Path, str]:
    """Write the task folder of a suite's problem; return it and a sentence about its sizes.

    SettingsError for a path that is of no suite, and for a `folder` whose files differ: nothing is overwritten.
    """
    suite = recognise_suite(problem)
    if suite is None:
        known = ", ".join(suite.problems for suite in _all_suites())
        raise SettingsError(f"{problem}: is no problem of a suite; give one of these: {known}")
    files, sentence = suite.task_files(problem, sizes)
    for name, content in files.items():
        path = folder / name
        # The language in task.yaml is the user's to change, or was another machine's.
        if name != "task.yaml" and path.exists() and path.read_text(encoding="utf-8") != content:
            raise SettingsError(f"{path}: holds something else, and is not overwritten; name another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if not (folder / name).exists():
            (folder / name).write_text(content, encoding="utf-8")
    return folder, sentence


def _all_suites() -> list[SuiteFormat]:
    return [load_class(SUITES, name, SuiteFormat, key="suite")() for name in SUITES]
