"""Compiles a Triton kernel without running it: records what run_kernel launches on tensors without storage, and
compiles these launches.

The script reads `build.json` in the job's folder: {"reference", "workloads", "ahead", "target", "listing"}. Errors go
to stderr.txt, notes on what could not be compiled to stdout.txt, and machine code and its facts to assembly.txt and
facts.json. If the local GPU is the target, the compiler's cache goes to compiled.tar, where later launches find it;
launches at the dims of "ahead" are compiled for this cache only. The candidate's code is run and compiled in a confined
child that writes to a folder of its own; plain files are then moved from there, so that the job's inputs stay
unchanged. With `--serve` the script reads lines {"folder": path} on stdin, forks for each and answers {"exit": code};
torch and triton are imported once, and never used before a fork.
"""

import contextlib
import functools
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import traceback
from pathlib import Path

# For this import only: other files of the job's folder, such as a candidate's kernel.py, must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.compilation import cache, fake_driver
from harness.compilation.triton_launches import BuildError, Launch, Recorder, located
from harness.device import cuda_attributes
from harness.isolation import confinement, ipc, sandbox

KERNEL = "kernel.py"
DEFAULT = "sm_90"
MAX_SPECIALISATIONS = 16
"""Most specialisations that are compiled for one kernel file."""
WALL_S = 120
"""Seconds that one job may take."""
AHEAD_S = 30
"""Seconds that compiling one launch for the cache alone may take, because a kernel may take long, or never end, at dims
that are not used later."""
WIDTH = min(os.cpu_count() or 1, 8)
"""Most compilations at once."""
MADE, CACHE, WHOLE, COMPILED = "made", "cache", "whole", "compiled.tar"
"""The folder in a job's own that the child may write to, the compiler's cache in it, its name once it holds all that
the workloads launch as far as is known, and what the job leaves of that."""
CHILD_RESULT_FILES = ("stdout.txt", "stderr.txt", "assembly.txt", "facts.json")
"""Files that the child may leave in the job's folder."""


def load(folder: Path):
    """Import the kernel's module from the job's folder; BuildError names the line."""
    path = folder / KERNEL
    specification = importlib.util.spec_from_file_location("kernel", path)
    module = importlib.util.module_from_spec(specification)
    sys.modules["kernel"] = module
    try:
        specification.loader.exec_module(module)
    except SyntaxError as error:
        raise BuildError(f"{KERNEL}:{error.lineno}: error: {error.msg}\n{(error.text or '').rstrip()}") from error
    except BaseException as error:
        raise BuildError(located(error, path)) from error
    if not callable(getattr(module, "run_kernel", None)):
        raise BuildError(f"{KERNEL}:1: error: there is no function run_kernel(**kwargs)")
    return module


def target_of(name: str):
    """Return a target's name, as "sm_90", and Triton's object for it. An empty name means the local GPU, or the default
    if there is none."""
    from triton.backends.compiler import GPUTarget

    name = name or (f"sm_{gpu()['major']}{gpu()['minor']}" if gpu() else DEFAULT)
    return name, GPUTarget("cuda", int(re.sub(r"\D", "", name)), 32)


@functools.cache
def gpu() -> dict:
    """Return the driver's attributes of the GPU that jobs run on; read once, before any fork."""
    return cuda_attributes.attributes_of_job_gpu()


def compiled(recorder: Recorder, target, aside: "Aside") -> tuple[list[dict], list[str]]:
    """Compile each launch once; BuildError carries the compiler's message. Returns the results and notes."""
    results, notes = [], []
    launches = list(recorder.launches.values())
    if len(launches) > MAX_SPECIALISATIONS:
        notes.append(f"{len(launches) - MAX_SPECIALISATIONS} more specialisations were not compiled")
    aside.compile_all(launches[1:MAX_SPECIALISATIONS], launches[:MAX_SPECIALISATIONS])
    for at, launch in enumerate(launches[:MAX_SPECIALISATIONS]):
        if at == 1:
            aside.wait()
        try:
            result = compile_one(launch, target)
        except BaseException as error:
            raise BuildError(f"{locate_compile_error(launch.function, error)}") from error
        settings = launch.settings() | {
            "num_warps": str(result.metadata.num_warps),
            "num_stages": str(launch.given.get("num_stages", "")),
        }
        results.append(
            {
                "kernel": launch.function.__name__,
                "settings": settings,
                "shared": result.metadata.shared,
                "calls": list(launch.calls),
                "cubin": result.asm["cubin"],
            }
        )
    return results, notes


def compile_one(launch: Launch, target):
    """Compile one launch."""
    import triton

    return triton.compile(launch.source(), target=target, options=launch.options.__dict__)


def compile_launcher(launch: Launch) -> None:
    """Compile the C code around a launch, where this version of Triton has any. It is in the cache before the step that
    needs a GPU fails."""
    from triton.backends.nvidia.driver import CudaLauncher

    CudaLauncher(launch.source(), None)


class Aside:
    """Compiles in child processes for the cache only; errors are ignored, because the process that needs the code meets
    them again."""

    def __init__(self, target, *, useful: bool):
        self.target, self.useful = target, useful
        self.running: list[int] = []

    def start(self, work) -> None:
        """Call `work` in a child with a time limit; does nothing if the cache is not used."""
        if not self.useful:
            return
        if len(self.running) >= WIDTH:
            self._wait_for(self.running.pop(0))
        parent, child = os.getpid(), os.fork()
        if child == 0:
            try:
                signal.alarm(AHEAD_S)
                sandbox.die_with_parent(parent)
                self.running = []
                work()
            finally:
                os._exit(0)
        self.running.append(child)

    def compile_all(self, kernels: list[Launch], launchers: list[Launch]) -> None:
        """Compile these kernels and launchers."""
        for launch in kernels:
            self.start(functools.partial(compile_one, launch, self.target))
        # A launcher depends on the types only. With a descriptor it also depends on facts that are unknown before its
        # kernel is compiled.
        distinct = {str(launch.signature): launch for launch in launchers if "tensordesc" not in str(launch.signature)}
        for launch in distinct.values():
            self.start(functools.partial(compile_launcher, launch))

    def compile_ahead(self, recorder: Recorder, dims: list[dict]) -> None:
        """Compile the launches at dims that the kernel is run with later."""

        def work() -> None:
            found = recorder.new_launches_at(dims)[:MAX_SPECIALISATIONS]
            self.compile_all(found, found)
            self.wait()

        if dims:
            self.start(work)

    def wait(self) -> None:
        """Wait for all children."""
        while self.running:
            self._wait_for(self.running.pop())

    @staticmethod
    def _wait_for(child: int) -> None:
        """Wait for one child."""
        with contextlib.suppress(
            ChildProcessError
        ):  # the kernel's file may have waited for all children of its process
            os.waitpid(child, 0)


def reused(request: dict) -> bool:
    """Whether the harness will run the kernel on the local GPU with the code compiled here."""
    return bool(gpu()) and not request.get("listing") and target_of(request.get("target", ""))[0] == target_of("")[0]


def locate_compile_error(function, error: BaseException) -> str:
    """Return a compiler's error with the lines of the kernel's file, the innermost first.

    Triton counts lines from the first of each function, and its last message may be about one of its own functions.
    """
    source, locations, cause = Path(function.fn.__code__.co_filename).read_text(), [], error
    while True:
        text, node = getattr(cause, "src", None) or function.src, getattr(cause, "node", None)
        if hasattr(node, "lineno") and text in source:
            line = source.count("\n", 0, source.index(text)) + node.lineno
            locations.append((line, text.partition("(")[0].removeprefix("def "), node.col_offset))
        if cause.__cause__ is None:
            break
        cause = cause.__cause__
    (last_line, name, _), *_ = reversed(
        locations := locations or [(function.starting_line_number, function.__name__, 0)]
    )
    message = (
        str(cause.error_message or "" if hasattr(cause, "error_message") else cause).strip() or type(cause).__name__
    )
    heads = [
        f"{KERNEL}:{last_line}: error: in {name}: {message}",
        *(f"{KERNEL}:{line}: called here" for line, *_ in reversed(locations[:-1])),
    ]
    lines = source.split("\n")
    quoted = [f"    {lines[line - 1]}\n    {' ' * column}^" for line, _, column in reversed(locations)]
    return "\n".join(f"{head}\n{code}" for head, code in zip(heads, quoted, strict=True))


def listing(kernels: list[dict], notes: list[str], folder: Path) -> tuple[str, list[dict]]:
    """Return the disassembly in objdump's layout below a table of launches and of what is missing in it (`notes`), and
    each kernel's registers, stack and shared bytes."""
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    lines, facts = ["0000000000000000 <run_kernel>:"], []
    names = [f"{m['kernel']}_{at}" for at, m in enumerate(kernels)]
    calls = [(name, "; ".join(one.pop("calls"))) for name, one in zip(names, kernels, strict=True)]
    lines += [f"   {at:x}:\tlaunch\tkernel {made} <{name}>" for at, (name, made) in enumerate(calls)]
    lines += [f"   0:\tincomplete\t{note}" for note in notes]
    for name, one in zip(names, kernels, strict=True):
        path = folder / f"{name}.cubin"
        path.write_bytes(one.pop("cubin"))
        output = cuobjdump(tools, "-res-usage", path)
        usage = {word.lower(): int(value) for word, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", output)}
        code = re.findall(
            r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;",
            cuobjdump(tools, "-sass", path),
            re.M,
        )
        lines += ["", f"{'0':0>16} <{name}>:"]
        lines += [
            f"   {address}:\t{mnemonic}\t{operands}{f' {guard}' if guard else ''}"
            for address, guard, mnemonic, operands in code
        ]
        path.unlink()
        counts: dict[str, int] = {}
        for _, _, mnemonic, _ in code:
            counts[mnemonic] = counts.get(mnemonic, 0) + 1
        facts.append({**one, "registers": usage.get("reg", 0), "stack": usage.get("stack", 0), "instructions": counts})
    return "\n".join(lines) + "\n", facts


def cuobjdump(tools: Path, what: str, cubin: Path) -> str:
    """Return cuobjdump's output for a file."""
    completed = subprocess.run(
        [str(tools / "cuobjdump"), what, str(cubin)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PATH": f"{tools}:{os.environ.get('PATH', '')}"},
    )
    return completed.stdout


def answer(folder: Path) -> int:
    """Compile one job in the child. Returns 0 if the kernel may be used, 1 if it does not compile, 2 for a failure of
    the harness."""
    request, output_folder = json.loads((folder / "build.json").read_text()), folder / MADE
    os.environ["TRITON_CACHE_DIR"] = str(output_folder / CACHE)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(output_folder / "inductor")
    messages: list[str] = []
    try:
        name, target = target_of(request.get("target", ""))
        stand_ins = fake_driver.of_target(target.arch, gpu())
        stand_ins.install(folder / KERNEL)
        recorder = Recorder(load(folder), request["reference"], target, folder / KERNEL)
        recorder.install()
        for dims in request["workloads"]:
            recorder.follow(dims)
        background_ahead, background = (Aside(target, useful=reused(request)) for _ in range(2))
        background_ahead.compile_ahead(recorder, request.get("ahead", []))
        results, compile_notes = compiled(recorder, target, background)
        notes = [*recorder.notes, *compile_notes]
        notes += [f"made-up answers replaced the GPU's: {what}" for what in sorted(stand_ins.asked)]
        messages = [f"compiled {len(results)} specialisations for {name}", *notes]
        background.wait()
        background_ahead.wait()
        if not (recorder.notes or compile_notes):
            with contextlib.suppress(OSError):
                (output_folder / CACHE).rename(output_folder / WHOLE)
        if request.get("listing"):
            text, facts = listing(results, [*recorder.notes, *compile_notes], output_folder)
            (output_folder / "assembly.txt").write_text(text)
            (output_folder / "facts.json").write_text(json.dumps({"target": name, "kernels": facts, "notes": notes}))
    except BuildError as error:
        (output_folder / "stderr.txt").write_text(f"{error}\n")
        return 1
    except BaseException:
        (output_folder / "stderr.txt").write_text(traceback.format_exc())
        return 2
    finally:
        (output_folder / "stdout.txt").write_text("\n".join(messages) + "\n")
    return 0


def forked(folder: Path) -> int:
    """Answer a job in a confined child and return its exit status, 2 if it died."""
    output_folder = folder / MADE
    output_folder.mkdir()
    ready()
    status = confinement.run(lambda: answer(folder), WALL_S, (folder, Path(__file__).parents[1]), output_folder)
    confinement.hand_over(output_folder, folder, CHILD_RESULT_FILES)
    if os.WIFEXITED(status):
        if os.WEXITSTATUS(status) == 0 and reused(json.loads((folder / "build.json").read_text())):
            with contextlib.suppress(OSError):
                cache.pack(output_folder / WHOLE, folder / COMPILED)
        return os.WEXITSTATUS(status)
    (folder / "stderr.txt").write_text(f"{KERNEL}:1: error: the compiler was ended by signal {os.WTERMSIG(status)}\n")
    return 2


def ready() -> None:
    """Query once what a confined child cannot: the GPU, and the compiler and cache key of C code around a launch."""
    if gpu():
        from triton.backends.nvidia import driver
        from triton.runtime import build

        with contextlib.suppress(Exception):
            driver.library_dirs()
            build.platform_key()


def serve() -> None:
    """Answer jobs from stdin."""
    import torch
    import triton.backends.compiler
    import triton.compiler  # noqa: F401
    from torch._subclasses.fake_tensor import FakeTensorMode

    ready()
    # The first tensor without storage imports most of torch; nothing is computed, so forks stay safe.
    with FakeTensorMode(allow_non_fake_inputs=True):
        (torch.randn(4, 4, generator=torch.Generator()).to(torch.float16) / 2).contiguous()
    ipc.serve_jobs(lambda order: forked(Path(order["folder"])))


if __name__ == "__main__":
    os.environ.update({"TRITON_DEFAULT_FP_FUSION": "1", "TRITON_INTERPRET": "0"})
    if "--serve" in sys.argv:
        serve()
    else:
        sys.exit(forked(Path.cwd()))
