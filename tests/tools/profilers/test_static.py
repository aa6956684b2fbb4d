"""What gcc 12, clang 14 and their disassemblies really said of five kernels, recorded in fixtures/static."""

from pathlib import Path

import pytest

from tools.analysis import loops
from tools.profilers import compiler_remarks
from tools.profilers.static import examine_machine_code

FIXTURES = Path(__file__).parents[1] / "fixtures" / "static"


def read(kernel: str, family: str) -> tuple[dict[str, float], list[tuple[str, int, str, str]]]:
    folder = FIXTURES / kernel
    assembly = folder / ("gcc.assembly.txt" if family == "gcc" else "clang.debug.txt")
    said, debug = (folder / f"{family}.remarks.txt").read_text(), (folder / f"{family}.debug.txt").read_text()
    metrics, found = examine_machine_code(said, family, assembly.read_text(), debug, "kernel.cpp")
    return {name: quantity.value for name, quantity in metrics.items()}, [
        (r.tool, r.line, r.kind, r.text) for r in found
    ]


def test_gcc_softmax_names_the_calls_and_the_serial_sum():
    metrics, found = read("softmax", "gcc")
    assert metrics["objdump.loops"] == metrics["objdump.sibling_loops"] == 4 and metrics["objdump.math_calls"] == 2
    # gcc says that the sum on line 13 is vectorised; the machine code adds one element after the other.
    assert ("gcc", 13, "applied", "loop vectorized using 64 byte vectors") in found
    assert ("objdump", 13, "note", "loop accumulates one element at a time in a serial chain") in found
    assert metrics["objdump.serial_reductions"] == 1
    assert metrics["objdump.packed_fraction"] == 0.25
    assert metrics["compiler.loops_missed"] == 2
    assert ("gcc", 9, "missed", "loop not vectorized: statement clobbers memory: expf") in found
    assert metrics["objdump.omp_regions"] == 0


def test_a_remainder_loop_does_not_count():
    source = """
for (i = 0; i + 16 <= n; i += 16) wide(i);
for (; i < n; ++i) narrow(i);
for (int j = n / 16 * 16; j < n; ++j) narrow(j);
for (int j = 0; j < n; ++j) whole(j);
for (int64_t x = static_cast<int64_t>(0L); x < static_cast<int64_t>(5000L); x += static_cast<int64_t>(16L)) {
    for (int64_t x_tail = static_cast<int64_t>(4992L); x_tail < static_cast<int64_t>(5000L); x_tail++) {
"""
    assert loops.remainder_lines(source, {"n": 4096}) == {3, 4, 7}
    assert loops.remainder_lines(source, {"n": 1000}) == {7}, "15 of 1000 elements are more than 1 %"
    texts = [(FIXTURES / "softmax" / f"gcc.{part}.txt").read_text() for part in ("remarks", "assembly", "debug")]
    metrics, found = examine_machine_code(texts[0], "gcc", texts[1], texts[2], "kernel.cpp", frozenset({13}))
    assert metrics["objdump.loops"].value == 3 and metrics["objdump.serial_reductions"].value == 0
    assert 13 not in {remark.line for remark in found}


def test_fast_softmax_is_packed_parallel_and_without_complaint():
    metrics, found = read("fast", "gcc")
    assert metrics["objdump.omp_regions"] == 1
    assert metrics["objdump.packed_fraction"] == 1.0
    assert metrics["objdump.vector_bytes"] == metrics["compiler.vector_bytes"] == 64
    assert (
        metrics["objdump.math_calls"] == metrics["objdump.serial_reductions"] == metrics["compiler.loops_missed"] == 0
    )
    assert not [r for r in found if r[2] == "missed" or r[0] == "objdump"]


def test_remainders_do_not_count_as_loops_of_their_own():
    assert read("fast", "gcc")[0]["objdump.loops"] == 3
    assert read("layernorm", "gcc")[0]["objdump.loops"] == 3
    assert read("layernorm", "clang")[0]["objdump.loops"] == 3


def test_the_cycle_for_empty_rows_is_no_inner_loop():
    # Where a row has no elements gcc goes round the rows in a cycle of its own, which holds the square root and the
    # division of a row.
    metrics, found = read("tanh", "gcc")
    assert metrics["objdump.loops"] == 3 and metrics["objdump.divide"] == 0
    assert [name for name in metrics if name.startswith("objdump.calls.")] == ["objdump.calls.tanhf"]
    assert ("objdump", 14, "note", "loop calls tanhf for each element") in found


@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_matmul_strides_and_reduces_serially(family):
    metrics, _ = read("matmul", family)
    assert metrics["objdump.strided_loops"] == metrics["objdump.serial_reductions"] == 1


@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_unrolled_serial_chain_is_seen_through_renamed_registers(family):
    _, found = read("layernorm", family)
    chains = {line for tool, line, _, text in found if tool == "objdump" and "serial chain" in text}
    assert chains == {5, 7}


def test_aarch64_loops_are_read_too():
    assembly = (FIXTURES / "matmul" / "aarch64.debug.txt").read_text()
    metrics, _ = examine_machine_code("", "none", assembly, "", "kernel.cpp")
    assert (
        metrics["objdump.loops"].value
        == metrics["objdump.strided_loops"].value
        == metrics["objdump.serial_reductions"].value
        == 1
    )
    assert metrics["objdump.fma"].value == 1


def test_what_was_not_collected_has_no_metric():
    assert examine_machine_code("", "gcc", "", "") == ({}, ())
    metrics, _ = examine_machine_code((FIXTURES / "softmax" / "gcc.remarks.txt").read_text(), "gcc", "", "")
    assert all(name.startswith("compiler.") for name in metrics)


def test_remarks_about_other_files_lend_their_reason_but_not_their_line():
    loop = "kernel.cpp:9:27: missed: couldn't vectorize loop\n"
    text = loop + "/usr/include/cmath:223:26: missed: statement clobbers memory: _5 = __builtin_expf (_1);\n"
    assert [(r.line, r.text) for r in compiler_remarks.parse_remarks(text, "gcc")] == [
        (9, "loop not vectorized: statement clobbers memory: expf")
    ]
