"""The index on disk: built once by whoever comes first, whole or not at all, mended, swapped, thrown away."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from knowledge_base.pages.wiki import Wiki
from knowledge_base.search import embedding
from knowledge_base.search import vectors as vectors_module
from knowledge_base.search.documents import Architectures, Entry, of_wiki
from knowledge_base.search.snapshots import Unavailable, intact
from knowledge_base.search.vector_store import facet
from knowledge_base.search.vectors import Vectors
from tools.errors import SettingsError

PAGE = "---\nid: {name}\ntype: guide\ntitle: {title}\n---\n# {title}\n\n{text}\n"
TEXTS = {
    "coalescing": ("Neighbouring threads", "Let neighbouring threads read neighbouring addresses."),
    "registers": ("Registers", "A thread that needs many registers leaves room for few warps."),
    "exponentials": ("Exponentials", "The exponential of a vector is computed by a polynomial."),
}


@pytest.fixture(params=["exact", "chroma"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test is run with either store, as if a few entries were many."""
    monkeypatch.setattr("knowledge_base.search.vectors.EXACT", 0 if request.param == "chroma" else 10_000_000)
    return str(request.param)


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


def generations(folder: Path) -> list[Path]:
    return sorted(path.parent for path in (folder / "index").glob("*/manifest.json"))


def asked(one: Vectors, wiki: Wiki, query: str) -> str:
    entries = entries_of(wiki)
    return entries[one.nearest(entries, query, 1)[0].row].passage.path


def test_both_stores_find_the_nearest_first_among_those_that_pass_a_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = entries_of(Wiki.open(types=("skill",)))[:60]
    entries += entries[:3]
    facets = sorted({facet(entry) for entry in entries})[1:]
    query, found = "lanes of a warp read a column of shared memory", []
    for most in (10_000_000, 0):
        monkeypatch.setattr("knowledge_base.search.vectors.EXACT", most)
        one = vectors(tmp_path)
        for wanted in (None, facets, ["no such facet"]):
            near = one.nearest(entries, query, 10, wanted)
            assert len({entries[place.row].identity() for place in near}) == len(near)
            assert [place.similarity for place in near] == sorted((place.similarity for place in near), reverse=True)
            for place in near[:1]:
                told, asked_for = embedding.Hashed().embed([entries[place.row].text, query])
                assert place.similarity == pytest.approx(float(told @ asked_for), abs=1e-4)
            found.append({(place.row, round(place.similarity, 4)) for place in near})
        one.close()
    assert found[:3] == found[3:] and len(found[0]) == len(found[1]) == 10 and found[0] != found[1] and not found[2]


@pytest.mark.usefixtures("store")
def test_readers_share_a_generation_and_change_no_file_of_it(tmp_path: Path, wiki: Wiki) -> None:
    first, second = vectors(tmp_path), vectors(tmp_path)
    assert asked(first, wiki, "registers") == asked(second, wiki, "registers") == "registers.md"
    first.close()
    (place,) = generations(tmp_path)
    assert intact(place)
    assert asked(second, wiki, "neighbouring addresses") == "coalescing.md"


@pytest.mark.usefixtures("store")
def test_a_changed_wiki_is_a_new_generation_and_nobody_waits_for_the_old(tmp_path: Path, wiki: Wiki) -> None:
    one = vectors(tmp_path)
    asked(one, wiki, "registers")
    changed = written(wiki.root, {"registers": ("Fences", "A fence orders writes."), "new": ("Spills", "Registers spill to local memory.")})
    assert asked(one, changed, "registers spill") == "new.md"
    assert len(generations(tmp_path)) == 2
    assert asked(one, wiki, "registers") == "registers.md", "the old generation still answers for the old wiki"


def test_another_embedder_never_reads_what_this_one_wrote(tmp_path: Path, wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(vectors(tmp_path), wiki, "registers")
    monkeypatch.setattr(embedding.Hashed, "dim", 512)
    assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"
    assert len(generations(tmp_path)) == 2


@pytest.mark.usefixtures("store")
def test_a_damaged_generation_is_built_anew(tmp_path: Path, wiki: Wiki) -> None:
    asked(vectors(tmp_path), wiki, "registers")
    (place,) = generations(tmp_path)
    for name in sorted(path.name for path in place.rglob("*") if path.is_file() and path.stat().st_size):
        file = next(place.rglob(name))
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2])
        assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"
        (place,) = generations(tmp_path)
        assert intact(place)


def test_a_generation_damaged_while_somebody_reads_it_is_built_anew(tmp_path: Path, wiki: Wiki, store: str) -> None:
    reader = vectors(tmp_path)
    asked(reader, wiki, "registers")
    (place,) = generations(tmp_path)
    (place / {"exact": "vectors.npy", "chroma": "chroma.sqlite3"}[store]).write_bytes(b"gone")
    assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"
    assert asked(reader, wiki, "neighbouring addresses") == "coalescing.md"


@pytest.mark.parametrize("sound", [0, 4096], ids=["from its first byte", "behind its first page"])
def test_a_damaged_table_of_vectors_is_begun_anew(tmp_path: Path, wiki: Wiki, sound: int) -> None:
    asked(vectors(tmp_path), wiki, "softmax")
    table = next(tmp_path.rglob("vectors.sqlite"))
    data = table.read_bytes()
    table.write_bytes(data[:sound] + b"\xab" * (len(data) - sound))
    for generation in generations(tmp_path):
        (generation / "manifest.json").unlink()
    assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"


def test_a_table_that_another_process_locks_is_left_alone(tmp_path: Path, wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge_base.search.vectors.LOCKED_S", 0.0)
    vectors(tmp_path).nearest(entries_of(wiki), "softmax", 1)
    table = tmp_path / "index" / "vectors.sqlite"
    held = table.stat().st_ino
    for generation in generations(tmp_path):
        (generation / "manifest.json").unlink()
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


BUILD = """
import sys
from pathlib import Path
from knowledge_base.search import embedding as embed
from knowledge_base.search import vectors
from tests.knowledge_base.search.test_vectors import Wiki, asked
vectors.EXACT = int(sys.argv[3])
wiki, one = Wiki.open(Path(sys.argv[1])), vectors.Vectors(Path(sys.argv[2]) / "index", embed.Hashed())
print("ready", flush=True)
sys.stdin.readline()
print(asked(one, wiki, "registers"))
"""


def builder(wiki: Wiki, folder: Path) -> subprocess.Popen[str]:
    """A process that is ready to build and was told to."""
    command = [sys.executable, "-c", BUILD, str(wiki.root), str(folder), str(vectors_module.EXACT)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[3], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


@pytest.mark.usefixtures("store")
def test_processes_that_come_at_once_build_one_index_and_all_get_answers(tmp_path: Path, wiki: Wiki) -> None:
    processes = [builder(wiki, tmp_path) for _ in range(3)]
    assert [process.communicate()[0] for process in processes] == ["registers.md\n"] * 3
    (place,) = generations(tmp_path)
    assert intact(place) and not list((tmp_path / "index").glob("building-*"))


@pytest.mark.parametrize("at", ["building-*", "building-*/*"])
@pytest.mark.usefixtures("store")
def test_a_killed_builder_leaves_nothing_that_is_read(tmp_path: Path, wiki: Wiki, at: str) -> None:
    process = builder(wiki, tmp_path)
    until = time.monotonic() + 60
    while not list((tmp_path / "index").glob(at)) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"
    assert len(generations(tmp_path)) == 1 and not list((tmp_path / "index").glob("building-*"))


@pytest.mark.parametrize(
    ("server", "error", "says"),
    [
        ("", Unavailable, "cannot be written"),
        ("somewhere", SettingsError, "chroma: 'somewhere'"),
        ("http://localhost:9", Unavailable, "the Chroma server at http://localhost:9"),
    ],
)
def test_what_keeps_no_vectors_says_so(tmp_path: Path, wiki: Wiki, server: str, error: type[Exception], says: str) -> None:
    (tmp_path / "index").write_text("a file is in the way")
    with pytest.raises(error, match=says):
        asked(Vectors(tmp_path / "index", embedding.Hashed(), server), wiki, "registers")


@pytest.mark.slow
def test_a_server_keeps_the_vectors_where_one_is_named(tmp_path: Path, wiki: Wiki) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(tmp_path / "server"), "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(tmp_path)})
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        for _ in range(2):
            one = Vectors(tmp_path / "index", embedding.Hashed(), f"http://127.0.0.1:{port}")
            assert asked(one, wiki, "registers") == "registers.md"
        assert not generations(tmp_path)
    finally:
        server.terminate()
        server.wait()
