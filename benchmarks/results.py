"""What runs achieved, as a Markdown table: python benchmarks/results.py WORKSPACE... > benchmarks/results/NAME.md.

Every figure is read from the workspaces' records; losses are rows like the others. The share of the copy bandwidth is
that of the paired timing's time (on a GPU: of the device alone), over the bytes of all inputs and outputs, each once.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from graph.report.content.summary import Summary, summarise
from graph.workspace.folder import open_read_only
from graph.workspace.versions import read_state
from tools.artifacts import Interval, Record
from tools.cli.formatting import format_seconds, format_speedup
from tools.judge import evidence
from tools.store.records import Records, record_key
from tools.tasks.loader import LoadedTask

WHOLE = "all, weighted"


def rows(workspace: Path) -> list[str]:
    """One row a workload, and one over all."""
    records = Records(workspace)
    final = _last(records, "final")
    best = _best_seconds(records, str(read_state(open_read_only(workspace))["incumbent"]))
    loaded = records.find(record_key("task"))
    assert loaded is not None
    bytes_of = {w.name: w.unique_bytes for w in LoadedTask.model_validate(loaded.payload).workloads}
    copy = copy_bandwidth(records)
    standings: dict[str, dict[str, tuple[str, float]]] = {}
    for one in final.payload["standings"]:
        against = Interval.model_validate(one["against_best"]) if one["against_best"] else None
        standings.setdefault(one["workload"] or WHOLE, {})[one["contestant"]] = (
            format_speedup(against) if against else "—",
            one["seconds"],
        )
    found = []
    for workload, by in standings.items():
        share = f"{bytes_of[workload] / best[workload] / copy:.0%}" if copy and workload in best else "—"
        cells = [by[name][0] if name in by else "N/A" for name in ("baseline", "eager", "compile", "max_autotune")]
        found.append(
            f"| {final_name(workspace)} | {workload} | {format_seconds(by['best'][1])} | {' | '.join(cells)} | {share} |"
        )
    return found


def final_name(workspace: Path) -> str:
    return workspace.name.rsplit("-", 1)[0]


def _last(records: Records, kind: str) -> Record:
    return [record for record in records if record.kind == kind][-1]


def _best_seconds(records: Records, incumbent: str) -> dict[str, float]:
    """Median seconds of the accepted kernel against itself: what its noise floor was measured by."""
    own = [r for r in records if r.kind == "calibration" and r.payload["candidate"] == incumbent]
    return evidence.incumbent_seconds(own[-1])


def copy_bandwidth(records: Records) -> float:
    """Bytes a second that the preflight's copy read and wrote; 0 where it was not measured."""
    measured = next((r for r in records if r.kind == "roof"), None)
    rates = measured.payload.get("bandwidth", {}).get("copy", ()) if measured else ()
    return float(np.median(rates)) if rates else 0.0


def headline(workspace: Path) -> tuple[str, Summary]:
    summary = summarise(workspace, read_state(open_read_only(workspace)))
    accepted = sum(outcome == "accept" for outcome in summary.verdicts.values())
    return (
        (
            f"- {final_name(workspace)}: {accepted} of {len(summary.verdicts)} iterations accepted; stopped: "
            f"{summary.stop_reason}"
        ),
        summary,
    )


def main() -> None:
    workspaces = [Path(argument) for argument in sys.argv[1:]]
    print(
        "| run | workload | best | over baseline | over torch eager | over torch.compile | over max-autotune | "
        "of copy bandwidth |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for workspace in workspaces:
        print("\n".join(rows(workspace)))
    print()
    for workspace in workspaces:
        print(headline(workspace)[0])


if __name__ == "__main__":
    main()
