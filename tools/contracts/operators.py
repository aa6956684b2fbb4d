"""What a reference computes, told from its operations: under that name experience keeps what was tried on it (pure)."""

from __future__ import annotations

from collections.abc import Iterable

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "matmul", "linear")
FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("conv", ("convolution",)),
    ("matmul", ("product",)),
    ("softmax", ("exp sum div",)),
    ("layer_norm", ("mean sub root", "var root", "var_mean root", "std sub")),
    ("rms_norm", ("mean root",)),
    ("rope", ("cos sin mul",)),
)
"""Family whose name ATen has not -> operations of which one set is all there; the more special before those that
they contain."""
SPELLINGS = {
    **dict.fromkeys(PRODUCTS, "product"),
    **dict.fromkeys(("sqrt", "rsqrt"), "root"),
    "safe_softmax": "softmax",
}
SAID = 6
"""Operations that stand for a family that is not known."""


def operator(operations: Iterable[str]) -> str:
    """The family of a reference that calls these (ATen's names); of none that is known its operations, joined by
    `_`."""
    plain = [name.strip("_") for name in operations]
    steps = [SPELLINGS.get(name, name) for name in plain]
    products = [at for at, name in enumerate(steps) if name == "product"]
    between = set(steps[products[0] : products[-1]]) if products else set()
    if (
        between & {"softmax"}
        or between >= {"exp", "sum"}
        or any(name.startswith("scaled_dot_product") for name in steps)
    ):
        return "attention"
    families = (family for family, known in FAMILIES if any(set(steps) >= set(needed.split()) for needed in known))
    return next(families, "_".join(list(dict.fromkeys(plain))[:SAID]))
