"""Whether what a run claims is what its final benchmark finds: `python -m benchmarks.claims 20 >
benchmarks/results/claims.md`.

The quickstart's softmax is run again and again for one iteration, each time with nothing remembered, and each accepted
version's claim is held against the final benchmark of the same run. Both are ratios over the given kernel, with 95 %
intervals or wider.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import yaml

from knowledge_base.pages.wiki import HOME_VARIABLE
from tools.artifacts import Claim, Interval
from tools.cli.formatting import format_speedup
from tools.store.records import Records

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "configs" / "quickstart.yaml"


def run(folder: Path) -> tuple[Claim | None, Interval]:
    """One run of one iteration in a process of its own: what it claims (None: it accepted nothing), and what its end
    measured."""
    config = yaml.safe_load(QUICKSTART.read_text())
    config |= {
        "task": str(QUICKSTART.parent / config["task"]),
        "workspaces": str(folder),
        "benchmark": {"eager": False, "compile": False},
    }
    config["search"] |= {"iterations": 1}
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config))
    environment = {**os.environ, HOME_VARIABLE: str(folder / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "graph", "run", str(path), "--quiet", "--json"]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    records = Records(folder / json.loads(done.stdout.splitlines()[-1])["workspace"])
    # v0 is accepted, too, and claims nothing.
    accepted = [
        record.payload for record in records if record.kind == "verdict" and record.payload["outcome"] == "accept"
    ]
    claims = [verdict["claim"] for verdict in accepted if verdict["claim"]]
    (final,) = (record for record in records if record.kind == "final")
    return Claim.model_validate(claims[0]) if claims else None, Interval.model_validate(
        final.payload["overall"]["baseline"]
    )


def main() -> None:
    """One row a run as it ends, then the sums."""
    print("# What runs claim, and what their final benchmarks find\n")
    print(
        f"`python -m benchmarks.claims {sys.argv[1]}`: the quickstart's softmax, one iteration a run, no "
        f"framework beside it.\n"
    )
    print("| run | claimed | final benchmark | intervals overlap | claim / final |\n|--:|---|---|---|--:|", flush=True)
    differences, overlaps, widths = [], [], []
    for number in range(1, int(sys.argv[1]) + 1):
        with tempfile.TemporaryDirectory() as folder:
            claimed, final = run(Path(folder))
        if claimed is None:
            print(f"| {number} | nothing was accepted | {format_speedup(final)} | | |", flush=True)
            continue
        told = claimed.speedup
        overlaps.append(told.low <= final.high and final.low <= told.high)
        differences.append(math.log(told.estimate / final.estimate))
        widths.append(math.log(told.high / told.low))
        cells = (
            number,
            format_speedup(told),
            format_speedup(final),
            "yes" if overlaps[-1] else "NO",
            f"{math.exp(differences[-1]):.3f}",
        )
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    print(f"\n- accepted: {len(overlaps)}; intervals overlap in {sum(overlaps)}")
    print(
        f"- median of log(claim / final): {median(differences):+.1%}; median width of the claim, log(high / low): "
        f"{median(widths):.2f}"
    )


if __name__ == "__main__":
    main()
