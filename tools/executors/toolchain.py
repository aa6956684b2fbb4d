"""The programs and packages beside the device, as `harness/compilation/toolchain.py` reports them."""

from __future__ import annotations

from tools.artifacts import Artifact


class Compiler(Artifact):
    """The compiler that builds a language on the machine with the device."""

    name: str
    version: str
    family: str
    """gcc | clang | nvcc | triton …: determines the syntax of flags and remarks."""
    argv: tuple[str, ...]
    """Command that starts the compiler."""

    def __str__(self) -> str:
        """Return name and version; some compilers begin their version with their name, which is not repeated."""
        return self.version if self.version.startswith(self.name) else f"{self.name} {self.version}"


class Toolchain(Artifact):
    """What is installed on the machine with the device; one job asks for it."""

    system: str
    """Operating system with release and machine."""
    python: str
    """Version of the harness's interpreter."""
    packages: dict[str, str]
    """Package -> version, of torch, triton and others that the harness imports; those that are missing are absent."""
    torch_cuda: str
    """Version of CUDA that torch was built for; empty: none."""
    programs: dict[str, str]
    """Program -> the line of its output that names its version; those that are missing are absent."""
    counters_need_root: bool
    """Whether the driver lets only root read counters, and jobs run as another user."""
    cxx_argv: tuple[str, ...]
    """Command of the C++ compiler; empty: there is none."""
    cxx_version: str
    """Empty: the compiler in $CXX does not answer."""
    cxx_flags: tuple[str, ...]
    """Default optimisation flags with which this compiler builds a program that runs; empty: there are none."""
    cxx_threads: int
    """Threads of a program that it builds with OpenMP; 0: OpenMP does not work."""
    cxx_float16: bool
    """Whether the C++ compiler has _Float16."""
    cutlass: str
    """Version of CUTLASS' headers with a hash of their contents; empty: there are none."""
    cutlass_folder: str
    """Folder in which CUTLASS was looked for."""
