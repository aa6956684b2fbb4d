"""The recorder in a user's process: each way to reach the target is seen, and what cannot be seen is said."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.capture.observation import Observation, read_observation
from tools.capture.program import run_program
from tools.capture.task_folder import target_in_script
from tools.errors import SettingsError

MODULE = """
registry = []
def keep(f):
    registry.append(f)
    return f
@keep
def twice(n, *, times=2, label=None):
    return n * times
def recurse(n):
    return recurse(n - 1) if n else 0
def numbers():
    yield 1
"""


@pytest.fixture
def observe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a program beside `own.py` and return what was observed; no test here needs torch."""
    (tmp_path / "own.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)

    def run(source: str, target: str = "own:twice", *arguments: str, command: tuple[str, ...] = ()) -> Observation:
        (tmp_path / "prog.py").write_text(source)
        return read_observation(run_program(command or ("prog.py", *arguments), target), target)

    return run


def counted(observation: Observation) -> list[tuple[int, dict[str, object]]]:
    """Calls of each class, with their numbers."""
    pairs = []
    for group in observation.groups:
        numbers = {name: v.value for name, v in group.calls[0].arguments.items() if v.kind == "number"}
        pairs.append((group.count, numbers))
    return sorted(pairs, key=str)


def test_every_reference_to_a_function_is_caught(observe) -> None:
    seen = observe(
        "import own\nfrom own import twice as t, registry\nt(3); own.twice(3); registry[0](3); t(4, times=5)"
    )
    assert counted(seen) == [(1, {"n": 4, "times": 5}), (3, {"n": 3, "times": 2})]
    assert seen.groups[0].calls[0].arguments["label"].code == "None"
    assert seen.modules["own"].endswith("own.py")


def test_a_function_of_the_script_itself(observe) -> None:
    program = "def f(n):\n    return n\nif __name__ == '__main__':\n    import sys\n    f(len(sys.argv)); f(1)"
    expected = [(1, {"n": 1}), (1, {"n": 3})]
    assert counted(observe(program, "__main__:f", "a", "b")) == expected
    assert counted(observe(program, "__main__:f", command=("-m", "prog", "a", "b"))) == expected


def test_the_program_is_the_module_of_the_target() -> None:
    assert target_in_script(["bench/prog.py"], "prog:f") == "__main__:f"
    assert target_in_script(["-m", "prog"], "prog:f") == "__main__:f"
    assert target_in_script(["bench.py"], "prog:f") == "prog:f"
    assert target_in_script(["aten.py"], "aten.mm") == "aten.mm"


def test_source_and_signature_stay_as_they_are(observe) -> None:
    observe(
        "import inspect, own\nassert 'times=2' in str(inspect.signature(own.twice))\n"
        "assert 'return n * times' in inspect.getsource(own.twice)\nassert own.twice(2) == 4 and own.twice.__name__ == 'twice'"
    )


def test_a_method_that_calls_super(observe) -> None:
    program = "import torch\nclass A(torch.nn.Module):\n    def forward(self, n):\n        return n\nclass B(A):\n    def __init__(self, k):\n        super().__init__()\n        self.k = k\n    def forward(self, n):\n        return super().forward(n)\nassert B(7).forward(2) == 2; A().forward(5)"
    seen = observe(program, "__main__:B")
    assert counted(seen) == [(1, {"n": 2})]
    made = seen.groups[0].calls[0].made
    assert made is not None and made["k"].value == 7


def test_calls_within_a_call_count_apart(observe) -> None:
    seen = observe("import own; own.recurse(3)", "own:recurse")
    assert counted(seen) == [(1, {"n": 3})]
    assert seen.apart == {"within another call of it": 3}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_child_processes(observe, method: str) -> None:
    program = f"""
import multiprocessing, own
if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        pool.map(own.twice, range(6), chunksize=1)
        pool.close(); pool.join()
    own.twice(9)
"""
    seen = observe(program)
    assert sorted(arguments["n"] for _, arguments in counted(seen)) == [0, 1, 2, 3, 4, 5, 9]


def test_a_spawned_child_runs_the_script_again(observe) -> None:
    program = """
import multiprocessing
def f(n):
    return n
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=f, args=(5,))
    child.start(); child.join(); f(6)
"""
    assert counted(observe(program, "__main__:f")) == [(1, {"n": 5}), (1, {"n": 6})]


def test_a_sitecustomize_of_the_user_still_runs(observe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import builtins; builtins.mark = 11")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    assert counted(observe("import own; own.twice(mark)")) == [(1, {"n": 11, "times": 2})]


def test_an_exception_passes_through(observe) -> None:
    seen = observe(
        "import own\ntry:\n    own.twice()\nexcept TypeError as error:\n    assert 'twice' in str(error), error\nown.twice(1)"
    )
    assert counted(seen) == [(1, {"n": 1, "times": 2})]


@pytest.mark.parametrize(
    ("program", "target", "said"),
    [
        ("import own", "own:twice", "imported and it defines the target, but nothing called it"),
        ("import own", "own:thrice", "own defines no thrice; it defines keep, numbers, recurse, twice"),
        ("import own; own.twice(1)", "other:f", "other was not imported. The user's own modules that were: own"),
        ("import own; own.numbers()", "own:numbers", "it is a generator or a coroutine"),
        ("raise SystemExit(3)", "own:twice", "ended with exit code 3"),
    ],
)
def test_no_call_is_an_error_that_says_what_to_try(observe, program: str, target: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        observe(program, target)


def test_a_command_that_cannot_be_right() -> None:
    with pytest.raises(SettingsError, match="write it after `--`"):
        run_program([], "own:twice")
    with pytest.raises(SettingsError, match="no such file"):
        run_program(["missing.py"], "own:twice")


def test_a_killed_capture_takes_the_program_with_it(tmp_path: Path) -> None:
    """Otherwise the program keeps its GPU, and every later run finds the device in use."""
    (tmp_path / "prog.py").write_text("import os, time\nopen('pid', 'x').write(str(os.getpid()))\ntime.sleep(600)\n")
    capture = subprocess.Popen(
        [sys.executable, "-c", "from tools.capture.program import run_program; run_program(['prog.py'], 'own:twice')"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    note = tmp_path / "pid"
    wait_until(lambda: note.exists() and note.read_text() != "")
    capture.kill()
    capture.wait()
    with contextlib.suppress(ProcessLookupError):
        running = os.pidfd_open(int(note.read_text()))
        assert select.select([running], [], [], 60)[0], "the program runs on"


def wait_until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
