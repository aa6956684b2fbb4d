"""The workspace's git: commit rules, recovery from a kill, foreign repositories, secrets."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support import run_captured
from tools.artifacts import Record
from tools.errors import SettingsError, WorkspaceError
from tools.store.records import LARGE_BLOB_BYTES, Records
from tools.store.repository import Repository, unrelated_commits

SECRET = bytes(range(32))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "workspace", SECRET)
    made.init()
    (made.root / "kernel.cpp").write_text("void solve() {}\n")
    made.commit([".gitignore", "kernel.cpp"], "start v0", {"Task": "t"}, None)
    return made


def write(repository: Repository, name: str, text: str = "x") -> Path:
    path = repository.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def stored_paths(record: Record) -> tuple[str, ...]:
    return (f"records/{record.id}.json", *(f"blobs/{sha}" for sha in record.blobs.values()))


def git(root: Path, *arguments: str) -> str:
    done = run_captured(["git", *arguments], cwd=root, check=True)
    return done.stdout.strip()


def test_commit_holds_the_paths_and_trailers(repository: Repository):
    start = repository.head()
    write(repository, "kernel.cpp", "void solve() { /* faster */ }\n")
    write(repository, "versions/v1/ünïcode name.md")
    write(repository, "versions/v10/a.md")
    assert repository.drift(["kernel.cpp", "versions/v1"]) == ("versions/v10/a.md",), "a prefix ends at a folder"
    (repository.root / "versions/v10/a.md").unlink()
    trailers = {"Verdict": "accept", "Speedup": "2.0 [1.9,\n 2.1]", "Note": ""}
    made = repository.commit(["kernel.cpp", "versions/v1"], "accept v1", trailers, start)
    assert (
        repository.head() == repository.find_commit("Verdict", "accept") == made
        and repository.find_commit("Verdict", "acc") is None
    )
    assert repository.log()[0].trailers == {"Verdict": "accept", "Speedup": "2.0 [1.9, 2.1]", "Note": ""}
    assert repository.drift() == ()
    listed = git(repository.root, "-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", made)
    assert listed.splitlines() == [".gitignore", "kernel.cpp", "versions/v1/ünïcode name.md"]
    assert repository.read_file_at(made, "kernel.cpp") == b"void solve() { /* faster */ }\n"
    assert repository.read_file_at(str(start), "kernel.cpp") == b"void solve() {}\n"
    assert (
        repository.changed_paths(str(start), made, ["kernel.cpp"]) == ("kernel.cpp",)
        and len(repository.changed_paths(str(start), made)) == 2
    )
    assert [(c.subject, c.parent) for c in repository.log()] == [("accept v1", start), ("start v0", None)]


def test_refused_when_head_is_not_the_parent_that_was_measured(repository: Repository):
    head = repository.head()
    made = repository.commit([], "close v1", {}, head)
    with pytest.raises(WorkspaceError, match=f"HEAD is {made}"):
        repository.commit([], "close v2", {}, head)


@pytest.mark.parametrize("change", ["edit", "delete", "new", "staged"])
def test_refused_when_another_path_changed(repository: Repository, change: str):
    named = "kernel.cpp" if change in ("edit", "delete") else "stray.txt"
    path = write(repository, named, "changed\n")
    if change == "delete":
        path.unlink()
    if change == "staged":
        git(repository.root, "add", named)
    assert repository.drift() == (named,)
    assert repository.drift(["versions"])
    with pytest.raises(WorkspaceError, match=named):
        repository.commit(["versions"], "close v1", {}, repository.head())
    assert repository.commit([named], "close v1", {}, repository.head())


HIDING = {
    "assume-unchanged": ["update-index --assume-unchanged kernel.cpp"],
    "skip-worktree": ["update-index --skip-worktree kernel.cpp"],
    "core.worktree": ["worktree add --quiet --detach ../clean", "config core.worktree ../../clean"],
    "a filter": ["config filter.f.clean 'git cat-file blob HEAD:kernel.cpp'"],
}


@pytest.mark.parametrize("name", HIDING)
def test_no_flag_or_setting_of_git_hides_a_change(repository: Repository, name: str):
    for command in HIDING[name]:
        git(repository.root, *shlex.split(command))
    for file, text in (("attributes", "kernel.cpp filter=f\n"), ("exclude", "RESULTS.md\n")):
        write(repository, f".git/info/{file}", text)
    for file in ("kernel.cpp", "RESULTS.md"):
        write(repository, file, "changed")
    assert repository.drift() == ("RESULTS.md", "kernel.cpp")
    with pytest.raises(WorkspaceError, match=r"RESULTS\.md, kernel\.cpp changed outside"):
        repository.commit(["versions"], "close v1", {}, repository.head())


def test_a_link_to_a_clean_copy_is_drift(repository: Repository, tmp_path: Path):
    (repository.root / "kernel.cpp").rename(tmp_path / "kernel.cpp")
    (repository.root / "kernel.cpp").symlink_to(tmp_path / "kernel.cpp")
    (repository.root / "versions").symlink_to(tmp_path)
    assert repository.drift() == ("kernel.cpp", "versions")


def test_replaced_objects_are_named_and_not_followed(repository: Repository):
    git(
        repository.root,
        "replace",
        "HEAD",
        git(repository.root, "-c", "user.name=x", "-c", "user.email=x@x", "commit-tree", "-m", "x", "HEAD^{tree}"),
    )
    assert [commit.subject for commit in repository.log()] == ["start v0"]
    assert repository.replaced_objects() == (f"refs/replace/{repository.head()}",)
    write(repository, ".git/info/grafts", "")
    assert repository.replaced_objects()[1:] == ("info/grafts",)


def test_names_with_spaces_and_a_conflict_are_drift_too(repository: Repository):
    head = repository.head()
    for branch in ("theirs", "ours"):
        git(repository.root, "checkout", "--quiet", "-b", branch, str(head))
        write(repository, "kernel.cpp", branch)
        git(repository.root, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "-am", branch)
    ours = repository.head()
    subprocess.run(["git", "merge", "--quiet", "theirs"], cwd=repository.root, capture_output=True, check=False)
    write(repository, "a name with spaces.md")
    assert repository.drift() == ("a name with spaces.md", "kernel.cpp")
    with pytest.raises(WorkspaceError, match=r"kernel\.cpp"):
        repository.commit(["a name with spaces.md"], "close v1", {}, ours)
    assert repository.head() == ours
    git(repository.root, "checkout", "--quiet", "HEAD", "kernel.cpp")
    made = repository.commit(["a name with spaces.md"], "close v1", {}, ours)
    # An abandoned merge must not become a parent of ours.
    assert git(repository.root, "show", "--no-patch", "--format=%P", made) == ours
    assert git(repository.root, "show", "--name-only", "--format=", made) == "a name with spaces.md"


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_altered_evidence_is_drift_even_where_evidence_is_expected(repository: Repository, change: str):
    records = Records(repository.root)
    record = records.add(Record(kind="build", key="k", payload={}, blobs={"log": records.blobs.put("log")}))
    unnamed = records.blobs.put("a request with hidden sizes")
    assert repository.drift() == (), "new evidence is none"
    head = repository.commit(stored_paths(record), "close v1", {}, repository.head())
    named = stored_paths(record)
    listed = git(repository.root, "ls-files")
    assert all(path in listed for path in named) and unnamed not in listed
    for path in named:
        (repository.root / path).write_text("doctored") if change == "edit" else (repository.root / path).unlink()
    assert repository.drift((*named, "records", "blobs/")) == tuple(sorted(named))
    with pytest.raises(WorkspaceError, match=r"records/|blobs/"):
        repository.commit(named, "close v2", {}, head)


def test_foreign_commits_are_told_from_ours(repository: Repository, tmp_path: Path):
    assert unrelated_commits(repository.log()) == (repository.head(),), "a history that never was ours"
    repository = Repository(tmp_path / "w")
    repository.init()
    assert unrelated_commits(repository.log()) == ()
    head = repository.commit([".gitignore"], "baseline v0", {"Version": "v0"}, None)
    head = repository.commit([], "accept v1", {"Version": "v1", "Verdict": "accept"}, head)
    head = repository.commit([], "mask v1", {"Masked": "true"}, head)
    head = repository.commit([], "report", {"Report": "r"}, head)
    assert unrelated_commits(repository.log()) == ()
    git(
        repository.root,
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@x",
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
        "by hand",
    )
    by_hand = repository.head()
    repository.commit([], "close v2", {"Version": "v2"}, by_hand)
    assert unrelated_commits(repository.log()) == (by_hand,)


def test_large_blobs_stay_out(repository: Repository):
    records = Records(repository.root)
    sha = records.blobs.put(b"\1" * (LARGE_BLOB_BYTES + 1))
    record = records.add(Record(kind="profile", key="k", payload={}, blobs={"raw": sha}))
    repository.commit(stored_paths(record), "close v1", {}, repository.head())
    listed = git(repository.root, "ls-files")
    assert record.id in listed and sha not in listed + git(repository.root, "status", "--porcelain", "-uall")


WORD = "a1B2" * 10
KEYS = [
    f"key = sk-ant-{WORD}",
    f"OPENAI=sk-{WORD}",
    f"ghp_{WORD[:36]}",
    "AKIA" + "ABCD" * 4,
    "-----BEGIN OPENSSH PRIVATE " + "KEY-----",
]


@pytest.mark.parametrize("text", [*KEYS, SECRET.hex()])
def test_a_secret_is_never_committed(repository: Repository, text: str):
    head = repository.head()
    note = write(repository, "note.md", f"before\n{text}\nafter\n")
    with pytest.raises(WorkspaceError, match=r"note\.md"):
        repository.commit(["note.md"], "close v1", {}, head)
    note.unlink()
    with pytest.raises(WorkspaceError, match="message"):
        repository.commit([], text, {}, head)
    assert repository.head() == head


def test_recovers_from_a_kill_between_add_and_commit(repository: Repository):
    head = repository.head()
    write(repository, "a.md")
    write(repository, "b.md")
    git(repository.root, "add", "a.md", "b.md")
    for name in ("index.lock", "HEAD.lock", "refs/heads/main.lock"):
        os.utime(write(repository, f".git/{name}"), (time.time() - 10, time.time() - 10))
    (repository.root / "b.md").unlink()
    made = repository.commit(["a.md"], "close v1", {}, head)
    assert git(repository.root, "show", "--name-only", "--format=", made) == "a.md"
    assert repository.drift() == ()


def test_a_lock_that_another_git_may_hold_now_is_waited_for_and_never_removed(repository: Repository):
    lock = write(repository, ".git/index.lock")
    head = repository.head()
    with pytest.raises(WorkspaceError, match=r"index\.lock: another git process is running"):
        repository.commit([], "close v1", {}, head)
    assert lock.exists() and repository.head() == head
    os.utime(lock)
    threading.Timer(0.2, lock.unlink).start()
    assert repository.commit([], "close v1", {}, head) != head


def test_a_users_configuration_and_hooks_have_no_say(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(repository, ".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n").chmod(0o755)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text(
        "[user]\nname=Somebody\n[commit]\ngpgSign=true\n[status]\nshowUntrackedFiles=no\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    write(repository, "a.md")
    assert repository.drift() == ("a.md",)
    made = repository.commit(["a.md"], "close v1", {}, repository.head())
    monkeypatch.delenv("GIT_DIR")
    assert git(repository.root, "log", "-1", "--format=%an %cn", made) == "Kernelwright Kernelwright"


def test_foreign_and_missing_repositories_are_refused(repository: Repository, tmp_path: Path):
    for absent in (write(repository, "versions/v1/a.md").parent, tmp_path / "nowhere"):
        with pytest.raises(WorkspaceError, match=r"no \.git of its own"):
            Repository(absent).head()
    foreign = Repository(tmp_path / "foreign")
    write(foreign, ".gitignore", "*.o\n")
    git(foreign.root, "init", "--quiet")
    for use in (foreign.init, lambda: foreign.commit([], "close v1", {}, None)):
        with pytest.raises(WorkspaceError, match="another git repository"):
            use()


def test_a_workspace_may_lie_inside_another_repository(tmp_path: Path):
    git(tmp_path, "init", "--quiet")
    repository = Repository(tmp_path / "workspaces" / "w")
    repository.init()
    # As after a kill in init, and one before the first commit.
    (repository.root / ".gitignore").unlink()
    repository.init()
    git(repository.root, "add", ".gitignore")
    repository.init()
    assert repository.head() is None and repository.log() == ()
    made = repository.commit([".gitignore"], "start", {}, None)
    assert Path(git(repository.root, "rev-parse", "--show-toplevel")) == repository.root.resolve()
    assert repository.head() == made


def test_clone_is_a_workspace_at_that_commit(repository: Repository, tmp_path: Path):
    first = str(repository.head())
    write(repository, "kernel.cpp", "second\n")
    second = repository.commit(["kernel.cpp"], "accept v1", {}, first)
    copy = repository.clone_to(tmp_path / "copies" / "a", first)
    copy.require_workspace()
    assert (
        copy.head() == first
        and (copy.root / "kernel.cpp").read_text() == "void solve() {}\n"
        and repository.head() == second
    )
    with pytest.raises(WorkspaceError, match="already exists"):
        repository.clone_to(copy.root, first)
    with pytest.raises(WorkspaceError, match="not a commit"):
        repository.clone_to(tmp_path / "b", "--upload-pack=evil")
    with pytest.raises(WorkspaceError, match="not in commit"):
        repository.read_file_at(first, "absent.md")


def test_a_machine_without_git_is_told_the_package(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="package `git`"):
        repository.head()


COMMITTING = """
import signal, sys
from pathlib import Path
from tools.store.repository import Repository

signal.signal(signal.SIGINT, lambda number, frame: None)
repository = Repository(Path(sys.argv[1]), bytes(range(32)))
(repository.root / "kernel.cpp").write_text("int x;\\n")
repository.commit(["kernel.cpp"], "accept v1", {"Task": "t"}, repository.head())
"""


def test_ctrl_c_at_a_terminal_does_not_end_git_amid_a_commit(repository: Repository, tmp_path: Path):
    slow, begun = tmp_path / "bin" / "git", tmp_path / "begun"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\ntouch {begun}\nsleep 0.2\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{slow.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    command = [sys.executable, "-c", COMMITTING, str(repository.root)]
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        while process.poll() is None:
            if begun.exists():
                begun.unlink()
                os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.02)
        assert process.returncode == 0
    assert repository.log()[0].subject == "accept v1"
