"""The measured goals of prompts, by the real provider against a server that keeps the API's rules of caching."""

from __future__ import annotations

from functools import cache
from statistics import median

import pytest

from benchmarks.caching import CachingMethod, Cost, costs_after_first_iteration, story_costs, total
from benchmarks.prompts import ONE_ANSWER, TYPICAL
from benchmarks.scenario import FOLDERS, VERDICTS, Scenario, ScriptedExchange

EQUIVALENT, SHARE = 12_000, 0.8
"""Uncached-equivalent input tokens of a typical iteration after the first; what is read from the cache where the
kernel at HEAD is that of the iteration before."""


@cache
def story(language: str) -> tuple[ScriptedExchange, ...]:
    return tuple(Scenario(language).asked())


@cache
def costs(language: str, way: CachingMethod) -> dict[tuple[int, str], Cost]:
    return story_costs(story(language), way)


@pytest.mark.slow
@pytest.mark.parametrize("language", sorted(FOLDERS))
@pytest.mark.parametrize("way", [ONE_ANSWER, TYPICAL], ids=["one answer", "three rounds of tools"])
def test_a_typical_iteration_costs_little_and_most_is_read_from_the_cache(language: str, way: CachingMethod) -> None:
    found = costs(language, way)
    each = [cost.equivalent for cost in costs_after_first_iteration(found)]
    assert len(each) == 5 and median(each) <= EQUIVALENT and sum(each) / len(each) <= EQUIVALENT
    shares = {number: total(cost for (at, _), cost in found.items() if at == number).share for number in range(2, 7)}
    same_head = [number for number in shares if VERDICTS[number - 2] != "accept"]
    assert len(same_head) == 3 and all(shares[number] >= SHARE for number in same_head), shares
