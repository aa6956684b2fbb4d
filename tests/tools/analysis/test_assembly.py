from pathlib import Path

from tools.analysis.assembly import copy_source_lines, functions_reachable_from, parse_disassembly

FIXTURES = Path(__file__).parents[1] / "fixtures" / "static"


def text(kernel: str, name: str = "gcc.assembly.txt") -> str:
    return (FIXTURES / kernel / name).read_text()


def test_outlined_regions_belong_to_solve():
    assert [function.name for function in functions_reachable_from(parse_disassembly(text("fast")))] == [
        "solve",
        "solve._omp_fn.0",
    ]


def test_lines_are_taken_only_from_identical_code():
    timed, debug = parse_disassembly(text("softmax")), parse_disassembly(text("softmax", "gcc.debug.txt"), "kernel.cpp")
    assert {i.line for i in copy_source_lines(timed, debug)["solve"].instructions} >= {5, 6, 9, 13, 16}
    other = parse_disassembly(text("matmul", "gcc.debug.txt"), "kernel.cpp")
    assert {i.line for i in copy_source_lines(timed, other)["solve"].instructions} == {0}
