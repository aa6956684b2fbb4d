"""C++ kernels that were not written for the recipes, one file each in `kernels/`.

Its first two lines say what it takes, in the order of the call ("in:3x4", "out:3x4", or a number), and which recipes
find a place in it. Some only look like what a recipe rewrites: a recipe that
finds its place in one all the same must leave its result as it is.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).with_name("kernels")


def _read(name: str) -> tuple[str, str, str]:
    takes, recipes, source = (FOLDER / f"{name}.cpp").read_text().split("\n", 2)
    return takes.removeprefix("// takes: "), recipes.removeprefix("// recipes:").strip(), source


KERNELS: dict[str, tuple[str, str]] = {path.stem: _read(path.stem)[:2] for path in sorted(FOLDER.glob("*.cpp"))}
"""Name -> what it takes, and names of recipes."""


def source(name: str) -> str:
    return _read(name)[2]


def arguments(name: str) -> list[str | int | float]:
    return [item if ":" in item else float(item) if "." in item else int(item) for item in KERNELS[name][0].split()]
