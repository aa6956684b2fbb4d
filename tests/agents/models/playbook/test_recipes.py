"""Every recipe on source that was not written for it: it finds its place or none, the result compiles, computes the
same, and stays."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agents.models.playbook.analysis.unit import CppUnit
from agents.models.playbook.macros import expand_macros
from agents.models.playbook.recipe import RECIPES, load_recipe
from agents.models.playbook.recipes.openmp import MAX_DUPLICATED_LINES
from tests.agents.models.playbook.calling import build, compare
from tests.agents.models.playbook.kernels import KERNELS, arguments, source

CPP = [name for name in RECIPES if load_recipe(name).language == "cpp"]
TOLERANCE = 5e-6


def applied(text: str, *names: str) -> str:
    for name in names:
        text = load_recipe(name).edit(text, {})
    return text


@pytest.mark.slow
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_recipes_find_their_places_and_the_result_stays(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    given = source(kernel)
    made = {name: load_recipe(name).edit(given, {}) for name in CPP}
    assert [name for name in CPP if made[name] != given] == KERNELS[kernel][1].split()
    assert [name for name in CPP if load_recipe(name).edit(made[name], {}) != made[name]] == [], (
        "a second pass changes nothing"
    )
    made["all"] = applied(given, *CPP)
    # Pragmas for lanes alone are tried together with the rest.
    texts = {text: name for name, text in made.items() if text != given and name not in ("simd_reduction", "simd_loop")}
    before = str(build(given, tmp_path, "before")) if texts else ""
    pairs = [[before, str(build(text, tmp_path, name)), arguments(kernel)] for text, name in texts.items()]
    errors = dict(zip(texts.values(), compare(pairs, tmp_path), strict=True)) if pairs else {}
    assert errors == pytest.approx(dict.fromkeys(errors, 0.0), abs=TOLERANCE)


def test_every_recipe_has_kernels_to_be_tried_on() -> None:
    assert set(CPP) == {name for _, names in KERNELS.values() for name in names.split()}


@pytest.mark.parametrize("name", CPP)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "int main() { return 0; }",
        'extern "C" void solve(float* x, int n) { for (int i = 0; i < n; ',
        "template <class T> void solve(T* x, int n) { for (int i = 0; i < n; ++i) x[i] = T(1); }",
        'extern "C" void solve(float* x, int n) { while (*x > 0) { *x++ = 0; } }',
    ],
)
def test_source_without_a_place_is_unchanged(name: str, text: str) -> None:
    assert load_recipe(name).edit(text, {}) == text


# ---------------------------------------------------------------- what is made of loops in the wrong order


def test_a_matrix_vector_product_in_the_wrong_order_is_swapped_summed_in_a_scalar_and_threaded() -> None:
    made = applied(source("gemv_wrong_order"), "interchange", "simd_reduction", "parallel_outer")
    threaded = made.split("#pragma omp parallel for schedule(static)")[-1]
    rows, along = threaded.index("for (int i = 0; i < M; ++i)"), threaded.index("for (int j = 0; j < N; ++j)")
    assert rows < threaded.index("#pragma omp simd reduction(+:kw_sum_1)") < along
    assert "kw_sum_1 += A[i * N + j] * x[j];" in threaded and "critical" not in made


@pytest.mark.parametrize("kernel", ["wavefront", "recurrence_down_columns", "matmul", "column_sum"])
def test_loops_are_swapped_only_where_any_order_is_right_and_threads_gain(kernel: str) -> None:
    made, given = load_recipe("interchange").edit(source(kernel), {}), source(kernel)
    assert made == given if kernel == "wavefront" else "_strip" in made


def test_composed_softmax_is_vector_code_on_all_cores(tmp_path: Path) -> None:
    made = applied(source("softmax_int"), "vector_exp", "simd_reduction", "simd_loop", "parallel_outer")
    library = build(made, tmp_path, "softmax")
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(library)], capture_output=True, text=True, check=True
    ).stdout
    assert "GOMP_parallel" in code and "expf" not in code
    assert sum(word in code for word in ("mulps", "fmadd", "maxps", "addps", "fmla", "fmul")) >= 2


# ---------------------------------------------------------------- knobs


@pytest.mark.parametrize("name", ["interchange", "vector_exp", "parallel_outer"])
def test_knobs_in_place_are_read_back_and_set_as_if_written_so(name: str) -> None:
    made = load_recipe(name)
    for kernel in [kernel for kernel, (_, names) in KERNELS.items() if name in names.split()][:6]:
        best = {knob: values[0] for knob, values in made.knobs.items()}
        first = made.edit(source(kernel), best)
        now = made.present(first)
        assert now.items() <= best.items() and made.present(source(kernel)) == {}
        for knob in now:
            for value in made.knobs[knob][1:]:
                other = made.set_knobs(first, {knob: value})
                assert made.present(other)[knob] == value
                assert value == "1" or other == made.edit(source(kernel), {**best, knob: value})


# ---------------------------------------------------------------- threads where there is work for them


@pytest.mark.parametrize(
    ("kernel", "work"),
    [("log_sum_exp", "1LL * batch * classes"), ("batched_matvec", "1LL * nb * m * n"), ("softmax_int", "1LL * M * N")],
)
def test_the_guard_of_threads_counts_the_loops_of_helpers(kernel: str, work: str) -> None:
    made = load_recipe("parallel_outer").edit(source(kernel), {})
    assert f"if ({work} >= " in made or f"if({work} >= " in made


def kernel(body: str) -> str:
    return f'#include <cmath>\nextern "C" void solve(const float* x, float* y, int n) {{\n{body}\n}}\n'


def test_threads_are_woken_for_less_where_iterations_are_heavy() -> None:
    for value, least in (
        ("x[i] * 2", 1 << 18),
        ("std::sqrt(x[i])", 1 << 18),
        ("expf(x[i])", 1 << 16),
        ("std::log(x[i])", 1 << 16),
    ):
        text = kernel(f"  for (int i = 0; i < n; ++i) y[i] = {value};")
        for made in (applied(text, "parallel_outer"), applied(text, "vector_exp", "parallel_outer")):
            assert f"if (1LL * n >= {least}) {{" in made or "kw_sqrt" in made, made


def test_a_length_that_cannot_be_named_outside_counts_as_typical() -> None:
    text = kernel(
        "  for (int i = 0; i < n; ++i) { const int w = n / 2; float s = 0; for (int k = 0; k < w; ++k) s += "
        "x[k]; y[i] = s; }"
    )
    assert "if (1LL * n * 8 >= " in load_recipe("parallel_outer").edit(text, {})


@pytest.mark.parametrize("lanes", ["", "#pragma omp simd\n  "])
def test_a_small_call_takes_the_loop_as_it_was(lanes: str) -> None:
    made = load_recipe("parallel_outer").edit(kernel(f"  {lanes}for (int i = 0; i < n; ++i) y[i] = 2 * x[i];"), {})
    threaded, _, alone = made.partition("} else {")
    assert "#pragma omp parallel" in threaded and "parallel" not in alone and "y[i] = 2 * x[i];" in alone
    assert " if(" not in made, "a clause calls the runtime all the same"
    assert ("#pragma omp simd\n" in alone) is bool(lanes) and load_recipe("parallel_outer").edit(made, {}) == made


def test_a_long_loop_does_not_stand_twice_and_is_guarded_by_the_clause() -> None:
    body = "  for (int i = 0; i < n; ++i) {\n" + "    y[i] = 2 * x[i];\n" * MAX_DUPLICATED_LINES + "  }"
    made = load_recipe("parallel_outer").edit(kernel(body), {})
    assert made.count("y[i] = 2 * x[i];") == MAX_DUPLICATED_LINES and " if(1LL * n >= 262144)" in made


def test_an_else_behind_the_loop_stays_that_of_its_own_condition() -> None:
    body = "  if (n > 3)\n    for (int i = 0; i < n; ++i) y[i] = 2 * x[i];\n  else\n    y[0] = 1;"
    made = load_recipe("parallel_outer").edit(kernel(body), {})
    assert "if (n > 3)\n    {" in made and made.count("else") == 1 and not CppUnit(made).has_syntax_errors


def test_a_loop_where_somebody_decided_against_threads_gets_none() -> None:
    text = kernel(
        "  if (n > 999) {\n#pragma omp parallel for\n    for (int i = 0; i < n; ++i) y[i] = x[i];\n  } else {\n"
        "    for (int i = 0; i < n; ++i) y[i] = x[i];\n  }"
    )
    assert load_recipe("parallel_outer").edit(text, {}) == text


# ---------------------------------------------------------------- macros

AT = "#define AT(m, i, j) m[(i) * ld + (j)]\n"
TAIL = 'extern "C" void solve(const float* a, float* b, int n, int ld) { for (int i = 0; i < n; ++i) '


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        (AT, "AT(b, i, 0) = AT(a, i + 1, n - 1);", "b[(i) * ld + (0)] = a[(i + 1) * ld + (n - 1)];"),
        (
            "#define D(x) (2 * (x))\n#define Q(x) D(D(x))\n",
            "b[i] = D(Q(a[i]));",
            "b[i] = (2 * ((2 * ((2 * (a[i]))))));",
        ),
        (f"{AT}#undef AT\n", "AT(b, i, 0) = 1;", ""),
        ("#define AT(m, i, j) m[i]\n#define AT(m, i, j) m[j]\n", "AT(b, i, 0) = 1;", ""),
        (f"#ifdef WIDE\n{AT}#endif\n", "AT(b, i, 0) = 1;", ""),
        ("#define AT(m, i, j) do { m[i] = j; } while (0)\n", "AT(b, i, 0) = 1;", ""),
        ("#define AT(m, i, j) m##i[j]\n", "AT(b, i, 0) = 1;", ""),
        ("#define AT(m, i) m[i]\n", "AT(b, i, 0) = 1;", ""),
    ],
)
def test_macros_become_their_text_where_they_are_plain(head: str, body: str, text: str) -> None:
    given = f"{head}{TAIL}{body} }}"
    assert expand_macros(given) == (f"{head}{TAIL}{text} }}" if text else given)


@pytest.mark.parametrize(
    ("call", "written"),
    [
        ("fmaxf(m, x[i])", "(x[i]) > m ? (x[i]) : m"),
        ("fminf(x[i], m)", "(x[i]) < m ? (x[i]) : m"),
        ("std::max(m, x[i])", "(x[i]) > m ? (x[i]) : m"),
        ("std::max(x[i], m)", "std::max(x[i], m)"),  # returns a NaN of x, which the comparison would drop
    ],
)
def test_a_vectorised_maximum_calls_no_function_for_each_lane(call: str, written: str) -> None:
    source = (
        "#include <algorithm>\n#include <cmath>\n"
        'extern "C" void solve(const float* x, float* out, int n) {\n  float m = x[0];\n'
        f"  for (int i = 0; i < n; ++i) {{\n    m = {call};\n  }}\n  out[0] = m;\n}}\n"
    )
    edited = load_recipe("simd_reduction").edit(source, {})
    assert "#pragma omp simd reduction" in edited and f"m = {written};" in edited
