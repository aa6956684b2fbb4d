"""The oracle's side of device memory: it allocates arenas and reads them; kernels' processes map them.

The inputs are one arena, and each lane's output slots another. All slots of a lane have one layout, so that one
operation handles many.
"""

import secrets

from harness.memory import cuda_driver


class Arena:
    """Device memory with an exportable handle, mapped in this process for reading and writing."""

    def __init__(self, driver: cuda_driver.CudaDriver, torch, size: int):
        self.driver = driver
        unit = driver.granularity()
        self.size = max((size + unit - 1) // unit, 1) * unit
        self.handle = driver.create(self.size)
        self.address = driver.map(self.handle, self.size, cuda_driver.READ_WRITE)
        self.bytes = cuda_driver.byte_tensor_at(torch, self.address, self.size)

    def close(self) -> None:
        self.bytes = None
        self.driver.unmap(self.address, self.size)
        self.driver.release(self.handle)


class Lane:
    """Output slots in one arena, of `stride` bytes each. `outputs` are (start, size, poison byte) and `guards` (start,
    end), both within a slot."""

    def __init__(self, torch, arena: Arena, message: dict):
        self.torch = torch
        slots, stride = message["slots"], message["stride"]
        self.rows = arena.bytes[: slots * stride].view(slots, stride)
        self.outputs, self.guards = message["outputs"], message["guards"]
        longest = max((end - start for start, end in self.guards), default=0)
        self.pattern = torch.frombuffer(bytearray(secrets.token_bytes(max(longest, 1))), dtype=torch.uint8).cuda()
        self.places: list[float] = []
        for start, end in self.guards:
            self.rows[:, start:end] = self.pattern[: end - start]

    def poison(self, slots: list[int], earlier: int | None) -> None:
        """Fill the slots' outputs with their poison byte; 0xFF makes a NaN of any floating type. About every second one
        gets what the slot `earlier` holds instead, unless it is None."""
        found = None if earlier is None else self.rows[earlier].clone()
        for first, last in contiguous_runs(slots):
            for start, size, byte in self.outputs:
                self.rows[first:last, start : start + size] = byte
        chosen = [slot for slot in slots if found is not None and secrets.randbits(1)]
        for start, size, _ in self.outputs if chosen else ():
            self.rows[chosen, start : start + size] = found[start : start + size]

    def intact(self, slots: list[int]) -> list[bool]:
        """Return for each slot whether its guard bands are unchanged."""
        where = self.torch.tensor(slots, device="cuda")
        good = self.torch.ones(len(slots), dtype=self.torch.bool, device="cuda")
        for start, end in self.guards:
            good &= (self.rows[:, start:end][where] == self.pattern[: end - start]).all(dim=1)
        return good.tolist()

    def fingerprints(self, slots: list[int], places: list[float]) -> list[str]:
        """Return for each slot the hex of its bytes at `places` (fractions of each output)."""
        if places != self.places:
            self.places, self.columns = places, self._columns(places)
        rows = self.torch.tensor(slots, device="cuda").unsqueeze(1)
        found = self.rows[rows, self.columns].cpu().numpy()
        return [row.tobytes().hex() for row in found]

    def _columns(self, places: list[float]):
        """Return the columns of 8 bytes at each place of each output."""
        columns = []
        for start, size, _ in self.outputs:
            last = max(size - 8, 0)
            for place in places:
                begin = start + int(place * last)
                columns += range(begin, begin + min(8, size))
        return self.torch.tensor(columns, device="cuda").unsqueeze(0)


def contiguous_runs(slots: list[int]) -> list[tuple[int, int]]:
    """Return consecutive slots as [first, last)."""
    found: list[list[int]] = []
    for slot in sorted(set(slots)):
        if found and found[-1][1] == slot:
            found[-1][1] = slot + 1
        else:
            found.append([slot, slot + 1])
    return [(first, last) for first, last in found]


class DeviceMemory:
    """The oracle's arenas and lanes on a GPU."""

    def __init__(self, torch):
        self.torch = torch
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.driver = cuda_driver.CudaDriver()
        self.arenas: dict[int | None, Arena] = {}
        self.lanes: dict[int, Lane] = {}

    def facts(self) -> dict:
        """Return the driver's values: bytes of L2 cache, free bytes and compute capability."""
        torch = self.torch
        free, total = torch.cuda.mem_get_info()
        if free < total // 2:
            torch.cuda.empty_cache()
            free, total = torch.cuda.mem_get_info()
        properties = torch.cuda.get_device_properties(0)
        cached = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return {
            "l2": properties.L2_cache_size,
            "free": free + cached,
            "capability": properties.major * 10 + properties.minor,
        }

    def open(self, lane: int | None, message: dict) -> tuple[Arena, int]:
        """Allocate an arena for the inputs (lane None) or a lane's slots; return it and a descriptor."""
        if lane in self.arenas:
            self._close(lane)
        arena = Arena(self.driver, self.torch, message["bytes"])
        self.arenas[lane] = arena
        if lane is not None:
            self.lanes[lane] = Lane(self.torch, arena, message)
        self.torch.cuda.synchronize()
        return arena, self.driver.export(arena.handle)

    def evict_cache(self) -> None:
        """Overwrite twice the size of the L2 cache, so that it holds nothing of the arenas."""
        size = 2 * self.torch.cuda.get_device_properties(0).L2_cache_size
        self.torch.ones(size, dtype=self.torch.uint8, device="cuda")
        self.torch.cuda.synchronize()

    def drop(self) -> None:
        """Free all arenas."""
        for lane in list(self.arenas):
            self._close(lane)

    def _close(self, lane: int | None) -> None:
        self.lanes.pop(lane, None)
        self.torch.cuda.synchronize()
        self.arenas.pop(lane).close()
