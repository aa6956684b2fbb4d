"""A task whose baseline is the user's own function: refused where it is wrong, compared first where it is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.__main__ import main
from graph.artifacts import FinalBenchmark
from graph.lifecycle import rendering
from graph.lifecycle.run import open_services
from tests.graph.conftest import SHORT, TASK, configured, git, printed_json, refused
from tests.support import Capsys
from tools.errors import StorageError
from tools.store.repository import Repository

OWN = """
from parts import exponentials


def own(values):
    found = exponentials(values)
    return found / found.sum(-1, keepdim=True)
"""
PARTS = "def exponentials(values):\n    return (values - values.amax(-1, keepdim=True)).exp()\n"


def folder(path: Path, own: str = OWN) -> Path:
    """The quick task without a kernel, and with a function of the user's own."""
    (path / "baseline").mkdir(parents=True, exist_ok=True)
    (path / "reference.py").write_text((TASK / "reference.py").read_text())
    (path / "task.yaml").write_text('baseline: {call: "mine:own"}\n')
    (path / "baseline" / "mine.py").write_text(own)
    (path / "baseline" / "parts.py").write_text(PARTS)
    return path


TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def _softmax(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    found = tl.exp(tl.load(x + at, mask=inside, other=-float("inf")))
    tl.store(y + at, found / tl.sum(found, 0), mask=inside)


def own(values):
    result = torch.empty_like(values)
    _softmax[(len(values),)](values, result, values.shape[1], BLOCK=triton.next_power_of_2(values.shape[1]))
    return result
"""


@pytest.mark.slow
def test_what_the_interpreter_runs_is_checked_and_never_timed(tmp_path: Path, capsys: Capsys) -> None:
    pytest.importorskip("triton")
    path = configured(tmp_path, **{**SHORT, "task": str(folder(tmp_path / "own", TRITON))})
    assert main(["check", str(path)]) == 0
    told = capsys.readouterr().out
    assert "baseline    mine:own: it agrees with the reference in Triton's interpreter, which tells nothing" in told
    folder(tmp_path / "own", TRITON.replace("tl.exp(", "1.01 + tl.exp("))
    assert "mine:own does not compute 'result'" in refused(capsys, "check", str(path))


@pytest.mark.slow
def test_a_wrong_function_is_refused_and_a_right_one_is_what_a_gain_is_over(tmp_path: Path, capsys: Capsys) -> None:
    wrong = folder(tmp_path / "own", OWN.replace("return found /", "return found * 1.5 /"))
    path = configured(tmp_path, **{**SHORT, "task": str(wrong)})
    for verb in ("check", "run"):
        said = refused(capsys, verb, str(path))
        assert "task.yaml: baseline: mine:own does not compute 'result' as the reference does" in said
        assert ", expected " in said and ", input 1 of 2; correct the one that is wrong" in said
    assert not (tmp_path / "workspaces").exists()
    folder(tmp_path / "own")
    assert main(["check", str(path)]) == 0
    assert "baseline    mine:own agrees with the reference; " in capsys.readouterr().out
    assert main(["run", str(path), "--json"]) == 0
    summary = printed_json(capsys)
    root = Path(summary["workspace"])
    estimate, low, high = summary["over_function"]["wall"]
    assert low <= estimate <= high and "user_function" not in summary["against"]
    assert "Over your function: **" in (root / "report.md").read_text()
    assert (root / "task" / "baseline" / "parts.py").read_text() == PARTS
    assert "task=submitter; baseline=submitter" in git(root, "log")
    assert rendering.replay(Repository(root)).faults == ()
    if accepted := [name for name, outcome in summary["verdicts"].items() if outcome == "accept"]:
        assert main(["verify", str(root), accepted[-1]]) in (0, 5)
        assert "over the user's own function, measured " in capsys.readouterr().out
    with open_services(root, reading=True) as services:
        (end,) = (record for record in services.records if record.kind == "final")
        forged = FinalBenchmark.model_validate(end.payload)
        factor = forged.over_function["wall"].model_copy(update={"estimate": estimate * 1.01})
        payload = forged.model_copy(update={"over_function": {"wall": factor}}).model_dump(mode="json")
        rendering._require_factors_of_contest(end, services)
        with pytest.raises(StorageError, match="factors do not follow from the contest"):
            rendering._require_factors_of_contest(end.model_copy(update={"payload": payload}), services)
