from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from graph.score import suite
from graph.score.runs import AS_PUBLISHED
from tests.graph.conftest import TASK
from tests.support import one_sentence
from tools.errors import SettingsError

REFERENCE = (TASK / "reference.py").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two levels with a task of the same name, a config, and what is no problem."""
    for name in ("one/softmax", "two/softmax", "two/sum conv"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "reference.py").write_text(REFERENCE)
    (tmp_path / "notes").mkdir()
    (tmp_path / "quick.yaml").write_text(
        yaml.safe_dump({"task": "one/softmax", "search": {"iterations": 3, "candidates": 2}})
    )
    return tmp_path


def written(folder: Path, **said: object) -> Path:
    path = folder / "suite.yml"
    path.write_text(yaml.safe_dump(said))
    return path


@pytest.mark.parametrize(
    ("problems", "names"),
    [
        (["quick.yaml", "one/softmax"], ["quick", "softmax"]),
        (["*/softmax"], ["one-softmax", "two-softmax"]),
        (["two/*", "one/*"], ["two-softmax", "sum_conv", "one-softmax"]),
        ([{"path": "two/*", "skip": ["*conv"]}], ["softmax"]),
        ([{"path": "*/*", "every": 2}], ["softmax", "sum_conv"]),
    ],
)
def test_problems_are_found_in_order_and_none_shares_a_name(
    folder: Path, problems: list[object], names: list[str]
) -> None:
    assert [problem.name for problem in suite.read_suite(written(folder, problems=problems))] == names


def test_a_problem_runs_with_its_own_config_then_the_suites_keys_then_its_groups(folder: Path) -> None:
    groups = ["quick.yaml", "two/softmax", {"path": "quick.yaml", "settings": {"budget": {"wall_s": 60}}}]
    path = written(folder, problems=groups, settings={"search": {"candidates": 1}, "budget": {"wall_s": 9, "usd": 5}})
    first, second = (problem.run_settings(folder / "out", path) for problem in suite.read_suite(path))
    assert (first.search.iterations, first.search.candidates, first.budget.wall_s, first.budget.usd) == (3, 1, 60, 5)
    assert (second.search.candidates, second.budget.wall_s) == (1, 9)
    assert (first.name, first.workspaces, first.task) == ("quick", str(folder / "out"), str(folder / "one" / "softmax"))


def test_as_published_goes_over_all_settings_and_is_another_question(folder: Path) -> None:
    path = written(folder, problems=["quick.yaml"], settings={"judge": {"hidden_workloads": 2, "pairs": 9}})
    (problem,) = suite.read_suite(path)
    published = replace(problem, settings=suite.merge_settings(problem.settings, AS_PUBLISHED)).run_settings(
        folder, path
    )
    assert (published.judge.inputs, published.judge.pairs) == ("as_published", 9)
    assert suite.settings_digest(published) != suite.settings_digest(problem.run_settings(folder, path))


def test_a_file_that_is_not_there_is_the_sentence_of_its_problem(folder: Path) -> None:
    path = written(folder, problems=["quick.yaml"], settings={"benchmark": {"rivals": "nowhere.py"}})
    (problem,) = suite.read_suite(path)
    with pytest.raises(
        SettingsError, match=r"nowhere\.py: cannot be read \(No such file or directory\); name a file that is there"
    ):
        suite.settings_digest(problem.run_settings(folder / "out", path))


def test_what_is_measured_is_asked_anew_when_settings_or_a_file_of_the_task_changed(folder: Path) -> None:
    path = written(folder, problems=["quick.yaml"])
    (problem,) = suite.read_suite(path)
    before = suite.settings_digest(problem.run_settings(folder, path))
    assert before == suite.settings_digest(problem.run_settings(folder, path))
    (folder / "one" / "softmax" / "reference.py").write_text(REFERENCE + "\n# other\n")
    assert suite.settings_digest(problem.run_settings(folder, path)) != before


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"problems": []}, "problems"),
        ({"problems": ["one/softmax"], "setting": {}}, "setting"),
        ({"problems": ["three/*"]}, "'three/*' names no problem"),
        ({"problems": [{"path": "one/*", "every": 0}]}, "every"),
        (
            {"problems": ["one/softmax"], "settings": {"workspaces": "x"}},
            "settings.workspaces: follows from the problem",
        ),
        ({"problems": ["one/softmax"], "settings": {"serach": {}}}, "serach"),
    ],
)
def test_a_suite_that_cannot_be_read_is_one_sentence_that_names_the_key(
    folder: Path, said: dict[str, object], told: str
) -> None:
    with one_sentence(told):
        suite.read_suite(written(folder, **said))
