"""Starts one job at a time for `tools.executors.host.worker`, and kills it when its time is over or when the caller
closes the input.

It is a process of its own (`python -I launcher.py`) with one thread. A job's life can therefore be tied to it
(PR_SET_PDEATHSIG follows the thread that forked), and the caller, which has threads, never forks. It reads one JSON
line and writes one for each job.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1


def start_job(order: dict[str, Any]) -> int:
    """Fork and execute the job in a process group of its own, under its limits; return its pid."""
    launcher = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for which, value in ((resource.RLIMIT_AS, order["memory_bytes"]), (resource.RLIMIT_FSIZE, order["file_bytes"])):
            if value:
                hard = resource.getrlimit(which)[1]
                bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.setrlimit(which, (bound, bound))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(order["folder"])
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        for target, name in ((1, "stdout.txt"), (2, "stderr.txt")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), target)
        os.closerange(3, 256)
        os.execvpe(order["argv"][0], order["argv"], order["env"])
    except OSError as error:
        os.write(2, f"{order['argv'][0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def kill_job(pid: int) -> None:
    """Kill the job's whole process group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)


def wait_for_job(pid: int, wall_s: float, woken: int) -> dict[str, Any]:
    """Wait for the job and return its status and usage. Kills it after `wall_s` seconds, and exits when the caller
    closes stdin."""
    start = time.monotonic()
    timed_out = False
    poll = select.poll()
    poll.register(0, 0)
    poll.register(woken, select.POLLIN)
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        remaining_s = start + wall_s - time.monotonic()
        if remaining_s <= 0 and not timed_out:
            timed_out = True
            kill_job(pid)
        events = poll.poll(max(remaining_s, 0.01) * 1000)
        if any(fd == 0 for fd, _ in events):
            kill_job(pid)
            sys.exit(1)
        if any(fd == woken for fd, _ in events):
            os.read(woken, 4096)
    wall = time.monotonic() - start
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # processes that it left in its group
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "timed_out": timed_out,
        "wall_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_memory": usage.ru_maxrss * 1024,
    }


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_inheritable(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    while line := sys.stdin.buffer.readline():
        order = json.loads(line)
        answer = wait_for_job(start_job(order), order["wall_s"], woken)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
