"""Kernels that remember earlier calls gain nothing: the claim is the time on inputs that they have not seen.

Each kernel is measured with its state in several places, past the screen, which knows no list of places.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.builders import open_judge
from tools.artifacts import Candidate
from tools.executors.local import LocalExecutor
from tools.gate import confirmation
from tools.gate.judge_settings import JudgeSettings
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.languages.cpp import Cpp
from tools.store.records import Records
from tools.tasks.loader import load_task_files

KERNELS = Path(__file__).parents[2] / "kernels" / "remembering"
HEAD = "#include <cstdlib>\n#include <cstring>\n#include <iostream>\n"
PLACES = {
    "an object of the C++ library": """
static void* state(unsigned long size) {
  if (!std::wcout.tie()) std::wcout.tie((std::wostream*)calloc(1, size));
  return std::wcout.tie();
}
static void keep(void*) {}
""",
    "an environment variable": """
static void* state(unsigned long size) {
  if (!getenv("ARENA")) { char text[32]; sprintf(text, "%p", calloc(1, size)); setenv("ARENA", text, 1); }
  return (void*)strtoul(getenv("ARENA"), 0, 16);
}
static void keep(void*) {}
""",
    "the stack below the call": """
static void* state(unsigned long) {
  return (void*)(((unsigned long)__builtin_frame_address(0) & ~0xfffffUL) - (4 << 20));
}
static void keep(void*) {}
""",
    "a static variable": """
static char arena[1 << 20];
static void* state(unsigned long) { return arena; }
static void keep(void*) {}
""",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Records, LocalExecutor]]:
    root = tmp_path_factory.mktemp("remembering")
    with LocalExecutor(Records(root).blobs, root / "scratch") as executor:
        yield Records(root), executor


def opened(place: tuple[Records, LocalExecutor], name: str) -> tuple[Judge, Candidate]:
    """The judge of a task, and the task's plain kernel."""
    records, executor = place
    files = (KERNELS / name / "plain.cpp", KERNELS / name / "reference.py")
    task = load_task_files(*files, "", executor, records.blobs).task
    settings = JudgeSettings(pairs=8, batches=2, warm_pairs=0, confirm_rounds=8)
    return open_judge(task, Cpp(), executor, records, settings, secret=b"s" * 32), kernel(files[0].read_text())


def kernel(text: str) -> Candidate:
    return Candidate(language="cpp", files={"kernel.cpp": text})


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", ["hist", "pairs"])
def test_a_kernel_that_remembers_is_worth_what_it_is_on_new_inputs(
    place: tuple[Records, LocalExecutor], name: str, where: str
) -> None:
    judge, plain = opened(place, name)
    remembers = kernel(HEAD + PLACES[where] + (KERNELS / name / "remembers.cpp").read_text())
    timing = judge.read_or_measure_timing(remembers, plain, plain)
    confirmed = judge.read_or_measure_confirmation(remembers, plain)
    # What it leaves behind may be an offence of its own, which ends the measurement; an object of the library is none.
    assert evidence.timing_failure(timing) is None or where != "an object of the C++ library"
    if evidence.timing_failure(timing) is None:
        timings = [timing]
        # Where too few inputs came back, remembering won nothing, and nothing departs.
        if evidence.gain_needs_seen_inputs(timings):
            timings.append(judge.read_or_measure_timing(remembers, plain, plain, 1, new_inputs=True))
        assert evidence.speedup(timings, "total_time", 0.95).estimate < 1.5
    if confirmation.contest_problem(confirmed) is None:
        assert confirmation.confirmed_speedup([confirmed], "total_time", 0.95).low < 1.1
    else:
        assert evidence.timing_failure(timing) is not None


@pytest.mark.slow
def test_an_honest_gain_is_confirmed_on_new_inputs(place: tuple[Records, LocalExecutor]) -> None:
    judge, faster = opened(place, "hist")
    slow = kernel("""extern "C" void solve(const int* x, int* out, int N, int B) {
  for (int b = 0; b < B; ++b) {
    int count = 0;
    for (int i = 0; i < N; ++i) count += x[i] % B == b;
    out[b] = count;
  }
}
""")
    confirmed = judge.read_or_measure_confirmation(faster, slow)
    assert confirmation.confirmed_speedup([confirmed], "total_time", 0.95).low > 3
