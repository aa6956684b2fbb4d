"""Compiles or interprets a candidate's code on the CPU in a confined child process.

The child has no network and no capabilities, ends no later than its parent, and can read only Python's own files, the
toolkit's, and the folders it is given. It can write to one folder, or to none. It cannot read workspaces and the user's
own files: system folders are listed one by one, because a workspace may be below /opt or /usr.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import site
import stat
import sys
import sysconfig
import tempfile
from pathlib import Path

from harness.isolation import sandbox

SYSTEM_FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/bin",
    "/usr/local/lib",
    "/usr/local/cuda",
    "/lib",
    "/lib64",
    "/bin",
    "/nix/store",
)
HEADERS = ("/usr/include", "/usr/local/include")
"""Folders of C headers, because Triton may compile C around a kernel's launch."""
SINGLE_FILES = ("/etc/ld.so.cache", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system")
PARTS = ("bin", "lib", "lib64", "libexec", "include", "x86_64-linux-gnu", "aarch64-linux-gnu")
"""Subfolders of a compiler's installation that the child may read."""
TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "TRITON_PTXAS_PATH")
FILE_BYTES = 256 << 20
"""Largest file that the child may write; a kernel that spills leaves megabytes of intermediate code."""
HANDED_BYTES = 64 << 20
"""Largest file that is moved to the job's folder, because it is later read whole."""


def run(work, wall_s: int, readable, writable: Path | None = None) -> int:
    """Run `work` in a confined child and return its wait status: it exits with the result of `work`, or with 2 if that
    raised. Processes that it started end with it."""
    sandbox.become_subreaper()
    children_before = sandbox.child_pids()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        code = 2
        try:
            os.setsid()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(wall_s)
            null = os.open(os.devnull, os.O_RDWR)
            for target in (0, 1):
                os.dup2(null, target)
            shut_in(wall_s, readable, writable)
            sandbox.die_with_parent(parent)  # last: a change of credentials clears it
            code = work()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    # A process in a session of its own outlives the group. It could still write to files that are read next, and
    # disturb the next measurement.
    sandbox.end_orphans(children_before)
    return status


def shut_in(wall_s: int, readable, writable: Path | None) -> None:
    """Confine the calling process: limit its time and file sizes, and remove network, privileges, access to other
    files, and system calls that reach into other processes."""
    libc = ctypes.CDLL(None, use_errno=True)
    sandbox.limit(0, wall_s, FILE_BYTES)
    sandbox.drop_network(libc)
    libc.prctl(sandbox.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    read_and_execute = sandbox.FS_READ_FILE | sandbox.FS_EXECUTE
    allowed = dict.fromkeys((*SYSTEM_FOLDERS, *HEADERS, *toolkits(), *python_folders()), read_and_execute)
    allowed |= dict.fromkeys((*SINGLE_FILES, *map(str, readable)), sandbox.FS_READ_FILE)
    if writable is not None:
        allowed[str(writable)] = sandbox.FS_FILES
        # Compilers write intermediate files to Python's folder of temporary files.
        os.environ["TMPDIR"] = tempfile.tempdir = str(writable)
    sandbox.landlock(libc, (), allowed)
    sandbox.drop_capabilities(libc)
    sandbox.seccomp(libc, children=True)


def toolkits() -> list[str]:
    """Return the folders of compilers and libraries that the environment names."""
    paths = [os.environ[name] for name in TOOLKITS if os.environ.get(name)]
    folders = [str(Path(path).parent) if Path(path).is_file() else path for path in paths]
    folders += compilers()
    return folders + [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]


def compilers() -> list[str]:
    """Return the folders of the C compiler that Triton would use, which may be outside the system's folders."""
    found = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CC"), "clang", "gcc")))), None)
    # Not the prefix itself: a compiler in a home's `bin` must not open the home.
    prefixes = {Path(found).parent.parent, Path(os.path.realpath(found)).parent.parent} if found else set()
    return [str(prefix / part) for prefix in prefixes for part in PARTS]


def python_folders() -> set[str]:
    """Return the folders of Python's modules and of the modules already imported, because an environment may link to
    other folders.

    `sys.path` is not used: in an editable installation it holds the user's own folders.
    """
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib", "include", "platinclude")} | set(
        site.getsitepackages()
    )
    found.add(str(Path(sys.base_prefix) / "lib"))
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and "." not in name and name != "__main__":
            real = Path(os.path.realpath(path))
            found.add(str(real.parent if real.name.startswith("__init__.") else real))
    return found


def hand_over(source: Path, target: Path, names) -> None:
    """Move the plain files of these names to `target`; no other file is moved, so that the child cannot replace the
    job's files."""
    for name in names:
        with contextlib.suppress(OSError):
            found = (source / name).lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size <= HANDED_BYTES:
                (source / name).replace(target / name)


def error_location(error: BaseException, path: Path) -> tuple[str, int, str]:
    """Return (message, line, text of the line) of the innermost error of a chain that passes through the file; the line
    is 0 if none does."""
    import traceback

    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    message = f"{type(chain[-1]).__name__}: {chain[-1]}".strip().removesuffix(":")
    for one in reversed(chain):
        frames = [f for f in traceback.extract_tb(one.__traceback__) if f.filename == str(path)]
        if frames:
            return message, frames[-1].lineno or 0, (frames[-1].line or "").strip()
    return message, 0, ""
