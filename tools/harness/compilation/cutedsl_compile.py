"""Compiles a kernel in CuTe DSL without running it: `run_kernel` is called with tensors without storage, and the
functions that it compiles are recorded.

The script reads `build.json` in the job's folder: {"reference", "workloads", "target", "listing"}. Errors go to
stderr.txt, notes on what could not be compiled to stdout.txt, and machine code and its facts to assembly.txt and
facts.json. The candidate's code runs, compiled, in a confined child that writes to a folder of its own.
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

# For this import only: other files of the job's folder, such as a candidate's kernel.py, must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.compilation import cuda_compile, fake_driver
from harness.compilation.triton_compile import CHILD_RESULT_FILES, KERNEL, MADE, WALL_S, load
from harness.compilation.triton_launches import BuildError, located, stand_ins
from harness.device import cuda_attributes
from harness.isolation import confinement

DECORATION = re.compile(r"\x1b\[[0-9;]*m|[^\x00-\x7f]")
"""Pattern of colours and symbols in the DSL's messages."""
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
"""Signals that end a crashed compiler."""
NO_LISTER = (
    "its machine code was not listed: cuobjdump was not found; install the wheel nvidia-cuda-cuobjdump or "
    "the CUDA toolkit"
)


class Converted:
    """Stands for the result of `from_dlpack`, because a tensor without storage has no address and nothing is run."""

    def mark_layout_dynamic(self, *args, **kwargs):
        return self

    mark_compact_shape_dynamic = mark_layout_dynamic


class CuteDslCompiler:
    """Stands for `cute.compile`: compiles for the target and returns a function that does nothing."""

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
    """Run `run_kernel` at these dims. Returns the reason why it did not finish if that need not be the kernel's fault;
    raises BuildError if it is."""
    with stand_ins(reference, dims) as given:
        try:
            module.run_kernel(**given)
        except (NameError, BuildError) as error:
            raise error if isinstance(error, BuildError) else BuildError(located(error, path)) from error
        except BaseException as error:
            message, line, code = confinement.error_location(error, path)
            return f"not followed at {dims}: {message}" + (f" ({path.name}:{line}: {code})" if line else "")
    return ""


def named_in(path: Path):
    """Return a function that maps a kernel's symbol to the name of the file's function from which it was compiled. The
    symbol contains that name."""
    functions = [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return lambda symbol: max(
        (n for n in functions if symbol.startswith(f"kernel_cutlass_{n}_")), key=len, default=symbol
    )


def answer(folder: Path, target: str, gpu: dict) -> int:
    """Compile one job in the child. Returns 0 if the kernel may be used, 1 if it does not compile, 2 for a failure of
    the harness."""
    request, output_folder, messages = json.loads((folder / "build.json").read_text()), folder / MADE, []
    try:
        stand_ins = fake_driver.of_target(int(re.sub(r"\D", "", target)), gpu)
        stand_ins.install(folder / KERNEL)
        compiler = CuteDslCompiler(folder / KERNEL)
        module, reference = load(folder), types.ModuleType("reference")
        sys.modules["reference"] = reference
        exec(compile(request["reference"], "reference.py", "exec"), reference.__dict__)
        problems = [note for dims in request["workloads"] if (note := follow(module, reference, dims, folder / KERNEL))]
        problems += [f"made-up answers replaced the GPU's: {what}" for what in sorted(stand_ins.asked)]
        messages = [f"compiled {compiler.made} signatures for {target}", *dict.fromkeys(problems)]
        if request["listing"]:
            lister = cuda_compile.program("cuobjdump")
            text, facts = (
                cuda_compile.disassemble_files(
                    lister, sorted(output_folder.glob("*.cubin")), "run_kernel", named_in(folder / KERNEL)
                )
                if lister
                else ("", [])
            )
            (output_folder / "assembly.txt").write_text(text)
            facts = {"target": target, "kernels": facts, "notes": [*messages[1:], *([] if lister else [NO_LISTER])]}
            (output_folder / "facts.json").write_text(json.dumps(facts))
    except BuildError as error:
        (output_folder / "stderr.txt").write_text(f"{error}\n")
        return 1
    except BaseException:
        (output_folder / "stderr.txt").write_text(traceback.format_exc())
        return 2
    finally:
        (output_folder / "stdout.txt").write_text("\n".join(messages) + "\n")
    return 0


def main() -> int:
    """Compile the job in the current folder and return the exit status."""
    folder, gpu = Path.cwd(), cuda_attributes.attributes_of_job_gpu()
    output_folder = folder / MADE
    output_folder.mkdir()
    requested_target = json.loads((folder / "build.json").read_text())["target"]
    target = requested_target or cuda_compile.generated(cuda_compile.local_architecture())[0].rpartition("=")[2]
    os.environ |= {
        "CUTE_DSL_ARCH": target,
        "CUTE_DSL_KEEP_CUBIN": "1",
        "CUTE_DSL_DUMP_DIR": str(output_folder),
        "CUTE_DSL_DISABLE_FILE_CACHING": "1",
    }
    try:
        import cutlass.cute  # noqa: F401
        import triton  # noqa: F401  (the child may read only the folders of imported modules)
        from torch._subclasses.fake_tensor import FakeTensorMode

        FakeTensorMode()
    except ImportError as error:
        (folder / "stderr.txt").write_text(f"CuTe DSL cannot be imported on the machine that compiles: {error}\n")
        return 2
    status = confinement.run(
        lambda: answer(folder, target, gpu), WALL_S, (folder, Path(__file__).parents[1]), output_folder
    )
    confinement.hand_over(output_folder, folder, CHILD_RESULT_FILES)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    reason = f"the compiler was ended by signal {os.WTERMSIG(status)}"
    if os.WTERMSIG(status) not in CRASHES:
        (folder / "stderr.txt").write_text(f"{KERNEL}:1: error: {reason}\n")
        return 2
    # A crash of the wheel itself. On a machine with a GPU, the same kernel compiled in the process that runs it.
    note = f"not compiled in advance, only in the process that runs it: {reason}"
    (folder / "stdout.txt").write_text(f"{note}\n")
    (folder / "assembly.txt").write_text("")
    (folder / "facts.json").write_text(json.dumps({"target": target, "kernels": [], "notes": [note]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
