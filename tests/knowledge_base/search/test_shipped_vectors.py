"""The vectors that come with the repository: they cover the bundled wiki, are the model's, and spare the first
question from embedding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knowledge_base.pages.wiki import Wiki
from knowledge_base.search import embedding, vectors
from knowledge_base.search.documents import Architectures, of_wiki
from knowledge_base.search.index import Index
from knowledge_base.search.vectors import Vectors
from tests.knowledge_base.search.test_vectors import written
from tests.shipped import wanted

model = pytest.mark.skipif(
    not (embedding.MODEL.found() and embedding.TOKENIZER.found()), reason="needs the extra `embeddings`"
)


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that the model was asked to embed."""
    texts: list[str] = []
    work = embedding.MiniLM.embed
    monkeypatch.setattr(embedding.MiniLM, "embed", lambda self, asked: texts.extend(asked) or work(self, asked))
    return texts


def test_the_file_covers_the_bundled_wiki_and_nothing_else() -> None:
    held, texts = vectors.codes_by_key(embedding.MiniLM()), wanted()
    missing, gone = [text for key, text in texts.items() if key not in held], held.keys() - texts.keys()
    assert not missing and not gone, (
        f"{len(missing)} passages or phrases have no shipped vector (such as {missing[:1]}), {len(gone)} vectors "
        f"belong to none: "
        "run python -m tests.shipped"
    )


@model
def test_the_first_question_embeds_nothing_but_itself(tmp_path: Path, embedded: list[str]) -> None:
    index, question = (
        Index(Wiki.open(), vectors=Vectors(tmp_path / "index", embedding.MiniLM())),
        "threads of a warp read far apart addresses",
    )
    found = index.search(question, 5)
    assert index.shortfall == "" and all("similar" in passage.why for passage in found)
    assert "skills/gpu-poor-coalescing.md" in [passage.path for passage in found]
    assert embedded == [question]


@model
def test_a_page_that_is_not_ours_is_embedded_as_ever_and_once(tmp_path: Path, embedded: list[str]) -> None:
    wiki = written(tmp_path / "wiki", {"spills": ("Spills", "Registers spill to local memory.")})
    entries = tuple(of_wiki(wiki, Architectures(wiki)))
    for asked in (["Spills\n# Spills\n\nRegisters spill to local memory."], []):
        embedded.clear()
        (near,) = Vectors(tmp_path / "index", embedding.MiniLM()).nearest(entries, "registers", 1)
        assert embedded == [*asked, "registers"]
        assert near.similarity == pytest.approx(
            float(np.dot(*embedding.MiniLM().embed(["registers", entries[0].text]))), abs=1e-4
        )


@model
def test_shipped_vectors_are_the_models() -> None:
    embedder, texts = embedding.MiniLM(), list(wanted().values())[::150]
    held = vectors.precomputed(embedder, [embedder.key(text) for text in texts])
    cosines = (np.stack(list(held.values())) * embedder.embed(texts)).sum(axis=1)
    assert cosines.min() > 0.98


def test_four_bits_keep_the_direction(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 384)).astype(np.float32)
    rows[7] = 0
    embedder, file = embedding.MiniLM(), tmp_path / "some.vectors"
    keys = [embedder.key(str(number)) for number in range(50)]
    vectors.write_precomputed(embedder, dict(zip(keys, vectors.packed(rows), strict=True)), file)
    found = vectors.precomputed(embedder, [*keys, embedder.key("another")], file)
    assert list(found) == keys and not found[keys[7]].any()
    lengths = np.linalg.norm(rows, axis=1)
    for number in set(range(50)) - {7}:
        assert np.linalg.norm(found[keys[number]]) == pytest.approx(1, abs=1e-5)
        assert found[keys[number]] @ rows[number] / lengths[number] > 0.98


def test_what_another_embedder_made_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, embedder = tmp_path / "some.vectors", embedding.MiniLM()
    vectors.write_precomputed(embedder, {embedder.key("text"): bytes(192)}, file)
    assert vectors.codes_by_key(embedder, file)
    assert not vectors.codes_by_key(embedding.Hashed(), file) and not vectors.codes_by_key(embedder, tmp_path / "none")
    monkeypatch.setattr(embedding.MiniLM, "id", "minilm-other")
    assert not vectors.codes_by_key(embedder, file)
