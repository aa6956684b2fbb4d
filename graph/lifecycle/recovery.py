"""Before a run goes on: checkpoint, git and records must agree, and nobody else may have changed what git holds (F8)."""

from __future__ import annotations

from graph.nodes.commits import own_history
from graph.report import final
from graph.services import Services
from graph.workspace import completeness
from tools.artifacts import Candidate
from tools.errors import WorkspaceError
from tools.store.records import key


def reconcile(services: Services) -> None:
    """Before resuming: git must hold nothing that this run did not put there, and every record its blobs (F8).

    A commit that the checkpoint does not know yet is fine: the gate finds it by its trailer and does not make another.
    """
    workspace = services.workspace
    for record in workspace.records:
        for sha in record.blobs.values():
            workspace.records.blobs.path(sha)
    if workspace.repository.head() is None:
        return  # v0 is not committed yet, so there is nothing to differ from
    # Another compiler or other flags would make every later candidate incomparable with the incumbent.
    services.judge.builds.frozen_flags()
    own_history(services)
    under_way = _under_way(services)
    _restore_kernel(services, under_way)
    _forget_reports(services)
    drifted = workspace.repository.drift(under_way)
    if drifted:
        raise WorkspaceError(
            f"{workspace.root}: {', '.join(drifted[:3])} changed outside the run; "
            "restore with `git checkout -- <file>` in the workspace, or start a new run from that kernel"
        )


def _under_way(services: Services) -> tuple[str, ...]:
    """What gate and finalise may have written when they were killed before their commit; they write it again."""
    closed = int(services.workspace.repository.show("HEAD", completeness.POINTER).decode().strip() or 0)
    return (f"versions/v{closed + 1}/", f"memory/v{closed + 1}.json", completeness.POINTER, *final.FILES)


def _forget_reports(services: Services) -> None:
    """`report` may be asked for in the middle of a run, which is no change by somebody else: the end renders what it wrote anew."""
    workspace = services.workspace
    for name in set(workspace.repository.drift()) & set(final.FILES):
        (workspace.root / name).unlink(missing_ok=True)


def _restore_kernel(services: Services, under_way: tuple[str, ...]) -> None:
    """A kill between writing an accepted kernel and committing it leaves that kernel in the folder: put HEAD's back, the gate goes on.

    Anything that is not a candidate of this run was written by somebody else and is drift.
    """
    workspace = services.workspace
    name = f"kernel{services.language.suffix}"
    if name not in workspace.repository.drift(under_way):
        return
    path = workspace.root / name
    found = Candidate(language=services.task.language, files={name: path.read_text(errors="replace") if path.is_file() else ""})
    if services.records.find(key("candidate", id=found.id)) is not None:
        workspace.write(name, workspace.repository.show("HEAD", name).decode())
