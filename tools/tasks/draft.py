"""What every written task folder has: questions to the user where something is unknown, and a config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tools.errors import SettingsError

FILL = "FILL:"
"""Begins what is left to the user, in every file that is written."""
CONFIG = """\
task: .
# The default is the playbook: in CUDA it only searches constants; in CUTLASS and CuTe DSL it changes
# nothing. A language model can change any kernel (docs/your-model.md):
# models: {default: {provider: anthropic, model: claude-opus-5-5}}
# budget: {usd: 10}
"""


def refuse_used_folder(folder: Path) -> None:
    """Raise SettingsError for a folder that holds something."""
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder}: is not empty; nothing is overwritten, so name another folder with --out")


def write_draft(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Write a folder and return what is left to the user, `file:lines: question` each."""
    questions = dict[tuple[str, str], list[str]]()
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
        for number, line in enumerate(content.splitlines(), 1):
            if FILL in line:
                questions.setdefault((path, line.split(FILL, 1)[1].strip()), []).append(str(number))
    return [f"{path}:{', '.join(numbers)}: {question}" for (path, question), numbers in questions.items()]
