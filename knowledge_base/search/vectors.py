"""The vector half of a search, offline: vectors of all entries, made once, and those nearest to a question.

They are compared one by one, exactly, or by a Chroma server where one is named. What lies on disk can be thrown away.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from knowledge_base.search.documents import Entry
from knowledge_base.search.embedding import Embedder
from knowledge_base.search.vector_store import Chroma, Content, Matrix, Store, Unavailable
from tools.errors import SettingsError
from tools.registry import THIRD_PARTY_ERRORS, describe_error

if TYPE_CHECKING:
    from knowledge_base.search.embedding import Vectors as Rows

VARIABLE = "KERNELWRIGHT_CHROMA"
FOLDER = "index"
TABLE = "vectors.sqlite"
"""Vectors by text, whatever it is a part of."""
LOCKED_S = 5.0
"""How long another process's lock on that table is waited for."""
AGAIN_S = 60.0
"""After a failure, before a process that lives long tries once more."""

PRECOMPUTED = Path(__file__).with_name("minilm.vectors")
"""Vectors of the bundled wiki's passages, so that the first question embeds nothing but itself.

The embedder's id and how many dimensions a vector has stand in a first line of JSON; then of each text, by key, the
first KEY bytes of `Embedder.key` and the vector in four bits a component. `python -m tests.shipped` writes the file
after pages or `asked.yaml` changed.
"""
KEY = 8
"""Bytes; among some thousand texts two with the same do not happen."""
LARGEST = 7
"""Of the whole numbers that stand for components: the largest of a vector is scaled to it, so that each takes half a
byte."""


class Failure(NamedTuple):
    """Why there are no vectors of a content, and until when (monotonic seconds) nobody tries again."""

    content: Content
    why: str
    until: float


class Near(NamedTuple):
    """An entry near the question."""

    row: int
    similarity: float
    """Cosine."""


class Vectors:
    """Nearest entries by meaning; opens or builds what it needs when it is first asked."""

    def __init__(self, folder: Path, embedder: Embedder, server: str | None = None) -> None:
        """`folder`: of the indexes (`<home>/index`); `server`: URL of a Chroma server to use instead (None:
        $KERNELWRIGHT_CHROMA)."""
        self.folder = folder
        self.embedder = embedder
        self.server = server or os.environ.get(VARIABLE) or None
        self._content = Content((), embedder)
        self._store: Store | None = None
        """Of that content."""
        self._failed: Failure | None = None

    def nearest(self, entries: Sequence[Entry], query: str, n: int, facets: Sequence[str] | None = None) -> list[Near]:
        """The `n` entries nearest to `query`, nearest first; of `facets` only (None: all). Unavailable says why
        there is no answer."""
        if not entries or facets == []:
            return []
        if self._content.entries is not entries:
            self._content, self._store = Content(entries, self.embedder), None
        content = self._content
        if self._failed and self._failed.content is content and time.monotonic() < self._failed.until:
            raise Unavailable(self._failed.why)
        try:
            self._store = self._store or self._opened(content)
            found = self._store.nearest(self.embedder.embed([query])[0], n, facets)
        except Unavailable as error:
            self._store = None
            self._failed = Failure(content, str(error), time.monotonic() + AGAIN_S)
            raise
        except THIRD_PARTY_ERRORS as error:
            raise Unavailable(f"the embedder {self.embedder.id} failed ({describe_error(error)})") from error
        return [Near(content.rows[place], similarity) for place, similarity in found]

    def _opened(self, content: Content) -> Store:
        if not self.server:
            return Matrix(content, self._vectors(content))
        url = urlsplit(self.server)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise SettingsError(
                f"chroma: {self.server!r} is no URL of a server; give one such as http://localhost:8000"
            )
        return Chroma(url, content, partial(self._vectors, content))

    def _vectors(self, content: Content) -> Rows:
        """float32 of shape (len(content.ids), dim). Those of the bundled wiki are shipped, those of texts that were
        embedded before come from a table: a model takes milliseconds for each."""
        import numpy as np

        texts = {self.embedder.key(text): text for text in (content.entries[row].text for row in content.rows)}
        known = precomputed(self.embedder, list(texts))
        try:
            known |= self._kept({key: text for key, text in texts.items() if key not in known})
        except sqlite3.OperationalError as error:
            raise Unavailable(f"{self.folder / TABLE} cannot be used ({error})") from error
        except sqlite3.DatabaseError:
            # Damaged, and behind its first page only reading shows it.
            (self.folder / TABLE).unlink()
            return self._vectors(content)
        return np.stack([known[self.embedder.key(content.entries[row].text)] for row in content.rows])

    def _kept(self, texts: Mapping[bytes, str]) -> dict[bytes, Rows]:
        """Vectors of texts by key: those in the table, and the others, which are embedded and put there."""
        import numpy as np

        if not texts:
            return {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"{self.folder} cannot be written ({error.strerror})") from error
        known: dict[bytes, Rows] = {}
        with _table(self.folder / TABLE) as db:
            for key in texts:
                for (data,) in db.execute("SELECT vector FROM vectors WHERE sha = ?", (key,)):
                    if len(data) == 4 * self.embedder.dim:
                        known[key] = np.frombuffer(data, dtype="<f4")
            missing = [key for key in texts if key not in known]
            fresh = self.embedder.embed([texts[key] for key in missing]) if missing else ()
            known.update(zip(missing, fresh, strict=True))
            db.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?)",
                [(k, np.asarray(known[k], "<f4").tobytes()) for k in missing],
            )
        return known


@contextmanager
def _table(path: Path) -> Iterator[sqlite3.Connection]:
    """The table of vectors by text. sqlite3.OperationalError when it is locked or full, any other DatabaseError when
    it is damaged."""
    with closing(sqlite3.connect(path, timeout=LOCKED_S)) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS vectors (sha BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        yield db


# ---------------------------------------------------------------- those that come with the repository


def precomputed(embedder: Embedder, keys: Sequence[bytes], file: Path = PRECOMPUTED) -> dict[bytes, Rows]:
    """Of `keys` (by `embedder.key`), those whose vectors are shipped -> float32 of length 1, shape (embedder.dim,)."""
    codes = codes_by_key(embedder, file)
    found = [key for key in dict.fromkeys(keys) if key[:KEY] in codes]
    return dict(zip(found, unpacked([codes[key[:KEY]] for key in found], embedder.dim), strict=True))


def codes_by_key(embedder: Embedder, file: Path = PRECOMPUTED) -> dict[bytes, bytes]:
    """The first bytes of the keys -> packed vectors; empty where there is no file, or it was made by another
    embedder."""
    if not file.is_file():
        return {}
    head, _, data = file.read_bytes().partition(b"\n")
    if json.loads(head) != {"embedder": embedder.id, "dim": embedder.dim}:
        return {}
    size = KEY + embedder.dim // 2
    return {data[at : at + KEY]: data[at + KEY : at + size] for at in range(0, len(data), size)}


def write_precomputed(embedder: Embedder, codes: Mapping[bytes, bytes], file: Path = PRECOMPUTED) -> None:
    """Keep packed vectors by key; of a key only the first bytes count."""
    head = json.dumps({"embedder": embedder.id, "dim": embedder.dim}).encode()
    file.write_bytes(
        head + b"\n" + b"".join(key + code for key, code in sorted((key[:KEY], code) for key, code in codes.items()))
    )


def packed(vectors: Rows) -> list[bytes]:
    """Each row of (n, dim), dim even, in dim / 2 bytes; its length is lost."""
    import numpy as np

    scaled = vectors * (LARGEST / np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-9))
    numbers = (np.rint(scaled) + LARGEST).astype(np.uint8)
    return [row.tobytes() for row in numbers[:, 0::2] << 4 | numbers[:, 1::2]]


def unpacked(codes: Sequence[bytes], dim: int) -> Rows:
    """float32 of shape (len(codes), dim), rows of length 1."""
    import numpy as np

    halves = np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(len(codes), dim // 2)
    numbers = np.stack((halves >> 4, halves & 15), axis=2).reshape(len(codes), dim).astype(np.float32) - LARGEST
    unit: Rows = numbers / np.maximum(np.linalg.norm(numbers, axis=1, keepdims=True), np.float32(1e-9))
    return unit
