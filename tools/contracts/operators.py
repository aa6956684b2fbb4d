"""The operator family of a reference, from the operations that it calls; experience is filed under it (pure)."""

from __future__ import annotations

from collections.abc import Iterable

PRODUCT_OPERATIONS = ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "matmul", "linear")
OPERATIONS_BY_FAMILY: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("conv", ("convolution",)),
    ("matmul", ("product",)),
    ("softmax", ("exp sum div",)),
    ("layer_norm", ("mean sub root", "var root", "var_mean root", "std sub")),
    ("rms_norm", ("mean root",)),
    ("rope", ("cos sin mul",)),
)
"""Families that are no single ATen operation, each with sets of operations of which one must occur completely. A
family stands before the families whose operations it contains."""
CANONICAL_NAMES = {
    **dict.fromkeys(PRODUCT_OPERATIONS, "product"),
    **dict.fromkeys(("sqrt", "rsqrt"), "root"),
    "safe_softmax": "softmax",
}
MAX_NAMED_OPERATIONS = 6
"""How many operations name a reference of unknown family."""


def operator_family(operations: Iterable[str]) -> str:
    """Return the family of a reference that calls `operations` (ATen names), e.g. "softmax".

    A reference of unknown family is named by its first operations, joined by `_`.
    """
    operations_without_underscores = [name.strip("_") for name in operations]
    steps = [CANONICAL_NAMES.get(name, name) for name in operations_without_underscores]
    products = [index for index, name in enumerate(steps) if name == "product"]
    operations_between_products = set(steps[products[0] : products[-1]]) if products else set()
    if (
        operations_between_products & {"softmax"}
        or operations_between_products >= {"exp", "sum"}
        or any(name.startswith("scaled_dot_product") for name in steps)
    ):
        return "attention"
    families = (
        family
        for family, patterns in OPERATIONS_BY_FAMILY
        if any(set(steps) >= set(pattern.split()) for pattern in patterns)
    )
    return next(families, "_".join(list(dict.fromkeys(operations_without_underscores))[:MAX_NAMED_OPERATIONS]))
