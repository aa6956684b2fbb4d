"""Knowledge-retriever: turns findings into queries and what the knowledge base answers into a cited dossier."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agents.artifacts import Dossier, Queries, Query, RetrieverBrief
from agents.base import Agent
from knowledge_base.artifacts import Attempt, Page, Passage

PASSAGES_PER_QUERY = 4


def retrieve(
    agent: Agent,
    brief: RetrieverBrief,
    search: Callable[[str], Sequence[Passage]],
    methods: Sequence[Page],
    attempts: Sequence[Attempt],
) -> Dossier:
    """Ask at least one kernel-specific and one bottleneck query (C3), archive them, and return what was found."""
    queries = list(agent.ask(brief, Queries).queries)
    # C3 asks for both kinds; a model that forgot one is completed from the facts, not asked again.
    if not any(query.purpose == "kernel" for query in queries):
        queries.append(Query(text=f"{brief.task.name} {brief.task.language}", purpose="kernel"))
    if not any(query.purpose == "bottleneck" for query in queries):
        queries.append(Query(text=brief.bottleneck, purpose="bottleneck"))
    passages: dict[tuple[str, int], Passage] = {}
    for query in queries:
        for passage in list(search(query.text))[:PASSAGES_PER_QUERY]:
            passages.setdefault((passage.path, passage.first_line), passage)
    return Dossier(queries=tuple(queries), passages=tuple(passages.values()), methods=tuple(methods), attempts=tuple(attempts))
