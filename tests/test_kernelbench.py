"""The sweep over KernelBench: the sizes that it tries, and that refusals of one kind are counted as one."""

from __future__ import annotations

from pathlib import Path

from benchmarks.kernelbench import reduced_sizes, table


def test_sizes_keep_divisors_then_ratios_then_one_number_of_the_file(tmp_path: Path) -> None:
    problem = tmp_path / "problem.py"
    problem.write_text("channels = 48\nwidth = 3 * 8\nprime = 67\ngroups = 8\n")
    first, second, *rest = reduced_sizes(problem)
    assert first == {"channels": 16, "width": 12, "prime": 16}
    assert second == {"channels": 9, "width": 4, "prime": 13}
    assert rest == [{name: size for name, size in first.items() if name != kept} for kept in first]


def test_refusals_that_name_the_problem_are_counted_as_one_kind() -> None:
    said = "none could be written: torch.compile leaves torch's mm to a library, which is not lifted; give a kernel"
    answers = {
        f"level1/{name}": {"contract": "", "lifted": f"{name}: no kernel is given, and {said}"}
        for name in ("1_a", "2_b")
    }
    page = table(answers | {"level1/3_c": {"contract": "", "lifted": "", "correct": ""}}, "the command")
    assert "| level1 | 3 | 3 | 1 | 1 | 2 |" in page
    assert "- 2: torch.compile leaves torch's mm to a library, which is not lifted (level1/1, level1/2)" in page
