"""Memory shared by supervisor, oracle and kernel: two anonymous files per workload.

Inputs lie in one file that the kernel's process can only read; each buffer ends at the end of a page (within the
64-byte alignment of its base) and the page after it is not mapped there, so reading beyond it faults. Outputs lie in
another: each has at least a page of a secret pattern on both sides and begins at a random multiple of 64 bytes, so
writing beyond it is seen afterwards. Where correctness is looked at, outputs lie against such a page too (`edge`):
every buffer once with the page behind it, and once with the page in front.
"""

import ctypes
import mmap
import os
import random

PAGE = mmap.PAGESIZE
FRONT, BEHIND = "front", "behind"
"""At which edge of each buffer the page that is not mapped lies."""
ALIGN = 64
HEADER = PAGE
"""The outputs' file begins with a page in which a crashing kernel's process leaves the address that it faulted at."""


def item_bytes(dtype: str) -> int:
    """Of one element."""
    return 1 if dtype == "bool" else int("".join(filter(str.isdigit, dtype))) // 8


def round_up(size: int, unit: int) -> int:
    return (size + unit - 1) // unit * unit


class InputLayout:
    """Where each input of each set lies, and the gaps between them."""

    def __init__(self, sizes: list[int], sets: int, edge: str = BEHIND):
        self.offsets: list[list[int]] = []
        self.gaps: list[tuple[int, int]] = [(0, PAGE)]
        self.sizes, self.edge = sizes, edge
        position = PAGE
        for _ in range(sets):
            row = []
            for size in sizes:
                region = round_up(max(size, 1), PAGE)
                row.append(position if edge == FRONT else position + region - round_up(max(size, 1), ALIGN))
                self.gaps.append((position + region, PAGE))
                position += region + PAGE
            self.offsets.append(row)
        self.total = position

    def describe(self, offset: int, names: list[str]) -> str:
        """What lies at `offset` of the file, in words."""
        for row in self.offsets:
            for name, start, size in zip(names, row, self.sizes, strict=True):
                if start <= offset < start + size:
                    return f"inside the read-only input {name}"
        return describe_missed_buffer(self, offset, [f"input {name}" for name in names])


class OutputLayout:
    """Where each output of each slot lies, the guard bands around it, and with an `edge` the gaps."""

    def __init__(self, sizes: list[int], slots: int, chance: random.Random, edge: str = ""):
        self.offsets: list[list[int]] = []
        self.guards: list[list[tuple[int, int]]] = []
        self.gaps: list[tuple[int, int]] = []
        self.sizes, self.edge = sizes, edge
        position = HEADER
        for _ in range(slots):
            row, guards = [], []
            for size in sizes:
                if edge == FRONT:
                    self.gaps.append((position, PAGE))
                    position += PAGE
                    start, end = position, round_up(position + size, PAGE)
                elif edge == BEHIND:
                    end = position + PAGE + round_up(size, PAGE)
                    start = end - round_up(size, ALIGN)
                    self.gaps.append((end, PAGE))
                else:
                    start = position + PAGE + ALIGN * chance.randrange(PAGE // ALIGN)
                    end = round_up(start + size, PAGE) + PAGE
                row.append(start)
                guards += [(position, start), (start + size, end)]
                position = end + PAGE * (edge == BEHIND)
            self.offsets.append(row)
            self.guards.append(guards)
        self.total = position

    def describe(self, offset: int, names: list[str]) -> str:
        """What lies at `offset` of the file, in words."""
        return describe_missed_buffer(self, offset, [f"output {name}" for name in names])


def describe_missed_buffer(plan: InputLayout | OutputLayout, offset: int, names: list[str]) -> str:
    """Which buffer was missed by an access to a page that is not mapped."""
    for row in plan.offsets:
        for name, start, size in zip(names, row, plan.sizes, strict=True):
            if plan.edge == FRONT and start - PAGE <= offset < start:
                return f"in front of {name}"
            if plan.edge == BEHIND and start + size <= offset < round_up(start + size, PAGE) + PAGE:
                return f"past the end of {name}"
    return f"outside {', '.join(names)}"


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
        """A new descriptor through which nobody can map it writable."""
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)

    def fill(self, offset: int, size: int, byte: int) -> None:
        ctypes.memset(self.address + offset, byte, size)

    def close(self) -> None:
        self.memory.close()
        os.close(self.fd)


class HostInputs:
    """The inputs' file, which the oracle has mapped too."""

    def __init__(self, oracle, plan: InputLayout):
        self.plan = plan
        self.offsets = plan.offsets
        self.shared = SharedMemory(plan.total)
        self.size, self.fd = self.shared.size, self.shared.fd
        oracle.call("attach", size=self.size, lane=None, fds=[self.fd])

    def exchange(self, pairs: list[tuple[int, int, int]]) -> list[bool]:
        """Exchange elements at pairs of offsets (offset, other, bytes each); True where they differed. The pairs are
        disjoint."""
        memory, differ = self.shared.memory, []
        for i, j, size in pairs:
            first, second = memory[i : i + size], memory[j : j + size]
            memory[i : i + size], memory[j : j + size] = second, first
            differ.append(first != second)
        return differ

    def close(self) -> None:
        self.shared.close()


class HostSlots:
    """The outputs' file with its poison and guard pattern."""

    def __init__(self, sizes: list[int], floating: list[bool], slots: int, edge: str = ""):
        chance = random.SystemRandom()
        self.plan = OutputLayout(sizes, slots, chance, edge)
        self.shared = SharedMemory(self.plan.total)
        self.pattern = os.urandom(4 * PAGE)
        # Every 0xFF byte makes a NaN; integers get a secret byte, bool one that is neither 0 nor 1.
        self.bytes = [0xFF if f else chance.randrange(0x41, 0x7F) for f in floating]
        for guards in self.plan.guards:
            for start, end in guards:
                self.shared.memory[start:end] = self.pattern[: end - start]

    @staticmethod
    def bytes_each(sizes: list[int]) -> int:
        """About what one slot takes."""
        return sum(size + 3 * PAGE for size in sizes) or PAGE

    def poison(self, slots: list[int]) -> None:
        for slot in slots:
            for start, size, byte in zip(self.plan.offsets[slot], self.plan.sizes, self.bytes, strict=True):
                self.shared.fill(start, size, byte)

    def intact(self, slots: list[int]) -> list[bool]:
        """Are the guards of these slots as they were laid?"""
        memory = self.shared.memory
        return [all(memory[a:b] == self.pattern[: b - a] for a, b in self.plan.guards[slot]) for slot in slots]

    def fingerprints(self, slots: list[int], places: list[float]) -> list[bytes]:
        """What lies at secret places of each slot, to tell a write that comes after the call."""
        return [self._fingerprint(slot, places) for slot in slots]

    def _fingerprint(self, slot: int, places: list[float]) -> bytes:
        """The bytes at secret places (fractions of each output)."""
        memory, found = self.shared.memory, bytearray()
        for start, size in zip(self.plan.offsets[slot], self.plan.sizes, strict=True):
            last = max(size - 8, 0)
            for place in places:
                at = start + int(place * last)
                found += memory[at : at + min(8, size)]
        return bytes(found)

    def clear_fault(self) -> None:
        self.shared.fill(0, 64, 0)

    def fault(self) -> tuple[int, int]:
        """(address, kind) left by the fault handler: kind 1 read, 2 written, 3 unknown, 0 none."""
        memory = self.shared.memory
        return int.from_bytes(memory[0:8], "little"), int.from_bytes(memory[8:16], "little")

    def close(self) -> None:
        self.shared.close()
