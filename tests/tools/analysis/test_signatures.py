import re
from pathlib import Path

import pytest

from tools.analysis.signatures import SIGNATURES, check
from tools.errors import SettingsError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "static"
FAST = (FIXTURES / "fast" / "gcc.assembly.txt").read_text()
NAIVE = (FIXTURES / "softmax" / "gcc.assembly.txt").read_text()


@pytest.mark.parametrize("name", ["@packed_float", "@packed_exponential", "@fused_multiply_add", "@parallel_region"])
def test_named_patterns_tell_the_fast_kernel_from_the_naive(name):
    fast, naive = (check(code, "x86_64", {"x86_64": name}) for code in (FAST, NAIVE))
    assert (fast.present, naive.present) == (True, False) and fast.count > naive.count == 0


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


@pytest.mark.parametrize(
    ("name", "shown", "hidden"),
    [
        ("matrix_unit", "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24, gsb0", "FFMA R0, R1, R2, R3"),
        ("warpgroup_matrix_unit", "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT", "HMMA.16816.F32 R4, R8, R12, R4"),
        ("async_copy", "LDGSTS.E.BYPASS.128 [R9], desc[UR8][R2.64]", "LDG.E.128 R4, desc[UR4][R2.64]"),
        ("bulk_tensor_copy", "UTMALDG.2D [UR8], [UR4]", "LDS.128 R4, [R2]"),
    ],
)
def test_named_patterns_of_hopper(name, shown, hidden):
    import yaml

    pattern = re.compile(yaml.safe_load(SIGNATURES.read_text())[name]["sm_90"])
    assert pattern.search(shown) and not pattern.search(hidden)
