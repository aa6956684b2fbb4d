"""A task whose baseline is the user's own function: refused where it is wrong, compared first where it is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.__main__ import main
from graph.artifacts import FinalBenchmark
from graph.lifecycle import rendering
from graph.lifecycle.run import open_services
from tests.graph.conftest import SHORT, TASK, configured, git, printed_json
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


@pytest.mark.slow
def test_a_wrong_function_is_refused_and_a_right_one_is_what_a_gain_is_over(tmp_path: Path, capsys: Capsys) -> None:
    wrong = folder(tmp_path / "own", OWN.replace("return found /", "return found * 1.5 /"))
    path = configured(tmp_path, **{**SHORT, "task": str(wrong)})
    assert main(["run", str(path)]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
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
