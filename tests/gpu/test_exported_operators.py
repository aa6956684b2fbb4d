"""Operators of `export --format op` on a GPU: their own test, the kernels that ran, and what a call costs besides the
launch."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from graph.export.formats import FORMATS
from tests.exported import ROOT, installed, made, passes_its_test, written
from tests.support import Beside, run_captured
from tools.errors import SettingsError
from tools.executors.toolchain_job import read_toolchain
from tools.harness.compilation.cuda_compile import local_architecture
from tools.languages.base import open_language
from tools.tasks.loader import load_task_folder

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]
PROGRAM = """
import ctypes, json, sys, time
from pathlib import Path
import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, ".")
own = __import__(sys.argv[1])
package, exported = own.EXPORTED, own.EXPORTED._exported
inputs, _ = own.judged(0, 1)
given = [inputs[name] for name in own.OUT_NAMES]
filled = exported.complete_arguments(inputs)
if exported.contract["triton"]:
    bare = lambda: package.run_kernel(**filled)
else:
    solve = ctypes.CDLL(str(next(Path(package.__file__).parent.glob("_C*.so")))).solve
    types = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}
    passed = [
        types[dtype](filled[name]) if role == "scalar" else ctypes.c_void_p(filled[name].data_ptr())
        for name, role, dtype, _ in own.ARGUMENTS
    ]
    bare = lambda: solve(*passed, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))


def microseconds(call):
    best = 1.0
    for _ in range(20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(200):
            call()
        best = min(best, (time.perf_counter() - begin) / 200)
    return best * 1e6


with torch.inference_mode():
    side = torch.cuda.Stream() if exported.contract["stream"] else torch.cuda.current_stream()
    side.wait_stream(torch.cuda.current_stream())
    own.INTO(*given)
    with profile(activities=[ProfilerActivity.CUDA]) as trace, torch.cuda.stream(side):
        own.INTO(*given)
        torch.cuda.synchronize()
    names = [event.name for event in trace.events()]
    times = [microseconds(lambda: own.INTO(*given)), microseconds(bare)]
print(json.dumps({"names": names, "times": times, "stats": package.stats()}))
"""


@pytest.mark.parametrize(
    ("task", "kernel_name", "most"),
    [
        ("cuda-rmsnorm", "rmsnorm", 1.5),
        ("cutlass-gemm", "cutlass", 1.5),
        ("triton-rmsnorm", "rmsnorm", 3.0),
        ("triton-softmax", "softmax", 3.0),
        ("cutedsl-swiglu", "swiglu", 3.0),
    ],
)
def test_the_kernel_itself_runs_and_a_call_costs_little_besides_its_launch(
    tmp_path: Path, beside: Beside, task: str, kernel_name: str, most: float
) -> None:
    loaded = load_task_folder(ROOT / "configs" / "tasks" / task, *beside)
    language, toolchain = open_language(loaded.task.language), read_toolchain(*beside)
    try:
        language.compiler(toolchain)
    except SettingsError as error:
        pytest.skip(str(error))
    source = loaded.task.baseline or ""
    kernel = made(loaded, source, language, language.flags(loaded.task, toolchain)).model_copy(
        update={"takes_stream": language.takes_stream(source), "architecture": local_architecture()}
    )
    folder = written(FORMATS["op"](kernel), tmp_path)
    place = installed(folder) if kernel.is_compiled else {**os.environ, "PYTHONPATH": str(folder / "src")}
    passes_its_test(folder, place)
    done = run_captured([sys.executable, "-c", PROGRAM, f"test_{kernel.name}"], cwd=folder, env=place)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert any(kernel_name in name for name in found["names"]), found["names"]
    assert found["stats"]["reference"] == {}, found["stats"]
    call, bare = found["times"]
    print(f"{task}: a call takes {call:.2f} us of the host, the bare launch {bare:.2f}")
    assert call - bare <= most
