"""Bad configs: one sentence that names the key, what is allowed and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.settings import load
from tools.errors import SettingsError

GOOD = "task: softmax\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    assert load(written(tmp_path, GOOD)).task == str(tmp_path / "softmax")
    assert load(written(tmp_path, GOOD + "reference_projects: kernels\n")).reference_projects == str(tmp_path / "kernels")


def test_every_role_has_the_default_model(tmp_path: Path) -> None:
    settings = load(written(tmp_path, GOOD + "models:\n  coder: {provider: mine, speed: 3}\n"))
    assert settings.model_for("coder") == {"provider": "mine", "speed": 3}
    assert settings.model_for("planner") == {"provider": "playbook"}


def test_the_files_of_models_are_relative_to_the_config(tmp_path: Path) -> None:
    models = "models: {coder: {provider: recorded, path: a/script.jsonl}, default: {provider: manual, folder: /desk, record: b.jsonl}}\n"
    settings = load(written(tmp_path, GOOD + models))
    assert settings.model_for("coder") == {"provider": "recorded", "path": str(tmp_path / "a/script.jsonl")}
    assert settings.model_for("planner") == {"provider": "manual", "folder": "/desk", "record": str(tmp_path / "b.jsonl")}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD + "serach: {iterations: 3}\n", ["serach", "search", "Allowed"]),
        (GOOD + "search: {iteration: 3}\n", ["search.iteration", "iterations"]),
        (GOOD + "search: {iterations: none}\n", ["search.iterations", "integer"]),
        (GOOD + "search: {variants: 99}\n", ["search.variants", "16"]),
        ("taks: softmax\nsearch: {iterations: 0}\n", ["taks: unknown key; did you mean 'task'?"]),
        (GOOD + "judge: {pears: 3}\n", ["judge.pears", "pairs"]),
        (GOOD + "models: {coder: {provider: 3}}\n", ["models.coder.provider", "string"]),
        (GOOD + "search: 3\n", ["search: must hold keys and values", "iterations", "not 3", "patience"]),
        (GOOD + "search: {iterations: 0}\n", ["search.iterations: must be greater than or equal to 1, not 0; change it"]),
        (GOOD + "models: {coder: 3}\n", ["models.coder: must hold keys and values", "provider"]),
        (GOOD + "models: 3\n", ["models: must be keys and values", "not 3"]),
        (GOOD + "profilers: static\n", ["profilers: must be a list", "'static'"]),
        (GOOD + "on_unknown: maybe\n", ["on_unknown: must be 'continue', 'ask' or 'stop', not 'maybe'"]),
        (GOOD + "models: {painter: {}}\n", ["models.painter", "planner"]),
        ("search: {}\n", ["exactly one of task", "kernel"]),
        ("kernel: a.cpp\n", ["reference"]),
        ("kernel: a.cpp\ntask: b\n", ["exactly one of task"]),
        ("task: [\n", ["run.yaml:2", "not valid YAML"]),
        ("- task\n", ["run.yaml", "keys and values"]),
        ("", ["run.yaml", "keys and values"]),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, says: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load(written(tmp_path, text))
    message = str(caught.value)
    assert all(word in message for word in says), message
    assert "\n" not in message
    assert "Input should" not in message and "valid dictionary" not in message and "Errno" not in message


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: no such config file"):
        load(tmp_path / "nowhere.yaml")


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot be read \(Is a directory\); give a readable UTF-8 YAML file"):
        load(tmp_path)


def test_other_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes("task: größe\n".encode("latin-1"))
    with pytest.raises(SettingsError, match="UTF-8"):
        load(path)
