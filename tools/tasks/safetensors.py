"""Read tensors of integers from safetensors files: a header in JSON, then the elements' bytes."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

from tools.errors import SettingsError

DTYPE_BY_CODE = {"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}


def read_integers(file: Path, key: str) -> tuple[str, list[int], str] | None:
    """Return a tensor's dtype, shape and bytes (base64 of zlib); None if it holds other numbers.

    Raises SettingsError for a file that is no safetensors file or has no tensor of that name.
    """
    try:
        with file.open("rb") as stream:
            entry = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))[key]
            begin, end = entry["data_offsets"]
            stream.seek(begin, 1)
            dtype = DTYPE_BY_CODE.get(entry["dtype"])
            text = base64.b64encode(zlib.compress(stream.read(end - begin), 9)).decode() if dtype else ""
            return (dtype, entry["shape"], text) if dtype else None
    except (OSError, OverflowError, MemoryError, ValueError, LookupError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise SettingsError(f"{file}: no tensor {key!r} can be read from it ({reason}); give a whole file") from None
