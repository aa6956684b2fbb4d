"""What a run is told of the knowledge base: nothing about other languages, all cited, by words and by vectors."""

from __future__ import annotations

from agents.artifacts import Dossier
from knowledge_base.pages.wiki import Wiki
from tests.graph.conftest import FinishedRun
from tools.store.records import Records


def dossiers(finished: FinishedRun) -> dict[str, Dossier]:
    """By record id."""
    records = Records(finished.root)
    found = [records.get(path.stem) for path in sorted((finished.root / "records").glob("*.json"))]
    return {record.id: Dossier.model_validate(record.payload) for record in found if record.kind == "dossier"}


def test_no_passage_about_another_language_reaches_the_planner(finished: FinishedRun) -> None:
    languages = {page.path: page.head.languages for page in Wiki.open().pages}
    found = [passage for dossier in dossiers(finished).values() for passage in dossier.passages]
    assert found and all("cpp" in languages[passage.path] or not languages[passage.path] for passage in found)


def test_vectors_had_a_say_and_evidence_shows_each_place(finished: FinishedRun) -> None:
    told = (finished.root / "versions" / "v1" / "evidence.md").read_text()
    (first,) = (dossier for identity, dossier in dossiers(finished).items() if identity in told)
    assert first.shortfall == "" and any("similar" in passage.why for passage in first.passages)
    assert all(f"- {passage.citation}-{passage.last_line} " in told for passage in first.passages)
    assert "Words alone" not in told
