"""The index on disk: built once by whoever comes first, whole or not at all, mended, swapped, thrown away."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import pytest

from knowledge_base import embed
from knowledge_base import vectors as vectors_module
from knowledge_base.entries import Architectures, Entry, of_wiki
from knowledge_base.generations import Unavailable, intact
from knowledge_base.stores import Content, facet
from knowledge_base.vectors import Vectors
from knowledge_base.wiki import Wiki
from tools.errors import SettingsError

PAGE = """---
id: {name}
type: guide
title: {title}
---
# {title}

{text}
"""
TEXTS = {
    "coalescing": ("Neighbouring threads", "Let neighbouring threads read neighbouring addresses."),
    "registers": ("Registers", "A thread that needs many registers leaves room for few warps."),
    "exponentials": ("Exponentials", "The exponential of a vector is computed by a polynomial."),
}


@pytest.fixture(params=["exact", "chroma"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The test is run with either store, as if a few entries were many."""
    monkeypatch.setattr("knowledge_base.vectors.EXACT", 0 if request.param == "chroma" else 10_000_000)
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
    return Vectors(folder / "index", embed.Hashed())


def generations(folder: Path) -> list[Path]:
    return sorted(path.parent for path in (folder / "index").glob("*/manifest.json"))


def asked(one: Vectors, wiki: Wiki, query: str) -> str:
    entries = entries_of(wiki)
    return entries[one.nearest(entries, query, 1)[0].row].passage.path


@pytest.mark.usefixtures("store")
def test_the_nearest_come_first_with_their_cosine(tmp_path: Path, wiki: Wiki) -> None:
    entries = entries_of(wiki)
    found = vectors(tmp_path).nearest(entries, "registers of a thread", 3)
    assert entries[found[0].row].passage.path == "registers.md"
    assert [one.similarity for one in found] == sorted((one.similarity for one in found), reverse=True)
    told, query = embed.Hashed().embed([entries[found[0].row].text, "registers of a thread"])
    assert found[0].similarity == pytest.approx(float(told @ query), abs=1e-4)


def test_both_stores_find_the_same_among_those_that_pass_a_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = entries_of(Wiki.open(types=("skill",)))[:60]
    entries += entries[:3]
    facets = sorted({facet(entry) for entry in entries})[1:]
    found = []
    for most in (10_000_000, 0):
        monkeypatch.setattr("knowledge_base.vectors.EXACT", most)
        one = vectors(tmp_path)
        for wanted in (None, facets, ["no such facet"]):
            near = one.nearest(entries, "lanes of a warp read a column of shared memory", 10, wanted)
            assert len({entries[place.row].identity() for place in near}) == len(near)
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
    monkeypatch.setattr(embed.Hashed, "dim", 512)
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


def test_a_generation_that_cannot_be_used_is_built_anew_in_the_same_process(tmp_path: Path, wiki: Wiki, store: str) -> None:
    one = vectors(tmp_path)
    hollow = tmp_path / "index" / f"{Content(entries_of(wiki), one.embedder).key(store)}-0"
    hollow.mkdir(parents=True)
    (hollow / "manifest.json").write_text("{}")
    assert asked(one, wiki, "registers") == "registers.md"
    (place,) = generations(tmp_path)
    assert place != hollow


def test_a_generation_damaged_while_somebody_reads_it_is_built_anew(tmp_path: Path, wiki: Wiki, store: str) -> None:
    reader = vectors(tmp_path)
    asked(reader, wiki, "registers")
    (place,) = generations(tmp_path)
    (place / {"exact": "vectors.npy", "chroma": "chroma.sqlite3"}[store]).write_bytes(b"gone")
    assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"
    assert asked(reader, wiki, "neighbouring addresses") == "coalescing.md"


def test_a_damaged_table_of_vectors_is_begun_anew(tmp_path: Path, wiki: Wiki) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "vectors.sqlite").write_bytes(b"no table" * 1000)
    assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"


def test_a_table_damaged_behind_its_first_page_is_begun_anew(tmp_path: Path, wiki: Wiki) -> None:
    vectors(tmp_path).nearest(entries_of(wiki), "softmax", 1)
    table = next(tmp_path.rglob("vectors.sqlite"))
    data = table.read_bytes()
    table.write_bytes(data[:4096] + b"\xab" * (len(data) - 4096))
    for generation in generations(tmp_path):
        (generation / "manifest.json").unlink()
    assert vectors(tmp_path).nearest(entries_of(wiki), "softmax", 1)


def test_a_table_that_another_process_locks_is_left_alone(tmp_path: Path, wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge_base.vectors.LOCKED_S", 0.0)
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


def test_texts_are_embedded_once(tmp_path: Path, wiki: Wiki) -> None:
    class Counting(embed.Hashed):
        asked = 0

        def embed(self, texts):  # type: ignore[no-untyped-def]
            self.asked += len(texts)
            return super().embed(texts)

    embedder = Counting()
    one = Vectors(tmp_path / "index", embedder)
    one.nearest(entries_of(wiki), "registers", 1)
    assert embedder.asked == len(TEXTS) + 1
    changed = written(wiki.root, {"new": ("Spills", "Registers spill to local memory.")})
    one.nearest(entries_of(changed), "registers", 1)
    assert embedder.asked == len(TEXTS) + 1 + 2, "the query twice, and of the passages only the new one"


BUILD = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from knowledge_base import embed, vectors
    from knowledge_base.entries import Architectures, of_wiki
    from knowledge_base.wiki import Wiki

    vectors.EXACT = int(sys.argv[3])
    wiki = Wiki.open(Path(sys.argv[1]))
    entries = tuple(of_wiki(wiki, Architectures(wiki)))
    one = vectors.Vectors(Path(sys.argv[2]) / "index", embed.Hashed())
    print("ready", flush=True)
    sys.stdin.readline()
    print(entries[one.nearest(entries, "registers", 1)[0].row].passage.path)
    """
)


def builder(wiki: Wiki, folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(wiki.root), str(folder), str(vectors_module.EXACT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.usefixtures("store")
def test_processes_that_come_at_once_build_one_index_and_all_get_answers(tmp_path: Path, wiki: Wiki) -> None:
    processes = [builder(wiki, tmp_path) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == ["registers.md\n"] * 3
    (place,) = generations(tmp_path)
    assert intact(place) and not list((tmp_path / "index").glob("building-*"))


@pytest.mark.parametrize("at", ["building-*", "building-*/*"])
@pytest.mark.usefixtures("store")
def test_a_killed_builder_leaves_nothing_that_is_read(tmp_path: Path, wiki: Wiki, at: str) -> None:
    process = builder(wiki, tmp_path)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    until = time.monotonic() + 60
    while not list((tmp_path / "index").glob(at)) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert asked(vectors(tmp_path), wiki, "registers") == "registers.md"
    assert len(generations(tmp_path)) == 1 and not list((tmp_path / "index").glob("building-*"))


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path, wiki: Wiki) -> None:
    (tmp_path / "index").write_text("a file is in the way")
    with pytest.raises(Unavailable, match="cannot be written"):
        asked(vectors(tmp_path), wiki, "registers")


def test_a_server_that_is_no_url_is_the_users_mistake(tmp_path: Path, wiki: Wiki) -> None:
    with pytest.raises(SettingsError, match="chroma: 'somewhere'"):
        asked(Vectors(tmp_path / "index", embed.Hashed(), "somewhere"), wiki, "registers")


def test_a_server_that_does_not_answer_is_said(tmp_path: Path, wiki: Wiki) -> None:
    with pytest.raises(Unavailable, match="the Chroma server at http://localhost:9"):
        asked(Vectors(tmp_path / "index", embed.Hashed(), "http://localhost:9"), wiki, "registers")


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
            one = Vectors(tmp_path / "index", embed.Hashed(), f"http://127.0.0.1:{port}")
            assert asked(one, wiki, "registers") == "registers.md"
        assert not generations(tmp_path)
    finally:
        server.terminate()
        server.wait()
