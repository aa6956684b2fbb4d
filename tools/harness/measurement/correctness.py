"""Answers a correctness request: baseline and candidate, each in a process of its own, on inputs that the oracle
made."""

from harness.measurement import backend, kernel_trace
from harness.memory import host_buffers
from harness.memory.input_ring import InfraError, Ring, Verdict, WorkloadError, spoken
from harness.workers.cpu_kernel import Kernel, KernelError


class Runner:
    """Keeps one process per library over the cases and starts a new one after a death."""

    def __init__(self, where: backend.Host, request: dict):
        self.place = where
        self.request = request
        self.running: dict[str, Kernel] = {}

    def run(self, name: str, ring: Ring) -> None:
        """One call on set 0 and slot 0; KernelError when the kernel or its manners fail."""
        ring.slots.poison([0])
        kernel = self.running.pop(name, None)
        if kernel is None:
            kernel = self.place.kernel({name: self.request["libraries"][name]})
            kernel.load(name)
        kernel.map(ring)
        kernel.run(name, kernel.train(ring, [0], [0]), 1)
        self.running[name] = kernel
        if not ring.slots.intact([0])[0]:
            raise KernelError("wrote outside its output (the guard band beside it is changed)")
        if not ring.inputs_intact():
            raise KernelError("changed its inputs")

    def look(self, ring: Ring) -> str | None:
        """Completes "the kernel …" where the device executed something else than the candidate's own kernels."""
        kernel = self.running["candidate"]
        ring.slots.poison([0])
        library = self.request["task"].get("library", ())
        seen = kernel.profile("candidate", kernel.train(ring, [0], [0]), bool(library))
        return kernel_trace.look(seen, kernel.source("candidate"), self.place.profiler, library)[1]

    def close(self) -> None:
        for kernel in self.running.values():
            kernel.close()


def answer(supervisor, request: dict) -> dict:
    runner = Runner(backend.of(supervisor, request), request)
    cases = []
    try:
        for case in request["cases"]:
            cases.append(one(runner, request, case))
            if cases[-1]["status"] == "failed":
                break
    finally:
        runner.close()
    return {"kind": "correctness", "cases": cases}


def one(runner: Runner, request: dict, case: dict) -> dict:
    where, visible, refused = runner.place, case["required"] and not case["hidden"], []
    for dims in (case["dims"], *case["spares"]):
        try:
            # What the reference refuses is found before a kernel is asked: of any but the user's own workloads that is
            # no fault.
            asked = {"dims": dims, "seed": case["seed"], "distribution": case["distribution"], "answered": not visible}
            made = where.oracle.call("make", id=0, **asked)["args"]
            where.room(2 * Ring.set_bytes(made))
            ring = Ring(where, [made], 1, 1, host_buffers.BEHIND)
        except WorkloadError as error:
            if visible:
                raise InfraError(f"workload {case['workload']}: {error}") from None
            why = str(error).removesuffix("; mend it there and run again")
            refused.append(f"the reference refuses {'drawn sizes' if case['hidden'] else f'{spoken(dims)} ({why})'}")
            continue
        try:
            found = judged(runner, request, case | {"dims": dims}, ring)
        finally:
            ring.close()
        instead = "others were asked" if case["hidden"] else f"asked was {spoken(dims)}"
        said = found["reason"] or (f"{'; '.join(dict.fromkeys(refused))}; {instead}" if refused else "")
        return found | {"case": case, "reason": said}
    return result(case, "dropped", "; ".join(dict.fromkeys(refused)))


def judged(runner: Runner, request: dict, case: dict, ring: Ring) -> dict:
    numeric, hidden = request["task"]["numeric"], case["hidden"]
    baseline = None
    if "baseline" in request["libraries"]:
        dropped = ""
        try:
            runner.run("baseline", ring)
            baseline = Verdict(ring.check([{"at": 0, "slot": 0}])[0]["outputs"], numeric)
            dropped = "" if baseline.ok else f"the baseline: {baseline.reason}"
        except KernelError as error:
            dropped = f"the baseline {error}"
        if dropped and not case["required"]:
            return result(case, "dropped", "hidden workload" if hidden else dropped, baseline)
    where = "hidden workload" if hidden else f"workload {case['workload']} ({spoken(case['dims'])})"
    where += f", inputs {case['distribution']}"
    try:
        runner.run("candidate", ring)
    except KernelError as error:
        said = str(error).split(" (")[0].split(": ")[0] if hidden else str(error)
        return result(case, "failed", f"{where}: the kernel {said}", baseline)
    widen = baseline.errors if baseline else None
    verdict = Verdict(ring.check([{"at": 0, "slot": 0}])[0]["outputs"], numeric, widen, secret=hidden)
    if verdict.ok and case["required"] and not hidden and not runner.place.launched:
        ring.move(host_buffers.FRONT)
        try:
            runner.run("candidate", ring)
        except KernelError as error:
            return result(case, "failed", f"{where}: the kernel {error}", baseline)
        verdict = Verdict(ring.check([{"at": 0, "slot": 0}])[0]["outputs"], numeric, widen)
    status = "passed" if verdict.ok else "failed" if case["required"] or baseline else "dropped"
    # All candidates inherit from the user's own kernel, the one that comes without a baseline: what it may not launch
    # is said at once.
    alone = "baseline" not in request["libraries"] and not hidden and case["distribution"] == "as_given"
    if verdict.ok and runner.place.launched and alone:
        try:
            said = runner.look(ring)
        except KernelError as error:
            return result(case, "failed", f"{where}: the kernel {error}", None)
        if said:
            return result(case, "failed", said, None) | {"policy": True}
    return result(case, status, "" if verdict.ok else f"{where}: {verdict.reason}", baseline, verdict)


def result(
    case: dict, status: str, reason: str, baseline: Verdict | None = None, verdict: Verdict | None = None
) -> dict:
    return {
        "case": case,
        "status": status,
        "reason": reason,
        "max_error": verdict.max_error if verdict else None,
        "tolerance": verdict.tolerance if verdict else None,
        "torch_error": (verdict or baseline).torch_error if verdict or baseline else None,
        "baseline_error": baseline.max_error if baseline else None,
    }
