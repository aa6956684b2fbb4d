"""Threads only where there is work for them: below that not even the runtime is called."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents.models.playbook.guarded import MAX_LINES

from agents.models.playbook.analysis.unit import parsed
from agents.models.playbook.recipe import recipe
from tests.agents.models.playbook.calling import build, compare

PARALLEL = recipe("parallel_outer")


def kernel(body: str, parameters: str = "const float* x, float* y, int n") -> str:
    return f'extern "C" void solve({parameters}) {{\n{body}\n}}\n'


SECOND = "\n  for (int i = 0; i < n; ++i) y[n + 1 + i] = 3;"
"""Something to do, so that the source is written anew."""
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
    assert made.count("else") == 2 and not parsed(made).broken
    # The loop's two forms lie in a block of their own.
    assert "if (n > 3)\n    {" in made
    assert PARALLEL.edit(made, {}) == made


@pytest.mark.parametrize(
    "body",
    [
        "  for (int i = 0; i < n; ++i) {\n" + "    y[i] = 2 * x[i];\n" * MAX_LINES + "  }",
        "  for (int i = 0; i < n; ++i) {\n    static int calls = 0;\n    y[i] = 2 * x[i];\n  }",
        "  for (int i = 0; i < n; ++i) {\n#ifdef WIDE\n    y[i] = x[i];\n#else\n    y[i] = 2 * x[i];\n#endif\n  }",
    ],
    ids=["long", "static", "conditional"],
)
def test_what_cannot_stand_twice_is_guarded_by_the_clause(body: str) -> None:
    source = kernel(body.replace("  for", "  #pragma omp parallel for schedule(static) if(1LL * n >= 1000)\n  for", 1) + SECOND)
    made = PARALLEL.edit(source, {})
    assert made.count("y[i] = 2 * x[i];") == body.count("y[i] = 2 * x[i];")
    assert " if(1LL * n >= 1000)\n" in made and "if (1LL * n >= 262144) {" in made, made


@pytest.mark.parametrize(
    "clauses",
    [
        "private(t) if(1LL * n >= 1000)",
        "num_threads(4) if(1LL * n >= 1000)",
        "if(1LL * n >= 1000) num_threads(n >= 5)",
        "ordered if(1LL * n >= 1000)",
    ],
)
def test_a_clause_of_somebody_else_stays_as_it_was_written(clauses: str) -> None:
    pragma = f"#pragma omp parallel for {clauses}"
    source = kernel(f"  float t = 7;\n  {pragma}\n  for (int i = 0; i < n; ++i) {{ t = 2 * x[i]; y[i] = t; }}\n  y[n] = t;{SECOND}")
    made = PARALLEL.edit(source, {})
    assert pragma in made and made.count("y[i] = t;") == 1
    assert "if (1LL * n >= 262144) {" in made, "the loop behind it is given out in two forms all the same"


@pytest.mark.parametrize("clause", [" if(n > 5000)", " num_threads(2)"])
def test_two_forms_of_somebody_else_are_not_read_as_one(clause: str) -> None:
    loop = "for (int i = 0; i < n; ++i) y[i] = 2 * x[i];"
    forms = f"  if (1LL * n >= 1000) {{\n    #pragma omp parallel for{clause}\n    {loop}\n  }} else {{\n    // small\n    {loop}\n  }}"
    made = PARALLEL.edit(kernel(forms + SECOND), {})
    assert forms.strip() in made
    assert made.count("omp parallel") == 2, "nobody's serial form gets threads"


def test_a_serial_form_with_lanes_of_its_own_keeps_them() -> None:
    loop = "for (int i = 0; i < n; ++i) y[i] = 2 * x[i];"
    forms = f"  if (1LL * n >= 1000) {{\n    #pragma omp parallel for\n    {loop}\n  }} else {{\n    #pragma omp simd\n    {loop}\n  }}"
    assert forms.strip() in PARALLEL.edit(kernel(forms + SECOND), {})


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


def test_functions_that_both_forms_call_are_marked_inline() -> None:
    source = (
        "static float half(float v) { return 0.5f * v; }\nstatic float other(float v) { return v; }\n"
        "namespace {\nfloat twice(float v) { return half(4 * v); }\n}\nstatic constexpr float one() { return 1; }\n"
        + kernel("  for (int i = 0; i < n; ++i) y[i] = twice(x[i]) + one();")
    )
    made = PARALLEL.edit(source, {})
    # Called twice, they would stay calls, and the loop scalar; of the one that the loop does not reach nothing is known.
    assert "static inline float half(" in made and "\ninline float twice(" in made
    assert "static float other(" in made and "static constexpr float one(" in made
    assert PARALLEL.edit(made, {}) == made and made.count("inline") == 2


def test_forms_that_differ_by_an_operator_are_not_one_loop() -> None:
    forms = "  if (1LL * n >= 1000) {{\n    #pragma omp parallel for\n    for (int i = 0; i < n; ++i) y[i] = x[i] + {0};\n  }} else {{\n"
    body = forms.format(2) + "    for (int i = 0; i < n; ++i) y[i] = x[i] - 2;\n  }"
    made = PARALLEL.edit(kernel(body + SECOND), {})
    assert "x[i] + 2" in made and "x[i] - 2" in made and "y[n + 1 + i] = 3;" in made, made


@pytest.mark.parametrize(
    "around", ["{{ {}\n  }}", "if (n < 3) y[0] = 1; else {}", "switch (n) {{ case 0: {}\n  }}"], ids=["line", "else", "case"]
)
def test_a_pragma_is_put_only_where_one_may_stand(around: str, tmp_path: Path) -> None:
    forms = "if (1LL * n >= 1000) {\n    #pragma omp parallel for\n    for (int i = 0; i < n; ++i) y[i] = x[i];\n  } else {\n"
    body = "  " + around.format(forms + "    for (int i = 0; i < n; ++i) y[i] = x[i];\n  }")
    made = PARALLEL.edit(kernel(body + SECOND), {})
    assert "y[n + 1 + i] = 3;" in made and made.count("#pragma omp parallel for") == 2
    build(made, tmp_path, "made")


def test_a_type_of_the_block_is_not_named_outside_it(tmp_path: Path) -> None:
    loop = "using idx = long;\n    for (idx j = 0; j < (idx)m; ++j) y[i * m + j] = x[i];"
    source = kernel(f"  for (int i = 0; i < n; ++i) {{\n    {loop}\n  }}", "const float* x, float* y, int n, int m")
    made = PARALLEL.edit(source, {})
    assert "omp parallel" in made
    build(made, tmp_path, "made")


def test_a_branch_for_another_reason_has_threads_in_both_parts() -> None:
    loop = "for (int i = 0; i < n; ++i) y[i] = {} * x[i];"
    branch = f"  if (t) {{\n    #pragma omp parallel for\n    {loop.format(2)}\n  }} else {{\n    {loop.format(3)}\n  }}"
    source = kernel(branch, "const float* x, float* y, int n, bool t")
    made = PARALLEL.edit(source, {})
    assert made.count("#pragma omp parallel for") == 2, made
    assert PARALLEL.edit(source.replace("(t)", "(n > 5000)"), {}) == source.replace("(t)", "(n > 5000)")


@pytest.mark.parametrize("least", ["constexpr int kMin = 1 << 16;\n", "#define kMin 65536\n", "static int kMin = 65536;\n"])
@pytest.mark.parametrize("asked", ["n >= kMin", "kMin < n", "total >= kMin"])
def test_who_names_the_least_amount_has_decided_too(least: str, asked: str) -> None:
    loop = "for (int i = 0; i < n; ++i) y[i] = 2 * x[i];"
    branch = f"  const long total = 4L * n;\n  if ({asked}) {{\n    #pragma omp parallel for\n    {loop}\n  }} else {{\n    {loop}\n  }}"
    source = least + kernel(branch)
    assert PARALLEL.edit(source, {}) == source
    other = source.replace(asked, "mode >= 2").replace("int n", "int n, int mode")
    assert PARALLEL.edit(other, {}).count("#pragma omp parallel for") == 2


IDX = "using idx = long;\n"


@pytest.mark.parametrize(
    ("source", "amount"),
    [
        (IDX + kernel("  for (idx i = 0; i < (idx)n; ++i) y[i] = 2 * x[i];"), "((idx)n)"),
        (IDX + kernel("  for (idx i = 0; i < static_cast<idx>(n); ++i) y[i] = 2 * x[i];"), "(static_cast<idx>(n))"),
        (kernel("  const int m = n / 2;\n  for (int i = 0; i < n / m; ++i) y[i] = 2 * x[i];"), "(n / m)"),
    ],
)
def test_the_amount_is_asked_in_the_words_of_the_loop(source: str, amount: str, tmp_path: Path) -> None:
    made = PARALLEL.edit(source, {})
    assert f"if (1LL * {amount} >= 262144)" in made, made
    build(made, tmp_path, "made")


ROWS = """\
  for (int i = 0; i < n; ++i) {{
    float s = 0;
    {before}for ({kind} j = 0; j < {bound}; ++j) s += x[i * m + j];{behind}
    y[i] = s;
  }}"""


@pytest.mark.parametrize(
    ("bound", "before", "behind", "amount"),
    [
        ("m / 4", "", "", "(m / 4)"),
        ("m / k", "if (k > 0) ", "", "8"),
        ("m % k", "if (k > 0) ", "", "8"),
        ("m / 0x0", "if (k > 0) ", "", "8"),
        ("w", "if (int w = m) ", "", "8"),
        ("w", "if (int w = m; w > 2) ", "", "8"),
        ("W", "enum { W = 4 };\n    ", "", "8"),
        ("(E)m", "enum E : int { A };\n    ", "", "8"),
        ("W", "\n#define W 4\n    ", "\n#undef W", "8"),
        ("(own)m", "using own = long;\n    ", "", "8"),
        ("(own)m", "typedef long own;\n    ", "", "8"),
        ("least::W", "using least::W;\n    ", "", "8"),
        ("W", "using least::W;\n    ", "", "8"),
    ],
)
def test_no_bound_is_asked_in_front_that_means_something_inside_alone(
    bound: str, before: str, behind: str, amount: str, tmp_path: Path
) -> None:
    """Or that the kernel may never come to: a division by zero ends the process."""
    rows = ROWS.format(bound=bound, before=before, behind=behind, kind="int")
    # A second loop, so that `own` and `E` mean two things.
    source = "namespace least { constexpr int W = 4; }\n" + kernel(
        rows
        + "\n  for (int i = 0; i < n; ++i) {\n    using own = short;\n    enum class E : int { B };\n    y[i] += own(1) + int(E::B);\n  }",
        "const float* x, float* y, int n, int m, int k",
    )
    made = PARALLEL.edit(source, {})
    assert f"1LL * n * {amount} >= " in made, made
    build(made, tmp_path, "made")


def test_a_function_too_long_to_be_put_in_twice_is_called_from_one_form() -> None:
    helper = "static float f(float v) {\n" + "  v = 0.5f * v + 1;\n" * MAX_LINES + "  return v;\n}\n"
    made = PARALLEL.edit(helper + kernel("  for (int i = 0; i < n; ++i) y[i] = f(x[i]);"), {})
    assert made.count("f(x[i])") == 1 and " if(1LL * n >= " in made and "static float f(" in made


def test_what_a_macro_may_have_said_is_not_said_twice(tmp_path: Path) -> None:
    helper = "#define FAST inline float\nstatic FAST f(float v) { return 2 * v; }\n"
    made = PARALLEL.edit(helper + kernel("  for (int i = 0; i < n; ++i) y[i] = f(x[i]);"), {})
    assert "} else {" in made
    build(made, tmp_path, "made")


def test_both_forms_compute_the_same(tmp_path: Path) -> None:
    before = build(SCALE.replace("int n", "long n"), tmp_path, "before")
    made = PARALLEL.edit(SCALE.replace("int n", "long n"), {})
    assert ">= 262144" in made
    library = build(made, tmp_path, "after", least=None)
    sizes = [1000, 300_000]
    pairs = [[str(before), str(library), [f"in:{n}", f"out:{n}", n]] for n in sizes]
    assert compare(pairs, tmp_path) == [0.0, 0.0]
