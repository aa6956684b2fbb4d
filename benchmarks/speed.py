"""Speeds of Kernelwright itself, as a Markdown table: `make bench`, or python benchmarks/speed.py [WORKSPACE of a
quickstart run].

Nothing here is a test: machines are shared and noisy. All figures come from one run on one machine, so compare them
with each other.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from graph.workspace import events
from tools.artifacts import Candidate
from tools.executors.choice import ExecutorChoice, open_executor
from tools.gate.judge_settings import JudgeSettings
from tools.judge.judge import Judge
from tools.languages.base import open_language
from tools.store.records import Records
from tools.tasks import loader as tasks

ROOT = Path(__file__).parent.parent
Row = tuple[str, str, str]

FEW_MS = """\
#include <cmath>
extern "C" void solve(const float* x, float* out, int M, int N) {
  for (int i = 0; i < M; ++i) {
    float sum = 0.0f;
    for (int j = 0; j < N; ++j) sum += expf(x[i * N + j]);
    const float scale = 1.0f / sum;
    for (int j = 0; j < N; ++j) out[i * N + j] = expf(x[i * N + j]) * scale;
  }
}
"""
REFERENCE = """\
import torch
outputs = ("out",)
workloads = ({"name": "512x1024", "dims": {"M": 512, "N": 1024}},)
dims_range = {"M": (16, 512), "N": (16, 1024)}
def make_inputs(dims, seed):
    x = torch.randn(dims["M"], dims["N"], generator=torch.Generator().manual_seed(seed))
    return {"x": x, "out": torch.empty_like(x), "M": dims["M"], "N": dims["N"]}
def reference(x, out, M, N):
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)
"""


def quickstart() -> tuple[Path, list[Row]]:
    """Run the quickstart as a user does; its workspace and its own rows."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "graph", "run", "configs/quickstart.yaml", "--quiet", "--json"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - start
    summary = json.loads(done.stdout.splitlines()[-1])
    return Path(summary["workspace"]), [("quickstart after install", f"{seconds:.1f} s", "≤ 60 s")]


def against_others(workspace: Path) -> list[Row]:
    """The final benchmark's rows on 4096x1024."""
    records = Records(workspace)
    final = next(record for record in records if record.kind == "final")
    rows = []
    goals = {"baseline": "≥ 10×", "eager": "≥ 1.0×", "compile": "—"}
    for standing in final.payload["standings"]:
        if standing["workload"] == "4096x1024" and standing["against_best"]:
            ratio = standing["against_best"]
            text = f"{ratio['estimate']:.2f}× [{ratio['low']:.2f}, {ratio['high']:.2f}]"
            rows.append((f"softmax 4096x1024: {standing['contestant']} / best", text, goals[standing["contestant"]]))
    return rows


def overhead(workspace: Path) -> list[Row]:
    """What is left of a run's wall time when compiling, measuring and profiling are taken out.

    The start-up before the first node is shown by itself: the environment is looked at, compiler flags are tried and
    libraries loaded.
    """
    log = events.read_events(workspace / ".kernelwright" / "events.jsonl")
    nodes: dict[str, list[float]] = defaultdict(list)
    inside, startup = 0.0, 0.0
    for event in log:
        if event.kind == "job" and event.details["state"] == "finished":
            inside += float(event.details["s"])
        if event.kind == "node" and event.details["state"] == "started":
            startup = startup or event.seconds - log[0].seconds - inside
            inside = 0.0
        if event.kind == "node" and event.details["state"] == "finished":
            nodes[event.details["node"]].append(float(event.details["s"]) - inside)
    own = [seconds for times in nodes.values() for seconds in times]
    total = log[-1].seconds - log[0].seconds
    worst = max(nodes, key=lambda name: statistics.median(nodes[name]))
    return [
        ("orchestrator's share of the run, start-up included", f"{100 * (startup + sum(own)) / total:.1f} %", "≤ 10 %"),
        ("orchestrator's start-up, before the first node", f"{startup:.2f} s", "—"),
        ("orchestrator a node, mean", f"{1e3 * statistics.mean(own):.1f} ms", "≤ 30 ms"),
        (f"orchestrator, slowest node ({worst}), median", f"{1e3 * statistics.median(nodes[worst]):.1f} ms", "≤ 30 ms"),
    ]


def judged_candidates(count: int = 5) -> list[Row]:
    """One candidate after another through screen, build, correctness and timing, with the oracle already warm."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "kernel.cpp").write_text(FEW_MS)
        (root / "reference.py").write_text(REFERENCE)
        records = Records(root / "store")
        with open_executor(ExecutorChoice(), records.blobs, root / "scratch") as executor:
            task = tasks.load_task_folder(root, executor, records.blobs).task
            language = open_language("cpp")
            nowhere = "benchmark"
            judge = Judge(
                task,
                language,
                executor,
                records,
                environment=nowhere,
                device=nowhere,
                secret=b"s" * 32,
                policy=JudgeSettings(),
                emit=_ignore_event,
            )
            baseline = Candidate(language="cpp", files={"kernel.cpp": FEW_MS})
            judge.judge(
                Candidate(language="cpp", files={"kernel.cpp": FEW_MS + "// warm\n"}),
                baseline,
                baseline,
                siblings=1,
                iteration=0,
            )
            times = []
            for number in range(count):
                faster = FEW_MS.replace("  for (int i", f"  // {number}\n  #pragma omp parallel for\n  for (int i")
                start = time.perf_counter()
                judge.judge(
                    Candidate(language="cpp", files={"kernel.cpp": faster}), baseline, baseline, siblings=1, iteration=0
                )
                times.append(time.perf_counter() - start)
    return [
        (
            "one judged candidate of a few ms, warm oracle",
            f"{statistics.median(times):.2f} s (worst {max(times):.2f} s)",
            "≤ 1.5 s",
        )
    ]


def _ignore_event(kind: str, details: object) -> None:
    """Nobody listens."""


def starting(count: int = 7) -> list[Row]:
    """What a command waits for before it does anything, each as a whole process: its help, and the import of all
    that a run needs first."""
    rows = []
    for said, argv in (
        *(
            (f"python -m {program} --help", ("-m", program, "--help"))
            for program in ("graph", "tools", "knowledge_base")
        ),
        ('python -c "import graph.lifecycle.run"', ("-c", "import graph.lifecycle.run")),
    ):
        times = []
        for _ in range(count):
            start = time.perf_counter()
            subprocess.run([sys.executable, *argv], cwd=ROOT, check=True, capture_output=True)
            times.append(time.perf_counter() - start)
        rows.append((said, f"{statistics.median(times):.2f} s", "≤ 0.5 s"))
    return rows


def main() -> None:
    rows: list[Row] = []
    if len(sys.argv) > 1:
        workspace = Path(sys.argv[1])
        if not (workspace / "records").is_dir():
            sys.exit(f"{workspace} is no workspace of a finished run; usage: benchmarks/speed.py [WORKSPACE]")
    else:
        workspace, rows = quickstart()
    rows += against_others(workspace) + overhead(workspace) + judged_candidates() + starting()
    print("| what | measured | goal |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
