"""Single loops, written down as gcc 12 and clang 14 print them."""

import pytest

from tools.analysis.assembly import parse
from tools.analysis.loops import Loop, is_serial_reduction, is_strided, loops

SPILLED_SUM = """
    1000:\tvmovss (%r14),%xmm0
    1005:\tadd    $0x4,%r14
    1009:\tcall   2000 <expf@plt>
    100e:\tvaddss -0x38(%rbp),%xmm0,%xmm1
    1014:\tvmovss %xmm1,-0x38(%rbp)
    101a:\tcmp    %r14,%r13
    101d:\tjne    1000 <solve+0x0>
"""
HORNER = """
    1000:\tvmovups (%rdi,%rax,4),%zmm0
    1007:\tvmovss %xmm9,%xmm9,%xmm1
    100d:\tvfmadd213ss %xmm8,%xmm0,%xmm1
    1013:\tvmulss %xmm0,%xmm1,%xmm1
    1019:\tvmovss %xmm1,(%rsi,%rax,4)
    101f:\tinc    %rax
    1022:\tcmp    %rax,%rdx
    1025:\tjne    1000 <solve+0x0>
"""
PACKED_SUM = """
    1000:\tvaddps (%rdi),%zmm0,%zmm0
    1007:\tadd    $0x40,%rdi
    100b:\tcmp    %rdi,%rdx
    100e:\tjne    1000 <solve+0x0>
"""
SSE_SUM = """
    1000:\taddss  (%rdi),%xmm0
    1007:\tadd    %r8,%rdi
    100b:\tcmp    %rdi,%rdx
    100e:\tjne    1000 <solve+0x0>
"""


def only(text: str) -> Loop:
    (function,) = parse("0000000000001000 <solve>:" + text).values()
    (loop,) = loops(function)
    return loop


@pytest.mark.parametrize(("text", "serial"), [(SPILLED_SUM, True), (HORNER, False), (PACKED_SUM, False), (SSE_SUM, True)])
def test_serial_reductions(text, serial):
    assert is_serial_reduction(only(text)) is serial


@pytest.mark.parametrize(("text", "strided"), [(SPILLED_SUM, False), (HORNER, False), (PACKED_SUM, False), (SSE_SUM, True)])
def test_strides(text, strided):
    assert is_strided(only(text)) is strided
