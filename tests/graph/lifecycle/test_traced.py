from __future__ import annotations

from pathlib import Path

from graph.__main__ import main
from tests.graph.conftest import TASK, printed_json, refused
from tests.support import Capsys


def test_the_sizes_of_a_trace_are_timed_in_place_of_the_tasks_own(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "trace.csv"
    lines = ["solve,values=64x512,30", *["solve,values=32x100,20"] * 2, "solve,values=16x16,1"]
    path.write_text("\n".join(["kernel,shapes,duration", *lines]))
    assert main(["check", str(TASK), "--trace", str(path), "--json"]) == 0
    told = printed_json(capsys)
    assert [(one["dims"], one["weight"]) for one in told["workloads"]] == [
        ({"rows": 32, "columns": 100}, 2.0),
        ({"rows": 64, "columns": 512}, 1.0),
    ]
    assert [(one["launches"], one["selected"]) for one in told["traced"]] == [(2, True), (1, True), (1, False)]


def test_a_trace_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: Capsys) -> None:
    assert "trace:" in refused(capsys, "check", str(TASK), "--trace", str(tmp_path / "none.jsonl"))
