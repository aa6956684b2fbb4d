"""Bad configs: one sentence that names the key, what is allowed and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.settings import load
from tests.support import one_sentence
from tools.errors import SettingsError
from tools.executors.choice import open_executor, parse_choice
from tools.executors.local import LocalExecutor
from tools.store.records import Records

GOOD = "task: softmax\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    assert load(written(tmp_path, GOOD)).task == str(tmp_path / "softmax")
    kernel = load(written(tmp_path, "kernel: layer_norm/kernel.cpp\nreference: r.py\n"))
    assert (kernel.run_name, kernel.model_copy(update={"name": "mine"}).run_name) == ("layer_norm", "mine")
    assert load(written(tmp_path, GOOD + "reference_projects: kernels\n")).reference_projects == str(
        tmp_path / "kernels"
    )
    assert load(written(tmp_path, GOOD + "benchmark: {rivals: others.py}\n")).benchmark.rivals == str(
        tmp_path / "others.py"
    )


def test_every_role_has_the_default_model_and_files_of_models_are_relative_to_the_config(tmp_path: Path) -> None:
    settings = load(written(tmp_path, GOOD + "models:\n  coder: {provider: mine, speed: 3}\n"))
    assert (settings.model_for("coder"), settings.model_for("planner")) == (
        {"provider": "mine", "speed": 3},
        {"provider": "playbook"},
    )
    models = (
        "models: {coder: {provider: recorded, path: a/script.jsonl}, default: {provider: manual, folder: /desk, "
        "record: b.jsonl}}\n"
    )
    settings = load(written(tmp_path, GOOD + models))
    assert settings.model_for("coder") == {"provider": "recorded", "path": str(tmp_path / "a/script.jsonl")}
    assert settings.model_for("planner") == {
        "provider": "manual",
        "folder": "/desk",
        "record": str(tmp_path / "b.jsonl"),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD + "serach: {iterations: 3}\n", ["serach", "search", "Allowed"]),
        (GOOD + "workloads: []\n", ["run.yaml: workloads: does not belong here; ", "reference.py"]),
        (GOOD + "baseline: {call: 'a:b'}\n", ["run.yaml: baseline: does not belong here; ", "task folder's task.yaml"]),
        (GOOD + "search: {candidates: 99}\n", ["search.candidates", "16"]),
        (GOOD + "search: 3\n", ["search: must hold keys and values", "iterations", "not 3", "patience"]),
        (
            GOOD + "search: {iterations: 0}\n",
            ["search.iterations: must be greater than or equal to 1, not 0; change it"],
        ),
        (GOOD + "models: 3\n", ["models: must be keys and values", "not 3"]),
        (GOOD + "profilers: static\n", ["profilers: must be a list", "'static'"]),
        (GOOD + "on_unknown: maybe\n", ["on_unknown: must be 'continue', 'ask' or 'stop', not 'maybe'"]),
        (GOOD + "models: {codr: {}}\n", ["models.codr: must be", "not 'codr'; did you mean 'coder'?"]),
        (GOOD + "judge: {objective: geomen}\n", ["judge.objective", "did you mean 'geomean'?"]),
        (
            GOOD + "benchmark: {rivals: r.py, eager: false, compile: false}\n",
            ["benchmark: rivals: they are timed beside torch"],
        ),
        (GOOD + "budget: {device_s: true}\n", ["budget.device_s: must be a number, not True; change it there"]),
        (GOOD + "budget: {device_s: '12'}\n", ["budget.device_s: must be a number, not '12'; write 12"]),
        (GOOD + "budget: {wall_s: 1e3}\n", ["budget.wall_s: must be a number, not '1e3'; write 1000"]),
        (GOOD + "budget: {tokens: 2.0e+6}\n", ["budget.tokens: must be an integer, not 2000000.0; write 2000000"]),
        (GOOD + "prices: {m: {input: true, output: 1}}\n", ["prices.m.input: must be a number"]),
        ("search: {}\n", ["exactly one of task", "kernel"]),
        ("kernel: a.cpp\n", ["reference"]),
        ("task: [a\n", ["run.yaml:1: not valid YAML; the [ in that line is not closed"]),
        (
            GOOD + 'name: "mine\nsearch: {}\n',
            ["run.yaml:2: not valid YAML; the quote that begins in that line does not end"],
        ),
        (GOOD + "  name: mine\n", ["run.yaml:2: not valid YAML; check the indentation"]),
        ("- task\n", ["run.yaml", "keys and values"]),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, says: list[str]) -> None:
    with one_sentence(*says, without="Input should"):
        load(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "taks: softmax\nsearch: {iterations: 0, candidates: 99}\nmodels: {codr: {}}\n",
            [
                "taks: unknown key; did you mean 'task'?",
                "models.codr: must",
                "search.iterations: must",
                "search.candidates: must",
            ],
        ),
        (
            GOOD + "prices: {m: {inptu: 1, output: 2}, n: {output: 3}}\n",
            ["prices.m.inptu: unknown key; did you mean 'input'?", "prices.n.input: is missing"],
        ),
        ("kernel: a.cpp\ntask: x\ndims: M=1\n", ["exactly one of task", "dims: belongs to `kernel`"]),
    ],
    ids=["keys", "a misspelt key is not missing too", "what does not go together"],
)
def test_every_mistake_has_a_line(tmp_path: Path, text: str, lines: list[str]) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load(path)
    said = str(caught.value).splitlines()
    assert len(said) == len(lines) and all(
        one.startswith(f"{path}: {line}") for one, line in zip(said, lines, strict=True)
    ), said


def test_a_key_that_stands_twice_is_no_silent_change_of_mind(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r":3: the key 'wall_s' .* twice"):
        load(written(tmp_path, "task: x\nbudget: {wall_s: 5,\n  wall_s: 50}\n"))


def test_what_only_looks_like_a_date_or_number_is_named(tmp_path: Path) -> None:
    for value in ("2024-99-99", "0b_", "!!int five", "!!int ''", "!!bool five", "!!timestamp five"):
        with pytest.raises(
            SettingsError, match=r":2: '.*' cannot be read as the date or number that it looks like; put it in quotes"
        ):
            load(written(tmp_path, f"task: x\nname: {value}\n"))


def test_what_is_merged_from_another_mapping_may_be_set_anew(tmp_path: Path) -> None:
    prices = load(written(tmp_path, "task: x\nprices: {a: &a {input: 1, output: 2}, b: {<<: *a, output: 5}}\n")).prices
    assert (prices["a"].output, prices["b"].input, prices["b"].output) == (2, 1, 5)


@pytest.mark.parametrize("files", [("reference.py",), ("kernel.py",)])
def test_a_task_folder_is_a_config_with_nothing_else(
    tmp_path: Path, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "softmax"
    folder.mkdir()
    for name in files:
        (folder / name).write_text("")
    monkeypatch.chdir(folder)
    assert load(folder) == load(Path()) == load(written(tmp_path, "task: softmax\n"))
    assert load(Path()).run_name == "softmax"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", ["is a folder without a task", "reference.py", "configs/quickstart.yaml"]),
        (".kernelwright/secret", ["is the workspace of a run", "`python -m graph resume {folder}`"]),
    ],
)
def test_another_folder_is_no_config(tmp_path: Path, name: str, says: list[str]) -> None:
    if name:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    with one_sentence(*(word.format(folder=tmp_path) for word in says)):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("nowhere.yaml", None, r"nowhere\.yaml does not exist"),
        ("mine.cpp", b"int x[] = {1};", r"mine\.cpp is a source file and not a config; give `--kernel` and `--ref`"),
        ("run.yaml", "task: größe\n".encode("latin-1"), "UTF-8"),
    ],
)
def test_a_file_that_is_no_config_is_named(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingsError, match=says):
        load(tmp_path / name)


def test_an_executor_is_a_name_or_a_kind_with_its_options(tmp_path: Path) -> None:
    assert load(written(tmp_path, GOOD)).executor == load(written(tmp_path, GOOD + "executor: local\n")).executor
    chosen = load(written(tmp_path, GOOD + "executor: {kind: local, lock_wait_s: 7}\n")).executor
    with open_executor(chosen, Records(tmp_path).blobs, tmp_path / "scratch") as opened:
        assert isinstance(opened, LocalExecutor) and opened.engine.lock_wait_s == 7


@pytest.mark.parametrize(
    ("executor", "says"),
    [
        ("ssh", "executor.host: is missing; add it; the form is `executor: {kind: ssh, host: gpu1}`"),
        ("{kind: ssh, host: my gpu}", "executor.host: must be such as 'gpu1' or 'me@gpu1.example.org', not 'my gpu'"),
        ("{kind: local, python: /bin/true}", "executor.python: /bin/true is no Python of version 3.10 or newer"),
        ("{kind: bundle, host: gpu1}", "the form is `executor: {kind: bundle}`"),
    ],
)
def test_an_executor_that_cannot_be_is_named_with_its_form(tmp_path: Path, executor: str, says: str) -> None:
    with one_sentence(says):
        open_executor(parse_choice(executor), Records(tmp_path).blobs, tmp_path / "scratch")
