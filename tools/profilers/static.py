"""The static profiler: remarks of the compiler and metrics of the machine code, without running the kernel."""

from __future__ import annotations

import shlex
from collections import Counter

from tools.analysis import instructions, loops
from tools.analysis.assembly import DisassembledFunction, copy_source_lines, functions_reachable_from, parse_disassembly
from tools.analysis.loops import MachineLoop
from tools.artifacts import Candidate, Profile, Quantity, Remark, Task, Workload
from tools.errors import SettingsError
from tools.executors.base import Executor, Job
from tools.executors.toolchain import Toolchain
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import Language
from tools.languages.cpp_source import CUDA_GRAMMAR_LANGUAGES
from tools.profilers import compiler_remarks, sass
from tools.profilers.base import Profiler
from tools.store.blobs import Blobs

LINES = "lines.txt"
"""File of a job with the disassembly by lines of the source."""


class StaticProfiler(Profiler):
    """Profiles a kernel by compiler remarks (`compiler.*`) and the instruction mix of innermost loops (`objdump.*`)."""

    name = "static"

    def reason_unavailable(self, language: Language, toolchain: Toolchain) -> str | None:
        """None for compiled CPU languages, CUDA, Triton and CuTe DSL; without objdump the profile has remarks only and
        says so."""
        is_supported = language.device == "cpu" or language.name in ("triton", "cutedsl", *CUDA_GRAMMAR_LANGUAGES)
        return (
            None
            if is_supported
            else f"the static profiler reads machine code of CPUs, Triton and CUDA; {language.name} has profilers of "
            f"its own"
        )

    def profile(
        self,
        task: Task,
        candidate: Candidate,
        shared_object: str,
        workload: Workload,
        language: Language,
        executor: Executor,
        blobs: Blobs,
    ) -> tuple[Profile, dict[str, str]]:
        """Build the kernel again with remarks, disassemble `shared_object` and count its instructions."""
        if language.device != "cpu":
            return sass.profile_listing(task, candidate, shared_object, language, executor, blobs)
        toolchain = read_toolchain(executor, blobs)
        family = language.compiler(toolchain).family
        raw: dict[str, str] = {}
        debug = ""
        executor.gather([lambda: executor.run(language.disassembly_job(shared_object, blobs, toolchain, task))])
        if family in compiler_remarks.REMARK_FLAGS:
            flags = compiler_remarks.REMARK_FLAGS[family]
            built = executor.run(_with_lines(language.build(task, candidate, blobs, toolchain, extra_flags=flags)))
            raw["remarks.txt"] = built.files["stderr.txt"]
            debug = blobs.text(built.files[LINES]) if LINES in built.files else ""
        note: tuple[Remark, ...] = ()
        try:
            disassembled = executor.run(language.disassembly_job(shared_object, blobs, toolchain, task))
        except SettingsError as error:
            note = (Remark(tool="objdump", line=0, kind="note", text=str(error)),)
        else:
            if disassembled.exit_code == 0 and "assembly.txt" in disassembled.files:
                raw["assembly.txt"] = disassembled.files["assembly.txt"]
        texts = {name: blobs.text(sha) for name, sha in raw.items()}
        listing = texts.get("assembly.txt", "")
        metrics, found = examine_machine_code(
            texts.get("remarks.txt", ""),
            family,
            listing,
            debug if listing else "",
            f"kernel{language.suffix}",
            loops.remainder_lines(candidate.source, workload.dims),
        )
        profile = Profile(
            tool=self.name,
            launch="static",
            source=candidate.id,
            binary=shared_object,
            metrics=metrics,
            remarks=(*note, *found),
        )
        return profile, raw


def examine_machine_code(
    compiler_output: str,
    family: str,
    assembly: str,
    debug: str,
    source: str = "kernel.",
    remainders: frozenset[int] = frozenset(),
) -> tuple[dict[str, Quantity], tuple[Remark, ...]]:
    """Metrics and remarks, in source order, from a compiler's stderr and two disassemblies. Pure.

    `assembly` is the disassembly of the timed shared object, `debug` that of a build with line numbers. An empty text
    means that it was not collected; its metrics are absent. The kernel's file name begins with `source`. Loops on the
    lines `remainders` take hardly any time and do not count.
    """
    found = (
        compiler_remarks.parse_remarks(compiler_output, family, source)
        if family in compiler_remarks.REMARK_FLAGS
        else ()
    )
    found = tuple(remark for remark in found if remark.line not in remainders)
    metrics: dict[str, Quantity] = {}
    inner: frozenset[int] = frozenset()
    code = functions_reachable_from(
        copy_source_lines(parse_disassembly(assembly, source), parse_disassembly(debug, source))
    )
    if code:
        every = loops.find_source_loops(code, compiler_remarks.lines_with_loops(found) | remainders)
        source_loops = tuple(loop for loop in every if loop.line not in remainders)
        inner = frozenset(loop.line for loop in source_loops if loop.line)
        metrics.update(loop_metrics(code, source_loops))
    if family in compiler_remarks.REMARK_FLAGS and (compiler_output or found):
        metrics.update(compiler_remarks.remark_metrics(found, inner))
    if code:
        found = (
            *compiler_remarks.drop_outer_loop_remarks(found, inner),
            *(remark for loop in source_loops if loop.line and (remark := _loop_remark(loop)).text),
        )
    return metrics, tuple(sorted(found, key=lambda remark: remark.line))


def loop_metrics(
    functions: tuple[DisassembledFunction, ...], inner_loops: tuple[MachineLoop, ...]
) -> dict[str, Quantity]:
    """Metrics `objdump.*` of `solve` and all functions that it reaches; instruction counts cover `inner_loops`, the
    innermost source loops.

    Without loops these counts are absent. `objdump.packed_fraction` is the mean packed share over the loops with
    floating-point work; a call of a scalar mathematics function counts as scalar work.
    """
    all_instructions = [i for function in functions for i in function.instructions]
    values: dict[str, float] = {
        "loops": len(inner_loops),
        "omp_regions": sum(i.is_call and instructions.starts_threads(i.symbol) for i in all_instructions),
        "instructions": len(all_instructions),
    }
    if inner_loops:
        values |= _instruction_counts(inner_loops)
    units = {"vector_bytes": "bytes", "loops": "loops", "sibling_loops": "loops", "scalar_loops": "loops"}
    result = {
        f"objdump.{name}": Quantity(value=float(value), unit=units.get(name, "instructions"))
        for name, value in values.items()
    }
    share = _packed_share(inner_loops)
    if share is not None:
        result["objdump.packed_fraction"] = Quantity(value=share, unit="fraction")
    return result


def _instruction_counts(inner_loops: tuple[MachineLoop, ...]) -> dict[str, float]:
    """Counts over the loops, by the last part of the metric's name."""
    body = [i for loop in inner_loops for i in loop.instructions]
    calls = Counter(i.symbol or "indirect" for i in body if i.is_call)
    math = sum(number for name, number in calls.items() if instructions.is_scalar_math_function(name))
    vector_math = sum(number for name, number in calls.items() if instructions.is_vector_math_function(name))
    packed = [i for i in body if instructions.is_packed(i)]
    counts: dict[str, float] = {
        "sibling_loops": max(Counter((loop.function, loop.parent) for loop in inner_loops).values(), default=0),
        "scalar_loops": sum(_packed_share([loop]) == 0.0 for loop in inner_loops),
        "serial_reductions": sum(loops.is_serial_reduction(loop) for loop in inner_loops),
        "strided_loops": sum(loops.is_strided(loop) for loop in inner_loops),
        "packed_float": len(packed),
        "scalar_float": sum(instructions.is_scalar(i) for i in body),
        "vector_bytes": max((instructions.register_bytes(i) for i in packed), default=0),
        "fma": sum(instructions.is_fma(i) for i in body),
        "divide": sum(instructions.is_divide(i) for i in body),
        "gather": sum(instructions.is_gather(i) for i in body),
        "insert": sum(instructions.is_vector_element_insert(i) for i in body),
        "streaming_stores": sum(instructions.is_streaming_store(i) for i in body),
        "calls": sum(calls.values()),
        "math_calls": math,
        "vector_math_calls": vector_math,
        "other_calls": sum(calls.values()) - math - vector_math,
    }
    counts |= {f"{width}mm": sum(f"%{width}mm" in i.operands for i in body) for width in "xyz"}
    return counts | {f"calls.{name}": number for name, number in calls.items()}


def _packed_share(inner_loops: list[MachineLoop] | tuple[MachineLoop, ...]) -> float | None:
    """Mean over loops of packed / (packed + scalar) floating-point instructions; None where there are none."""
    shares: list[float] = []
    for loop in inner_loops:
        packed = sum(
            instructions.is_packed(i) or (i.is_call and instructions.is_vector_math_function(i.symbol))
            for i in loop.instructions
        )
        scalar = sum(
            instructions.is_scalar(i) or (i.is_call and instructions.is_scalar_math_function(i.symbol))
            for i in loop.instructions
        )
        if packed + scalar:
            shares.append(packed / (packed + scalar))
    return sum(shares) / len(shares) if shares else None


def _loop_remark(loop: MachineLoop) -> Remark:
    """A remark on what slows one source loop down by its machine code; the text is empty where nothing does."""
    calls = sorted(
        {i.symbol for i in loop.instructions if i.is_call and instructions.is_scalar_math_function(i.symbol)}
    )
    parts = [f"calls {', '.join(calls)} for each element"] if calls else []
    if loops.is_serial_reduction(loop):
        parts.append("accumulates one element at a time in a serial chain")
    if loops.is_strided(loop):
        parts.append("walks memory with a run-time stride")
    if any(instructions.is_divide(i) for i in loop.instructions):
        parts.append("divides")
    return Remark(tool="objdump", line=loop.line, kind="note", text="loop " + "; ".join(parts) if parts else "")


def _with_lines(build: Job) -> Job:
    """Return a build that also leaves its disassembly with line numbers, where there is a disassembler."""
    listing = f"-dl --no-show-raw-insn --demangle kernel.so > {LINES} 2> /dev/null"
    command = f"{shlex.join(build.argv)} && (objdump {listing} || llvm-objdump {listing} || rm -f {LINES})"
    return build.model_copy(update={"argv": ("sh", "-c", command), "results": (*build.results, LINES)})
