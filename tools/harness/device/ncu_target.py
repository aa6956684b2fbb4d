"""Counts one call of a GPU kernel with Nsight Compute; its times are no measurement (the counters need the kernel run
again and again).

`ncu_target.py` starts ncu on itself and leaves report.ncu-rep, raw.csv and details.csv; `ncu_target.py launch` is the
program that ncu looks into: inputs by reference.py's make_inputs on the GPU, then the kernel (of Python, or a library),
shut in as far as ncu bears it (sandbox.json says how): two calls to compile and warm up, then the one that is counted.
"""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# For this import alone: what else lies in the job's folder, a candidate's kernel.py among it, is not to be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.device import precision
from harness.isolation import native, sandbox

SECTIONS = (
    "SpeedOfLight",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "SchedulerStats",
    "WarpStateStats",
    "Occupancy",
    "LaunchStats",
    "SourceCounters",
)
MAX_PROFILED_KERNELS = 8
"""Kernels of the one call that are looked at."""
EXPORT_S = 60
CPU_S = 600
TEMPORARY, COMPILED = "scratch", "compiled"
"""Folders in the job's: the only ones that a kernel may write to. ncu keeps its own lock files in the first."""


def load(name):
    """reference.py or kernel.py from this folder."""
    specification = importlib.util.spec_from_file_location(name, Path(f"{name}.py"))
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def prepared(program):
    """The kernel and its arguments in this process, shut in beside the tool `program` that looks into it."""
    import torch
    import triton  # noqa: F401  (what it reads is allowed by where it lies)

    asked = json.loads(Path("launch.json").read_text())
    precision.set_precision(asked["precision"])
    made = load("reference").make_inputs(asked["dims"], asked["seed"])
    tensors = {name: value.to("cuda") if isinstance(value, torch.Tensor) else value for name, value in made.items()}
    inputs = dict(tensors)
    torch.cuda.synchronize()
    shut_in(program)
    if not Path("kernel.so").exists():
        return load("kernel").run_kernel, inputs, tensors
    given = {a["name"]: native.to_c_argument(a["dtype"], inputs[a["name"]]) for a in asked["arguments"]}
    return native.Native(str(Path("kernel.so").resolve())), given, tensors


def launch():
    """Call run_kernel; only the last call lies between the marks that ncu waits for."""
    import torch

    call, inputs, _kept = prepared(json.loads(Path("launch.json").read_text())["ncu"])
    for _ in range(2):
        call(**inputs)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    call(**inputs)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def shut_in(ncu):
    """No file but what torch, Triton, the driver and ncu read, before a line of the kernel runs; how far it went to
    sandbox.json."""
    here = Path.cwd()
    readable = [str(here), sys.prefix, sys.base_prefix, str(Path(ncu).resolve().parent)]
    with Path("sandbox.json").open("w") as told:
        report = sandbox.shut_in_under_a_profiler(readable, [str(here / TEMPORARY), str(here / COMPILED)], CPU_S)
        json.dump(report, told)


def count():
    """Run ncu and export its report; exit with ncu's own status and last words when it fails."""
    asked = json.loads(Path("launch.json").read_text())
    ncu = [asked["ncu"]]
    # The clocks are left alone: they belong to whoever runs the machine.
    ncu += ["--clock-control", "none", "--profile-from-start", "off", "--launch-count", str(MAX_PROFILED_KERNELS)]
    ncu += ["--export", "report", "--force-overwrite", "--metrics", ",".join(asked["metrics"])]
    ncu += [word for section in SECTIONS for word in ("--section", section)]
    target = [sys.executable, "-I", __file__, "launch"]
    here = Path.cwd()
    for name in (TEMPORARY, COMPILED):
        (here / name).mkdir(exist_ok=True)
    os.environ |= {
        "TMPDIR": str(here / TEMPORARY),
        "TRITON_CACHE_DIR": str(here / COMPILED),
        "CUTE_DSL_DISABLE_FILE_CACHING": "1",
    }
    done = subprocess.run([*ncu, *target], capture_output=True, text=True, check=False)
    if "Failed to find metric" in done.stdout + done.stderr:
        # Another version of ncu knows other names; its sections are there all the same.
        at = ncu.index("--metrics")
        done = subprocess.run([*ncu[:at], *ncu[at + 2 :], *target], capture_output=True, text=True, check=False)
    if done.returncode or not Path("report.ncu-rep").is_file():
        sys.stderr.write((done.stdout + done.stderr)[-4000:])
        sys.exit(done.returncode or 1)
    with ThreadPoolExecutor() as side_by_side:
        list(side_by_side.map(functools.partial(export, asked["ncu"]), ("raw", "details")))


def export(ncu, page):
    """One page of the report to PAGE.csv."""
    argv = [ncu, "--import", "report.ncu-rep", "--csv", "--page", page]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=EXPORT_S, check=True)
    Path(f"{page}.csv").write_text(shown.stdout)


if __name__ == "__main__":
    launch() if sys.argv[1:] == ["launch"] else count()
