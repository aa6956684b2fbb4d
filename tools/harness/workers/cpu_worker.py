"""Runs in a kernel's process from fork to end: it confines itself, loads the shared objects and calls them on request.

No answer of this process decides whether a kernel is correct. Outputs are in shared memory, where the supervisor and
the oracle read them.
"""

import base64
import contextlib
import ctypes
import mmap
import os
import resource
import socket
from pathlib import Path

from harness.isolation import ipc, sandbox
from harness.memory.host_buffers import SPAN_BUDGET

OPENMP_LIBRARIES = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so")
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MAP_SHARED, MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS, MAP_NORESERVE, MAP_POPULATE = 0x1, 0x2, 0x10, 0x20, 0x4000, 0x8000


class CpuBackend:
    """The shared objects and mappings of this process."""

    def __init__(self, stub: str, address_space: int, heap: int):
        self.address_space, self.heap = address_space, heap
        self.stub = ctypes.CDLL(stub)
        self.stub.kw_flags.restype = ctypes.c_longlong
        self.stub.kw_train.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_longlong, ctypes.c_void_p]
        self.stub.kw_watch.argtypes = self.stub.kw_scatter_noise.argtypes = [ctypes.c_void_p]
        self.arguments = b""
        self.functions: dict[str, int] = {}
        self.libraries: list[ctypes.CDLL] = []
        self.openmp = None
        self.mapped: list[tuple[int, int]] = []

    def map(self, message: dict, fds: list[int]) -> dict:
        """Map the inputs' file for reading and the outputs' file for writing, both without their gaps, and unmap the
        old ones."""
        for address, size in self.mapped:
            LIBC.munmap(address, size)
        gaps = message["gaps"]
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        reserved = sum(size for part in gaps for _, size in part)
        resource.setrlimit(resource.RLIMIT_AS, (min(self.address_space + reserved, hard), hard))
        try:
            inputs = self._map(fds[0], message["inputs"], mmap.PROT_READ, gaps[0])
            outputs = self._map(fds[1], message["outputs"], mmap.PROT_READ | mmap.PROT_WRITE, gaps[1])
        except MemoryError as error:
            return {"infra": str(error)}
        for fd in fds:
            os.close(fd)
        self.mapped = [(inputs, message["inputs"]), (outputs, message["outputs"])]
        self.stub.kw_watch(outputs)
        return {"inputs": inputs, "outputs": outputs}

    def load(self, message: dict, fds: list[int]) -> dict:
        """Load a kernel; answer the floating-point control word and the number of OpenMP threads, or an error."""
        try:
            library = ctypes.CDLL(message["path"], mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            return {"error": f"cannot be loaded: {str(error).replace(message['path'], 'the library')}"}
        try:
            self.functions[message["name"]] = ctypes.cast(library.solve, ctypes.c_void_p).value
        except AttributeError:
            return {"error": 'does not export `solve`; declare it extern "C" void solve(...)'}
        self.libraries.append(library)
        self.openmp = self.openmp or self._openmp()
        return {"flags": self.stub.kw_flags(), "omp": self._omp_threads()}

    def prepare(self, message: dict, fds: list[int]) -> dict:
        """Store the arguments of the next train, so that decoding them is not timed, and overwrite what earlier calls
        left on the stack and in freed memory."""
        self.arguments = base64.b64decode(message["args"])
        self.stub.kw_scatter_noise(self.heap)
        return {}

    def run(self, message: dict, fds: list[int]) -> dict:
        """Call the kernel in a train; answer nanoseconds, control words before and after, OpenMP threads, and the index
        of what it left behind in `trampoline.LEFT_BEHIND`. Arguments in the message replace those of `prepare`."""
        if "args" in message:
            self.arguments = base64.b64decode(message["args"])
        out = (ctypes.c_longlong * 4)()
        self.stub.kw_train(self.functions[message["fn"]], self.arguments, message["calls"], out)
        return {"ns": out[0], "before": out[1], "after": out[2], "left": out[3], "omp": self._omp_threads()}

    def _omp_threads(self) -> int:
        return self.openmp() if self.openmp else 0

    def _openmp(self):
        """Return omp_get_max_threads of the OpenMP library that is loaded, or None."""
        for name in OPENMP_LIBRARIES:
            try:
                return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW).omp_get_max_threads
            except (OSError, AttributeError):
                continue
        return None

    def _map(self, fd: int, size: int, protection: int, gaps: list[tuple[int, int]]) -> int:
        """Map a file without its gaps, which stay inaccessible, and return its address; raise MemoryError if that
        fails."""
        base = map_memory(None, size, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        position = 0
        for start, length in [*gaps, (size, 0)]:
            if start > position:
                flags = MAP_SHARED | MAP_POPULATE | MAP_FIXED
                map_memory(base + position, start - position, protection, flags, fd, position)
            position = start + length
        return base


def map_memory(address: int | None, size: int, protection: int, flags: int, fd: int, offset: int) -> int:
    """Call mmap and return the address; raise MemoryError if that fails."""
    found = LIBC.mmap(address, size, protection, flags, fd, offset)
    if found in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"cannot map {size} bytes: {os.strerror(ctypes.get_errno())}")
    return found


def heap_start() -> int:
    """Return the address at which malloc's memory begins; 0 if the operating system does not list it."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next((int(line.split("-")[0], 16) for line in lines if line.endswith("[heap]")), 0)


def serve(sock: socket.socket, parent: int) -> None:
    """Run a kernel's process: confine it and answer requests until the supervisor closes the socket."""
    channel, hello, fds = ipc.receive_channel(sock)
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((null, 0), (fds[0], 1), (fds[0], 2)):
        os.dup2(source, target)
    os.closerange(3, channel.fileno())
    os.closerange(channel.fileno() + 1, 4096)
    for name in list(os.environ):
        if name not in sandbox.PASSED_ENVIRONMENT_VARIABLES and name != "OMP_WAIT_POLICY":
            del os.environ[name]
    heap, space = heap_start(), hello["address_space"]
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # where memory runs out, this process ends
    report = sandbox.shut_in(hello["readable"], space + 2 * SPAN_BUDGET, hello["cpu_s"], parent)
    host = CpuBackend(hello["stub"], space, heap)
    channel.send({"sandbox": report})
    ipc.serve_verbs(channel, {"map": host.map, "load": host.load, "prepare": host.prepare, "run": host.run})
