"""Runs a candidate's code on the CPU, to compile or to interpret it, in a child that can touch nothing else.

The child has no network, no capabilities, no end later than its parent's, and no files but Python's own, the toolkit's,
and the folder it is given. What it may write lies in one folder, if in any. Workspaces and the user's own files are not
among what it can read: system folders are named one by one, since a workspace may lie below /opt or /usr.
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
"""Triton may compile C around a kernel's launch."""
SINGLE_FILES = ("/etc/ld.so.cache", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system")
PARTS = ("bin", "lib", "lib64", "libexec", "include", "x86_64-linux-gnu", "aarch64-linux-gnu")
"""Folders of a compiler's installation."""
TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "TRITON_PTXAS_PATH")
FILE_BYTES = 256 << 20
"""A kernel that spills leaves megabytes of intermediate code."""
HANDED_BYTES = 64 << 20
"""Of one file that is handed over; whoever takes it reads it whole."""


def run(work, wall_s: int, readable, writable: Path | None = None) -> int:
    """Wait status of a child that ran `work` and exited with what it returned, 2 when it raised. Whatever it started
    ends with it."""
    sandbox.become_subreaper()
    before = sandbox.child_pids()
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
    # A process with a session of its own outlives the group: it would go on writing what is read next, and disturb what
    # is timed next.
    while strays := sandbox.child_pids() - before:
        for stray in strays:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(stray, signal.SIGKILL)
                os.waitpid(stray, 0)
    return status


def shut_in(wall_s: int, readable, writable: Path | None) -> None:
    """Bound the calling process's time and file sizes, and take network, privileges and foreign files from it."""
    libc = ctypes.CDLL(None, use_errno=True)
    sandbox.limit(0, wall_s, FILE_BYTES)
    sandbox.drop_network(libc)
    libc.prctl(sandbox.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    look = sandbox.FS_READ_FILE | sandbox.FS_EXECUTE
    allowed = dict.fromkeys((*SYSTEM_FOLDERS, *HEADERS, *toolkits(), *python_folders()), look)
    allowed |= dict.fromkeys((*SINGLE_FILES, *map(str, readable)), sandbox.FS_READ_FILE)
    if writable is not None:
        allowed[str(writable)] = sandbox.FS_FILES
        # Compilers put what lies between their steps where Python puts its temporary files.
        os.environ["TMPDIR"] = tempfile.tempdir = str(writable)
    sandbox.landlock(libc, (), allowed)
    sandbox.drop_capabilities(libc)


def toolkits() -> list[str]:
    """Folders of compilers and libraries that the environment names."""
    named = [os.environ[name] for name in TOOLKITS if os.environ.get(name)]
    folders = [str(Path(path).parent) if Path(path).is_file() else path for path in named]
    folders += compilers()
    return folders + [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]


def compilers() -> list[str]:
    """What belongs to the C compiler that Triton would take, which may be installed outside of the system's folders."""
    found = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CC"), "clang", "gcc")))), None)
    # Not the prefix itself: a compiler in a home's `bin` must not open the home.
    prefixes = {Path(found).parent.parent, Path(os.path.realpath(found)).parent.parent} if found else set()
    return [str(prefix / part) for prefix in prefixes for part in PARTS]


def python_folders() -> set[str]:
    """Where Python keeps its modules, and where those lie that are loaded: an environment may link to them.

    Not `sys.path`, which in an editable installation holds folders of the user's own.
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
    """Move the plain files of these names, and no others: those beside them in `target` are not the child's to
    replace."""
    for name in names:
        with contextlib.suppress(OSError):
            found = (source / name).lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size <= HANDED_BYTES:
                (source / name).replace(target / name)


def error_location(error: BaseException, path: Path) -> tuple[str, int, str]:
    """(what was raised, line, its text) of the innermost error of a chain that passes through the file; line 0 where
    none does."""
    import traceback

    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    said = f"{type(chain[-1]).__name__}: {chain[-1]}".strip().removesuffix(":")
    for one in reversed(chain):
        frames = [f for f in traceback.extract_tb(one.__traceback__) if f.filename == str(path)]
        if frames:
            return said, frames[-1].lineno or 0, (frames[-1].line or "").strip()
    return said, 0, ""
