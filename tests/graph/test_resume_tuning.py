"""A run killed while it compares configs goes on where it stopped: no finished measurement is repeated, and the same
config is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.lifecycle import run
from graph.settings import load
from graph.workspace import events
from tests.graph.conftest import TWICE, configured
from tests.graph.test_kill_and_resume import MEASURED, live_through, repeated
from tools.errors import InfrastructureError, WorkspaceError
from tools.store.records import Records, record_key

KERNEL = """extern "C" void solve(const float* x, float* out, int N) {
  for (int i = 0; i < N; ++i) {
    volatile float two = 0.0f;
    for (int k = 0; k < ROUNDS; ++k) two = 2.0f;
    out[i] = two * x[i];
  }
}
"""


@pytest.fixture
def choosing(tmp_path: Path) -> Path:
    folder = tmp_path / "twice"
    folder.mkdir()
    (folder / "kernel.cpp").write_text(KERNEL)
    (folder / "reference.py").write_text(TWICE)
    (folder / "task.yaml").write_text("language: tests.graph.choosing:Choosing\n")
    return configured(tmp_path, name="choosing", task=str(folder))


def task(root: Path) -> dict:
    found = Records(root).find(record_key("task"))
    return found.payload["task"] if found else {}


@pytest.mark.slow
def test_a_kill_while_configs_are_compared_costs_nothing_that_was_finished(tmp_path: Path, choosing: Path) -> None:
    found, deaths = live_through(tmp_path, choosing, lambda root: bool(task(root)))
    assert deaths >= 4, "it was killed in the comparison itself"
    said = task(found)["inferred"][0]
    assert "k < 1;" in task(found)["baseline"] and "config 1" in said and "fastest of all" in said
    records = Records(found)
    assert len([r for r in records if r.kind == "benchmark"]) == 1
    log = events.read_events(found / ".kernelwright" / "events.jsonl")
    assert repeated(log) == [] and {"build", "correctness", "benchmark"} <= {r.kind for r in records} & MEASURED


def test_a_machine_failure_while_configs_are_compared_leaves_what_can_be_resumed(choosing: Path) -> None:
    def fail(event: events.Event) -> None:
        if event.kind == "record" and event.details["kind"] == "correctness":
            raise InfrastructureError("the machine went away")

    with pytest.raises(InfrastructureError) as caught:
        run.start(load(choosing), (fail,))
    root = caught.value.workspace
    assert (
        root is not None and root.is_dir() and not task(root) and Records(root).find(record_key("loaded")) is not None
    )
    with pytest.raises(WorkspaceError, match="python -m graph resume"), run.open_services(root):
        pass
