"""A run small enough for a test: one tiny workload, few pairs, no torch.compile."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

TASK = Path(__file__).parent / "task"
QUICK = {
    "judge": {
        "pairs": 10,
        "batches": 2,
        "warm_pairs": 0,
        "calibration_pairs": 10,
        "confirm_rounds": 8,
        "benchmark_rounds": 6,
        "hidden_workloads": 1,
        "min_effect": 0.05,
    },
    "search": {"iterations": 2, "variants": 2, "patience": 1},
    "benchmark": {"eager": True, "compile": False},
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config file of a quick run whose workspaces lie in the test's own folder."""
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"name": "quick", "task": str(TASK), "workspaces": str(tmp_path / "workspaces"), **QUICK}))
    return path
