"""Classifies single instructions of x86-64 (AT&T syntax) and aarch64, and jumps of SASS. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SYMBOL = re.compile(r" <(.+?)(?:\+0x[0-9a-f]+)?>$")
_TARGET = re.compile(r"(?:^|[\s,])(?:(?:0x)?([0-9a-f]+) <|0x([0-9a-f]+)(?: |$))")
_JUMP = re.compile(r"^(?:j[a-z]+|b(?:\.[a-z]+)?|br|cbn?z|tbn?z|BRA(?:\.\w+)*)$")
_LAST = re.compile(r"^(?:jmpq?|retq?|ret|b|br|ud2|hlt|(?:BRA|EXIT)(?:\.\w+)*)$")
_GUARDED = re.compile(r"\bU?P\d")
_CALL = re.compile(r"^(?:callq?|bl|blr)$")
_X86_ARITHMETIC = re.compile(
    r"^v?(?:add|sub|mul|div|sqrt|min|max|fn?m(?:add|sub)(?:add|sub)?(?:132|213|231)|rcp\w*?|rsqrt\w*?|round|rndscale|scalef|reduce)([ps])[sdh]$"
)
_ARM_ARITHMETIC = re.compile(
    r"^f(?:add|sub|mul|div|sqrt|min|max|minnm|maxnm|n?madd|n?msub|mla|mls|n?mul|rint[a-z]|recpe|recps|rsqrte|rsqrts)$"
)
_ARM_VECTOR = re.compile(r"^(?:v\d+\.\d+[shd]|z\d+\.[shd])")
_FMA = re.compile(r"^v?fn?m(?:add|sub)|^f(?:n?madd|n?msub|mla|mls)$")
_DIVIDE = re.compile(r"^(?:v?div[ps][sdh]|i?div[lqwb]?|fdiv|[su]div)$")
_GATHER = re.compile(r"^v(?:p)?gather")
_INSERT = re.compile(r"^v?(?:insertps|pinsr[bwdq]|movhps|movhpd|extractps|pextr[bwdq]|unpcklps|unpcklpd)$")
_LIBM = re.compile(
    r"^_*(?:exp2?|exp10|expm1|log(?:2|10|1p)?|pow|sin|cos|tan|asin|acos|atan2?|sinh|cosh|tanh|erfc?|[tl]gamma|cbrt|hypot|f(?:max|min|mod|ma|abs|dim)|"
    r"round|rint|nearbyint|floor|ceil|trunc|sqrt|ldexp|scalbn|sincos)[fl]?(?:_\w*)?$"
)
_STREAMING = re.compile(r"^v?movnt(?:p[sd]|dq|i)|^stnp$")
_VECTOR_LIBM = re.compile(r"^_ZGV[a-z]")
_PARALLEL = re.compile(r"^(?:GOMP_parallel\w*|__kmpc_fork_call\w*|pthread_create|_ZNSt6thread.*|std::thread.*)$")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a disassembly."""

    address: int
    mnemonic: str
    operands: str
    line: int = 0
    """Line in the kernel's own source; 0 when it is not known or belongs to another file."""
    inlined: bool = False
    """Whether the line belongs to another function, which was inlined here."""

    @property
    def symbol(self) -> str:
        """The symbol among the operands, without offset, version and `@plt`; empty if there is none."""
        found = _SYMBOL.search(self.operands)
        return found[1].split("@")[0] if found else ""

    @property
    def target(self) -> int | None:
        """Address of a direct jump or call."""
        found = _TARGET.search(self.operands)
        return int(found[1] or found[2], 16) if found else None

    @property
    def is_call(self) -> bool:
        return _CALL.match(self.mnemonic) is not None

    @property
    def is_jump(self) -> bool:
        return _JUMP.match(self.mnemonic) is not None

    @property
    def falls_through(self) -> bool:
        """Whether control can continue at the next instruction."""
        return _LAST.match(self.mnemonic) is None or (
            self.mnemonic.isupper() and _GUARDED.search(self.operands) is not None
        )


def is_packed(instruction: Instruction) -> bool:
    """Whether it is a floating-point operation on several elements at once."""
    if found := _X86_ARITHMETIC.match(instruction.mnemonic):
        return found[1] == "p"
    return (
        _ARM_ARITHMETIC.match(instruction.mnemonic) is not None and _ARM_VECTOR.match(instruction.operands) is not None
    )


def is_scalar(instruction: Instruction) -> bool:
    """Whether it is a floating-point operation on one element."""
    if found := _X86_ARITHMETIC.match(instruction.mnemonic):
        return found[1] == "s"
    return _ARM_ARITHMETIC.match(instruction.mnemonic) is not None and _ARM_VECTOR.match(instruction.operands) is None


def register_bytes(instruction: Instruction) -> int:
    """Return the bytes of the widest vector register among the operands; 0 without one. A scalable register counts
    as 16, its minimum width."""
    widths = {"x": 16, "y": 32, "z": 64}
    named = [widths[found] for found in re.findall(r"%([xyz])mm\d", instruction.operands)]
    return max(named, default=16 if _ARM_VECTOR.match(instruction.operands) else 0)


def is_fma(instruction: Instruction) -> bool:
    return _FMA.match(instruction.mnemonic) is not None


def is_divide(instruction: Instruction) -> bool:
    """Whether it is a division, float or integer, which costs several multiplications."""
    return _DIVIDE.match(instruction.mnemonic) is not None


def is_gather(instruction: Instruction) -> bool:
    return _GATHER.match(instruction.mnemonic) is not None


def is_streaming_store(instruction: Instruction) -> bool:
    """Whether it is a store that bypasses the caches."""
    return _STREAMING.match(instruction.mnemonic) is not None


def is_vector_element_insert(instruction: Instruction) -> bool:
    """Whether it moves one element into or out of a vector, as in a loop that gathers by hand."""
    return _INSERT.match(instruction.mnemonic) is not None


def is_scalar_math_function(name: str) -> bool:
    """Whether `name` is a scalar function of the C mathematics library."""
    return _LIBM.match(name) is not None


def is_vector_math_function(name: str) -> bool:
    """Whether `name` is a function of a vector mathematics library (mangled by the vector function ABI)."""
    return _VECTOR_LIBM.match(name) is not None


def starts_threads(name: str) -> bool:
    """Whether a call of `name` starts threads: an OpenMP region or a single thread."""
    return _PARALLEL.match(name) is not None
