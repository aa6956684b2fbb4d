"""What listings and operator pages of the wiki say that compilers make of a construct is asked of the compilers:
nvcc, and Triton's own."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.knowledge_base.test_cuda_pages import Built, build
from tests.support import run_captured
from tools.analysis.assembly import parse_disassembly
from tools.harness.compilation import cuda_compile

pytestmark = pytest.mark.slow

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
LATER = ARCHITECTURES[1:]
CUDA = Path(__file__).with_name("cuda_claims.cu").read_text()
FLOAT4 = 'extern "C" __global__ void add_float4(float4* p, float4 v) { atomicAdd(p, v); }\n'
CLAIMS: tuple[tuple[str, tuple[str, ...], str, bool], ...] = (
    ("add_int", ("sm_80",), r"RED\.E\.ADD", True),
    ("add_int", LATER, r"REDG\.E\.ADD", True),
    ("add_float", LATER, r"REDG\.E\.ADD\.F32", True),
    ("add_used", ARCHITECTURES, r"ATOMG\.E\.ADD", True),
    ("add_half", ARCHITECTURES, r"ATOM\w*\.E\.CAS", True),
    ("add_bfloats", ("sm_80",), r"ATOM\w*\.E\.CAS", True),
    ("add_bfloats", LATER, r"ATOM\w*\.E\.CAS", False),
    ("add_float4", LATER, r"REDG\.E\.ADD\.F32x4", True),
    ("add_one_address", ARCHITECTURES, "REDUX", True),
    ("add_one_address_float", ARCHITECTURES, "C?REDUX", False),
    ("add_shared", ARCHITECTURES, r"ATOMS\.CAST\.SPIN", True),
    ("four", ARCHITECTURES, r"LDG\.E\.128", False),
    ("four_aligned", ARCHITECTURES, r"LDG\.E\.128", True),
    ("eight", ("sm_100", "sm_120"), r"LDG\.E\.ENL2\.256", True),
    ("eight", ("sm_80", "sm_90"), r"LDG\.E\.\S*256", False),
    ("wmma", ARCHITECTURES, r"HMMA\.16816", True),
    ("wmma", ("sm_90", "sm_100"), "HGMMA|UTCHMMA", False),
)
"""Kernel, architectures, what an instruction of it begins with, and whether there is one."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    if cuda_compile.program("nvcc") is None or cuda_compile.program("cuobjdump") is None:
        pytest.skip("no nvcc or no cuobjdump here")
    folder = tmp_path_factory.mktemp("claims")
    said, old = build(folder / "all", CUDA, ("sm_80",), listed=True)
    more, new = build(folder / "later", CUDA + FLOAT4, LATER, listed=True)
    return said + more, old | new


@pytest.mark.parametrize(("kernel", "architectures", "pattern", "present"), CLAIMS)
def test_nvcc_makes_of_it_what_the_wiki_says(
    kernel: str, architectures: tuple[str, ...], pattern: str, present: bool, built: Built
) -> None:
    said, listed = built
    assert said == ""
    for architecture in architectures:
        found = [i.mnemonic for i in parse_disassembly(listed[architecture])[kernel].instructions]
        assert any(re.match(pattern, name) for name in found) is present, (architecture, found)


def triton_names(kernel: Any, types: str, constants: dict[str, Any], capability: int, **options: int) -> list[str]:
    """Mnemonics of a kernel whose arguments have the `types`, all of them divisible by sixteen."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = dict(zip(kernel.arg_names, types.split(), strict=False)) | dict.fromkeys(constants, "constexpr")
    divisible = {(n,): [["tt.divisibility", 16]] for n in range(len(types.split()))}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=divisible)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    cubin = Path(triton.knobs.cache.dir) / "claim.cubin"
    cubin.write_bytes(made.asm["cubin"])
    said = run_captured([str(path / "nvdisasm"), "-c", str(cubin)], check=True).stdout
    return re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", said)


def has(names: list[str], pattern: str) -> bool:
    return any(re.match(pattern, name) for name in names)


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Triton's kernels to compile, with a cache of their own."""
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return importlib.import_module("tests.knowledge_base.triton_claims")


def test_triton_stages_of_a_launch_do_nothing_without_a_product(kernels: Any) -> None:
    launches = [
        triton_names(kernels.row_sum, "*fp32 *fp32 i32", {"STAGES": None}, 90, num_stages=n) for n in (1, 2, 3, 4)
    ]
    assert all(names == launches[0] for names in launches) and not has(launches[0], "LDGSTS")
    assert has(triton_names(kernels.row_sum, "*fp32 *fp32 i32", {"STAGES": 3}, 90), "LDGSTS")


@pytest.mark.parametrize(
    ("capability", "cheap"), [(80, r"RED\.E\.ADD"), (90, r"REDG\.E\.ADD\.F32x4"), (100, r"REDG\.E\.ADD\.F32x4")]
)
def test_triton_atomics_fence_unless_they_are_relaxed(capability: int, cheap: str, kernels: Any) -> None:
    default, relaxed = (triton_names(kernels.add, "*fp32 *fp32", {"SEM": sem}, capability) for sem in (None, "relaxed"))
    assert (
        has(default, r"MEMBAR\.ALL\.GPU")
        and has(default, "ATOMG")
        and not has(relaxed, "MEMBAR|ATOMG")
        and has(relaxed, cheap)
    )


@pytest.mark.parametrize(("kind", "turned"), [("*fp16", False), ("*fp8e4nv", True)])
def test_triton_turns_an_operand_on_hopper_only_where_it_is_narrow(kind: str, turned: bool, kernels: Any) -> None:
    rows, columns = (
        triton_names(kernels.product, f"{kind} {kind} *fp32 i32 i32", {"K_MAJOR": major}, 90) for major in (False, True)
    )
    assert has(rows, r"STS\.U8") is turned and not has(columns, r"STS\.U8|PRMT")


@pytest.mark.parametrize(("capability", "specialised"), [(90, False), (100, True)])
def test_triton_specialises_warps_on_sm_100_alone(capability: int, specialised: bool, kernels: Any) -> None:
    names = triton_names(kernels.persistent, "*fp16 *fp16 *fp16 i32 i32 i32", {}, capability, num_warps=8, num_stages=3)
    assert has(names, "USETMAXREG") is specialised and has(names, "UTMALDG")
