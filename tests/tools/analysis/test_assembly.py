from pathlib import Path

from tools.analysis.assembly import parse, reachable, with_lines

FIXTURES = Path(__file__).parents[1] / "fixtures" / "static"


def text(kernel: str, name: str = "gcc.assembly.txt") -> str:
    return (FIXTURES / kernel / name).read_text()


def test_outlined_regions_belong_to_solve():
    assert [function.name for function in reachable(parse(text("fast")))] == ["solve", "solve._omp_fn.0"]


def test_lines_are_taken_only_from_identical_code():
    timed, debug = parse(text("softmax")), parse(text("softmax", "gcc.debug.txt"), "kernel.cpp")
    assert {i.line for i in with_lines(timed, debug)["solve"].instructions} >= {5, 6, 9, 13, 16}
    other = parse(text("matmul", "gcc.debug.txt"), "kernel.cpp")
    assert {i.line for i in with_lines(timed, other)["solve"].instructions} == {0}
