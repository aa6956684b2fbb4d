"""Compiles a kernel in CuTe DSL without running it: `run_kernel` is followed on tensors without storage, and what it
has compiled is kept.

`cutedsl_compile.py` answers `build.json` in the job's folder: {"reference", "workloads", "target", "listing"}; errors
go to stderr.txt, what could not be done to stdout.txt, machine code and its facts to assembly.txt and facts.json. The
candidate's code runs, compiled in a confined child that writes to a folder of its own.
"""

import ast
import json
import os
import re
import signal
import sys
import traceback
import types
from pathlib import Path

# For this import alone: what else lies in the job's folder, a candidate's kernel.py among it, is not to be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.compilation import cuda_compile, fake_driver
from harness.compilation.triton_compile import KERNEL, MADE, SAID, WALL_S, load
from harness.compilation.triton_launches import BuildError, located, stand_ins
from harness.device import cuda_attributes
from harness.isolation import confinement

DECORATION = re.compile(r"\x1b\[[0-9;]*m|[^\x00-\x7f]")
"""Colours and pictures of the DSL's messages."""
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
NO_LISTER = (
    "its machine code was not listed: cuobjdump was not found; install the wheel nvidia-cuda-cuobjdump or "
    "the CUDA toolkit"
)


class Converted:
    """In place of what `from_dlpack` makes of a tensor: a tensor without storage has none to point to, and nothing
    is run."""

    def mark_layout_dynamic(self, *args, **kwargs):
        return self

    mark_compact_shape_dynamic = mark_layout_dynamic


class Compiler:
    """In place of `cute.compile`: does so for the target, and gives something to call that does nothing."""

    def __init__(self, path: Path):
        from cutlass import cute
        from cutlass.base_dsl import compiler

        self.own, self.path, self.made = cute.compile, path, 0
        # The last step loads the machine code into a GPU.
        compiler.Compiler.jit = lambda *args, **kwargs: None
        cute.compile = self
        cute.runtime.from_dlpack = lambda *args, **kwargs: Converted()

    def __call__(self, function, *args, **kwargs):
        try:
            self.own(function, *args, **kwargs)
        except BaseException as error:
            raise BuildError(DECORATION.sub("", located(error, self.path))) from error
        self.made += 1
        return lambda *args, **kwargs: None


def follow(module, reference, dims: dict, path: Path) -> str:
    """Run `run_kernel` at these dims; what kept it from its end, where that need not be its fault. BuildError where
    it is."""
    with stand_ins(reference, dims) as given:
        try:
            module.run_kernel(**given)
        except (NameError, BuildError) as error:
            raise error if isinstance(error, BuildError) else BuildError(located(error, path)) from error
        except BaseException as error:
            said, line, code = confinement.error_location(error, path)
            return f"not followed at {dims}: {said}" + (f" ({path.name}:{line}: {code})" if line else "")
    return ""


def named_in(path: Path):
    """Symbol of a kernel -> the function of the file that it was compiled from, whose name the symbol begins with."""
    functions = [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return lambda symbol: max(
        (n for n in functions if symbol.startswith(f"kernel_cutlass_{n}_")), key=len, default=symbol
    )


def answer(folder: Path, target: str, gpu: dict) -> int:
    """One job, in the child: 0 when the kernel may go on, 1 when it does not compile."""
    request, made_in, said = json.loads((folder / "build.json").read_text()), folder / MADE, []
    try:
        stand_ins = fake_driver.of_target(int(re.sub(r"\D", "", target)), gpu)
        stand_ins.install(folder / KERNEL)
        compiler = Compiler(folder / KERNEL)
        module, reference = load(folder), types.ModuleType("reference")
        sys.modules["reference"] = reference
        exec(compile(request["reference"], "reference.py", "exec"), reference.__dict__)
        notes = [note for dims in request["workloads"] if (note := follow(module, reference, dims, folder / KERNEL))]
        notes += [f"stand-ins answered what the kernel asks of the GPU: {what}" for what in sorted(stand_ins.asked)]
        said = [f"compiled {compiler.made} signatures for {target}", *dict.fromkeys(notes)]
        if request["listing"]:
            lister = cuda_compile.program("cuobjdump")
            text, facts = (
                cuda_compile.disassemble_files(
                    lister, sorted(made_in.glob("*.cubin")), "run_kernel", named_in(folder / KERNEL)
                )
                if lister
                else ("", [])
            )
            (made_in / "assembly.txt").write_text(text)
            facts = {"target": target, "kernels": facts, "notes": [*said[1:], *([] if lister else [NO_LISTER])]}
            (made_in / "facts.json").write_text(json.dumps(facts))
    except BuildError as error:
        (made_in / "stderr.txt").write_text(f"{error}\n")
        return 1
    except BaseException:
        (made_in / "stderr.txt").write_text(traceback.format_exc())
        return 2
    finally:
        (made_in / "stdout.txt").write_text("\n".join(said) + "\n")
    return 0


def main() -> int:
    folder, gpu = Path.cwd(), cuda_attributes.attributes_of_job_gpu()
    made = folder / MADE
    made.mkdir()
    asked = json.loads((folder / "build.json").read_text())["target"]
    target = asked or cuda_compile.generated(cuda_compile.local_architecture())[0].rpartition("=")[2]
    os.environ |= {
        "CUTE_DSL_ARCH": target,
        "CUTE_DSL_KEEP_CUBIN": "1",
        "CUTE_DSL_DUMP_DIR": str(made),
        "CUTE_DSL_DISABLE_FILE_CACHING": "1",
    }
    try:
        import cutlass.cute  # noqa: F401
        import triton  # noqa: F401  (what these read is allowed by where they lie)
        from torch._subclasses.fake_tensor import FakeTensorMode

        FakeTensorMode()
    except ImportError as error:
        (folder / "stderr.txt").write_text(f"CuTe DSL cannot be imported on the machine that compiles: {error}\n")
        return 2
    status = confinement.run(lambda: answer(folder, target, gpu), WALL_S, (folder, Path(__file__).parents[1]), made)
    confinement.hand_over(made, folder, SAID)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    ended = f"the compiler was ended by signal {os.WTERMSIG(status)}"
    if os.WTERMSIG(status) not in CRASHES:
        (folder / "stderr.txt").write_text(f"{KERNEL}:1: error: {ended}\n")
        return 2
    # The wheel's own fault, seen beside a GPU where it then compiled the kernel in the process that runs it.
    note = f"not compiled ahead, but where it runs: {ended}"
    (folder / "stdout.txt").write_text(f"{note}\n")
    (folder / "assembly.txt").write_text("")
    (folder / "facts.json").write_text(json.dumps({"target": target, "kernels": [], "notes": [note]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
