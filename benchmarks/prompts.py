"""What prompts cost, as Markdown tables: python -m benchmarks.prompts [cpp | triton]

Tokens are characters / 3, an upper bound for code and prose. The cache is simulated: a server that keeps every prefix of blocks that it
has seen, from 512 tokens up, for as long as the story lasts; what it keeps is read at a tenth of the price.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agents.artifacts import CoderBrief
from agents.fitting import tokens
from agents.models.answers import schema
from agents.models.base import Block, Request
from agents.prompting import blocks, parts
from benchmarks.scenario import FOLDERS, Asked, Scenario

LEAST_CACHED = 512
"""Tokens below which a prefix is not kept (Anthropic's documentation on prompt caching; more on older models)."""
READ = 0.1
"""Price of a token read from the cache, of the full one."""

ROUNDS = (0, 1, 3, 5, 8)
"""Tool rounds of a coder that compiles, checks and times before it answers; each reads all before it again."""
RESULT = "compiled; 12 of 12 cases right; 1.31x [1.27, 1.36] of the incumbent on 4096x1024, 1.18x [1.12, 1.25] on 512x1000\n" * 2


class Cost(NamedTuple):
    """Input tokens of some calls."""

    full: int = 0
    cached: int = 0

    @property
    def equivalent(self) -> float:
        """In tokens at the full price."""
        return self.full + READ * self.cached

    @property
    def share(self) -> float:
        """Read from the cache."""
        return self.cached / max(1, self.full + self.cached)

    def __add__(self, other: tuple[object, ...]) -> Cost:
        assert isinstance(other, Cost)
        return Cost(self.full + other.full, self.cached + other.cached)


class Cache:
    """Prefixes of blocks that a server has seen."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, ...]] = set()

    def ask(self, prompt: Sequence[Block]) -> Cost:
        """What a call with this prompt costs; its prefixes are kept."""
        texts = tuple(block.text for block in prompt)
        prefixes = [texts[:end] for end in range(1, len(texts) + 1)]
        kept = [prefix for prefix in prefixes if tokens("".join(prefix)) >= LEAST_CACHED]
        cached = max((tokens("".join(prefix)) for prefix in kept if prefix in self._seen), default=0)
        self._seen.update(kept)
        return Cost(tokens("".join(texts)) - cached, cached)


def costs(story: Iterable[Asked], rounds: int = 0) -> dict[tuple[int, str], Cost]:
    """(iteration, role) -> cost. `rounds`: times that the coder calls a tool (with its kernel) before each answer."""
    cache = Cache()
    found: dict[tuple[int, str], Cost] = defaultdict(Cost)
    for one in story:
        prompt = _with_form(one)
        found[one.iteration, one.role] += cache.ask(prompt)
        for number in range(rounds if isinstance(one.brief, CoderBrief) else 0):
            prompt.append(Block(scope="iteration", text=f"round {number}\n{one.brief.source}\n{RESULT}"))
            found[one.iteration, one.role] += cache.ask(prompt)
    return dict(found)


def _with_form(one: Asked) -> list[Block]:
    """The prompt, with what a provider says of the answer's form at the end of the stable part."""
    first, *rest = blocks(one.role, one.brief, one.answer)
    form = json.dumps(schema(Request(role=one.role, brief=one.brief, answer=one.answer)))
    return [first.model_copy(update={"text": f"{first.text}\n{form}"}), *rest]


def total(found: dict[tuple[int, str], Cost], *, first: int = 0, role: str = "") -> Cost:
    """Of one role or all, from iteration `first` on."""
    return sum((cost for (at, who), cost in found.items() if at >= first and role in ("", who)), Cost())


def sections(story: Iterable[Asked]) -> str:
    """Most tokens that each section took, a row a role."""
    most: dict[tuple[str, str, str], int] = {}
    limits: dict[tuple[str, str, str], int | None] = {}
    for one in story:
        for part in parts(one.role, one.brief, one.answer):
            at = (one.role, part.layer, part.section)
            most[at] = max(most.get(at, 0), tokens(part.text))
            limits[at] = part.most
    rows = [f"| {' | '.join(at)} | {used} | {limits[at] or '—'} |" for at, used in most.items()]
    return "\n".join(["| role | layer | section | most tokens | budget |", "|---|---|---|--:|--:|", *rows])


def iterations(found: dict[tuple[int, str], Cost]) -> str:
    """What each iteration cost."""
    rows = ["| iteration | full price | from cache | uncached equivalent |", "|---|--:|--:|--:|"]
    for number in sorted({at for at, _ in found}):
        cost = sum((one for (at, _), one in found.items() if at == number), Cost())
        rows.append(f"| {number} | {cost.full} | {cost.cached} | {cost.equivalent:.0f} |")
    whole, later = total(found), total(found, first=2)
    count = max(at for at, _ in found) - 1
    rows.append(f"| all | {whole.full} | {whole.cached} ({whole.share:.0%}) | {whole.equivalent:.0f} |")
    rows.append(
        f"| mean after the first | {later.full // count} | {later.cached // count} ({later.share:.0%}) | {later.equivalent / count:.0f} |"
    )
    return "\n".join(rows)


def by_rounds(story: Sequence[Asked]) -> str:
    """What the coder's tool rounds do to it."""
    rows = ["| tool rounds | from cache, all | from cache, after the first | uncached equivalent an iteration after the first |"]
    rows.append("|--:|--:|--:|--:|")
    for rounds in ROUNDS:
        found = costs(story, rounds)
        later, count = total(found, first=2), max(at for at, _ in found) - 1
        rows.append(f"| {rounds} | {total(found).share:.0%} | {later.share:.0%} | {later.equivalent / count:.0f} |")
    return "\n".join(rows)


def main(languages: Sequence[str]) -> None:
    for language in languages:
        story = list(Scenario(language).asked())
        print(f"\n## softmax in {language}\n\n{iterations(costs(story))}\n\n{by_rounds(story)}\n\n{sections(story)}")


if __name__ == "__main__":
    main(sys.argv[1:] or tuple(FOLDERS))
