from pathlib import Path

import pytest

from tools.errors import SettingsError
from tools.mechanism import check

FIXTURES = Path(__file__).parent / "fixtures" / "static"
FAST = (FIXTURES / "fast" / "gcc.assembly.txt").read_text()
NAIVE = (FIXTURES / "softmax" / "gcc.assembly.txt").read_text()


@pytest.mark.parametrize("name", ["@packed_float", "@packed_exponential", "@fused_multiply_add", "@parallel_region"])
def test_named_patterns_tell_the_fast_kernel_from_the_naive(name):
    fast, naive = (check(code, "x86_64", {"x86_64": name}) for code in (FAST, NAIVE))
    if name == "@parallel_region":
        assert fast.examples == ("solve: call 1050 <GOMP_parallel@plt>",)
    assert fast.present is True and fast.count > 0
    assert naive.present is False and naive.count == 0


def test_own_pattern_and_examples():
    found = check(FAST, "x86_64", {"x86_64": r"^vmaxps .*%zmm"})
    assert found.present
    assert all(example.startswith("solve._omp_fn.0: vmaxps") for example in found.examples)


def test_only_what_solve_reaches_is_searched():
    stray = "\n0000000000009000 <helper>:\n    9000:\tvmovntps %zmm0,(%rdi)\n    9008:\tret\n"
    assert check(NAIVE + stray, "x86_64", {"x86_64": "@streaming_store"}).present is False
    reached = (NAIVE + stray).replace("call   1040 <fmaxf@plt>", "call   9000 <helper>")
    assert check(reached, "x86_64", {"x86_64": "@streaming_store"}).examples == ("helper: vmovntps %zmm0,(%rdi)",)


def test_no_pattern_for_the_architecture_is_no_answer():
    assert check(FAST, "sm_90", {"x86_64": "x"}).present is None
    assert check("", "x86_64", {"*": "x"}).present is None


@pytest.mark.parametrize("pattern", ["(", "@no_such_name"])
def test_unusable_signature_is_one_sentence(pattern):
    with pytest.raises(SettingsError, match="signature: "):
        check(FAST, "x86_64", {"x86_64": pattern})
