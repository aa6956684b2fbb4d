"""What the Triton method pages claim is tried: their kernels pass the screen, compute what they say, and show the
promised instructions.

They run in Triton's interpreter and are compiled for sm_90, both without a GPU.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from knowledge_base.artifacts import Page
from knowledge_base.pages.wiki import Wiki
from tests.support import BARE, Beside
from tools.analysis import signatures
from tools.artifacts import Argument, DType, Task, Workload
from tools.languages.triton import Triton
from tools.screen.screen import screen

pytestmark = pytest.mark.slow

pytest.importorskip("triton")
PAGES = [
    page
    for page in Wiki.open().pages
    if page.head.type == "method" and "triton" in page.head.languages and "cpp" not in page.head.languages
]
"""Those of Triton alone: a page of several languages shows the one that a CPU can check."""


class Case(NamedTuple):
    """One page's block as a task."""

    inputs: str
    """Body of make_inputs(d), d the dims M and N."""
    result: str
    """What the output must be, over the inputs as the dict `a`."""
    output: str = "out"
    dtype: DType = "float32"
    plain: dict[str, str] = {}
    """What to replace so that the signature is not shown."""
    same: bool = False
    """The block works on fixed sizes; the interpreter keeps M and N."""


MATRIX = 'x = torch.randn(d["M"], d["N"]); return {"x": x, '
ROWS = MATRIX + '"out": torch.empty(d["M"]), "M": d["M"], "N": d["N"]}'
MAP = MATRIX + '"out": torch.empty_like(x), "M": d["M"], "N": d["N"]}'
SCALED = MATRIX + '"weight": torch.randn(d["N"]), "out": torch.empty_like(x), "M": d["M"], "N": d["N"]}'
SEGMENTS = (
    'starts = 16 * torch.randperm(d["M"]); x = torch.randn(16 * d["M"] + d["N"]); '
    'return {"x": x, "starts": starts, "out": torch.empty(d["M"], d["N"]), "M": d["M"], "N": d["N"]}'
)
GATHERED = 'torch.stack([a["x"][s : s + a["N"]] for s in a["starts"].tolist()])'


def product(
    result: str = 'a["a"] @ a["b"]', more: str = "", dtype: DType = "float16", plain: dict[str, str] | None = None
) -> Case:
    inputs = (
        f'h = lambda: torch.randn(n, n).half(); n = 128; return {{"a": h(), "b": h(), {more}'
        f'"c": torch.empty(n, n, dtype=torch.{dtype}), "rows": n, "columns": n, "depth": n}}'
    )
    return Case(inputs, result, "c", dtype, plain or {}, same=True)


ADDED = 'tl.atomic_add(c + i[:, None] * columns + j[None, :], acc, mask=mask, sem="relaxed")'
SUMMED = 'tl.atomic_add(out + row, tl.sum(total, axis=0), sem="relaxed")'
DESCRIBED = {
    "left.load([top, start])": "tl.load(a + (top + tl.arange(0, M))[:, None] * depth + start + tl.arange(0, K))",
    "right.load([start, side])": "tl.load(b + (start + tl.arange(0, K))[:, None] * columns + side + tl.arange(0, N))",
}
LINES = "(i * M + tl.arange(0, M))[:, None] * columns + j * N + tl.arange(0, N)"
STORED = {"result.store([i * M, j * N], acc.to(tl.float16))": f"tl.store(c + {LINES}, acc.to(tl.float16))"}
SCALED_PRODUCT = """
    n = 128; byte = lambda low, high, *of: torch.randint(low, high, of, dtype=torch.uint8)
    return {"a": byte(0, 120, n, n), "a_scale": byte(124, 130, n, n // 32), "b": byte(0, 120, n, n), "b_scale": byte(124, 130, n, n // 32),
            "c": torch.empty(n, n), "rows": n, "columns": n, "depth": n}"""
WIDENED = (
    "*(a[x].view(torch.float8_e4m3fn).float() * torch.exp2(a[x + '_scale'] - 127.0).repeat_interleave(32, 1) "
    "for x in 'ab')"
)
GROUPED = """
    ends = [0, 5, 5, 70, 134, 200]; x = torch.randn(200, 96).half()
    return {"x": x, "weights": torch.randn(5, 96, 160).half(), "offsets": torch.tensor(ends, dtype=torch.int32),
            "out": torch.empty(200, 160), "rows": 200, "columns": 160, "depth": 96, "groups": 5}"""
UNSCALED = {
    'tl.dot_scaled(x, p, "e4m3", y, q, '
    '"e4m3", acc)': "tl.dot(x.to(tl.float8e4nv, bitcast=True), y.to(tl.float8e4nv, bitcast=True), acc)"
}
HINTS = {', eviction_policy="evict_first"': "", ', eviction_policy="evict_last"': ""}
CASES = {
    "triton-online-softmax": Case(ROWS, 'torch.logsumexp(a["x"], 1)'),
    "triton-launch": Case(ROWS, 'a["x"].sum(1)'),
    "triton-single-pass": Case(MAP, 'torch.softmax(a["x"], 1)'),
    "triton-cache-hints": Case(SCALED, 'a["x"] * a["weight"]', plain=HINTS),
    "triton-group-swizzle": Case(
        MATRIX + '"y": torch.empty_like(x), "rows": d["M"], "columns": d["N"]}', 'a["x"]', output="y"
    ),
    "triton-tiles": product(plain={"M = 128\nN = 128\nK = 64": "M = 32\nN = 32\nK = 32"}),
    "triton-split-k": product(dtype="float32", plain={ADDED: "tl.store(c + i[:, None] + j, acc)"}),
    "triton-split-reduction": Case(ROWS, 'a["x"].sum(1)', plain={SUMMED: "tl.store(out + row, tl.sum(total))"}),
    "triton-persistent": Case(
        SCALED,
        'a["x"] * torch.rsqrt((a["x"] ** 2).mean(1, keepdim=True) + 1e-6) * a["weight"]',
        plain={"tl.range(first, rows, tl.num_programs(0), num_stages=2)": "tl.range(first, first + 1)"},
    ),
    "triton-fused-epilogue": product(
        'torch.nn.functional.silu(a["a"] @ a["b"] + a["bias"])', '"bias": torch.randn(n), '
    ),
    "triton-pipelined-loop": Case(ROWS, '(a["x"] ** 2).sum(1).sqrt()', plain={", num_stages=STAGES": ", num_stages=1"}),
    "triton-alignment-hints": Case(
        SEGMENTS, GATHERED, plain={"tl.multiple_of(tl.load(starts + row), 16)": "tl.load(starts + row)"}
    ),
    "triton-tensor-descriptor": product(plain=DESCRIBED),
    "triton-persistent-product": product(plain=STORED),
    "triton-grouped-product": Case(
        GROUPED,
        'torch.cat([a["x"][s:e] @ w for s, e, w in zip(*[a["offsets"][i:].tolist() for i in (0, 1)], a["weights"])])',
        same=True,
    ),
    "triton-dot-scaled": Case(SCALED_PRODUCT, f"(lambda x, y: x @ y.T)({WIDENED})", "c", plain=UNSCALED, same=True),
    "triton-rows-per-program": Case(MAP, 'torch.softmax(a["x"], 1)'),
}


def block(page: Page) -> str:
    found = re.findall(r"^```python triton\n(.*?)^```", page.body, flags=re.DOTALL | re.MULTILINE)
    assert len(found) == 1, page.path
    return str(found[0])


def task(page: Page, columns: int) -> Task:
    case = CASES[page.head.id]
    reference = (
        f"import torch\n\noutputs = ('{case.output}',)\n\n\n"
        f"def make_inputs(d, seed):\n    torch.manual_seed(seed)\n    {case.inputs}\n\n\ndef reference(**a):\n    "
        f"return {case.result}\n"
    )
    # The interpreter makes small what shapes follow.
    shape = () if case.same else ("M", "N")
    return Task(
        name="page",
        language="triton",
        arguments=(Argument(name=case.output, role="output", dtype=case.dtype, shape=shape),),
        reference=reference,
        workloads=(Workload(name="w", dims={"M": 64, "N": columns}),),
        build_flags=("--target=sm_90",),
    )


def listing(source: str, page: Page, beside: Beside) -> str:
    executor, blobs = beside
    finished = executor.run(Triton().disassembly_job(blobs.put(source), blobs, BARE, task(page, 1024)))
    said = blobs.text(finished.files["stdout.txt"]) + blobs.text(finished.files["stderr.txt"])
    assert "compiled 1" in said, f"{page.path}: {said}"
    return blobs.text(finished.files["assembly.txt"])


def test_knobs_without_a_recipe_stand_in_the_code_with_their_best_guess() -> None:
    for page in PAGES:
        if page.head.recipe is None:
            for knob, values in page.head.knobs.items():
                assert f"\n{knob} = {values[0]}\n" in block(page), (page.path, knob)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.head.id)
def test_the_code_of_a_page_computes_what_it_says(page: Page, beside: Beside) -> None:
    executor, blobs = beside
    source = block(page)
    assert screen(source, "triton") == ()
    found = Triton().interpret(task(page, 96), source, executor, blobs)
    assert found.status == "passed", found.reason
    assert all(case.error is not None for case in found.cases)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.head.id)
def test_the_code_of_a_page_compiles_and_shows_its_signature(page: Page, beside: Beside) -> None:
    source = block(page)
    text = listing(source, page, beside)
    if page.head.signature:
        assert signatures.check_signature(text, "sm_90", page.head.signature).present
        plain = source
        for old, new in CASES[page.head.id].plain.items():
            assert old in plain
            plain = plain.replace(old, new)
        assert plain != source
        assert signatures.check_signature(listing(plain, page, beside), "sm_90", page.head.signature).present is False
