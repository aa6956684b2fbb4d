"""Kernels as if a run had accepted them, and exported packages as somebody installs and tests them."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import Any

from graph.export.accepted import AcceptedKernel, TextByName
from tests.support import run_captured
from tools.languages.base import Language
from tools.tasks.loader import LoadedTask

ROOT = Path(__file__).parents[1]


def made(loaded: LoadedTask, source: str, language: Language, flags: tuple[str, ...]) -> AcceptedKernel:
    """A kernel as if a run had accepted it."""
    given: dict[str, Any] = {
        "task": loaded.task,
        "probed_workloads": loaded.workloads,
        "source": source,
        "flags": flags,
    }
    return AcceptedKernel(
        **given, suffix=language.suffix, device=language.device, covers_drawn_sizes=True, title="A test."
    )


def written(files: TextByName, folder: Path) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def installed(folder: Path) -> dict[str, str]:
    """The program variables under which the wheel of `folder` is there; the folder's own test has passed with them."""
    done = run_captured(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."],
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (folder / "dist").iterdir()
    assert wheel.name.endswith(".whl") and "-cp310-abi3-" in wheel.name, "one wheel for several torch and Python"
    zipfile.ZipFile(wheel).extractall(folder / "installed")
    return {**os.environ, "PYTHONPATH": str(folder / "installed")}


def passes_its_test(folder: Path, place: dict[str, str]) -> None:
    (test,) = folder.glob("test_*.py")
    done = run_captured(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test.name], cwd=folder, env=place
    )
    assert done.returncode == 0, done.stdout + done.stderr
