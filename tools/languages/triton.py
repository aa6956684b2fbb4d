"""Triton kernels in Python: `run_kernel(**kwargs)` launches them on tensors that are passed by name.

Nothing is linked: a build's output is the source itself. The build compiles every kernel that `run_kernel` launches at
the task's workloads, for the GPU of the machine, or for sm_90 without a GPU. `build_flags: [--target=sm_80]` names
another target.
"""

from __future__ import annotations

import ast
import json
import re

from tools.artifacts import Candidate, Task
from tools.contracts import checked_cases
from tools.errors import SettingsError
from tools.executors.base import Executor, FinishedJob, Job, Limits
from tools.executors.harness_job import harness_files, harness_version
from tools.executors.protocol import KWARGS_PARAMETER, Parameter
from tools.executors.toolchain import Compiler, Toolchain
from tools.languages import triton_interpreter, triton_setup
from tools.languages.base import MAX_PINNED_KERNELS, UNTUNED_PHRASE, Language, PinnedKernel
from tools.languages.triton_interpreter import InterpreterResult
from tools.languages.triton_source import count_autotune_configs, parse_module, pin_autotune, written_configs
from tools.store.blobs import Blobs

ENTRY = "run_kernel"
ENTRY_SIGNATURE = "def run_kernel(**kwargs) with the arguments of make_inputs by name"
KERNEL_FILE = "kernel.py"
_COMPILE_SCRIPT = "harness/compilation/triton_compile.py"
_COMPILED_ARCHIVE = "compiled.tar"
SUPPORTED_TARGETS = ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")
"""Targets that Triton supports: compute capability 8.0 and above (its README, https://github.com/triton-lang/triton).
Triton offers no list, and it aborts for a target that its LLVM does not know. A kernel compiled for each of these with
triton 3.9; older versions may support fewer."""
_TARGET_FLAG = re.compile(r"--target=(\w+)")
_PAST_END_ERROR = "IndexError: list index out of range"
"""Error of a build whose config number is past the end of a computed list."""
_NOT_FOUND_MESSAGE = (
    "Triton was not found; install it: `pip install triton` (Linux on x86-64 or aarch64), and torch with it"
)
_BUILD_LIMITS = Limits(wall_s=180.0, memory_bytes=32 << 30)


class Triton(Language):
    """Triton, compiled ahead of time by the installed `triton` package and run by the harness."""

    name = "triton"
    suffix = ".py"
    build_output = KERNEL_FILE
    device = "cuda"
    host_code_has_torch = True
    entry = ENTRY
    listing_shows_calls = True
    clock_description = (
        "Paired times are the device's own, without launches; a confirmation uses both clocks, and its claim names "
        "one of them; the final benchmark uses the wall clock, with launches, and also shows the device's times."
    )

    def compiler(self, toolchain: Toolchain) -> Compiler:
        """Return the package; SettingsError if it is missing."""
        version = toolchain.packages.get("triton")
        if version is None:
            raise SettingsError(_NOT_FOUND_MESSAGE)
        return Compiler(name="triton", version=version, family="triton", argv=("{python}", "-m", "triton"))

    def parameters(self, source: str) -> tuple[Parameter, ...]:
        """Return the parameters of `run_kernel` by name and without types; `**kwargs` is `KWARGS_PARAMETER`."""
        function = _find_entry(source)
        arguments = function.args
        if arguments.posonlyargs or arguments.vararg:
            raise SettingsError(f"{KERNEL_FILE}: `{ENTRY}` takes positional arguments; write {ENTRY_SIGNATURE}")
        parameters_by_name = [*arguments.args, *arguments.kwonlyargs]
        required_count = len(arguments.args) - len(arguments.defaults)
        optional = {a.arg for a in arguments.args[required_count:]}
        optional |= {
            a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None
        }
        parameters = [
            Parameter(name=a.arg, dtype=None, pointer=None, optional=a.arg in optional) for a in parameters_by_name
        ]
        return (
            *parameters,
            *((Parameter(name=KWARGS_PARAMETER, dtype=None, pointer=None, optional=True),) if arguments.kwarg else ()),
        )

    def freeze_sources(self, source: str, reference: str) -> tuple[str, str, tuple[str, ...]]:
        """Return the kernel with autotuned kernels pinned to their first config, the reference (with the kernel's
        setup() if it has no make_inputs), and a sentence for each change."""
        notes = []
        for kernel, count in count_autotune_configs(source).items():
            if count is None or count > 1:
                notes.append(
                    f"`{kernel}` is autotuned over {count or 'computed'} configs; it is pinned to the first, for "
                    f"baseline and candidates, {UNTUNED_PHRASE}."
                )
        frozen_reference = triton_setup.add_make_inputs(source, reference)
        if frozen_reference != reference:
            notes.append(
                "The inputs come from setup() in the kernel's file, which is frozen with the task; a candidate's own "
                "setup() is not called."
            )
        return pin_autotune(source), frozen_reference, tuple(notes)

    def takes_stream(self, source: str) -> bool:
        """True: Triton launches on torch's current stream."""
        return True

    def flags(self, task: Task, toolchain: Toolchain | None = None) -> tuple[str, ...]:
        """Return the --target flag of the task, if it has one; SettingsError for any other flag."""
        for flag in task.build_flags:
            if not _TARGET_FLAG.fullmatch(flag):
                raise SettingsError(
                    f"build_flags: {flag!r} cannot be used with Triton; allowed is --target= with one of "
                    f"{', '.join(SUPPORTED_TARGETS)}"
                )
            if flag.partition("=")[2] not in SUPPORTED_TARGETS:
                raise SettingsError(
                    f"build_flags: {flag!r} names a GPU that Triton does not support; allowed are "
                    f"{', '.join(SUPPORTED_TARGETS)}"
                )
        return task.build_flags

    def build(
        self,
        task: Task,
        candidate: Candidate,
        blobs: Blobs,
        toolchain: Toolchain,
        *,
        extra_flags: tuple[str, ...] = (),
    ) -> Job:
        """Return the job that compiles every kernel that `run_kernel` launches at the visible workloads; its output is
        the source."""
        if set(candidate.files) != {KERNEL_FILE}:
            raise SettingsError(
                f"a Python kernel is one file named {KERNEL_FILE}, not the files {', '.join(sorted(candidate.files))}"
            )
        return self._job(task, blobs.put(candidate.source), blobs, listing=False)

    def build_output_digest(self, finished: FinishedJob) -> str | None:
        """Return the sha256 of the kernel's source, which is what runs, or None if it does not compile."""
        return finished.files.get(KERNEL_FILE) if finished.exit_code == 0 else None

    def compiled_cache_digest(self, finished: FinishedJob) -> str | None:
        """Return the sha256 of the archive with machine code for this machine's GPU, at the visible workloads and the
        sizes derived from them; None if there is none."""
        return finished.files.get(_COMPILED_ARCHIVE) if finished.exit_code == 0 else None

    def trim_log(self, log: str) -> str:
        """Return the log without repeated lines, success messages and paths of the job; 40 lines at most."""
        lines = [re.sub(r"/\S*/(?=kernel\.py)", "", line.rstrip()) for line in log.splitlines()]
        shown = [line for line in dict.fromkeys(lines) if line and not line.startswith("compiled ")]
        if len(shown) > 40:
            shown = [*shown[:39], f"… {len(shown) - 39} more lines"]
        return "\n".join(shown)

    def disassembly_job(self, library: str, blobs: Blobs, toolchain: Toolchain, task: Task | None = None) -> Job:
        """Return the job that compiles `library` for its target and writes `assembly.txt` (SASS) and `facts.json`
        (registers, stack, shared memory)."""
        if task is None:
            raise SettingsError("the machine code of a Python kernel depends on its launches; give the task as well")
        blobs.path(library)
        return self._job(task, library, blobs, listing=True)

    def interpret(self, task: Task, source: str, executor: Executor, blobs: Blobs) -> InterpreterResult | None:
        """Check the kernel at small sizes in Triton's interpreter on the CPU."""
        return triton_interpreter.run_interpreter(task, source, executor, blobs)

    def pinned_kernels(self, source: str) -> tuple[PinnedKernel, ...]:
        """Return the source pinned to each autotune config by number, the same number for all its kernels.

        The number of computed configs is unknown, so `MAX_PINNED_KERNELS` variants are returned; the build of a config
        past the end of the list fails with `past_end_error`.
        """
        module = parse_module(source)
        counts = count_autotune_configs(source)
        configs_by_kernel = {name: written_configs(module, module.kernels[name]) for name in counts} if module else {}
        choices = {
            name: configs for name, configs in configs_by_kernel.items() if counts[name] is None or len(configs) > 1
        }
        has_computed_configs = any(counts[name] is None for name in choices)
        count = MAX_PINNED_KERNELS if has_computed_configs else max(map(len, choices.values()), default=0)
        return tuple(
            PinnedKernel(
                label="; ".join(
                    f"{name}: {configs[min(index, len(configs) - 1)].text if configs else f'computed config {index}'}"
                    for name, configs in choices.items()
                ),
                source=pin_autotune(source, index),
                past_end_error=_PAST_END_ERROR if has_computed_configs else "",
            )
            for index in range(count)
        )

    def _job(self, task: Task, kernel: str, blobs: Blobs, *, listing: bool) -> Job:
        target = next((m[1] for flag in self.flags(task) if (m := _TARGET_FLAG.fullmatch(flag))), "")
        request = {
            "reference": task.reference,
            "workloads": [w.dims for w in task.workloads],
            # Derived sizes are public. Hidden dims never reach a process that runs a candidate's code outside the
            # judge.
            "ahead": [dims for dims, *_ in checked_cases.derive_sizes(task).values()],
            "target": target,
            "listing": listing,
        }
        return Job(
            files={**harness_files(blobs), KERNEL_FILE: kernel, "build.json": blobs.put(json.dumps(request))},
            argv=("{python}", "-I", _COMPILE_SCRIPT),
            limits=_BUILD_LIMITS,
            results=(KERNEL_FILE, "assembly.txt", "facts.json", _COMPILED_ARCHIVE),
            warm=f"triton-{harness_version()}",
        )


def _find_entry(source: str) -> ast.FunctionDef:
    module = parse_module(source)
    if module is None:
        try:
            ast.parse(source)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", 1)
            raise SettingsError(
                f"{KERNEL_FILE}:{line}: not valid Python ({getattr(error, 'msg', error)}); correct it; "
                f"the entry is `{ENTRY}`"
            ) from None
    function = module.functions.get(ENTRY) if module is not None else None
    if function is None:
        raise SettingsError(
            f"{KERNEL_FILE}: there is no function `{ENTRY}`; the kernel's entry must be {ENTRY_SIGNATURE}"
        )
    return function
