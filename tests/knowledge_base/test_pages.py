"""What the bundled pages claim is tried: their code compiles, shows the promised instructions and computes what it
says."""

import ctypes
import json
import platform
import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.models.playbook.recipe import RECIPES, load_recipe
from knowledge_base.artifacts import Page
from knowledge_base.pages.wiki import Wiki, table_rows
from knowledge_base.specs.lint import CODE, lint_wiki
from tests.support import run_captured
from tools.analysis import rules, signatures

WIKI = Wiki.open()
ALL_METHODS = [page for page in WIKI.pages if page.head.type == "method"]
METHODS = [page for page in ALL_METHODS if "cpp" in page.head.languages]
SKILLS = [page for page in WIKI.pages if page.head.type == "skill"]
RULES = rules.load_rules()
SECTIONS = {
    "method": ["What", "When it pays", "How", "When it is legal", "Pitfalls", "How to verify"],
    "skill": ["Signal", "Causes", "Fixes", "Anti-patterns", "How to verify"],
}
ELSEWHERE = {"register_spill": "register_spill", "narrow_accesses": "narrow_loads"}
"""What the labels of planted bottlenecks call a rule -> its id."""
LABELS = Path(__file__).parents[1] / "tools" / "fixtures" / "ncu" / "labels.json"
BLOCKS = [
    (page, code)
    for page in WIKI.pages
    for code in re.findall(r"^```cpp compile\n(.*?)^```", page.body, flags=re.DOTALL | re.MULTILINE)
]
CODE_OF = {page.head.id: code for page, code in BLOCKS}
FLAGS = ("-O3", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
PLAIN = """
extern "C" void solve(const float* x, float* y, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) { sum += x[i]; y[i] = x[i] * 2.0f + sum; }
}
"""


def build(folder: Path, code: str, *flags: str) -> Path:
    (folder / "kernel.cpp").write_text(code)
    done = run_captured(["g++", *FLAGS, *flags, "kernel.cpp", "-o", "kernel.so"], cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "kernel.so"


def solve(library: Path, *arguments: Any) -> None:
    """Calls the block with pointers, floats and ints as C has them."""

    def passed(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(value.ctypes.data)
        return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int(value)

    ctypes.CDLL(str(library)).solve(*map(passed, arguments))


def shows(library: Path, page: Page) -> bool | None:
    command = ["objdump", "-d", "--no-show-raw-insn", str(library)]
    done = run_captured(command, check=True)
    return signatures.check_signature(done.stdout, platform.machine(), page.head.signature).present


def test_the_bundled_wiki_passes_its_lint():
    assert [str(problem) for problem in lint_wiki(WIKI, frozenset(rule.id for rule in RULES))] == []


def test_every_guide_and_operator_is_reached_from_the_first_page():
    reached, ahead = set(), ["README.md"]
    while ahead:
        path = ahead.pop()
        if path not in reached:
            reached.add(path)
            text = CODE.sub("", (WIKI.root / path).read_text(encoding="utf-8"))
            ahead += [
                posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
                for name in re.findall(r"\]\(([^)#:\s]+\.md)", text)
            ]
    assert {page.path for page in WIKI.pages if page.head.type in ("guide", "operator")} - reached == set()


def test_each_recipe_has_its_method_and_each_method_a_block_of_code():
    answered = sorted(page.head.recipe for page in METHODS if page.head.recipe)
    assert answered == sorted(name for name in RECIPES if load_recipe(name).language == "cpp")
    assert {page.head.id for page in METHODS} <= {page.head.id for page, _ in BLOCKS}


def test_the_page_that_a_rule_names_answers_it():
    for rule in RULES:
        page = WIKI.page(rule.page) if rule.page else None
        assert not rule.page or (page is not None and rule.id in page.head.rules), rule.id


def test_each_rule_and_each_planted_bottleneck_has_a_skill():
    assert {rule.id for rule in RULES} == {rule for page in SKILLS for rule in page.head.rules}
    planted = {ELSEWHERE.get(name, name) for names in json.loads(LABELS.read_text()).values() for name in names}
    for name in planted:
        page = WIKI.page("gpu-" + name.replace("_", "-"))
        assert page is not None and (page.head.rules[0] == name or name not in {rule.id for rule in RULES})


@pytest.mark.parametrize("page", [*ALL_METHODS, *SKILLS], ids=lambda page: page.head.id)
def test_a_page_has_the_sections_of_its_type(page: Page):
    prose = re.sub(r"^```.*?^```", "", page.body, flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^## (.*)$", prose, re.MULTILINE) == SECTIONS[page.head.type]


GPU_METHODS = [page for page in ALL_METHODS if {"cuda", "triton", "cutlass", "cutedsl"} & set(page.head.languages)]


@pytest.mark.parametrize("page", GPU_METHODS, ids=lambda page: page.head.id)
def test_a_method_for_gpus_has_a_signature_for_hopper_or_says_why_none_can_exist(page: Page):
    elsewhere = page.head.applies_to and "sm_90" not in page.head.applies_to
    verify = " ".join(page.body.partition("## How to verify\n")[2].split())
    why = re.search(r"hence no signature|No signature: ", verify)
    assert ("sm_90" in page.head.signature) != bool(elsewhere or why), "one of them, not both"


@pytest.mark.parametrize("page", SKILLS, ids=lambda page: page.head.id)
def test_a_signal_names_its_rules_and_what_each_entry_of_them_reads(page: Page):
    signal = page.body.partition("## Signal\n")[2].partition("\n## ")[0]
    named = {name.removesuffix("…") for name in re.findall(r"`([^`\n]+)`", signal)}
    assert set(page.head.rules) <= named
    metrics = {condition.metric for rule in RULES if rule.id in page.head.rules for condition in rule.when}
    quoted = {name for name in named if "." in name or "__" in name}
    assert quoted and all(any(metric.startswith(name) for metric in metrics) for name in quoted)
    assert not re.search(r"\d+ ?%|[<>]=? ?\d", signal), "thresholds stand in rules.yaml only"


@pytest.mark.parametrize("language", ["cpp", "cuda", "triton"])
def test_a_guide_leads_from_each_bottleneck_to_the_methods_that_answer_it(language: str):
    page = WIKI.page(f"{language}-by-bottleneck")
    assert page is not None
    told = {}
    for row in table_rows(page, ("bottleneck", "axis", "methods")):
        (skill,) = re.findall(r"skills/([\w-]+)\.md", row.cells["bottleneck"])
        told[skill] = re.findall(r"methods/([\w-]+)\.md", row.cells["methods"])
    known = sorted(
        (page.head for page in ALL_METHODS if language in page.head.languages),
        key=lambda head: (-head.priority, head.id),
    )
    answers = {
        skill.head.id: [head.id for head in known if set(head.rules) & set(skill.head.rules)]
        for skill in SKILLS
        if not skill.head.languages or language in skill.head.languages
    }
    assert told == {skill: methods for skill, methods in answers.items() if methods}
    assert not {head.id for head in known} - {method for methods in told.values() for method in methods}


def test_each_product_has_its_architecture():
    page = WIKI.page("platforms")
    assert page is not None
    listed = {
        name
        for row in table_rows(page, ("product", "architecture", "target"))
        for name in row.cells["product"].split(", ")
    }
    assert {page.head.applies_to[0] for page in WIKI.pages if page.head.type == "hardware" and page.head.applies_to} - {
        "CPU"
    } == listed


def test_knobs_occur_in_the_code_of_their_page():
    for page in (page for page in ALL_METHODS if "triton" not in page.head.languages):
        for knob, values in page.head.knobs.items():
            assert values and f"constexpr int {knob} = {values[0]};" in page.body


@pytest.mark.parametrize(("page", "code"), BLOCKS, ids=[page.head.id for page, _ in BLOCKS])
def test_marked_blocks_compile_and_show_their_signature_which_a_plain_loop_does_not(
    tmp_path: Path, page: Page, code: str
):
    machine = platform.machine()
    flags = ["-march=x86-64-v3"] if machine == "x86_64" else []
    library = build(tmp_path, code, *flags)
    if machine in page.head.signature and shutil.which("objdump"):
        assert shows(library, page)
        assert shows(build(tmp_path, PLAIN, "-O1", *flags), page) is False


def test_the_exponential_of_the_page_is_as_exact_as_it_says(tmp_path: Path):
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-30, -1e30, 1e30, 104.0, -104.0, 88.72, 88.73, -87.33, -103.9]
    x = np.concatenate([np.linspace(-110, 95, 400_001), special]).astype(np.float32)
    y = np.empty_like(x)
    solve(build(tmp_path, CODE_OF["vector-exp"], "-march=native"), x, y, x.size)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    assert np.array_equal(np.isnan(y), np.isnan(rounded)) and np.array_equal(np.isinf(y), np.isinf(rounded))
    finite = np.isfinite(rounded)
    ulp = np.spacing(rounded[finite]).astype(np.float64)
    assert np.max(np.abs(y[finite] - exact[finite]) / ulp) < 1.0


def computed() -> Iterator[tuple[str, tuple[Any, ...], np.ndarray, float]]:
    """Page, arguments of `solve`, what the array behind the inputs must hold, and how far off it may be."""
    draw = np.random.default_rng(5)

    def inputs(*shape: int) -> np.ndarray:
        return draw.standard_normal(shape).astype(np.float32)

    def out(*shape: int) -> np.ndarray:
        return np.full(shape, np.nan, np.float32)

    for skip in range(4):
        x = inputs(1003)
        yield "streaming-stores", (x, out(1003)[skip:], x.size - skip, 3.0), np.float32(3.0) * x[: x.size - skip], 0
    for m, n, k in ((8, 32, 7), (5, 19, 33), (1, 1, 1)):
        a, b = inputs(m, k), inputs(n, k)
        yield "register-tile-product", (a, b, out(m, n), m, n, k), a.astype(np.float64) @ b.T, 1e-5
    for m, n in ((1, 1), (5, 33), (40, 16), (17, 64)):
        x = inputs(m, n)
        yield "transpose", (x, out(n, m), m, n), x.T, 0
    for m, n in ((2, 2), (3, 7), (20, 41)):
        x = inputs(m, n)
        expected = x.copy()
        expected[1:-1, 1:-1] = 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1])
        yield "stencil", (x, out(m, n), m, n), expected, 1e-6
    for n in (1, 2, 1003):
        x = inputs(n)
        yield "scan", (x, out(n), n), np.cumsum(x.astype(np.float64)), 1e-4
    for p, h, w in ((1, 2, 2), (3, 6, 10)):
        x = inputs(p, h, w)
        yield "pooling", (x, out(p, h // 2, w // 2), p, h, w), x.reshape(p, h // 2, 2, w // 2, 2).max(axis=(2, 4)), 0


def test_what_pages_compute_is_what_they_say(tmp_path: Path):
    assert {page.head.id for page, _ in BLOCKS if page.head.type == "operator"} <= {name for name, *_ in computed()}
    for name, arguments, expected, tolerance in computed():
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        library = folder / "kernel.so"
        solve(library if library.exists() else build(folder, CODE_OF[name]), *arguments)
        made = [value for value in arguments if isinstance(value, np.ndarray)][-1]
        assert np.allclose(made, expected, rtol=tolerance, atol=tolerance), (name, arguments[-2:])
