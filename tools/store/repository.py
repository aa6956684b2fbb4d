"""The workspace's git repository: one commit for each accepted version, made by the gate alone.

Every call is a `git` subprocess that sees no configuration but this module's: its own identity, no hooks, no signing,
no filters, no user or system files. The caller holds the workspace's lock, so an old lock file of git was left by a
process that was killed; a fresh one may belong to a git that a person runs at the same time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tools.errors import InfrastructureError, SettingsError, WorkspaceError
from tools.store.records import LARGE_BLOB_BYTES

MARKER = "# kernelwright workspace, format 1"
"""First line of a workspace's .gitignore, by which a workspace and its clones are recognised."""
IGNORED_PATTERNS = (".kernelwright/", "manual/", "__pycache__/", "*.pyc", ".tmp-*")
STORE_PATH_PATTERN = re.compile(r"records/[0-9a-f]{16}\.json|blobs/[0-9a-f]{64}")
"""Paths of records and blobs. These stores are append-only: a new file is work in progress, while a changed or deleted
one is drift."""
RUN_TRAILERS = ("Version", "Report", "Masked", "Unmasked")
"""Trailers of the commits that a run makes; each of these commits has at least one."""
STALE_LOCK_AGE_S = 2.0
"""Age in seconds above which a git lock file counts as left behind by a killed process."""
FRESH_LOCK_WAIT_S = 1.0
"""Seconds to wait until a younger lock file is removed."""

# Shapes of the keys that a run may come near: model providers, code hosts, clouds, private keys.
SECRET_PATTERN = re.compile(
    rb"sk-(?:ant-|proj-)?[A-Za-z0-9_-]{24,}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40,}|glpat-[A-Za-z0-9_-]{20,}"
    rb"|hf_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|xox[abprs]-[A-Za-z0-9-]{20,}"
    rb"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"
)
GIT_SETTINGS = {
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
class GitStatus:
    """What `git status` says at one moment."""

    head: str | None
    """Id of the commit at HEAD; None before the first."""
    changes: tuple[tuple[str, str], ...]
    """(two letters as in git's short format, path) of each file that differs between HEAD, index and folder, or that is
    untracked."""

    @property
    def has_staged_changes(self) -> bool:
        """Whether the index differs from HEAD."""
        return any(state[0] not in " ?" for state, _ in self.changes)

    def changed_below(self, prefixes: Sequence[str]) -> tuple[str, ...]:
        """Changed paths equal to or below `prefixes`, sorted."""
        return tuple(sorted(path for _, path in self.changes if _is_below(path, prefixes)))

    def drift(self, expected: Sequence[str] = ()) -> tuple[str, ...]:
        """Changed paths that `expected` does not cover; `Repository.drift` has the rules."""
        changed = set()
        for state, path in self.changes:
            # "A": a gate staged it and was killed before its commit, so HEAD does not know it either. "AD": it has been
            # deleted since.
            new = state in ("??", "A ", "AM")
            if state != "AD" and not (new if STORE_PATH_PATTERN.fullmatch(path) else _is_below(path, expected)):
                changed.add(path)
        return tuple(sorted(changed))


class Repository:
    """The git repository of one workspace; `secret` is the run's own, which must never be committed."""

    def __init__(self, root: Path, secret: bytes = b"") -> None:
        self.root = root
        self.secret = secret

    # ------------------------------------------------------------ reading

    def require_workspace(self) -> None:
        """Raise WorkspaceError unless `root` itself is a repository that `init` made (or a clone of one)."""
        if not (self.root / ".git").exists():
            raise WorkspaceError(
                f"{self.root} is not a workspace: it has no .git of its own; name a folder that `run` created"
            )
        ignore = self.root / ".gitignore"
        if not ignore.is_file() or MARKER not in ignore.read_text(errors="replace").splitlines()[:1]:
            raise WorkspaceError(
                f"{self.root} is another git repository, not a workspace; name a folder that `run` created"
            )

    def head(self) -> str | None:
        """Id of the commit at HEAD; None before the first."""
        done = self._run_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def drift(self, expected: Sequence[str] = ()) -> tuple[str, ...]:
        """Paths that differ from HEAD, sorted, without those equal to or below `expected` and without new files in the
        stores of records and blobs. Files of the stores that HEAD holds may never change.
        """
        return self._working_status().drift(expected)

    def drift_remedy(self, paths: Sequence[str]) -> str:
        """The commands that undo a drift of `paths`: files that HEAD holds are restored, all others are removed."""
        known = [path for path in paths if self._run_git("cat-file", "-e", f"HEAD:{path}").returncode == 0]
        paths_by_command = {"git checkout HEAD --": known, "rm": [path for path in paths if path not in known]}
        return " and ".join(f"`{command} {shlex.join(some)}`" for command, some in paths_by_command.items() if some)

    def read_file_at(self, commit: str, path: str) -> bytes:
        """Content of `path` in `commit`; WorkspaceError when the commit has no such file."""
        done = self._run_git("cat-file", "blob", f"{commit}:{path}")
        if done.returncode != 0:
            raise WorkspaceError(f"{path} is not in commit {commit} of {self.root}; look with `git log --stat`")
        return done.stdout

    def log(self) -> tuple[Commit, ...]:
        """Commits from HEAD back to the first, newest first; empty before the first commit."""
        done = self._run_git("log", "-z", "--format=%H%x1f%P%x1f%s%x1f%(trailers:only,unfold)", "HEAD", "--")
        if done.returncode != 0 and self.head() is None:
            return ()
        commits = []
        for entry in filter(None, self._output_or_raise("log", done).decode().split("\0")):
            identity, parents, subject, trailers = entry.split("\x1f")
            commits.append(Commit(identity, parents.split(" ")[0] or None, subject, _parse_trailers(trailers)))
        return tuple(commits)

    def find_commit(self, key: str, value: str) -> str | None:
        """Id of the oldest commit up to HEAD whose trailer `key` is `value`, or None; a resumed gate looks it up before
        it commits."""
        commit = oldest_with_trailer(self.log(), key, value)
        return commit.id if commit else None

    def text_of(self, commit: str) -> str:
        """The whole text of a commit: subject, body and trailers."""
        return self._git("log", "-1", "--format=%B", self._resolve_commit(commit), "--").decode(errors="replace")

    def check_out(self, commit: str) -> None:
        """Check out `commit`, over whatever the folder holds at its paths."""
        self._git("checkout", "--quiet", "--force", "--detach", self._resolve_commit(commit))

    def paths_of(self, commit: str) -> tuple[str, ...]:
        """The paths of all files in a commit."""
        listed = self._git("ls-tree", "-r", "-z", "--name-only", self._resolve_commit(commit))
        return tuple(filter(None, listed.decode(errors="replace").split("\0")))

    def changed_paths(self, before: str, after: str, paths: Sequence[str] = ()) -> tuple[str, ...]:
        """Paths whose content differs between two commits, limited to those equal to or below `paths` where given."""
        range_ = (self._resolve_commit(before), self._resolve_commit(after))
        paths_output = self._git("diff-tree", "-r", "-z", "--name-only", "--no-renames", *range_, "--", *paths)
        return tuple(filter(None, paths_output.decode(errors="replace").split("\0")))

    # ------------------------------------------------------------ writing

    def init(self) -> None:
        """Make `root` a git repository with the workspace's marker. Safe to repeat; WorkspaceError when `root` is
        another repository already."""
        self.root.mkdir(parents=True, exist_ok=True)
        ignore = self.root / ".gitignore"
        if (self.root / ".git").exists() and (ignore.exists() or self.head() is not None):
            self.require_workspace()
        self._git("init", "--quiet", "--template=", owned=False)
        if not ignore.exists():
            ignore.write_text("\n".join((MARKER, *IGNORED_PATTERNS)) + "\n")
        self.require_workspace()

    def commit(self, paths: Sequence[str], message: str, trailers: Mapping[str, str], expect_parent: str | None) -> str:
        """Commit what changed at or below `paths` (relative to the root); returns the commit's id.

        Blobs above `LARGE_BLOB_BYTES` stay out and are excluded from then on. WorkspaceError when HEAD is not
        `expect_parent` (None: there is no commit yet), when anything else changed, or when a secret would be committed.
        A kill at any instant leaves HEAD at the old or the new commit; the next call starts from there.
        """
        self.require_workspace()
        status = self._recover_status(unborn=expect_parent is None)
        if status.head != expect_parent:
            raise WorkspaceError(
                f"{self.root}: HEAD is {status.head or 'unborn'}, but what was measured started from "
                f"{expect_parent or 'nothing'}; "
                "restore it with `git checkout` or start a new run"
            )
        unexpected = self._working_status().drift(paths)
        if unexpected:
            raise WorkspaceError(
                f"{self.root}: {', '.join(unexpected[:5])} changed outside of the run; restore or remove it, "
                f"then resume"
            )
        to_add = self._without_large(status.changed_below(paths))
        self._refuse_secrets(to_add, message, trailers)
        if to_add:
            self._git("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul", stdin="\0".join(to_add).encode())
        text = commit_text(message, trailers)
        tree = self._git("write-tree").decode().strip()
        parents = ("-p", expect_parent) if expect_parent else ()
        commit_id = self._git("commit-tree", *parents, tree, stdin=text.encode()).decode().strip()
        # Git itself compares: HEAD moves from the parent that was measured, or not at all. An empty old value means no
        # commit yet.
        self._git("update-ref", "-m", message.strip().partition("\n")[0], "HEAD", commit_id, expect_parent or "")
        return commit_id

    def clone_to(self, path: Path, commit: str) -> Repository:
        """A separate copy at `path` (which must not exist yet), checked out at `commit`: what `verify` measures
        again."""
        if path.exists():
            raise WorkspaceError(f"{path} already exists; choose a folder that does not")
        commit_id = self._resolve_commit(commit)
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
        copy._git("checkout", "--quiet", "--detach", commit_id)
        return copy

    # ------------------------------------------------------------ inside

    def _status(self) -> GitStatus:
        status_output = self._git(
            "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames"
        ).decode(errors="replace")
        head = None
        changes = []
        for entry in filter(None, status_output.split("\0")):
            kind, _, rest = entry.partition(" ")
            if kind == "#":
                name, _, value = rest.partition(" ")
                head = value if name == "branch.oid" and value != "(initial)" else head
            elif kind == "?":
                changes.append(("??", rest))
            else:
                # "1" has seven fields before the path, "u" (unmerged) nine; renames are off.
                changes.append((rest[:2].replace(".", " "), rest.split(" ", 7 if kind == "1" else 9)[-1]))
        return GitStatus(head, tuple(changes))

    def _working_status(self) -> GitStatus:
        """The folder's files compared with HEAD by content alone: no index, configuration or exclude file, in which a
        flag can hide a change, is asked."""
        head = self.head()
        entries = self._git("ls-tree", "-r", "-z", "--full-tree", head).split(b"\0")[:-1] if head else []
        ids = {os.fsdecode(e.partition(b"\t")[2]): (e[:6].decode(), e.split()[2].decode()) for e in entries}
        found = set(_files_below(self.root))
        changes = [("??", path) for path in found - ids.keys()]
        for path, (mode, identity) in ids.items():
            if not os.path.lexists(self.root / path):
                changes.append((" D", path))
            elif not _has_content(self.root / path, mode, identity):
                changes.append((" M", path))
        return GitStatus(head, tuple((state, os.fsencode(path).decode(errors="replace")) for state, path in changes))

    def replaced_objects(self) -> tuple[str, ...]:
        """Names of what makes git show other objects than the commits hold: references below refs/replace, grafts."""
        listed = self._git("for-each-ref", "--format=%(refname)", "refs/replace/").decode(errors="replace").split()
        return (*listed, *(["info/grafts"] if (self.root / ".git" / "info" / "grafts").is_file() else []))

    def _recover_status(self, *, unborn: bool) -> GitStatus:
        """Remove what a killed git left (lock files, a half-filled index) and return the status after that; the working
        files are not touched.

        `unborn`: no commit should exist yet. WorkspaceError when another git still holds a fresh lock after a wait.
        """
        folder = self.root / ".git"
        for lock in (
            folder / "index.lock",
            folder / "HEAD.lock",
            folder / "packed-refs.lock",
            *(folder / "refs").rglob("*.lock"),
        ):
            _remove_stale_lock(lock)
        if unborn and self.head() is None:
            (folder / "index").unlink(missing_ok=True)
        status = self._status()
        if status.has_staged_changes:
            self._git("reset", "--quiet", "--mixed")
            status = self._status()
        return status

    def _without_large(self, files: Sequence[str]) -> tuple[str, ...]:
        """`files` without the large blobs, which are added to git's exclude file."""
        large = [
            p
            for p in files
            if p.startswith("blobs/")
            and (self.root / p).is_file()
            and (self.root / p).stat().st_size > LARGE_BLOB_BYTES
        ]
        if large:
            exclude = self.root / ".git" / "info" / "exclude"
            exclude.parent.mkdir(exist_ok=True)
            with exclude.open("a") as file:
                file.writelines(f"/{p}\n" for p in large)
        return tuple(p for p in files if p not in large)

    def _refuse_secrets(self, files: Iterable[str], message: str, trailers: Mapping[str, str]) -> None:
        run_secrets = (self.secret, self.secret.hex().encode()) if self.secret else ()
        texts = [("the commit message", "\n".join((message, *trailers.values())).encode())]
        texts += [(name, (self.root / name).read_bytes()) for name in files if (self.root / name).is_file()]
        for name, content in texts:
            if SECRET_PATTERN.search(content) or any(secret in content for secret in run_secrets):
                raise WorkspaceError(
                    f"{self.root}: {name} contains something that looks like a key or the run's secret; remove it, "
                    f"then resume"
                )

    def _resolve_commit(self, commit: str) -> str:
        done = self._run_git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
        if done.returncode != 0:
            raise WorkspaceError(f"{commit!r} is not a commit of {self.root}; `git log` in that folder lists them")
        return done.stdout.decode().strip()

    def _git(self, *arguments: str, stdin: bytes = b"", owned: bool = True) -> bytes:
        return self._output_or_raise(arguments[0], self._run_git(*arguments, stdin=stdin, owned=owned))

    def _output_or_raise(self, verb: str, done: subprocess.CompletedProcess[bytes]) -> bytes:
        if done.returncode != 0:
            raise InfrastructureError(
                f"git {verb} failed in {self.root}: {done.stderr.decode(errors='replace').strip()}"
            )
        return done.stdout

    def _run_git(self, *arguments: str, stdin: bytes = b"", owned: bool = True) -> subprocess.CompletedProcess[bytes]:
        if owned and not (self.root / ".git").exists():
            self.require_workspace()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(self.root.resolve().parent),
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_GRAFT_FILE": os.devnull,
            "LC_ALL": "C",
        }
        # The repository's own core.worktree may name another folder; `clone` and `init` make a new one.
        here = () if arguments[0] in ("init", "clone") else ("--git-dir=.git", "--work-tree=.")
        options = [part for name, value in GIT_SETTINGS.items() for part in ("-c", f"{name}={value}")]
        try:
            # A process group of its own: Ctrl-C at a terminal must not end git in the middle of a commit.
            return subprocess.run(
                ["git", *options, *here, *arguments],
                cwd=self.root,
                env=environment,
                input=stdin,
                capture_output=True,
                check=False,
                process_group=0,
            )
        except FileNotFoundError as error:
            raise SettingsError("git is not installed; install the package `git` and run again") from error


def commit_text(message: str, trailers: Mapping[str, str]) -> str:
    """Return the whole text of a commit: its message and one line for each trailer."""
    lines = [f"{key}: {' '.join(value.split())}" for key, value in trailers.items()]
    return "\n".join((message.strip(), "", *lines, ""))


def unrelated_commits(
    commits: Sequence[Commit], is_recorded: Callable[[Commit], bool] = lambda commit: True
) -> tuple[str, ...]:
    """Ids of those of `commits` (newest first, as `Repository.log` returns them) that the run did not make.

    The run's commits are the first one with trailer `Version` and all later ones with a trailer of
    `RUN_TRAILERS`, except those that repeat the version of an earlier commit, and those that `is_recorded` denies: a
    trailer is quickly copied, so records must hold what the commit closes.
    """
    first_index = max((place for place, commit in enumerate(commits) if "Version" in commit.trailers), default=-1)

    recorded = [any(name in c.trailers for name in RUN_TRAILERS) and is_recorded(c) for c in commits]

    def belongs_to_run(place: int) -> bool:
        version = commits[place].trailers.get("Version")
        earlier = range(place + 1, len(commits))
        repeats = version is not None and any(
            recorded[at] and commits[at].trailers.get("Version") == version for at in earlier
        )
        return place <= first_index and recorded[place] and not repeats

    return tuple(commit.id for place, commit in enumerate(commits) if not belongs_to_run(place))


def oldest_with_trailer(commits: Sequence[Commit], key: str, value: str) -> Commit | None:
    """The oldest of `commits` (newest first) whose trailer `key` is exactly `value`; None where there is none. A later
    commit with the same trailer is not the run's."""
    return next((commit for commit in reversed(commits) if commit.trailers.get(key) == value), None)


def _remove_stale_lock(lock: Path) -> None:
    """Remove a stale lock file; wait a moment for a fresh one."""
    end = time.monotonic() + FRESH_LOCK_WAIT_S
    while lock.exists():
        try:
            age = time.time() - lock.stat().st_mtime
        except FileNotFoundError:
            return
        if age > STALE_LOCK_AGE_S:
            lock.unlink(missing_ok=True)
        elif time.monotonic() < end:
            time.sleep(0.05)
        else:
            raise WorkspaceError(
                f"{lock}: another git process is running here; wait until it ends, or remove that file if there is none"
            )


def _files_below(root: Path) -> Iterator[str]:
    """Yield the relative path of each file and link below `root` that git may hold, whatever .gitignore says."""
    for name, folders, files in os.walk(root):
        folder = Path(name)
        for names, mark in ((folders, "/"), (files, "")):
            names[:] = [n for n in names if not any(fnmatch(n + mark, pattern) for pattern in IGNORED_PATTERNS)]
        links = [n for n in folders if (folder / n).is_symlink()]
        folders[:] = [n for n in folders if n not in links and folder / n != root / ".git"]
        yield from (str((folder / n).relative_to(root)) for n in (*files, *links))


def _has_content(path: Path, mode: str, identity: str) -> bool:
    """Whether a file or link is the blob `identity` of git."""
    if path.is_symlink() != (mode == "120000") or not (path.is_symlink() or path.is_file()):
        return False
    content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    made = hashlib.new("sha1" if len(identity) == 40 else "sha256", b"blob %d\0" % len(content) + content)
    return made.hexdigest() == identity


def _is_below(path: str, prefixes: Sequence[str]) -> bool:
    return any(path == prefix or path.startswith(prefix.rstrip("/") + "/") for prefix in prefixes)


def _parse_trailers(block: str) -> dict[str, str]:
    trailers: dict[str, str] = {}
    for line in block.splitlines():
        key, colon, value = line.partition(":")
        value = value.strip()
        if colon:
            trailers[key] = f"{trailers[key]}, {value}" if key in trailers else value
    return trailers
