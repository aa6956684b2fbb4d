"""Under which conditions something was tried, and how alike two of them are.

The factors below are judgements, written down in one place so that whoever reads a recommendation can see them; they
rank, and no figure rests on them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from knowledge_base.artifacts import Attempt
from tools.artifacts import Artifact
from tools.cli.formatting import describe_bottleneck

OPERATOR_KINDS: dict[str, tuple[str, ...]] = {
    "row-wise": (
        "log_softmax",
        "softmax",
        "cross_entropy",
        "layer_norm",
        "rms_norm",
        "group_norm",
        "batch_norm",
        "instance_norm",
        "norm",
    ),
    "contraction": ("attention", "matmul", "gemm", "bmm", "gemv", "linear", "einsum", "conv", "moe"),
    "reduction": ("reduction", "sum", "mean", "var", "dot", "argmax", "argmin", "max", "min", "histogram"),
    "element-wise": (
        "gelu",
        "silu",
        "swish",
        "sigmoid",
        "relu",
        "tanh",
        "exp",
        "log",
        "axpy",
        "add",
        "mul",
        "dropout",
        "rope",
    ),
    "movement": ("transpose", "permute", "gather", "scatter", "embedding", "copy", "concat"),
    "scan": ("cumsum", "scan", "prefix", "sort", "topk"),
    "neighbourhood": ("stencil", "jacobi", "blur", "filter", "pool"),
}
"""How a family of operators goes through its data -> families, the more special before those that its name contains."""
FAMILY_SPELLINGS = {
    "gemm": "matmul", "mm": "matmul", "reduction": "sum", "swish": "silu", "permute": "transpose", "scan": "cumsum",
    "prefix": "cumsum",
}  # fmt: skip
"""Other names of a family."""
SAME_KIND_FACTOR = 0.6
"""Another family of the same kind."""
OTHER_KIND_FACTOR = 0.3
"""A family of another kind, or another bottleneck."""
UNKNOWN_FACTOR = 0.7
"""One of the two is not known, or is a mixture."""
SAME_VENDOR_FACTOR = 0.5
"""Another architecture of the same maker (or another CPU)."""
OTHER_VENDOR_FACTOR = 0.1
SAME_WIDTH_FACTOR = 0.7
OTHER_WIDTH_FACTOR = 0.4
HALVING_OCTAVES = 4
"""Doublings of the data after which a shape counts half."""
BYTES_BY_DTYPE = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


class Conditions(Artifact):
    """What is asked about; an empty field is not asked."""

    language: str
    operator: str = ""
    architectures: tuple[str, ...] = ()
    """Any of these; one name may cover several targets."""
    dtype: str = ""
    shape_class: str = ""
    bottleneck: str = ""
    """What bounds the kernel."""
    rule: str = ""
    """The finding that is to be answered; narrower than the bottleneck."""


class Likeness(NamedTuple):
    """How alike an attempt's conditions are to those asked about."""

    score: float
    """0..1, the product over the conditions asked."""
    all_same: bool
    """All that was asked is the same."""
    differing: tuple[str, ...]
    """What is not, in words."""


def operator_family(operator: str) -> str:
    """The family of a kernel's or task's name: `triton-softmax` and `my_softmax_v2` are softmax; a name that tells
    none is its own."""
    name = re.sub(r"[^a-z0-9]+", "_", operator.lower()).strip("_")
    words = f"_{name}_"
    for known in (one for families in OPERATOR_KINDS.values() for one in families):
        # Written in one word, too (layernorm); a short name only as a word of its own (add, max).
        if f"_{known}_" in words or (len(known) > 4 and known.replace("_", "") in words.replace("_", "")):
            return FAMILY_SPELLINGS.get(known, known)
    return next((FAMILY_SPELLINGS[word] for word in name.split("_") if word in FAMILY_SPELLINGS), name)


def likeness(asked: Conditions, attempt: Attempt) -> Likeness:
    """How much an attempt says about the conditions asked; 0 in another language, whose methods are others."""
    if asked.language != attempt.language:
        return Likeness(0.0, False, (f"language {attempt.language}",))
    score, differing = 1.0, []
    for factor, what in (
        _operator_factor(asked, attempt),
        _architecture_factor(asked, attempt),
        _dtype_factor(asked, attempt),
        _shape_factor(asked, attempt),
        _bottleneck_factor(asked, attempt),
    ):
        score *= factor
        if factor < 1:
            differing.append(what)
    return Likeness(score, not differing, tuple(differing))


def operator_kind(operator: str) -> str:
    """How the operator's family goes through its data; empty where the name tells no family."""
    found = operator_family(operator)
    return next((name for name, families in OPERATOR_KINDS.items() if found in families), "")


def _operator_factor(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    if not asked.operator or operator_family(asked.operator) == operator_family(attempt.operator):
        return 1.0, ""
    alike = operator_kind(asked.operator) != "" and operator_kind(asked.operator) == operator_kind(attempt.operator)
    return (
        SAME_KIND_FACTOR if alike else OTHER_KIND_FACTOR
    ), f"operator {attempt.operator}{f' ({operator_kind(attempt.operator)}, too)' if alike else ''}"


def _architecture_factor(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    there = _base_target(attempt.architecture)
    wanted = tuple(map(_base_target, asked.architectures))
    if not wanted or there in wanted:
        return 1.0, ""
    if not there:
        return UNKNOWN_FACTOR, "architecture not known"
    return (
        SAME_VENDOR_FACTOR if _vendor_prefix(there) in map(_vendor_prefix, wanted) else OTHER_VENDOR_FACTOR
    ), f"architecture {there}"


def _base_target(architecture: str) -> str:
    """`sm_90a` and `sm_90f` run on sm_90 devices."""
    return re.sub(r"^(sm_\d+)[af]$", r"\1", architecture.lower())


def _vendor_prefix(architecture: str) -> str:
    return next((prefix for prefix in ("sm_", "gfx") if architecture.startswith(prefix)), "cpu")


def _dtype_factor(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    if not asked.dtype or asked.dtype == attempt.dtype:
        return 1.0, ""
    same = BYTES_BY_DTYPE.get(asked.dtype) == BYTES_BY_DTYPE[attempt.dtype] and ("float" in asked.dtype) == (
        "float" in attempt.dtype
    )
    return (SAME_WIDTH_FACTOR if same else OTHER_WIDTH_FACTOR), f"dtype {attempt.dtype}"


def _shape_factor(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    if not asked.shape_class or asked.shape_class == attempt.shape_class:
        return 1.0, ""
    here, there = (re.fullmatch(r"2\^(\d+)B", one) for one in (asked.shape_class, attempt.shape_class))
    if here is None or there is None:
        return UNKNOWN_FACTOR, f"shapes {attempt.shape_class}" if attempt.shape_class else "shapes not known"
    return 0.5 ** (abs(int(here[1]) - int(there[1])) / HALVING_OCTAVES), f"shapes {attempt.shape_class}"


def _bottleneck_factor(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    if asked.rule and asked.rule in attempt.findings:
        return 1.0, ""
    if asked.rule and attempt.findings:
        return OTHER_KIND_FACTOR, f"without the finding {asked.rule}"
    if asked.rule and attempt.bottleneck == asked.bottleneck:
        return SAME_KIND_FACTOR, f"{describe_bottleneck(attempt.bottleneck)}, findings not kept"
    if not asked.bottleneck or asked.bottleneck == attempt.bottleneck:
        return 1.0, ""
    vague = {asked.bottleneck, attempt.bottleneck} & {"mixed", "unknown"}
    return (UNKNOWN_FACTOR if vague else OTHER_KIND_FACTOR), f"bottleneck {attempt.bottleneck}"
