"""The log shared with other machines: through a folder that all of them see, or a branch of a git remote.

What a machine knows and the others do not, it lays down as one more file whose name is the hash of its content; what
the others laid down it appends to its own log. Nobody ever writes a file that somebody else wrote, so that two machines
at once cannot hurt each other, a kill leaves at most a file without a name, and on a git branch two histories always go
together.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from knowledge_base.artifacts import Attempt
from knowledge_base.experience.log import Experience, read
from tools.artifacts import Artifact, digest
from tools.errors import InfrastructureError, SettingsError
from tools.store.records import write_atomically

BRANCH = "kernelwright-experience"
"""Of a remote; nothing else there is looked at."""
FOLDER = "experience"
TRIES = 12
"""Pushes that others may get ahead of, before it is given up."""
GIT_S = 120
"""Seconds for one exchange with a remote."""


class Synced(Artifact):
    """What came of a sync."""

    place: str
    came: int
    """Lines that the others had."""
    went: int
    """Lines that they had not."""
    damaged: tuple[str, ...]
    """Lines there that are no attempts, as `file:line`."""


def sync(log: Experience, place: str) -> Synced:
    """Bring `log` and `place` (a folder that exists, or a git remote) to the union of both.

    SettingsError when the place is neither; InfrastructureError when git or the disk refuses. What was exchanged before
    stays exchanged.
    """
    path = Path(place).expanduser()
    if _remote(place, path):
        return _through_git(log, place if not path.exists() else str(path.resolve()))
    if not path.is_dir():
        raise SettingsError(
            f"{place}: no such folder, and no git remote; make it first (mkdir, or git init --bare), or give a URL"
        )
    came, went, damaged = _exchange(log, path)
    return Synced(place=place, came=came, went=went, damaged=damaged)


def _remote(place: str, path: Path) -> bool:
    if path.is_dir():
        return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())
    return not path.exists() and re.match(r"\w+://|(?:[\w.-]+@)?[\w.-]+:\S", place) is not None


def _exchange(log: Experience, folder: Path) -> tuple[int, int, tuple[str, ...]]:
    """Lines that came, lines that went, and damaged ones there."""
    theirs = read(folder)
    came = log.merge(theirs.attempts)
    known = {one.model_dump_json() for one in theirs.attempts}
    went = _lay_down(folder, (one for one in log.lines().attempts if one.model_dump_json() not in known))
    return came, went, theirs.damaged


def _lay_down(folder: Path, attempts: Iterable[Attempt]) -> int:
    """Write what is new as a file of its own."""
    lines = sorted({one.model_dump_json() for one in attempts})
    if lines:
        data = "".join(f"{line}\n" for line in lines).encode()
        write_atomically(folder / f"{digest(data)[:24]}.jsonl", data)
    return len(lines)


def _through_git(log: Experience, remote: str) -> Synced:
    """Fetch the branch, exchange, push; when another machine pushed meanwhile, again on top of that."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-sync-") as scratch:
        root = Path(scratch)
        _git(root, "init", "--quiet")
        came = 0
        for attempt in range(1, TRIES + 1):
            _start(root, remote)
            more, went, damaged = _exchange(log, root / FOLDER)
            came += more
            if not went:
                return Synced(place=remote, came=came, went=0, damaged=damaged)
            _git(root, "add", FOLDER)
            _git(root, "commit", "--quiet", "--message", f"{went} outcomes")
            pushed = _run(root, "push", "--quiet", "--", remote, f"HEAD:refs/heads/{BRANCH}")
            if pushed.returncode == 0:
                return Synced(place=remote, came=came, went=went, damaged=damaged)
            if not _overtaken(pushed.stderr):
                raise _refused(remote, pushed.stderr)
            time.sleep(random.uniform(0, 0.2 * attempt))
    raise InfrastructureError(f"{remote}: others pushed each time, {TRIES} times; nothing is lost, sync again")


def _start(root: Path, remote: str) -> None:
    """The work tree as the branch is now; empty where there is none yet."""
    listed = _run(root, "ls-remote", "--heads", "--", remote, f"refs/heads/{BRANCH}")
    if listed.returncode != 0:
        raise _refused(remote, listed.stderr)
    if listed.stdout.strip():
        fetched = _run(root, "fetch", "--quiet", "--", remote, f"refs/heads/{BRANCH}")
        if fetched.returncode != 0:
            raise _refused(remote, fetched.stderr)
        _git(root, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
    (root / FOLDER).mkdir(exist_ok=True)


def _overtaken(said: str) -> bool:
    """Whether a push failed because the branch moved meanwhile, or was just moving."""
    return any(
        word in said
        for word in (
            "non-fast-forward",
            "fetch first",
            "[rejected]",
            "cannot lock ref",
            "failed to update ref",
            "reference already exists",
        )
    )


def _refused(remote: str, said: str) -> InfrastructureError:
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "it gave no reason")
    return InfrastructureError(
        f"{remote}: git refused ({last.strip()[:200]}); try `git ls-remote {remote}` and mend what it names"
    )


def _git(root: Path, *arguments: str) -> None:
    done = _run(root, *arguments)
    if done.returncode != 0:
        raise InfrastructureError(f"git {arguments[0]} failed in {root}: {done.stderr.strip()[:200]}")


def _run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """git without the user's hooks, signing and questions, under a name of ours."""
    settings = {
        "user.name": "kernelwright",
        "user.email": "kernelwright@localhost",
        "commit.gpgSign": "false",
        "core.hooksPath": os.devnull,
        "advice.detachedHead": "false",
        "core.autocrlf": "false",
    }
    options = [text for key, value in settings.items() for text in ("-c", f"{key}={value}")]
    inherited = {
        key: value for key, value in os.environ.items() if key not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    }
    try:
        return subprocess.run(
            ["git", *options, *arguments],
            cwd=root,
            env={**inherited, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise SettingsError("sync: git is not installed; install it, or sync with a folder") from error
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError(
            f"git {arguments[0]}: no answer within {GIT_S} s; see whether the remote can be reached"
        ) from error
