"""Parent of the kernels' processes: has imported what they need, has never computed, and holds no secret and no oracle data.

It answers on the descriptor named in argv: `spawn` (with the child's end of its channel), `reap`, and nothing else.
"""

import ctypes  # noqa: F401  (imported here so that no child has to)
import os
import signal
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kernelhost
import sandbox
import wire


def spawn(channel: wire.Channel, fds: list[int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        for fd in fds:
            os.close(fd)
        return child
    code = 1
    try:
        os.setsid()
        sandbox.die_with_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        channel.close()
        kernelhost.serve(socket.socket(fileno=fds[0]), parent)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def reap(pid: int, patience: float) -> dict:
    """Wait for a child that is ending (kill it when it does not), then for every orphan that it left to us."""
    end = time.monotonic() + patience
    killed = False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end and not killed:
            os.kill(pid, signal.SIGKILL)
            killed = True
        time.sleep(0.0005)
    orphans = 0
    while strays := children():
        orphans += len(strays)
        for stray in strays:
            try:
                os.kill(stray, signal.SIGKILL)
                os.waitpid(stray, 0)
            except OSError:
                continue
    return {
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
        "killed": killed,
        "orphans": orphans,
    }


LIVE: set[int] = set()
"""Children that were spawned and not yet reaped; the strays are all the others."""


def children() -> list[int]:
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return []
    return [int(pid) for pid in listed if int(pid) not in LIVE]


def main() -> None:
    sandbox.die_with_parent(int(sys.argv[2]))
    sandbox.become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = wire.Channel(socket.socket(fileno=int(sys.argv[1])))
    while True:
        try:
            message, fds = channel.recv()
        except wire.ClosedError:
            break
        if message["op"] == "spawn":
            pid = spawn(channel, fds)
            LIVE.add(pid)
            channel.send({"pid": pid})
        else:
            answer = reap(message["pid"], message["patience"])
            LIVE.discard(message["pid"])
            channel.send(answer)


if __name__ == "__main__":
    main()
