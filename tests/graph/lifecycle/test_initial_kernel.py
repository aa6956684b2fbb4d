"""A task that is PyTorch logic alone, from its first kernel to its report; and what is said where there is none."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from graph.__main__ import main
from tests.graph.conftest import SHORT, TASK, configured, printed_json
from tests.support import Capsys
from tools.store.records import Records

pytestmark = pytest.mark.slow

REFERENCE = (TASK / "reference.py").read_text()
UNLIFTED = REFERENCE.replace("exponentials.sum(", "exponentials.sort(-1).values.sum(")
"""The same with an operation for which there is no code to lift; a model can still write it."""


def config(folder: Path, reference: str, **more: object) -> Path:
    task = folder / "logic"
    task.mkdir()
    (task / "reference.py").write_text(reference)
    return configured(folder, **{"task": str(task), "search": SHORT["search"], **more})


@pytest.mark.slow
def test_logic_alone_becomes_a_kernel_that_is_improved_and_reported(tmp_path: Path, capsys: Capsys) -> None:
    path = config(tmp_path, REFERENCE)
    assert main(["check", str(path)]) == 0
    assert "v0 is what torch.compile makes of reference.py" in capsys.readouterr().out
    assert main(["run", str(path), "--json"]) == 0
    summary = printed_json(capsys)
    root = Path(summary["workspace"])
    kernel = (root / "task" / "kernel.cpp").read_text()
    assert 'extern "C" void solve(const float* values, float* result, int rows, int columns)' in kernel
    assert json.loads((root / "task" / "task.json").read_text())["task"]["baseline"] == kernel
    assert "v0 is what torch.compile makes of reference.py" in (root / "baseline_report.md").read_text()
    assert summary["baseline_s"] > 0 and list(summary["verdicts"]) == ["v1"]


OPAQUE = """
#include <algorithm>
#include <cmath>
#include <numeric>

static double power(double x) { return std::pow(2.718281828459045235, x); }

extern "C" void solve(const float* __restrict__ values, float* __restrict__ result, int rows, int columns) {
  const float* end = values + (long)rows * columns;
  while (values != end) {
    const double total = std::accumulate(values, values + columns, 0.0, [](double sum, float x) { return sum + power(x); });
    result = std::transform(values, values + columns, result, [total](float x) { return (float)(power(x) / total); });
    values += columns;
  }
}
"""


def test_beside_a_kernel_that_no_recipe_reads_the_lifted_one_is_judged_though_the_coder_is_a_model(
    tmp_path: Path, capsys: Capsys
) -> None:
    # Whom nobody asks.
    models = {"default": {"provider": "playbook"}, "coder": {"provider": "command", "argv": ["false"]}}
    path = config(tmp_path, REFERENCE, models=models, search={"iterations": 1, "candidates": 1})
    (tmp_path / "logic" / "kernel.cpp").write_text(OPAQUE)
    assert main(["run", str(path), "--json"]) == 0
    root = Path(printed_json(capsys)["workspace"])
    (method,) = json.loads((root / "versions" / "v1" / "methods.json").read_text())
    assert method["method"] == "inductor-lift"
    assert "+// Lifted from what torch.compile" in (root / "versions" / "v1" / "diff.patch").read_text()


def test_ctrl_c_keeps_the_first_kernel_that_a_model_is_writing(tmp_path: Path, capsys: Capsys) -> None:
    begun, pressed = tmp_path / "begun", tmp_path / "pressed"
    program = tmp_path / "coder.py"
    waits = f"while not pathlib.Path({str(pressed)!r}).exists(): time.sleep(0.01)"
    program.write_text(f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\n{waits}\n{CODER}")
    path = config(tmp_path, UNLIFTED, models={"coder": {"provider": "command", "argv": [sys.executable, str(program)]}})

    def press() -> None:
        while not begun.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
        pressed.touch()

    threading.Thread(target=press, daemon=True).start()
    assert main(["run", str(path)]) == 130
    (root,) = (tmp_path / "workspaces").iterdir()
    assert f"python -m graph resume {root}` continues" in capsys.readouterr().err
    # What it wrote is there, and is not asked for again.
    assert [record.payload["role"] for record in Records(root) if record.kind == "exchange"] == ["coder"]


def test_a_cap_that_leaves_nothing_for_v0_is_one_sentence(tmp_path: Path, capsys: Capsys) -> None:
    models = {
        "default": {"provider": "tests.graph.priced:PricedPrompt", "model": "made-up", "log": str(tmp_path / "paid")}
    }
    path = config(
        tmp_path, UNLIFTED, models=models, prices={"made-up": {"input": 10, "output": 50}}, budget={"usd": 0.05}
    )
    assert main(["check", str(path)]) == 0
    assert "the coder (PricedPrompt) writes it when the run begins" in capsys.readouterr().out, (
        "a check pays for nothing"
    )
    assert main(["run", str(path)]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "no kernel is given" in said and "budget.usd: $0.0260 of $0.0500" in said and "give a kernel" in said
    assert (tmp_path / "paid").read_text().split() == ["coder"]


def test_what_the_playbook_cannot_write_is_one_sentence_and_leaves_nothing(tmp_path: Path, capsys: Capsys) -> None:
    path = config(
        tmp_path, REFERENCE.replace("exponentials / exponentials.sum(-1, keepdim=True)", "exponentials.sort(-1).values")
    )
    for verb in ("check", "run"):
        assert main([verb, str(path)]) == 2
        said = re.sub(r".* so far\n", "", capsys.readouterr().err).strip()
        assert "torch's sort" in said and "give a kernel" in said and "\n" not in said
    assert not (tmp_path / "workspaces").exists()


CODER = """
import json, re, sys

prompt = sys.stdin.read()
if "No kernel was given" not in prompt:
    print(json.dumps({"drafts": [], "skipped": {"any": "one kernel is all that this program writes"}}))
    sys.exit()
# Told what was wrong, it mends it.
total = "total" if "failed at correctness" in prompt else "(total + 1)"
source = r'''
#include <cmath>

extern "C" void solve(const float* values, float* result, int rows, int columns) {
  for (int r = 0; r < rows; r++) {
    float total = 0;
    for (int c = 0; c < columns; c++) total += expf(values[r * columns + c]);
    for (int c = 0; c < columns; c++) result[r * columns + c] = expf(values[r * columns + c]) / TOTAL;
  }
}
'''.replace("TOTAL", total)
print(json.dumps({"drafts": [{"source": source, "methods": [], "note": "plain"}]}))
"""


@pytest.mark.parametrize("heard", [True, False])
def test_a_model_is_told_what_is_wrong_with_its_first_kernel_and_is_refused_when_it_never_mends_it(
    tmp_path: Path, heard: bool, capsys: Capsys
) -> None:
    program = tmp_path / "coder.py"
    program.write_text(CODER if heard else CODER.replace("failed at correctness", "no such words"))
    models = {
        "default": {"provider": "playbook"},
        "coder": {"provider": "command", "argv": [sys.executable, str(program)]},
    }
    path = config(tmp_path, UNLIFTED, models=models, search={"iterations": 1, "candidates": 1})
    assert main(["check", str(path)]) == 0
    assert "the coder (Command) writes it when the run begins" in capsys.readouterr().out
    assert main(["run", str(path), "--json"]) == (0 if heard else 2)
    said = printed_json(capsys)
    if heard:
        assert "expf(values[r * columns + c]) / total;" in (Path(said["workspace"]) / "kernel.cpp").read_text()
    else:
        assert (
            "the one that the coder (Command) wrote from reference.py is refused" in said["reason"]
            and "give a kernel" in said["reason"]
        )
        assert not (tmp_path / "workspaces").exists()
