"""Runs a Triton kernel in Triton's interpreter at small dims and compares it with the float64 reference.

Answers `interpret.json` {"reference", "cases": [dims...], "outputs": [...], "numeric"} in the job's folder with
`interpreted.json`. The reference is computed in one process; the kernel runs in a child that is given inputs as bytes
and leaves outputs in anonymous memory, so that it needs no file it could write to. `--serve` as elsewhere.
"""

import importlib.util
import json
import os
import signal
import sys
import traceback
from pathlib import Path

# For this import alone: what else lies in the job's folder, a candidate's kernel.py among it, is not to be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.compilation import fake_driver
from harness.isolation import confinement, ipc, sandbox

WALL_S = 40
"""For one call; what takes longer is not said to be wrong."""
KERNEL = "kernel.py"


class InputChanged(Exception):
    """What the kernel may only read is not what it was."""


class Child:
    """One call of the kernel in a process of its own; what it left is read from anonymous memory."""

    def __init__(self, folder: Path, args: list[tuple], outputs: list[str]):
        self.path = folder / KERNEL
        self.args = args
        self.left = {name: os.memfd_create("output", os.MFD_CLOEXEC) for name in outputs}
        self.said = os.memfd_create("said", os.MFD_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for handle in (self.said, *self.left.values()):
            os.close(handle)

    def run(self) -> dict:
        """{"problem", "kind"}: kind as in `tools.languages.triton_interpreter.SmallCase`; both empty when done."""
        status = confinement.run(self._work, WALL_S, (self.path, Path(__file__).parents[1]))
        if os.WIFSIGNALED(status):
            late = os.WTERMSIG(status) == signal.SIGALRM
            problem = f"it took longer than {WALL_S} s" if late else f"it ended by signal {os.WTERMSIG(status)}"
            return {"problem": problem, "kind": "late" if late else "wrong"}
        try:
            return json.loads(read(self.said))
        except ValueError:
            return {"problem": "it ended before it was done", "kind": "broken"}

    def output(self, name: str) -> bytearray:
        return bytearray(read(self.left[name]))

    def _work(self) -> int:
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
        os.write(self.said, json.dumps(answer).encode())
        return 0

    def _call(self) -> None:
        import torch

        made = {}
        for name, value, dtype, shape in self.args:
            if dtype is None:
                made[name] = value
                continue
            kind = getattr(torch, dtype)
            made[name] = (
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
            for name, value in made.items()
            if name not in self.left and isinstance(value, torch.Tensor)
        }
        module.run_kernel(**made)
        for name, value in before.items():
            if not torch.equal(torch.nan_to_num(value), torch.nan_to_num(made[name])):
                raise InputChanged(f"the kernel changes its input {name}")
        for name, handle in self.left.items():
            with os.fdopen(os.dup(handle), "wb") as file:
                file.write(made[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def read(handle: int) -> bytes:
    with os.fdopen(os.dup(handle), "rb") as file:
        file.seek(0)
        return file.read()


def case(contract, dims: dict, request: dict, folder: Path) -> dict:
    """{"dims", "problem", "kind", "error", "tolerance"}: the output that comes closest to its tolerance, or goes
    furthest beyond."""
    import torch

    from harness.memory.input_ring import tolerance
    from harness.reference.comparison import expected_outputs, native_outputs
    from harness.reference.contract import ContractError

    try:
        args = contract.build(dims, 7, [], 0)
        for arg in args:
            arg.role = "output" if arg.name in request["outputs"] else "input" if arg.is_tensor else "scalar"
            if arg.role == "output":
                # As on a device: what the kernel does not write is seen.
                arg.value.fill_(float("nan") if arg.value.dtype.is_floating_point else 77)
        expected, natives = expected_outputs(contract, args)[0], native_outputs(contract, args)
    except ContractError as error:
        return {"dims": dims, "problem": str(error), "kind": "reference"}
    given = [
        (a.name, a.value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(), a.dtype, tuple(a.value.shape))
        if a.is_tensor
        else (a.name, a.value, None, ())
        for a in args
    ]
    with Child(folder, given, request["outputs"]) as child:
        ended = child.run()
        if ended["problem"]:
            return {"dims": dims, **ended}
        found = {"dims": dims, "error": 0.0, "tolerance": 0.0}
        for one, own in zip(expected, natives, strict=True):
            limit = tolerance(request["numeric"], one.dtype, one.error(own)["error"], None)
            left = child.output(one.name)
            dtype = next(a.value.dtype for a in args if a.name == one.name)
            if len(left) != one.count * dtype.itemsize:
                return {"dims": dims, "problem": f"{one.name}: it was made another size", "kind": "wrong"}
            if not left:
                continue
            seen = one.error(torch.frombuffer(left, dtype=dtype), request["numeric"])
            if seen["problem"] or seen["error"] is None:
                return {"dims": dims, "problem": f"{one.name}: {seen['problem']}", "kind": "wrong"}
            if seen["error"] > limit:
                problem = f"{one.name}: error {seen['error']:.3g} is above {limit:g}"
                return {"dims": dims, "error": seen["error"], "tolerance": limit, "problem": problem, "kind": "wrong"}
            if seen["error"] >= found["error"]:
                found = {**found, "error": seen["error"], "tolerance": limit}
    return found


def answer(folder: Path) -> None:
    """In a child of the server: everything of one job."""
    from harness.device.precision import set_precision
    from harness.reference.contract import Contract

    request = json.loads((folder / "interpret.json").read_text())
    set_precision(request["numeric"]["precision"])
    contract = Contract(request["reference"])
    cases = []
    for dims in request["cases"]:
        cases.append(case(contract, dims, request, folder))
        # A size that the reference refuses says nothing of the kernel.
        if cases[-1].get("problem") and cases[-1]["kind"] != "reference":
            break
    (folder / "interpreted.json").write_text(json.dumps(cases))


def forked(folder: Path) -> int:
    """Exit status of the child that answers one job."""
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

    # Threads of torch would be lost in a fork.
    torch.set_num_threads(1)
    if "--serve" not in sys.argv:
        sys.exit(forked(Path.cwd()))
    ipc.serve_jobs(lambda order: forked(Path(order["folder"])))


if __name__ == "__main__":
    main()
