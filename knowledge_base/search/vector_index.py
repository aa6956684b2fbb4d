"""The vector half of a search: the vectors of all texts in a Chroma collection, and the texts nearest to a question.

The collection lies under `$KERNELWRIGHT_HOME/index`, or on a Chroma server. It is keyed by the hash of each text and
can be deleted at any time: a question first adds the texts that are missing, and is answered by current texts alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from knowledge_base.search.embedding import Embedder
from tools.errors import SettingsError
from tools.registry import THIRD_PARTY_ERRORS, describe_error

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection as ChromaCollection

SERVER_VARIABLE = "KERNELWRIGHT_CHROMA"
INDEX_FOLDER = "index"
COLLECTION_PREFIX = "kernelwright"
COLLECTION_CONFIGURATION: Any = {
    "hnsw": {"space": "cosine", "ef_construction": 200, "ef_search": 400, "max_neighbors": 32, "num_threads": 1}
}
BATCH_TEXTS = 200
MIN_ANNOUNCED_TEXTS = 200
"""Texts to embed from which on the user is told what takes so long."""
RETRY_S = 60.0
"""Seconds after a failure in which a process does not try again."""

logger = logging.getLogger(__name__)


class VectorsUnavailable(Exception):
    """Why there are no vectors, in one clause; the search goes by words alone."""


class NearRow(NamedTuple):
    """A text near the question."""

    row: int
    similarity: float
    """Cosine."""


class VectorIndex:
    """The texts nearest to a question; opens and fills its collection at the first question."""

    def __init__(self, folder: Path, embedder: Embedder, server: str | None = None) -> None:
        """`folder`: of the embedded store; `server`: URL of a Chroma server instead."""
        self.folder, self.embedder = folder, embedder
        self.server = server
        self._filled: Mapping[int, str] = {}
        """The texts that the collection is known to hold."""
        self._failure, self._retry_at = "", 0.0

    def nearest_rows(self, texts: Mapping[int, str], query: str, n: int, rows: Collection[int]) -> list[NearRow]:
        """The `n` of `rows` whose texts are nearest to `query`, nearest first. `texts`: row -> text of all that is to
        be in the index. VectorsUnavailable says why there is no answer."""
        if time.monotonic() < self._retry_at:
            raise VectorsUnavailable(self._failure)
        rows_by_id: dict[str, list[int]] = {}
        for row in sorted(set(rows) & texts.keys()):
            rows_by_id.setdefault(self._text_id(texts[row]), []).append(row)
        if not rows_by_id:
            return []
        try:
            with self._explain_failure():
                if self._filled is not texts:
                    self._fill(texts)
                answer = self._collection.query(
                    query_embeddings=self.embedder.embed([query]),
                    n_results=min(n, len(rows_by_id)),
                    ids=list(rows_by_id),
                    include=["distances"],
                )
        except VectorsUnavailable as error:
            self.__dict__.pop("_collection", None)
            self._failure, self._retry_at = str(error), time.monotonic() + RETRY_S
            raise
        pairs = zip(answer["ids"][0], (answer["distances"] or [[]])[0], strict=True)
        near = [NearRow(row, round(1 - float(far), 6)) for name, far in pairs for row in rows_by_id[name]]
        return sorted(near, key=lambda one: (-one.similarity, one.row))

    def _text_id(self, text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _fill(self, texts: Mapping[int, str]) -> None:
        """Embed and add the texts that the collection does not hold; one process at a time."""
        text_by_id = {self._text_id(text): text for text in texts.values()}
        with self._write_lock():
            known = set(self._collection.get(include=[])["ids"])
            missing = [name for name in text_by_id if name not in known]
            if len(missing) >= MIN_ANNOUNCED_TEXTS:
                logger.warning("%d passages are embedded for the first question; later ones find them", len(missing))
            for start in range(0, len(missing), BATCH_TEXTS):
                batch = missing[start : start + BATCH_TEXTS]
                vectors = self.embedder.embed([text_by_id[name] for name in batch])
                self._collection.upsert(ids=batch, embeddings=vectors)
        self._filled = texts

    @contextmanager
    def _write_lock(self) -> Iterator[None]:
        if self.server:
            # Ids are hashes of texts: two processes that fill a server at once write the same.
            yield
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @cached_property
    def _collection(self) -> ChromaCollection:
        name = hashlib.sha256(f"{self.embedder.id}:{self.embedder.dim}".encode()).hexdigest()[:24]
        return self._client().get_or_create_collection(
            f"{COLLECTION_PREFIX}-{name}", configuration=COLLECTION_CONFIGURATION, embedding_function=None
        )

    def _client(self) -> ClientAPI:
        import chromadb.config

        # Without `_env_file` Chroma reads a `.env` of the current folder, and fails over what is not its own.
        options: dict[str, Any] = {"_env_file": None, "anonymized_telemetry": False}
        settings = chromadb.config.Settings(**options)
        if not self.server:
            return chromadb.PersistentClient(str(self.folder), settings=settings)
        url = urlsplit(self.server)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise SettingsError(
                f"chroma: {self.server!r} is not the URL of a server; give one such as http://localhost:8000"
            )
        secure = url.scheme == "https"
        port = url.port or (443 if secure else 8000)
        return chromadb.HttpClient(host=url.hostname, port=port, ssl=secure, settings=settings)

    @contextmanager
    def _explain_failure(self) -> Iterator[None]:
        """VectorsUnavailable in the place of whatever Chroma, the disk, the network or the embedder raises."""
        try:
            from chromadb.errors import ChromaError
            from httpx import HTTPError
        except ModuleNotFoundError as error:
            raise VectorsUnavailable("chromadb is not installed (pip install 'chromadb>=1.5,<2')") from error
        except THIRD_PARTY_ERRORS as error:
            raise VectorsUnavailable(f"chromadb cannot be imported ({describe_error(error)})") from error
        try:
            yield
        except (ChromaError, HTTPError, *THIRD_PARTY_ERRORS) as error:
            where = f"the Chroma server at {self.server}" if self.server else f"{self.folder}"
            raise VectorsUnavailable(f"the vector search in {where} failed ({describe_error(error)})") from error
