"""Parent of the kernels' processes: has imported what they need, has never computed, and holds no secret and no oracle
data.

It answers on the descriptor named in argv: `spawn` (with the child's end of its channel), `reap`, and nothing else.
With `device` and a compute capability behind, its children are those of a GPU: some are kept with their context made,
on `warm`; `bury` leaves one that was killed for later; `settled` waits for all that are starting or ending.
"""

import ctypes  # noqa: F401  (imported here so that no child has to)
import os
import signal
import socket
import sys
import time
from pathlib import Path

# For this import alone: what else lies in the job's folder, a candidate's kernel.py among it, is not to be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.isolation import ipc, sandbox


class CpuSpawner:
    """Children that start when they are wanted."""

    def __init__(self):
        from harness.workers import cpu_worker

        self.serve = cpu_worker.serve

    def spawn(self, channel: ipc.Channel, fds: list[int]) -> dict:
        pid = fork(channel, lambda parent: self.serve(socket.socket(fileno=fds[0]), parent))
        for fd in fds:
            os.close(fd)
        return {"pid": pid}


class GpuSpawner:
    """Children that make their context first and wait until they are wanted."""

    def __init__(self, capability: int):
        from harness.workers import gpu_worker

        self.serve = gpu_worker.serve
        self.spares: list[tuple[int, ipc.Channel, dict]] = []
        gpu_worker.prepare_parent(capability)

    def warm(self, channel: ipc.Channel, count: int) -> None:
        while len(self.spares) < count:
            ours, theirs = ipc.socket_pair()

            def live(parent: int, ours=ours, theirs=theirs) -> None:
                ours.close()
                for _, other, _ in self.spares:
                    other.close()
                self.serve(theirs, parent)

            pid = fork(channel, live)
            theirs.close()
            self.spares.append((pid, ipc.Channel(ours), {}))

    def wait_until_settled(self) -> dict:
        """Wait for all that are starting; what one said when it could not."""
        self.clear()
        for pid, outlet, state in self.spares:
            if self._wait(outlet, state)["said"]:
                self.spares = [spare for spare in self.spares if spare[0] != pid]
                return state
        return {"said": ""}

    def clear(self) -> None:
        """Wait for all that were killed."""
        for pid in ENDING_PIDS.copy():
            reap(pid, 30.0)

    @staticmethod
    def _wait(outlet: ipc.Channel, state: dict) -> dict:
        if not state:
            try:
                state |= outlet.recv(120)[0]
            except (ipc.ClosedError, ipc.LateError) as error:
                state["said"] = f"it ended or hung before it had a context ({type(error).__name__})"
        return state

    def spawn(self, channel: ipc.Channel, fds: list[int]) -> dict:
        """Hand the channel to the spare that has waited longest."""
        self.warm(channel, 1)
        pid, outlet, state = self.spares.pop(0)
        answer = self._wait(outlet, state)
        if not answer["said"]:
            outlet.send({}, fds)
            answer = {"pid": pid}
        outlet.close()
        for fd in fds:
            os.close(fd)
        return answer


def fork(channel: ipc.Channel, live) -> int:
    """A child of its own session that lives `live(parent)` and ends."""
    parent = os.getpid()
    child = os.fork()
    if child:
        LIVE_PIDS.add(child)
        return child
    code = 1
    try:
        os.setsid()
        sandbox.die_with_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        channel.close()
        live(parent)
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
    while strays := sandbox.child_pids() - LIVE_PIDS:
        orphans += len(strays)
        for stray in strays:
            try:
                os.kill(stray, signal.SIGKILL)
                os.waitpid(stray, 0)
            except OSError:
                continue
    LIVE_PIDS.discard(pid)
    ENDING_PIDS.discard(pid)
    return {
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
        "killed": killed,
        "orphans": orphans,
    }


LIVE_PIDS: set[int] = set()
"""Children that were spawned and not yet reaped; the strays are all the others."""
ENDING_PIDS: set[int] = set()
"""Those among them that were killed and need not be waited for at once: a context takes a while to go."""


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
            parent.clear()
        elif message["op"] == "bury":
            ENDING_PIDS.add(message["pid"])
            channel.send({})
        elif message["op"] == "settled":
            channel.send(parent.wait_until_settled())
        else:
            channel.send(reap(message["pid"], message["patience"]))


if __name__ == "__main__":
    main()
