"""Compiles a Triton kernel without running it: records what run_kernel launches on tensors without storage, and
compiles just that.

`triton_compile.py` answers `build.json` in the job's folder: {"reference", "workloads", "ahead", "target", "listing"};
errors go to stderr.txt, what could not be done to stdout.txt, machine code and its facts to assembly.txt and
facts.json. Beside the GPU that was compiled for, what the compiler made goes to compiled.tar, where the launches to
come find it; those at the dims of "ahead" are compiled for that alone. The candidate's code runs, and is compiled, in a
confined child that writes to a folder of its own, from which plain files are taken over: what it was given stays as it
is. With `--serve` it reads lines {"folder": path} on stdin, forks for each and answers {"exit": code}: torch and triton
are imported once, and never used before a fork.
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

# For this import alone: what else lies in the job's folder, a candidate's kernel.py among it, is not to be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.compilation import cache, fake_driver
from harness.compilation.triton_launches import BuildError, Launch, Recorder, located
from harness.device import cuda_attributes
from harness.isolation import confinement, ipc, sandbox

KERNEL = "kernel.py"
DEFAULT = "sm_90"
MOST = 16
"""Distinct specialisations compiled for one kernel file."""
WALL_S = 120
AHEAD_S = 30
"""Seconds for what is compiled for the cache alone; a kernel may take longer, or for ever, at dims that nobody asks
for in the end."""
WIDTH = min(os.cpu_count() or 1, 8)
MADE, CACHE, WHOLE, COMPILED = "made", "cache", "whole", "compiled.tar"
"""The folder in a job's own that the child may write to, the compiler's cache in it, its name once it holds all that
the workloads launch as far as is known, and what the job leaves of that."""
SAID = ("stdout.txt", "stderr.txt", "assembly.txt", "facts.json")
"""What the child may leave in the job's folder."""


def load(folder: Path):
    """The kernel's module, imported from the job's folder; BuildError names the line."""
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
    """sm_90 -> what Triton calls it; without a name the GPU that is here (looked up once, before any fork), else the
    default."""
    from triton.backends.compiler import GPUTarget

    name = name or (f"sm_{gpu()['major']}{gpu()['minor']}" if gpu() else DEFAULT)
    return name, GPUTarget("cuda", int(re.sub(r"\D", "", name)), 32)


@functools.cache
def gpu() -> dict:
    """What the driver reports of the GPU that jobs run on; asked once, before any fork."""
    return cuda_attributes.attributes_of_job_gpu()


def compiled(recorder: Recorder, target, aside: "Aside") -> tuple[list[dict], list[str]]:
    """Compile each launch once; BuildError with the compiler's words."""
    made, notes = [], []
    launches = list(recorder.launches.values())
    if len(launches) > MOST:
        notes.append(f"{len(launches) - MOST} more specialisations were not compiled")
    aside.all(launches[1:MOST], launches[:MOST])
    for at, launch in enumerate(launches[:MOST]):
        if at == 1:
            aside.wait()
        try:
            done = compile_one(launch, target)
        except BaseException as error:
            raise BuildError(f"{told(launch.function, error)}") from error
        settings = launch.settings() | {
            "num_warps": str(done.metadata.num_warps),
            "num_stages": str(launch.given.get("num_stages", "")),
        }
        made.append(
            {
                "kernel": launch.function.__name__,
                "settings": settings,
                "shared": done.metadata.shared,
                "cubin": done.asm["cubin"],
            }
        )
    return made, notes


def compile_one(launch: Launch, target):
    import triton

    return triton.compile(launch.source(), target=target, options=launch.options.__dict__)


def compile_launcher(launch: Launch) -> None:
    """The C code around a launch, where this version of Triton compiles some; it is in the cache before what needs a
    GPU fails."""
    from triton.backends.nvidia.driver import CudaLauncher

    CudaLauncher(launch.source(), None)


class Aside:
    """Children that compile side by side, for the cache alone: an error is met again by whoever needs the code."""

    def __init__(self, target, *, useful: bool):
        self.target, self.useful = target, useful
        self.running: list[int] = []

    def do(self, work) -> None:
        """In a child of its own, for a limited time, and for nothing where it is of no use."""
        if not self.useful:
            return
        if len(self.running) >= WIDTH:
            self._await(self.running.pop(0))
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

    def all(self, kernels: list[Launch], launchers: list[Launch]) -> None:
        for launch in kernels:
            self.do(functools.partial(compile_one, launch, self.target))
        # A launcher depends on the types alone, and with a descriptor on more than is known before its kernel is
        # compiled.
        distinct = {str(launch.signature): launch for launch in launchers if "tensordesc" not in str(launch.signature)}
        for launch in distinct.values():
            self.do(functools.partial(compile_launcher, launch))

    def ahead(self, recorder: Recorder, dims: list[dict]) -> None:
        """What is launched at dims that the kernel will be run at later."""

        def work() -> None:
            found = recorder.ahead(dims)[:MOST]
            self.all(found, found)
            self.wait()

        if dims:
            self.do(work)

    def wait(self) -> None:
        while self.running:
            self._await(self.running.pop())

    @staticmethod
    def _await(child: int) -> None:
        with contextlib.suppress(
            ChildProcessError
        ):  # the kernel's file may have waited for all of its process's children
            os.waitpid(child, 0)


def reused(request: dict) -> bool:
    """Whether the harness will run the kernel on the GPU here, as it was compiled for it."""
    return bool(gpu()) and not request.get("listing") and target_of(request.get("target", ""))[0] == target_of("")[0]


def told(function, error: BaseException) -> str:
    """A compiler's complaint with the user's own lines, the innermost first: Triton counts from the first line of
    each function, and its last words may be about one of its own."""
    source, frames, inner = Path(function.fn.__code__.co_filename).read_text(), [], error
    while True:
        text, node = getattr(inner, "src", None) or function.src, getattr(inner, "node", None)
        if hasattr(node, "lineno") and text in source:
            line = source.count("\n", 0, source.index(text)) + node.lineno
            frames.append((line, text.partition("(")[0].removeprefix("def "), node.col_offset))
        if inner.__cause__ is None:
            break
        inner = inner.__cause__
    (last, name, _), *_ = reversed(frames := frames or [(function.starting_line_number, function.__name__, 0)])
    said = str(inner.error_message or "" if hasattr(inner, "error_message") else inner).strip() or type(inner).__name__
    heads = [
        f"{KERNEL}:{last}: error: in {name}: {said}",
        *(f"{KERNEL}:{line}: called here" for line, *_ in reversed(frames[:-1])),
    ]
    lines = source.split("\n")
    quoted = [f"    {lines[line - 1]}\n    {' ' * column}^" for line, _, column in reversed(frames)]
    return "\n".join(f"{head}\n{code}" for head, code in zip(heads, quoted, strict=True))


def listing(made: list[dict], folder: Path) -> tuple[str, list[dict]]:
    """Disassembly in objdump's layout under a table of launches, and each kernel's registers, stack and shared
    bytes."""
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    lines, facts = ["0000000000000000 <run_kernel>:"], []
    names = [f"{m['kernel']}_{at}" for at, m in enumerate(made)]
    lines += [f"   {at:x}:\tlaunch\tkernel <{name}>" for at, name in enumerate(names)]
    for name, one in zip(names, made, strict=True):
        path = folder / f"{name}.cubin"
        path.write_bytes(one.pop("cubin"))
        said = cuobjdump(tools, "-res-usage", path)
        usage = {word.lower(): int(value) for word, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", said)}
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
    done = subprocess.run(
        [str(tools / "cuobjdump"), what, str(cubin)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PATH": f"{tools}:{os.environ.get('PATH', '')}"},
    )
    return done.stdout


def answer(folder: Path) -> int:
    """One job, in the child: 0 when the kernel may go on, 1 when it does not compile."""
    request, made_in = json.loads((folder / "build.json").read_text()), folder / MADE
    os.environ["TRITON_CACHE_DIR"] = str(made_in / CACHE)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(made_in / "inductor")
    said: list[str] = []
    try:
        name, target = target_of(request.get("target", ""))
        stand_ins = fake_driver.of_target(target.arch, gpu())
        stand_ins.install(folder / KERNEL)
        recorder = Recorder(load(folder), request["reference"], target, folder / KERNEL)
        recorder.install()
        for dims in request["workloads"]:
            recorder.follow(dims)
        early, aside = (Aside(target, useful=reused(request)) for _ in range(2))
        early.ahead(recorder, request.get("ahead", []))
        made, more = compiled(recorder, target, aside)
        notes = [*recorder.notes, *more]
        notes += [f"stand-ins answered what the kernel asks of the GPU: {what}" for what in sorted(stand_ins.asked)]
        said = [f"compiled {len(made)} specialisations for {name}", *notes]
        aside.wait()
        early.wait()
        if not (recorder.notes or more):
            with contextlib.suppress(OSError):
                (made_in / CACHE).rename(made_in / WHOLE)
        if request.get("listing"):
            text, facts = listing(made, made_in)
            (made_in / "assembly.txt").write_text(text)
            (made_in / "facts.json").write_text(json.dumps({"target": name, "kernels": facts, "notes": notes}))
    except BuildError as error:
        (made_in / "stderr.txt").write_text(f"{error}\n")
        return 1
    except BaseException:
        (made_in / "stderr.txt").write_text(traceback.format_exc())
        return 2
    finally:
        (made_in / "stdout.txt").write_text("\n".join(said) + "\n")
    return 0


def forked(folder: Path) -> int:
    """Answer in a confined child; its exit status, 2 when it died."""
    made = folder / MADE
    made.mkdir()
    ready()
    status = confinement.run(lambda: answer(folder), WALL_S, (folder, Path(__file__).parents[1]), made)
    confinement.hand_over(made, folder, SAID)
    if os.WIFEXITED(status):
        if os.WEXITSTATUS(status) == 0 and reused(json.loads((folder / "build.json").read_text())):
            with contextlib.suppress(OSError):
                cache.pack(made / WHOLE, folder / COMPILED)
        return os.WEXITSTATUS(status)
    (folder / "stderr.txt").write_text(f"{KERNEL}:1: error: the compiler was ended by signal {os.WTERMSIG(status)}\n")
    return 2


def ready() -> None:
    """Ask once what those who are shut in cannot: for the GPU, and for what C code around a launch is compiled with
    and kept under."""
    if gpu():
        from triton.backends.nvidia import driver
        from triton.runtime import build

        with contextlib.suppress(Exception):
            driver.library_dirs()
            build.platform_key()


def serve() -> None:
    import torch
    import triton.backends.compiler
    import triton.compiler  # noqa: F401
    from torch._subclasses.fake_tensor import FakeTensorMode

    ready()
    # The first tensor without storage loads most of torch's Python; nothing is computed, so that forks stay safe.
    with FakeTensorMode(allow_non_fake_inputs=True):
        (torch.randn(4, 4, generator=torch.Generator()).to(torch.float16) / 2).contiguous()
    ipc.serve_jobs(lambda order: forked(Path(order["folder"])))


if __name__ == "__main__":
    os.environ.update({"TRITON_DEFAULT_FP_FUSION": "1", "TRITON_INTERPRET": "0"})
    if "--serve" in sys.argv:
        serve()
    else:
        sys.exit(forked(Path.cwd()))
