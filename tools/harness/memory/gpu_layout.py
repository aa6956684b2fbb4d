"""The supervisor's side of device memory: where each buffer lies. The oracle makes the memory and looks at it when
asked."""

import os
import random

ALIGN = 256
GAP = 4096
GUARD = 16384
"""Bytes of a secret pattern on both sides of every output."""


def round_up(size: int, unit: int) -> int:
    return (size + unit - 1) // unit * unit


class DeviceInputs:
    """One arena with every input of every set; kernels' processes map it for reading only."""

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
        answer = oracle.call("arena", lane=None, bytes=position)
        self.size, (self.fd,) = answer["size"], answer["fds"]

    def exchange(self, pairs: list[tuple[int, int, int]]) -> list[bool]:
        """Exchange elements at pairs of offsets (offset, other, bytes each); True where they differed. The pairs are
        disjoint."""
        return self.oracle.call("exchange", pairs=pairs)["differ"] if pairs else []

    def close(self) -> None:
        os.close(self.fd)


class DeviceOutputs:
    """One slot's layout, the same in all slots: outputs at a random multiple of 256 bytes, a guard on both sides of
    each."""

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
        # Every 0xFF byte makes a NaN; integers get a secret byte, bool one that is neither 0 nor 1.
        poison = [0xFF if f else chance.randrange(0x41, 0x7F) for f in floating]
        answer = oracle.call(
            "arena",
            lane=lane,
            bytes=self.plan.total,
            slots=slots,
            stride=self.plan.stride,
            outputs=list(zip(self.plan.starts, sizes, poison, strict=True)),
            guards=self.plan.guards,
        )
        self.size, (self.fd,) = answer["size"], answer["fds"]

    def poison(self, slots: list[int]) -> None:
        self.oracle.call("poison", lane=self.lane, slots=slots)

    def intact(self, slots: list[int]) -> list[bool]:
        """Are the guards of these slots as they were laid?"""
        return self.oracle.call("guards", lane=self.lane, slots=slots)["intact"] if slots else []

    def fingerprints(self, slots: list[int], places: list[float]) -> list:
        """What lies at secret places of each slot, to tell a write that comes after the call."""
        return self.oracle.call("fingerprints", lane=self.lane, slots=slots, places=places)["seen"] if slots else []

    def close(self) -> None:
        os.close(self.fd)
