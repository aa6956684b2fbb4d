"""The vector half of a search: Chroma's collection is filled once, answers with current texts, and may be missing."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from knowledge_base.pages.wiki import Wiki
from knowledge_base.search import embedding
from knowledge_base.search.embedding import Embedder
from knowledge_base.search.index import Index
from knowledge_base.search.vector_index import VectorIndex, VectorsUnavailable
from tools.errors import SettingsError

if TYPE_CHECKING:
    from knowledge_base.search.embedding import VectorRows

PAGE = "---\nid: {name}\ntype: guide\ntitle: {title}\n---\n# {title}\n\n{text}\n"
TEXTS = {0: "neighbouring threads read neighbouring addresses", 1: "zzz", 2: "a thread with many registers"}


def written(root: Path, texts: dict[str, tuple[str, str]]) -> Wiki:
    root.mkdir(exist_ok=True)
    for name, (title, text) in texts.items():
        (root / f"{name}.md").write_text(PAGE.format(name=name, title=title, text=text))
    return Wiki.open(root)


class Letters(Embedder):
    """Counts of letters: a real embedder, if a poor one."""

    id, dim, min_similarity = "letters:1", 26, 0.9
    embedded = 0

    def embed(self, texts: Sequence[str]) -> VectorRows:
        import numpy as np

        self.embedded += len(texts)
        counts = np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)
        unit: VectorRows = counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), np.float32(1e-9))
        return unit


def test_the_nearest_rows_come_first_and_each_text_is_embedded_once(tmp_path: Path) -> None:
    first, second = Letters(), Letters()
    index = VectorIndex(tmp_path / "index", first)
    near = index.nearest_rows(TEXTS, "threads read addresses", 2, TEXTS)
    assert [one.row for one in near] == [0, 2] and near[0].similarity > near[1].similarity
    assert [one.row for one in index.nearest_rows(TEXTS, "zzzz", 5, {0, 2})] == [0, 2], "only rows that pass"
    assert index.nearest_rows(TEXTS, "zzzz", 5, ()) == [] and first.embedded == 5
    changed = {**TEXTS, 1: "warps", 3: TEXTS[0]}
    again = VectorIndex(tmp_path / "index", second).nearest_rows(changed, "neighbouring threads", 9, changed)
    assert {one.row for one in again} == {0, 1, 2, 3} and second.embedded == 2, "the new text and the question"


def test_a_store_that_cannot_be_used_leaves_the_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wiki = written(tmp_path / "wiki", {"fences": ("Fences", "A fence orders writes.")})
    (tmp_path / "file").write_text("")
    index = Index(wiki, vectors=VectorIndex(tmp_path / "file", Letters()))
    assert index.search("fence")[0].path == "fences.md" and str(tmp_path / "file") in index.shortfall
    monkeypatch.setitem(sys.modules, "chromadb.errors", None)
    index = Index(wiki, vectors=VectorIndex(tmp_path / "index", Letters()))
    assert index.search("fence") and index.shortfall.startswith("chromadb is not installed")


def test_a_server_that_does_not_answer_is_named_and_a_wrong_url_refused(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    index = VectorIndex(tmp_path, Letters(), server=url)
    for _ in range(2):
        with pytest.raises(VectorsUnavailable, match=url):
            index.nearest_rows(TEXTS, "threads", 1, TEXTS)
    with pytest.raises(SettingsError, match="is not the URL of a server"):
        VectorIndex(tmp_path, Letters(), server="nowhere").nearest_rows(TEXTS, "threads", 1, TEXTS)


@pytest.mark.skipif(
    not (embedding.MODEL.location() and embedding.TOKENIZER.location()), reason="needs the extra `embeddings`"
)
def test_minilm_agrees_with_its_model_card() -> None:
    texts = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    vectors = embedding.MiniLM().embed(texts)
    assert (vectors[1:] @ vectors[0]).tolist() == pytest.approx([0.6946, 0.9429, 0.2569], abs=0.01)


def test_a_model_file_that_was_not_tested_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_model").mkdir()
    (tmp_path / "some_model" / "model.onnx").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    for package, says in (("some_model", "is not the file that was tested"), ("no_such_package", "is not installed")):
        with pytest.raises(SettingsError, match=says):
            embedding.MODEL._replace(package=package).read()
