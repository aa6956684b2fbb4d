"""What was decided is decided again from the records alone: the same today, or the difference is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.__main__ import main
from tests.graph.conftest import FinishedRun, git, refused
from tools.languages.base import Toolchain
from tools.languages.cpp import Cpp
from tools.store.records import Records


@pytest.fixture
def copied(copied: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recorded workspace, and the compiler that it was made with, so that no other one's builds are asked for."""
    pinned = next(record.payload for record in Records(copied) if record.kind == "toolchain")
    name, _, version = pinned["compiler"].partition(" ")
    monkeypatch.setattr(
        Cpp, "toolchain", lambda self: Toolchain(name=name, version=version, family="gcc", argv=(name,))
    )
    monkeypatch.setattr(Cpp, "flags", lambda self, task: tuple(pinned["flags"]))
    return copied


def test_decisions_come_out_as_recorded_and_nothing_is_changed(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = (copied / ".kernelwright" / "events.jsonl").read_bytes()
    assert main(["explain", str(copied), "v3"]) == 0
    told = [line.partition(" (")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == ["v3 plan: as recorded", "v3 champion: as recorded", "v3 verdict: as recorded"]
    assert (
        main(["explain", str(copied), "v3", "--of", "attribution"]) == 0
        and "no such decision" in capsys.readouterr().out
    )
    assert (
        git(copied, "status", "--porcelain") == "" and (copied / ".kernelwright" / "events.jsonl").read_bytes() == log
    )


def test_what_is_decided_otherwise_today_is_said(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = copied / "settings.yaml"
    settings.write_text(settings.read_text().replace("min_effect: 0.02", "min_effect: 9.0"))
    assert main(["explain", str(copied), "v2", "--of", "verdict"]) == 1
    said = capsys.readouterr().out
    assert "DIFFERS from what is recorded" in said and 'outcome is "reject_perf", and recorded is "accept"' in said


def test_what_a_decision_takes_is_shown(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(copied), "v1", "--of", "plan"]) == 0
    assert "  budget." in (said := capsys.readouterr().out) and "  methods.0.method: openmp-parallel-outer\n" in said
    assert main(["explain", str(copied), "v1", "--of", "champion"]) == 0
    assert capsys.readouterr().out.count(" over v0  ") == 2
    assert main(["explain", str(copied), "v1", "--of", "prompts"]) == 0
    asked = [record for record in Records(copied) if record.kind == "exchange" and record.payload["iteration"] == 1]
    assert capsys.readouterr().out.count(", iteration 1\n") == len(asked)


def test_nothing_is_measured_where_a_measurement_is_lost(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for record in Records(copied):
        if record.kind == "confirmation":
            (copied / "records" / f"{record.id}.json").unlink()
    assert "a measurement that this decision takes today is not on record" in refused(
        capsys, "explain", str(copied), "v2", "--of", "verdict"
    )


@pytest.mark.slow
def test_every_decision_of_a_new_run_comes_out_the_same(
    finished: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in sorted(path.stem for path in (finished.root / "memory").glob("v[1-9].json")):
        assert main(["explain", str(finished.root), version]) == 0, capsys.readouterr().out
