"""README tells the truth about the graph, the folders, a first kernel and its commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graph.__main__ import main, parser
from tests.readme import MODULES, README, ROOT, replaced, tree
from tools.__main__ import main as tool


def test_drawn_parts_are_current() -> None:
    assert README.read_text() == replaced(README.read_text()), "run `python -m tests.readme`"
    assert MODULES.read_text() == tree(), "run `python -m tests.readme`"


def test_every_module_and_folder_is_in_the_tree_and_every_folder_in_the_readme() -> None:
    drawn, folders = tree(), README.read_text().split("## The folders")[1].split("<!-- end -->")[0]
    for package in ("tools", "knowledge_base", "agents", "graph"):
        for path in (ROOT / package).rglob("*.py"):
            assert f"{path.parent.name if path.name == '__init__.py' else path.name}" in drawn, path
        for path in (ROOT / package).iterdir():
            if path.is_dir() and path.name != "__pycache__":
                assert f"  {path.name}/" in folders, path


def test_the_first_kernel_that_it_shows_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("centre.cpp", "centre.py"):
        (found,) = re.findall(rf"^```\w+\n(?://|#) {name}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
        (tmp_path / name).write_text(found)
    assert tool(["check", "--kernel", str(tmp_path / "centre.cpp"), "--ref", str(tmp_path / "centre.py")]) == 0, capsys.readouterr().err
    assert "the kernel compiles, agrees with the reference and is timed" in capsys.readouterr().out


def test_a_kernel_can_be_written_for_the_logic_that_it_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = re.findall(r"^```python\n# relu_softmax/reference.py\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    folder = tmp_path / "relu_softmax"
    folder.mkdir()
    (folder / "reference.py").write_text(found)
    assert main(["check", str(folder)]) == 0, capsys.readouterr().err
    assert "No kernel was given: v0 was written from reference.py by the coder (Playbook)." in capsys.readouterr().out


def test_every_verb_that_it_names_exists() -> None:
    verbs = set(parser()._subparsers._group_actions[0].choices)  # type: ignore[union-attr]
    named = {verb for found in re.findall(r"python -m graph ([a-z|]+)", README.read_text()) for verb in found.split("|")}
    assert named <= verbs
    assert {"run", "resume", "check", "show", "report", "verify"} <= named


def test_every_make_target_and_file_that_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`|^)make ([a-z]+)", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for name in re.findall(r"`((?:configs|graph|tools)/[A-Za-z_/.]+)`", README.read_text()):
        assert (ROOT / name).exists(), name


def test_nothing_is_left_to_fill_in() -> None:
    assert not re.search(r"@[A-Z]+@", README.read_text())


def test_the_share_of_timed_calls_that_it_names_is_the_harnesss() -> None:
    found = re.search(r"([\d.]+) % of the\s+candidate's others, chosen at random", README.read_text())
    harness = re.search(r"^SAMPLED = ([\d.]+)$", (ROOT / "tools" / "harness" / "pairs.py").read_text(), re.MULTILINE)
    assert found and harness and float(found[1]) / 100 == float(harness[1])
