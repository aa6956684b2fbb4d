"""The workspace's git: one commit an iteration, made by the gate alone.

Every call is a `git` subprocess that sees no configuration but ours: own identity, no hooks, no signing, no filters, no
user or system files. The caller holds the workspace's lock, so an old lock file found here was left by a process that
was killed; a fresh one may belong to a git that a person runs right now.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.errors import InfrastructureError, SettingsError, WorkspaceError
from tools.store.records import LARGE_BLOB

MARKER = "# kernelwright workspace, format 1"
"""First line of the workspace's .gitignore: what makes a repository, or a clone of it, one of ours."""
IGNORED = (".kernelwright/", "manual/", "__pycache__/", "*.pyc", ".tmp-*")
STORED = re.compile(r"records/[0-9a-f]{16}\.json|blobs/[0-9a-f]{64}")
"""Append-only and named by content: new ones are work in progress, not drift. Changed or deleted ones always are."""
OURS = ("Version", "Report", "Masked", "Unmasked")
"""Each commit of ours has one of these trailers."""
STALE_S = 2.0
"""Age of a lock file from which on no git is taken to be at work behind it."""
PATIENCE_S = 1.0
"""How long a younger one is waited for."""

# Shapes of the keys that a run may come near: model providers, code hosts, clouds, private keys.
SECRETS = re.compile(
    rb"sk-(?:ant-|proj-)?[A-Za-z0-9_-]{24,}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40,}|glpat-[A-Za-z0-9_-]{20,}"
    rb"|hf_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|xox[abprs]-[A-Za-z0-9-]{20,}"
    rb"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"
)
SETTINGS = {
    "user.name": "Kernelwright",
    "user.email": "gate@kernelwright.invalid",
    "core.hooksPath": os.devnull,
    "core.excludesFile": os.devnull,
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.quotePath": "false",
    "core.fsmonitor": "false",
    "commit.gpgSign": "false",
    "init.defaultBranch": "main",
    "safe.directory": "*",
    # A collection in the background would disturb a measurement.
    "gc.auto": "0",
    "maintenance.auto": "false",
}


@dataclass(frozen=True)
class Commit:
    """One commit of the workspace."""

    id: str
    parent: str | None
    subject: str
    trailers: dict[str, str]


@dataclass(frozen=True)
class Status:
    """What `git status` says at one moment."""

    head: str | None
    """Id of the commit at HEAD; None before the first."""
    changes: tuple[tuple[str, str], ...]
    """(two letters as in its short format, path): what differs between HEAD, index and folder, and what git does not
    know."""

    @property
    def staged(self) -> bool:
        """Whether the index differs from HEAD."""
        return any(state[0] not in " ?" for state, _ in self.changes)

    def below(self, prefixes: Sequence[str]) -> tuple[str, ...]:
        """Changed paths equal to or below `prefixes`, sorted."""
        return tuple(sorted(path for _, path in self.changes if _below(path, prefixes)))

    def drift(self, expected: Sequence[str] = ()) -> tuple[str, ...]:
        """See `Repository.drift`."""
        changed = set()
        for state, path in self.changes:
            # "A": staged by a gate that was killed before its commit, so HEAD does not know it either. "AD": it is gone
            # since.
            new = state in ("??", "A ", "AM")
            if state != "AD" and not (new if STORED.fullmatch(path) else _below(path, expected)):
                changed.add(path)
        return tuple(sorted(changed))


class Repository:
    """The git repository of one workspace; `secret` is the run's own, which must never be committed."""

    def __init__(self, root: Path, secret: bytes = b"") -> None:
        self.root = root
        self.secret = secret

    # ------------------------------------------------------------ reading

    def check(self) -> None:
        """Raise WorkspaceError unless `root` itself is a repository that `init` made (or a clone of one)."""
        if not (self.root / ".git").exists():
            raise WorkspaceError(
                f"{self.root} is not a workspace: it has no .git of its own; name a folder that `run` made"
            )
        ignore = self.root / ".gitignore"
        if not ignore.is_file() or MARKER not in ignore.read_text(errors="replace").splitlines()[:1]:
            raise WorkspaceError(
                f"{self.root} is somebody else's git repository, not a workspace; name a folder that `run` made"
            )

    def head(self) -> str | None:
        """Id of the commit at HEAD; None before the first."""
        done = self._try("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def drift(self, expected: Sequence[str] = ()) -> tuple[str, ...]:
        """Paths that differ from HEAD, sorted, less those equal to or below `expected`, less files in the stores that
        HEAD does not know. What HEAD knows of the stores is never expected to change.
        """
        return self._status().drift(expected)

    def remedy(self, paths: Sequence[str]) -> str:
        """The commands that make an end of a drift: what HEAD knows is restored, what it does not know is removed."""
        known = [path for path in paths if self._try("cat-file", "-e", f"HEAD:{path}").returncode == 0]
        chosen = {"git checkout HEAD --": known, "rm": [path for path in paths if path not in known]}
        return " and ".join(f"`{command} {shlex.join(some)}`" for command, some in chosen.items() if some)

    def show(self, commit: str, path: str) -> bytes:
        """Content of `path` as of `commit`; WorkspaceError when there is none."""
        done = self._try("cat-file", "blob", f"{commit}:{path}")
        if done.returncode != 0:
            raise WorkspaceError(f"{path} is not in commit {commit} of {self.root}; look with `git log --stat`")
        return done.stdout

    def log(self) -> tuple[Commit, ...]:
        """Commits from HEAD back to the first, newest first; empty before the first commit."""
        done = self._try("log", "-z", "--format=%H%x1f%P%x1f%s%x1f%(trailers:only,unfold)", "HEAD", "--")
        if done.returncode != 0 and self.head() is None:
            return ()
        commits = []
        for entry in filter(None, self._output("log", done).decode().split("\0")):
            identity, parents, subject, trailers = entry.split("\x1f")
            commits.append(Commit(identity, parents.split(" ")[0] or None, subject, _parse(trailers)))
        return tuple(commits)

    def find_commit(self, key: str, value: str) -> str | None:
        """See `having`, of the commits before and at HEAD: what a resumed gate asks before it commits."""
        found = having(self.log(), key, value)
        return found.id if found else None

    def changing(self, name: str) -> tuple[str, ...]:
        """Ids of the commits before and at HEAD that changed `name`.* in the root, newest first."""
        listed = self._git("log", "-z", "--format=%x1f%H", "--name-only", "--no-renames", "HEAD", "--").decode(
            errors="replace"
        )
        found = []
        for entry in filter(None, listed.split("\x1f")):
            identity, *paths = entry.replace("\n", "\0").split("\0")
            if any(path.startswith(f"{name}.") and "/" not in path for path in paths):
                found.append(identity)
        return tuple(found)

    def changed(self, before: str, after: str, paths: Sequence[str] = ()) -> tuple[str, ...]:
        """Paths whose content differs between two commits, of those equal to or below `paths` where some are given."""
        range_ = (self._known(before), self._known(after))
        listed = self._git("diff-tree", "-r", "-z", "--name-only", "--no-renames", *range_, "--", *paths)
        return tuple(filter(None, listed.decode(errors="replace").split("\0")))

    # ------------------------------------------------------------ writing

    def init(self) -> None:
        """Make `root` a repository with our marker. Safe to repeat; WorkspaceError when it is already somebody
        else's."""
        self.root.mkdir(parents=True, exist_ok=True)
        ignore = self.root / ".gitignore"
        if (self.root / ".git").exists() and (ignore.exists() or self.head() is not None):
            self.check()
        self._git("init", "--quiet", "--template=", owned=False)
        if not ignore.exists():
            ignore.write_text("\n".join((MARKER, *IGNORED)) + "\n")
        self.check()

    def commit(self, paths: Sequence[str], message: str, trailers: Mapping[str, str], expect_parent: str | None) -> str:
        """Commit what changed at or below `paths` (relative to the root); returns the commit's id.

        Blobs above `LARGE_BLOB` stay out and are excluded from then on. WorkspaceError when HEAD is not `expect_parent`
        (None: there is no commit yet), when anything else changed, or when a secret would be committed. A kill at any
        instant leaves HEAD at the old or the new commit; the next call starts from there.
        """
        self.check()
        status = self._recovered(unborn=expect_parent is None)
        if status.head != expect_parent:
            raise WorkspaceError(
                f"{self.root}: HEAD is {status.head or 'unborn'}, but what was measured started from "
                f"{expect_parent or 'nothing'}; "
                "restore it with `git checkout` or start a new run"
            )
        others = status.drift(paths)
        if others:
            raise WorkspaceError(
                f"{self.root}: {', '.join(others[:5])} changed outside of the run; restore or remove it, then resume"
            )
        chosen = self._without_large(status.below(paths))
        self._refuse_secrets(chosen, message, trailers)
        if chosen:
            self._git("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul", stdin="\0".join(chosen).encode())
        text = "\n".join(
            (message.strip(), "", *(f"{key}: {' '.join(value.split())}" for key, value in trailers.items()), "")
        )
        tree = self._git("write-tree").decode().strip()
        parents = ("-p", expect_parent) if expect_parent else ()
        made = self._git("commit-tree", *parents, tree, stdin=text.encode()).decode().strip()
        # Git itself compares: HEAD moves from the parent that was measured, or not at all. An empty old value means no
        # commit yet.
        self._git("update-ref", "-m", message.strip().partition("\n")[0], "HEAD", made, expect_parent or "")
        return made

    def clone_to(self, path: Path, commit: str) -> Repository:
        """A separate copy at `path` (which must not exist yet), checked out at `commit`: what `verify` measures
        again."""
        if path.exists():
            raise WorkspaceError(f"{path} already exists; choose a folder that does not")
        known = self._known(commit)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._git(
            "clone",
            "--quiet",
            "--no-hardlinks",
            "--no-checkout",
            "--template=",
            "--",
            str(self.root.resolve()),
            str(path.resolve()),
        )
        copy = Repository(path, self.secret)
        copy._git("checkout", "--quiet", "--detach", known)
        return copy

    # ------------------------------------------------------------ inside

    def _status(self) -> Status:
        found = self._git("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames").decode(
            errors="replace"
        )
        head = None
        changes = []
        for entry in filter(None, found.split("\0")):
            kind, _, rest = entry.partition(" ")
            if kind == "#":
                name, _, value = rest.partition(" ")
                head = value if name == "branch.oid" and value != "(initial)" else head
            elif kind == "?":
                changes.append(("??", rest))
            else:
                # "1" has seven fields before the path, "u" (unmerged) nine; renames are off.
                changes.append((rest[:2].replace(".", " "), rest.split(" ", 7 if kind == "1" else 9)[-1]))
        return Status(head, tuple(changes))

    def _recovered(self, *, unborn: bool) -> Status:
        """What git finds after what a killed git left is undone: lock files and a half-filled index. The files are not
        touched.

        `unborn`: there should be no commit yet. WorkspaceError when a lock is so fresh that another git may hold it,
        and is not given back soon.
        """
        folder = self.root / ".git"
        for lock in (
            folder / "index.lock",
            folder / "HEAD.lock",
            folder / "packed-refs.lock",
            *(folder / "refs").rglob("*.lock"),
        ):
            _break(lock)
        if unborn and self.head() is None:
            (folder / "index").unlink(missing_ok=True)
        status = self._status()
        if status.staged:
            self._git("reset", "--quiet", "--mixed")
            status = self._status()
        return status

    def _without_large(self, files: Sequence[str]) -> tuple[str, ...]:
        """`files` less the large blobs, which are excluded by name from then on."""
        large = [
            p
            for p in files
            if p.startswith("blobs/") and (self.root / p).is_file() and (self.root / p).stat().st_size > LARGE_BLOB
        ]
        if large:
            exclude = self.root / ".git" / "info" / "exclude"
            exclude.parent.mkdir(exist_ok=True)
            with exclude.open("a") as file:
                file.writelines(f"/{p}\n" for p in large)
        return tuple(p for p in files if p not in large)

    def _refuse_secrets(self, files: Iterable[str], message: str, trailers: Mapping[str, str]) -> None:
        own = (self.secret, self.secret.hex().encode()) if self.secret else ()
        texts = [("the commit message", "\n".join((message, *trailers.values())).encode())]
        texts += [(name, (self.root / name).read_bytes()) for name in files if (self.root / name).is_file()]
        for name, content in texts:
            if SECRETS.search(content) or any(secret in content for secret in own):
                raise WorkspaceError(
                    f"{self.root}: {name} holds something that looks like a key or the run's secret; remove it, "
                    f"then resume"
                )

    def _known(self, commit: str) -> str:
        done = self._try("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
        if done.returncode != 0:
            raise WorkspaceError(f"{commit!r} is not a commit of {self.root}; `git log` in that folder lists them")
        return done.stdout.decode().strip()

    def _git(self, *arguments: str, stdin: bytes = b"", owned: bool = True) -> bytes:
        return self._output(arguments[0], self._try(*arguments, stdin=stdin, owned=owned))

    def _output(self, verb: str, done: subprocess.CompletedProcess[bytes]) -> bytes:
        if done.returncode != 0:
            raise InfrastructureError(
                f"git {verb} failed in {self.root}: {done.stderr.decode(errors='replace').strip()}"
            )
        return done.stdout

    def _try(self, *arguments: str, stdin: bytes = b"", owned: bool = True) -> subprocess.CompletedProcess[bytes]:
        if owned and not (self.root / ".git").exists():
            self.check()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(self.root.resolve().parent),
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "LC_ALL": "C",
        }
        options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        try:
            # In a process group of its own: Ctrl-C at a terminal is for us to hear, and must not end git amid a commit.
            return subprocess.run(
                ["git", *options, *arguments],
                cwd=self.root,
                env=environment,
                input=stdin,
                capture_output=True,
                check=False,
                process_group=0,
            )
        except FileNotFoundError as error:
            raise SettingsError("git is not installed; install the package `git` and run again") from error


def foreign(commits: Sequence[Commit], since_trailer: str = "Version") -> tuple[str, ...]:
    """Ids of those of `commits` that are not ours, newest first as `Repository.log` gives them: all but the first
    that has trailer `since_trailer` and those after it with a trailer of `OURS`, unless they name a version that an
    earlier one is."""
    first = max((place for place, commit in enumerate(commits) if since_trailer in commit.trailers), default=-1)

    def ours(commit: Commit) -> bool:
        version = commit.trailers.get("Version")
        return any(name in commit.trailers for name in OURS) and (
            version is None or having(commits, "Version", version) is commit
        )

    return tuple(c.id for place, c in enumerate(commits) if place > first or not ours(c))


def having(commits: Sequence[Commit], key: str, value: str) -> Commit | None:
    """The oldest of `commits`, newest first, whose trailer `key` is exactly `value`: whoever says the same later is
    another."""
    return next((commit for commit in reversed(commits) if commit.trailers.get(key) == value), None)


def _break(lock: Path) -> None:
    """Remove a stale lock file; wait a moment for a fresh one."""
    end = time.monotonic() + PATIENCE_S
    while lock.exists():
        try:
            age = time.time() - lock.stat().st_mtime
        except FileNotFoundError:
            return
        if age > STALE_S:
            lock.unlink(missing_ok=True)
        elif time.monotonic() < end:
            time.sleep(0.05)
        else:
            raise WorkspaceError(
                f"{lock}: another git is at work here; wait until it ends, or remove that file if there is none"
            )


def _below(path: str, prefixes: Sequence[str]) -> bool:
    return any(path == prefix or path.startswith(prefix.rstrip("/") + "/") for prefix in prefixes)


def _parse(block: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in block.splitlines():
        key, colon, value = line.partition(":")
        value = value.strip()
        if colon:
            found[key] = f"{found[key]}, {value}" if key in found else value
    return found
