"""The knowledge-retriever: turns findings into queries, and the knowledge base's answers into a cited dossier."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agents.artifacts import Dossier, KnowledgeQuery, Queries, RetrieverBrief
from agents.roles.agent import Agent
from knowledge_base.artifacts import Attempt, Page, Passage
from tools.errors import UnusableAnswerError

PASSAGES_PER_QUERY = 4
MAX_QUERIES = 8


def retrieve_dossier(
    agent: Agent,
    brief: RetrieverBrief,
    search: Callable[[str], Sequence[Passage]],
    methods: Sequence[Page],
    attempts: Sequence[Attempt],
    *,
    explain: Callable[[str], str] = lambda query: "",
    holds: Callable[[Passage], bool] = lambda passage: True,
) -> Dossier:
    """Ask at least one query about the kernel and one about the bottleneck (C3), and return them with their results.

    A missing purpose and a query without results (`explain` returns why) are reported to the model once. A purpose that
    is still missing gets a query from the facts of the brief, and so do both if the answer is unreadable. Only passages
    for which `holds` is true are kept: those whose lines in the file still say the same.
    """

    def faults(answer: Queries) -> tuple[str, ...]:
        kinds = {query.purpose for query in answer.queries}
        found = [
            f"queries: no query has the purpose {kind!r}; ask at least one of each purpose"
            for kind in ("kernel", "bottleneck")
            if kind not in kinds
        ]
        if len(answer.queries) > MAX_QUERIES:
            found.append(f"queries: {len(answer.queries)} are too many; ask only the {MAX_QUERIES} most important ones")
        vain = (query.text for query in answer.queries[:MAX_QUERIES] if not search(query.text))
        found += [f"queries: {text!r} finds nothing ({explain(text)}); ask in other words" for text in vain]
        return tuple(found)

    try:
        asked_queries = agent.ask(brief, Queries, faults).queries
    except UnusableAnswerError:
        asked_queries = ()
    queries = _complete_purposes(asked_queries, brief)
    passages: dict[tuple[str, int], Passage] = {}
    for query in queries:
        for found in [one for one in search(query.text) if holds(one)][:PASSAGES_PER_QUERY]:
            for passage in filter(holds, found.and_remedy()):
                passages.setdefault((passage.path, passage.first_line), passage)
    return Dossier(queries=queries, passages=tuple(passages.values()), methods=tuple(methods), attempts=tuple(attempts))


def _complete_purposes(asked_queries: Sequence[KnowledgeQuery], brief: RetrieverBrief) -> tuple[KnowledgeQuery, ...]:
    """Return the first MAX_QUERIES queries, and for each missing purpose one query from the facts of the brief."""
    queries = tuple(dict.fromkeys(asked_queries))[:MAX_QUERIES]
    facts: tuple[KnowledgeQuery, KnowledgeQuery] = (
        KnowledgeQuery(text=f"{brief.task.name} {brief.task.language}", purpose="kernel"),
        KnowledgeQuery(text=brief.bottleneck, purpose="bottleneck"),
    )
    return (*queries, *(fact for fact in facts if not any(query.purpose == fact.purpose for query in queries)))
