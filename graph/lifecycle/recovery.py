"""The checks before a run resumes: checkpoint, git and records agree, and git holds no foreign changes (F8)."""

from __future__ import annotations

import contextlib
import math

from graph.nodes.commits import require_own_history
from graph.nodes.gate_evidence import close_unjudged
from graph.report import final
from graph.services import Services
from graph.state import State
from graph.workspace import completeness, drift
from graph.workspace.versions import find_incumbent, lineage, read_versions, restored_version
from tools.errors import WorkspaceError
from tools.judge import evidence
from tools.store.blobs import write_atomically
from tools.store.records import record_key


def reconcile(services: Services) -> None:
    """Check before resuming that git holds only changes of this run, and that every record has its blobs (F8).

    A commit that the checkpoint does not know yet is fine: the gate finds it by its trailer and does not make another.
    """
    workspace = services.workspace
    for record in workspace.records:
        for sha in record.blobs.values():
            workspace.records.blobs.path(sha)
    drift.refuse_drift(workspace.repository)
    if workspace.repository.head() is None:
        return  # v0 is not committed yet, so there is nothing to differ from
    require_own_history(services)
    _restore_uncommitted_files(services)


def state_after_mask(state: State, services: Services, *, remade: bool = False) -> State | None:
    """Return the update of the state if a mask put another kernel at HEAD, whose profile then comes next; else None.

    An iteration that was planned for the replaced kernel is closed. `remade`: the state is that of v0, made again
    without a checkpoint, and any mask of the run counts.
    """
    replaced = restored_version(services.workspace)
    restored = find_incumbent(read_versions(services.workspace.root)) if remade else replaced
    if restored is None or restored.candidate is None or (not remade and restored.candidate == state.get("incumbent")):
        return None
    kernel = services.candidate(restored.candidate)
    calibration = services.judge.read_or_measure_calibration(kernel)
    under_way = completeness.last_closed_iteration(services.workspace.root) + 1
    plan = services.records.find(record_key("plan", iteration=under_way))
    if plan is not None and replaced is not None:
        close_unjudged(State(**{**state, "iteration": under_way, "plan": plan.id}), services, restored)
    return State(
        iteration=completeness.last_closed_iteration(services.workspace.root),
        outcome="accept",
        incumbent=kernel.id,
        noise_floor=evidence.noise_floor(calibration, services.settings.judge.objective),
        calibration=calibration.id,
        speedup=math.prod(
            m.speedup.low for m in lineage(read_versions(services.workspace.root)) if m.speedup is not None
        ),
        champion=None,
        attribution=None,
        drafts=[],
        rewrite=False,
        stop=None,
        report="",
    )


def _restore_uncommitted_files(services: Services) -> None:
    """Restore HEAD's kernel if a kill came between its replacement and the commit, and HEAD's reports if `report`
    rewrote them."""
    workspace = services.workspace
    for name in {f"kernel{services.language.suffix}", *final.FILES} & set(workspace.repository.drift()):
        (workspace.root / name).unlink(missing_ok=True)
        with contextlib.suppress(WorkspaceError):  # HEAD has no report yet
            write_atomically(workspace.root / name, workspace.repository.read_file_at("HEAD", name))
