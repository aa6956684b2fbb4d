"""Runs a Triton kernel in Triton's interpreter at small dims and compares it with the float64 reference.

Answers `interpret.json` {"reference", "dims": [...], "outputs": [...]} in the job's folder with `interpreted.json`. The reference is
computed in one process; the kernel runs in a child that is given inputs as bytes and leaves outputs as bytes. `--serve` as elsewhere.
"""

import ctypes
import importlib.util
import json
import os
import select
import signal
import sys
import threading
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import sandbox

WALL_S = 60


def run_kernel(folder: Path, args: list[tuple], outputs: list[str]) -> None:
    """In the child: call the kernel, leave each output's bytes as a file, or the error's text."""
    import torch

    made = {}
    for name, value, dtype, shape in args:
        if dtype is None:
            made[name] = value
            continue
        made[name] = torch.frombuffer(bytearray(value), dtype=getattr(torch, dtype)).reshape(shape) if value else torch.empty(shape)
    specification = importlib.util.spec_from_file_location("kernel", folder / "kernel.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["kernel"] = module
    specification.loader.exec_module(module)
    before = {name: value.clone() for name, value in made.items() if name not in outputs and isinstance(value, torch.Tensor)}
    module.run_kernel(**made)
    for name, value in before.items():
        if not torch.equal(torch.nan_to_num(value), torch.nan_to_num(made[name])):
            raise ValueError(f"the kernel changes its input {name}")
    for name in outputs:
        (folder / f"{name}.out").write_bytes(made[name].contiguous().view(torch.uint8).numpy().tobytes())


def in_child(work, wall_s: int) -> str:
    """Run `work` in a forked child without network or privileges; the error's text, empty when all went well."""
    reader, writer = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        try:
            os.setsid()
            sandbox.die_with_parent(parent)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(wall_s)
            null = os.open(os.devnull, os.O_RDWR)
            for target in (0, 1, 2):
                os.dup2(null, target)
            libc = ctypes.CDLL(None, use_errno=True)
            sandbox.no_network(libc)
            libc.prctl(sandbox.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            sandbox.drop_capabilities(libc)
            work()
            os.write(writer, b"-")
        except BaseException as error:
            inner = error
            while inner.__cause__ is not None:
                inner = inner.__cause__
            os.write(writer, f"{type(inner).__name__}: {inner}"[-1500:].encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        late = os.WTERMSIG(status) == signal.SIGALRM
        return f"took longer than {wall_s} s" if late else f"ended by signal {os.WTERMSIG(status)}"
    return "" if said == "-" else " ".join(said.split()) or "ended before it was done"


def case(contract, dims: dict, request: dict, folder: Path) -> dict:
    import torch
    from compare import expect

    args = contract.build(dims, 7, [], 0)
    for arg in args:
        arg.role = "output" if arg.name in request["outputs"] else "input" if arg.is_tensor else "scalar"
        if arg.role == "output":
            # As on a device: what the kernel does not write is seen.
            arg.value.fill_(float("nan") if arg.value.dtype.is_floating_point else 77)
    given = [
        (a.name, a.value.contiguous().view(torch.uint8).numpy().tobytes(), a.dtype, tuple(a.value.shape))
        if a.is_tensor
        else (a.name, a.value, None, ())
        for a in args
    ]
    for name in request["outputs"]:
        (folder / f"{name}.out").unlink(missing_ok=True)
    problem = in_child(lambda: run_kernel(folder, given, request["outputs"]), WALL_S)
    if problem:
        return {"dims": dims, "problem": problem}
    worst = 0.0
    for expected in expect(contract, args)[0]:
        arg = next(a for a in args if a.name == expected.name)
        left = (folder / f"{expected.name}.out").read_bytes()
        found = expected.error(torch.frombuffer(bytearray(left), dtype=arg.value.dtype))
        if found["problem"] or found["error"] is None:
            return {"dims": dims, "problem": f"{expected.name}: {found['problem']}"}
        worst = max(worst, found["error"])
    return {"dims": dims, "error": worst}


def answer(folder: Path) -> None:
    """In a child of the server: everything of one job."""
    from contract import Contract

    request = json.loads((folder / "interpret.json").read_text())
    contract = Contract(request["reference"])
    cases = []
    for dims in request["dims"]:
        cases.append(case(contract, dims, request, folder))
        if cases[-1].get("problem"):
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


def end_with_stdin() -> None:
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(0)


def main() -> None:
    os.environ.update({"TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1", "OMP_NUM_THREADS": "1"})
    import torch
    import triton  # noqa: F401

    # Threads of torch would be lost in a fork.
    torch.set_num_threads(1)
    if "--serve" not in sys.argv:
        sys.exit(forked(Path.cwd()))
    threading.Thread(target=end_with_stdin, daemon=True).start()
    for line in sys.stdin:
        code = forked(Path(json.loads(line)["folder"]))
        sys.stdout.write(json.dumps({"exit": code}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
