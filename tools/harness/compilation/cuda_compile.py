"""Compiles a CUDA kernel with nvcc for the GPU that is here, or lists the machine code of one that was compiled.

`cuda_compile.py` answers `build.json` in the job's folder: {"flags", "sources", "target", "listing", "cutlass"}. A
build leaves kernel.so, and what the compiler says (with ptxas' registers, spills and shared memory) on stderr; a
listing leaves assembly.txt and facts.json.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# For this import alone: what else lies in the job's folder is not to be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.device import cuda_attributes

DEFAULT = "sm_90"
LIBRARY = "kernel.so"
ERRORS = "launch_errors.cpp"
"""What a launch complains of (a block too large, too much shared memory) comes back only to who asks the library's
own runtime."""
ASKS = """#include <cuda_runtime_api.h>
extern "C" const char* kernelwright_error() {
  cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}
"""


def program(name: str) -> "str | None":
    """Path of one of CUDA's programs: on PATH, in CUDA_HOME, or in the wheels beside this Python; of cuobjdump also
    Triton's own."""
    packages = Path(sysconfig.get_path("purelib"))
    homes = [Path(os.environ[key]) / "bin" for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    wheels = [*sorted(packages.glob("nvidia/cu*/bin"), reverse=True), packages / "nvidia" / "cuda_nvcc" / "bin"]
    places = [*homes, Path("/usr/local/cuda/bin"), *wheels, packages / "triton" / "backends" / "nvidia" / "bin"]
    found = shutil.which(name)
    return found or next((str(place / name) for place in places if os.access(place / name, os.X_OK)), None)


def cutlass() -> Path:
    """Where CUTLASS is to be: CUTLASS_PATH, else the wheel beside this Python."""
    return Path(os.environ.get("CUTLASS_PATH") or Path(sysconfig.get_path("purelib")) / "cutlass_library" / "source")


def includes(folder: Path) -> "list[Path]":
    return [folder / "include", folder / "tools" / "util" / "include"]


def local_architecture() -> str:
    """sm_90 of the GPU that jobs run on, else the default."""
    gpu = cuda_attributes.attributes_of_job_gpu()
    return f"sm_{gpu['major']}{gpu['minor']}" if gpu else DEFAULT


def generated(target: str) -> list[str]:
    """Flags for code of one architecture: from Hopper on with the instructions that only this one has (`sm_90a`)."""
    number = re.sub(r"\D", "", target)
    number += "a" if int(number) >= 90 else ""
    return [f"-gencode=arch=compute_{number},code=sm_{number}"]


def build(request: dict) -> int:
    nvcc = program("nvcc")
    if nvcc is None:
        print("nvcc was not found on the machine that compiles", file=sys.stderr)
        return 2
    Path(ERRORS).write_text(ASKS)
    # The wheels keep libraries in lib, the toolkit in lib64, which nvcc knows by itself.
    beside = [f"-L{Path(nvcc).resolve().parents[1] / 'lib'}"]
    # As headers of the system their own warnings are left out.
    beside += [f"-isystem={folder}" for folder in (includes(cutlass()) if request.get("cutlass") else ())]
    argv = [
        nvcc,
        *request["flags"],
        *generated(request["target"] or local_architecture()),
        *beside,
        *request["sources"],
        ERRORS,
        "-o",
        LIBRARY,
    ]
    # -lineinfo writes the folder's name and the sources' times into the library: with these alike, equal sources give
    # equal bytes.
    for name in request["sources"]:
        os.utime(name, (0, 0))
    return subprocess.run(argv, check=False, env={**os.environ, "PWD": "/proc/self/cwd"}).returncode


def demangled_name(symbol: str) -> str:
    """The function's name in a mangled symbol: the last of the names that stand with their lengths before its
    parameters."""
    rest, name = re.sub(r"^_ZN?", "", symbol), symbol
    while symbol.startswith("_Z") and (length := re.match(r"\d+", rest)):
        name, rest = rest[length.end() :][: int(length[0])], rest[length.end() + int(length[0]) :]
    return name


def listing() -> int:
    cuobjdump = program("cuobjdump")
    if cuobjdump is None:
        print("cuobjdump was not found; install the wheel nvidia-cuda-cuobjdump or the CUDA toolkit", file=sys.stderr)
        return 2
    text, facts = disassemble_files(cuobjdump, [Path(LIBRARY)], "solve", demangled_name)
    target = re.search(r"arch = (\w+)", dumped(cuobjdump, "-sass", Path(LIBRARY)))
    Path("assembly.txt").write_text(text)
    Path("facts.json").write_text(json.dumps({"target": target[1] if target else "", "kernels": facts}))
    return 0


def disassemble_files(cuobjdump: str, files: "list[Path]", entry: str, named) -> "tuple[str, list[dict]]":
    """Disassembly in objdump's layout under a table of kernels, and each kernel's registers, stack and shared bytes."""
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
        found = re.findall(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", part, re.M)
        name = f"{named(symbol)}_{at}"
        lines.append(f"   {at:x}:\tlaunch\tkernel <{name}>")
        code += ["", f"{'0':0>16} <{name}>:"]
        code += [
            f"   {address}:\t{mnemonic}\t{operands}{f' {guard}' if guard else ''}"
            for address, guard, mnemonic, operands in found
        ]
        counts: dict[str, int] = {}
        for _, _, mnemonic, _ in found:
            counts[mnemonic] = counts.get(mnemonic, 0) + 1
        used = usage.get(symbol, {})
        sizes = {"registers": used.get("REG", 0), "stack": used.get("STACK", 0), "shared": used.get("SHARED", 0)}
        facts.append({"kernel": named(symbol), "settings": {}, **sizes, "instructions": counts})
    return "\n".join([*lines, *code]) + "\n", facts


def dumped(cuobjdump: str, what: str, file: Path) -> str:
    beside = {**os.environ, "PATH": f"{Path(cuobjdump).parent}:{os.environ.get('PATH', '')}"}
    return subprocess.run(
        [cuobjdump, what, str(file)], capture_output=True, text=True, timeout=60, check=False, env=beside
    ).stdout


def main() -> None:
    request = json.loads(Path("build.json").read_text())
    sys.exit(listing() if request.get("listing") else build(request))


if __name__ == "__main__":
    main()
