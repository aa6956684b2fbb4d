"""Triton kernels in Python: `run_kernel(**kwargs)` launches them on the tensors that it is given by name.

Nothing is linked: what counts as the built library is the source itself, once every kernel that `run_kernel` launches
at the task's workloads has been compiled for the GPU that is here, or for sm_90 where there is none. `build_flags:
[--target=sm_80]` names another.
"""

from __future__ import annotations

import ast
import json
import re
from importlib import metadata

from tools.artifacts import Candidate, Task
from tools.contracts import checked_cases
from tools.errors import SettingsError
from tools.executors.base import Executor, FinishedJob, Job, Limits
from tools.executors.harness_job import harness_files, harness_version
from tools.executors.protocol import KWARGS_PARAMETER, Parameter
from tools.languages import triton_interpreter, triton_setup
from tools.languages.base import MOST_PINNED, UNTUNED, Language, PinnedKernel, Toolchain
from tools.languages.triton_interpreter import Interpreted
from tools.languages.triton_source import autotune_configs, configs, pin_autotune, read
from tools.store.records import Blobs

ENTRY = "run_kernel"
SHAPE = "def run_kernel(**kwargs) with the arguments of make_inputs by name"
KERNEL = "kernel.py"
_SCRIPT = "harness/compilation/triton_compile.py"
_COMPILED = "compiled.tar"
TARGETS = ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")
"""Triton supports compute capability 8.0 and above (its README, https://github.com/triton-lang/triton); it has no
list to ask, and for a target that its LLVM does not know it aborts. A product compiled to each of these with triton
3.9; an older one may know fewer."""
_TARGET = re.compile(r"--target=(\w+)")
_BEHIND = "IndexError: list index out of range"
"""What the build says of a config's number that a computed list does not reach."""
_MISSING = "Triton was not found; install it: `pip install triton` (Linux on x86-64 or aarch64), and torch with it"
_LIMITS = Limits(wall_s=180.0, memory_bytes=32 << 30)


class Triton(Language):
    """Triton, compiled ahead by the `triton` package found here and run by the harness."""

    name = "triton"
    suffix = ".py"
    library = KERNEL
    device = "cuda"
    beside_torch = True
    entry = ENTRY
    clocks = (
        "Paired times are the device's own, launches not included; a confirmation has both clocks, and its claim "
        "names the one; "
        "the final benchmark is by the wall clock, launches included, with the device's times beside it."
    )

    def toolchain(self) -> Toolchain:
        """The installed package, by its metadata; SettingsError when it is missing."""
        try:
            version = metadata.version("triton")
        except metadata.PackageNotFoundError:
            raise SettingsError(_MISSING) from None
        return Toolchain(name="triton", version=version, family="triton", argv=("{python}", "-m", "triton"))

    def parameters(self, source: str) -> tuple[Parameter, ...]:
        """Parameters of `run_kernel` by name, without types, which Python does not give; `**kwargs` stands as
        `EVERYTHING`."""
        function = _entry(source)
        arguments = function.args
        if arguments.posonlyargs or arguments.vararg:
            raise SettingsError(f"{KERNEL}: `{ENTRY}` takes arguments by position only; write {SHAPE}")
        named = [*arguments.args, *arguments.kwonlyargs]
        spare = len(arguments.args) - len(arguments.defaults)
        optional = {a.arg for a in arguments.args[spare:]}
        optional |= {
            a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None
        }
        found = [Parameter(name=a.arg, dtype=None, pointer=None, optional=a.arg in optional) for a in named]
        return (
            *found,
            *((Parameter(name=KWARGS_PARAMETER, dtype=None, pointer=None, optional=True),) if arguments.kwarg else ()),
        )

    def frozen(self, source: str, reference: str) -> tuple[str, str, tuple[str, ...]]:
        """The kernel with autotuned kernels pinned to one config, the reference with the kernel's setup() where it
        makes no inputs."""
        notes = []
        for kernel, count in autotune_configs(source).items():
            if count is None or count > 1:
                notes.append(
                    f"`{kernel}` is autotuned over {count or 'computed'} configs; it is pinned to the first, for "
                    f"baseline and candidates, "
                    f"{UNTUNED}."
                )
        logic = triton_setup.frozen(source, reference)
        if logic != reference:
            notes.append(
                "The inputs are those of setup() in the kernel's file, read once and frozen; a candidate's own is "
                "not called."
            )
        return pin_autotune(source), logic, tuple(notes)

    def flags(self, task: Task) -> tuple[str, ...]:
        """The target that the task names, if it does; Triton has no other flags here."""
        for flag in task.build_flags:
            if not _TARGET.fullmatch(flag):
                raise SettingsError(
                    f"build_flags: {flag!r} cannot be used with Triton; allowed is --target= with one of "
                    f"{', '.join(TARGETS)}"
                )
            if flag.partition("=")[2] not in TARGETS:
                raise SettingsError(
                    f"build_flags: {flag!r} names no GPU that Triton compiles for; allowed are {', '.join(TARGETS)}"
                )
        return task.build_flags

    def build(self, task: Task, candidate: Candidate, blobs: Blobs, *, extra_flags: tuple[str, ...] = ()) -> Job:
        """The job that compiles every kernel that `run_kernel` launches at the visible workloads, and leaves the
        source as the library."""
        if set(candidate.files) != {KERNEL}:
            raise SettingsError(
                f"a kernel in Python is one file named {KERNEL}, not the files {', '.join(sorted(candidate.files))}"
            )
        return self._job(task, blobs.put(candidate.source), blobs, listing=False)

    def built(self, finished: FinishedJob) -> str | None:
        """sha256 of the kernel's source, which is what runs, or None when it does not compile."""
        return finished.files.get(KERNEL) if finished.exit_code == 0 else None

    def compiled(self, finished: FinishedJob) -> str | None:
        """sha256 of the machine code for the GPU that is here, at the visible workloads and at the sizes derived
        from them."""
        return finished.files.get(_COMPILED) if finished.exit_code == 0 else None

    def trim(self, log: str) -> str:
        """The lines that name what is wrong, with the source around them; 40 at most, without paths of the job."""
        lines = [re.sub(r"/\S*/(?=kernel\.py)", "", line.rstrip()) for line in log.splitlines()]
        kept = [line for line in dict.fromkeys(lines) if line and not line.startswith("compiled ")]
        if len(kept) > 40:
            kept = [*kept[:39], f"… {len(kept) - 39} more lines"]
        return "\n".join(kept)

    def disassemble(self, library: str, blobs: Blobs, task: Task | None = None) -> Job:
        """The job that compiles `library` for its target and writes `assembly.txt` (SASS) and `facts.json`
        (registers, stack, shared)."""
        if task is None:
            raise SettingsError(
                "the machine code of a kernel in Python depends on what is launched; give the task as well"
            )
        blobs.path(library)
        return self._job(task, library, blobs, listing=True)

    def interpret(self, task: Task, source: str, executor: Executor, blobs: Blobs) -> Interpreted | None:
        """By Triton's interpreter on the CPU (`tools.languages.triton_interpreter`)."""
        return triton_interpreter.interpret(task, source, executor, blobs)

    def pinned_kernels(self, source: str) -> tuple[PinnedKernel, ...]:
        """The kernel pinned to each of its autotune configs by number, the same number for all its kernels.

        How many there are of computed ones is found by trying: as many as are compared are given, and the build of one
        behind the end of a list says so.
        """
        module = read(source)
        counts = autotune_configs(source)
        listed = {name: configs(module, module.kernels[name]) for name in counts} if module else {}
        chosen = {name: found for name, found in listed.items() if counts[name] is None or len(found) > 1}
        computed = any(counts[name] is None for name in chosen)
        count = MOST_PINNED if computed else max(map(len, chosen.values()), default=0)
        return tuple(
            PinnedKernel(
                label="; ".join(
                    f"{name}: {found[min(at, len(found) - 1)].text if found else f'number {at} of those computed'}"
                    for name, found in chosen.items()
                ),
                source=pin_autotune(source, at),
                ends=_BEHIND if computed else "",
            )
            for at in range(count)
        )

    def _job(self, task: Task, kernel: str, blobs: Blobs, *, listing: bool) -> Job:
        target = next((m[1] for flag in self.flags(task) if (m := _TARGET.fullmatch(flag))), "")
        request = {
            "reference": task.reference,
            "workloads": [w.dims for w in task.workloads],
            # Known to everybody; hidden dims are never told to a process that runs a candidate's code without judging
            # it.
            "ahead": [dims for dims, *_ in checked_cases.derived_sizes(task).values()],
            "target": target,
            "listing": listing,
        }
        return Job(
            files={**harness_files(blobs), KERNEL: kernel, "build.json": blobs.put(json.dumps(request))},
            argv=("{python}", "-I", _SCRIPT),
            limits=_LIMITS,
            results=(KERNEL, "assembly.txt", "facts.json", _COMPILED),
            warm=f"triton-{harness_version()}",
        )


def _entry(source: str) -> ast.FunctionDef:
    module = read(source)
    if module is None:
        try:
            ast.parse(source)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", 1)
            raise SettingsError(
                f"{KERNEL}:{line}: not valid Python ({getattr(error, 'msg', error)}); mend it, the entry is `{ENTRY}`"
            ) from None
    function = module.functions.get(ENTRY) if module is not None else None
    if function is None:
        raise SettingsError(f"{KERNEL}: there is no function `{ENTRY}`; the kernel's entry must be {SHAPE}")
    return function
