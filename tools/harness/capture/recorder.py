"""Records calls: their classes, some calls in full, and counts and durations of all. Standard library and torch."""

import atexit
import contextlib
import inspect
import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path

from harness.capture import values
from harness.capture.targets import trampolines

FULL_RECORDS = 4
"""Calls of one class that are recorded with their contents."""
MOST_CLASSES = 512
"""Classes that are told apart, the second half of them without their whole numbers; all others count together."""
MOST_DURATIONS = 256
"""Durations that are kept of one class."""
FLUSH_S = 10.0


class CallClass:
    """Calls with equal layouts and whole numbers."""

    def __init__(self, number: int):
        self.number = number
        self.calls = 0
        self.replays = 0
        self.durations: list = []
        self.first_s = None
        """Duration of the first call, which may include compilation."""


class Recorder:
    """The record of one process, appended to one file of JSON lines."""

    def __init__(self, target: str, folder: str, *, whole_floats: bool):
        self.target, self.folder, self.whole_floats = target, folder, whole_floats
        self.apart: dict = {}
        """Calls that are counted and not recorded, by the reason."""
        self.reset()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self.start_in_child)

    def reset(self) -> None:
        """Forget everything that was recorded; in a child of a fork the parent's record is the parent's."""
        self.classes: dict = {}
        self.lines: list = []
        self.pending: list = []
        self.problems: dict = {}
        self.apart.clear()
        self.described = None
        self.own_s, self.started_s, self.flushed_s = 0.0, time.perf_counter(), time.perf_counter()
        self.local = threading.local()
        self.captured: dict = {}
        self.capturing = None
        self.path = Path(self.folder, f"calls-{os.getpid()}-{time.time_ns()}.jsonl")

    def start_in_child(self) -> None:
        """Begin a record of its own in a forked child, which runs no `atexit` where multiprocessing made it."""
        self.reset()
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            # The child forgets all finalizers, and then runs what is registered here.
            util.register_after_fork(self, lambda _: util.Finalize(None, self.close, exitpriority=0))

    # ------------------------------------------------------------------ calls

    def reason_apart(self) -> str:
        """Return why the current call is not recorded, or an empty text."""
        if getattr(self.local, "tuning", 0):
            return "in autotuning"
        if getattr(self.local, "depth", 0):
            return "within another call of it"
        return ""

    def call(self, target, original, args, kwargs):
        """Call `original` and record the call of `target`; an error of the recorder never reaches the program."""
        reason = self.reason_apart()
        if reason:
            self.apart[reason] = self.apart.get(reason, 0) + 1
            return original(*args, **kwargs)
        begun = time.perf_counter()
        observed = None
        with self._guarded():
            observed = self._before(target, args, kwargs)
        self.local.depth = 1
        self.local.launches = []
        events = observed and observed["events"]
        try:
            if events:
                events[0].record()
            called = time.perf_counter()
            result = original(*args, **kwargs)
            returned = time.perf_counter()
            if events:
                events[1].record()
        finally:
            self.local.depth = 0
        with self._guarded():
            if observed:
                self._after(observed, result, returned - called)
        self.own_s += time.perf_counter() - begun - (returned - called)
        return result

    @contextlib.contextmanager
    def _guarded(self):
        """Turn an exception into a problem of the record, and record no operation of torch that happens within."""
        torch = values.torch_module()
        try:
            if torch is None:
                yield
                return
            with torch.no_grad(), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            name = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            self.problems[name] = self.problems.get(name, 0) + 1

    def _before(self, target, args, kwargs):
        """Return what is known before the call, or None for a call that only traces."""
        named = target.arguments(args, kwargs)
        if named is None:
            return None
        for numbers in (True, False):
            key = tuple((name, values.argument_key(value, numbers)) for name, value in named.items())
            found = self.classes.get(key)
            if found is not None or len(self.classes) < MOST_CLASSES // 2:
                break
        if found is None:
            key = key if len(self.classes) < MOST_CLASSES else "all further classes"
            found = self.classes.setdefault(key, CallClass(len(self.classes)))
        found.calls += 1
        torch = values.torch_module()
        tensors: list = []
        tree = {name: values.describe(value, tensors) for name, value in named.items()}
        if any(values.is_traced(one) for one in tensors):
            found.calls -= 1
            self.apart["with tensors that have no values"] = self.apart.get("with tensors that have no values", 0) + 1
            return None
        on_gpu = any(one.is_cuda for one in tensors)
        if on_gpu and torch.cuda.is_current_stream_capturing():
            if self.capturing is not None:
                self.capturing.append(found)
            self.apart["in graph capture"] = self.apart.get("in graph capture", 0) + 1
            found.calls -= 1
            if found.calls == 0 and not hasattr(found, "layout"):
                # Without contents: reading them would end the capture.
                found.layout = True
                self.lines.append(self._line(found, tree, target, named) | {"captured": True})
            return None
        observed = {"class": found, "events": None, "full": None, "target": target}
        if on_gpu and (found.calls <= MOST_DURATIONS or found.calls % 16 == 0):
            observed["events"] = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        if found.calls <= FULL_RECORDS and found.number < MOST_CLASSES:
            line = self._line(found, tree, target, named)
            storages = [one.untyped_storage().data_ptr() for one in tensors]
            line["alias"] = [storages.index(one) for one in storages]
            observed["full"] = (line, tensors, [values.snapshot(one) for one in tensors])
            self.pending.append(
                ("summaries", line, [values.summary(one, whole_floats=self.whole_floats) for one in tensors])
            )
        return observed

    def _line(self, found, tree: dict, target, named: dict) -> dict:
        """Return a record of a call without its contents."""
        return {"kind": "call", "class": found.number, "arguments": tree, **target.extras(named), **caller()}

    def _after(self, observed: dict, result, seconds: float) -> None:
        """Complete the record of a call that has returned."""
        found = observed["class"]
        if observed["events"]:
            self.pending.append(("events", found, observed["events"]))
        else:
            self._add_duration(found, seconds)
        if observed["full"]:
            line, tensors, before = observed["full"]
            results: list = []
            line["results"] = values.describe(result, results)
            addresses = {(one.data_ptr(), one.untyped_storage().data_ptr()): at for at, one in enumerate(tensors)}
            storages = [one.untyped_storage().data_ptr() for one in tensors]
            line["result_is"] = [
                addresses.get((one.data_ptr(), one.untyped_storage().data_ptr()), -1) for one in results
            ]
            line["result_within"] = [
                storages.index(base) if (base := one.untyped_storage().data_ptr()) in storages else -1
                for one in results
            ]
            line["launches"] = self.local.launches[:64]
            changed = [(one != values.snapshot(tensor)).any() for one, tensor in zip(before, tensors)]  # noqa: B905
            self.pending.append(("written", line, changed))
            self.lines.append(line)
        if time.perf_counter() - self.flushed_s > FLUSH_S:
            self.flush()

    def _add_duration(self, found, seconds: float) -> None:
        if found.first_s is None:
            found.first_s = seconds
        elif len(found.durations) < MOST_DURATIONS:
            found.durations.append(seconds)
        else:
            found.durations[hash((found.calls, found.number)) % MOST_DURATIONS] = seconds

    # ------------------------------------------------------------------ the file

    def flush(self) -> None:
        """Append all that has been recorded to the file; waits for the device."""
        for kind, subject, content in self.pending:
            if kind == "summaries":
                subject["contents"] = [values.read_summary(one) for one in content]
            elif kind == "written":
                subject["written"] = [bool(one) for one in content]
            else:
                content[1].synchronize()
                self._add_duration(subject, content[0].elapsed_time(content[1]) / 1e3)
        self.pending.clear()
        lines, self.lines = self.lines, []
        if self.described is not None:
            lines.insert(0, self.described)
            self.described = None
        counts = [
            {"class": c.number, "calls": c.calls, "replays": c.replays, "first_s": c.first_s, "durations": c.durations}
            for c in self.classes.values()
        ]
        torch, triton = values.torch_module(), sys.modules.get("triton")
        lines.append(
            {
                "kind": "counts",
                "classes": counts,
                "apart": self.apart,
                "problems": self.problems,
                "own_s": self.own_s,
                "wall_s": time.perf_counter() - self.started_s,
                "versions": {
                    "python": sys.version.split()[0],
                    "torch": getattr(torch, "__version__", None),
                    "triton": getattr(triton, "__version__", None),
                },
                "device": device_name(torch),
                "modules": own_modules(),
            }
        )
        with self.path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        self.flushed_s = time.perf_counter()

    def close(self) -> None:
        """Write what is left at the end of the process."""
        try:
            self.flush()
        except Exception as error:
            # Of a process that outlives the program the folder may be gone.
            with contextlib.suppress(OSError), self.path.open("a") as file:
                file.write(json.dumps({"kind": "lost", "reason": f"{type(error).__name__}: {error}"}) + "\n")


def device_name(torch) -> str:
    """Return the name of the program's GPU, or cpu."""
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return "cpu"
    return torch.cuda.get_device_name()


def own_modules() -> dict:
    """Return name -> file of the imported modules that belong neither to Python nor to an installed package."""
    ours, python = Path(__file__).parents[1], Path(os.__file__).parent
    elsewhere = ("site-packages", "dist-packages", str(ours), str(python))
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return {
        name: str(Path(file).resolve())
        for name, file in files.items()
        if isinstance(file, str) and not any(part in file for part in elsewhere) and Path(file).is_file()
    }


def caller() -> dict:
    """Return the function of the program that makes the current call, as {"caller": "module:function"}."""
    frame = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        ours = module.startswith(("harness.", "_kernelwright", "triton.", "torch.", "contextlib"))
        if not ours and id(frame.f_code) not in trampolines:
            return {"caller": f"{module}:{getattr(frame.f_code, 'co_qualname', frame.f_code.co_name)}"}
        frame = frame.f_back
    return {"caller": ""}
