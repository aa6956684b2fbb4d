"""Under which conditions something was tried (design 8), and how alike two of them are.

The factors below are judgements, written down in one place so that whoever reads a recommendation can see them; they
rank, and no figure rests on them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from knowledge_base.artifacts import Attempt
from tools.artifacts import Artifact
from tools.cli.formatting import describe_bottleneck

KINDS: dict[str, tuple[str, ...]] = {
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
SPELLINGS = {
    "gemm": "matmul", "mm": "matmul", "reduction": "sum", "swish": "silu", "permute": "transpose", "scan": "cumsum", "prefix": "cumsum",
}  # fmt: skip
"""Other names of a family."""
KIN = 0.6
"""Another family of the same kind."""
STRANGE = 0.3
"""A family of another kind, or another bottleneck."""
VAGUE = 0.7
"""One of the two is not known, or is a mixture."""
SAME_MAKER = 0.5
"""Another architecture of the same maker (or another CPU)."""
OTHER_MAKER = 0.1
SAME_WIDTH = 0.7
OTHER_WIDTH = 0.4
OCTAVES = 4
"""Doublings of the data after which a shape counts half."""
WIDTHS = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "int64": 8,
    "int32": 4,
    "int16": 2,
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
    same: bool
    """All that was asked is the same."""
    differing: tuple[str, ...]
    """What is not, in words."""


def family(operator: str) -> str:
    """The family of a kernel's or task's name: `triton-softmax` and `my_softmax_v2` are softmax; a name that tells
    none is its own."""
    name = re.sub(r"[^a-z0-9]+", "_", operator.lower()).strip("_")
    words = f"_{name}_"
    for known in (one for kind in KINDS.values() for one in kind):
        # Written in one word, too (layernorm); a short name only as a word of its own (add, max).
        if f"_{known}_" in words or (len(known) > 4 and known.replace("_", "") in words.replace("_", "")):
            return SPELLINGS.get(known, known)
    return next((SPELLINGS[word] for word in name.split("_") if word in SPELLINGS), name)


def likeness(asked: Conditions, attempt: Attempt) -> Likeness:
    """How much an attempt says about the conditions asked; 0 in another language, whose methods are others."""
    if asked.language != attempt.language:
        return Likeness(0.0, False, (f"language {attempt.language}",))
    score, differing = 1.0, []
    for factor, what in (
        _operator(asked, attempt),
        _architecture(asked, attempt),
        _dtype(asked, attempt),
        _shape(asked, attempt),
        _bottleneck(asked, attempt),
    ):
        score *= factor
        if factor < 1:
            differing.append(what)
    return Likeness(score, not differing, tuple(differing))


def kind(operator: str) -> str:
    """How the operator's family goes through its data; empty where the name tells no family."""
    found = family(operator)
    return next((name for name, families in KINDS.items() if found in families), "")


def _operator(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    if not asked.operator or family(asked.operator) == family(attempt.operator):
        return 1.0, ""
    alike = kind(asked.operator) != "" and kind(asked.operator) == kind(attempt.operator)
    return (
        KIN if alike else STRANGE
    ), f"operator {attempt.operator}{f' ({kind(attempt.operator)}, too)' if alike else ''}"


def _architecture(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    there = _target(attempt.architecture)
    wanted = tuple(map(_target, asked.architectures))
    if not wanted or there in wanted:
        return 1.0, ""
    if not there:
        return VAGUE, "architecture not known"
    return (SAME_MAKER if _maker(there) in map(_maker, wanted) else OTHER_MAKER), f"architecture {there}"


def _target(architecture: str) -> str:
    """`sm_90a` and `sm_90f` run on sm_90 devices."""
    return re.sub(r"^(sm_\d+)[af]$", r"\1", architecture.lower())


def _maker(architecture: str) -> str:
    return next((prefix for prefix in ("sm_", "gfx") if architecture.startswith(prefix)), "cpu")


def _dtype(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    if not asked.dtype or asked.dtype == attempt.dtype:
        return 1.0, ""
    same = WIDTHS.get(asked.dtype) == WIDTHS[attempt.dtype] and ("float" in asked.dtype) == ("float" in attempt.dtype)
    return (SAME_WIDTH if same else OTHER_WIDTH), f"dtype {attempt.dtype}"


def _shape(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    if not asked.shape_class or asked.shape_class == attempt.shape_class:
        return 1.0, ""
    here, there = (re.fullmatch(r"2\^(\d+)B", one) for one in (asked.shape_class, attempt.shape_class))
    if here is None or there is None:
        return VAGUE, f"shapes {attempt.shape_class}" if attempt.shape_class else "shapes not known"
    return 0.5 ** (abs(int(here[1]) - int(there[1])) / OCTAVES), f"shapes {attempt.shape_class}"


def _bottleneck(asked: Conditions, attempt: Attempt) -> tuple[float, str]:
    if asked.rule and asked.rule in attempt.findings:
        return 1.0, ""
    if asked.rule and attempt.findings:
        return STRANGE, f"without the finding {asked.rule}"
    if asked.rule and attempt.bottleneck == asked.bottleneck:
        return KIN, f"{describe_bottleneck(attempt.bottleneck)}, findings not kept"
    if not asked.bottleneck or asked.bottleneck == attempt.bottleneck:
        return 1.0, ""
    vague = {asked.bottleneck, attempt.bottleneck} & {"mixed", "unknown"}
    return (VAGUE if vague else STRANGE), f"bottleneck {attempt.bottleneck}"
