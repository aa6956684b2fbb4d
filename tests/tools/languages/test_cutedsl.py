"""CuTe DSL as a language: what is recognised, what the screen lets pass, whose the executed kernels are, and what
the wheel compiles."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.support import BARE
from tools.artifacts import Candidate
from tools.errors import SettingsError
from tools.harness.measurement import kernel_trace
from tools.judge.build import KernelBuilder
from tools.languages.cutedsl import CuteDsl
from tools.profilers import sass
from tools.screen.screen import screen
from tools.tasks import loader
from tools.tasks.task_handle import open_machine

ROOT = Path(__file__).parents[3]
TASK = ROOT / "configs" / "tasks" / "cutedsl-swiglu"
KERNEL = (TASK / "kernel.py").read_text()
TENSORS = ("gate", "up", "out")
WHEEL = importlib.util.find_spec("cutlass") is not None


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("a.py", KERNEL, "cutedsl"),
        ("a.py", "import triton\n# import cutlass\n", "triton"),
        ("a.cu", "#include <cute/tensor.hpp>\n", "cutlass"),
        ("a.cu", '#  include "cutlass/cutlass.h"\n', "cutlass"),
        ("a.cu", "#include <cuda_fp16.h>\n", "cuda"),
    ],
)
def test_files_that_share_a_suffix_are_told_apart_by_what_they_import(
    tmp_path: Path, name: str, text: str, language: str
) -> None:
    (tmp_path / name).write_text(text)
    assert loader.detect_language(tmp_path / name).name == language


CALL = "compiled(M * N)(*[from_dlpack(t.view(-1), assumed_align=16) for t in (gate, up, out)])"
FLAT = "flat = make_fake_compact_tensor(cutlass.BFloat16, (n,), assumed_align=16)"
HELPER = """@cute.jit
def helper(x: cute.Tensor, i: cutlass.Int32) -> cutlass.Float32:
    memory = cutlass.utils.SmemAllocator()
    row = memory.allocate_tensor(cutlass.Float32, cute.make_layout((32, 4)), byte_alignment=16)
    row[i, 0] = cute.arch.shuffle_sync_bfly(x[i], offset=1)
    cute.arch.sync_threads()
    for k in cutlass.range_constexpr(4):
        row[i, k] += cute.math.exp2(x[i], fastmath=True)
    with cute.arch.elect_one():
        row[0, 0] = x.load().reduce(cute.ReductionOp.ADD, 0.0, 0)
    return row[i, 0]


"""
HONEST = {
    "the example": (CALL, CALL),
    "a compiled kernel with a name": (CALL, f"fast = compiled(M * N)\n    {CALL.replace('compiled(M * N)', 'fast')}"),
    "options": ("flat, flat, flat)", 'flat, flat, flat, options="--opt-level 3 --enable-tvm-ffi")'),
    "lru_cache": ("@functools.cache", "@functools.lru_cache(maxsize=None)"),
    "dynamic sizes": ("(n,)", "(cute.sym_int(divisibility=8),)"),
    "scratch": (CALL, f"scratch = torch.empty_like(out)\n    {CALL}"),
    "helpers, shared memory, and elements written in place": ("@cute.kernel\n", f"{HELPER}@cute.kernel\n"),
}
CHEATS = {
    "compiled at each call": (
        CALL,
        "cute.compile(swiglu, from_dlpack(gate), from_dlpack(up), from_dlpack(out))",
        "compiles in every call",
    ),
    "results kept": (FLAT, f"kept = torch.empty(n)\n    {FLAT}", "its cache would keep the result"),
    "a cache of results": (
        "return cute.compile(swiglu, flat, flat, flat)",
        "return flat",
        "keeps a value other than a compiled kernel",
    ),
    "one that returns early": (
        FLAT,
        f"if n:\n        return None\n    {FLAT}",
        "keeps a value other than a compiled kernel",
    ),
    "a cache by tensor": (CALL, "compiled(gate)(gate, up, out)", "is given a tensor"),
    "files": (
        "flat, flat, flat)",
        'flat, flat, flat, options="--dump-dir /tmp")',
        "is an option that a kernel may not set",
    ),
    "a clock": ("block, _, _ = cute.arch.block_idx()", "block = cute.arch.clock64()", "reads a clock"),
    "assembly": ("block, _, _ = cute.arch.block_idx()", 'block = cute.arch.inline_ptx("mov")', "is inline assembly"),
    "traced in each call": (
        CALL,
        "swiglu(from_dlpack(gate), from_dlpack(up), from_dlpack(out))",
        "from the other side",
    ),
    "torch computes": (CALL, "out.copy_(torch.nn.functional.silu(gate) * up)", "torch"),
    "a context of the host": (
        "    g = gate[at]",
        "    with torch.cuda.stream(gate):\n            g = gate[at]\n        g = gate[at]",
        "enters a context",
    ),
    "a module's dict": ("THREADS = 256", "THREADS = 256\nBUILT = {}", "container that outlives the call"),
    "another module": (
        "import functools",
        "import functools\nimport cutlass.base_dsl.dsl",
        "imports a module that a kernel may not use",
    ),
    "the compiler's insides": ("g = gate[at]", "g = cutlass._mlir.ir\n        g = gate[at]", "_mlir"),
    "a timer of the wheel": (CALL, f"cute.testing.benchmark(compiled)\n    {CALL}", "cute.testing.benchmark"),
}


@pytest.mark.parametrize("what", HONEST)
def test_what_people_write_in_cute_dsl_passes(what: str) -> None:
    before, after = HONEST[what]
    assert before in KERNEL and screen(KERNEL.replace(before, after), "cutedsl", (), TENSORS) == ()


@pytest.mark.parametrize("what", CHEATS)
def test_no_way_round_leads_out_of_a_kernel_in_cute_dsl(what: str) -> None:
    before, after, words = CHEATS[what]
    found = screen(KERNEL.replace(before, after), "cutedsl", (), TENSORS)
    assert before in KERNEL and words in " ".join(found)


SYMBOL = "kernel_cutlass_swiglu_kernel_tensorptrbf16gmemalign16o10001_tensorptrbf16gmemalign16o10001__0"
"""As the wheel's 4.3.5 and 4.8.1 write it."""


@pytest.mark.parametrize(
    ("kernels", "words"),
    [
        ([SYMBOL], None),
        ([SYMBOL, SYMBOL.replace("swiglu_kernel", "other")], "a kernel that is not its own"),
        (["void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16>"], "a kernel that is not its own"),
    ],
)
def test_kernels_in_cute_dsl_are_known_by_the_function_that_their_symbol_begins_with(
    kernels: list[str], words: str | None
) -> None:
    said = kernel_trace.complaint({"kernels": kernels, "streams": [7] * len(kernels), "stream": 7}, KERNEL)
    assert said is None if words is None else words in str(said)


def test_a_missing_wheel_is_one_sentence_that_names_it() -> None:
    with pytest.raises(SettingsError, match="pip install nvidia-cutlass-dsl"):
        CuteDsl().compiler(BARE)


@pytest.mark.slow
@pytest.mark.skipif(not WHEEL, reason="no nvidia-cutlass-dsl here")
def test_the_wheel_compiles_each_signature_without_a_gpu_and_names_the_line_of_an_error(tmp_path: Path) -> None:
    for name in ("kernel.py", "reference.py", "task.yaml"):
        (tmp_path / name).write_text(
            (TASK / name).read_text().replace('"M": 4096,', '"M": 64,').replace('"M": 1024,', '"M": 32,')
        )
    with open_machine(None) as (executor, records):
        blobs, language = records.blobs, CuteDsl()
        task = loader.load_task_folder(tmp_path, executor, blobs).task
        builds = KernelBuilder(task, language, executor, records, "")
        built = builds.read_or_build(Candidate(language="cutedsl", files={"kernel.py": KERNEL}))
        assert built.payload["ok"], built.payload["log"]
        assert "compiled 2 signatures for sm_90a" in blobs.text(built.payload["log_blob"])
        wrong = Candidate(
            language="cutedsl", files={"kernel.py": KERNEL.replace("cute.math.exp(-g)", "cute.math.exp(g, g, g, g)")}
        )
        log = builds.read_or_build(wrong).payload["log"]
        at = KERNEL[: KERNEL.index("cute.math.exp")].count("\n") + 1
        assert f"kernel.py:{at}: error" in log and "\x1b" not in log
        crashed = builds.read_or_build(
            Candidate(language="cutedsl", files={"kernel.py": f"import ctypes\nctypes.string_at(0)\n{KERNEL}"})
        )
        assert crashed.payload["ok"], "the wheel's own crash refuses no kernel"
        assert "not compiled in advance, only in the process that runs it" in blobs.text(crashed.payload["log_blob"])
        listed = executor.run(language.disassembly_job(str(built.payload["library"]), blobs, BARE, task)).files
        facts = sass.ListingFacts.model_validate_json(blobs.text(listed["facts.json"]))
        metrics, remarks = sass.examine_listing(facts, blobs.text(listed["assembly.txt"]))
    told = " ".join(remark.text for remark in remarks)
    assert facts.target == "sm_90a" and ("sass.registers" in metrics or "cuobjdump was not found" in told)
