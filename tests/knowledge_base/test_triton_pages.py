"""What the Triton method pages claim is tried: their kernels pass the screen, compile for sm_90 and show the promised instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from agents.models.playbook.base import RECIPES, recipe
from knowledge_base.artifacts import Page
from knowledge_base.wiki import Wiki
from tools import mechanism
from tools.artifacts import Candidate, Task, Workload
from tools.executors.local import Local
from tools.languages.triton import Triton
from tools.records import Blobs
from tools.screen import screen

pytest.importorskip("triton")
PAGES = [page for page in Wiki.open().pages if page.head.type == "method" and "triton" in page.head.languages]
MATRIX = 'x = torch.randn(d["M"], d["N"]); return {"x": x, '
INPUTS = {
    "triton-online-softmax": MATRIX + '"out": torch.empty(d["M"]), "M": d["M"], "N": d["N"]}',
    "triton-launch": MATRIX + '"out": torch.empty(d["M"]), "M": d["M"], "N": d["N"]}',
    "triton-single-pass": MATRIX + '"out": torch.empty_like(x), "M": d["M"], "N": d["N"]}',
    "triton-cache-hints": MATRIX + '"weight": x[0].clone(), "out": torch.empty_like(x), "M": d["M"], "N": d["N"]}',
    "triton-group-swizzle": MATRIX + '"y": torch.empty_like(x), "rows": d["M"], "columns": d["N"]}',
    "triton-tiles": "h = lambda: torch.zeros(256, 256).half(); n = 256; "
    'return {"a": h(), "b": h(), "c": h(), "rows": n, "columns": n, "depth": n}',
}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Local, Blobs]]:
    folder = tmp_path_factory.mktemp("pages")
    blobs = Blobs(folder / "blobs")
    with Local(blobs, folder / "scratch") as executor:
        yield executor, blobs


def block(page: Page) -> str:
    found = re.findall(r"^```python triton\n(.*?)^```", page.body, flags=re.DOTALL | re.MULTILINE)
    assert len(found) == 1, page.path
    return str(found[0])


def listing(source: str, page: Page, beside: tuple[Local, Blobs]) -> str:
    executor, blobs = beside
    reference = f"import torch\n\n\ndef make_inputs(d, seed):\n    {INPUTS[page.head.id]}\n"
    task = Task(
        name="page",
        language="triton",
        arguments=(),
        reference=reference,
        workloads=(Workload(name="w", dims={"M": 64, "N": 1024}),),
        build_flags=("--target=sm_90",),
    )
    language = Triton()
    candidate = Candidate(language="triton", files={"kernel.py": source})
    library = language.built(executor.run(language.build(task, candidate, blobs)))
    assert library is not None, page.path
    finished = executor.run(language.disassemble(library, blobs, task))
    assert "compiled 1" in blobs.text(finished.files["stdout.txt"])
    return blobs.text(finished.files["assembly.txt"])


def test_each_recipe_has_one_page_with_its_knobs() -> None:
    assert sorted(p.head.recipe or "" for p in PAGES) == sorted(name for name in RECIPES if recipe(name).language == "triton")
    for page in PAGES:
        made = recipe(page.head.recipe or "")
        assert {name: tuple(map(str, values)) for name, values in page.head.knobs.items()} == dict(made.knobs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.head.id)
def test_the_code_of_a_page_compiles_and_shows_its_signature(page: Page, beside: tuple[Local, Blobs]) -> None:
    source = block(page)
    assert screen(source, "triton") == ()
    text = listing(source, page, beside)
    if page.head.signature:
        assert mechanism.check(text, "sm_90", page.head.signature).present
        plain = source.replace(', eviction_policy="evict_first"', "").replace(', eviction_policy="evict_last"', "")
        plain = plain.replace("128, 128, 64", "32, 32, 32")
        assert mechanism.check(listing(plain, page, beside), "sm_90", page.head.signature).present is False
