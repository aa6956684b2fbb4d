"""Somebody's notes on a kernel: what is understood of them, and that the rest is told line by line."""

from pathlib import Path

import pytest

from knowledge_base.memo import read
from tools.errors import SettingsError

METHODS = ("triton-online-softmax", "triton-launch", "vector-exp")
MEMO = """\
# MEMO: row_softmax

- Backend: Triton
- **GPU:** sm_90
- dtype: fp16
- Bottleneck: DRAM memory bound

Some words on why this kernel matters.

## Attempt 1: one pass over the row (triton-online-softmax)
Result: accepted, 1.42x
The row is read once.

## v2 - bigger blocks
Status: rejected: 3 % slower, registers spilled

### Iteration 3: TMA loads
did not compile for this target

## Pending
- num_warps 8 (triton-launch), within noise
- persistent kernel

## Log
| version | change | status | speedup | notes |
|---|---|---|---|---|
| v4 | 2 rows a program | accepted | 1.08x | small rows |
| v5 | fast exp | crashed | - | NaN on -inf |
| v6 | cache hints | later | | |
"""


@pytest.fixture
def memo(tmp_path: Path) -> Path:
    path = tmp_path / "MEMO.md"
    path.write_text(MEMO)
    return path


def test_attempts_outcomes_and_conditions_are_read(memo: Path):
    found = read(memo, METHODS, {}).attempts
    assert [(one.methods, one.result, one.effect.estimate if one.effect else None) for one in found] == [
        (("triton-online-softmax",), "success", 1.42),
        (("bigger-blocks",), "failure", None),
        (("tma-loads",), "crash", None),
        (("triton-launch",), "neutral", None),
        (("persistent-kernel",), "neutral", None),
        (("2-rows-a-program",), "success", 1.08),
        (("fast-exp",), "crash", None),
    ]
    first = found[0]
    assert (first.operator, first.language, first.architecture, first.dtype) == ("row_softmax", "triton", "sm_90", "float16")
    assert (first.bottleneck, first.origin, first.workspace, first.verdict) == ("memory", "memo", "MEMO.md", "accept")
    assert first.effect is not None and not first.effect.bounded, "notes give no interval"
    assert "The row is read once." in first.note


def test_what_is_not_understood_is_told_line_by_line(memo: Path):
    left = read(memo, METHODS, {}).left
    lines = {int(one.removeprefix(f"{memo}:").split(":")[0]): one for one in left}
    assert set(lines) == {MEMO.splitlines().index(text) + 1 for text in MEMO.splitlines() if text.startswith(("Some words", "| v6"))}
    assert "what came of it" in lines[max(lines)] and "no attempt" in lines[min(lines)]


def test_every_line_is_used_or_told(tmp_path: Path):
    path = tmp_path / "notes.md"
    path.write_text("kernel: k\nlanguage: cpp\ndtype: float32\n\n* tried tiling\n1. unrolling: no gain\nfree text\n")
    found = read(path, METHODS, {})
    assert [one.methods for one in found.attempts] == [("unrolling",)]
    assert [one.removeprefix(f"{path}:")[0] for one in found.left] == ["5", "7"]


def test_the_same_notes_give_the_same_evidence(memo: Path, tmp_path: Path):
    copy = tmp_path / "elsewhere.md"
    copy.write_text("\n\n" + MEMO)
    assert [one.evidence for one in read(memo, METHODS, {}).attempts] == [one.evidence for one in read(copy, METHODS, {}).attempts]
    assert len({one.evidence for one in read(memo, METHODS, {}).attempts}) == 7


def test_what_the_notes_do_not_say_is_asked_for_and_what_is_said_wins(tmp_path: Path):
    path = tmp_path / "MEMO.md"
    path.write_text("- vector-exp: accepted 2x\n")
    with pytest.raises(SettingsError, match="does not say operator, language, dtype; add --operator"):
        read(path, METHODS, {"operator": ""})
    found = read(path, METHODS, {"operator": "softmax", "language": "cpp", "dtype": "float32", "architecture": "x86_64"})
    assert found.attempts[0].methods == ("vector-exp",) and found.attempts[0].architecture == "x86_64"
    with pytest.raises(SettingsError, match="cannot be read"):
        read(tmp_path / "gone.md", METHODS, {})


@pytest.mark.parametrize(
    ("words", "result"),
    [
        ("not faster", "failure"), ("faster", "success"), ("kept", "success"), ("reverted", "failure"), ("compile error", "crash"),
        ("wrong result", "crash"), ("no change", "neutral"), ("✅ 1.2x", "success"), ("no gain, reverted", "failure"),
        ("segfault, reverted", "crash"), ("inconclusive", "neutral"), ("hangs", "crash"),
        ("failed to compile", "crash"), ("failed", "failure"),
    ],
)  # fmt: skip
def test_words_for_outcomes(tmp_path: Path, words: str, result: str):
    path = tmp_path / "m.md"
    path.write_text(f"- tile: {words}\n")
    found = read(path, (), {"operator": "o", "language": "cpp", "dtype": "float32"})
    assert [one.result for one in found.attempts] == [result]


def test_a_type_that_there_is_not_is_said_once(tmp_path: Path):
    path = tmp_path / "m.md"
    path.write_text("- tile: accepted\n")
    with pytest.raises(SettingsError, match="dtype 'int3' is unknown; add --dtype with one of float64, float32"):
        read(path, (), {"operator": "o", "language": "cpp", "dtype": "int3"})


def test_a_journal_with_figures_in_its_result_column(tmp_path: Path):
    """The shape of a CUDA project's public optimisation journal: gate and validation as lists, a short table, then the whole history."""
    path = tmp_path / "JOURNAL.md"
    path.write_text(
        """\
# Journal

### Acceptance gate
- Keep only changes that improve the median without risk.

## Attempted changes
| Attempt | Date | Change | Outcome |
| --- | --- | --- | --- |
| A04 | 02-14 | Unroll by two | Not implemented (each block needs the one before) |
| A03 | 02-14 | Wider loads: 16 bytes | Reverted (`-11%`; improved nothing) |
| A02 | 02-13 | Cooperative kernel | Kept |
| A01 | 02-13 | First version | Baseline |

## Validation
- Two reruns confirmed the improved median.

## Full history
| Attempt | Date | State | Change | Result | Outcome |
| --- | --- | --- | --- | --- | --- |
| A03 | 02-14 | tree | Wider loads: 16 bytes | 8.5 against 9.5 | Reverted |
| A02 | 02-13 | tree | Cooperative kernel | faster, 0.98 | Kept |
| A00 | 02-13 | tree | Cache hint | faster in one run | Reverted (slower in the mean) |
"""
    )
    found = read(path, (), {"operator": "hash", "language": "cuda", "dtype": "int64"})
    assert [(one.methods[0], one.result) for one in found.attempts] == [
        ("wider-loads", "failure"),
        ("cooperative-kernel", "success"),
        ("cache-hint", "failure"),
    ]
    assert sum("was told above" in one for one in found.left) == 2


@pytest.mark.parametrize(
    ("head", "operator", "language"),
    [
        ("# Kernel notes: fused_norm\nBackend: CUDA C++", "fused_norm", "cuda"),
        ("# fused_norm - MEMO\n- language = C++", "fused_norm", "cpp"),
        ("# Anything\n**Kernel**: fused_norm\nLanguage: Triton 3.6", "fused_norm", "triton"),
    ],
)
def test_titles_and_languages(tmp_path: Path, head: str, operator: str, language: str):
    path = tmp_path / "m.md"
    path.write_text(f"{head}\n- tile: accepted\n")
    (found,) = read(path, (), {"dtype": "float32"}).attempts
    assert (found.operator, found.language) == (operator, language)


TOLD = {"operator": "o", "language": "cpp", "dtype": "float32"}


def test_a_factor_in_another_column_than_the_verdict(tmp_path: Path):
    path = tmp_path / "m.md"
    path.write_text(
        """\
| Change | Result | Outcome | Note |
| --- | --- | --- | --- |
| tile | 1.31x | accepted | 8x8 blocks, 2x the code |
| unroll | faster, 1.1x | rejected: 0.97x in the mean | |
"""
    )
    found = read(path, (), TOLD).attempts
    assert [(one.result, one.effect.estimate if one.effect else None) for one in found] == [("success", 1.31), ("failure", 0.97)]


def test_numbers_that_begin_anew_in_each_table_hide_nothing(tmp_path: Path):
    path = tmp_path / "m.md"
    table = "| # | Change | Outcome |\n| --- | --- | --- |\n"
    path.write_text(f"{table}| 1 | tile | kept |\n| 2 | unroll | kept |\n\n{table}| 1 | prefetch | reverted |\n| 2 | unroll | kept |\n")
    found = read(path, (), TOLD)
    assert [one.methods[0] for one in found.attempts] == ["tile", "unroll", "prefetch"]
    assert [one.removeprefix(f"{path}:") for one in found.left] == ["9: 2 was told above"]


@pytest.mark.parametrize(
    ("heading", "result"),
    [
        ("Rejected by the gate", "failure"),
        ("Accepted, profile-guided", "success"),
        ("Kept over the baseline", "success"),
        ("Gate: rejected", "failure"),
        ("Pending validation", "neutral"),
        ("Acceptance gate", None),
        ("Accept/reject criteria", None),
        ("Rules for accepted changes", None),
        ("How the gate decides what is kept", None),
        ("Validation", None),
    ],
)
def test_a_list_below_a_heading_that_tells_an_outcome(tmp_path: Path, heading: str, result: str | None):
    path = tmp_path / "m.md"
    path.write_text(f"## {heading}\n- tile the rows\n")
    found = read(path, (), TOLD)
    assert [one.result for one in found.attempts] == ([result] if result else [])
    assert len(found.left) == (0 if result else 1)
