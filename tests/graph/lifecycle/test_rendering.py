"""Whatever a reader reads follows from the records: a forgery of any of it is noticed and named, whoever committed it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.__main__ import main
from graph.lifecycle import rendering
from graph.lifecycle.rendering import replay
from tests.graph.conftest import printed_json, refused
from tests.graph.lifecycle.test_verify import edited, git, on_top, says
from tests.support import Capsys
from tools.store.records import Records
from tools.store.repository import Repository

Forge = Callable[[Path], object]


@pytest.fixture(autouse=True)
def _as_recorded(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources count as those that recorded the workspace."""
    closing = next(record for record in Records(recorded) if record.kind == "closing")
    monkeypatch.setattr(rendering, "sources_digest", lambda: closing.payload["sources"])


def at_head(name: str, old: str, new: str) -> Forge:
    """A file of the last commit with `new` in place of a pattern's first match."""

    def change(root: Path) -> None:
        text = (root / name).read_text()
        assert re.search(old, text)
        (root / name).write_text(re.sub(old, new, text, count=1))
        git(root, "commit", "-q", "--all", "--amend", "--no-edit")

    return change


def at_first(name: str, old: str, new: str) -> Forge:
    """The whole history written anew, with a file of the first commit changed."""

    def change(root: Path) -> None:
        text = (root / name).read_text() if (root / name).exists() else ""
        assert re.search(old, text)
        (root / ".git" / "forged").write_text(re.sub(old, new, text, count=1))
        git(root, "filter-branch", "-f", "--tree-filter", f"cp {root}/.git/forged {name}", "HEAD")

    return change


def removed(name: str) -> Forge:
    def change(root: Path) -> None:
        (root / name).unlink()
        git(root, "commit", "-q", "--all", "--amend", "--no-edit")

    return change


def message(old: str, new: str) -> Forge:
    """The commit of the last accepted version with other words in its text."""

    def told(text: str, _: Path) -> str:
        assert re.search(old, text)
        return re.sub(old, new, text, count=1)

    return lambda root: on_top(root, lambda _: None, told)


def stranger(text: str, *names: str) -> Forge:
    """A commit by hand on top of all others, of one version more."""

    def change(root: Path) -> None:
        evidence = next(c for c in Repository(root).log() if c.trailers.get("Version") == "v2").trailers["Evidence"]
        memory = json.loads((root / "memory/v3.json").read_text())
        (root / "memory/v4.json").write_text(json.dumps({**memory, "iteration": 4, "verdict": "accept"}))
        (root / "kernel.cpp").write_text((root / "kernel.cpp").read_text() + "// mine\n")
        git(root, "add", "--all", "memory", "kernel.cpp")
        git(root, "commit", "-q", "--file=-", stdin=text.format(evidence=evidence))

    return change


TRAILERS = "Version: v4\nVerdict: accept\nProtocol: 2\nSpeedup: 9 [8, 10]\nEvidence: {evidence}\n"
FORGERIES: dict[str, tuple[Forge, str]] = {
    "report.md": (at_head("report.md", r"\*\*\d+", "**99"), "report.md differs from what the records say, first at li"),
    "report.html": (at_head("report.html", r"\d×", "99×"), "report.html differs"),
    "benchmark.md": (at_head("benchmark.md", r"\d×", "99×"), "benchmark.md differs"),
    "no report": (removed("report.md"), "report.md is missing"),
    "version": (at_head("versions/v1/correctness.md", "passed", "passed well"), "versions/v1/correctness.md differs"),
    "baseline": (at_head("versions/v0/bench.json", r"\d\.", "9."), "versions/v0/bench.json differs"),
    "verdict file": (at_head("versions/v2/verdict.json", '"estimate": ', '"estimate": 9'), "versions/v2/verdict.json"),
    "another file": (lambda root: stray(root), "versions/v2/praise.md follows from no record"),
    "memory": (at_head("memory/v2.json", '"estimate": ', '"estimate": 9'), "memory/v2.json differs"),
    "a quiet mask": (at_head("memory/v2.json", '"masked": false', '"masked": true'), "memory/v2.json differs"),
    "pointer": (at_head("current_iteration.txt", "3", "2"), "current_iteration.txt differs"),
    "subject": (message(r"(accept v2: )\S+", r"\g<1>9.9×"), "its subject differs from what the records say, first"),
    "body": (message(r"Confirmed: \S+", "Confirmed: 9.9x"), "its body differs"),
    "interval": (message(r"(Speedup: \S+ )\[", r"\g<1>[3"), "its block of trailers differs"),
    "confidence": (message("Confidence: 0.9", "Confidence: 0.99"), "its block of trailers differs"),
    "README.md": (at_head("README.md", "softmax", "maxsoft"), "changed README.md, which only the first commit writes"),
    "first README.md": (
        at_first("README.md", "^", "999 times faster\n"),
        "README.md differs from what the records say",
    ),
    "first test": (at_first("test_kernel.py", "^", "exit()\n"), "test_kernel.py differs"),
    "first baseline": (at_first("baseline_report.md", r"\d\.", "9."), "baseline_report.md differs"),
    "first env": (at_first("env_check.md", "\\|", "| fine"), "env_check.md differs"),
    "first stray": (at_first("RESULTS.md", "^", "999×\n"), "RESULTS.md follows from no record"),
    "stranger": (stranger("accept v4: 9×\n\n" + TRAILERS), "not a commit of the run ('accept v4: 9×'): it closes no"),
    "hand": (stranger("mask v2\n\nMasked: v2\nRestores: v1\n"), "not a commit of the run ('mask v2')"),
    "again": (stranger("accept v2\n\nVersion: v2\nEvidence: {evidence}\n"), "not a commit of the run ('accept v2')"),
}


def stray(root: Path) -> None:
    (root / "versions/v2/praise.md").write_text("The best kernel.\n")
    git(root, "add", "versions")
    git(root, "commit", "-q", "--amend", "--no-edit")


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_noticed_and_named(copied: Path, name: str) -> None:
    forge, told = FORGERIES[name]
    forge(copied)
    (fault,) = replay(Repository(copied)).faults
    assert told in fault.reason and fault.outcome == "disagree"


def test_what_the_gate_wrote_follows_from_the_records_masked_or_not_in_a_clone_as_well(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graph.services.sources_digest", rendering.sources_digest)
    for verb in ("mask", "unmask"):
        assert main([verb, str(copied), "v2"]) == 0
        clone = tmp_path / verb
        git(tmp_path, "clone", "-q", str(copied), str(clone))
        history = replay(Repository(clone))
        assert history.faults == () and history.masked == ({2, 3} if verb == "mask" else set())


def test_another_state_of_kernelwright_may_render_otherwise(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "sources_digest", lambda: "another")
    assert replay(Repository(copied)).faults == (), "what is the same is the same"
    FORGERIES["report.md"][0](copied)
    (fault,) = replay(Repository(copied)).faults
    assert fault.outcome == "inconclusive" and "report.md differs" in fault.reason
    assert main(["audit", str(copied)]) == 1


def test_a_strangers_version_never_counts(copied: Path, capsys: Capsys) -> None:
    FORGERIES["stranger"][0](copied)
    assert main(["show", str(copied)]) == 0
    shown = capsys.readouterr().out
    assert "v4   not a version of the run: no record closes it" in shown and "was not made by this run" in shown
    assert main(["show", str(copied), "--json"]) == 0 and "v4" not in printed_json(capsys)["verdicts"]
    for verb in ("resume", "mask"):
        assert "was not made by this run" in refused(capsys, verb, str(copied), *(["v1"] if verb == "mask" else []))
    assert "no commit of the run closes it" in refused(capsys, "export", str(copied), "v4", "--format", "python")


def test_show_and_export_print_what_the_records_say(copied: Path, tmp_path: Path, capsys: Capsys) -> None:
    at_head("memory/v2.json", '"methods": \\[', '"methods": [\n"magic",')(copied)
    at_head("memory/v2.json", '"speedup": {\n *"estimate": ', '"speedup": {"estimate": 9')(copied)
    assert main(["show", str(copied)]) == 0
    assert "magic" not in (shown := capsys.readouterr().out) and "accept" in shown and "93." not in shown
    on_top(copied, edited("kernel.cpp", "\n", "\n// mine\n"), says("Speedup", "99 [98, 100]"))
    out = str(tmp_path / "out")
    said = refused(capsys, "export", str(copied), "v2", "--format", "python", "--out", out)
    assert "its record names" in said
    assert main(["export", str(copied), "v1", "--format", "python", "--out", out]) == 0


def test_a_record_that_does_not_hash_to_its_name_is_refused_by_name(copied: Path, capsys: Capsys) -> None:
    name = next((copied / "records").glob("*.json")).name
    edited(f"records/{name}", '"kind"', ' "kind"')(copied)
    edited(f"records/{name}", '"payload": {', '"payload": {"more": 1,')(copied)
    git(copied, "commit", "-q", "--all", "--amend", "--no-edit")
    assert main(["show", str(copied)]) != 0 and f"{name} does not match its id" in capsys.readouterr().err
    assert main(["audit", str(copied)]) == 1 and f"{name} does not match its id" in capsys.readouterr().out
