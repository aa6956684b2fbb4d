"""What the vectors of one generation lie in, and who finds the nearest: one file, compared whole; many in an index of Chroma's.

Chroma's embedded client is safe for one process that writes; two that do corrupt it and are told nothing, and a reader does not see what
another process writes; even opening one to read changes its files. So it is never opened where it lies: each reader has a copy.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import SplitResult

from knowledge_base.search.documents import Entry
from knowledge_base.search.snapshots import Unavailable
from tools.registry import BROKEN, wrong

if TYPE_CHECKING:
    import numpy as np
    from chromadb.api.models.Collection import Collection

    from knowledge_base.search.embedding import Embedder, Vectors

    Made = Callable[[], Vectors]
    """Makes the vectors, float32 of shape (len(content.ids), dim)."""

NAME = "kernelwright"
BATCH = 500


class Broken(Exception):
    """What is wrong with a store, in one line; made anew it may be right. A store raises this, or any of `tools.registry.BROKEN`."""


class Content:
    """The entries of one generation, each once, and the embedder that sees them."""

    def __init__(self, entries: Sequence[Entry], embedder: Embedder) -> None:
        rows = {entry.identity(): row for row, entry in enumerate(entries)}
        self.entries = entries
        self.embedder = embedder
        self.ids, self.rows = tuple(rows), tuple(rows.values())
        """What names each, and which entry it is."""

    def key(self, kind: str) -> str:
        """Names the generation that holds exactly these entries in a store of this kind."""
        said = "\n".join((kind, self.embedder.id, str(self.embedder.dim), *self.ids))
        return hashlib.sha256(said.encode()).hexdigest()[:24]

    @cached_property
    def facets(self) -> tuple[str, ...]:
        """What filters see of each."""
        return tuple(facet(self.entries[row]) for row in self.rows)


def facet(entry: Entry) -> str:
    """What filters see of an entry, in one word; entries that agree in it pass the same filters."""
    return "|".join((entry.passage.kind, ",".join(sorted(entry.languages)), ",".join(sorted(entry.targets))))


class Store(ABC):
    """An open generation."""

    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def write(cls, place: Path, content: Content, made: Made) -> None:
        """Fill an empty folder. `made` is not called where nothing could be done with the vectors."""

    @classmethod
    @abstractmethod
    def open(cls, place: Path, content: Content) -> Store:
        """What `write` left in a folder."""

    @abstractmethod
    def nearest(self, vector: Vectors, n: int, facets: Sequence[str] | None) -> list[tuple[int, float]]:
        """Which of the content's ids are nearest to `vector`, float32 of shape (dim,), with their cosines; of `facets` only (None: all)."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""


# ---------------------------------------------------------------- few


class Matrix(Store):
    """One file with all vectors; a question is compared with every one of them, exactly."""

    kind = "exact"
    FILE = "vectors.npy"

    def __init__(self, content: Content, vectors: Vectors) -> None:
        self._content, self._vectors = content, vectors
        if vectors.shape != (len(content.ids), content.embedder.dim):
            raise Broken("the index does not hold what its name says")

    @classmethod
    def write(cls, place: Path, content: Content, made: Made) -> None:
        """See `Store.write`."""
        import numpy as np

        np.save(place / cls.FILE, _unit(made()), allow_pickle=False)

    @classmethod
    def open(cls, place: Path, content: Content) -> Matrix:
        """Reads the file whole: what happens to it afterwards is all the same."""
        import numpy as np

        return cls(content, np.load(place / cls.FILE, allow_pickle=False))

    @cached_property
    def _facets(self) -> np.ndarray[Any, Any]:
        import numpy as np

        return np.array(self._content.facets)

    def nearest(self, vector: Vectors, n: int, facets: Sequence[str] | None) -> list[tuple[int, float]]:
        """See `Store.nearest`."""
        import numpy as np

        # The last bits differ with a row's place in memory; what says the same is to stay in order.
        cosines = np.round(self._vectors @ _unit(vector[None])[0], 6)
        rows = np.arange(len(cosines)) if facets is None else np.flatnonzero(np.isin(self._facets, facets))
        best = rows[np.argsort(-cosines[rows], kind="stable")[:n]]
        return list(zip(best.tolist(), cosines[best].tolist(), strict=True))

    def close(self) -> None:
        """Nothing is open."""


def _unit(vectors: Vectors) -> Vectors:
    """Rows of length 1, also from a stranger's embedder."""
    import numpy as np

    unit: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-9))
    return unit


# ---------------------------------------------------------------- many, or on a server


class Chroma(Store):
    """A collection, on disk or on a server."""

    kind = "chroma"

    def __init__(self, collection: Collection, content: Content) -> None:
        self._collection, self._held = collection, ExitStack()
        self._places = {name: place for place, name in enumerate(content.ids)}
        meta = collection.metadata or {}
        said = (meta.get("embedder"), meta.get("dim"))
        if collection.count() != len(content.ids) or said != (content.embedder.id, content.embedder.dim):
            raise Broken("the index does not hold what its name says")

    @classmethod
    def write(cls, place: Path, content: Content, made: Made) -> None:
        """See `Store.write`."""
        with _chroma(), closing(_client(place)) as client:
            _fill(client, NAME, content, made())

    @classmethod
    def open(cls, place: Path, content: Content) -> Chroma:
        """A copy of the generation in a folder (some megabytes, some milliseconds)."""
        with _chroma(), ExitStack() as held:
            copy = held.enter_context(tempfile.TemporaryDirectory(prefix=f"{NAME}-index-", ignore_cleanup_errors=True))
            mine = Path(copy) / "index"
            shutil.copytree(place, mine)
            client = held.enter_context(closing(_client(mine)))
            opened = cls(client.get_collection(NAME, embedding_function=None), content)
            opened._held = held.pop_all()
            return opened

    @classmethod
    def served(cls, url: SplitResult, content: Content, made: Made) -> Chroma:
        """The collection of a server; ids are hashes of content, so that two who fill it at once write the same."""
        chromadb = _chromadb()
        with _chroma():
            secure = url.scheme == "https"
            client = chromadb.HttpClient(host=url.hostname, port=url.port or (443 if secure else 8000), ssl=secure, settings=_settings())
            name = f"{NAME}-{content.key('served')}"
            if name in {one.name for one in client.list_collections()}:
                found = client.get_collection(name, embedding_function=None)
                if found.count() == len(content.ids):
                    return cls(found, content)
            return cls(_fill(client, name, content, made()), content)

    def nearest(self, vector: Vectors, n: int, facets: Sequence[str] | None) -> list[tuple[int, float]]:
        """See `Store.nearest`."""
        where: Any = None if facets is None else {"facet": {"$in": list(facets)}}
        with _chroma():
            most = min(n, len(self._places))
            found = self._collection.query(query_embeddings=vector[None], n_results=most, where=where, include=["distances"])
            distances = (found["distances"] or [[]])[0]
            return [(self._places[name], 1 - float(distance)) for name, distance in zip(found["ids"][0], distances, strict=True)]

    def close(self) -> None:
        """Let go of what is open, and of the copy."""
        self._held.close()


def _fill(client: Any, name: str, content: Content, vectors: Vectors) -> Collection:
    metadata = {"embedder": content.embedder.id, "dim": content.embedder.dim}
    shape: Any = {"hnsw": {"space": "cosine", "ef_construction": 200, "ef_search": 200, "max_neighbors": 32, "num_threads": 1}}
    collection = client.get_or_create_collection(name, metadata=metadata, configuration=shape, embedding_function=None)
    for start in range(0, len(content.ids), BATCH):
        some = slice(start, start + BATCH)
        collection.upsert(
            ids=list(content.ids[some]), embeddings=vectors[some], metadatas=[{"facet": facet} for facet in content.facets[some]]
        )
    return collection  # type: ignore[no-any-return]


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


@contextmanager
def _chroma() -> Iterator[None]:
    """Chroma's own errors are Broken."""
    _chromadb()
    from chromadb.errors import ChromaError

    try:
        yield
    except ChromaError as error:
        raise Broken(wrong(error)) from error
