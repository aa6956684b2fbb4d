"""README tells the truth about the graph, the tree and its commands."""

from __future__ import annotations

import re

from graph.__main__ import parser
from tests.readme import README, ROOT, replaced


def test_drawn_parts_are_current() -> None:
    assert README.read_text() == replaced(README.read_text()), "run `python -m tests.readme`"


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
