"""Vectors: the nearest first, each text embedded once, and what lies on disk mended or done without."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from knowledge_base.pages.wiki import Wiki
from knowledge_base.search import embedding
from knowledge_base.search.documents import Architectures, Entry, of_wiki
from knowledge_base.search.vector_store import Unavailable, facet
from knowledge_base.search.vectors import Vectors
from tools.errors import SettingsError

PAGE = "---\nid: {name}\ntype: guide\ntitle: {title}\n---\n# {title}\n\n{text}\n"
TEXTS = {
    "coalescing": ("Neighbouring threads", "Let neighbouring threads read neighbouring addresses."),
    "registers": ("Registers", "A thread that needs many registers leaves room for few warps."),
    "exponentials": ("Exponentials", "The exponential of a vector is computed by a polynomial."),
}


@pytest.fixture
def wiki(tmp_path: Path) -> Wiki:
    return written(tmp_path / "wiki", TEXTS)


def written(root: Path, texts: dict[str, tuple[str, str]]) -> Wiki:
    root.mkdir(exist_ok=True)
    for name, (title, text) in texts.items():
        (root / f"{name}.md").write_text(PAGE.format(name=name, title=title, text=text))
    return Wiki.open(root)


def entries_of(wiki: Wiki) -> tuple[Entry, ...]:
    return tuple(of_wiki(wiki, Architectures(wiki)))


def vectors(folder: Path) -> Vectors:
    return Vectors(folder / "index", embedding.Hashed())


def asked(one: Vectors, wiki: Wiki, query: str) -> str:
    entries = entries_of(wiki)
    return entries[one.nearest(entries, query, 1)[0].row].passage.path


def test_the_nearest_come_first_once_each_among_those_that_pass_a_filter(tmp_path: Path) -> None:
    entries = entries_of(Wiki.open(types=("skill",)))[:60]
    entries += entries[:3]
    facets = sorted({facet(entry) for entry in entries})[1:]
    query, found = "lanes of a warp read a column of shared memory", []
    for wanted in (None, facets, ["no such facet"]):
        near = vectors(tmp_path).nearest(entries, query, 10, wanted)
        assert len({entries[place.row].identity() for place in near}) == len(near)
        assert [place.similarity for place in near] == sorted((place.similarity for place in near), reverse=True)
        for place in near[:1]:
            told, asked_for = embedding.Hashed().embed([entries[place.row].text, query])
            assert place.similarity == pytest.approx(float(told @ asked_for), abs=1e-4)
        found.append({place.row for place in near})
    assert len(found[0]) == len(found[1]) == 10 and found[0] != found[1] and not found[2]


def test_a_changed_wiki_is_asked_as_it_is(tmp_path: Path, wiki: Wiki) -> None:
    one = vectors(tmp_path)
    asked(one, wiki, "registers")
    changed = written(
        wiki.root,
        {"registers": ("Fences", "A fence orders writes."), "new": ("Spills", "Registers spill to local memory.")},
    )
    assert asked(one, changed, "registers spill") == "new.md"
    assert asked(one, wiki, "registers") == "registers.md"


def test_another_embedder_never_reads_what_this_one_wrote(
    tmp_path: Path, wiki: Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(vectors(tmp_path), wiki, "registers")
    monkeypatch.setattr(embedding.Hashed, "dim", 512)
    assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"


@pytest.mark.parametrize("sound", [0, 4096], ids=["from its first byte", "behind its first page"])
def test_a_damaged_table_of_vectors_is_begun_anew(tmp_path: Path, wiki: Wiki, sound: int) -> None:
    asked(vectors(tmp_path), wiki, "softmax")
    table = next(tmp_path.rglob("vectors.sqlite"))
    data = table.read_bytes()
    table.write_bytes(data[:sound] + b"\xab" * (len(data) - sound))
    assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"


def test_a_table_that_another_process_locks_is_left_alone(
    tmp_path: Path, wiki: Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge_base.search.vectors.LOCKED_S", 0.0)
    vectors(tmp_path).nearest(entries_of(wiki), "softmax", 1)
    table = tmp_path / "index" / "vectors.sqlite"
    held = table.stat().st_ino
    with closing(sqlite3.connect(table)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unavailable, match=r"cannot be used .*locked"):
            vectors(tmp_path).nearest(entries_of(wiki), "softmax", 1)
    assert table.stat().st_ino == held, "deleted under its writer"
    assert vectors(tmp_path).nearest(entries_of(wiki), "softmax", 1)


def test_texts_are_embedded_once(tmp_path: Path, wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    work = embedding.Hashed.embed
    monkeypatch.setattr(embedding.Hashed, "embed", lambda self, asked: texts.extend(asked) or work(self, asked))
    one = vectors(tmp_path)
    one.nearest(entries_of(wiki), "registers", 1)
    assert len(texts) == len(TEXTS) + 1
    changed = written(wiki.root, {"new": ("Spills", "Registers spill to local memory.")})
    one.nearest(entries_of(changed), "registers", 1)
    assert len(texts) == len(TEXTS) + 1 + 2, "the query twice, and of the passages only the new one"


def test_all_who_come_at_once_get_answers(tmp_path: Path, wiki: Wiki) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: asked(vectors(tmp_path), wiki, "registers"), range(8))) == {"registers.md"}


@pytest.mark.parametrize(
    ("server", "error", "says"),
    [
        ("", Unavailable, "cannot be written"),
        ("somewhere", SettingsError, "chroma: 'somewhere'"),
        ("http://localhost:9", Unavailable, "the Chroma server at http://localhost:9"),
    ],
)
def test_what_keeps_no_vectors_says_so(
    tmp_path: Path, wiki: Wiki, server: str, error: type[Exception], says: str
) -> None:
    (tmp_path / "index").write_text("a file is in the way")
    with pytest.raises(error, match=says):
        asked(Vectors(tmp_path / "index", embedding.Hashed(), server), wiki, "registers")


@pytest.mark.slow
def test_a_server_keeps_the_vectors_where_one_is_named_and_finds_the_same(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(Path(sys.executable).with_name("chroma")),
        "run",
        "--path",
        str(tmp_path / "server"),
        "--port",
        str(port),
    ]
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(tmp_path)}
    )
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        entries = entries_of(Wiki.open(types=("skill",)))[:60]
        for facets in (None, sorted({facet(entry) for entry in entries})[1:]):
            served = Vectors(tmp_path / "index", embedding.Hashed(), f"http://127.0.0.1:{port}")
            near = [
                one.nearest(entries, "lanes of a warp read a column", 10, facets) for one in (served, vectors(tmp_path))
            ]
            assert {place.row for place in near[0]} == {place.row for place in near[1]}
            assert near[0][0].similarity == pytest.approx(near[1][0].similarity, abs=1e-4)
    finally:
        server.terminate()
        server.wait()
