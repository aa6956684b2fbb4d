"""A problem of a suite as a task folder, whichever suite it is of."""

from __future__ import annotations

from pathlib import Path

from tools.errors import SettingsError
from tools.tasks import definitions, gpumode, kernelbench


def of_a_suite(path: Path) -> bool:
    """Whether a path looks like a problem of one, and not like a task folder or a config."""
    return (path.is_file() and path.suffix == ".py") or definitions.is_definition(path) or gpumode.is_problem(path)


def folder_of(problem: Path, folder: Path, sizes: str) -> tuple[Path, str]:
    """The task folder of a problem, written where it is not there yet, and a sentence about its sizes.

    `problem`: a file of KernelBench, a definition of SOL-ExecBench or FlashInfer-Bench (or the folder that holds it), a
    folder of GPU MODE. SettingsError for what is none of these, and where `folder` holds something else.
    """
    if definitions.is_definition(problem):
        files, told = definitions.files_of(problem, sizes)
    elif gpumode.is_problem(problem):
        files, told = gpumode.files_of(problem, sizes)
    elif problem.is_dir():
        raise SettingsError(
            f"{problem}: holds neither definition.json nor task.yml; name a KernelBench file or a folder with one "
            f"of these"
        )
    else:
        files, told = kernelbench.files_of(problem, sizes)
    for name, content in files.items():
        there = folder / name
        # The language in task.yaml is the user's to change, or was another machine's.
        if name != "task.yaml" and there.exists() and there.read_text(encoding="utf-8") != content:
            raise SettingsError(
                f"{there}: says something else, and nothing is overwritten; name another folder with --out"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if not (folder / name).exists():
            (folder / name).write_text(content, encoding="utf-8")
    return folder, told
