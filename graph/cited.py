"""The specs that a run resolved once: each citation is opened again before a use (mission E1)."""

from __future__ import annotations

from collections.abc import Iterator

from graph.artifacts import SpecSheet
from graph.services import Services
from knowledge_base import specs
from knowledge_base.wiki import Wiki
from tools.artifacts import Citation, Spec, digest
from tools.errors import WorkspaceError


def sheet(identity: str, services: Services) -> SpecSheet:
    """The sheet in the record `identity`; WorkspaceError when a line that it cites says something else now. Nothing is lost by that."""
    found = SpecSheet.model_validate(services.records.get(identity).payload)
    wiki = services.wiki
    for spec, citation in stale(found, wiki):
        raise WorkspaceError(
            f"{citation} does not say any more what this run cited it for ({str(spec).partition(' <- ')[0]} of {found.product}); restore "
            f"that line in {wiki.root} and `python -m graph resume {services.workspace.root}`, or start a new run with the wiki as it is"
        )
    return found


def stale(found: SpecSheet, wiki: Wiki) -> Iterator[tuple[Spec, Citation]]:
    """Specs that no longer hold, each with the line that changed."""
    for spec in found.specs:
        if not specs.reverify(wiki, spec):
            cited = [spec.citation, *([spec.via] if spec.via else [])]
            yield spec, next((c for c in cited if not _same(wiki, c)), spec.citation)


def _same(wiki: Wiki, citation: Citation) -> bool:
    line = wiki.line(citation.path, citation.line)
    return line is not None and digest(line) == citation.sha256
