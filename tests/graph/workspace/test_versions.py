"""A checkpoint that is cut short or zeroed counts as none, and a run goes on from git and records."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from graph.__main__ import main
from graph.workspace import drift
from graph.workspace.folder import open_read_only
from graph.workspace.versions import checkpoint_path, read_checkpoint, read_state, read_versions
from tests.graph.conftest import FinishedRun, git
from tests.graph.test_kill_and_resume import MEASURED
from tests.support import Capsys
from tools.store.records import Records
from tools.store.repository import Repository

DAMAGES = {
    **{f"cut to {length}": (length, None) for length in (1, 17, 100, 4096, 5000, 65536, -1, -4096)},
    "zeroed": (None, (0, None)),
    "header zeroed": (None, (0, 100)),
    "first page zeroed": (None, (100, 4096)),
    "second half zeroed": (None, (90112, None)),
}
"""Name -> length that is left, and the range of bytes that is zeroed."""


def damage(path: Path, left: int | None, zeroed: tuple[int, int | None] | None) -> None:
    content = bytearray(path.read_bytes()[:left])
    if zeroed:
        content[slice(*zeroed)] = bytes(len(content[slice(*zeroed)]))
    path.write_bytes(content)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_read_as_a_deleted_one(copied: Path, name: str, capsys: Capsys) -> None:
    path = checkpoint_path(open_read_only(copied))
    path.rename(path.with_name("kept"))
    assert main(["show", str(copied)]) == 0
    shown = capsys.readouterr().out
    path.with_name("kept").rename(path)
    assert "stop" in (read_checkpoint(path) or {})
    damage(path, *DAMAGES[name])
    # SQLite takes a single byte for an empty file.
    assert not read_checkpoint(path) and read_state(open_read_only(copied)) == {}
    assert main(["show", str(copied)]) == 0 and capsys.readouterr().out == shown


def test_an_empty_file_is_no_checkpoint_and_a_disk_that_fails_is_no_damage(copied: Path) -> None:
    path = checkpoint_path(open_read_only(copied))
    path.write_bytes(b"")
    assert read_checkpoint(path) == {}
    path.unlink()
    path.mkdir()
    with pytest.raises(sqlite3.OperationalError):
        read_checkpoint(path)


def test_a_run_with_a_damaged_checkpoint_ends_where_it_had_ended(
    finished: FinishedRun, tmp_path: Path, capsys: Capsys
) -> None:
    """It measures nothing again, pays for no answer twice, and makes no commit twice."""
    before, head = (
        read_checkpoint(checkpoint_path(open_read_only(finished.root))),
        git(finished.root, "rev-parse", "HEAD"),
    )
    for name in ("cut to 65536", "zeroed"):
        root = Path(shutil.copytree(finished.root, tmp_path / name, symlinks=True))
        path = checkpoint_path(open_read_only(root))
        damage(path, *DAMAGES[name])
        assert main(["resume", str(root)]) == 0
        assert f"{path} is cut short or damaged; it is made again from git and records" in capsys.readouterr().out
        after = read_checkpoint(path)
        assert before and after
        for field in ("incumbent", "iteration", "stop", "report"):
            assert after.get(field) == before.get(field), field
        assert git(root, "rev-parse", "HEAD") == head and drift.drifted_paths(Repository(root)) == ()
        new = {path.stem for path in (root / "records").iterdir()} - {record.id for record in Records(finished.root)}
        assert not (MEASURED | {"exchange"}) & {Records(root).get(identity).kind for identity in new}


def test_a_mask_holds_though_the_checkpoint_is_gone(finished: FinishedRun, tmp_path: Path, capsys: Capsys) -> None:
    """The iterations were gone through again from hidden kernels, and the state lacked what v0 gave it."""
    root = Path(shutil.copytree(finished.root, tmp_path / "masked", symlinks=True))
    assert main(["mask", str(root), "v1"]) == 0
    checkpoint_path(open_read_only(root)).unlink()
    assert main(["resume", str(root), "--quiet"]) == 0, capsys.readouterr().err
    state = read_state(open_read_only(root))
    baseline, masked = read_versions(root)[:2]
    assert masked.masked and state["incumbent"] != masked.candidate and state["baseline"] == baseline.candidate
    assert Repository(root).drift() == () and main(["audit", str(root)]) == 0
