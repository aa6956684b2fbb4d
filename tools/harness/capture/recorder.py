"""Records calls: their classes, some calls in full, and counts and durations of all. Standard library and torch."""

import atexit
import contextlib
import json
import os
import sys
import time
from pathlib import Path

from harness.capture import values

FULL_RECORDS = 4
"""Calls of one class that are recorded with their contents."""
MOST_CLASSES = 512
"""Classes that are told apart; all other calls are only counted."""
MOST_DURATIONS = 256
"""Calls of one class that are timed, from the first on."""


class Recorder:
    """The record of one process, written to one file of JSON at its end."""

    def __init__(self, target: str, folder: str):
        self.target, self.folder = target, folder
        self.kernels: dict = {}
        """Id of a jitted function of Triton -> its target."""
        self.described = None
        """The target, once it was found."""
        self.reset()
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self.start_in_child)

    def reset(self) -> None:
        """Forget everything that was recorded; in a child of a fork the parent's record is the parent's."""
        self.classes: dict = {}
        """Description of the arguments -> number, durations in seconds, and records of such calls."""
        self.pending: list = []
        """What completes the records of calls that returned, and waits for the device."""
        self.problems: dict = {}
        self.apart: dict = {}
        """Reason -> number of calls that are not recorded."""
        self.depth = self.tuning = 0
        self.path = Path(self.folder, f"calls-{os.getpid()}-{time.time_ns()}.part")

    def start_in_child(self) -> None:
        """Begin a record of its own in a forked child, which runs no `atexit` where multiprocessing made it."""
        self.reset()
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            # The child forgets all finalizers, and then runs what is registered here.
            util.register_after_fork(self, lambda _: util.Finalize(None, self.close, exitpriority=0))

    def call(self, target, original, args, kwargs):
        """Call `original` and record the call of `target`; an error of the recorder never reaches the program."""
        if self.tuning or self.depth:
            self.count_apart("in autotuning" if self.tuning else "within another call of it")
            return original(*args, **kwargs)
        finish, events = None, ()
        with self._guarded():
            finish, events = self._before(target, args, kwargs)
        self.depth = 1
        try:
            for event in events[:1]:
                event.record()
            called = time.perf_counter()
            result = original(*args, **kwargs)
            seconds = time.perf_counter() - called
            for event in events[1:]:
                event.record()
        finally:
            self.depth = 0
        with self._guarded():
            if finish:
                finish(result, seconds)
        return result

    def count_apart(self, reason: str) -> None:
        """Count a call that is not recorded."""
        self.apart[reason] = self.apart.get(reason, 0) + 1

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
            self.problems[f"{type(error).__name__}: {error}"] = 1

    def _before(self, target, args, kwargs):
        """Return what completes the record with result and seconds of the call, or None for a call that is not
        recorded, and two events of the device, which measure instead, or none."""
        named, more = target.arguments(args, kwargs)
        tensors: list = []
        tree = {name: values.describe(value, tensors) for name, value in named.items()}
        torch, on_gpu, key = values.torch_module(), any(one.is_cuda for one in tensors), json.dumps(tree)
        reason = ""
        if any(values.is_traced(one) for one in tensors):
            reason = "with tensors that have no values"
        elif on_gpu and torch.cuda.is_current_stream_capturing():
            reason = "in the capture of a CUDA graph"
        elif key not in self.classes and len(self.classes) == MOST_CLASSES:
            reason = "of further classes, not told apart"
        if reason:
            self.count_apart(reason)
            return None, ()
        found = self.classes.setdefault(key, {"calls": 0, "durations": [], "records": []})
        found["calls"] += 1
        is_timed, is_full = found["calls"] <= MOST_DURATIONS, found["calls"] <= FULL_RECORDS
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if on_gpu and is_timed else ()
        summaries = [values.summary(one) for one in tensors if is_full]
        before = [values.snapshot(one) for one in tensors if is_full]

        def read_duration():
            events[1].synchronize()
            found["durations"].append(events[0].elapsed_time(events[1]) / 1e3)

        def finish(result, seconds):
            if events:
                self.pending.append(read_duration)
            elif is_timed:
                found["durations"].append(seconds)
            if not is_full:
                return
            results: list = []
            line = {"arguments": tree, "results": values.describe(result, results), **more}
            storages = [one.untyped_storage().data_ptr() for one in tensors]
            line["alias"] = [storages.index(one) for one in storages]
            within = [one.untyped_storage().data_ptr() for one in results]
            line["result_within"] = [storages.index(one) if one in storages else -1 for one in within]
            changed = [(one != values.snapshot(other)).any() for one, other in zip(before, tensors)]  # noqa: B905

            def read_contents():
                line["contents"] = [values.read_summary(one) for one in summaries]
                line["written"] = [bool(one) for one in changed]
                found["records"].append(line)

            self.pending.append(read_contents)

        return finish, events

    def close(self) -> None:
        """Write the record at the end of the process; waits for the device."""
        for complete in self.pending:
            with self._guarded():
                complete()
        torch = values.torch_module()
        on_gpu = torch is not None and torch.cuda.is_initialized()
        record = {
            "target": self.described and self.described.line(),
            "classes": list(self.classes.values()),
            "apart": self.apart,
            "problems": list(self.problems),
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "modules": own_modules(),
        }
        # Of a process that outlives the program the folder may be gone.
        with contextlib.suppress(OSError):
            self.path.write_text(json.dumps(record))
            self.path.rename(self.path.with_suffix(".json"))


def own_modules() -> dict:
    """Return name -> file of the imported modules that belong neither to Python nor to an installed package."""
    elsewhere = ("site-packages", "dist-packages", str(Path(__file__).parents[1]), str(Path(os.__file__).parent))
    files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
    return {
        name: str(Path(file).resolve())
        for name, file in files.items()
        if file.endswith(".py") and not any(part in file for part in elsewhere)
    }
