"""Answers a correctness request: runs baseline and candidate, each in a process of its own, on the oracle's inputs."""

from harness.measurement import backend, kernel_trace
from harness.memory import host_buffers
from harness.memory.input_ring import (
    InfraError,
    OutputVerdict,
    Ring,
    WorkloadError,
    format_dims,
    numeric_at_timed_shape,
)
from harness.workers.cpu_kernel import KernelError, KernelProcess


class CaseRunner:
    """Runs cases with one process for each kernel, and starts a new process after one has died."""

    def __init__(self, where: backend.TimingBackend, request: dict):
        self.backend = where
        self.request = request
        self.running: dict[str, KernelProcess] = {}

    def run(self, name: str, ring: Ring) -> None:
        """Run one call on set 0 and slot 0; KernelError when the kernel fails or writes outside its output."""
        ring.slots.poison([0])
        ring.restore([0], [0])
        kernel = self.running.pop(name, None)
        if kernel is None:
            kernel = self.backend.kernel({name: self.request["libraries"][name]})
            kernel.load(name)
        kernel.map(ring)
        packed = kernel.train(ring, [0], [0])
        kernel.prepare(packed)
        kernel.run(name, packed, 1)
        kernel.check_mappings()
        self.running[name] = kernel
        if not ring.slots.intact([0])[0]:
            raise KernelError("wrote outside its output (the guard band beside it is changed)")
        if not ring.inputs_intact():
            raise KernelError("changed its inputs")

    def executed_complaint(self, ring: Ring) -> str | None:
        """A clause that completes "the kernel …" where the device executed kernels that are not the candidate's own;
        else None."""
        kernel = self.running["candidate"]
        ring.slots.poison([0])
        ring.restore([0], [0])
        library = self.request["task"].get("library", ())
        seen = kernel.profile("candidate", kernel.train(ring, [0], [0]), bool(library))
        return kernel_trace.executed_names_and_complaint(
            seen, kernel.source("candidate"), self.backend.profiler, library
        )[1]

    def close(self) -> None:
        for kernel in self.running.values():
            kernel.close()


def answer(supervisor, request: dict) -> dict:
    runner = CaseRunner(backend.backend_for(supervisor, request), request)
    cases = []
    try:
        for case in request["cases"]:
            cases.append(check_case(runner, request, case))
            if cases[-1]["status"] == "failed":
                break
    finally:
        runner.close()
    return {"kind": "correctness", "cases": cases}


def check_case(runner: CaseRunner, request: dict, case: dict) -> dict:
    where, visible, refused = runner.backend, case["required"] and not case["hidden"], []
    for dims in (case["dims"], *case["spares"]):
        try:
            # What the reference refuses is found before a kernel is asked: of any but the user's own workloads that is
            # no fault.
            asked = {"dims": dims, "seed": case["seed"], "distribution": case["distribution"], "answered": not visible}
            made = where.oracle.call("make_inputs", id=0, **asked)["args"]
            where.require_memory(2 * Ring.set_bytes(made))
            ring = Ring(where, [made], 1, 1, host_buffers.BEHIND)
        except WorkloadError as error:
            if visible:
                raise InfraError(f"workload {case['workload']}: {error}") from None
            why = str(error).removesuffix("; correct it there and run again")
            refused.append(
                f"the reference refuses {'drawn sizes' if case['hidden'] else f'{format_dims(dims)} ({why})'}"
            )
            continue
        try:
            found = check_case_on_ring(runner, request, case | {"dims": dims}, ring)
        finally:
            ring.close()
        instead = "others were asked" if case["hidden"] else f"asked was {format_dims(dims)}"
        said = found["reason"] or (f"{'; '.join(dict.fromkeys(refused))}; {instead}" if refused else "")
        return found | {"case": case, "reason": said}
    return case_result(case, "dropped", "; ".join(dict.fromkeys(refused)))


def check_case_on_ring(runner: CaseRunner, request: dict, case: dict, ring: Ring) -> dict:
    numeric, hidden = request["task"]["numeric"], case["hidden"]
    baseline = None
    if "baseline" in request["libraries"]:
        dropped = ""
        try:
            runner.run("baseline", ring)
            baseline = OutputVerdict(ring.check([{"at": 0, "slot": 0}])[0]["outputs"], numeric)
            dropped = "" if baseline.ok else f"the baseline: {baseline.reason}"
        except KernelError as error:
            dropped = f"the baseline {error}"
        if dropped and not case["required"]:
            return case_result(case, "dropped", "hidden workload" if hidden else dropped, baseline)
    where = "hidden workload" if hidden else f"workload {case['workload']} ({format_dims(case['dims'])})"
    where += f", inputs {case['distribution']}"
    try:
        runner.run("candidate", ring)
    except KernelError as error:
        said = str(error).split(" (")[0].split(": ")[0] if hidden else str(error)
        return case_result(case, "failed", f"{where}: the kernel {said}", baseline)
    widen = baseline.errors if baseline else None
    if case["required"] and not hidden:
        numeric = numeric_at_timed_shape(numeric, widen)
    verdict = OutputVerdict(ring.check([{"at": 0, "slot": 0}])[0]["outputs"], numeric, widen, secret=hidden)
    if verdict.ok and case["required"] and not hidden and not runner.backend.launched:
        ring.move_to_edge(host_buffers.FRONT)
        try:
            runner.run("candidate", ring)
        except KernelError as error:
            return case_result(case, "failed", f"{where}: the kernel {error}", baseline)
        verdict = OutputVerdict(ring.check([{"at": 0, "slot": 0}])[0]["outputs"], numeric, widen)
    status = "passed" if verdict.ok else "failed" if case["required"] or baseline else "dropped"
    # All candidates inherit from the user's own kernel, the one that comes without a baseline: what it may not launch
    # is said at once.
    alone = "baseline" not in request["libraries"] and not hidden and case["distribution"] == "as_given"
    if verdict.ok and runner.backend.launched and alone:
        try:
            said = runner.executed_complaint(ring)
        except KernelError as error:
            return case_result(case, "failed", f"{where}: the kernel {error}", None)
        if said:
            return case_result(case, "failed", said, None) | {"policy": True}
    return case_result(case, status, "" if verdict.ok else f"{where}: {verdict.reason}", baseline, verdict)


def case_result(
    case: dict, status: str, reason: str, baseline: OutputVerdict | None = None, verdict: OutputVerdict | None = None
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
