"""What the bundled pages claim is tried: their code compiles, shows the promised instructions and computes what it says."""

import ctypes
import platform
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from knowledge_base.artifacts import Page
from knowledge_base.lint import lint
from knowledge_base.wiki import Wiki
from tools import mechanism, rules

WIKI = Wiki.open()
ALL_METHODS = [page for page in WIKI.pages if page.head.type == "method"]
METHODS = [page for page in ALL_METHODS if "triton" not in page.head.languages]
TRITON_METHODS = [page for page in ALL_METHODS if "triton" in page.head.languages]
BLOCKS = [
    (page, code) for page in WIKI.pages for code in re.findall(r"^```cpp compile\n(.*?)^```", page.body, flags=re.DOTALL | re.MULTILINE)
]
COMPILER = shutil.which("g++")
FLAGS = ("-O3", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
RECIPES = {
    "openmp-parallel-outer": "parallel_outer",
    "simd-reduction": "simd_reduction",
    "simd-loop": "simd_loop",
    "vector-exp": "vector_exp",
    "fuse-passes": "fuse_passes",
    "loop-interchange": "interchange",
    "hoist-invariants": "hoist_invariants",
    "restrict-pointers": "restrict_pointers",
    "branch-to-select": "branch_to_select",
    "unroll-accumulators": "unroll_accumulators",
    "tile-loops": "tile",
}
PLAIN = """
extern "C" void solve(const float* x, float* y, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) { sum += x[i]; y[i] = x[i] * 2.0f + sum; }
}
"""
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no g++ here")
needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64" or shutil.which("objdump") is None, reason="needs x86-64 and objdump")


def build(folder: Path, code: str, *flags: str) -> Path:
    assert COMPILER is not None
    (folder / "kernel.cpp").write_text(code)
    done = subprocess.run([COMPILER, *FLAGS, *flags, "kernel.cpp", "-o", "kernel.so"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "kernel.so"


def shows(library: Path, page: Page) -> bool | None:
    done = subprocess.run(["objdump", "-d", library.name], cwd=library.parent, capture_output=True, text=True, check=True)
    return mechanism.check(done.stdout, platform.machine(), page.head.signature).present


def test_the_bundled_wiki_passes_its_lint():
    assert [str(problem) for problem in lint(WIKI, frozenset(rule.id for rule in rules.load()))] == []


def test_each_method_has_its_recipe_and_a_block_of_code():
    assert {page.head.id: page.head.recipe for page in METHODS} == RECIPES
    assert {page.head.id for page in METHODS} <= {page.head.id for page, _ in BLOCKS}


def test_each_rule_is_answered_by_a_page():
    answered = {rule for page in WIKI.pages for rule in page.head.rules}
    assert {rule.id for rule in rules.load()} <= answered


def test_knobs_occur_in_the_code_of_their_page():
    for page in METHODS:
        for knob, values in page.head.knobs.items():
            assert values and f"constexpr int {knob} = {values[0]};" in page.body


@needs_compiler
@pytest.mark.parametrize(("page", "code"), BLOCKS, ids=[page.head.id for page, _ in BLOCKS])
def test_marked_blocks_compile_and_show_their_signature(tmp_path: Path, page: Page, code: str):
    machine = platform.machine()
    flags = ["-march=x86-64-v3"] if machine == "x86_64" else []
    library = build(tmp_path, code, *flags)
    if machine in page.head.signature and shutil.which("objdump"):
        assert shows(library, page)


@needs_compiler
@needs_x86
@pytest.mark.parametrize("page", [page for page in METHODS if page.head.signature], ids=lambda page: page.head.id)
def test_signatures_are_absent_from_a_plain_scalar_loop(tmp_path: Path, page: Page):
    assert shows(build(tmp_path, PLAIN, "-O1", "-march=x86-64-v3"), page) is False


@needs_compiler
def test_the_exponential_of_the_page_is_as_exact_as_it_says(tmp_path: Path):
    code = next(code for page, code in BLOCKS if page.head.id == "vector-exp")
    library = ctypes.CDLL(str(build(tmp_path, code, "-march=native")))
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-30, -1e30, 1e30, 104.0, -104.0, 88.72, 88.73, -87.33, -103.9]
    x = np.concatenate([np.linspace(-110, 95, 400_001), special]).astype(np.float32)
    y = np.empty_like(x)
    library.solve(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(x.size))
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    assert np.array_equal(np.isnan(y), np.isnan(rounded))
    assert np.array_equal(np.isinf(y), np.isinf(rounded))
    finite = np.isfinite(rounded)
    ulp = np.spacing(rounded[finite]).astype(np.float64)
    assert np.max(np.abs(y[finite] - exact[finite]) / ulp) < 1.0
