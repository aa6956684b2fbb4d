"""The coder: drafts are tried before they are judged, mended within bounds, and credited only with what was planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.lift.from_reference import LIFT_METHOD
from agents.models.playbook.model import Playbook
from agents.roles import coder
from tests.agents.scripted import agent, called
from tests.agents.softmax import METHOD, WIKI, bench, brief
from tests.tools.judge.test_judge import BROKEN, FASTER, NAIVE, WRONG, Counting, kernel
from tools.judge.judge import Judge

ALSO = FASTER.replace("1.0f / sum", "1.0f / (sum + 0.0f)")


def drafts(*sources: str, methods: tuple[str, ...] = (METHOD,)) -> Drafts:
    return Drafts(drafts=tuple(Draft(source=source, methods=methods) for source in sources))


def shown(asked: CoderBrief) -> str:
    return "\n".join(asked.failures)


def test_a_broken_draft_is_mended_before_any_is_judged(judging: Judge, tmp_path: Path) -> None:
    asked, model = agent("coder", tmp_path, [drafts(BROKEN, FASTER), drafts(WRONG), drafts(ALSO)])
    made = coder.write_candidates(asked, brief(), "p", ".cpp", bench(judging))
    assert [one.source for one in made] == [FASTER, ALSO]
    assert all(one.methods == (METHOD,) and one.parent == "p" for one in made)
    first, second, third = (request.brief for request in model.asked)
    assert isinstance(first, CoderBrief) and isinstance(second, CoderBrief) and isinstance(third, CoderBrief)
    assert first.failures == () and first.plan.candidates == 2
    assert second.plan.candidates == third.plan.candidates == 1, "the sound draft is not asked for again"
    assert (
        "failed at build" in shown(second)
        and "nothing" in shown(second)
        and BROKEN in shown(second)
        and FASTER not in shown(second)
    )
    assert "failed at correctness" in shown(third) and "tolerance" in shown(third) and WRONG in shown(third)
    assert all(
        "passes the compiler" in second.passing_drafts[0] and "line " in text
        for text in (second.passing_drafts[0], shown(third))
    ), "the compiler's word"


def test_mending_is_bounded_and_what_stays_broken_is_the_judges_to_say(judging: Judge, tmp_path: Path) -> None:
    lines = [drafts(BROKEN), drafts(BROKEN + "// again\n"), drafts(BROKEN + "// and again\n")]
    asked, model = agent("coder", tmp_path / "a", lines)
    made = coder.write_candidates(asked, brief(1), "p", ".cpp", bench(judging))
    assert len(model.asked) == 3 and [one.source for one in made] == [BROKEN + "// and again\n"]
    asked, model = agent("coder", tmp_path / "b", [drafts(BROKEN, FASTER)])
    assert [
        one.source for one in coder.write_candidates(asked, brief(), "p", ".cpp", bench(judging, fix_attempts=0))
    ] == [FASTER, BROKEN]


def test_a_model_with_tools_mends_within_its_loop(judging: Judge, tmp_path: Path) -> None:
    turns = [
        called(("compile", {"name": "a", "source": BROKEN}), turn=1),
        called(("compile", {"name": "a", "source": FASTER}), ("quick_check", {"name": "a"}), turn=2),
        called(("submit", {"name": "a", "methods": [METHOD], "last": True}), turn=3),
    ]
    asked, model = agent("coder", tmp_path, turns, tools=True)
    (made,) = coder.write_candidates(asked, brief(), "p", ".cpp", bench(judging))
    assert made.source == FASTER and made.methods == (METHOD,)
    assert len(model.asked) == 3, "what is handed in need not be said again"
    results = [result for request in model.asked for turn in request.turns[-1:] for result in turn.results]
    assert [result.failed for result in results] == [True, False, False] and "error" in results[0].text


@pytest.mark.parametrize(
    ("last", "expected"), [(drafts(ALSO), [FASTER, ALSO]), (drafts(FASTER), [FASTER])], ids=["more", "again"]
)
def test_what_was_handed_in_and_what_is_said_go_together(
    judging: Judge, tmp_path: Path, last: Drafts, expected: list[str]
) -> None:
    turns = [called(("compile", {"name": "a", "source": FASTER}), ("submit", {"name": "a", "methods": [METHOD]})), last]
    asked, model = agent("coder", tmp_path, turns, tools=True)
    made = coder.write_candidates(asked, brief(), "p", ".cpp", bench(judging))
    assert [one.source for one in made] == expected and len(model.asked) == 2


def test_tools_end_with_the_rounds_that_the_run_allows(judging: Judge, tmp_path: Path) -> None:
    turns = [called(("read_kernel", {"name": "incumbent"}), turn=n) for n in range(2)]
    asked, model = agent("coder", tmp_path, [*turns, drafts(FASTER)], tools=True)
    assert coder.write_candidates(asked, brief(), "p", ".cpp", bench(judging, max_turns=1))
    assert model.asked[2].refused and len(model.asked) == 3


def test_a_method_that_was_not_planned_is_returned_and_then_not_credited(judging: Judge, tmp_path: Path) -> None:
    boasting = drafts(FASTER, methods=(METHOD, "openmp-parallel-outer"))
    asked, model = agent("coder", tmp_path, [boasting, boasting])
    (made,) = coder.write_candidates(asked, brief(), "p", ".cpp", bench(judging))
    assert made.methods == (METHOD,)
    (why,) = model.asked[1].refused
    assert "drafts.0.methods: 'openmp-parallel-outer' is not planned" in why and METHOD in why


def test_ablations_are_asked_for_at_once_and_told_apart_by_what_they_hold(judging: Judge, tmp_path: Path) -> None:
    other, named = "own:other", brief().plan
    both = named.model_copy(update={"methods": (*named.methods, named.methods[0].model_copy(update={"method": other}))})
    champion = kernel(FASTER).model_copy(update={"methods": (METHOD, other)})
    unclear = drafts(ALSO, methods=(METHOD, other))
    asked, model = agent("coder", tmp_path, [unclear, drafts(ALSO, methods=(other,))])
    made = coder.write_ablations(asked, brief().model_copy(update={"plan": both}), champion, ".cpp", bench(judging))
    assert {method: one.methods for method, one in made.items()} == {METHOD: (other,)}
    assert len(model.asked) == 2 and "all methods of the champion except one" in model.asked[1].refused[0]


def test_the_playbook_is_not_held_up(judging: Judge, place: tuple[Path, Counting], tmp_path: Path) -> None:
    asked, _ = agent("coder", tmp_path, [])
    asked.model = Playbook({})
    pages = tuple(page for page in bench(judging).wiki.pages if page.head.id == METHOD)
    ran = place[1].kinds
    assert coder.write_candidates(asked, brief().model_copy(update={"pages": pages}), "p", ".cpp", bench(judging))
    assert place[1].kinds == ran


def test_a_lifted_kernel_is_handed_on_and_no_model_is_asked_for_it(judging: Judge, tmp_path: Path) -> None:
    page = WIKI.page(LIFT_METHOD)
    assert page is not None
    given = brief()
    item = given.plan.methods[0].model_copy(update={"method": LIFT_METHOD})
    planned = given.plan.model_copy(update={"methods": (item,)})
    asked, model = agent("coder", tmp_path, [])
    (made,) = coder.write_candidates(
        asked,
        given.model_copy(update={"plan": planned, "pages": (page,), "lifted_source": FASTER}),
        "p",
        ".cpp",
        bench(judging),
    )
    assert (made.source, made.methods, model.asked) == (FASTER, (LIFT_METHOD,), [])


def test_copies_of_the_parent_and_of_each_other_are_dropped(tmp_path: Path) -> None:
    given = drafts(NAIVE, FASTER, FASTER, ALSO, FASTER + "\n")
    asked, _ = agent("coder", tmp_path, [given, given])
    assert [one.source for one in coder.write_candidates(asked, brief(), "p", ".cpp")] == [FASTER, ALSO], (
        "two candidates are wanted"
    )


def test_a_child_of_a_candidate_that_lost_keeps_its_methods(tmp_path: Path) -> None:
    begun = brief(1).model_copy(update={"parent": ALSO, "parent_methods": ("fuse-passes",)})
    asked, _ = agent("coder", tmp_path, [drafts(ALSO, FASTER)])
    [made] = coder.write_candidates(asked, begun, "lost", ".cpp")
    assert (made.source, made.parent) == (FASTER, "lost"), "the parent itself is no draft"
    assert made.methods == ("fuse-passes", METHOD), "else the plan's method gets the credit for the parent's"
    champion = made.model_copy(update={"files": {"kernel.cpp": FASTER + "// all\n"}})
    asked, _ = agent("coder", tmp_path / "ablation", [drafts(FASTER, methods=("fuse-passes",))])
    assert coder.write_ablations(asked, brief(1), champion, ".cpp")[METHOD].methods == ("fuse-passes",)
