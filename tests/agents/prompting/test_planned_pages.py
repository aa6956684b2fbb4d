"""A coder that is given method pages is given their code, whole: for one, two and three planned methods, in each
language with pages."""

from __future__ import annotations

import re
from functools import cache

import pytest

from agents.artifacts import CoderBrief, Hypothesis, Plan, PlannedMethod, Prediction
from agents.prompting.render import PromptSection, render_sections
from agents.prompting.sections import fill_pages
from agents.prompting.token_budget import token_upper_bound
from benchmarks.scenario import Scenario
from knowledge_base.artifacts import Page
from knowledge_base.pages.wiki import Wiki, section_text

METHODS = [page for page in Wiki.open().pages if page.head.type == "method"]
LANGUAGES = sorted({language for page in METHODS for language in page.head.languages})
PLANNED = 3
"""At most, as a run has it by default."""
TASK = Scenario("cpp").task


def brief(language: str, planned: tuple[Page, ...]) -> CoderBrief:
    """A plan of these pages' methods; an architecture that is unknown has every signature shown."""
    task = TASK.model_copy(update={"language": language})
    move = Prediction(metric="time", direction="down", factor=0.8, confidence=0.4)
    because = Hypothesis(change="c", rationale="r", citations=("x",), expected=(move,))
    methods = tuple(
        PlannedMethod(method=page.head.id, axis=page.head.axis or "compute", hypothesis=because) for page in planned
    )
    return CoderBrief(
        task=task, source=task.baseline or "", plan=Plan(methods=methods, candidates=1), pages=planned, tried=()
    )


def shown(given: CoderBrief) -> PromptSection:
    return next(part for part in render_sections("coder", given, "Drafts") if part.section == "pages")


def code(page: Page, language: str) -> list[str]:
    """The blocks of a page in a language as they stand, less the imports that every example of Triton begins with."""
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```", section_text(page.body, "How"), flags=re.DOTALL | re.MULTILINE)
    spoken = [block for tags, block in blocks if language in tags.split()]
    return [re.sub(r"^import triton[^\n]*\n+", "", block, flags=re.MULTILINE) for block in spoken]


def lacking(text: str, planned: tuple[Page, ...], language: str = "cpp") -> list[str]:
    """What is not there of the pages' code and pitfalls."""
    pitfalls = {
        page.head.id: len(re.findall("^- ", section_text(page.body, "Pitfalls"), flags=re.MULTILINE))
        for page in planned
    }
    said = {
        page.head.id: text.partition(f"# {page.head.id}: ")[2].partition("Pitfalls:\n")[2].split("\n# ")[0]
        for page in planned
    }
    missing = [
        f"code of {page.head.id}"
        for page in planned
        if (not code(page, language) and len(page.head.languages) == 1)
        or any(block not in text for block in code(page, language))
    ]
    return missing + [
        f"pitfalls of {name}" for name, count in pitfalls.items() if len(re.findall("^- ", said[name], re.M)) != count
    ]


@cache
def of_methods(language: str) -> tuple[Page, ...]:
    """The pages of a language, shortest first."""
    return tuple(sorted((page for page in METHODS if language in page.head.languages), key=size))


def size(page: Page) -> int:
    """Of what is dear in a page."""
    content = fill_pages(brief(page.head.languages[0], (page,)), None)
    assert content is not None
    [item] = content.items
    assert item.costly_level is not None
    return len(item.levels[item.costly_level])


@pytest.mark.parametrize("count", range(1, PLANNED + 1))
@pytest.mark.parametrize("language", LANGUAGES)
def test_any_pages_that_are_planned_together_keep_code_and_pitfalls(language: str, count: int) -> None:
    """Where the longest do, all do."""
    found = of_methods(language)
    assert len(found) > PLANNED
    for planned in (found[-count:], found[: -count - 1 : -1], found[:count], found[len(found) // 2 :][:count]):
        part = shown(brief(language, planned))
        assert not lacking(part.text, planned, language), [page.head.id for page in planned]
        assert part.most is not None and token_upper_bound(part.text) <= part.most
        assert language == "cpp" or "#pragma omp" not in part.text, "code of another language"


def test_prose_goes_first_and_it_is_said() -> None:
    named = {page.head.id: page for page in METHODS}
    alone, three = (
        (named["fuse-passes"],),
        tuple(named[name] for name in ("fuse-passes", "simd-loop", "openmp-parallel-outer")),
    )
    whole, cut = shown(brief("cpp", alone)).text, shown(brief("cpp", three)).text
    assert "When it is legal:" in whole and "Cut to the budget" not in whole and "[…]" not in whole
    assert (
        "When it is legal:" not in cut
        and "(Cut to the budget of this section: 3 of 3 shortened.)" in cut
        and "[…]" in cut
    )
    assert not lacking(whole, alone) and not lacking(cut, three)
