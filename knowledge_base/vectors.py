"""The vector half: Chroma, embedded and offline, as an index that can be thrown away.

Chroma's embedded client is safe for one process that writes; two that do corrupt it and are told nothing, and a reader does not see what
another process writes; even opening one to read changes its files. So a generation, once it is there, is never opened where it lies. It is
in a folder named by the hash of what it holds and of the embedder. Whoever finds none builds it, under a lock, in a folder beside it, and
renames that when it is whole. Each reader checks the hashes of its files and opens a copy of its own (some megabytes, some milliseconds).
Where the files are no longer what was written, or Chroma cannot use them, it is built anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from knowledge_base import shipped
from knowledge_base.embed import Embedder
from knowledge_base.entries import Entry
from tools.errors import SettingsError
from tools.registry import BROKEN, wrong

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

VARIABLE = "KERNELWRIGHT_CHROMA"
FOLDER = "index"
NAME = "kernelwright"
BATCH = 500
MANIFEST = "manifest.json"
TABLE = "vectors.sqlite"
"""Hashes of a generation's files; the last that is written."""
BUILDING = "building-"
KEPT, UNUSED_S = 4, 3600
WAIT_S = 120.0
"""For another process that builds."""
AGAIN_S = 60.0
"""After a failure, before a process that lives long tries once more."""


class Unavailable(Exception):
    """Why there are no vectors here, in one clause; the lexical half answers alone."""


class Failure(NamedTuple):
    """Why a generation could not be had, and until when (monotonic seconds) nobody tries again."""

    key: str
    why: str
    until: float


class Opened(NamedTuple):
    """A generation that is being asked."""

    key: str
    collection: Collection
    rows: dict[str, int]
    """Id -> which entry it is."""


class Near(NamedTuple):
    """An entry near the question."""

    row: int
    similarity: float
    """Cosine."""


class Vectors:
    """Nearest entries by meaning; opens or builds what it needs when it is first asked."""

    def __init__(self, folder: Path, embedder: Embedder, server: str | None = None) -> None:
        """`folder`: of the indexes (`<home>/index`); `server`: URL of a Chroma server to use instead (None: $KERNELWRIGHT_CHROMA)."""
        self.folder = folder
        self.embedder = embedder
        self.server = server or os.environ.get(VARIABLE) or None
        self._client: Any = None
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._opened: Opened | None = None
        self._keyed: tuple[Sequence[Entry], str] | None = None
        self._failed = Failure("", "", 0.0)

    def nearest(self, entries: Sequence[Entry], query: str, n: int, facets: Sequence[str] | None = None) -> list[Near]:
        """The `n` entries nearest to `query`, nearest first; of `facets` only (None: all). Unavailable says why there is no answer."""
        if not entries or facets == []:
            return []
        key = self.key(entries)
        if self._failed.key == key and time.monotonic() < self._failed.until:
            raise Unavailable(self._failed.why)
        try:
            return self._nearest(key, entries, query, n, facets)
        except Unavailable as error:
            self._failed = Failure(key, str(error), time.monotonic() + AGAIN_S)
            raise

    def _nearest(self, key: str, entries: Sequence[Entry], query: str, n: int, facets: Sequence[str] | None) -> list[Near]:
        broken = (*BROKEN, _errors())
        vector = self.embedder.embed([query])
        try:
            return self._asked(self._collection(key, entries), vector, n, facets)
        except broken as error:
            self.close()
            if self.server:
                raise Unavailable(f"the Chroma server at {self.server} failed ({wrong(error)})") from error
        self._condemn(key)
        try:
            return self._asked(self._collection(key, entries), vector, n, facets)
        except broken as error:
            self.close()
            raise Unavailable(f"Chroma failed, and again with a new index ({wrong(error)})") from error

    def close(self) -> None:
        """Let go of what is open; the next question opens it again."""
        client, self._client, self._opened = self._client, None, None
        if client is not None and not self.server:
            client.close()
        if self._copy is not None:
            self._copy.cleanup()

    def key(self, entries: Sequence[Entry]) -> str:
        """Names the generation that holds exactly these entries as this embedder sees them."""
        if self._keyed is not None and self._keyed[0] is entries:
            return self._keyed[1]
        said = "\n".join((self.embedder.id, str(self.embedder.dim), *(entry.identity() for entry in entries)))
        found = hashlib.sha256(said.encode()).hexdigest()[:24]
        self._keyed = (entries, found)
        return found

    def _asked(self, opened: Opened, vector: Any, n: int, facets: Sequence[str] | None) -> list[Near]:
        where: Any = None if facets is None else {"facet": {"$in": list(facets)}}
        most = min(n, len(opened.rows))
        found = opened.collection.query(query_embeddings=vector, n_results=most, where=where, include=["distances"])
        distances = (found["distances"] or [[]])[0]
        return [Near(opened.rows[name], 1 - float(distance)) for name, distance in zip(found["ids"][0], distances, strict=True)]

    def _collection(self, key: str, entries: Sequence[Entry]) -> Opened:
        if self._opened is not None and self._opened.key == key:
            return self._opened
        self.close()
        rows = {entry.identity(): row for row, entry in enumerate(entries)}
        collection = self._served(key, entries) if self.server else self._embedded(key, entries)
        meta = collection.metadata or {}
        if collection.count() != len(rows) or (meta.get("embedder"), meta.get("dim")) != (self.embedder.id, self.embedder.dim):
            raise ValueError("the index does not hold what its name says")
        self._opened = Opened(key, collection, rows)
        return self._opened

    # ------------------------------------------------------------ embedded

    def _embedded(self, key: str, entries: Sequence[Entry]) -> Collection:
        place = self._whole(key)
        if place is None:
            with self._lock():
                place = self._whole(key) or self._build(key, entries)
        with suppress(OSError):
            os.utime(place)
        self._copy = tempfile.TemporaryDirectory(prefix=f"{NAME}-index-", ignore_cleanup_errors=True)
        mine = Path(self._copy.name) / "index"
        shutil.copytree(place, mine)
        self._client = _client(mine)
        return self._client.get_collection(NAME, embedding_function=None)  # type: ignore[no-any-return]

    def _whole(self, key: str) -> Path | None:
        """The generation `key`, if it is there and its files are what was written."""
        return next((place for place in sorted(self.folder.glob(f"{key}-*")) if intact(place)), None)

    def _condemn(self, key: str) -> None:
        """Have a generation built anew that Chroma cannot use."""
        with self._lock(), suppress(OSError):
            for place in self.folder.glob(f"{key}-*"):
                (place / MANIFEST).unlink()

    def _build(self, key: str, entries: Sequence[Entry]) -> Path:
        """Write a generation and rename it when it is whole. The lock is held: what is half made was left by a kill."""
        for old in (*self.folder.glob(f"{BUILDING}*"), *self.folder.glob(f"{key}-*")):
            shutil.rmtree(old, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix=BUILDING, dir=self.folder))
        client = _client(made)
        try:
            self._fill(client, NAME, entries)
        finally:
            client.close()
        sums = {file.relative_to(made).as_posix(): _sum(file) for file in sorted(made.rglob("*")) if file.is_file()}
        (made / MANIFEST).write_text(json.dumps(sums), encoding="utf-8")
        place = made.rename(self.folder / f"{key}-{made.name.removeprefix(BUILDING)}")
        self._sweep()
        return place

    def _sweep(self) -> None:
        """Remove generations that nobody has opened for an hour, less the newest few."""
        found = sorted((one for one in self.folder.iterdir() if one.is_dir()), key=lambda one: -one.stat().st_mtime)
        for old in found[KEPT:]:
            if time.time() - old.stat().st_mtime > UNUSED_S:
                shutil.rmtree(old, ignore_errors=True)

    def _fill(self, client: Any, name: str, entries: Sequence[Entry]) -> Collection:
        metadata = {"embedder": self.embedder.id, "dim": self.embedder.dim}
        shape: Any = {"hnsw": {"space": "cosine", "ef_construction": 200, "ef_search": 200, "max_neighbors": 32, "num_threads": 1}}
        collection = client.get_or_create_collection(name, metadata=metadata, configuration=shape, embedding_function=None)
        try:
            vectors = self._embedded_texts(entries)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            # Damaged behind its first page, which only reading shows.
            (self.folder / TABLE).unlink(missing_ok=True)
            vectors = self._embedded_texts(entries)
        for start in range(0, len(entries), BATCH):
            some = entries[start : start + BATCH]
            collection.upsert(
                ids=[entry.identity() for entry in some],
                embeddings=vectors[start : start + BATCH],
                metadatas=[{"facet": facet(entry)} for entry in some],
            )
        return collection  # type: ignore[no-any-return]

    def _embedded_texts(self, entries: Sequence[Entry]) -> Any:
        """Vectors of all entries. Those of the bundled wiki are shipped, those of texts that were embedded before come from a table: a
        model takes milliseconds for each."""
        import numpy as np

        self.folder.mkdir(parents=True, exist_ok=True)
        keys = [self.embedder.key(entry.text) for entry in entries]
        known = shipped.read(self.embedder, keys)
        with _table(self.folder / TABLE) as db:
            for key in dict.fromkeys(keys):
                for (data,) in db.execute("SELECT vector FROM vectors WHERE sha = ?", (key,)) if key not in known else ():
                    if len(data) == 4 * self.embedder.dim:
                        known[key] = np.frombuffer(data, dtype="<f4")
            missing = {key: row for row, key in enumerate(keys) if key not in known}
            fresh = self.embedder.embed([entries[row].text for row in missing.values()]) if missing else ()
            known.update(zip(missing, fresh, strict=True))
            made = [(key, np.asarray(known[key], "<f4").tobytes()) for key in missing]
            db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", made)
        return np.stack([known[key] for key in keys])

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Held by the one process that builds; Unavailable when another one does for too long, or nothing can be written here."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / "lock").open("w")
        except OSError as error:
            raise Unavailable(f"{self.folder} cannot be written ({error.strerror})") from error
        with file:
            until = time.monotonic() + WAIT_S
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise Unavailable(f"another process builds the index in {self.folder}") from None
                    time.sleep(0.05)
            yield

    # ------------------------------------------------------------ server

    def _served(self, key: str, entries: Sequence[Entry]) -> Collection:
        """The collection of a server; ids are hashes of content, so that two who fill it at once write the same."""
        url = urlsplit(self.server or "")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise SettingsError(f"chroma: {self.server!r} is no URL of a server; give one such as http://localhost:8000")
        chromadb = _chromadb()
        port = url.port or (443 if url.scheme == "https" else 8000)
        client = self._client = chromadb.HttpClient(host=url.hostname, port=port, ssl=url.scheme == "https", settings=_settings())
        name = f"{NAME}-{key}"
        if name in {one.name for one in client.list_collections()}:
            found = client.get_collection(name, embedding_function=None)
            if found.count() == len(entries):
                return found  # type: ignore[no-any-return]
        return self._fill(client, name, entries)


def facet(entry: Entry) -> str:
    """What filters see of an entry, in one word; entries that agree in it pass the same filters."""
    return "|".join((entry.passage.kind, ",".join(sorted(entry.languages)), ",".join(sorted(entry.targets))))


def intact(place: Path) -> bool:
    """Whether a generation is there and its files are what was written."""
    try:
        sums = json.loads((place / MANIFEST).read_bytes())
        return all(_sum(place / name) == said for name, said in sums.items())
    except (OSError, ValueError, AttributeError):
        return False


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@contextmanager
def _table(path: Path) -> Iterator[sqlite3.Connection]:
    """The table of vectors by text; one that is damaged is begun anew."""
    try:
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE IF NOT EXISTS vectors (sha BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
    except sqlite3.DatabaseError:
        path.unlink(missing_ok=True)
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE IF NOT EXISTS vectors (sha BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
    try:
        with db:
            yield db
    finally:
        db.close()


def _client(place: Path) -> Any:
    return _chromadb().PersistentClient(str(place), settings=_settings())


def _chromadb() -> Any:
    try:
        import chromadb
    except ModuleNotFoundError as error:
        raise Unavailable("chromadb is not installed; pip install 'chromadb>=1.5,<2'") from error
    except BROKEN as error:
        # It reads a `.env` of the current folder, for one thing, and may not like what it says.
        raise Unavailable(f"chromadb cannot be imported ({wrong(error)})") from error
    return chromadb


def _settings() -> Any:
    from chromadb.config import Settings

    return Settings(_env_file=None, anonymized_telemetry=False)  # type: ignore[call-arg]


def _errors() -> type[Exception]:
    """The base of Chroma's own errors."""
    _chromadb()
    from chromadb.errors import ChromaError

    return ChromaError
