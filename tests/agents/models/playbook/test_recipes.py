"""Every recipe on source that was not written for it: the result compiles, computes the same, and a second pass changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import foreign
import foreign_nests
from calling import build, compare

from agents.models.playbook.analysis.unit import Unit
from agents.models.playbook.recipe import RECIPES, recipe

KERNELS = foreign.INDEPENDENT | foreign_nests.KERNELS
SITES = {
    "restrict_pointers": ("SOFTMAX_INT", "SOFTMAX_OLD_C", "TRANSPOSE_BRACES", "GELU"),
    "branch_to_select": ("SOFTMAX_INT", "SOFTMAX_ROWS", "SOFTMAX_OLD_C", "CLAMP", "CHAIN", "COLUMN_MAX", "PAIR_FORCES"),
    "vector_exp": ("SOFTMAX_INT", "SOFTMAX_ROWS", "SOFTMAX_OLD_C", "CHAIN", "GELU", "LOG_SOFTMAX", "GELU_PORT", "LOG_SUM_EXP",
                   "BLACK_SCHOLES", "GELU_BIAS"),
    "fuse_passes": ("SOFTMAX_INT", "SOFTMAX_ROWS", "SOFTMAX_OLD_C", "CHAIN", "WORK_ARRAY", "WORK_ARRAY_IN_ROWS"),
    "interchange": ("MATMUL", "MATMUL_BIAS_DOUBLE", "COLUMN_SUM", "COLUMN_MAX", "COLUMN_WALK", "MATMUL_IN_PLACE_SUM",
                    "MATMUL_MACROS", "COLUMN_SUM_OLD_C", "CONVOLUTION_NCHW", "TRIANGULAR_SOLVE", "EMBEDDING_BAG"),
    "tile": ("TRANSPOSE", "TRANSPOSE_BRACES", "BATCHED_TRANSPOSE", "PERMUTE"),
    "register_tile": ("PRODUCT_TRANSPOSED", "DISTANCES", "SYRK", "ATTENTION", "LINEAR_RELU"),
    "unroll_accumulators": ("SOFTMAX_INT", "RMSNORM", "DOT"),
    "simd_reduction": ("SOFTMAX_INT", "SOFTMAX_ROWS", "LAYERNORM", "RMSNORM", "DOT", "LOG_SOFTMAX", "COMPLEX_CHAIN"),
    "simd_loop": ("SOFTMAX_INT", "CHAIN", "GELU", "STENCIL", "CLAMP"),
    "parallel_outer": ("SOFTMAX_INT", "SOFTMAX_ROWS", "SOFTMAX_OLD_C", "LAYERNORM", "RMSNORM", "CHAIN", "GELU", "CLAMP", "ROW_SUM",
                       "COLUMN_SUM", "COLUMN_MAX", "TRANSPOSE", "TRANSPOSE_BRACES", "BATCHED_TRANSPOSE", "MATMUL", "MATMUL_BIAS_DOUBLE",
                       "STENCIL", "COLUMN_WALK", "DOT", "JACOBI", "GELU_PORT", "LOG_SUM_EXP", "BATCHED_MATVEC", "ATTENTION",
                       "SMOOTH_ROWS", "CONVOLUTION_NCHW", "PADDED_CONVOLUTION", "LOG_SOFTMAX", "SILU_WALK",
                       "RMS_ACCUMULATE", "DISTANCE_TEMPLATE", "CROSS_ENTROPY", "CAUSAL_SOFTMAX", "SOFTMAX_ALGORITHMS", "POINTER_WALK"),
}  # fmt: skip
TOLERANCE = 5e-6


def test_every_recipe_is_tried_on_foreign_source() -> None:
    assert set(SITES) == {name for name in RECIPES if recipe(name).language == "cpp"}
    assert all(len(names) >= 2 for names in SITES.values())


@pytest.mark.parametrize("name", sorted(SITES))
def test_recipe_keeps_the_result(name: str, tmp_path: Path) -> None:
    made = recipe(name)
    pairs = []
    for kernel in SITES[name]:
        given = {**KERNELS, **foreign.DEPENDENT, **foreign.SCATTERED}[kernel]
        edited = made.edit(given.source, {})
        assert edited != given.source, f"{name} finds no place in {kernel}"
        assert made.edit(edited, {}) == edited, f"{name} is not idempotent on {kernel}"
        one = build(given.source, tmp_path, f"{kernel}_before")
        pairs.append([str(one), str(build(edited, tmp_path, f"{kernel}_after")), list(given.arguments)])
    errors = compare(pairs, tmp_path)
    assert dict(zip(SITES[name], errors, strict=True)) == pytest.approx(dict.fromkeys(SITES[name], 0.0), abs=TOLERANCE)


@pytest.mark.parametrize("kernel", SITES["register_tile"])
def test_a_product_that_was_vectorised_before_is_tiled_all_the_same(kernel: str, tmp_path: Path) -> None:
    """Which of the two a plan takes first must not decide whether the other follows."""
    given, tiled = KERNELS[kernel], recipe("register_tile")
    source = recipe("parallel_outer").edit(recipe("simd_reduction").edit(given.source, {}), {})
    assert "#pragma omp simd reduction" in source
    edited = tiled.edit(source, {})
    assert edited != source and tiled.edit(edited, {}) == edited
    before, after = (build(text, tmp_path, tag) for text, tag in ((given.source, "before"), (edited, "after")))
    assert compare([[str(before), str(after), list(given.arguments)]], tmp_path)[0] < TOLERANCE


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_all_recipes_together_keep_the_result(kernel: str, tmp_path: Path) -> None:
    given = KERNELS[kernel]
    source = given.source
    for name in RECIPES:
        if name != "unroll_accumulators":
            source = recipe(name).edit(source, {})
    assert "#pragma omp parallel for" in source
    before, after = (build(text, tmp_path, tag) for text, tag in ((given.source, "before"), (source, "after")))
    assert compare([[str(before), str(after), list(given.arguments)]], tmp_path)[0] < TOLERANCE


@pytest.mark.parametrize("kernel", sorted(foreign.DEPENDENT))
def test_dependent_loops_are_left_in_order(kernel: str, tmp_path: Path) -> None:
    given = foreign.DEPENDENT[kernel]
    for name in ("parallel_outer", "interchange", "tile"):
        assert recipe(name).edit(given.source, {}) == given.source, name
    source = given.source
    for name in RECIPES:
        source = recipe(name).edit(source, {})
    before, after = (build(text, tmp_path, tag) for text, tag in ((given.source, "before"), (source, "after")))
    assert compare([[str(before), str(after), list(given.arguments)]], tmp_path)[0] < TOLERANCE


@pytest.mark.parametrize("kernel", sorted(foreign.SCATTERED))
def test_threads_scatter_into_copies_only(kernel: str, tmp_path: Path) -> None:
    given = foreign.SCATTERED[kernel]
    source = given.source
    for name in RECIPES:
        source = recipe(name).edit(source, {})
    assert "#pragma omp critical" in source
    before, after = (build(text, tmp_path, tag) for text, tag in ((given.source, "before"), (source, "after")))
    assert compare([[str(before), str(after), list(given.arguments)]], tmp_path)[0] < TOLERANCE


@pytest.mark.parametrize("name", sorted(SITES))
@pytest.mark.parametrize(
    "source",
    [
        "",
        "int main() { return 0; }",
        'extern "C" void solve(float* x, int n) { for (int i = 0; i < n; ',
        "template <class T> void solve(T* x, int n) { for (int i = 0; i < n; ++i) x[i] = T(1); }",
        'extern "C" void solve(float* x, int n) { while (*x > 0) { *x++ = 0; } }',
    ],
)
def test_source_without_a_place_is_unchanged(name: str, source: str) -> None:
    made = recipe(name)
    edited = made.edit(source, {})
    assert edited == source or (name == "restrict_pointers" and not Unit(edited).broken)


def test_knobs_are_rendered_and_searched() -> None:
    source = foreign.TRANSPOSE.source
    made = recipe("tile")
    first = made.edit(source, {"TILE": "16"})
    assert "= 16;" in first
    assert made.edit(first, {"TILE": "64"}) == first.replace("= 16;", "= 64;")
    parallel = recipe("parallel_outer")
    threads = parallel.edit(source, {"SCHEDULE": "dynamic"})
    assert "schedule(dynamic)" in threads
    assert "schedule(static)" in parallel.edit(threads, {"SCHEDULE": "static"})


@pytest.mark.parametrize(
    ("kernel", "work"),
    [
        ("LOG_SUM_EXP", "1LL * batch * classes"),
        ("BATCHED_MATVEC", "1LL * nb * m * n"),
        ("SOFTMAX_INT", "1LL * M * N"),
        ("GELU_PORT", "1LL * grid * BLOCK"),
    ],
)
def test_the_guard_of_threads_counts_the_loops_of_helpers(kernel: str, work: str) -> None:
    assert f"if ({work} >= " in recipe("parallel_outer").edit(KERNELS[kernel].source, {})


def test_threads_are_woken_for_less_where_iterations_are_heavy() -> None:
    head = 'float heavy(float v) { return std::log(v) + 1; } extern "C" void solve(const float* x, float* y, int n) { '
    for value, least in (("x[i] * 2", 1 << 18), ("std::sqrt(x[i])", 1 << 18), ("expf(x[i])", 1 << 16), ("heavy(x[i])", 1 << 16)):
        source = f"#include <cmath>\n{head}for (int i = 0; i < n; ++i) y[i] = {value}; }}"
        assert f"if (1LL * n >= {least}) {{" in recipe("parallel_outer").edit(source, {}), value
    source = f"#include <cmath>\n{head}for (int i = 0; i < n; ++i) y[i] = std::exp(x[i]); }}"
    assert f" >= {1 << 16})" in recipe("parallel_outer").edit(recipe("vector_exp").edit(source, {}), {})


def test_a_work_array_is_gone_where_each_iteration_fills_its_own_element() -> None:
    for kernel in ("WORK_ARRAY", "WORK_ARRAY_IN_ROWS"):
        edited = recipe("fuse_passes").edit(KERNELS[kernel].source, {})
        assert "vector<float>" not in edited and "[64]" not in edited, edited


def test_a_length_that_cannot_be_named_outside_counts_as_typical() -> None:
    source = 'extern "C" void solve(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) { const int width = n / 2; '
    source += "float s = 0; for (int k = 0; k < width; ++k) s += x[k]; y[i] = s; } }"
    assert "if (1LL * n * 8 >= " in recipe("parallel_outer").edit(source, {})


def test_a_loop_that_branches_on_its_border_gets_no_lanes() -> None:
    made = recipe("simd_loop")
    assert made.edit(foreign.JACOBI.source, {}) == foreign.JACOBI.source
    assert made.applies(foreign.STENCIL.source)


@pytest.mark.parametrize("name", ["tile", "interchange", "unroll_accumulators", "vector_exp", "parallel_outer"])
def test_knobs_in_place_are_read_back_and_set_as_if_written_so(name: str) -> None:
    made = recipe(name)
    for kernel in SITES[name]:
        source = KERNELS[kernel].source
        best = {knob: values[0] for knob, values in made.knobs.items()}
        first = made.edit(source, best)
        now = made.present(first)
        assert now.items() <= best.items()
        assert made.present(source) == {}
        for knob in now:
            for value in made.knobs[knob][1:]:
                other = made.retune(first, {knob: value})
                assert made.present(other)[knob] == value
                assert value == "1" or other == made.edit(source, {**best, knob: value})


def test_composed_softmax_is_vector_code_on_all_cores(tmp_path: Path) -> None:
    import subprocess

    source = foreign.SOFTMAX_INT.source
    for name in ("branch_to_select", "vector_exp", "fuse_passes", "hoist_invariants", "simd_reduction", "simd_loop", "parallel_outer"):
        source = recipe(name).edit(source, {})
    library = build(source, tmp_path, "softmax")
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(library)], capture_output=True, text=True, check=True).stdout
    assert "GOMP_parallel" in code
    assert "expf" not in code
    packed = [word for word in ("mulps", "fmadd", "maxps", "addps", "fmla", "fmul") if word in code]
    assert len(packed) >= 2


@pytest.mark.parametrize(
    ("kernel", "lanes"),
    [
        ("PAIR_FORCES", "#pragma omp simd reduction(+:kw_sum_1) reduction(+:kw_sum_2) reduction(+:kw_sum_3)"),
        ("PAIR_FORCES_METHODS", "#pragma omp simd reduction(+:kw_sum_x_1)"),
        ("COMPLEX_CHAIN", "#pragma omp simd reduction(+:kw_total_re_1) reduction(+:kw_total_im_1)"),
        ("MAX_POOL", "best_lanes["),
        ("MEAN_POOL", "sum_lanes["),
    ],
)
def test_small_structs_and_functions_with_windows_come_to_lanes(kernel: str, lanes: str) -> None:
    source = KERNELS[kernel].source
    for name in ("split_borders", "branch_to_select", "interchange", "simd_reduction"):
        source = recipe(name).edit(source, {})
    assert lanes in source
