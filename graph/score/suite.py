"""The YAML file of a suite: its problems in order, and the settings that each is run with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from graph.settings import Section, Settings, load, parse
from tools.artifacts import digest
from tools.cli.validation import read_yaml, validation_sentences, yaml_fault
from tools.errors import SettingsError
from tools.tasks.loader import read_source
from tools.tasks.suites import recognise_suite, write_task_folder

DERIVED_KEYS = ("name", "task", "kernel", "reference", "workspaces", "gpu", "linked_to")
"""Keys of a run that follow from the problem and the output folder."""


class ProblemGroup(Section):
    """Some problems of a suite."""

    path: str
    """A task folder, a config or a problem as `--problem` takes it, or a pattern of such (`level1/*.py`); relative
    to the suite's file."""
    skip: tuple[str, ...] = ()
    """Patterns of names that are left out, e.g. `*conv*`."""
    every: int = Field(default=1, ge=1, strict=True)
    """Take the first of the remaining problems and then every n-th, in the order of their names."""
    settings: dict[str, Any] = {}
    """Keys of a config that replace the suite's, e.g. `budget: {wall_s: 600}`; `dims` gives a problem other sizes."""


class Suite(Section):
    """Problems that are scored together."""

    problems: tuple[ProblemGroup, ...]
    """Of several groups that name the same problem, the last one applies."""
    settings: dict[str, Any] = {}
    """Keys of a config for all problems, which replace those of a problem's own config."""


@dataclass(frozen=True)
class SuiteProblem:
    """One problem of a suite."""

    name: str
    """The name of its workspace and of its line, unique in the suite."""
    path: Path
    settings: Mapping[str, Any]
    """Keys of a config that replace the problem's own."""

    def run_settings(self, out: Path, suite: Path) -> Settings:
        """The settings of the run, whose workspace will be in `out`. Raises SettingsError for invalid ones.

        A problem that is a file becomes a task folder below `out`.
        """
        given, path = dict(self.settings), self.path
        if recognise_suite(path) is not None:
            path, _ = write_task_folder(path, out / "tasks" / self.name, str(given.pop("dims", "") or ""))
        own = load(path).model_dump(mode="json", exclude_none=True, exclude={"gpu", "linked_to"})
        return parse(
            merge_settings(own, given) | {"name": self.name, "workspaces": str(out)},
            origin=f"{suite}: {self.name}",
            base=suite.parent,
        )


def settings_digest(settings: Settings) -> str:
    """A digest of everything that decides what a run measures: the settings and the files that they name. Raises
    SettingsError for a file that is missing."""
    if settings.task is not None:
        files = [path for path in sorted(Path(settings.task).iterdir()) if path.is_file()]
    else:
        files = [Path(settings.kernel or ""), Path(settings.reference or "")]
    files += [Path(settings.benchmark.rivals)] if settings.benchmark.rivals else []
    try:
        texts = [path.name.encode() + b"\0" + path.read_bytes() for path in files]
    except OSError as error:
        raise SettingsError(f"{error.filename}: cannot be read ({error.strerror}); name a file that is there") from None
    return digest(b"\0".join([settings.model_dump_json().encode(), *texts]))


def read_suite(path: Path) -> tuple[SuiteProblem, ...]:
    """The problems of a suite in the order of its groups. SettingsError names the key or file."""
    try:
        data = read_yaml(read_source(path))
    except yaml.YAMLError as error:
        raise SettingsError(yaml_fault(path, error)) from None
    if isinstance(data, dict) and isinstance(data.get("problems"), list):
        data = {**data, "problems": [{"path": one} if isinstance(one, str) else one for one in data["problems"]]}
    try:
        suite = Suite.model_validate(data)
    except ValidationError as error:
        raise SettingsError(validation_sentences(error, Suite, f"{path}: ")) from None
    if not suite.problems:
        raise SettingsError(
            f"{path}: problems: the list is empty; name a folder with reference.py, a config or a suite's problem"
        )
    found: dict[Path, Mapping[str, Any]] = {}
    for group in suite.problems:
        settings = merge_settings(suite.settings, group.settings)
        _refuse_unknown(settings, path)
        for problem in _matching_paths(group, path):
            found[problem] = settings
    names = _unique_names(tuple(found))
    return tuple(SuiteProblem(names[problem], problem, settings) for problem, settings in found.items())


def _refuse_unknown(settings: Mapping[str, Any], path: Path) -> None:
    """Raise SettingsError for an unknown key once, instead of once for each problem."""
    if fixed := next((name for name in DERIVED_KEYS if name in settings), None):
        raise SettingsError(f"{path}: settings.{fixed}: follows from the problem; leave it out")
    parse(
        {"task": ".", **{name: value for name, value in settings.items() if name != "dims"}},
        origin=f"{path}: settings",
        base=path.parent,
    )


def _matching_paths(group: ProblemGroup, path: Path) -> tuple[Path, ...]:
    """The problems that a group names; other files that match its pattern are ignored."""
    base = path.parent.resolve()
    one = (base / group.path).resolve()
    pattern = group.path if not Path(group.path).is_absolute() else str(Path(group.path).relative_to("/"))
    root = base if not Path(group.path).is_absolute() else Path("/")
    there = [one] if one.exists() else [p.resolve() for p in sorted(root.glob(pattern)) if _may_be_problem(p)]
    left = [problem for problem in there if not any(fnmatch(problem.name, name) for name in group.skip)][:: group.every]
    if not left:
        raise SettingsError(
            f"{path}: problems.path {group.path!r} names no problem; give a folder with reference.py, a config or a "
            f"suite's problem"
        )
    return tuple(left)


def _may_be_problem(path: Path) -> bool:
    is_config = path.is_file() and path.suffix in (".yaml", ".yml")
    return is_config or (path / "reference.py").is_file() or recognise_suite(path) is not None


def _unique_names(paths: tuple[Path, ...]) -> dict[Path, str]:
    """A unique name for each problem: the file or folder with as many parent folders as distinguish it from others."""
    names = dict.fromkeys(paths, "")
    for depth in range(1, 1 + max(len(path.parts) for path in paths)):
        counted = Counter(names.values())
        for path in paths:
            if counted[names[path]] > 1 or depth == 1:
                own = path.name if path.is_dir() else path.stem
                names[path] = re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join([*path.parts[-depth:-1], own]))[-64:].lstrip(
                    "._-"
                )
    # A task folder beside a config of the same name has no folder above to be told apart by.
    counted = Counter(names.values())
    return {
        path: name if counted[name] == 1 else f"{name[-55:]}-{digest(str(path))[:8]}" for path, name in names.items()
    }


def merge_settings(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`under` with the keys of `over` in place of its own, section by section."""
    both = {
        k: merge_settings(under[k], v)
        for k, v in over.items()
        if isinstance(v, dict) and isinstance(under.get(k), dict)
    }
    return {**under, **over, **both}
