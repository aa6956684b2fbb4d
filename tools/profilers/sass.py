"""Metrics of a GPU kernel's machine code, without running it: registers, spills, shared memory, access widths and
tensor instructions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from pydantic import ValidationError

from tools.analysis.assembly import DisassembledFunction, parse_disassembly
from tools.artifacts import Artifact, Candidate, Profile, Quantity, Remark, Task
from tools.errors import HarnessError
from tools.executors.base import Executor
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import Language
from tools.store.blobs import Blobs

_GLOBAL_LOAD = re.compile(r"^(?:LDG|LDGSTS|UTMALDG|UBLKCP)\b")
_GLOBAL_STORE = re.compile(r"^(?:STG|UTMASTG)\b")
_TENSOR_PRODUCT = re.compile(r"^(?:HMMA|HGMMA|IMMA|IGMMA|QGMMA|BGMMA|DMMA|UTC[HQIO]MMA|OMMA|QMMA)\b")
_WARP_GROUP_PRODUCT = re.compile(r"^(?:[HIQB]GMMA|UTC[HQIO]MMA)\b")
"""Matrix products of a warp group or of one thread of a block, which the tensor cores of sm_90 and of sm_100 to sm_110
need for their full rate."""
_WARP_GROUP_TARGETS = re.compile(r"sm_(?:9|1[01])\d")
_BRANCH_TARGET = re.compile(r"(?:^|[\s,])(?:0x)([0-9a-f]+)\b")


class CompiledKernel(Artifact):
    """One kernel, compiled for one set of constants."""

    kernel: str
    settings: dict[str, str]
    """Constexpr arguments, num_warps and num_stages, as written in the launch."""
    shared: int
    """Bytes of shared memory per block."""
    registers: int
    """Registers per thread."""
    stack: int
    """Bytes of stack per thread, mostly spilled registers."""
    instructions: dict[str, int]


class ListingFacts(Artifact):
    """The contents of facts.json, which accompanies a listing of machine code."""

    target: str
    kernels: tuple[CompiledKernel, ...]
    notes: tuple[str, ...] = ()


def profile_listing(
    task: Task, candidate: Candidate, shared_object: str, language: Language, executor: Executor, blobs: Blobs
) -> tuple[Profile, dict[str, str]]:
    """Profile of the machine code of all launched kernels, with metrics `sass.*`, and the blobs of the listing.

    Raises HarnessError when the machine code of the built kernel cannot be listed.
    """
    toolchain = read_toolchain(executor, blobs)
    finished = executor.run(language.disassembly_job(shared_object, blobs, toolchain, task))
    if finished.exit_code != 0 or "facts.json" not in finished.files:
        output = blobs.text(finished.files["stderr.txt"]).strip()[-300:] if "stderr.txt" in finished.files else ""
        raise HarnessError(f"the kernel was built but its machine code could not be listed: {output or 'no output'}")
    raw = {name: finished.files[name] for name in ("facts.json", "assembly.txt")}
    try:
        facts = ListingFacts.model_validate_json(blobs.get(raw["facts.json"]))
    except ValidationError as error:
        raise HarnessError(f"the listing's facts cannot be read: {error}") from error
    metrics, remarks = examine_listing(facts, blobs.text(raw["assembly.txt"]))
    tensor = metrics.get("sass.tensor")
    if tensor and not tensor.value and any(name in candidate.source for name in task.library or ()):
        del metrics["sass.tensor"]  # Unknown, not zero: no listing contains the kernels of the library.
    profile = Profile(
        tool="static", launch=facts.target, source=candidate.id, binary=shared_object, metrics=metrics, remarks=remarks
    )
    return profile, raw


def examine_listing(facts: ListingFacts, assembly: str) -> tuple[dict[str, Quantity], tuple[Remark, ...]]:
    """Metrics `sass.*` over all launched kernels (the maximum of sizes, the sum of counts) and remarks; no metrics
    where nothing was compiled. Pure."""
    if not facts.kernels:
        return {}, tuple(Remark(tool="triton", line=0, kind="note", text=note) for note in facts.notes)
    counts = count_instructions(sum((Counter(kernel.instructions) for kernel in facts.kernels), Counter()))
    if not _WARP_GROUP_TARGETS.match(facts.target):
        del counts["wgmma"]  # Unknown, not zero: no rule may ask for instructions that the device lacks.
    values: dict[str, tuple[float, str]] = {
        "kernels": (len({k.kernel for k in facts.kernels}), "kernels"),
        "registers": (max(k.registers for k in facts.kernels), "registers a thread"),
        "stack": (max(k.stack for k in facts.kernels), "bytes a thread"),
        "shared": (max(k.shared for k in facts.kernels), "bytes a block"),
        "loops": (max((count_loops(f) for f in parse_disassembly(assembly).values()), default=0), "loops"),
        **{name: (value, "instructions") for name, value in counts.items()},
    }
    remarks = [
        Remark(
            tool="triton",
            line=0,
            kind="note",
            text=f"{k.kernel} ({', '.join(f'{n}={v}' for n, v in k.settings.items() if v)}) on {facts.target}: "
            f"{k.registers} registers, "
            f"{k.stack} bytes of stack, "
            f"{count_instructions(k.instructions)['spills']} instructions that spill, {k.shared} bytes shared",
        )
        for k in facts.kernels
    ]
    remarks += [Remark(tool="triton", line=0, kind="note", text=note) for note in facts.notes]
    return {f"sass.{name}": Quantity(value=float(value), unit=unit) for name, (value, unit) in values.items()}, tuple(
        remarks
    )


def count_instructions(instructions: Mapping[str, int]) -> dict[str, int]:
    """Number of instructions by purpose, from their number by mnemonic."""

    def count_matching(pattern: re.Pattern[str], part: str = "") -> int:
        return sum(n for mnemonic, n in instructions.items() if pattern.match(mnemonic) and part in mnemonic)

    return {
        "instructions": sum(instructions.values()),
        "global_loads": count_matching(_GLOBAL_LOAD),
        "wide_loads": count_matching(_GLOBAL_LOAD, ".128")
        + count_matching(_GLOBAL_LOAD, ".256")
        + count_matching(re.compile(r"^UTMALDG\b")),
        "global_stores": count_matching(_GLOBAL_STORE),
        "spills": sum(n for mnemonic, n in instructions.items() if mnemonic.startswith(("STL", "LDL"))),
        "tensor": count_matching(_TENSOR_PRODUCT),
        "wgmma": count_matching(_WARP_GROUP_PRODUCT),
    }


def count_loops(function: DisassembledFunction) -> int:
    """Number of branches to an earlier instruction; the branch to itself after the end of a function does not count."""
    loops = 0
    for instruction in function.instructions:
        target = _BRANCH_TARGET.search(instruction.operands) if instruction.mnemonic.startswith("BRA") else None
        loops += target is not None and int(target[1], 16) < instruction.address
    return loops
