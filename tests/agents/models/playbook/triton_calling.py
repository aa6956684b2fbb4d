"""Run Triton kernels in the interpreter, in a process of their own: `python triton_calling.py FOLDER` reads
FOLDER/cases.json.

A case is [source, arguments, expected]; arguments map names to "in:5x37", "half:5x37", "index:5:37" (below 37), "out:5x37", "half-out:5x37"
or numbers; `expected` is a torch expression over them. Prints each case's largest |out - expected| / (|expected| + rms), or the error.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path


def errors(cases: list, folder: Path) -> list:
    """One number, or the text of an exception, for each case."""
    (folder / "cases.json").write_text(json.dumps(cases))
    environment = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def made(specification: dict) -> dict:
    import torch

    generator = torch.Generator().manual_seed(11)
    values = {}
    for name, item in specification.items():
        if not isinstance(item, str):
            values[name] = item
            continue
        role, _, shape = item.partition(":")
        if role == "index":
            size, _, bound = shape.partition(":")
            values[name] = torch.randint(0, int(bound), (int(size),), generator=generator)
            continue
        dtype = torch.float16 if role.startswith("half") else torch.float32
        size = tuple(int(n) for n in shape.split("x"))
        if role.endswith("out"):
            values[name] = torch.full(size, float("nan"), dtype=dtype)
        else:
            values[name] = (2 * torch.randn(size, generator=generator)).to(dtype)
    return values


def one(source: str, specification: dict, expected: str, path: Path) -> float:
    import torch

    path.write_text(source)
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module
    found.loader.exec_module(module)
    values = made(specification)
    module.run_kernel(**values)
    out = next(
        values[n]
        for n, item in specification.items()
        if isinstance(item, str) and item.partition(":")[0].endswith("out")
    ).double()
    given = {
        n: v.double() if hasattr(v, "double") and v.is_floating_point() else v for n, v in made(specification).items()
    }
    wanted = eval(expected, {"torch": torch, **given})  # noqa: S307
    return float(((out - wanted).abs() / (wanted.abs() + wanted.square().mean().sqrt())).max())


if __name__ == "__main__":
    answers: list = []
    for at, (source, specification, expected) in enumerate(json.loads((Path(sys.argv[1]) / "cases.json").read_text())):
        try:
            error = one(source, specification, expected, Path(sys.argv[1]) / f"kernel_{at}.py")
            answers.append(error if error == error else "NaN in the output")
        except Exception as failure:  # noqa: BLE001  (whatever a kernel raises is the answer)
            answers.append(f"{type(failure).__name__}: {str(failure)[-300:]}")
    print(json.dumps(answers))
