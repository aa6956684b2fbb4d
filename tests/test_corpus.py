"""The corpus: what attacks the judge is refused, and honest kernels that look odd are accepted."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.corpus import KERNELS, Bench, Entry, entries
from tools.executors.local import LocalExecutor
from tools.store.records import Records

ALL = entries()
CLASSES = """A1 A2 A3 A5 A8 A9 A11 A12 A13 A16 A17 B1 B3 B4 B5 B6 B7 B8 B9 B10 B12 B13 B14 B16 B17 B20 C1 C2 C5 C6 C8 C9 C11
C12 C14 C15 C17 C18 C21 C23 C24 C26 D1 D4 D5 D7 D8 D10 D11 D13 D14 D16 D17 D19 D20 remembering"""
"""Ids of the catalogue of reward hacks that apply here. Others need weights or modules (A6 C29), are about scores (B19
E), about mathematics that the task allows (C30), or win nothing (C20 C27 D2)."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("corpus")
    with LocalExecutor(Records(folder).blobs, folder / "scratch") as executor:
        yield Bench(folder, executor)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(one, marks=pytest.mark.slow if one.lane == "slow" else (), id=one.file)
        for one in ALL
        if one.lane != "gpu"
    ],
)
def test_an_attack_is_refused_and_an_honest_kernel_is_not(bench: Bench, entry: Entry) -> None:
    outcome = bench.outcome(entry)
    assert not entry.fault(outcome), outcome


def test_the_screen_says_of_kernels_for_a_gpu_what_their_entries_say() -> None:
    on_gpu = [one for one in ALL if one.lane == "gpu"]
    assert not [one.file for one in on_gpu if one.screen != ("refuses" if one.refusal_of_screen() else "passes")]
    assert not [one.file for one in on_gpu if one.kind == "honest" and one.screen == "refuses"]


def test_the_corpus_is_large_and_of_every_class_and_language() -> None:
    evil = [one for one in ALL if one.verdict == "refused"]
    assert len(evil) >= 60 and len(ALL) - len(evil) >= 30 and len({one.file for one in ALL}) == len(ALL)
    assert sum(one.lane == "fast" for one in evil) >= 12 and sum(one.lane == "fast" for one in ALL) >= 18
    assert {one.language for one in evil} == {"cpp", "triton", "cuda", "cutedsl"}
    assert {one.kind for one in evil} == set(CLASSES.split())
    assert all((one.kind == "honest") == (one.verdict == "accepted") for one in ALL)


def test_a_kernel_has_no_comment_and_an_entry() -> None:
    files = sorted(path for folder in ("evil", "honest") for path in (KERNELS / folder).iterdir() if path.is_file())
    assert [str(path.relative_to(KERNELS)) for path in files] == sorted(one.file for one in ALL)
    assert not [path for path in files if has_comment(path)]


def has_comment(path: Path) -> bool:
    """Whether a source has a comment or, in Python, a docstring."""
    text = path.read_text()
    if path.suffix != ".py":
        return bool(re.search(r"//|/\*", re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    return any(t.type == tokenize.COMMENT or (t.type == tokenize.STRING and t.string[:3] == '"""') for t in tokens)
