import re
from pathlib import Path

import pytest

from tools.analysis.signatures import SIGNATURES, check_signature, compare_signatures, hot_loop_assembly
from tools.errors import SettingsError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "static"
FAST = (FIXTURES / "fast" / "gcc.assembly.txt").read_text()
NAIVE = (FIXTURES / "softmax" / "gcc.assembly.txt").read_text()


@pytest.mark.parametrize("name", ["@packed_float", "@packed_exponential", "@fused_multiply_add", "@parallel_region"])
def test_named_patterns_tell_the_fast_kernel_from_the_naive(name):
    fast, naive = (check_signature(code, "x86_64", {"x86_64": name}) for code in (FAST, NAIVE))
    assert (fast.present, naive.present) == (True, False) and fast.count > naive.count == 0


def test_only_what_solve_reaches_is_searched():
    stray = "\n0000000000009000 <helper>:\n    9000:\tvmovntps %zmm0,(%rdi)\n    9008:\tret\n"
    assert check_signature(NAIVE + stray, "x86_64", {"x86_64": "@streaming_store"}).present is False
    reached = (NAIVE + stray).replace("call   1040 <fmaxf@plt>", "call   9000 <helper>")
    assert check_signature(reached, "x86_64", {"x86_64": "@streaming_store"}).examples == (
        "helper: vmovntps %zmm0,(%rdi)",
    )


SASS = """0000000000000000 <run_kernel>:
   0:	launch	kernel <k>

0000000000000000 <k>:
   0000:	S2R	R0, SR_TID.X
   0010:	HMMA.16816.F32	R4, R8, R12, R4
   0020:	LDG.E	R4, desc[UR4][R2.64]
   0030:	FFMA	R0, R4, R4, R0
   0040:	BRA	0x20 @P0
   0050:	EXIT
   0060:	BRA	0x60
"""
"""A loop of three instructions behind one of the matrix unit."""
LOOPED = SASS.replace("0x20 @P0", "0x10 @P0")
SHORT = LOOPED.replace("   0030:	FFMA	R0, R4, R4, R0\n", "")
LAYERNORM = (FIXTURES / "layernorm" / "gcc.assembly.txt").read_text()
X86, PARALLEL, HOPPER = ({"x86_64": "@packed_float"}, {"x86_64": "@parallel_region"}, {"sm_90": "@matrix_unit"})


@pytest.mark.parametrize(
    ("there", "without", "signature", "shown", "said"),
    [
        (FAST, NAIVE, X86, True, "yes: "),
        # The untouched kernel has it: nothing was changed, or other things.
        (LAYERNORM, LAYERNORM, X86, False, "no: "),
        (FAST, FAST, X86, False, "no: "),
        (FAST, LAYERNORM, X86, True, "yes: "),
        (NAIVE, LAYERNORM, X86, False, "no: 0 (0%"),
        (FAST, NAIVE, PARALLEL, True, "yes: 1 (0% of the hot code), without it 0 (0%"),
        (FAST, FAST, PARALLEL, False, "no: "),
        # A larger share of no more instructions: the loop may have lost others.
        (SHORT, LOOPED, HOPPER, None, "not clear: 1 (33% of the hot code), without it 1 (25%"),
        (LOOPED, SASS, HOPPER, True, "yes: 1 (25% of the hot code), without it 1 (0%"),
        (SASS, LOOPED, HOPPER, False, "no: "),
        (FAST, NAIVE, HOPPER, None, "not checked: no signature for x86_64"),
        ("", NAIVE, X86, None, "not checked: no code of this kernel"),
        (FAST, "", X86, None, "not checked: nothing to compare with"),
    ],
)
def test_a_mechanism_is_a_difference(there, without, signature, shown, said):
    architecture = "sm_90" if "HMMA" in there else "x86_64"
    found = compare_signatures(*(check_signature(code, architecture, signature) for code in (there, without)), "c")
    assert found.shown is shown and str(found).startswith(said)
    if shown is not None:
        assert found.there.pattern and (not found.there.count or found.there.examples)


def test_no_pattern_for_the_architecture_is_no_answer():
    assert check_signature(FAST, "sm_90", {"x86_64": "x"}).present is None
    assert check_signature("", "x86_64", {"*": "x"}).present is None


@pytest.mark.parametrize("pattern", ["(", "@no_such_name"])
def test_unusable_signature_is_one_sentence(pattern):
    with pytest.raises(SettingsError, match="signature: "):
        check_signature(FAST, "x86_64", {"x86_64": pattern})


@pytest.mark.parametrize(
    ("name", "shown", "hidden"),
    [
        ("matrix_unit", "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24, gsb0", "FFMA R0, R1, R2, R3"),
        (
            "warpgroup_matrix_unit",
            "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT",
            "HMMA.16816.F32 R4, R8, R12, R4",
        ),
        ("async_copy", "LDGSTS.E.BYPASS.128 [R9], desc[UR8][R2.64]", "LDG.E.128 R4, desc[UR4][R2.64]"),
        ("bulk_tensor_copy", "UTMALDG.2D [UR8], [UR4]", "LDS.128 R4, [R2]"),
    ],
)
def test_named_patterns_of_hopper(name, shown, hidden):
    import yaml

    pattern = re.compile(yaml.safe_load(SIGNATURES.read_text())[name]["sm_90"])
    assert pattern.search(shown) and not pattern.search(hidden)


def test_the_hot_loops_are_told_longest_first_and_the_whole_function_where_there_is_none():
    first, *others = hot_loop_assembly(NAIVE)
    assert first.startswith("<solve>, 19 instructions:\nvaddss") and [text.count("\n") for text in others] == [8, 6, 6]
    assert hot_loop_assembly(SASS) == (
        "<k>, 3 instructions:\nLDG.E R4, desc[UR4][R2.64]\nFFMA R0, R4, R4, R0\nBRA 0x20 @P0",
    )
    assert "HMMA" in hot_loop_assembly(SASS.replace("0x20 @P0", "0x60"))[0] and hot_loop_assembly("") == ()
