"""The supervisor's side of the kernels' processes: it starts them, maps buffers, loads kernels, calls them, and
explains how a process ended."""

import base64
import contextlib
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.device import telemetry
from harness.isolation import ipc, process_state, sandbox
from harness.memory import host_buffers
from harness.memory.input_ring import READ_ROLES, WRITTEN_ROLES, InfraError
from harness.workers import trampoline

WORKERS_FOLDER = Path(__file__).resolve().parent
IDLE_WAIT_S = 1.0
"""Longest time in which the threads of a process must come to rest after a message."""
IDLE_RUN_NS = 20_000
"""Nanoseconds that its threads may run from then on until a train is ordered; an idle process shows none."""
SCALAR_FORMATS = {"int32": "<i4x", "int64": "<q", "float32": "<f4x", "float64": "<d", "bool": "<?7x"}


class KernelError(Exception):
    """A fault of the kernel; the text completes "the candidate ..."."""


class ForkServer:
    """Handle of the fork server, which starts with this object."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None, arguments: tuple[str, ...] = ()):
        ours, theirs = ipc.socket_pair()
        self.log = folder / f"forkserver{'.'.join(('', *arguments))}.log"
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                str(WORKERS_FOLDER / "forkserver.py"),
                str(theirs.fileno()),
                str(os.getpid()),
                *arguments,
            ],
            pass_fds=[theirs.fileno()],
            env=environment or sandbox.environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.log.open("w"),
            start_new_session=True,
        )
        theirs.close()
        sandbox.LIVE_PIDS.add(self.process.pid)
        self.channel = ipc.Channel(ours)

    def spawn(self, theirs: socket.socket) -> int:
        """Fork a process that owns the socket `theirs`; return its pid. Raises InfraError if it does not start."""
        self.channel.send({"op": "spawn"}, [theirs.fileno()])
        answer = self.channel.recv(150)[0]
        if answer.get("error"):
            raise InfraError(f"a process for kernels did not start: {answer['error'][-600:]}")
        return answer["pid"]

    def reap(self, pid: int, patience: float) -> dict:
        """Wait up to `patience` seconds for a process to end, then kill it; return how it ended."""
        self.channel.send({"op": "reap", "pid": pid, "patience": patience})
        return self.channel.recv(patience + 30)[0]

    def close(self) -> None:
        self.channel.close()
        self.process.kill()
        self.process.wait()


class TrainSample:
    """Timing of one train of calls."""

    def __init__(self, answer: dict, wall: float, calls: int):
        self.seconds = answer["ns"] * 1e-9
        """Seconds around the train, as the kernel's process measured them."""
        self.wall = wall
        """Seconds from the order to the answer, by the supervisor's clock."""
        self.calls = calls
        self.flags = (answer["before"], answer["after"])
        self.omp = answer["omp"]
        self.accounted_s = self.seconds
        """Seconds of `wall` that the process's own clocks account for."""
        self.starved = False
        """Whether the device became idle before the train was launched, so that `seconds` includes launches."""
        self.trailing_s = 0.0
        """Seconds for which the device worked on after the train's last event."""
        self.enqueue = 0.0
        """Seconds that launching took, as the kernel's process measured them."""


class KernelProcess:
    """A process with one or two shared objects in it."""

    launches = False
    """Whether a call only launches the work, so that launching is timed separately."""
    plan: host_buffers.InputLayout | None = None
    slots: host_buffers.HostSlots | None = None
    idle_run_ns, idle_share = IDLE_RUN_NS, 0.0
    """How long the process may run between `prepare` and the train: nanoseconds, and a share of the time between."""
    prepared: bytes | None = None
    """The packed arguments of the next train, if `prepare` has sent them."""
    state: process_state.ProcessState | None = None
    """What the operating system showed of the process before a kernel was loaded; None for a process on a GPU."""

    def __init__(
        self,
        fork_server: ForkServer,
        kinds: tuple[str, ...],
        folder: Path,
        libraries: dict[str, str],
        address_space: int,
        limit_s: float,
    ):
        self.fork_server = fork_server
        self.libraries = libraries
        self.limit_s = limit_s
        stub = trampoline.compile_cached(trampoline.stub_source(kinds), folder)
        readable = [str(stub), *libraries.values(), *trampoline.runtime_library_folders()]
        self._start(folder, {"stub": str(stub), "readable": readable, "address_space": address_space}, 30)
        self.state = process_state.ProcessState(self.pid, children=self.sandbox["seccomp"] != "filter")

    def _start(self, folder: Path, hello: dict, limit_s: float) -> None:
        """Start a process of the fork server and send it `hello`; its output goes to a file in `folder`."""
        ours, theirs = ipc.socket_pair()
        self.log = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self.pid = self.fork_server.spawn(theirs)
        theirs.close()
        key = secrets.token_bytes(32)
        ipc.Channel(ours).send(hello | {"key": key.hex(), "cpu_s": 3600 * (os.cpu_count() or 1)}, [self.log.fileno()])
        self.channel = ipc.Channel(ours, key)
        self.sandbox = self._answer("did not start", limit_s)["sandbox"]
        self.affinity = os.sched_getaffinity(self.pid)

    def load(self, name: str) -> dict:
        """Load one of the shared objects; raise KernelError if it cannot be loaded or leaves something behind."""
        message = {"op": "load", "name": name, "path": self.libraries[name]}
        answer = self._ask(message, "while being loaded", self.limit_s)
        self._refuse(self.state.complaint())
        self.check_mappings()
        self.state.accept_mappings()
        return answer

    def map(self, ring) -> None:
        """Map the ring's inputs and slots, and unmap those of before."""
        shared, slots = ring.inputs.shared, ring.slots
        readable = shared.read_only()
        self.plan, self.slots, self.names = ring.inputs.plan, slots, (ring.names, [a["name"] for a in ring.outs])
        slots.clear_fault()
        message = {
            "op": "map",
            "inputs": shared.size,
            "outputs": slots.shared.size,
            "gaps": [self.plan.gaps, slots.plan.gaps],
        }
        self._send(message, [readable, slots.shared.fd])
        os.close(readable)
        answer = self._answer("while its buffers were mapped", 60)
        self.inputs, self.outputs = answer["inputs"], answer["outputs"]
        self.state.accept_mappings()

    def train(self, ring, at: list[int], slots: list[int]) -> bytes:
        """Return the packed arguments of a train of calls with these addresses and slots."""
        return b"".join(self.pack(ring.arguments(a), a, s) for a, s in zip(at, slots, strict=True))

    def pack(self, arguments: list[dict], set_index: int, slot: int) -> bytes:
        """Return the arguments of one call, 8 bytes each; `arguments` are in ABI order with the values of scalars."""
        # An in/out argument has a place among the inputs as well, where its content is kept.
        parts, inputs, outputs = [], iter(self.plan.offsets[set_index]), iter(self.slots.plan.offsets[slot])
        for argument in arguments:
            if argument["role"] == "scalar":
                parts.append(struct.pack(SCALAR_FORMATS[argument["dtype"]], argument["value"]))
                continue
            kept = next(inputs) if argument["role"] in READ_ROLES else 0
            written = argument["role"] in WRITTEN_ROLES
            parts.append(struct.pack("<Q", self.outputs + next(outputs) if written else self.inputs + kept))
        return b"".join(parts)

    def prepare(self, packed: bytes) -> None:
        """Send the arguments of the next train and wait until the process is idle, which it must be until `run`: new
        inputs are drawn in between, so that the process gets no message that it could answer by computing on them."""
        self._ask({"op": "prepare", "args": base64.b64encode(packed).decode()}, "between calls")
        self.require_idleness(packed)

    def require_idleness(self, packed) -> None:
        """Wait until the process is idle; `check_idle` then tells whether it stayed so until the train `packed`."""
        telemetry.wait_until_idle(self.pid, IDLE_WAIT_S)
        self.prepared, self.ran_ns, self.idle_since = packed, telemetry.run_ns(self.pid), time.monotonic_ns()

    def run(self, name: str, packed: bytes, calls: int) -> TrainSample:
        """Run a train of `calls`; raise KernelError if it does not return or leaves something behind. `prepare` comes
        first where it did not; scalars that were drawn since then come with the order."""
        if self.prepared is None:
            self.prepare(packed)
        order = {"op": "run", "fn": name, "calls": calls}
        if packed != self.prepared:
            order["args"] = base64.b64encode(packed).decode()
        self.prepared = None
        start = time.perf_counter()
        answer = self._ask(order, "", self.limit_s)
        sample = TrainSample(answer, time.perf_counter() - start, calls)
        self._refuse(trampoline.LEFT_BEHIND[answer["left"]] or self.state.complaint())
        return sample

    def check_idle(self) -> None:
        """Raise KernelError if the process has worked since `prepare`."""
        if self.prepared is not None:
            allowed_ns = self.idle_run_ns + self.idle_share * (time.monotonic_ns() - self.idle_since)
            if telemetry.run_ns(self.pid) > self.ran_ns + allowed_ns:
                self._refuse("worked between the drawing of its inputs and the call")

    def check_mappings(self) -> None:
        """Raise KernelError if the process has mappings that no call may leave behind."""
        self._refuse(self.state.mapping_complaint() if self.state else "")

    def _refuse(self, complaint: str) -> None:
        """Close the process and raise KernelError if there is a complaint about it."""
        if complaint:
            self.close()
            raise KernelError(complaint)

    def threads(self) -> int:
        """Return the number of live threads of the process, as the operating system counts them."""
        try:
            return sum(1 for _ in Path(f"/proc/{self.pid}/task").iterdir())
        except OSError:
            return 0

    def close(self) -> None:
        """End the process and its descendants."""
        if self.pid:
            pid, self.pid = self.pid, 0
            self.channel.close()
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            self._reap(pid)
        self.log.close()

    def _reap(self, pid: int) -> None:
        self.fork_server.reap(pid, 0.0)

    def _ask(self, message: dict, moment: str, limit_s: float = 60, *, fds=(), blamed: str = "") -> dict:
        """Send one message and return its answer.

        KernelError carries the answer's error followed by `blamed`, or how the process ended at this `moment`.
        """
        self._send(message, fds)
        return self._raise_on_error(self._answer(moment, limit_s), blamed)

    def _send(self, message: dict, fds=()) -> None:
        """Send one message; where the process has ended, `_answer` says how."""
        with contextlib.suppress(ipc.ClosedError):
            self.channel.send(message, fds)

    def _raise_on_error(self, answer: dict, blamed: str = "") -> dict:
        """Return the answer, or close the process and raise KernelError for its error."""
        if "error" in answer:
            self.close()
            raise KernelError(f"{answer['error']} {blamed}".strip())
        return answer

    def _answer(self, moment: str, limit_s: float) -> dict:
        """Wait for an answer. Raises KernelError if the process ended, was late or forged a message, and InfraError for
        a failure of the harness."""
        try:
            answer = self.channel.recv(limit_s)[0]
            if "infra" in answer:
                raise InfraError(f"a kernel's process {answer['infra']}")
            return answer
        except ipc.LateError:
            self.close()
            raise KernelError(f"did not return within {limit_s:g} s {moment}".strip()) from None
        except ipc.ForgedError as error:
            self.close()
            raise KernelError(f"wrote to the harness's private channel ({error})") from None
        except (ipc.ClosedError, ValueError):
            raise KernelError(self._death_reason(moment)) from None

    def _death_reason(self, moment: str) -> str:
        """Reap the process and return how it ended, as the end of "the candidate ..."."""
        pid, self.pid = self.pid, 0
        self.channel.close()
        ended = self.fork_server.reap(pid, 2.0)
        last_line = self._last_log_line()
        self.log.close()
        if ended["killed"]:
            return f"closed the harness's private channel {moment}".strip()
        if ended["exit"] >= 0:
            return f"called exit({ended['exit']}) {moment}".strip()
        name = signal.Signals(ended["signal"]).name
        if name == "SIGSYS":
            return f"made a forbidden system call, which starts a process or reaches into another, {moment}".strip(", ")
        if name == "SIGKILL":
            return f"was killed (SIGKILL), probably because memory ran out {moment}".strip()
        return (
            f"crashed with {name} {moment}".strip()
            + self._fault_location()
            + (f": {last_line}" if name == "SIGABRT" and last_line else "")
        )

    def _fault_location(self) -> str:
        """Return where an invalid access was, as " (wrote past the end of output y)"; empty if it is unknown."""
        if not self.slots or not self.plan:
            return ""
        address, kind = self.slots.fault()
        if not kind:
            return ""
        act = {1: "read", 2: "wrote"}.get(kind, "touched memory")
        for base, plan, names in zip(
            (self.inputs, self.outputs), (self.plan, self.slots.plan), self.names, strict=True
        ):
            if base <= address < base + plan.total:
                return f" ({act} {plan.describe(address - base, names)})"
        return f" ({act} through a null pointer)" if address < 4096 else f" ({act} outside its buffers)"

    def _last_log_line(self) -> str:
        """Return the last line of the process's output, at most 200 characters."""
        size = self.log.seek(0, 2)
        self.log.seek(max(size - 300, 0))
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else ""
