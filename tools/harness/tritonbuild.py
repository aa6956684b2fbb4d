"""Compiles a Triton kernel without running it: records what run_kernel launches on tensors without storage, and compiles just that.

`tritonbuild.py` answers `build.json` in the job's folder: {"reference", "workloads", "target", "listing"}; errors go to stderr.txt, what
could not be done to stdout.txt, machine code and its facts to assembly.txt and facts.json. The candidate's code runs, and is compiled,
in a confined child that writes to a folder of its own, from which plain files are taken over: what it was given stays as it is. With
`--serve` it reads lines {"folder": path} on stdin, forks for each and answers {"exit": code}: torch and triton are imported once, and
never used before a fork.
"""

import functools
import importlib.util
import json
import os
import re
import select
import subprocess
import sys
import threading
import traceback
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import confined
import standins

KERNEL = "kernel.py"
DEFAULT = "sm_90"
DTYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "i1",
}
MOST = 16
"""Distinct specialisations compiled for one kernel file."""
WALL_S = 120
MADE = "made"
"""The folder in a job's own that the child may write to."""


class BuildError(Exception):
    """The kernel's fault: the text goes to stderr."""


class NotFollowed(Exception):
    """A launch that Triton may well take, but which is not modelled here: the text is a clause."""


class Recorder:
    """Stands in for the launcher of every jitted function."""

    def __init__(self, options: frozenset[str]):
        self.options = options
        """Names that the backend takes beside the kernel's parameters."""
        self.launches: dict[tuple, tuple] = {}
        self.notes: list[str] = []

    def __call__(self, function, *args, grid, warmup=False, **kwargs):
        try:
            self.record(function, args, grid, kwargs)
        except NotFollowed as error:
            note = f"not followed: {function.__name__}: {error}"
            if note not in self.notes:
                self.notes.append(note)

    def record(self, function, args, grid, kwargs) -> None:
        options = {name: kwargs.pop(name) for name in tuple(kwargs) if name in self.options and name not in function.arg_names}
        try:
            bound = function.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BuildError(f"{function.__name__}: its launch does not fit its parameters: {error}") from error
        bound.apply_defaults()
        size = grid(dict(bound.arguments)) if callable(grid) else grid
        if not isinstance(size, tuple | list) or not all(isinstance(n, int) and n > 0 for n in size):
            raise BuildError(f"{function.__name__}: its grid is {size!r}; it must be a tuple of positive whole numbers")
        signature, constants, attributes = {}, {}, {}
        for at, parameter in enumerate(function.params):
            kind, constant, aligned = specialised(bound.arguments[parameter.name], parameter)
            signature[parameter.name] = kind
            if kind == "constexpr":
                constants[parameter.name] = constant
            elif aligned:
                attributes[(at,)] = [["tt.divisibility", 16]]
        key = (function.__name__, *signature.items(), *map(str, constants.items()), *attributes, *map(str, sorted(options.items())))
        self.launches.setdefault(key, (function, signature, constants, attributes, options))


def specialised(value, parameter) -> tuple[str, object, bool]:
    """(type, constant, divisible by 16) of one argument, by the rules that Triton's own launcher follows."""
    if parameter.is_constexpr:
        return "constexpr", value, False
    if value is None:
        return "constexpr", None, False
    if hasattr(value, "dtype") and hasattr(value, "stride"):
        # Buffers begin at multiples of 256 bytes on the device.
        return f"*{element(value.dtype)}", None, True
    if type(value).__name__ == "TensorDescriptor":
        return f"tensordesc<{element(value.base.dtype)}{list(value.block_shape)}>".replace(" ", ""), None, False
    if isinstance(value, bool):
        return "i1", None, False
    if isinstance(value, int):
        if value == 1 and not parameter.do_not_specialize:
            return "constexpr", 1, False
        return "i32" if -(2**31) <= value < 2**31 else "i64", None, value % 16 == 0 and not parameter.do_not_specialize
    if isinstance(value, float):
        return "fp32", None, False
    raise NotFollowed(f"its argument {parameter.name!r} is a {type(value).__name__}, which is compiled on a GPU only")


def element(dtype) -> str:
    """Triton's name of torch's dtype."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotFollowed(f"it takes {name}, which is compiled on a GPU only")
    return DTYPES[name]


def tuned(self, *args, **kwargs):
    """In place of the autotuner: its first config, with the hook that makes arguments fit it."""
    config = self.configs[0]
    current = {**kwargs, **config.all_kwargs()}
    if config.pre_hook:
        config.pre_hook({**dict(zip(self.arg_names, args, strict=False)), **current})
    return self.fn.run(*args, **current)


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
        raise BuildError(located(error, folder)) from error
    if not callable(getattr(module, "run_kernel", None)):
        raise BuildError(f"{KERNEL}:1: error: there is no function run_kernel(**kwargs)")
    return module


def located(error: BaseException, folder: Path) -> str:
    """An error with the line of the kernel that it comes from."""
    said, line, code = confined.told(error, folder / KERNEL)
    return f"{KERNEL}:{line or 1}: error: {said}" + (f"\n    {code}" if code else "")


def record(module, request: dict, folder: Path, target) -> tuple[Recorder, list[str]]:
    """What run_kernel launches at each workload, and why a workload could not be followed."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from triton.compiler import make_backend
    from triton.runtime import autotuner, jit

    recorder, notes = Recorder(frozenset(make_backend(target).parse_options({}).__dict__)), []
    jit.JITFunction.run = lambda self, *args, **kwargs: recorder(self, *args, **kwargs)
    autotuner.Autotuner.run = tuned
    reference = types.ModuleType("reference")
    sys.modules["reference"] = reference
    exec(compile(request["reference"], "reference.py", "exec"), reference.__dict__)
    for dims in request["workloads"]:
        with FakeTensorMode(allow_non_fake_inputs=True):
            made = reference.make_inputs(dict(dims), 1)
            given = {
                name: torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device="cuda") if isinstance(v, torch.Tensor) else v
                for name, v in made.items()
            }
            try:
                module.run_kernel(**given)
            except (NameError, BuildError) as error:
                raise error if isinstance(error, BuildError) else BuildError(located(error, folder)) from error
            except BaseException as error:
                said, line, code = confined.told(error, folder / KERNEL)
                first = said.splitlines()[0] if said else type(error).__name__
                notes.append(f"not followed at {dims}: {first}" + (f" ({KERNEL}:{line}: {code})" if line else ""))
    return recorder, [*notes, *recorder.notes]


def target_of(name: str):
    """sm_90 -> what Triton calls it; without a name the GPU that is here (looked up once, before any fork), else the default."""
    from triton.backends.compiler import GPUTarget

    name = name or (f"sm_{gpu()['major']}{gpu()['minor']}" if gpu() else DEFAULT)
    return name, GPUTarget("cuda", int(re.sub(r"\D", "", name)), 32)


@functools.cache
def gpu() -> dict:
    """What the driver reports of the first GPU here; asked once, before any fork."""
    return standins.reported()


def compiled(recorder: Recorder, target, folder: Path) -> tuple[list[dict], list[str]]:
    """Compile each launch once; BuildError with the compiler's words."""
    import triton
    from triton.compiler import ASTSource

    made, notes = [], []
    for at, (function, signature, constants, attributes, options) in enumerate(recorder.launches.values()):
        if at == MOST:
            notes.append(f"{len(recorder.launches) - MOST} more specialisations were not compiled")
            break
        source = ASTSource(function, signature, constants, attributes)
        try:
            done = triton.compile(source, target=target, options={k: v for k, v in options.items() if v is not None})
        except BaseException as error:
            raise BuildError(f"{told(function, error)}") from error
        settings = {name: str(value) for name, value in constants.items()} | {
            "num_warps": str(done.metadata.num_warps),
            "num_stages": str(options.get("num_stages", "")),
        }
        made.append({"kernel": function.__name__, "settings": settings, "shared": done.metadata.shared, "cubin": done.asm["cubin"]})
    return made, notes


def told(function, error: BaseException) -> str:
    """A compiler's complaint with the line of the kernel's file: Triton counts lines from the function's first."""
    text = str(error) or type(error).__name__
    inner = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    node = getattr(error, "node", None)
    line = function.starting_line_number + node.lineno - 1 if hasattr(node, "lineno") else getattr(function, "starting_line_number", 1)
    said = str(inner).strip().splitlines()
    return f"{KERNEL}:{line}: error: in {function.__name__}: {said[-1] if said else type(error).__name__}\n{text}"


def listing(made: list[dict], folder: Path) -> tuple[str, list[dict]]:
    """Disassembly in objdump's layout under a table of launches, and each kernel's registers, stack and shared bytes."""
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
        code = re.findall(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", cuobjdump(tools, "-sass", path), re.M)
        lines += ["", f"{'0':0>16} <{name}>:"]
        lines += [f"   {address}:\t{mnemonic}\t{operands}{f' {guard}' if guard else ''}" for address, guard, mnemonic, operands in code]
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
    os.environ["TRITON_CACHE_DIR"] = str(made_in / "cache")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(made_in / "inductor")
    said: list[str] = []
    try:
        name, target = target_of(request.get("target", ""))
        stand_ins = standins.of_target(target.arch, gpu())
        stand_ins.install(folder / KERNEL)
        module = load(folder)
        recorder, notes = record(module, request, folder, target)
        notes += [f"stand-ins answered what the kernel asks of the GPU: {what}" for what in sorted(stand_ins.asked)]
        made, more = compiled(recorder, target, made_in)
        notes += more
        said = [f"compiled {len(made)} specialisations for {name}", *notes]
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
    gpu()
    status = confined.run(lambda: answer(folder), WALL_S, (folder, Path(__file__).parent), made)
    confined.hand_over(made, folder)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    (folder / "stderr.txt").write_text(f"{KERNEL}:1: error: the compiler was ended by signal {os.WTERMSIG(status)}\n")
    return 2


def end_with_stdin() -> None:
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(0)


def serve() -> None:
    import torch
    import triton.backends.compiler
    import triton.compiler  # noqa: F401
    from torch._subclasses.fake_tensor import FakeTensorMode

    gpu()
    # The first tensor without storage loads most of torch's Python; nothing is computed, so that forks stay safe.
    with FakeTensorMode(allow_non_fake_inputs=True):
        (torch.randn(4, 4, generator=torch.Generator()).to(torch.float16) / 2).contiguous()
    threading.Thread(target=end_with_stdin, daemon=True).start()
    for line in sys.stdin:
        code = forked(Path(json.loads(line)["folder"]))
        sys.stdout.write(json.dumps({"exit": code}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    os.environ.update({"TRITON_DEFAULT_FP_FUSION": "1", "TRITON_INTERPRET": "0"})
    if "--serve" in sys.argv:
        serve()
    else:
        sys.exit(forked(Path.cwd()))
