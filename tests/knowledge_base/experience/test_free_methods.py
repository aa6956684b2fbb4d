"""A method that a plan named itself, from the log to a page of the overlay and back: what is kept, listed, edited,
dropped and offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_base.__main__ import main
from knowledge_base.artifacts import Attempt, Page
from knowledge_base.experience import free_methods
from knowledge_base.experience.log import Experience
from knowledge_base.experience.similarity import Conditions
from knowledge_base.pages.wiki import HOME_VARIABLE, read_page
from knowledge_base.specs import measured
from tests.knowledge_base.experience.test_log import attempt
from tests.support import Capsys

METRIC = "measured_memory_bandwidth"
TEXT = f"Two rows a warp.\n\n## Rules\nObey.\n\n| metric | value | unit |\n|---|---|---|\n| {METRIC} | 99 | TB/s |\n"


def outcome(operator: str, evidence: str, effect: float | None = 1.3, **changes: object) -> Attempt:
    """A version accepted with `own:two-rows`."""
    gain = {"estimate": effect, "low": effect - 0.2, "high": effect + 0.2} if effect else None
    free = {
        "method": "own:two-rows",
        "axis": "memory",
        "change": TEXT,
        "rationale": "Rows are short.",
        "effect": gain,
        "device": "Chip",
    }
    said = {"methods": ("own:two-rows",), "operator": operator, "findings": ("redundant_passes",), "free": (free,)}
    return attempt(evidence, **(said | changes))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experience:
    """With one such outcome, and one of a method that stood beside another and is not separable."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    found = Experience(tmp_path)
    found.add(outcome("matmul", "b" * 16, None, methods=("own:two-rows", "tiles")))
    found.add(outcome("softmax", "a" * 16))
    return found


def file(log: Experience) -> Path:
    return log.home / "overlay" / "own" / "cpp-two-rows.md"


def test_a_page_says_what_when_and_what_came_of_it_and_quotes_the_model(log: Experience) -> None:
    made = read_page(file(log).parent, file(log).name)
    assert isinstance(made, Page) and made.head.id == "own:two-rows" and made.head.sources == ("a" * 16, "b" * 16)
    assert (made.head.axis, made.head.rules, made.head.applies_to) == ("memory", ("redundant_passes",), ("x86_64",))
    lines = made.body.splitlines()
    assert (
        f"> {' '.join(TEXT.split())}" in lines
        and "## Rules" not in lines
        and not [one for one in lines if one.startswith("|")]
    )
    assert (
        f"- 1.3x [1.1, 1.5] on softmax: x86_64, Chip, float32, 2^25B, limited by compute; findings "
        f"redundant_passes; record {'a' * 16}" in lines
    )
    assert [one for one in lines if one.startswith("- not separable beside tiles on matmul: ")]
    assert measured.resolve_measured("two rows", METRIC, home=log.home) is None, (
        "what it quotes is no figure of a product"
    )


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"language": "cpp", "operator": "log_softmax"}, True),
        ({"language": "cpp", "operator": "transpose", "architectures": ("x86_64",), "bottleneck": "compute"}, True),
        ({"language": "cpp", "operator": "transpose", "bottleneck": "memory"}, False),
        ({"language": "triton", "operator": "softmax"}, False),
    ],
)
def test_a_similar_kernel_retrieves_it_and_another_does_not(
    log: Experience, asked: dict[str, str], found: bool
) -> None:
    assert bool(free_methods.pages_for_conditions(log.attempts(), Conditions.model_validate(asked))) == found


def test_people_list_edit_and_drop_it_and_a_merge_or_the_same_run_brings_nothing_back(
    log: Experience, tmp_path: Path, capsys: Capsys
) -> None:
    before = log.read_lines().attempts
    assert (
        main(["experience", "own"]) == 0
        and "own:two-rows  1.300x [1.1, 1.5]  cpp, memory; gained on softmax  /" in capsys.readouterr().out
    )
    assert main(["experience", "edit", "own:two-rows", "--what", "One row a thread."]) == 0
    assert "> One row a thread.\n" in file(log).read_text() and "> Rows are short.\n" in file(log).read_text()
    assert main(["experience", "drop", "own:two-rows"]) == 0 and not file(log).exists()
    log.merge(before)
    log.add(outcome("softmax", "a" * 16, masked=True))
    log.add(outcome("softmax", "a" * 16))
    assert not file(log).exists() and len(log.attempts()) == 2, "its outcomes stay"
    assert main(["experience", "own"]) == 1
    assert main(["experience", "edit", "own:two-rows"]) == main(["experience", "drop", "own:two-rows"]) == 2
    assert "own:two-rows: the log holds no such method" in capsys.readouterr().err


def test_three_different_kernels_make_it_a_method_page(log: Experience, capsys: Capsys) -> None:
    for operator, evidence in (("softmax", "c"), ("relu", "d"), ("sum", "e")):
        assert main(["pages", "redundant_passes", "--language", "cpp"]) == 0
        assert "own:two-rows" not in capsys.readouterr().out
        log.add(outcome(operator, evidence * 16))
    main(["pages", "redundant_passes", "--language", "cpp"])
    assert f"redundant_passes: method own:two-rows: two rows  {file(log)}\n" in capsys.readouterr().out
