"""`report` in the middle of a run is no change by somebody else: `resume` goes on, and the end renders the report anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.__main__ import main
from graph.lifecycle import run
from graph.report.content.summary import versions
from graph.report.final import FILES, MARKDOWN
from graph.settings import load
from graph.workspace.events import Event
from tests.graph.conftest import SHORT, configured
from tools.store.repository import Repository


def stop_before_the_gate(event: Event) -> None:
    """Ctrl-C when the first candidates are judged and nothing is committed but v0."""
    if event.kind == "node" and event.details["node"] == "select" and event.details["state"] == "started":
        raise KeyboardInterrupt


@pytest.mark.slow
def test_a_report_between_ctrl_c_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt) as stopped:
        run.start(load(configured(tmp_path, **SHORT)), (stop_before_the_gate,))
    root = Path(str(stopped.value))
    assert main(["report", str(root)]) == 0
    assert "are written from 1 versions" in capsys.readouterr().out
    assert set(Repository(root).drift()) & set(FILES), "the report stands beside what git holds"
    midway = (root / MARKDOWN).read_text()

    assert main(["resume", str(root), "--quiet"]) == 0, capsys.readouterr().err
    assert [memory.iteration for memory in versions(root)] == [0, 1]
    assert (root / MARKDOWN).read_text() != midway
    repository = Repository(root)
    assert repository.is_clean() and sum("Report" in commit.trailers for commit in repository.log()) == 1
    (closed,) = [commit for commit in repository.log() if commit.trailers.get("Version") == "v1"]
    assert repository.diff(f"{closed.id}^", closed.id, FILES) == ""
