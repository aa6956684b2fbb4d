"""The supervisor's side of device memory: the position of each buffer. The oracle allocates the memory and reads it on
request."""

import os
import random

ALIGN = 256
GAP = 4096
GUARD = 16384
"""Bytes of a secret pattern on both sides of each output."""


def round_up(size: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is not below `size`."""
    return (size + unit - 1) // unit * unit


class DeviceInputs:
    """One arena with all inputs of all sets; kernels' processes map it for reading only."""

    def __init__(self, oracle, sizes: list[int], sets: int):
        self.oracle = oracle
        self.sizes = sizes
        self.offsets: list[list[int]] = []
        position = GAP
        for _ in range(sets):
            row = []
            for size in sizes:
                row.append(position)
                position += round_up(size, ALIGN) + GAP
            self.offsets.append(row)
        answer = oracle.call("open_arena", lane=None, bytes=position)
        self.size, (self.fd,) = answer["size"], answer["fds"]

    def close(self) -> None:
        os.close(self.fd)


class DeviceOutputs:
    """The layout of all slots: outputs at a random multiple of 256 bytes, with a guard on both sides of each."""

    def __init__(self, sizes: list[int], slots: int):
        chance = random.SystemRandom()
        self.starts: list[int] = []
        self.guards: list[tuple[int, int]] = []
        self.sizes = sizes
        position = 0
        for size in sizes:
            start = position + GUARD + ALIGN * chance.randrange(16)
            end = round_up(start + size, ALIGN) + GUARD
            self.starts.append(start)
            self.guards += [(position, start), (start + size, end)]
            position = end
        self.stride = position
        self.offsets = [[slot * self.stride + start for start in self.starts] for slot in range(slots)]
        self.total = slots * self.stride


class DeviceSlots:
    """The slots of one lane."""

    def __init__(self, oracle, lane: int, sizes: list[int], floating: list[bool], slots: int):
        chance = random.SystemRandom()
        self.oracle, self.lane = oracle, lane
        self.plan = DeviceOutputs(sizes, slots)
        # Bytes of 0xFF make a NaN; integers get a secret byte, and bool one that is neither 0 nor 1.
        poison = [0xFF if f else chance.randrange(0x41, 0x7F) for f in floating]
        answer = oracle.call(
            "open_arena",
            lane=lane,
            bytes=self.plan.total,
            slots=slots,
            stride=self.plan.stride,
            outputs=list(zip(self.plan.starts, sizes, poison, strict=True)),
            guards=self.plan.guards,
        )
        self.size, (self.fd,) = answer["size"], answer["fds"]

    def poison(self, slots: list[int], earlier: int | None = None) -> None:
        """Fill the outputs of these slots with poison, and about every second one with the result in slot `earlier`,
        if there is one."""
        self.oracle.call("poison_slots", lane=self.lane, slots=slots, earlier=earlier)

    def restore(self, inputs: DeviceInputs, copies: list[tuple[int, int, int]], *, cold: bool) -> None:
        """Copy buffers of the inputs into slots; a copy is (offset, offset, bytes). `cold` leaves none in the L2
        cache."""
        self.oracle.call("restore_slots", lane=self.lane, copies=copies, cold=cold)

    def intact(self, slots: list[int]) -> list[bool]:
        """Return for each slot whether its guards are unchanged."""
        return self.oracle.call("check_guards", lane=self.lane, slots=slots)["intact"] if slots else []

    def fingerprints(self, slots: list[int], places: list[float]) -> list:
        """Return the bytes at secret places of each slot, to detect writes after the call."""
        return (
            self.oracle.call("read_fingerprints", lane=self.lane, slots=slots, places=places)["seen"] if slots else []
        )

    def close(self) -> None:
        os.close(self.fd)
