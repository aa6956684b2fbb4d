"""Checks one call of a GPU kernel with compute-sanitizer's four tools at the same time and writes their output to
sanitizers.json.

`sanitizer_target.py` starts the tools on itself. `sanitizer_target.py launch PROGRAM` is the program that they check:
arguments and confinement as under the profiler, one call. Each tensor is an allocation of the driver, so that the bytes
beside it belong to nothing else.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# For this import only: other files of the job's folder, such as a candidate's kernel.py, must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.device import ncu_target

NAME = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
MAX_LOG_BYTES = 64 << 10
"""Characters of a tool's output that are kept."""


def launch(program):
    """Call the kernel once under the tool `program`."""
    import torch

    call, inputs, _restore = ncu_target.prepared(program)
    call(**inputs)
    torch.cuda.synchronize()


def run_tool(program, tool, limit_s):
    """Run one tool and return {text, exit, said}: its log, its exit status (None after a timeout), and the end of its
    output."""
    log = Path(f"{tool}.log")
    # The judge reports a launch with wrong arguments; here it would count as a memory error.
    options = ["--tool", tool, "--log-file", str(log), "--print-limit", "20", "--show-backtrace", "no"]
    options += ["--report-api-errors", "no"] if tool == "memcheck" else []
    try:
        target = [sys.executable, "-I", __file__, "launch", program]
        completed = subprocess.run(
            [program, *options, *target], capture_output=True, text=True, timeout=limit_s, check=False
        )
        exit_status, output = completed.returncode, (completed.stdout + completed.stderr)[-600:]
    except subprocess.TimeoutExpired:
        exit_status, output = None, f"it did not end within {limit_s:g} s"
    return {
        "text": log.read_text(errors="replace")[:MAX_LOG_BYTES] if log.is_file() else "",
        "exit": exit_status,
        "said": output,
    }


def main():
    job, start = json.loads(Path("launch.json").read_text()), time.perf_counter()
    homes = [Path(os.environ[key]) / "bin" for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    program = shutil.which(
        NAME, path=os.pathsep.join(map(str, (os.environ.get("PATH", os.defpath), *homes, "/usr/local/cuda/bin")))
    )
    if program is None:
        answer = {"missing": f"{NAME} was not found; it comes with the CUDA toolkit"}
    else:
        for name in (ncu_target.TEMPORARY, ncu_target.COMPILED):
            Path(name).mkdir(exist_ok=True)
        here = Path.cwd()
        os.environ |= {"TMPDIR": str(here / ncu_target.TEMPORARY), "TRITON_CACHE_DIR": str(here / ncu_target.COMPILED)}
        os.environ |= {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUTE_DSL_DISABLE_FILE_CACHING": "1"}
        version_text = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=60, check=False
        ).stdout
        with ThreadPoolExecutor() as side_by_side:
            # Importing torch takes most of the time, and a small workload leaves room on the device for all four tools.
            results = list(side_by_side.map(lambda tool: run_tool(program, tool, job["limit_s"]), TOOLS))
        version = re.search(r"Version ([\d.]+)", version_text)
        answer = {"version": version[1] if version else "", "tools": dict(zip(TOOLS, results, strict=True))}
    Path("sanitizers.json").write_text(json.dumps(answer | {"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    launch(sys.argv[2]) if sys.argv[1:2] == ["launch"] else main()
