"""A whole run whose models read prompts and call tools: a provider fails it, it is resumed, and nothing is paid for
twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.graph.conftest import configured, graph
from tools.store.records import Records


@pytest.mark.slow
def test_a_run_through_tools_survives_a_provider_that_fails(tmp_path: Path) -> None:
    log = tmp_path / "asked"
    models = {"default": {"provider": "tests.agents.through_tools:ThroughTools", "log": str(log)}}
    config = configured(tmp_path, models=models, search={"iterations": 1, "candidates": 1, "patience": 1})
    broken = graph("run", str(config))
    assert broken.returncode == 4, broken.stderr
    assert "models.planner: no room now" in broken.stderr
    (root,) = (tmp_path / "workspaces").iterdir()
    done = graph("resume", str(root))
    assert done.returncode == 0, done.stderr
    asked = Counter(log.read_text().splitlines())
    assert asked and set(asked.values()) == {1}, "each exchange was paid for once"
    records = {record.id: record for record in Records(root)}
    kinds = Counter(record.kind for record in records.values())
    assert kinds["rehearsed_correctness"] and kinds["rehearsed_timing"] and kinds["correctness"]
    plan = next(record for record in records.values() if record.kind == "plan")
    assert plan.payload["candidates"] == 1, "a plan cannot buy more candidates than the run wants"
    (trial,) = (record for record in records.values() if record.kind == "trial")
    candidates = [record.payload for record in records.values() if record.kind == "candidate"]
    assert all("boast" not in candidate["methods"] for candidate in candidates)
    verdict = json.loads((root / "versions/v1/verdict.json").read_text())
    rested = {records[identity].kind for identity in (*verdict["records"], *trial.payload["trial"]["records"])}
    assert not [kind for kind in rested if kind.startswith("rehearsed")]


@pytest.mark.slow
def test_a_plan_of_which_nothing_stands_costs_its_iteration_and_not_the_run(tmp_path: Path) -> None:
    models = {"default": {"provider": "playbook"}, "planner": {"provider": "tests.agents.through_tools:Inventive"}}
    config = configured(tmp_path, models=models, search={"iterations": 2, "candidates": 1, "patience": 2})
    done = graph("run", str(config))
    assert done.returncode == 0, done.stderr
    (root,) = (tmp_path / "workspaces").iterdir()
    first, second = (json.loads((root / f"versions/v{number}/verdict.json").read_text()) for number in (1, 2))
    assert first["outcome"] == "inconclusive" and first["candidate"] is None
    assert second["candidate"] is not None, "the second plan was written and judged"
    purposes = Counter((r.payload["role"], r.payload["iteration"]) for r in Records(root) if r.kind == "exchange")
    assert purposes["planner", 1] == 2 and purposes["coder", 1] == 0, "nobody wrote to a plan without methods"
