"""Six iterations on a softmax, as a run would brief its agents: real sources, real wiki, the playbook's plans and
kernels; verdicts and metrics are made up, so that the story is the same each time and needs no device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from agents.artifacts import (
    AnalystBrief,
    Brief,
    CoderBrief,
    Dossier,
    FrontierKernel,
    GatekeeperBrief,
    Hypothesis,
    KernelObservations,
    Plan,
    PlannedMethod,
    PlannerBrief,
    Prediction,
    Queries,
    RetrieverBrief,
    RoleName,
    RunAttempt,
)
from agents.models.playbook.model import answer_brief
from graph.nodes.gate_evidence import kernel_diff
from graph.nodes.prepare import relevant_metrics
from knowledge_base.artifacts import Attempt, Page, Passage
from knowledge_base.pages.wiki import Wiki
from knowledge_base.search.index import Index
from knowledge_base.specs import lookup
from tools.analysis import rules, signatures
from tools.artifacts import Argument, Candidate, Finding, Interval, Profile, Quantity, Remark, Task, Workload, digest
from tools.profilers import ncu
from tools.roofline.hardware import Headroom, Spec

CONFIGS = Path(__file__).parent.parent / "configs" / "tasks"
FIXTURES = Path(__file__).parent.parent / "tests" / "tools" / "fixtures"
LISTINGS = {"cpp": "static/softmax/gcc.assembly.txt", "triton": "static/triton-softmax/sm_90.assembly.txt"}
FOLDERS: dict[str, tuple[str, str]] = {"cpp": ("softmax", "kernel.cpp"), "triton": ("triton-softmax", "kernel.py")}
SHAPES = {"cpp": ((4096, 1024), (512, 1000)), "triton": ((8192, 4096), (4096, 8192), (16384, 1000))}
RANGES = {"cpp": {"M": (64, 4096), "N": (32, 4096)}, "triton": {"M": (1024, 16384), "N": (128, 8192)}}
"""As the folders' references have them."""
VERDICTS = ("accept", "reject_perf", "accept", "inconclusive", "reject_correctness", "accept")
REASONS = {
    "accept": "Faster: 1.620x [1.571, 1.668] of the incumbent, threshold 1.020x (noise floor 0.8%), corrected for 4 "
    "candidates.",
    "reject_perf": "Not faster by enough: 1.003x [0.996, 1.009] of the incumbent, threshold 1.020x (noise floor 0.8%).",
    "inconclusive": "The noise hides the answer after 4 of 4 batches: 1.024x [1.004, 1.046] of the incumbent, "
    "threshold 1.020x.",
    "reject_correctness": "Candidate failed at correctness: element 17 of row 3 is nan where the reference is finite.",
}
METRICS: dict[str, tuple[dict[str, float], ...]] = {
    "cpp": (
        {
            "objdump.omp_regions": 0,
            "device.units": 8,
            "objdump.math_calls": 2,
            "objdump.calls.expf": 2,
            "compiler.loops_missed": 3,
        },
        {"objdump.math_calls": 2, "objdump.calls.expf": 2, "compiler.loops_missed": 3, "objdump.serial_reductions": 2},
        {"objdump.serial_reductions": 2, "objdump.divide": 1, "objdump.scalar_loops": 1, "objdump.loops": 3},
        {"roofline.headroom": 0.5, "roofline.launch_share": 0.01, "roofline.fraction_of_memory_roof": 0.5},
    ),
    "triton": (
        {
            "sass.kernels": 1,
            "roofline.headroom": 0.8,
            "roofline.launch_share": 0.01,
            "roofline.intensity_over_ridge": 0.1,
            "sass.loops": 3,
        },
        {
            "sass.kernels": 1,
            "roofline.headroom": 0.5,
            "ncu.stall_share.long_scoreboard": 62,
            "ncu.sectors_per_request.ld": 2,
        },
        {
            "sass.kernels": 1,
            "roofline.headroom": 0.4,
            "sass.global_loads": 4,
            "sass.wide_loads": 0,
            "roofline.intensity_over_ridge": 0.1,
        },
        {"sass.kernels": 1, "roofline.headroom": 0.2, "roofline.fraction_of_memory_roof": 0.8},
    ),
}
"""Of v0 and of each version that is accepted."""
REMARKS = (
    Remark(
        tool="gcc", line=9, kind="missed", text="couldn't vectorize loop: statement clobbers memory: _1 = expf (_2);"
    ),
    Remark(
        tool="gcc",
        line=8,
        kind="missed",
        text="not vectorized: reduction: would need to reorder floating-point additions",
    ),
)


NCU_REMARKS = tuple(
    Remark(tool="ncu", line=0, kind="note", text=text)
    for text in (
        "INF SOLBottleneck: Memory is more heavily utilized than Compute.",
        "OPT LongScoreboard: Warps wait for L1TEX operations. (ncu estimates 42.5 % global)",
    )
)


class ScriptedExchange(NamedTuple):
    """One call for an agent."""

    iteration: int
    """0: before the first."""
    role: RoleName
    brief: Brief
    answer: str


class Scenario:
    """The story for one language."""

    def __init__(self, language: str, methods: int = 1) -> None:
        """`methods`: fewest in a plan; where the playbook plans fewer, the first pages that were given come on top."""
        self.language = language
        self.methods = methods
        folder, kernel = FOLDERS[language]
        self.suffix = Path(kernel).suffix
        self.task = _task(folder, kernel, language)
        self.wiki = Wiki.open()
        self.specs = _specs(self.wiki) if language == "triton" else ()
        self.architecture = "sm_90" if language == "triton" else "x86_64"
        compiler = "triton 3.6.0, torch 2.11.0" if language == "triton" else "gcc 13.3.0, torch 2.11.0"
        self.machine = ("device: a made-up one, 8 units", f"compiler: {compiler}")

    def asked(self) -> Iterator[ScriptedExchange]:
        """Every call in order: an analyst for each version, then who retrieves, plans, writes (twice after a
        failure) and reviews."""
        version, source, tried = 0, self.task.baseline or "", ()
        yield ScriptedExchange(0, "profiler_analyst", self.analyst(version, source), "Analysis")
        for iteration, verdict in enumerate(VERDICTS, 1):
            yield ScriptedExchange(iteration, "knowledge_retriever", self.retriever(version, source), "Queries")
            planner = self.planner(version, source, tried)
            yield ScriptedExchange(iteration, "planner", planner, "Plan")
            plan = self.planned(planner)
            coder = self.coder(version, source, plan, tried)
            yield ScriptedExchange(iteration, "coder", coder, "Drafts")
            if verdict == "reject_correctness":
                failed = f"4f1d0c8a2b9e: correctness: {REASONS[verdict]}\n" + "\n".join(
                    f"row {n}: nan" for n in range(30)
                )
                yield ScriptedExchange(iteration, "coder", coder.model_copy(update={"failures": (failed,)}), "Drafts")
            written = self.written(coder, iteration)
            if verdict == "accept":
                yield ScriptedExchange(
                    iteration, "gatekeeper", GatekeeperBrief(task=self.task, diff=self.diff(source, written)), "Review"
                )
            tried = (*tried, _tried(iteration, plan, verdict))
            if verdict == "accept":
                version, source = version + 1, written
                yield ScriptedExchange(iteration, "profiler_analyst", self.analyst(version, source), "Analysis")

    def seen(self, version: int) -> KernelObservations:
        """What a run shows of a version; the loops are the first one's, the counters of ncu another softmax's."""
        metrics = self.metrics(version)
        if self.language == "triton":
            report = (FIXTURES / "ncu" / "triton_softmax.raw.csv").read_text(encoding="utf-8")
            metrics = ncu.profile_metrics(ncu.call_metrics(ncu.parse_launches(report))) | metrics
        times = {"incumbent": 4e-4 / (1 + version), "measured roof": 6.1e-5, "published roof": 5.6e-5}
        names = [w.name for w in self.task.workloads]
        timed = {f"time.{name}": Quantity(value=times["incumbent"], unit="s") for name in names}
        return KernelObservations(
            times=dict.fromkeys(names, times),
            counters={
                record("calibration", version): timed,
                record("profile", version): relevant_metrics(metrics, rules.load_rules()),
            },
            machine_code=signatures.hot_loop_assembly((FIXTURES / LISTINGS[self.language]).read_text(encoding="utf-8")),
            operator=self.operator,
            thresholds="noise floor 0.8 %; least gain that counts 2.0 %; a workload may become slower by 2.0 % unless "
            "the task says otherwise",
        )

    def findings(self, version: int) -> tuple[Finding, ...]:
        """What the shipped rules make of the version's metrics."""
        metrics = self.metrics(version)
        return rules.evaluate_rules(
            [(Profile(tool="static", launch="static", source="v", metrics=metrics), record("profile", version))], {}
        )

    def metrics(self, version: int) -> dict[str, Quantity]:
        return {name: Quantity(value=value) for name, value in METRICS[self.language][version].items()}

    def analyst(self, version: int, source: str) -> AnalystBrief:
        findings = self.findings(version)
        return AnalystBrief(
            source=source,
            findings=findings,
            remarks=REMARKS if self.language == "cpp" else (),
            headroom=_headroom(version),
            records=(record("calibration", version), record("profile", version)),
            specs=self.specs,
            architecture=self.architecture,
            machine=self.machine,
            task=self.task,
            skills=self.skills(findings),
            observations=self.seen(version),
        )

    def retriever(self, version: int, source: str) -> RetrieverBrief:
        findings = self.findings(version)
        return RetrieverBrief(
            task=self.task,
            findings=findings,
            bottleneck="memory",
            source=source,
            headroom=_headroom(version),
            specs=self.specs,
            architecture=self.architecture,
            machine=self.machine,
            skills=self.skills(findings),
            observations=self.seen(version),
        )

    def planner(self, version: int, source: str, tried: tuple[RunAttempt, ...]) -> PlannerBrief:
        findings = self.findings(version)
        return PlannerBrief(
            task=self.task,
            source=source,
            findings=findings,
            headroom=_headroom(version),
            dossier=self.dossier(version),
            tried=tried,
            budget={"compute": 1, "memory": 2, "latency": 1, "occupancy": 1},
            methods_per_iteration=3,
            candidates=4,
            records=(record("inspection", version), record("profile", version)),
            signals=("latency: stall_barrier, stall_wait", "memory: poor_coalescing, smem_bank_conflicts"),
            frontier=tuple(map(_lost, tried[-1:])),
            remarks=REMARKS if self.language == "cpp" else NCU_REMARKS,
            specs=self.specs,
            architecture=self.architecture,
            machine=self.machine,
            memory=_memory(self.task, self.architecture),
            skills=self.skills(findings),
            observations=self.seen(version),
        )

    def coder(self, version: int, source: str, plan: Plan, tried: tuple[RunAttempt, ...]) -> CoderBrief:
        findings = self.findings(version)
        found = [self.wiki.page(item.method) for item in plan.methods]
        return CoderBrief(
            task=self.task,
            source=source,
            plan=plan,
            pages=tuple(page for page in found if page is not None),
            tried=tried,
            specs=self.specs,
            architecture=self.architecture,
            machine=self.machine,
            findings=findings,
            headroom=_headroom(version),
            skills=self.skills(findings),
            observations=self.seen(version),
        )

    def skills(self, findings: Sequence[Finding]) -> tuple[Page, ...]:
        return self.wiki.skills(self.language, [finding.rule for finding in findings])

    def dossier(self, version: int) -> Dossier:
        """What the playbook's queries find in the bundled wiki."""
        findings = self.findings(version)
        asked = answer_brief(RetrieverBrief(task=self.task, findings=findings, bottleneck="memory"))
        assert isinstance(asked, Queries)
        found = {
            (p.path, p.first_line): p
            for query in asked.queries
            for p in self.index.search(query.text, language=self.language, arch=self.architecture)[:4]
        }
        fired = [finding.rule for finding in findings]
        methods = self.wiki.methods(self.language, fired, self.metrics(version), "softmax", self.architecture)
        others = (passage for passage in found.values() if passage.path not in {one.path for one in self.operator})
        return Dossier(queries=asked.queries, passages=(*self.operator, *others), methods=methods, attempts=())

    @cached_property
    def operator(self) -> tuple[Passage, ...]:
        return self.wiki.operator_passages("softmax", "cpu" if self.language == "cpp" else "cuda")

    @cached_property
    def index(self) -> Index:
        return Index(self.wiki)

    def planned(self, brief: PlannerBrief) -> Plan:
        """The playbook's plan, or where it has nothing left the first pages that were given."""
        made = answer_brief(brief)
        assert isinstance(made, Plan)
        if not made.methods:
            made = made.model_copy(update={"methods": _other_methods(brief, ())[:2], "candidates": 4})
        more = _other_methods(brief, made.methods)[: max(0, self.methods - len(made.methods))]
        return made.model_copy(update={"methods": (*made.methods, *more)})

    def written(self, brief: CoderBrief, iteration: int) -> str:
        """The playbook's first kernel; where it has none the incumbent with a remark."""
        drafts = getattr(answer_brief(brief), "drafts", ())
        note = "#" if self.language == "triton" else "//"
        return str(drafts[0].source) if drafts else f"{brief.source}{note} v{iteration}\n"

    def diff(self, before: str, after: str) -> str:
        name = f"kernel{self.suffix}"
        return kernel_diff(
            Candidate(language=self.language, files={name: before}),
            Candidate(language=self.language, files={name: after}),
        )


def record(kind: str, version: int) -> str:
    """An id as records have them."""
    return digest(f"{kind} {version}")[:16]


def _task(folder: str, kernel: str, language: str) -> Task:
    tensors = [
        Argument(name=name, role=role, dtype="float32", shape=("M", "N"))
        for name, role in (("x", "input"), ("out", "output"))
    ]
    scalars = [Argument(name=name, role="scalar", dtype="int32") for name in ("M", "N")]
    return Task(
        name=folder,
        language=language,
        arguments=(*tensors, *scalars),
        reference=(CONFIGS / folder / "reference.py").read_text(encoding="utf-8"),
        baseline=(CONFIGS / folder / kernel).read_text(encoding="utf-8"),
        workloads=tuple(Workload(name=f"{m}x{n}", dims={"M": m, "N": n}) for m, n in SHAPES[language]),
        dims_range=RANGES[language],
    )


def _specs(wiki: Wiki) -> tuple[Spec, ...]:
    found = [
        lookup.resolve_spec(wiki, "H200", metric, "SXM5") for metric in ("memory_bandwidth", "peak_fp32", "l2_size")
    ]
    return tuple(spec for spec in found if isinstance(spec, Spec))


def _headroom(version: int) -> Headroom:
    left = 0.9 - 0.2 * version
    return Headroom(total=left, compute=0.5 * left, memory=left, latency=0.1, bound="memory")


def _tried(iteration: int, plan: Plan, verdict: str) -> RunAttempt:
    methods = tuple(item.method for item in plan.methods)
    gains = {
        "accept": Interval(estimate=1.62, low=1.571, high=1.668),
        "reject_perf": Interval(estimate=1.003, low=0.996, high=1.009),
    }
    return RunAttempt(
        iteration=iteration,
        methods=methods,
        knobs={"WARPS": "8"},
        verdict=verdict,
        reason=REASONS[verdict],
        planned=methods,
        speedup=gains.get(verdict),
        predicted=f"{len(methods) if verdict == 'accept' else 0} of {len(methods)} predictions held" if methods else "",
        counter_changes={"sass.registers": (26.0, 40.0), "ncu.dram_bytes": (4.1e8, 2.7e8)} if verdict in gains else {},
    )


def _lost(one: RunAttempt) -> FrontierKernel:
    """A sibling of an iteration's candidate."""
    gain = Interval(estimate=1.01, low=0.98, high=1.04)
    return FrontierKernel(
        candidate=record("sibling", one.iteration)[:12],
        iteration=one.iteration,
        methods=one.methods,
        knobs={"WARPS": "4"},
        speedup=gain,
        timed_against="v0",
        verdict="inconclusive",
        reason=one.reason,
    )


def _memory(task: Task, architecture: str) -> tuple[Attempt, ...]:
    """Two earlier runs."""
    common = {
        "operator": task.name,
        "language": task.language,
        "architecture": architecture,
        "dtype": "float32",
        "shape_class": "2^25B",
    }
    won, lost = ("triton-single-pass", "triton-launch") if task.language == "triton" else ("fuse-passes", "simd-loop")
    gain, none = Interval(estimate=2.1, low=2.0, high=2.2), Interval(estimate=1.0, low=0.98, high=1.01)
    rows: list[dict[str, object]] = [
        {"methods": (won,), "result": "success", "verdict": "accept", "effect": gain, "note": REASONS["accept"]},
        {
            "methods": (lost,),
            "result": "failure",
            "verdict": "reject_perf",
            "effect": none,
            "note": REASONS["reject_perf"],
        },
    ]
    return tuple(
        Attempt.model_validate(
            {**common, **row, "bottleneck": "memory", "evidence": record("verdict", at), "iteration": at + 1}
        )
        for at, row in enumerate(rows)
    )


def _other_methods(brief: PlannerBrief, planned: tuple[PlannedMethod, ...]) -> tuple[PlannedMethod, ...]:
    """The methods that were given and are not planned."""
    move = Prediction(metric="time", direction="down", factor=0.8, confidence=0.4)
    return tuple(
        PlannedMethod(
            method=page.head.id,
            axis=page.head.axis or "compute",
            hypothesis=Hypothesis(
                change=page.head.title, rationale="Next in line.", citations=(brief.records[0],), expected=(move,)
            ),
        )
        for page in brief.dossier.methods
        if page.head.id not in {method.method for method in planned}
    )
