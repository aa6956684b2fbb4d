"""Compiles a CUDA kernel with nvcc for the local GPU, or lists the machine code of a compiled one.

The script reads `build.json` in the job's folder: {"flags", "sources", "target", "listing", "cutlass"}. A build writes
kernel.so, and the compiler's messages (with ptxas' registers, spills and shared memory) to stderr; a listing writes
assembly.txt and facts.json.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# For this import only: other files of the job's folder must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.device import cuda_attributes

DEFAULT = "sm_90"
LIBRARY = "kernel.so"
ERRORS = "launch_errors.cpp"
"""C++ file that is linked into each kernel. Errors of a launch (a block too large, too much shared memory) are known
only to the CUDA runtime in the shared object itself."""
ASKS = """#include <cuda_runtime_api.h>
extern "C" const char* kernelwright_error() {
  cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}
"""
"""Content of the file: a function that returns the last error."""


def program(name: str) -> "str | None":
    """Return the path of one of CUDA's programs: on PATH, in CUDA_HOME, or in the wheels beside this Python; for
    cuobjdump also Triton's own."""
    packages = Path(sysconfig.get_path("purelib"))
    homes = [Path(os.environ[key]) / "bin" for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    wheels = [*sorted(packages.glob("nvidia/cu*/bin"), reverse=True), packages / "nvidia" / "cuda_nvcc" / "bin"]
    folders = [*homes, Path("/usr/local/cuda/bin"), *wheels, packages / "triton" / "backends" / "nvidia" / "bin"]
    found = shutil.which(name)
    return found or next((str(folder / name) for folder in folders if os.access(folder / name, os.X_OK)), None)


def cutlass() -> Path:
    """Return the folder of CUTLASS: CUTLASS_PATH, or the wheel beside this Python. It may not exist."""
    return Path(os.environ.get("CUTLASS_PATH") or Path(sysconfig.get_path("purelib")) / "cutlass_library" / "source")


def includes(folder: Path) -> "list[Path]":
    """Return CUTLASS's folders of headers."""
    return [folder / "include", folder / "tools" / "util" / "include"]


def local_architecture() -> str:
    """Return the architecture of the GPU that jobs run on, as "sm_90", or the default."""
    gpu = cuda_attributes.attributes_of_job_gpu()
    return f"sm_{gpu['major']}{gpu['minor']}" if gpu else DEFAULT


def generated(target: str) -> list[str]:
    """Return nvcc's flags for code of one architecture; from Hopper on with the instructions that only this one has
    (`sm_90a`)."""
    number = re.sub(r"\D", "", target)
    number += "a" if int(number) >= 90 else ""
    return [f"-gencode=arch=compute_{number},code=sm_{number}"]


def build(request: dict) -> int:
    """Compile the kernel and return nvcc's exit status, 2 if there is no nvcc."""
    nvcc = program("nvcc")
    if nvcc is None:
        print("nvcc was not found on the machine that compiles", file=sys.stderr)
        return 2
    Path(ERRORS).write_text(ASKS)
    # The wheels have their libraries in lib; the toolkit has them in lib64, which nvcc finds by itself.
    options = [f"-L{Path(nvcc).resolve().parents[1] / 'lib'}"]
    # Headers of the system give no warnings.
    options += [f"-isystem={folder}" for folder in (includes(cutlass()) if request.get("cutlass") else ())]
    argv = [
        nvcc,
        *request["flags"],
        *generated(request["target"] or local_architecture()),
        *options,
        *request["sources"],
        ERRORS,
        "-o",
        LIBRARY,
    ]
    # -lineinfo writes the folder's name and the sources' times into the shared object. With fixed ones, equal sources
    # give equal bytes.
    for name in request["sources"]:
        os.utime(name, (0, 0))
    return subprocess.run(argv, check=False, env={**os.environ, "PWD": "/proc/self/cwd"}).returncode


def demangled_name(symbol: str) -> str:
    """Return the function's name in a mangled symbol: the last of the length-prefixed names before its parameters."""
    remainder, name = re.sub(r"^_ZN?", "", symbol), symbol
    while symbol.startswith("_Z") and (length := re.match(r"\d+", remainder)):
        name, remainder = remainder[length.end() :][: int(length[0])], remainder[length.end() + int(length[0]) :]
    return name


def listing() -> int:
    """Disassemble kernel.so into assembly.txt and facts.json; return 2 if cuobjdump is missing."""
    cuobjdump = program("cuobjdump")
    if cuobjdump is None:
        print("cuobjdump was not found; install the wheel nvidia-cuda-cuobjdump or the CUDA toolkit", file=sys.stderr)
        return 2
    text, facts = disassemble_files(cuobjdump, [Path(LIBRARY)], "solve", demangled_name)
    target = re.search(r"arch = (\w+)", dumped(cuobjdump, "-sass", Path(LIBRARY)))
    Path("assembly.txt").write_text(text)
    Path("facts.json").write_text(json.dumps({"target": target[1] if target else "", "kernels": facts}))
    return 0


def disassemble_files(cuobjdump: str, files: "list[Path]", entry: str, function_name) -> "tuple[str, list[dict]]":
    """Return the disassembly in objdump's layout below a table of kernels, and each kernel's registers, stack and
    shared bytes.

    `function_name(symbol)` gives the name of a kernel's function in its source.
    """
    usage, parts = {}, []
    for file in files:
        usage |= {
            name: {word: int(value) for word, value in re.findall(r"(\w+):(\d+)", numbers)}
            for name, numbers in re.findall(r"Function (\S+?):\s+(REG:.*)", dumped(cuobjdump, "-res-usage", file))
        }
        parts += re.split(r"^\s*Function : ", dumped(cuobjdump, "-sass", file), flags=re.M)[1:]
    lines, code, facts = [f"0000000000000000 <{entry}>:"], [], []
    for at, part in enumerate(parts):
        symbol = part.split(None, 1)[0]
        instructions = re.findall(
            r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", part, re.M
        )
        name = f"{function_name(symbol)}_{at}"
        lines.append(f"   {at:x}:\tlaunch\tkernel <{name}>")
        code += ["", f"{'0':0>16} <{name}>:"]
        code += [
            f"   {address}:\t{mnemonic}\t{operands}{f' {guard}' if guard else ''}"
            for address, guard, mnemonic, operands in instructions
        ]
        counts: dict[str, int] = {}
        for _, _, mnemonic, _ in instructions:
            counts[mnemonic] = counts.get(mnemonic, 0) + 1
        usage_of_kernel = usage.get(symbol, {})
        sizes = {
            "registers": usage_of_kernel.get("REG", 0),
            "stack": usage_of_kernel.get("STACK", 0),
            "shared": usage_of_kernel.get("SHARED", 0),
        }
        facts.append({"kernel": function_name(symbol), "settings": {}, **sizes, "instructions": counts})
    return "\n".join([*lines, *code]) + "\n", facts


def dumped(cuobjdump: str, what: str, file: Path) -> str:
    """Return cuobjdump's output for a file."""
    environment = {**os.environ, "PATH": f"{Path(cuobjdump).parent}:{os.environ.get('PATH', '')}"}
    return subprocess.run(
        [cuobjdump, what, str(file)], capture_output=True, text=True, timeout=60, check=False, env=environment
    ).stdout


def main() -> None:
    request = json.loads(Path("build.json").read_text())
    sys.exit(listing() if request.get("listing") else build(request))


if __name__ == "__main__":
    main()
