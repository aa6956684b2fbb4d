"""Memory shared by supervisor, oracle and kernel: two anonymous files for each workload.

The kernel's process can only read the inputs' file. Each buffer ends at the end of a page (within the 64-byte alignment
of its base), and a span of megabytes follows that the process cannot access, so that reading beyond the buffer faults.
In the outputs' file, each buffer has at least a page of a secret pattern on both sides and begins at a random multiple
of 64 bytes, so that a write beyond it is detected afterwards; then comes such a span. While correctness is checked,
outputs also lie against a span (`edge`): each buffer once with the span behind it and once with it in front. A span
takes addresses and no memory: the file has a hole there.
"""

import ctypes
import mmap
import os
import random
import re

PAGE = mmap.PAGESIZE
FRONT, BEHIND = "front", "behind"
"""Edge of each buffer at which the inaccessible span lies."""
LONGEST_SPAN = 3 << 20
"""Maximum bytes of one inaccessible span; the minimum is two thirds of it."""
SPAN_BUDGET = 4 << 30
"""Bytes of addresses that the spans of one file may take together; more spans are shorter ones."""
MAX_OUTPUT_SPANS = 1024
"""Maximum number of spans in the file of the outputs, because each is a mapping more; further outputs share spans."""
ALIGN = 64
HEADER = PAGE
"""Bytes of the first page of the outputs' file, in which a crashing kernel's process leaves the address of its
fault."""


def item_bytes(dtype: str) -> int:
    """Return the bytes of one element."""
    return 1 if dtype == "bool" else int(re.search(r"\d+", dtype)[0]) // 8


def round_up(size: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is not below `size`."""
    return (size + unit - 1) // unit * unit


def span_bytes(count: int) -> int:
    """Return the random length of one of `count` inaccessible spans, in whole pages."""
    longest = min(LONGEST_SPAN, SPAN_BUDGET // max(count, 1))
    return max(random.SystemRandom().randrange(2 * longest // 3, longest) // PAGE, 1) * PAGE


class InputLayout:
    """Offsets of the inputs of each set, and the inaccessible spans between them (`gaps`)."""

    def __init__(self, sizes: list[int], sets: int, edge: str = BEHIND):
        self.offsets: list[list[int]] = []
        count = sets * len(sizes) + 1
        position = span_bytes(count)
        self.gaps: list[tuple[int, int]] = [(0, position)]
        self.sizes, self.edge = sizes, edge
        for _ in range(sets):
            row = []
            for size in sizes:
                region = round_up(max(size, 1), PAGE)
                row.append(position if edge == FRONT else position + region - round_up(max(size, 1), ALIGN))
                self.gaps.append((position + region, span_bytes(count)))
                position = sum(self.gaps[-1])
            self.offsets.append(row)
        self.total = position

    def describe(self, offset: int, names: list[str]) -> str:
        """Return a description of what is at `offset` of the file."""
        for row in self.offsets:
            for name, start, size in zip(names, row, self.sizes, strict=True):
                if start <= offset < start + size:
                    return f"inside the read-only input {name}"
        return describe_missed_buffer(self, offset, [f"input {name}" for name in names])


class OutputLayout:
    """Offsets of the outputs of each slot and of their guard bands, and the inaccessible spans (`gaps`)."""

    def __init__(self, sizes: list[int], slots: int, chance: random.Random, edge: str = ""):
        self.offsets: list[list[int]] = []
        self.guards: list[list[tuple[int, int]]] = []
        self.gaps: list[tuple[int, int]] = []
        self.sizes, self.edge = sizes, edge
        position = HEADER
        share = 1 if edge else -(-slots * len(sizes) // MAX_OUTPUT_SPANS)
        spans = slots * len(sizes) // max(share, 1)
        for slot in range(slots):
            row, guards = [], []
            for at, size in enumerate(sizes):
                if edge == FRONT:
                    self.gaps.append((position, span_bytes(spans)))
                    position = sum(self.gaps[-1])
                    start, end = position, round_up(position + size, PAGE)
                elif edge == BEHIND:
                    end = position + PAGE + round_up(size, PAGE)
                    start = end - round_up(size, ALIGN)
                else:
                    start = position + PAGE + ALIGN * chance.randrange(PAGE // ALIGN)
                    end = round_up(start + size, PAGE) + PAGE
                row.append(start)
                guards += [(position, start), (start + size, end)]
                position = end
                if edge != FRONT and (slot * len(sizes) + at) % share == 0:
                    self.gaps.append((end, span_bytes(spans)))
                    position = sum(self.gaps[-1])
            self.offsets.append(row)
            self.guards.append(guards)
        self.total = position

    def describe(self, offset: int, names: list[str]) -> str:
        """Return a description of what is at `offset` of the file."""
        return describe_missed_buffer(self, offset, [f"output {name}" for name in names])


def describe_missed_buffer(plan: InputLayout | OutputLayout, offset: int, names: list[str]) -> str:
    """Return the buffer beside which an access to an inaccessible span was, as "past the end of output y"."""
    missed = [
        max((start - offset, f"in front of {name}"), (offset - start - size, f"past the end of {name}"))
        for row in plan.offsets
        for name, start, size in zip(names, row, plan.sizes, strict=True)
    ]
    return min(missed, default=(0, "outside its buffers"))[1]


class SharedMemory:
    """An anonymous file and this process's mapping of it."""

    def __init__(self, size: int):
        self.size = round_up(max(size, PAGE), PAGE)
        self.fd = os.memfd_create("buffers", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.size)
        self.memory = mmap.mmap(self.fd, self.size)
        holder = ctypes.c_char.from_buffer(self.memory)
        self.address = ctypes.addressof(holder)
        del holder

    def read_only(self) -> int:
        """Return a new descriptor that cannot be mapped for writing."""
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)

    def fill(self, offset: int, size: int, byte: int) -> None:
        """Set `size` bytes from `offset` on to `byte`."""
        ctypes.memset(self.address + offset, byte, size)

    def close(self) -> None:
        self.memory.close()
        os.close(self.fd)


class HostInputs:
    """The inputs' file, which the oracle has mapped as well."""

    def __init__(self, oracle, plan: InputLayout):
        self.plan = plan
        self.offsets = plan.offsets
        self.shared = SharedMemory(plan.total)
        self.size, self.fd = self.shared.size, self.shared.fd
        oracle.call("attach_memory", size=self.size, lane=None, fds=[self.fd])

    def close(self) -> None:
        self.shared.close()


class HostSlots:
    """The outputs' file with its poison and guard pattern."""

    def __init__(self, sizes: list[int], floating: list[bool], slots: int, edge: str = ""):
        chance = random.SystemRandom()
        self.plan = OutputLayout(sizes, slots, chance, edge)
        self.shared = SharedMemory(self.plan.total)
        self.pattern = os.urandom(4 * PAGE)
        # Bytes of 0xFF make a NaN; integers get a secret byte, and bool one that is neither 0 nor 1.
        self.bytes = [0xFF if f else chance.randrange(0x41, 0x7F) for f in floating]
        for guards in self.plan.guards:
            for start, end in guards:
                self.shared.memory[start:end] = self.pattern[: end - start]

    @staticmethod
    def bytes_each(sizes: list[int]) -> int:
        """Return about how many bytes one slot takes."""
        return sum(size + 3 * PAGE for size in sizes) or PAGE

    def copy(self, source: int, target: int) -> None:
        """Copy the outputs of one slot to another."""
        for old, new, size in zip(self.plan.offsets[source], self.plan.offsets[target], self.plan.sizes, strict=True):
            ctypes.memmove(self.shared.address + new, self.shared.address + old, size)

    def poison(self, slots: list[int]) -> None:
        """Fill the outputs of these slots with poison."""
        for slot in slots:
            for start, size, byte in zip(self.plan.offsets[slot], self.plan.sizes, self.bytes, strict=True):
                self.shared.fill(start, size, byte)

    def restore(self, inputs: HostInputs, copies: list[tuple[int, int, int]], *, cold: bool) -> None:
        """Copy buffers of the inputs into slots; a copy is (offset, offset, bytes). Flushing the slots makes them
        `cold`."""
        for source, target, size in copies:
            ctypes.memmove(self.shared.address + target, inputs.shared.address + source, size)

    def intact(self, slots: list[int]) -> list[bool]:
        """Return for each slot whether its guards are unchanged."""
        memory = self.shared.memory
        return [all(memory[a:b] == self.pattern[: b - a] for a, b in self.plan.guards[slot]) for slot in slots]

    def fingerprints(self, slots: list[int], places: list[float]) -> list[bytes]:
        """Return the bytes at secret places of each slot, to detect writes after the call."""
        return [self._fingerprint(slot, places) for slot in slots]

    def _fingerprint(self, slot: int, places: list[float]) -> bytes:
        """Return the bytes at secret places (fractions of each output)."""
        memory, found = self.shared.memory, bytearray()
        for start, size in zip(self.plan.offsets[slot], self.plan.sizes, strict=True):
            last = max(size - 8, 0)
            for place in places:
                at = start + int(place * last)
                found += memory[at : at + min(8, size)]
        return bytes(found)

    def clear_fault(self) -> None:
        """Delete what the fault handler wrote."""
        self.shared.fill(0, 64, 0)

    def fault(self) -> tuple[int, int]:
        """Return the (address, kind) that the fault handler wrote: kind 1 for a read, 2 for a write, 3 unknown, 0
        none."""
        memory = self.shared.memory
        return int.from_bytes(memory[0:8], "little"), int.from_bytes(memory[8:16], "little")

    def close(self) -> None:
        self.shared.close()
