"""What the CUDA method pages claim is tried where a CUDA compiler is: their blocks compile, and show the promised
instructions.

Nothing runs: no GPU is needed. `cuda compile sm_80 sm_90` behind the fence names the architectures, sm_80 when it names
none; as in a run, code from Hopper on is made with the instructions that only this architecture has (`sm_90a`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knowledge_base.artifacts import Page
from knowledge_base.pages.wiki import Wiki
from tests.support import run_captured
from tools.analysis import signatures
from tools.harness.compilation import cuda_compile

pytestmark = pytest.mark.slow

PAGES = [page for page in Wiki.open().pages if page.head.type == "method" and "cuda" in page.head.languages]
FENCED = re.compile(r"^```cuda compile([^\n]*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", flags=re.MULTILINE)
DEFAULT = "sm_80"
Built = tuple[str, dict[str, str]]
"""What the compiler says, nothing where all is well; architecture -> disassembly in objdump's layout, empty without
a disassembler."""
FLAGS = ("-std=c++17", "-Werror", "all-warnings", "-fatbin")
"""Host code is read and checked, but only device code is made."""
PLAIN = """
__global__ void twice(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 2.0f;
}
extern "C" void solve(const float* x, float* y, int n) { twice<<<(n + 255) / 256, 256>>>(x, y, n); }
"""


def architectures(page: Page) -> tuple[str, ...]:
    return tuple(FENCED.findall(page.body)[0][0].split()) or (DEFAULT,)


def listings(binary: Path) -> dict[str, str]:
    tool = cuda_compile.program("cuobjdump")
    if tool is None:
        return {}
    path = f"{Path(tool).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    said = run_captured([tool, "-sass", str(binary)], check=True, env={**os.environ, "PATH": path}).stdout
    found: dict[str, str] = {}
    for part in re.split(r"^\s*code for (?=sm_)", said, flags=re.MULTILINE)[1:]:
        functions = re.split(r"^\s*Function : ", part, flags=re.MULTILINE)[1:]
        names = [text.split(None, 1)[0] for text in functions]
        lines = [
            "0000000000000000 <run_kernel>:",
            *(f"   {at:x}:\tlaunch\tkernel <{name}>" for at, name in enumerate(names)),
        ]
        for name, text in zip(names, functions, strict=True):
            lines += [
                "",
                f"{'0':0>16} <{name}>:",
                *(f"   {at}:\t{what}\t{operands}" for at, what, operands in INSTRUCTION.findall(text)),
            ]
        found[part.split(None, 1)[0].removesuffix("a")] = "\n".join(lines)
    return found


def build(folder: Path, code: str, targets: tuple[str, ...], listed: bool) -> Built:
    folder.mkdir()
    (folder / "kernel.cu").write_text(code)
    wanted = [flag for sm in targets for flag in cuda_compile.generated(sm)]
    done = run_captured(
        [str(cuda_compile.program("nvcc")), *FLAGS, *wanted, "kernel.cu", "-o", "kernel.fatbin"], cwd=folder
    )
    if done.returncode:
        return done.stdout + done.stderr or "nvcc failed", {}
    return (done.stdout + done.stderr).strip(), listings(folder / "kernel.fatbin") if listed else {}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Built]:
    """Page id -> its block, compiled side by side; `plain` is a kernel that no page is about."""
    if cuda_compile.program("nvcc") is None:
        pytest.skip("no nvcc here")
    folder = tmp_path_factory.mktemp("cuda")
    wanted = {
        page.head.id: (FENCED.findall(page.body)[0][1], architectures(page), bool(page.head.signature))
        for page in PAGES
    }
    wanted["plain"] = (PLAIN, tuple(sorted({sm for page in PAGES for sm in page.head.signature})), True)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        made = pool.map(lambda item: build(folder / item[0], *item[1]), wanted.items())
        return dict(zip(wanted, made, strict=True))


def test_each_page_has_one_block_for_the_architectures_of_its_signature() -> None:
    for page in PAGES:
        assert len(FENCED.findall(page.body)) == 1, page.path
        assert not page.head.signature or set(page.head.signature) == set(architectures(page)), page.path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.head.id)
def test_the_block_compiles_and_shows_its_signature_which_a_plain_kernel_does_not(
    page: Page, built: Mapping[str, Built]
) -> None:
    log, listed = built[page.head.id]
    assert log == ""
    if page.head.signature and not listed:
        pytest.skip("compiled, but there is no cuobjdump to look for the signature")
    for architecture in page.head.signature:
        for text, present in ((listed[architecture], True), (built["plain"][1][architecture], False)):
            check = signatures.check_signature(text, architecture, page.head.signature)
            assert check.present is present, f"{page.path}: {check.pattern} on {architecture}"
