"""The log shared with other machines through a folder that all of them see (a network drive, or anybody's git
checkout).

What a machine knows and the others do not, it writes as one more file whose name is the hash of its content; what the
others wrote it appends to its own log. Nobody writes a file that somebody else wrote, so that two machines at once
cannot damage each other's lines, and a kill leaves at most a file without a name.
"""

from __future__ import annotations

from pathlib import Path

from knowledge_base.experience.log import Experience, read_logs
from tools.artifacts import Artifact, digest
from tools.errors import SettingsError
from tools.store.blobs import write_atomically


class SyncReport(Artifact):
    """What a sync exchanged."""

    folder: str
    received: int
    """Lines that the others had."""
    sent: int
    """Lines that they had not."""
    damaged: tuple[str, ...]
    """Lines there that are no attempts, as `file:line`."""


def sync_with_folder(log: Experience, folder: Path) -> SyncReport:
    """Bring `log` and `folder` to the union of both. SettingsError when it is not an existing folder."""
    if not folder.is_dir():
        raise SettingsError(f"{folder}: is not a folder; create it first (mkdir), on a drive that all machines see")
    theirs = read_logs(folder)
    received = log.merge(theirs.attempts)
    known = {one.model_dump_json() for one in theirs.attempts}
    lines = sorted({one.model_dump_json() for one in log.read_lines().attempts} - known)
    if lines:
        data = "".join(f"{line}\n" for line in lines).encode()
        write_atomically(folder / f"{digest(data)[:24]}.jsonl", data)
    return SyncReport(folder=str(folder), received=received, sent=len(lines), damaged=theirs.damaged)
