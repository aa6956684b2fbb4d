"""Every citation of the gpu-wiki and of reference projects in a workspace, opened again: does the line still say
what was cited, and does it give the figure that cites it?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from knowledge_base.pages.wiki import Wiki, WikiProblem, lines_of
from knowledge_base.search.cited_values import CITATION_TEXT, check_values
from knowledge_base.search.code_chunks import REFERENCE_PREFIX, ReferenceProjects
from tools.artifacts import digest
from tools.errors import SettingsError

CITING_FILES = ("records/*.json", "memory/*.json", "*.md", "versions/**/*.md", "versions/**/*.json")
"""Where a run writes citations down."""
CITATION_JSON = re.compile(r'"path":\s*"([^"\\]+)",\s*"line":\s*(\d+),\s*"sha256":\s*"([0-9a-f]{64})"')
"""A Citation as records hold it."""


class CitationUse(NamedTuple):
    """One citation where it stands."""

    file: str
    """Relative to the workspace."""
    at: int
    """Line in that file, from 1."""
    path: str
    """In the wiki, or PREFIX and in the folder of reference projects."""
    line: int
    sha256: str
    """Empty where the file gives none: then any hash that the workspace holds for that line counts."""


def check_citations(
    workspace: Path, wiki: Wiki, reference: ReferenceProjects | None = None
) -> tuple[int, int, tuple[WikiProblem, ...]]:
    """How many lines are cited, how many figures there are, and what is wrong with them, opened again; lines of
    reference projects where their folder is given. SettingsError when `workspace` is no folder that a run made."""
    if not (workspace / "records").is_dir():
        raise SettingsError(f"--workspace: {workspace} holds no records; name a folder that `python -m graph run` made")
    wikis = (wiki, wiki.or_bundled_methods())
    found: list[CitationUse] = []
    problems: list[WikiProblem] = []
    texts: dict[str, str] = {}
    for file in _citing_paths(workspace):
        name = file.relative_to(workspace).as_posix()
        try:
            text = texts[name] = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problems.append(WikiProblem(name, 1, f"cannot be read: {error}"))
            continue
        found += (
            one for one in _citations(name, text) if reference is not None or not one.path.startswith(REFERENCE_PREFIX)
        )
    held: dict[tuple[str, int], set[str]] = {}
    for one in found:
        if one.sha256:
            held.setdefault((one.path, one.line), set()).add(one.sha256)
    problems += [problem for one in found if (problem := _stale_problem(one, held, wikis, reference)) is not None]

    def line_at(path: str, line: int) -> str | None:
        text = _current_line(path, line, wikis, reference)
        return text if text is not None and digest(text) in held.get((path, line), {digest(text)}) else None

    figures, wrong = check_values(texts, wiki, line_at)
    return len(found), figures, tuple(sorted({*problems, *wrong}))


def wiki_path_of(workspace: Path) -> Path | None:
    """The `gpu_wiki_path` of a workspace's settings; None: the bundled wiki."""
    return _settings_path(workspace, "gpu_wiki_path")


def reference_projects_of(workspace: Path) -> ReferenceProjects | None:
    """The `reference_projects` of a workspace's settings; None where it had none, or they are gone: the dossier
    keeps what was cited."""
    folder = _settings_path(workspace, "reference_projects")
    return ReferenceProjects(folder) if folder and folder.is_dir() else None


def _settings_path(workspace: Path, key: str) -> Path | None:
    path = workspace / "settings.yaml"
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(
            f"--workspace: {workspace} has no settings.yaml; name a folder that `python -m graph run` made"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: cannot be read; restore it with `git checkout -- settings.yaml` there") from error
    named = settings.get(key) if isinstance(settings, dict) else None
    return workspace / str(named) if named else None


def _citing_paths(workspace: Path) -> list[Path]:
    return sorted({path for pattern in CITING_FILES for path in workspace.glob(pattern) if path.is_file()})


def _citations(name: str, text: str) -> Iterator[CitationUse]:
    for match in CITATION_JSON.finditer(text):
        # Passages and other things have a path and a line, too; only a Citation has a hash behind them.
        if not match[1].startswith("<") or match[1].startswith(f"{REFERENCE_PREFIX}/"):
            yield CitationUse(name, text.count("\n", 0, match.start()) + 1, match[1], int(match[2]), match[3])
    for number, line in enumerate(lines_of(text), 1):
        for match in CITATION_TEXT.finditer(line):
            yield CitationUse(name, number, match[1], int(match[2]), "")


def _stale_problem(
    one: CitationUse,
    held: dict[tuple[str, int], set[str]],
    wikis: tuple[Wiki, Wiki],
    reference: ReferenceProjects | None,
) -> WikiProblem | None:
    if one.path.startswith(REFERENCE_PREFIX) and reference is not None:
        cited, within = f"{one.path}:{one.line}", reference.root
    else:
        cited, within = f"<gpu-wiki>/{one.path}:{one.line}", wikis[0].root
    line = _current_line(one.path, one.line, wikis, reference)
    if line is None:
        return WikiProblem(one.file, one.at, f"{cited} does not exist any more in {within}")
    hashes = {one.sha256} if one.sha256 else held.get((one.path, one.line), set())
    if hashes and digest(line) not in hashes:
        return WikiProblem(
            one.file, one.at, f"{cited} does not say any more what was cited; it is now: {line.strip()[:120]!r}"
        )
    return None


def _current_line(path: str, line: int, wikis: tuple[Wiki, Wiki], reference: ReferenceProjects | None) -> str | None:
    root, _, name = path.partition("/")
    if root == REFERENCE_PREFIX and reference is not None:
        return reference.line(name, line)
    return next((text for wiki in wikis if (text := wiki.line(path, line)) is not None), None)
