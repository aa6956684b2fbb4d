"""Build kernels and call them in a process of their own: `python calling.py FOLDER` reads FOLDER/pairs.json, prints one
JSON list.

Run as a program it imports numpy and nothing of ours.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

LEAST = re.compile(r"((?:#pragma omp parallel|if \(1LL|if \(\d+ >= )[^\n]*?>= )\d{5,}")
"""How much work wakes threads: more than any test has, so that they are woken for all."""
FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


def build(source: str, folder: Path, name: str, least: int | None = 0) -> Path:
    """Compile to a library; AssertionError with the compiler's words when it does not compile. `least`: work that
    wakes threads, None: as the source says."""
    path = folder / f"{name}.cpp"
    path.write_text(source if least is None else LEAST.sub(rf"\g<1>{least}", source))
    library = folder / f"{name}.so"
    done = subprocess.run(["g++", *FLAGS, str(path), "-o", str(library)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr[:1500]}\n{source}"
    return library


def arguments(specification: list) -> list:
    """Fresh values, the same at every call."""
    random = np.random.default_rng(7)
    made = []
    for item in specification:
        if not isinstance(item, str):
            made.append(item)
            continue
        role, shape = item.split(":")
        size = tuple(int(n) for n in shape.split("x"))
        if role == "index":
            made.append(random.integers(0, 64, size, dtype=np.int32))
            continue
        dtype = np.float64 if role.startswith("double-") else np.float32
        values = random.normal(0, 2, size).astype(dtype)
        made.append(np.full(size, np.nan, dtype) if role.endswith("out") and not role.endswith("inout") else values)
    return made


def call(library: str, specification: list) -> list:
    """The floating-point buffers after one call."""
    values = arguments(specification)
    solve = ctypes.CDLL(library).solve
    solve.restype = None
    solve(*[ctypes.c_void_p(v.ctypes.data) if isinstance(v, np.ndarray) else ctypes.c_long(v) for v in values])
    return [v for v in values if isinstance(v, np.ndarray)]


def error(one: str, other: str, specification: list) -> float:
    """Largest |a - b| / (|a| + rms of a) over all buffers; infinite where NaNs differ."""
    worst = 0.0
    for a, b in zip(call(one, specification), call(other, specification), strict=True):
        if not np.array_equal(np.isnan(a), np.isnan(b)):
            return float("inf")
        a, b = np.nan_to_num(a).astype(np.float64), np.nan_to_num(b).astype(np.float64)
        worst = max(worst, float(np.max(np.abs(a - b) / (np.abs(a) + np.sqrt(np.mean(a * a)) + 1e-300))))
    return worst


def compare(pairs: list, folder: Path) -> list:
    """Errors of [library, library, specification] triples, measured in another process."""
    (folder / "pairs.json").write_text(json.dumps(pairs))
    done = subprocess.run(
        [sys.executable, __file__, str(folder)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-1500:]
    return json.loads(done.stdout)


if __name__ == "__main__":
    print(json.dumps([error(*pair) for pair in json.loads((Path(sys.argv[1]) / "pairs.json").read_text())]))
