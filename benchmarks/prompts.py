"""What prompts cost, as Markdown: python -m benchmarks.prompts [cpp | triton] > benchmarks/results/prompts.md

The tables of caching are by the ledger's own count of the real provider's exchanges (see `caching`), a token being
characters / 4 there; the tables of sections are by characters / 3, an upper bound, as budgets are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from agents.prompting.render import render_sections
from agents.prompting.token_budget import token_upper_bound
from benchmarks.caching import CachingMethod, Cost, costs_after_first_iteration, story_costs, total
from benchmarks.scenario import FOLDERS, Scenario, ScriptedExchange

ONE_ANSWER, TYPICAL = CachingMethod(), CachingMethod(rounds=3)
WAYS = {
    "one answer a call": ONE_ANSWER,
    "tools offered to the coder, none called": CachingMethod(rounds=0),
    "3 rounds of tools for each answer of the coder": TYPICAL,
    "5 rounds": CachingMethod(rounds=5),
    "8 rounds": CachingMethod(rounds=8),
    "one answer a call, each role with a model of its own": CachingMethod(models=5),
    "one answer a call, `structured: json_schema`": CachingMethod(structured="json_schema"),
}
HEAD = "not from the cache | from cache | share | uncached equivalent | with the price of writing"
RULE = "--:|--:|--:|--:|--:|"
INTRODUCTION = """# What prompts cost

`python -m benchmarks.prompts` prints this anew: six iterations on a softmax, with the real wiki, briefs, prompts, agents and Anthropic
provider, against a server on this machine that keeps the API's rules of caching (marks, least size, look-back, time to live; ten minutes
between iterations; a token is 4 characters). Plans and kernels are the playbook's, verdicts and what tools say are made up; with tools the
coder compiles two drafts in a round, checks and times them in the next, goes on so with one more, and hands in with the last.

Uncached equivalent: what is read from the cache counts a tenth; with the price of writing, what is written counts 1.25 (kept for five
minutes) or 2 (an hour). Goals: at most 12,000 uncached equivalent in a typical iteration after the first, at least 80 % from the
cache where the kernel at HEAD is that of the iteration before (3, 5 and 6 here; 2 and 4 follow an accepted version, whose evidence is new).

The playbook plans one or two methods here. Of the 81 plans that it made in 28 runs on kernels of other people (see foreign.md), 45 had one,
21 two and 15 three, which is the most; what three in every plan would take stands below each table.
"""
MOST_METHODS = 3


def row(name: object, cost: Cost) -> str:
    """One line of a table."""
    values = f"{cost.uncached:,} | {cost.cached:,} | {cost.share:.0%} | {cost.equivalent:,.0f} | {cost.priced:,.0f}"
    return f"| {name} | {values} |"


def iterations(found: dict[tuple[int, str], Cost]) -> str:
    """What each iteration took."""
    rows = [f"| iteration | {HEAD} |", f"|---|{RULE}"]
    numbers = sorted({at for at, _ in found})
    rows += [
        row(number or "0 (v0)", total(cost for (at, _), cost in found.items() if at == number)) for number in numbers
    ]
    return "\n".join([*rows, row("all", total(found.values()))])


def roles(found: dict[tuple[int, str], Cost]) -> str:
    """What each role took over all iterations."""
    rows = [f"| role | exchanges | {HEAD} |", f"|---|--:|{RULE}"]
    for role in sorted({who for _, who in found}):
        cost = total(cost for (_, who), cost in found.items() if who == role)
        rows.append(row(f"{role} | {cost.exchanges}", cost))
    return "\n".join(rows)


def ways(story: Sequence[ScriptedExchange], named: Iterable[str] = tuple(WAYS)) -> str:
    """The same story, asked in other ways."""
    rows = [
        (
            "| how | share from cache, all | after the first | uncached equivalent an iteration after the first | "
            "with the price of writing |"
        )
    ]
    rows.append("|---|--:|--:|--:|--:|")
    for name in named:
        found = story_costs(story, WAYS[name])
        after = costs_after_first_iteration(found)
        mean = total(after)
        each = f"{mean.equivalent / len(after):,.0f} | {mean.priced / len(after):,.0f}"
        rows.append(f"| {name} | {total(found.values()).share:.1%} | {mean.share:.1%} | {each} |")
    return "\n".join(rows)


def sections(story: Iterable[ScriptedExchange]) -> str:
    """Most tokens that each section took, a row a role."""
    most: dict[tuple[str, str, str], int] = {}
    limits: dict[tuple[str, str, str], int | None] = {}
    for one in story:
        for part in render_sections(one.role, one.brief, one.answer):
            at = (one.role, part.block, part.section)
            most[at] = max(most.get(at, 0), token_upper_bound(part.text))
            limits[at] = part.most
    rows = [f"| {' | '.join(at)} | {used} | {limits[at] or '—'} |" for at, used in most.items()]
    return "\n".join(["| role | block | section | most tokens | budget |", "|---|---|---|--:|--:|", *rows])


def main(languages: Sequence[str]) -> None:
    print(INTRODUCTION)
    for language in languages:
        story = list(Scenario(language).asked())
        print(f"## Softmax in {language}\n\n{ways(story)}")
        shown = ("one answer a call", "3 rounds of tools for each answer of the coder")
        most = list(Scenario(language, MOST_METHODS).asked())
        print(f"\n{MOST_METHODS} methods in every plan:\n\n{ways(most, shown)}")
        for name in shown:
            found = story_costs(story, WAYS[name])
            print(f"\n{name[0].upper()}{name[1:]}:\n\n{iterations(found)}\n\n{roles(found)}")
        print(f"\nSections, and the most that each took:\n\n{sections(story)}\n")


if __name__ == "__main__":
    main(sys.argv[1:] or tuple(FOLDERS))
