"""Confines a process before it loads a kernel: its own session, limits, no network, no new privileges, no file system,
and no system calls that reach into other processes or into the kernel of the operating system.

Steps that the operating system refuses are skipped and reported. `python -I sandbox.py` prints as JSON what works on
this machine.
"""

import contextlib
import ctypes
import errno
import json
import os
import platform
import resource
import struct
import sys
from pathlib import Path

CLONE_NEWNET, CLONE_NEWUSER, CLONE_NEWIPC = 0x40000000, 0x10000000, 0x08000000
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 22, 38, 36
SIGKILL = 9
FS_EXECUTE, FS_READ_FILE, FS_READ_DIR, FS_WRITE_FILE, FS_IOCTL = 1 << 0, 1 << 2, 1 << 3, 1 << 1, 1 << 15
FS_FILES = 0b111_1111_1111_1111 & ~(1 << 6 | 1 << 11)
"""All rights on files and folders except those on device nodes."""
ON_FILES = FS_EXECUTE | FS_READ_FILE | FS_WRITE_FILE | FS_IOCTL | 1 << 14
READABLE = (
    "/usr",
    "/lib",
    "/lib64",
    "/opt",
    "/nix/store",
    "/etc/ld.so.cache",
    "/sys/devices/system",
    "/proc/cpuinfo",
    "/proc/stat",
)
PSEUDO = ("/proc/self", "/proc/driver", "/proc/meminfo", "/proc/modules", "/proc/devices", "/proc/version", "/sys")
"""Files that CUDA's driver and CUPTI read."""
GPU_FILE_BYTES = 1 << 30
SYSTEM_CALLS = {
    "x86_64": (0xC000003E, 56, (57, 58), (101, 248, 249, 250, 272, 298, 308, 310, 311, 323, 425, 426, 427)),
    "aarch64": (0xC00000B7, 220, (), (117, 217, 218, 219, 97, 241, 268, 270, 271, 282, 425, 426, 427)),
}
"""Machine -> its number in seccomp, and the numbers of its system calls: clone; fork and vfork; and ptrace, add_key,
request_key, keyctl, unshare, perf_event_open, setns, process_vm_readv, process_vm_writev, userfaultfd and io_uring's
three, which no confined process may make."""
CLONE3, CLONE_THREAD, CLONE_NAMESPACES = 435, 0x10000, 0x7E020000
KILL_PROCESS, ANSWER_ENOSYS, ALLOW = 0x80000000, 0x50000 | errno.ENOSYS, 0x7FFF0000
LOAD, AND, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
"""Instructions of a seccomp filter. A filter reads the number of the call at byte 0, the machine at 4 and the first
argument, which of clone is its flags, at 16."""
PASSED_ENVIRONMENT_VARIABLES = (
    "PATH",
    "LANG",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
)


def die_with_parent(parent: int) -> None:
    """Ask the operating system to kill this process when its parent (pid `parent`, the thread that forked) ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def become_subreaper() -> None:
    """Become the parent of orphaned descendants, so that this process can end them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


LIVE_PIDS: set[int] = set()
"""Children that this process started and has not reaped yet; any other child is an orphan of one of them."""


def child_pids(pid: int | str = "self") -> set[int]:
    """Return the current children of a process; empty if the operating system does not list them."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found.update(map(int, (task / "children").read_text().split()))
    return found


def descendant_pids(pid: int) -> set[int]:
    """Return all descendants of a process that were not given to another parent."""
    children = child_pids(pid)
    return children.union(*map(descendant_pids, children))


def end_orphans(kept: set[int]) -> int:
    """Kill and reap every child but those `kept`, and whatever they leave in turn; return how many there were."""
    count = 0
    while orphans := child_pids() - kept:
        count += len(orphans)
        for orphan in orphans:
            with contextlib.suppress(OSError):
                os.kill(orphan, SIGKILL)
                os.waitpid(orphan, 0)
    return count


def environment() -> dict[str, str]:
    """Return the environment of a kernel's process: no secrets, and waiting OpenMP threads sleep."""
    return {name: os.environ[name] for name in PASSED_ENVIRONMENT_VARIABLES if name in os.environ} | {
        "OMP_WAIT_POLICY": "passive"
    }


def torch_thread_count() -> int:
    """Return the number of torch's threads, which is that of OpenMP kernels."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdigit() and int(setting) else len(os.sched_getaffinity(0))


def limit(address_space: int, cpu_s: int, file_bytes: int = 1 << 20) -> dict[str, object]:
    """Set resource limits and return them; 0 leaves a limit unchanged."""
    limits = {
        "RLIMIT_AS": address_space,
        "RLIMIT_CPU": cpu_s,
        "RLIMIT_FSIZE": file_bytes,
        "RLIMIT_NOFILE": 1024,
        "RLIMIT_NPROC": 4096 + 16 * (os.cpu_count() or 1),
    }
    applied: dict[str, object] = {}
    for name, value in limits.items():
        if value:
            _limit_one(getattr(resource, name), value)
            applied[name] = value
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return applied


def _limit_one(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bounded, bounded))


def drop_network(libc) -> str:
    """Enter an empty network namespace. Returns how, or why that failed."""
    if libc.unshare(CLONE_NEWNET | CLONE_NEWIPC) == 0:
        return "namespace"
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) == 0:
        return "user namespace"
    return f"not isolated ({os.strerror(ctypes.get_errno())})"


def landlock(libc, readable, more: dict[str, int] | None = None) -> str:
    """Restrict file access to reading `readable` and to the rights in `more` (path -> rights); forbid TCP, abstract
    sockets and signals to other processes. Returns the ABI, or why that failed."""
    version = libc.syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if version < 1:
        return f"not available ({os.strerror(ctypes.get_errno())})"
    handled = (1 << (13 if version == 1 else 14 if version == 2 else 15 if version < 5 else 16)) - 1
    attribute = struct.pack("QQQ", handled, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = libc.syscall(444, attribute, ctypes.c_size_t(len(attribute)), ctypes.c_uint(0))
    if ruleset < 0:
        return f"refused ({os.strerror(ctypes.get_errno())})"
    rules = [(path, FS_READ_FILE) for path in readable] + [
        ("/dev/null", FS_READ_FILE | FS_WRITE_FILE),
        ("/dev/urandom", FS_READ_FILE),
    ]
    rules += (more or {}).items()
    for path, access in rules:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        folder = Path(path).is_dir()
        rights = handled & (access | FS_READ_DIR if folder else access & ON_FILES)
        libc.syscall(445, ctypes.c_int(ruleset), ctypes.c_int(1), struct.pack("=Qi", rights, handle), ctypes.c_uint(0))
        os.close(handle)
    refused = libc.syscall(446, ctypes.c_int(ruleset), ctypes.c_uint(0))
    os.close(ruleset)
    return f"refused ({os.strerror(ctypes.get_errno())})" if refused else f"abi {version}"


def drop_capabilities(libc) -> str:
    """Drop every capability, which matters as root and in a user namespace; return "none" or why that failed."""
    header = struct.pack("=Ii", 0x20080522, 0)
    return "none" if libc.capset(header, bytes(24)) == 0 else f"kept ({os.strerror(ctypes.get_errno())})"


def seccomp(libc, *, children: bool) -> str:
    """Kill the process at a forbidden system call or a new namespace, and without `children` also where it starts one
    that is no thread. Returns "filter", or why that failed."""
    if platform.machine() not in SYSTEM_CALLS:
        return f"not available on {platform.machine()}"
    machine, clone, forks, forbidden = SYSTEM_CALLS[platform.machine()]
    flags = CLONE_NAMESPACES if children else CLONE_NAMESPACES | CLONE_THREAD
    kill, allow = (RETURN, 0, 0, KILL_PROCESS), (RETURN, 0, 0, ALLOW)
    # (instruction, instructions to skip if the comparison holds, and if it does not, operand)
    program = [(LOAD, 0, 0, 4), (IF_EQUAL, 1, 0, machine), kill, (LOAD, 0, 0, 0)]
    for number in forbidden if children else (*forks, *forbidden):
        program += [(IF_EQUAL, 0, 1, number), kill]
    program += [(IF_AT_LEAST, 0, 1, 1 << 30), kill]  # the calls of another interface (x32)
    # The flags of clone3 are in memory, where no filter reads them. The C library then uses clone.
    program += [(IF_EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ANSWER_ENOSYS), (IF_EQUAL, 1, 0, clone), allow]
    program += [(LOAD, 0, 0, 16), (AND, 0, 0, flags), (IF_EQUAL, 1, 0, flags & CLONE_THREAD), kill, allow]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    filters = struct.pack("HP", len(program), ctypes.addressof(text))
    refused = libc.prctl(PR_SET_SECCOMP, 2, filters, 0, 0)
    return f"refused ({os.strerror(ctypes.get_errno())})" if refused else "filter"


def shut_in(readable, address_space: int, cpu_s: int, parent: int) -> dict[str, object]:
    """Confine the calling process by all of these steps; return what was applied."""
    libc = ctypes.CDLL(None, use_errno=True)
    report: dict[str, object] = {"limits": limit(address_space, cpu_s)}
    report["network"] = drop_network(libc)
    report["no_new_privileges"] = libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    report["landlock"] = landlock(
        libc, (*READABLE, *(p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p), *readable)
    )
    report["capabilities"] = drop_capabilities(libc)
    report["seccomp"] = seccomp(libc, children=False)
    die_with_parent(parent)  # last: a change of credentials clears it
    return report


def shut_in_on_gpu(libc, hello: dict, parent: int) -> dict[str, object]:
    """Confine the calling process on a GPU: limits, no new privileges, and no files but those of torch, Triton and the
    driver, its own cache, and the GPU's device nodes. Returns what was applied."""
    report: dict[str, object] = {"limits": limit(0, hello["cpu_s"], GPU_FILE_BYTES)}
    report["no_new_privileges"] = libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    report["landlock"] = landlock(libc, (), gpu_files(hello["readable"], (hello["cache"],)))
    report["capabilities"] = drop_capabilities(libc)
    die_with_parent(parent)  # last: a change of credentials clears it
    return report


def shut_in_under_a_profiler(readable, writable, cpu_s: int) -> dict[str, object]:
    """Confine the calling process as far as an attached profiler allows, which needs its capabilities, its connection
    and its own files. Returns what was applied."""
    libc = ctypes.CDLL(None, use_errno=True)
    report: dict[str, object] = {"limits": limit(0, cpu_s, GPU_FILE_BYTES)}
    report["no_new_privileges"] = libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    report["landlock"] = landlock(libc, (), gpu_files(readable, writable))
    return report


def gpu_files(readable, writable) -> dict[str, int]:
    """Return path -> rights for `landlock`: the files of torch, Triton and the driver, `readable` ones, `writable`
    folders, and the GPU's device nodes."""
    read_and_execute = FS_READ_FILE | FS_EXECUTE
    more = dict.fromkeys((*READABLE, *readable, "/bin", "/sbin"), read_and_execute)
    more |= {path: read_and_execute for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path}
    more |= dict.fromkeys(PSEUDO, FS_READ_FILE)
    more |= {
        str(Path(module.__file__).parent): read_and_execute
        for name in ("torch", "triton", "numpy")
        if (module := sys.modules.get(name))
    }
    more |= dict.fromkeys(writable, FS_FILES)
    device_rights = FS_READ_FILE | FS_WRITE_FILE | FS_IOCTL
    return more | {str(path): device_rights for path in (*Path("/dev").glob("nvidia*"), Path("/dev/shm"))}


def main() -> None:
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.setsid()
        report = shut_in((), 0, 0, parent)
        os.write(
            writer, json.dumps(report | {"kernel": platform.release(), "libc": " ".join(platform.libc_ver())}).encode()
        )
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        sys.stdout.write(file.read() + "\n")
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
