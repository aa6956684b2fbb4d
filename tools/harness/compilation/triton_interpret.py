"""Runs a Triton kernel in Triton's interpreter at small dims and compares it with the float64 reference.

The script reads `interpret.json` {"reference", "cases": [dims...], "outputs": [...], "numeric"} in the job's folder and
writes `interpreted.json`. One process computes the reference; the kernel runs in a child that gets its inputs as bytes
and writes its outputs to anonymous memory, so that it needs no writable file. `--serve` works as in triton_compile.py.
"""

import importlib.util
import json
import os
import signal
import sys
import traceback
from pathlib import Path

# For this import only: other files of the job's folder, such as a candidate's kernel.py, must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.compilation import fake_driver
from harness.isolation import confinement, ipc, sandbox

WALL_S = 40
"""Seconds that one call may take; a slower kernel is not called wrong."""
KERNEL = "kernel.py"


class InputChanged(Exception):
    """The kernel changed an input."""


class Child:
    """One call of the kernel in a process of its own; its outputs are read from anonymous memory."""

    def __init__(self, folder: Path, args: list[tuple], outputs: list[str]):
        self.path = folder / KERNEL
        self.args = args
        self.output_files = {name: os.memfd_create("output", os.MFD_CLOEXEC) for name in outputs}
        self.answer_file = os.memfd_create("answer", os.MFD_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for handle in (self.answer_file, *self.output_files.values()):
            os.close(handle)

    def run(self) -> dict:
        """Call the kernel and return {"problem", "kind"}, both empty if the call finished; kind as in
        `tools.languages.triton_interpreter.SmallCase`."""
        status = confinement.run(self._work, WALL_S, (self.path, Path(__file__).parents[1]))
        if os.WIFSIGNALED(status):
            timed_out = os.WTERMSIG(status) == signal.SIGALRM
            problem = f"it took longer than {WALL_S} s" if timed_out else f"it ended by signal {os.WTERMSIG(status)}"
            return {"problem": problem, "kind": "late" if timed_out else "wrong"}
        try:
            return json.loads(read(self.answer_file))
        except ValueError:
            return {"problem": "it ended before it was done", "kind": "broken"}

    def output(self, name: str) -> bytearray:
        """Return the bytes of an output."""
        return bytearray(read(self.output_files[name]))

    def _work(self) -> int:
        """Call the kernel in the child and write its answer."""
        try:
            self._call()
            answer = {"problem": "", "kind": ""}
        except BaseException as error:
            problem, line, text = confinement.error_location(error, self.path)
            known = "interpreter" if problem.startswith("NotImplementedError") else "raised"
            kind = (
                "broken"
                if isinstance(error, InputChanged)
                else "device"
                if fake_driver.asks_for_a_device(error, text)
                else known
            )
            where = f" at line {line}, `{text}`" if line and text else ""
            problem = " ".join(problem.split())
            answer = {"problem": f"{problem if len(problem) <= 600 else problem[:599] + '…'}{where}", "kind": kind}
        os.write(self.answer_file, json.dumps(answer).encode())
        return 0

    def _call(self) -> None:
        """Import the kernel, call it and write its outputs; raise InputChanged if an input differs afterwards."""
        import torch

        arguments = {}
        for name, value, dtype, shape in self.args:
            if dtype is None:
                arguments[name] = value
                continue
            kind = getattr(torch, dtype)
            arguments[name] = (
                torch.frombuffer(bytearray(value), dtype=kind).reshape(shape)
                if value
                else torch.empty(shape, dtype=kind)
            )
        fake_driver.of_interpreter().install(self.path)
        specification = importlib.util.spec_from_file_location("kernel", self.path)
        module = importlib.util.module_from_spec(specification)
        sys.modules["kernel"] = module
        specification.loader.exec_module(module)
        before = {
            name: value.clone()
            for name, value in arguments.items()
            if name not in self.output_files and isinstance(value, torch.Tensor)
        }
        module.run_kernel(**arguments)
        for name, value in before.items():
            if to_bytes(value) != to_bytes(arguments[name]):
                raise InputChanged(f"the kernel changes its input {name}")
        for name, handle in self.output_files.items():
            with os.fdopen(os.dup(handle), "wb") as file:
                file.write(to_bytes(arguments[name]))


def to_bytes(tensor) -> bytes:
    """Return the bytes of a tensor's elements in order."""
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def read(handle: int) -> bytes:
    """Return the content of an anonymous file."""
    with os.fdopen(os.dup(handle), "rb") as file:
        file.seek(0)
        return file.read()


def case(contract, dims: dict, request: dict, folder: Path) -> dict:
    """Compare the kernel with the reference at these dims.

    Returns {"dims", "problem", "kind", "error", "tolerance"}, with the error and tolerance of the output with the
    largest error or of the first that is wrong.
    """
    import torch

    from harness.memory.input_ring import tolerance
    from harness.reference.comparison import expected_outputs, native_outputs
    from harness.reference.contract import ContractError

    try:
        args = contract.build(dims, 7, [], 0)
        for arg in args:
            arg.role = request["roles"].get(arg.name, "input")
            if arg.role == "output":
                # As on a device, elements that the kernel does not write are detected.
                arg.value.fill_(float("nan") if arg.value.dtype.is_floating_point else 77)
        expected, natives = expected_outputs(contract, args)[0], native_outputs(contract, args)
    except ContractError as error:
        return {"dims": dims, "problem": str(error), "kind": "reference"}
    given = [
        (a.name, to_bytes(a.value), a.dtype, tuple(a.value.shape)) if a.is_tensor else (a.name, a.value, None, ())
        for a in args
    ]
    with Child(folder, given, request["outputs"]) as child:
        answer = child.run()
        if answer["problem"]:
            return {"dims": dims, **answer}
        result = {"dims": dims, "error": 0.0, "tolerance": 0.0}
        for one, native in zip(expected, natives, strict=True):
            limit = tolerance(request["numeric"], one.dtype, one.error(native)["error"], None)
            output_bytes = child.output(one.name)
            dtype = next(a.value.dtype for a in args if a.name == one.name)
            if len(output_bytes) != one.count * dtype.itemsize:
                return {"dims": dims, "problem": f"{one.name}: its size was changed", "kind": "wrong"}
            if not output_bytes:
                continue
            difference = one.error(torch.frombuffer(output_bytes, dtype=dtype), request["numeric"])
            if difference["problem"] or difference["error"] is None:
                return {"dims": dims, "problem": f"{one.name}: {difference['problem']}", "kind": "wrong"}
            if difference["error"] > limit:
                problem = f"{one.name}: error {difference['error']:.3g} is above {limit:g}"
                return {
                    "dims": dims,
                    "error": difference["error"],
                    "tolerance": limit,
                    "problem": problem,
                    "kind": "wrong",
                }
            if difference["error"] >= result["error"]:
                result = {**result, "error": difference["error"], "tolerance": limit}
    return result


def answer(folder: Path) -> None:
    """Answer one job in a child of the server."""
    from harness.numerics.precision import set_precision
    from harness.reference.contract import Contract

    request = json.loads((folder / "interpret.json").read_text())
    set_precision(request["numeric"]["precision"])
    contract = Contract(request["reference"])
    cases = []
    for dims in request["cases"]:
        cases.append(case(contract, dims, request, folder))
        # A size that the reference refuses says nothing about the kernel.
        if cases[-1].get("problem") and cases[-1]["kind"] != "reference":
            break
    (folder / "interpreted.json").write_text(json.dumps(cases))


def forked(folder: Path) -> int:
    """Answer one job in a child and return its exit status."""
    parent, child = os.getpid(), os.fork()
    if child == 0:
        code = 1
        try:
            sandbox.die_with_parent(parent)
            null = os.open(os.devnull, os.O_RDWR)
            for target in (0, 1):
                os.dup2(null, target)
            os.chdir(folder)
            answer(folder)
            code = 0
        except BaseException:
            (folder / "stderr.txt").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    os.environ.update({"TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1", "OMP_NUM_THREADS": "1"})
    import torch
    import triton  # noqa: F401

    from harness.numerics import narrow_floats

    narrow_floats.install()
    # Torch's threads would not exist after a fork.
    torch.set_num_threads(1)
    if "--serve" not in sys.argv:
        sys.exit(forked(Path.cwd()))
    ipc.serve_jobs(lambda order: forked(Path(order["folder"])))


if __name__ == "__main__":
    main()
