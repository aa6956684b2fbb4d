"""Parent of the kernels' processes. It has imported what they need, has never computed, and holds neither secrets nor
data of the oracle.

It answers requests on the descriptor named in argv: `spawn`, with the child's end of its channel, and `reap`. With
`device` and a compute capability as further arguments, its children run on a GPU. Then `warm` starts spare children
that already have a context, `reap_later` notes a child that was killed, and `wait_until_settled` waits for all children
that are starting or ending.
"""

import ctypes  # noqa: F401  (imported here so that no child has to)
import os
import signal
import socket
import sys
import time
from pathlib import Path

# For this import only: other files of the job's folder, such as a candidate's kernel.py, must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.isolation import ipc, sandbox


class CpuSpawner:
    """Starts children on request."""

    def __init__(self):
        from harness.workers import cpu_worker

        self.serve = cpu_worker.serve

    def spawn(self, channel: ipc.Channel, fds: list[int]) -> dict:
        """Fork a child for the channel in `fds` and answer its pid."""
        pid = fork(channel, lambda parent: self.serve(socket.socket(fileno=fds[0]), parent))
        for fd in fds:
            os.close(fd)
        return {"pid": pid}


class GpuSpawner:
    """Starts children in advance; each creates its context and waits for a request."""

    def __init__(self, capability: int):
        from harness.workers import gpu_worker

        self.serve = gpu_worker.serve
        self.spares: list[tuple[int, ipc.Channel, dict]] = []
        gpu_worker.prepare_parent(capability)

    def warm(self, channel: ipc.Channel, count: int) -> None:
        """Start spare children until there are `count`."""
        while len(self.spares) < count:
            ours, theirs = ipc.socket_pair()

            def run_child(parent: int, ours=ours, theirs=theirs) -> None:
                ours.close()
                for _, other, _ in self.spares:
                    other.close()
                self.serve(theirs, parent)

            pid = fork(channel, run_child)
            theirs.close()
            self.spares.append((pid, ipc.Channel(ours), {}))

    def wait_until_settled(self) -> dict:
        """Wait for all children that are starting or ending; answer the error of one that could not start, or an empty
        one."""
        self.reap_ending()
        for pid, outlet, state in self.spares:
            if self._wait_until_ready(outlet, state)["error"]:
                self.spares = [spare for spare in self.spares if spare[0] != pid]
                return state
        return {"error": ""}

    def reap_ending(self) -> None:
        """Wait for all children that were killed."""
        for pid in ENDING_PIDS.copy():
            reap(pid, 30.0)

    @staticmethod
    def _wait_until_ready(outlet: ipc.Channel, state: dict) -> dict:
        """Return the child's state once it has its context, or the error with which it could not create one."""
        if not state:
            try:
                state |= outlet.recv(120)[0]
            except (ipc.ClosedError, ipc.LateError) as error:
                state["error"] = f"it ended or hung before it had a context ({type(error).__name__})"
        return state

    def spawn(self, channel: ipc.Channel, fds: list[int]) -> dict:
        """Give the channel to the spare child that has waited longest."""
        self.warm(channel, 1)
        pid, outlet, state = self.spares.pop(0)
        answer = self._wait_until_ready(outlet, state)
        if not answer["error"]:
            outlet.send({}, fds)
            answer = {"pid": pid}
        outlet.close()
        for fd in fds:
            os.close(fd)
        return answer


def fork(channel: ipc.Channel, run_child) -> int:
    """Fork a child in a session of its own that calls `run_child(parent)` and exits; return its pid."""
    parent = os.getpid()
    child = os.fork()
    if child:
        sandbox.LIVE_PIDS.add(child)
        return child
    code = 1
    try:
        os.setsid()
        sandbox.die_with_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        channel.close()
        run_child(parent)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def reap(pid: int, patience: float) -> dict:
    """Wait `patience` seconds for a child to end, then kill it, and kill every orphan that it left; return how it
    ended."""
    end = time.monotonic() + patience
    killed = False
    while True:
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if ended_pid:
            break
        if time.monotonic() > end and not killed:
            os.kill(pid, signal.SIGKILL)
            killed = True
        time.sleep(0.0005)
    orphans = sandbox.end_orphans(sandbox.LIVE_PIDS)
    sandbox.LIVE_PIDS.discard(pid)
    ENDING_PIDS.discard(pid)
    return {
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
        "killed": killed,
        "orphans": orphans,
    }


ENDING_PIDS: set[int] = set()
"""Live children that were killed and are reaped later, because a context takes a while to close."""


def main() -> None:
    sandbox.die_with_parent(int(sys.argv[2]))
    sandbox.become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = ipc.Channel(socket.socket(fileno=int(sys.argv[1])))
    parent = GpuSpawner(int(sys.argv[4])) if sys.argv[3:4] == ["device"] else CpuSpawner()
    while True:
        try:
            message, fds = channel.recv()
        except ipc.ClosedError:
            break
        if message["op"] == "spawn":
            channel.send(parent.spawn(channel, fds))
        elif message["op"] == "warm":
            parent.warm(channel, message["count"] if len(parent.spares) < message["least"] else 0)
            channel.send({})
            parent.reap_ending()
        elif message["op"] == "reap_later":
            ENDING_PIDS.add(message["pid"])
            channel.send({})
        elif message["op"] == "wait_until_settled":
            channel.send(parent.wait_until_settled())
        else:
            channel.send(reap(message["pid"], message["patience"]))


if __name__ == "__main__":
    main()
