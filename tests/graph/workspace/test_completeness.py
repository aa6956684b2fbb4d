"""The audit of a version's artifacts."""

from __future__ import annotations

from pathlib import Path

from graph.workspace.completeness import ARTIFACTS, BASELINE_ARTIFACTS, POINTER, audit


def complete(root: Path, iteration: int, verdict: bool = True) -> None:
    version = root / "versions" / f"v{iteration}"
    for name in ARTIFACTS if iteration else BASELINE_ARTIFACTS:
        path = version / name / "a.md" if name.endswith("/") else version / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    if verdict:
        (version / "verdict.json").write_text("{}\n")
        (root / POINTER).write_text(f"{iteration}\n")


def test_audit_of_a_complete_workspace_is_empty(tmp_path: Path):
    complete(tmp_path, 0, verdict=False)
    assert audit(tmp_path, 0) == ()
    complete(tmp_path, 0)
    complete(tmp_path, 1, verdict=False)
    assert audit(tmp_path, 1) == ()
    complete(tmp_path, 1)
    complete(tmp_path, 2)
    assert [audit(tmp_path, n, closed=True) for n in range(3)] == [(), (), ()]


def test_audit_names_what_is_missing_and_empty(tmp_path: Path):
    complete(tmp_path, 0)
    complete(tmp_path, 1, verdict=False)
    version = tmp_path / "versions" / "v1"
    (version / "hypothesis.md").unlink()
    (version / "bench.json").write_text(" \n")
    (version / "ablations" / "a.md").unlink()
    found = audit(tmp_path, 1)
    assert [sentence.split(" is ")[0] for sentence in found] == [f"versions/v1/{n}" for n in ("hypothesis.md", "bench.json", "ablations/")]
    assert "verdict.json is missing" in "".join(audit(tmp_path, 1, closed=True))


def test_audit_sees_what_is_out_of_order(tmp_path: Path):
    complete(tmp_path, 0)
    complete(tmp_path, 1, verdict=False)
    complete(tmp_path, 2, verdict=False)
    assert any("versions/v2 is out of order" in sentence for sentence in audit(tmp_path, 1))
    found = audit(tmp_path, 2)
    assert any("v1 never passed its gate" in sentence for sentence in found)
    assert any(f"{POINTER} says 0" in sentence for sentence in found)
