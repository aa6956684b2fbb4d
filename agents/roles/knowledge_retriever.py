"""Knowledge-retriever: turns findings into queries and what the knowledge base answers into a cited dossier."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agents.artifacts import Dossier, Queries, Query, RetrieverBrief
from agents.roles.agent import Agent
from knowledge_base.artifacts import Attempt, Page, Passage
from tools.errors import UnusableAnswerError

PASSAGES_PER_QUERY = 4
MOST_QUERIES = 8


def retrieve(
    agent: Agent,
    brief: RetrieverBrief,
    search: Callable[[str], Sequence[Passage]],
    methods: Sequence[Page],
    attempts: Sequence[Attempt],
    *,
    explain: Callable[[str], str] = lambda query: "",
    holds: Callable[[Passage], bool] = lambda passage: True,
) -> Dossier:
    """Ask at least one kernel-specific and one bottleneck query (C3), archive them, and return what was found.

    A kind that is missing and a query that finds nothing (`explain` says why) are returned to the model once; a kind
    still missing is then completed from the facts, and so are both where the answer cannot be read. Of what is found
    only passages that `holds` are taken: those whose line, opened now, says the same.
    """

    def faults(answer: Queries) -> tuple[str, ...]:
        kinds = {query.purpose for query in answer.queries}
        found = [
            f"queries: none has the purpose {kind!r}; ask at least one of each"
            for kind in ("kernel", "bottleneck")
            if kind not in kinds
        ]
        if len(answer.queries) > MOST_QUERIES:
            found.append(f"queries: {len(answer.queries)} are too many; ask the {MOST_QUERIES} that matter most")
        vain = (query.text for query in answer.queries[:MOST_QUERIES] if not search(query.text))
        found += [f"queries: {text!r} finds nothing ({explain(text)}); ask in other words" for text in vain]
        return tuple(found)

    try:
        asked = agent.ask(brief, Queries, faults).queries
    except UnusableAnswerError:
        asked = ()
    queries = _both(asked, brief)
    passages: dict[tuple[str, int], Passage] = {}
    for query in queries:
        for passage in [one for one in search(query.text) if holds(one)][:PASSAGES_PER_QUERY]:
            passages.setdefault((passage.path, passage.first_line), passage)
    return Dossier(queries=queries, passages=tuple(passages.values()), methods=tuple(methods), attempts=tuple(attempts))


def _both(asked: Sequence[Query], brief: RetrieverBrief) -> tuple[Query, ...]:
    """The first MOST_QUERIES of what was asked, and of a kind that is not among them one from the facts."""
    queries = tuple(dict.fromkeys(asked))[:MOST_QUERIES]
    facts: tuple[Query, Query] = (
        Query(text=f"{brief.task.name} {brief.task.language}", purpose="kernel"),
        Query(text=brief.bottleneck, purpose="bottleneck"),
    )
    return (*queries, *(fact for fact in facts if not any(query.purpose == fact.purpose for query in queries)))
