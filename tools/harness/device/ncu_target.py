"""Counts one call of a GPU kernel with Nsight Compute. Its times are not measurements, because collecting the counters
needs several runs of the kernel.

`ncu_target.py` starts ncu on itself and writes report.ncu-rep, raw.csv and details.csv; of a call of several launches
also range.csv, with the counters of the whole call, or range.txt, which says why there are none. `ncu_target.py export`
writes only the pages of a report. `ncu_target.py launch` is the program that ncu profiles: it makes inputs with
reference.py's make_inputs on the GPU, confines itself as far as ncu allows (sandbox.json reports that), and calls the
kernel (a Python module or a shared object) twice to compile and warm up and once to be counted.
"""

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# For this import only: other files of the job's folder, such as a candidate's kernel.py, must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)

from harness.isolation import native, sandbox
from harness.numerics import precision

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
EXPORT_S = 120
NCU_PATHS = ("usr/local/cuda/bin/ncu", "opt/nvidia/nsight-compute/*/ncu", "usr/local/cuda/nsight-compute*/ncu")
CPU_S = 600
TEMPORARY, COMPILED = "scratch", "compiled"
"""Subfolders of the job's folder, the only ones that a kernel may write to. The first holds ncu's lock files."""


def find_ncu():
    """Return the path of ncu, on PATH or where its packages put it; None: it is not installed."""
    found = (str(path) for pattern in NCU_PATHS for path in sorted(Path("/").glob(pattern), reverse=True))
    return shutil.which("ncu") or next(found, None)


def load(name):
    """Import reference.py or kernel.py from the current folder."""
    specification = importlib.util.spec_from_file_location(name, Path(f"{name}.py"))
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def prepared(program):
    """Return the kernel, its arguments, and a function that gives its in/out arguments their content again; this
    process is then confined as far as the tool `program` allows."""
    import torch
    import triton  # noqa: F401  (the kernel may read only the folders of imported modules)

    from harness.reference import contract

    job = json.loads(Path("launch.json").read_text())
    precision.set_precision(job["precision"])
    reference = contract.Contract(Path("reference.py").read_text())
    reference.device = "cuda"
    args = reference.build(job["dims"], job["seed"], [], 0)
    inputs = {a.name: a.value for a in args}
    contents = {a["name"]: inputs[a["name"]].clone() for a in job["arguments"] if a["role"] == "inout"}

    def restore():
        for name, content in contents.items():
            tensors[name].copy_(content)

    tensors = dict(inputs)
    torch.cuda.synchronize()
    shut_in(program)
    if not Path("kernel.so").exists():
        return load("kernel").run_kernel, inputs, restore
    c_arguments = {a["name"]: native.to_c_argument(a["dtype"], inputs[a["name"]]) for a in job["arguments"]}
    return native.Native(str(Path("kernel.so").resolve())), c_arguments, restore


def launch():
    """Call the kernel; ncu profiles only the last call."""
    import torch

    call, inputs, restore = prepared(find_ncu() or "ncu")
    for _ in range(2):
        call(**inputs)
        restore()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    call(**inputs)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def shut_in(ncu):
    """Confine this process to files of torch, Triton, the driver and ncu before the kernel's code runs; write what was
    applied to sandbox.json."""
    here = Path.cwd()
    readable = [str(here), sys.prefix, sys.base_prefix, str(Path(ncu).resolve().parent)]
    with Path("sandbox.json").open("w") as file:
        report = sandbox.shut_in_under_a_profiler(readable, [str(here / TEMPORARY), str(here / COMPILED)], CPU_S)
        json.dump(report, file)


def count():
    """Run ncu and export its report; exit with ncu's status and output if it fails."""
    job = json.loads(Path("launch.json").read_text())
    program = find_ncu() or "ncu"
    ncu = [program]
    # The clocks stay unchanged, because they belong to the user of the machine.
    ncu += ["--clock-control", "none", "--profile-from-start", "off", "--launch-count", str(job["most"])]
    ncu += ["--export", "report", "--force-overwrite", "--metrics", ",".join(job["metrics"])]
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
    completed = subprocess.run([*ncu, *target], capture_output=True, text=True, check=False)
    if "Failed to find metric" in completed.stdout + completed.stderr:
        # Metric names differ between versions of ncu; its sections exist in all of them.
        position = ncu.index("--metrics")
        completed = subprocess.run(
            [*ncu[:position], *ncu[position + 2 :], *target], capture_output=True, text=True, check=False
        )
    if completed.returncode or not Path("report.ncu-rep").is_file():
        sys.stderr.write((completed.stdout + completed.stderr)[-4000:])
        sys.exit(completed.returncode or 1)
    export(program)
    # A launch has one row, behind the rows of names and units.
    if len(Path("raw.csv").read_text().strip().splitlines()) > 3:
        count_call(program, target, job["totals"])


def count_call(ncu, target, metrics):
    """Count all launches of the call as one range, in which caches keep what the launches leave in them."""
    argv = [ncu, "--clock-control", "none", "--replay-mode", "range"]
    argv += ["--export", "range", "--force-overwrite", "--metrics", ",".join(metrics)]
    try:
        completed = subprocess.run([*argv, *target], capture_output=True, text=True, check=False, timeout=EXPORT_S)
        said = completed.stdout + completed.stderr
    except subprocess.TimeoutExpired:
        said = f"==ERROR== the replay took more than {EXPORT_S} s"
    if Path("range.ncu-rep").is_file():
        export_page(ncu, "raw", "range")
    else:
        Path("range.txt").write_text("\n".join(line for line in said.splitlines() if "==ERROR==" in line))


def export(ncu):
    """Export the raw and the details page of the report."""
    with ThreadPoolExecutor() as side_by_side:
        list(side_by_side.map(functools.partial(export_page, ncu), ("raw", "details")))


def export_page(ncu, page, report=""):
    """Export one page of a report, to PAGE.csv or REPORT.csv."""
    argv = [ncu, "--import", f"{report or 'report'}.ncu-rep", "--csv", "--page", page]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=EXPORT_S, check=False)
    if shown.returncode:
        sys.exit((shown.stderr or shown.stdout)[-4000:])
    Path(f"{report or page}.csv").write_text(shown.stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["export"]:
        export(find_ncu())
    else:
        launch() if sys.argv[1:] == ["launch"] else count()
