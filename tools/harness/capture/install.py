"""Starts the recorder in the user's process, before the program's first line: on import, and in the main script."""

import ast
import builtins
import contextlib
import functools
import os
import sys
from importlib import machinery
from pathlib import Path

from harness.capture.recorder import Recorder
from harness.capture.targets import OperatorTarget, wrap_target

VARIABLE = "KERNELWRIGHT_CAPTURE"
"""Environment variable "FOLDER\\nTARGET" of an observed process and its children."""
HOOK = "__kernelwright_observe__"
_recorder = None


def start() -> None:
    """Install the recorder that the environment asks for."""
    global _recorder
    folder, target = os.environ[VARIABLE].split("\n")
    _recorder = Recorder(target, folder)
    watched = {"triton.runtime.jit": watch_launches, "triton.runtime.interpreter": watch_launches}
    watched["triton.runtime.autotuner"] = watch_autotuner
    module_name, colon, path = target.partition(":")
    if target.startswith("op:") or not colon:
        watched["torch"] = functools.partial(watch_operator, target=OperatorTarget(target))
    elif module_name != "__main__":
        watched[module_name] = functools.partial(watch_attribute, path=path)
    else:
        import runpy

        # `python -m` and a child that multiprocessing spawns get the script from runpy.
        def code_of_file(*arguments, original=runpy._get_code_from_file):
            code = script_code(arguments[-1])
            return (code, arguments[-1]) if isinstance(original(*arguments), tuple) else code

        def details(*arguments, original=runpy._get_module_details):
            name, spec, _ = original(*arguments)
            return name, spec, script_code(spec.origin)

        runpy._get_code_from_file, runpy._get_module_details = code_of_file, details
        setattr(builtins, HOOK, observe)
    for loader in (machinery.SourceFileLoader, machinery.ExtensionFileLoader):
        loader.exec_module = watched_import(loader.exec_module, watched)


def watched_import(execute, watched: dict):
    """Return a loader's `exec_module`, extended to call what watches the module (name -> call)."""

    @functools.wraps(execute)
    def exec_module(loader, module):
        execute(loader, module)
        watched.get(module.__name__, str)(module)

    return exec_module


def observe(value):
    """Wrap a value that the main script has just bound to the target's name."""
    try:
        return wrap_target(value, _recorder)
    except TypeError as error:
        _recorder.problems[f"{_recorder.target} cannot be observed: {error}"] = 1
        return value


def watch_attribute(module, path: str) -> None:
    """Wrap an attribute of a module that has been imported."""
    *owners, name = path.split(".")
    try:
        owner = functools.reduce(getattr, owners, module)
        setattr(owner, name, observe(getattr(owner, name)))
    except AttributeError:
        public = ", ".join(sorted(one for one, held in vars(module).items() if one[0] != "_" and callable(held)))
        _recorder.problems[f"{module.__name__} defines no {path}; it defines {public or 'nothing'}"] = 1


# ---------------------------------------------------------------- Triton and operators


def watch_launches(module) -> None:
    """Let each jitted function of Triton record its launches."""
    for name in ("JITFunction", "InterpretedFunction"):
        kind = vars(module).get(name)
        if kind is not None and kind.__module__ == module.__name__:
            kind.run = recorded_launch(kind.run)


def recorded_launch(run):
    """Return `run` of a jitted function, extended to record the target's launches."""

    @functools.wraps(run)
    def launch(jitted, *args, **kwargs):
        target = None if kwargs.get("warmup") else _recorder.kernels.get(id(jitted))
        call = functools.partial(run, jitted)
        return _recorder.call(target, call, args, kwargs) if target else call(*args, **kwargs)

    return launch


def watch_autotuner(module) -> None:
    """Mark the trials of an autotuner."""
    module.Autotuner._bench = trials()(module.Autotuner._bench)


@contextlib.contextmanager
def trials():
    """Mark the calls within as trials."""
    _recorder.tuning += 1
    try:
        yield
    finally:
        _recorder.tuning -= 1


def watch_operator(torch, target) -> None:
    """Let all operators of torch pass by the recorder."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Observer(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if not target.matches(func):
                return func(*args, **(kwargs or {}))
            _recorder.described = target
            return _recorder.call(target, func, args, kwargs or {})

    Observer().__enter__()


# ---------------------------------------------------------------- the main script


def script_code(path):
    """Return the code of the main script, which is read and not changed on disk, with a call of the hook after each
    statement of the module that binds the target's name."""
    name = _recorder.target.partition(":")[2].partition(".")[0]
    tree = ast.parse(Path(path).read_bytes(), str(path))
    for at, one in reversed([*enumerate(tree.body, 1)]):
        if name in (getattr(one, "name", ""), *(getattr(bound, "id", "") for bound in getattr(one, "targets", ()))):
            tree.body[at:at] = ast.parse(f"{name} = {HOOK}({name})").body
    return compile(tree, str(path), "exec", dont_inherit=True)


def run_main(argv: list) -> None:
    """Run a script as `__main__`, with the target observed in it."""
    main, sys.argv, sys.path[0] = sys.modules["__main__"], argv, str(Path(argv[0]).resolve().parent)
    main.__file__ = argv[0]
    exec(script_code(argv[0]), main.__dict__)
