"""Pieces in a budget."""

from __future__ import annotations

from agents.prompting.token_budget import PromptItem, fit_to_budget, token_upper_bound
from agents.text.fencing import cut_middle, one_line


def test_what_fits_is_left_alone() -> None:
    items = [PromptItem("a", ("long a", "a")), PromptItem("b", ("long b", "b"))]
    assert fit_to_budget(items, None).text == fit_to_budget(items, 100).text == "long a\nlong b"
    assert fit_to_budget(items, 100).note == ""


def test_details_go_before_items_and_the_least_important_first() -> None:
    items = [PromptItem(name, (name * 300, name * 90, name)) for name in "abcd"]
    two = fit_to_budget(items, 340)
    assert two.text.split("\n") == ["a" * 300, "b" * 300, "c" * 90, "d" * 90] and "2 of 4 shortened" in two.note
    ranked = fit_to_budget([item._replace(rank=-at) for at, item in enumerate(items)], 340)
    assert ranked.text.split("\n") == ["a" * 90, "b" * 90, "c" * 300, "d" * 300], "a higher rank goes first"


def test_what_is_dear_is_given_up_for_want_of_room_alone() -> None:
    items = [PromptItem(name, (name * 900, name * 600, name * 300), costly_level=1) for name in "abc"]
    lines = [len(one) for one in fit_to_budget(items, 900, 500).text.split("\n")]
    assert lines == [600, 600, 600], "more than was aimed at, but no more than there is room for"
    assert [len(one) for one in fit_to_budget(items, 900, 800).text.split("\n")] == [900, 600, 600], (
        "what is aimed at is used"
    )
    short = fit_to_budget(items, 480, 100)
    assert [len(one) for one in short.text.split("\n")] == [600, 300, 300] and "3 of 3 shortened" in short.note
    assert fit_to_budget(items, 2000, 2000) == fit_to_budget(items, None) and fit_to_budget(items, None, 950).note == ""


def test_what_is_left_out_is_counted_and_named() -> None:
    items = [PromptItem(f"name-{n}", ("x" * 120,)) for n in range(60)]
    found = fit_to_budget(items, 400)
    assert (
        token_upper_bound(found.text) <= 400
        and "left out" in found.note
        and "[left out: name-" in found.text
        and "more]" in found.text
    )
    assert found.text.startswith("x"), "the most important stays"


def test_a_log_keeps_its_ends() -> None:
    log = "\n".join(f"line {n}" for n in range(1000))
    short = cut_middle(log, 600)
    assert (
        short.startswith("line 0\n") and short.endswith("line 999") and "lines left out" in short and len(short) < 700
    )
    assert cut_middle(log, 10**6) == log
    assert len(one_line("x" * 10_000, 50)) < 100 and "9950 characters left out" in one_line("x" * 10_000, 50)
