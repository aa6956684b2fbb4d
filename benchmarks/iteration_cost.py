"""What an iteration costs by the ledger, as Markdown tables: python -m benchmarks.iteration_cost [MODEL ...]

Simulated, and nothing is paid: the story of `benchmarks.scenario` (six iterations on a softmax: real prompts, the
playbook's answers, with ablations) goes through the provider `anthropic`, the official SDK and the ledger to a server
on this machine that keeps the API's rules for caching. That server counts characters / 4 as tokens. There is no
thinking in it, which is paid as output.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agents.artifacts import CoderBrief, GatekeeperBrief, RoleName
from agents.models import prices
from agents.models.ledger import Ledger, Spending, exchange_records, format_dollars
from benchmarks.caching import CachingMethod, play_story
from benchmarks.scenario import FOLDERS, Scenario, ScriptedExchange

MODELS = ("claude-opus-5-5", "claude-sonnet-5-5")
ROLES: tuple[RoleName, ...] = ("profiler_analyst", "knowledge_retriever", "planner", "coder", "gatekeeper")
ROUNDS = 3
"""Of tools, for each answer of the coder."""


def iteration_exchanges(language: str) -> Iterator[ScriptedExchange]:
    """The scenario with the ablations of what is accepted."""
    coder: CoderBrief | None = None
    for one in Scenario(language).asked():
        coder = one.brief if isinstance(one.brief, CoderBrief) else coder
        ablated = _ablations(coder) if coder and isinstance(one.brief, GatekeeperBrief) else ()
        yield from (ScriptedExchange(one.iteration, "coder", brief, "Drafts") for brief in ablated)
        yield one


def _ablations(brief: CoderBrief) -> tuple[CoderBrief, ...]:
    """Taking the only method out leaves the incumbent, which nobody needs to write."""
    methods = tuple(one.method for one in brief.plan.methods)
    if len(methods) < 2:
        return ()
    plan = brief.plan.model_copy(update={"candidates": len(methods)})
    return (brief.model_copy(update={"ablated_methods": methods, "plan": plan, "failures": ()}),)


def play_iteration(language: str, model: str, folder: Path, *, tools: bool) -> Ledger:
    """The account of the story, with `model` in every role and its records in `folder`."""
    return play_story(
        iteration_exchanges(language),
        CachingMethod(rounds=ROUNDS if tools else None, model=model),
        folder,
        prices.published_prices(),
    )


def table(language: str, models: Sequence[str] = MODELS, *, tools: bool) -> str:
    """A row a role, summed over the run; then its iterations, and the run."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-cost-") as folder:
        return _table({model: play_iteration(language, model, Path(folder) / model, tools=tools) for model in models})


def _table(books: Mapping[str, Ledger]) -> str:
    models = tuple(books)
    last = max(record.payload["iteration"] for record in exchange_records(books[models[0]].records))
    head = ["", "exchanges", "written to the cache", "read from the cache", "output", *models]
    lines = [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
    lines += [_row(role, [book.spending(role) for book in books.values()]) for role in ROLES]
    first = [[book.spending(iteration=at) for book in books.values()] for at in (0, 1)]
    lines.append(_row("v0 and the first iteration", [_total_spent(pair) for pair in zip(*first, strict=True)]))
    later = [
        _total_spent([book.spending(iteration=at) for at in range(2, last + 1)], last - 1) for book in books.values()
    ]
    lines.append(_row("each later iteration, mean", later))
    lines.append(_row(f"**run of {last} iterations**", [book.spending() for book in books.values()]))
    return "\n".join(lines)


def _row(name: str, spent: Sequence[Spending]) -> str:
    one = spent[0]
    # Its last block carries a mark, so that an exchange with this provider reads nothing at the plain price.
    counted = [one.exchanges, one.written + one.input, one.cached, one.output]
    return f"| {' | '.join([name, *(f'{number:,}' for number in counted), *(format_dollars(each.usd) for each in spent)])} |"


def _total_spent(found: Iterable[Spending], parts: int = 1) -> Spending:
    every = list(found)
    assert not any(one.unknown for one in every)
    whole = {
        name: sum(getattr(one, name) for one in every) for name in ("exchanges", "input", "cached", "written", "output")
    }
    usd, seconds = sum(one.usd for one in every) / parts, sum(one.seconds for one in every) / parts
    return Spending(
        **{name: round(number / parts) for name, number in whole.items()}, usd=usd, unknown=(), seconds=seconds
    )


def main(models: Sequence[str]) -> None:
    for language in FOLDERS:
        for tools in (False, True):
            coder = "with tools" if tools else "in one shot"
            print(f"\n## softmax in {language}, the coder {coder}\n\n{table(language, models, tools=tools)}")


if __name__ == "__main__":
    main(sys.argv[1:] or MODELS)
