"""The calls of the CUDA driver that the harness makes itself, bound once: memory that processes share, events, waits
for the whole device.

They work on the primary context, which torch has made current on the calling thread.
"""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_ushort, c_void_p

READ, READ_WRITE = 1, 3
NOT_READY = 600
_FILE_DESCRIPTOR = 1
_PINNED = 1
_ON_DEVICE = 1
_RELEASE_THRESHOLD, _RESERVED_BYTES, _USED_BYTES = 4, 5, 7
"""Attributes of a memory pool."""
LEAST_NOISE_BYTES = 64 << 20
"""Least bytes of noise that a memory pool hands out."""


class CudaError(Exception):
    """A call of the driver failed; the text has the call and the error."""


class _Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class _Flags(ctypes.Structure):
    _fields_ = [("compression", c_ubyte), ("rdma", c_ubyte), ("usage", c_ushort), ("reserved", c_ubyte * 4)]


class _Properties(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", _Location), ("windows", c_void_p), ("flags", _Flags)]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", c_int)]


_CALLS = {
    "cuMemGetAllocationGranularity": [POINTER(c_size_t), POINTER(_Properties), c_int],
    "cuMemCreate": [POINTER(c_ulonglong), c_size_t, POINTER(_Properties), c_ulonglong],
    "cuMemRelease": [c_ulonglong],
    "cuMemExportToShareableHandle": [POINTER(c_int), c_ulonglong, c_int, c_ulonglong],
    "cuMemImportFromShareableHandle": [POINTER(c_ulonglong), c_void_p, c_int],
    "cuMemAddressReserve": [POINTER(c_ulonglong), c_size_t, c_size_t, c_ulonglong, c_ulonglong],
    "cuMemAddressFree": [c_ulonglong, c_size_t],
    "cuMemMap": [c_ulonglong, c_size_t, c_size_t, c_ulonglong, c_ulonglong],
    "cuMemUnmap": [c_ulonglong, c_size_t],
    "cuMemSetAccess": [c_ulonglong, c_size_t, POINTER(_Access), c_size_t],
    "cuEventCreate": [POINTER(c_void_p), c_uint],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventQuery": [c_void_p],
    "cuEventSynchronize": [c_void_p],
    "cuEventElapsedTime": [POINTER(c_float), c_void_p, c_void_p],
    "cuCtxSynchronize": [],
    "cuCtxResetPersistingL2Cache": [],
    "cuMemsetD32Async": [c_ulonglong, c_uint, c_size_t, c_void_p],
    "cuDeviceGetMemPool": [POINTER(c_void_p), c_int],
    "cuMemPoolSetAttribute": [c_void_p, c_int, POINTER(c_ulonglong)],
    "cuMemPoolGetAttribute": [c_void_p, c_int, POINTER(c_ulonglong)],
    "cuMemPoolTrimTo": [c_void_p, c_size_t],
    "cuMemAllocAsync": [POINTER(c_ulonglong), c_size_t, c_void_p],
    "cuMemFreeAsync": [c_ulonglong, c_void_p],
    "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuStreamSynchronize": [c_void_p],
    "cuMemcpyDtoHAsync_v2": [c_void_p, c_ulonglong, c_size_t, c_void_p],
}


class CudaDriver:
    """libcuda with its functions bound at construction, so that later changes of the library object have no effect."""

    def __init__(self, device: int = 0):
        self.device = device
        library = ctypes.CDLL("libcuda.so.1")
        self._name = library.cuGetErrorName
        self._bound = {}
        for name, types in _CALLS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, c_int
            self._bound[name] = function
        self.record = self._bound["cuEventRecord"]
        self.query = self._bound["cuEventQuery"]
        self.wait = self._bound["cuEventSynchronize"]
        self.wait_for_all = self._bound["cuCtxSynchronize"]

    def __call__(self, name: str, *arguments) -> None:
        self.check(self._bound[name](*arguments), name)

    def check(self, result: int, what: str) -> None:
        """Raise CudaError if `result` is an error."""
        if result:
            error_name = c_char_p()
            self._name(result, byref(error_name))
            raise CudaError(f"{what}: {(error_name.value or b'?').decode()}")

    def create_event(self) -> c_void_p:
        """Return a new event."""
        event = c_void_p()
        self("cuEventCreate", byref(event), 0)
        return event

    def create_stream(self, waits: bool = False) -> c_void_p:
        """Return a new stream that waits for no other, or one that `waits` for the default stream and is waited for."""
        stream = c_void_p()
        self("cuStreamCreate", byref(stream), 0 if waits else 1)
        return stream

    def elapsed(self, start: c_void_p, end: c_void_p) -> float:
        """Return the device's seconds between two completed events."""
        milliseconds = c_float()
        self("cuEventElapsedTime", byref(milliseconds), start, end)
        return milliseconds.value * 1e-3

    def spin_rate(self, sleep, start: c_void_p, end: c_void_p) -> float:
        """Return the cycles per second of the spin `sleep(cycles)`."""
        for count in (1000, 2_000_000):
            self.record(start, None)
            sleep(count)
            self.record(end, None)
            self.wait(end)
        return 2_000_000 / self.elapsed(start, end)

    # ------------------------------------------------------------ memory

    def _properties(self) -> _Properties:
        properties = _Properties()
        properties.type, properties.handles = _PINNED, _FILE_DESCRIPTOR
        properties.location.type, properties.location.id = _ON_DEVICE, self.device
        return properties

    def granularity(self) -> int:
        """Return the unit of allocations, in bytes."""
        unit = c_size_t()
        self("cuMemGetAllocationGranularity", byref(unit), byref(self._properties()), 0)
        return unit.value

    def create(self, size: int) -> int:
        """Allocate `size` bytes of device memory, a multiple of the granularity; return its handle."""
        handle = c_ulonglong()
        self("cuMemCreate", byref(handle), size, byref(self._properties()), 0)
        return handle.value

    def export(self, handle: int) -> int:
        """Return a descriptor with which another process can map the memory."""
        descriptor = c_int()
        self("cuMemExportToShareableHandle", byref(descriptor), handle, _FILE_DESCRIPTOR, 0)
        return descriptor.value

    def import_handle(self, descriptor: int) -> int:
        """Return the handle of memory that another process exported."""
        handle = c_ulonglong()
        self("cuMemImportFromShareableHandle", byref(handle), c_void_p(descriptor), _FILE_DESCRIPTOR)
        return handle.value

    def map(self, handle: int, size: int, access: int) -> int:
        """Map memory into this process and return its address."""
        address = c_ulonglong()
        self("cuMemAddressReserve", byref(address), size, 0, 0, 0)
        self("cuMemMap", address.value, size, 0, handle, 0)
        allowed = _Access()
        allowed.location.type, allowed.location.id, allowed.flags = _ON_DEVICE, self.device, access
        self("cuMemSetAccess", address.value, size, byref(allowed), 1)
        return address.value

    def unmap(self, address: int, size: int) -> None:
        """Unmap memory from this process."""
        self("cuMemUnmap", address, size)
        self("cuMemAddressFree", address, size)

    def fill(self, address: int, size: int, word: int) -> None:
        """Overwrite `size` bytes, a multiple of 4, with a 32-bit word."""
        self("cuMemsetD32Async", address, word, size // 4, None)

    def let_lines_of_l2_go(self) -> None:
        """Let the L2 cache evict lines that kernels asked it to keep; without effect where it cannot keep any."""
        self._bound["cuCtxResetPersistingL2Cache"]()

    def fill_pool(self, word: int) -> None:
        """Replace the unused memory of the device's memory pool by as much that holds `word`, and keep it in the
        pool."""
        pool, value = c_void_p(), c_ulonglong(2**64 - 1)
        self("cuDeviceGetMemPool", byref(pool), self.device)
        self("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, byref(value))
        unused = 0
        for attribute, sign in ((_RESERVED_BYTES, 1), (_USED_BYTES, -1)):
            self("cuMemPoolGetAttribute", pool, attribute, byref(value))
            unused += sign * value.value
        self("cuMemPoolTrimTo", pool, 0)
        address, size = c_ulonglong(), max(unused, LEAST_NOISE_BYTES)
        self("cuMemAllocAsync", byref(address), size, None)
        self.fill(address.value, size, word)
        self("cuMemFreeAsync", address.value, None)

    def release(self, handle: int) -> None:
        """Release a handle; the memory is freed once it is mapped nowhere."""
        self("cuMemRelease", handle)


class Window:
    """A range of device memory, in the form that torch.as_tensor accepts."""

    def __init__(self, address: int, size: int):
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
            "strides": None,
        }


def byte_tensor_at(torch, address: int, size: int):
    """Return a uint8 tensor over memory that torch does not own."""
    if size == 0:
        return torch.empty(0, dtype=torch.uint8, device="cuda")
    return torch.as_tensor(Window(address, size), device="cuda")
