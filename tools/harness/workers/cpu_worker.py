"""Runs in a kernel's process from fork to end: it confines itself, loads the shared objects and calls them on request.

No answer of this process decides whether a kernel is correct. Outputs are in shared memory, where the supervisor and
the oracle read them.
"""

import base64
import ctypes
import mmap
import os
import socket

from harness.isolation import ipc, sandbox

OPENMP_LIBRARIES = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so")
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MAP_SHARED, MAP_POPULATE = 0x1, 0x8000


class CpuBackend:
    """The shared objects and mappings of this process."""

    def __init__(self, stub: str):
        self.stub = ctypes.CDLL(stub)
        self.stub.kw_flags.restype = ctypes.c_longlong
        self.stub.kw_train.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_longlong, ctypes.c_void_p]
        self.stub.kw_watch.argtypes = [ctypes.c_void_p]
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
        try:
            inputs = self._map(fds[0], message["inputs"], mmap.PROT_READ)
            outputs = self._map(fds[1], message["outputs"], mmap.PROT_READ | mmap.PROT_WRITE)
        except MemoryError as error:
            return {"infra": str(error)}
        for base, gaps in zip((inputs, outputs), message["gaps"], strict=True):
            for start, size in gaps:
                LIBC.mprotect(base + start, size, 0)
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
        """Store the arguments of the next train, so that decoding them is not timed."""
        self.arguments = base64.b64decode(message["args"])
        return {}

    def run(self, message: dict, fds: list[int]) -> dict:
        """Call the kernel in a train; answer nanoseconds, control words before and after, and OpenMP threads."""
        out = (ctypes.c_longlong * 3)()
        self.stub.kw_train(self.functions[message["fn"]], self.arguments, message["calls"], out)
        return {"ns": out[0], "before": out[1], "after": out[2], "omp": self._omp_threads()}

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

    def _map(self, fd: int, size: int, protection: int) -> int:
        """Map a file and return its address; raise MemoryError if that fails."""
        address = LIBC.mmap(None, size, protection, MAP_SHARED | MAP_POPULATE, fd, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"cannot map {size} bytes: {os.strerror(ctypes.get_errno())}")
        return address


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
    report = sandbox.shut_in(hello["readable"], hello["address_space"], hello["cpu_s"], parent)
    host = CpuBackend(hello["stub"])
    channel.send({"sandbox": report})
    ipc.serve_verbs(channel, {"map": host.map, "load": host.load, "prepare": host.prepare, "run": host.run})
