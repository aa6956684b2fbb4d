"""What vectors are compared in: the process's own memory, or a collection on a server of Chroma's."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

from knowledge_base.search.documents import Entry
from tools.registry import THIRD_PARTY_ERRORS, describe_error

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

    from knowledge_base.search.embedding import Embedder, Vectors

    Made = Callable[[], Vectors]
    """Makes the vectors, float32 of shape (len(content.ids), dim)."""

NAME = "kernelwright"
BATCH = 500


class Unavailable(Exception):
    """Why there are no vectors here, in one clause; the lexical half answers alone."""


class Content:
    """Entries, each once, and the embedder that sees them."""

    def __init__(self, entries: Sequence[Entry], embedder: Embedder) -> None:
        rows = {entry.identity(): row for row, entry in enumerate(entries)}
        self.entries = entries
        self.embedder = embedder
        self.ids, self.rows = tuple(rows), tuple(rows.values())
        """What names each, and which entry it is."""

    @cached_property
    def facets(self) -> tuple[str, ...]:
        """What filters see of each."""
        return tuple(facet(self.entries[row]) for row in self.rows)


def facet(entry: Entry) -> str:
    """What filters see of an entry, in one word; entries that agree in it pass the same filters."""
    return "|".join((entry.passage.kind, ",".join(sorted(entry.languages)), ",".join(sorted(entry.targets))))


class Store(ABC):
    """Vectors of a content."""

    @abstractmethod
    def nearest(self, vector: Vectors, n: int, facets: Sequence[str] | None) -> list[tuple[int, float]]:
        """Which of the content's ids are nearest to `vector`, float32 of shape (dim,), with their cosines; of
        `facets` only (None: all)."""


class Matrix(Store):
    """All vectors in memory; a question is compared with every one of them, exactly: 20,000 of them take some ten
    milliseconds."""

    def __init__(self, content: Content, vectors: Vectors) -> None:
        import numpy as np

        self._vectors, self._facets = _unit(vectors), np.array(content.facets)

    def nearest(self, vector: Vectors, n: int, facets: Sequence[str] | None) -> list[tuple[int, float]]:
        """See `Store.nearest`."""
        import numpy as np

        # The last bits differ with a row's place in memory; what says the same is to stay in order.
        cosines = np.round(self._vectors @ _unit(vector[None])[0], 6)
        rows = np.arange(len(cosines)) if facets is None else np.flatnonzero(np.isin(self._facets, facets))
        best = rows[np.argsort(-cosines[rows], kind="stable")[:n]]
        return list(zip(best.tolist(), cosines[best].tolist(), strict=True))


def _unit(vectors: Vectors) -> Vectors:
    """Rows of length 1, also from a stranger's embedder."""
    import numpy as np

    unit: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-9))
    return unit


class Chroma(Store):
    """A collection on a server; ids are hashes of content, so that two who fill it at once write the same."""

    def __init__(self, url: SplitResult, content: Content, made: Made) -> None:
        """Opens it, and fills it where it is not whole; `made` is called then."""
        chromadb = _chromadb()
        self._url, self._places = url.geturl(), {name: place for place, name in enumerate(content.ids)}
        said = "\n".join(("served", content.embedder.id, str(content.embedder.dim), *content.ids))
        name = f"{NAME}-{hashlib.sha256(said.encode()).hexdigest()[:24]}"
        shape: Any = {
            "hnsw": {"space": "cosine", "ef_construction": 200, "ef_search": 200, "max_neighbors": 32, "num_threads": 1}
        }
        with self._answering():
            secure = url.scheme == "https"
            settings = chromadb.config.Settings(_env_file=None, anonymized_telemetry=False)
            client = chromadb.HttpClient(
                host=url.hostname, port=url.port or (443 if secure else 8000), ssl=secure, settings=settings
            )
            self._collection: Collection = client.get_or_create_collection(
                name, configuration=shape, embedding_function=None
            )
            if self._collection.count() != len(content.ids):
                self._fill(content, made())

    def _fill(self, content: Content, vectors: Vectors) -> None:
        for start in range(0, len(content.ids), BATCH):
            some = slice(start, start + BATCH)
            facets: Any = [{"facet": facet} for facet in content.facets[some]]
            self._collection.upsert(ids=list(content.ids[some]), embeddings=vectors[some], metadatas=facets)

    def nearest(self, vector: Vectors, n: int, facets: Sequence[str] | None) -> list[tuple[int, float]]:
        """See `Store.nearest`."""
        where: Any = None if facets is None else {"facet": {"$in": list(facets)}}
        most = min(n, len(self._places))
        with self._answering():
            found = self._collection.query(
                query_embeddings=vector[None], n_results=most, where=where, include=["distances"]
            )
        distances = (found["distances"] or [[]])[0]
        return [
            (self._places[name], 1 - float(distance)) for name, distance in zip(found["ids"][0], distances, strict=True)
        ]

    @contextmanager
    def _answering(self) -> Iterator[None]:
        from chromadb.errors import ChromaError
        from httpx import HTTPError

        try:
            yield
        except (ChromaError, HTTPError, *THIRD_PARTY_ERRORS) as error:
            raise Unavailable(f"the Chroma server at {self._url} failed ({describe_error(error)})") from error


def _chromadb() -> Any:
    try:
        import chromadb.config
    except ModuleNotFoundError as error:
        raise Unavailable("chromadb is not installed; pip install 'chromadb>=1.5,<2'") from error
    except THIRD_PARTY_ERRORS as error:
        # It reads a `.env` of the current folder, for one thing, and may not like what it says.
        raise Unavailable(f"chromadb cannot be imported ({describe_error(error)})") from error
    return chromadb
