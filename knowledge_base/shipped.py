"""Vectors of the bundled wiki's passages that come with the repository, so that the first question embeds nothing but itself.

One file for MiniLM, `minilm.vectors`: the embedder's id and how many dimensions a vector has in a first line of JSON, then of each text, by
key, the first KEY bytes of `Embedder.key` and the vector in four bits a component. A text that is not there, of another wiki or an outcome,
is embedded where it is needed; `python -m tests.shipped` writes the file after pages or `asked.yaml` changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_base.embed import Embedder

if TYPE_CHECKING:
    from knowledge_base.embed import Vectors

FILE = Path(__file__).with_name("minilm.vectors")
KEY = 8
"""Bytes; among some thousand texts two with the same do not happen."""
LARGEST = 7
"""Of the whole numbers that stand for components: the largest of a vector is scaled to it, so that each takes half a byte."""


def read(embedder: Embedder, keys: Sequence[bytes], file: Path = FILE) -> dict[bytes, Vectors]:
    """Of `keys` (by `embedder.key`), those whose vectors are shipped -> float32 of length 1, shape (embedder.dim,)."""
    codes = held(embedder, file)
    found = [key for key in dict.fromkeys(keys) if key[:KEY] in codes]
    return dict(zip(found, unpacked([codes[key[:KEY]] for key in found], embedder.dim), strict=True))


def held(embedder: Embedder, file: Path = FILE) -> dict[bytes, bytes]:
    """The first bytes of the keys -> packed vectors; empty where there is no file, or it was made by another embedder."""
    if not file.is_file():
        return {}
    head, _, data = file.read_bytes().partition(b"\n")
    if json.loads(head) != {"embedder": embedder.id, "dim": embedder.dim}:
        return {}
    size = KEY + embedder.dim // 2
    return {data[at : at + KEY]: data[at + KEY : at + size] for at in range(0, len(data), size)}


def write(embedder: Embedder, codes: Mapping[bytes, bytes], file: Path = FILE) -> None:
    """Keep packed vectors by key; of a key only the first bytes count."""
    head = json.dumps({"embedder": embedder.id, "dim": embedder.dim}).encode()
    file.write_bytes(head + b"\n" + b"".join(key + code for key, code in sorted((key[:KEY], code) for key, code in codes.items())))


def packed(vectors: Vectors) -> list[bytes]:
    """Each row of (n, dim), dim even, in dim / 2 bytes; its length is lost."""
    import numpy as np

    scaled = vectors * (LARGEST / np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-9))
    numbers = (np.rint(scaled) + LARGEST).astype(np.uint8)
    return [row.tobytes() for row in numbers[:, 0::2] << 4 | numbers[:, 1::2]]


def unpacked(codes: Sequence[bytes], dim: int) -> Vectors:
    """float32 of shape (len(codes), dim), rows of length 1."""
    import numpy as np

    halves = np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(len(codes), dim // 2)
    numbers = np.stack((halves >> 4, halves & 15), axis=2).reshape(len(codes), dim).astype(np.float32) - LARGEST
    unit: Vectors = numbers / np.maximum(np.linalg.norm(numbers, axis=1, keepdims=True), np.float32(1e-9))
    return unit
