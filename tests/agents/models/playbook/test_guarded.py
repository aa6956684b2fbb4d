"""Threads only where there is work for them: below that not even the runtime is called."""

from __future__ import annotations

import pytest

from agents.models.playbook.base import recipe
from agents.models.playbook.guarded import MAX_LINES
from agents.models.playbook.syntax import parsed

PARALLEL = recipe("parallel_outer")


def kernel(body: str, parameters: str = "const float* x, float* y, int n") -> str:
    return f'extern "C" void solve({parameters}) {{\n{body}\n}}\n'


SCALE = kernel("  for (int i = 0; i < n; ++i) y[i] = 2 * x[i];")
HISTOGRAM = kernel(
    "  for (int b = 0; b < 64; ++b) counts[b] = 0;\n  for (int i = 0; i < n; ++i) counts[x[i]]++;", "const int* x, int* counts, int n"
)


@pytest.mark.parametrize(("name", "source"), [("parallel_outer", SCALE), ("private_histogram", HISTOGRAM)])
def test_a_small_call_takes_the_loop_as_it_was(name: str, source: str) -> None:
    made = recipe(name).edit(source, {})
    threaded, _, alone = made.partition("} else {")
    assert "#pragma omp parallel" in threaded and "parallel" not in alone, made
    assert source.splitlines()[-2].strip() in alone
    assert " if(" not in made, "a clause calls the runtime all the same"
    assert recipe(name).edit(made, {}) == made
    assert PARALLEL.edit(made, {}) == made


def test_the_serial_form_keeps_its_lanes() -> None:
    source = SCALE.replace("  for", "  #pragma omp simd\n  for")
    made = PARALLEL.edit(source, {})
    assert made.count("#pragma omp parallel for simd") == 1
    assert made.partition("} else {")[2].count("#pragma omp simd\n") == 1
    assert PARALLEL.edit(made, {}) == made


def test_an_else_behind_the_loop_stays_that_of_its_own_condition() -> None:
    source = kernel("  if (n > 3)\n    for (int i = 0; i < n; ++i) y[i] = 2 * x[i];\n  else\n    y[0] = 1;")
    made = PARALLEL.edit(source, {})
    outer = next(n for n in parsed(made).root.children if n.type == "linkage_specification")
    branches = made.count("else")
    assert branches == 2 and not parsed(made).broken and outer is not None
    # The loop's two forms lie in a block of their own.
    assert "if (n > 3)\n    {" in made
    assert PARALLEL.edit(made, {}) == made


@pytest.mark.parametrize(
    "body",
    [
        "  for (int i = 0; i < n; ++i) {\n" + "    y[i] = 2 * x[i];\n" * MAX_LINES + "  }",
        "  for (int i = 0; i < n; ++i) {\n    if (x[i] > 0) goto done;\n    y[i] = 2 * x[i];\n    done: ;\n  }",
        "  for (int i = 0; i < n; ++i) {\n#ifdef WIDE\n    y[i] = x[i];\n#else\n    y[i] = 2 * x[i];\n#endif\n  }",
    ],
    ids=["long", "label", "conditional"],
)
def test_what_cannot_stand_twice_is_guarded_by_the_clause_or_left(body: str) -> None:
    made = PARALLEL.edit(kernel(body), {})
    assert made.count("y[i] = 2 * x[i];") == body.count("y[i] = 2 * x[i];")
    assert "#pragma omp parallel" not in made or " if(1LL * n >= " in made


@pytest.mark.parametrize(
    "body",
    [
        "  constexpr int LANES = 32;\n  for (int i = 0; i < LANES; ++i) y[i] = 2 * x[i];",
        "  for (int i = 0; i < 16; ++i) for (int j = 0; j < 16; ++j) y[i * 16 + j] = 2 * x[i * 16 + j];",
    ],
)
def test_a_nest_that_is_always_short_gets_no_threads(body: str) -> None:
    assert PARALLEL.edit(kernel(body), {}) == kernel(body)


def test_neither_does_what_whole_blocks_left_over() -> None:
    source = kernel("  double s = 0;\n  for (int i = 0; i < n; ++i) s += x[i];\n  y[0] = s;")
    made = PARALLEL.edit(recipe("unroll_accumulators").edit(source, {}), {})
    assert "kw_full" in made and "omp parallel" not in made


def test_a_length_with_a_cast_of_two_words_can_be_named() -> None:
    made = PARALLEL.edit(kernel("  for (long i = 0; i < static_cast<unsigned long>(n) * 3; ++i) y[i] = 2 * x[i];"), {})
    assert "if (1LL * (static_cast<unsigned long>(n) * 3) >= " in made
