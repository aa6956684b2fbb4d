"""ATen's elementwise operations in C++."""

from __future__ import annotations

CHEAP, DIVISION, FUNCTION = 1, 4, 16
"""Cost of one, in additions."""
SAME: dict[str, tuple[str, int]] = {
    "add": ("{0} + {1}", CHEAP),
    "sub": ("{0} - {1}", CHEAP),
    "mul": ("{0} * {1}", CHEAP),
    "div": ("{0} / {1}", DIVISION),
    "neg": ("-{0}", CHEAP),
    "abs": ("std::abs({0})", CHEAP),
    "exp": ("std::exp({0})", FUNCTION),
    "exp2": ("std::exp2({0})", FUNCTION),
    "expm1": ("std::expm1({0})", FUNCTION),
    "log": ("std::log({0})", FUNCTION),
    "log2": ("std::log2({0})", FUNCTION),
    "log10": ("std::log10({0})", FUNCTION),
    "log1p": ("std::log1p({0})", FUNCTION),
    "sqrt": ("std::sqrt({0})", DIVISION),
    "rsqrt": ("1 / std::sqrt({0})", DIVISION),
    "reciprocal": ("1 / {0}", DIVISION),
    "sin": ("std::sin({0})", FUNCTION),
    "cos": ("std::cos({0})", FUNCTION),
    "tan": ("std::tan({0})", FUNCTION),
    "asin": ("std::asin({0})", FUNCTION),
    "acos": ("std::acos({0})", FUNCTION),
    "atan": ("std::atan({0})", FUNCTION),
    "atan2": ("std::atan2({0}, {1})", FUNCTION),
    "sinh": ("std::sinh({0})", FUNCTION),
    "cosh": ("std::cosh({0})", FUNCTION),
    "tanh": ("std::tanh({0})", FUNCTION),
    "erf": ("std::erf({0})", FUNCTION),
    "erfc": ("std::erfc({0})", FUNCTION),
    "sigmoid": ("1 / (1 + std::exp(-{0}))", FUNCTION),
    "floor": ("std::floor({0})", CHEAP),
    "ceil": ("std::ceil({0})", CHEAP),
    "trunc": ("std::trunc({0})", CHEAP),
    "round": ("std::nearbyint({0})", CHEAP),
    "pow": ("std::pow({0}, {1})", FUNCTION),
    "maximum": ("std::max({0}, {1})", CHEAP),
    "minimum": ("std::min({0}, {1})", CHEAP),
    "fmax": ("std::fmax({0}, {1})", CHEAP),
    "fmin": ("std::fmin({0}, {1})", CHEAP),
    "bitwise_and": ("{0} & {1}", CHEAP),
    "bitwise_or": ("{0} | {1}", CHEAP),
    "bitwise_xor": ("{0} ^ {1}", CHEAP),
    "hypot": ("std::hypot({0}, {1})", FUNCTION),
    "copysign": ("std::copysign({0}, {1})", CHEAP),
}
"""Operands and result are of the result's type. Functions of NaN give NaN: the first operand of max and min is the tensor."""
COMPARED: dict[str, str] = {
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "isnan": "std::isnan({0})",
    "isinf": "std::isinf({0})",
    "isfinite": "std::isfinite({0})",
}
"""Operands are of their common type, the result is bool."""
LOGICAL: dict[str, str] = {
    "logical_not": "!{0}",
    "bitwise_not": "!{0}",
    "logical_and": "{0} && {1}",
    "logical_or": "{0} || {1}",
    "logical_xor": "{0} != {1}",
}
"""Operands and result are bool."""
VIEWS = frozenset((
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze", "select", "slice", "alias", "clone",
    "detach", "contiguous", "repeat", "unfold", "lift_fresh_copy", "flip", "_reshape_alias", "lift_fresh", "expand_copy", "view_copy",
))  # fmt: skip
"""Operations that only say where an element lies."""
