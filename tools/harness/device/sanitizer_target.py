"""Looks at one call of a GPU kernel with compute-sanitizer's four tools, side by side, and leaves what they wrote in
sanitizers.json.

`sanitizer_target.py` starts them on itself; `sanitizer_target.py launch PROGRAM` is what they look into: arguments and
confinement as under the profiler, one call. Allocations are the driver's own, one a tensor, so that what lies beside
one is nobody's.
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

# For this import alone: what else lies in the job's folder, a candidate's kernel.py among it, is not to be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.device import ncu_target

NAME = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
MAX_LOG_BYTES = 64 << 10
"""Characters of a tool's words that are kept."""


def launch(program):
    import torch

    call, inputs, _kept = ncu_target.prepared(program)
    call(**inputs)
    torch.cuda.synchronize()


def run_tool(program, tool, limit_s):
    """What one tool wrote, with its exit status: {text, exit, said}; exit None: it took too long."""
    log = Path(f"{tool}.log")
    # A launch that is wrong by its arguments is told by the judge; here it would be counted as a fault of memory.
    asked = ["--tool", tool, "--log-file", str(log), "--print-limit", "20", "--show-backtrace", "no"]
    asked += ["--report-api-errors", "no"] if tool == "memcheck" else []
    try:
        target = [sys.executable, "-I", __file__, "launch", program]
        done = subprocess.run([program, *asked, *target], capture_output=True, text=True, timeout=limit_s, check=False)
        ended, said = done.returncode, (done.stdout + done.stderr)[-600:]
    except subprocess.TimeoutExpired:
        ended, said = None, f"it did not end within {limit_s:g} s"
    return {
        "text": log.read_text(errors="replace")[:MAX_LOG_BYTES] if log.is_file() else "",
        "exit": ended,
        "said": said,
    }


def main():
    asked, begun = json.loads(Path("launch.json").read_text()), time.perf_counter()
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
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
        with ThreadPoolExecutor() as side_by_side:
            # Most of a look is the import of torch, and on a small workload the device has room for all four.
            seen = list(side_by_side.map(lambda tool: run_tool(program, tool, asked["limit_s"]), TOOLS))
        version = re.search(r"Version ([\d.]+)", told)
        answer = {"version": version[1] if version else "", "tools": dict(zip(TOOLS, seen, strict=True))}
    Path("sanitizers.json").write_text(json.dumps(answer | {"seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    launch(sys.argv[2]) if sys.argv[1:2] == ["launch"] else main()
