"""The long-lived process that alone knows the correct results: it makes inputs, computes the reference in float64 and
compares outputs.

The supervisor starts it with a socket's descriptor. It answers one verb at a time and sleeps in between.
"""

import hashlib
import mmap
import os
import random
import resource
import signal
import socket
import sys
import traceback
import warnings
from pathlib import Path

# For this import only: other files of the job's folder, such as a candidate's kernel.py, must not be importable.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import harness  # noqa: F401

sys.path.pop(0)
from harness.isolation import ipc, sandbox
from harness.numerics.precision import set_precision

VERBS = (
    "probe",
    "begin_request",
    "make_inputs",
    "count_needed_bytes",
    "compile_reference",
    "attach_memory",
    "copy_inputs",
    "renew_inputs",
    "changed_inputs",
    "compare_slots",
    "release_all",
)
ON_DEVICE = ("open_arena", "evict_cache", "poison_slots", "restore_slots", "check_guards", "read_fingerprints")


class InputSet:
    """One set of arguments, with its expected outputs and torch's own errors once they are needed."""

    def __init__(self, args, note=""):
        self.args = args
        self.expected = None
        self.torch_errors: list[float | None] = []
        self.note = note


class Oracle:
    def __init__(self):
        import torch

        from harness.reference import comparison, contract, needed, probe

        self.torch, self.compare, self.contract, self.prober, self.needs = torch, comparison, contract, probe, needed
        torch.set_num_threads(sandbox.torch_thread_count())
        torch.set_grad_enabled(False)
        warnings.filterwarnings("ignore")
        self.loaded = None
        self.sets: dict[int, InputSet] = {}
        self.verified: dict[str, list] = {}
        self.device = "cpu"
        self.memory = None
        """Arenas of the GPU, or None on a CPU. On a GPU, `inputs` and `outputs` are byte tensors over these."""
        self.inputs: mmap.mmap | None = None
        self.outputs: dict[int, mmap.mmap] = {}

    def probe(self, message: dict, fds) -> dict:
        """Answer a ProbeResult, with the request's bound on memory; on a GPU, its free memory is the bound."""
        request = message["request"]
        set_precision("ieee")
        on_gpu = request["device"] != "cpu"
        memory = self.torch.cuda.mem_get_info()[0] if on_gpu else request["memory_bytes"]
        bound_memory(0 if on_gpu else memory)
        try:
            return self.prober.probe({**request, "memory_bytes": memory})
        finally:
            bound_memory(0)
            self.torch.cuda.empty_cache()

    def begin_request(self, message: dict, fds) -> dict:
        """Begin a request: forget all sets and load the task's reference."""
        self.sets.clear()
        self.verified.clear()
        task = message["task"]
        identity = hashlib.sha256(task["reference"].encode()).hexdigest()
        if self.loaded is None or self.loaded[0] != identity:
            self.loaded = identity, self.contract.Contract(task["reference"])
        self.device = message.get("device", "cpu")
        self.loaded[1].device = self.device
        if self.device != "cpu" and self.memory is None:
            from harness.memory import gpu_arena

            self.memory = gpu_arena.DeviceMemory(self.torch)
        self.task = task
        self.roles = {a["name"]: a["role"] for a in task["arguments"]}
        self.parameters = [
            {"name": a["name"], "dtype": a["dtype"], "pointer": a["role"] != "scalar"} for a in task["arguments"]
        ]
        set_precision(task["numeric"]["precision"])
        return self.memory.facts() if self.device != "cpu" else {}

    def make_inputs(self, message: dict, fds) -> dict:
        """Make one input set and answer its arguments with shapes and scalar values. If `answered`, the reference
        computes its outputs at once."""
        args = self._arguments(message["dims"], message["seed"])
        transform(self.torch, args, message["distribution"], message["seed"])
        self.sets[message["id"]] = InputSet(args)
        if message.get("answered"):
            self._set_with_outputs(message["id"])
        return {"args": self._described(args, message["dims"], message["seed"])}

    def count_needed_bytes(self, message: dict, fds) -> dict:
        """Answer the bytes that a call must move: those on which a set's outputs depend, and those of the outputs."""
        return {
            "bytes": self.needs.look_for_needed(self.loaded[1], self.sets[message["id"]].args, message["seconds"])[0]
        }

    def compile_reference(self, message: dict, fds) -> dict:
        """Answer an InductorResult: torch.compile's code for the reference."""
        from harness.reference import inductor

        visible = [w["dims"] for w in self.task["workloads"]]
        contract, library = self.loaded[1], self.task.get("library") or ()
        return inductor.generate_variants(
            contract, lambda dims: self._arguments(dims, 1), visible, message["others"], message["seconds"], library
        )

    def _arguments(self, dims: dict, seed: int) -> list:
        args = self.loaded[1].build(dims, seed, self.parameters, self.task["pointer_elements"])
        for a in args:
            a.role = self.roles[a.name]
        return args

    def _described(self, args: list, dims: dict, seed: int) -> list[dict]:
        """Return the arguments as JSON; the first says how they were made, where that cannot be seen in them: with
        objects of make_inputs' own, gradients or strides."""
        found, contract = [a.json() for a in args], self.loaded[1]
        if contract.made or contract.leaves or contract.strides:
            found[0]["made_by"] = {"dims": dims, "seed": seed}
        return found

    def attach_memory(self, message: dict, fds: list[int]) -> dict:
        """Map a shared file: the inputs (lane None) or the outputs of one lane."""
        mapped = mmap.mmap(fds[0], message["size"])
        os.close(fds[0])
        if message["lane"] is None:
            self.inputs = mapped
        else:
            self.outputs[message["lane"]] = mapped
        return {}

    def open_arena(self, message: dict, fds) -> dict:
        """Allocate device memory for the inputs (lane None) or the slots of a lane; the answer carries its
        descriptor."""
        lane = message["lane"]
        arena, descriptor = self.memory.open(lane, message)
        if lane is None:
            self.inputs = arena.bytes
        else:
            self.outputs[lane] = arena.bytes
        return {"size": arena.size, "fds": [descriptor]}

    def evict_cache(self, message: dict, fds) -> dict:
        """Evict all buffers from the GPU's L2 cache."""
        self.memory.evict_cache()
        return {}

    def poison_slots(self, message: dict, fds) -> dict:
        """Fill these slots of a lane with poison or an earlier result."""
        self.memory.lanes[message["lane"]].poison(message["slots"], message["earlier"])
        self.torch.cuda.synchronize()
        return {}

    def restore_slots(self, message: dict, fds) -> dict:
        """Copy buffers of the inputs into slots of a lane; a copy is (offset, offset, bytes). Then, if `cold`, evict
        them from the L2 cache."""
        for source, target, size in message["copies"]:
            self.outputs[message["lane"]][target : target + size] = self.inputs[source : source + size]
        self.torch.cuda.synchronize()
        if message["cold"]:
            self.memory.evict_cache()
        return {}

    def check_guards(self, message: dict, fds) -> dict:
        """Answer whether the guard bands of these slots are intact."""
        return {"intact": self.memory.lanes[message["lane"]].intact(message["slots"])}

    def read_fingerprints(self, message: dict, fds) -> dict:
        """Answer the fingerprints of these slots at the given positions."""
        return {"seen": self.memory.lanes[message["lane"]].fingerprints(message["slots"], message["places"])}

    def copy_inputs(self, message: dict, fds) -> dict:
        """Copy a set's inputs to the given offsets."""
        self._copy_to(message["id"], message["offsets"])
        if self.memory:
            self.torch.cuda.synchronize()
        return {}

    def _copy_to(self, identity: int, offsets: list[int]) -> None:
        for tensor, offset in zip(self._input_tensors(identity), offsets, strict=True):
            self._view(self.inputs, tensor.dtype, tensor.numel(), offset).copy_(tensor.reshape(-1))

    def renew_inputs(self, message: dict, fds) -> dict:
        """Draw the input sets `sets` ({id, seed, offsets}) with the task's own generator, copy them to their offsets
        and forget the sets `dropped`. Answers the arguments of each set.

        On a GPU the copies are evicted from the L2 cache afterwards, so that new inputs are as cold as the others.
        """
        for identity in message["dropped"]:
            self.sets.pop(identity, None)
        dropped = {str(identity) for identity in message["dropped"]}
        self.verified = {tag: seen for tag, seen in self.verified.items() if tag.rpartition("/")[2] not in dropped}
        made = []
        for one in message["sets"]:
            args = self._arguments(message["dims"], one["seed"])
            self.sets[one["id"]] = InputSet(args)
            self._copy_to(one["id"], one["offsets"])
            made.append(self._described(args, message["dims"], one["seed"]))
        if self.memory:
            self.memory.evict_cache()
        return {"made": made}

    def changed_inputs(self, message: dict, fds) -> dict:
        """Answer which inputs no longer equal what was copied to these offsets."""
        torch = self.torch
        tensors = self._input_tensors(message["id"])
        pairs = zip(tensors, message["offsets"], strict=True)
        wrong = [
            i
            for i, (t, offset) in enumerate(pairs)
            if not torch.equal(
                self._bits(t.reshape(-1)), self._bits(self._view(self.inputs, t.dtype, t.numel(), offset))
            )
        ]
        return {"changed": wrong}

    def compare_slots(self, message: dict, fds) -> dict:
        """Compare slots with the expected outputs, one answer for each; a slot is {id, lane, offsets, tag}."""
        return {"slots": [self._check_one(slot) for slot in message["slots"]]}

    def _check_one(self, slot: dict) -> dict:
        outs = self._output_views(slot)
        known = self.verified.get(slot["tag"])
        if known is not None and all(
            self.torch.equal(self._bits(a), self._bits(b)) for a, b in zip(outs, known, strict=True)
        ):
            return {"outputs": [], "full": False}
        base = self._set_with_outputs(slot["id"])
        answers = [
            self.compare.compare_output(e, out, t, self.task["numeric"], base.args)
            for e, out, t in zip(base.expected, outs, base.torch_errors, strict=True)
        ]
        if slot["tag"] and known is None:
            self.verified[slot["tag"]] = [out.clone() for out in outs]
        return {"outputs": answers, "full": True, "note": base.note}

    def release_all(self, message: dict, fds) -> dict:
        """Forget all sets and release all memory."""
        self.sets.clear()
        self.verified.clear()
        self.inputs = None
        self.outputs.clear()
        if self.memory:
            self.memory.drop()
        return {}

    def failed(self, error: Exception) -> dict:
        """Return the answer to a verb that raised: `error` for the user's mistake, `infra` for a failure of the
        oracle."""
        if isinstance(error, self.contract.ContractError):
            return {"error": str(error), "log": error.log[-4000:]}
        log = traceback.format_exc()[-4000:]
        if isinstance(error, MemoryError) or "allocate" in str(error) or "memory" in str(error):
            return {"error": "the workload does not fit in memory; make its dims smaller", "log": log}
        return {"infra": f"the oracle failed: {error}", "log": log}

    def _set_with_outputs(self, identity: int) -> InputSet:
        """Return the input set, and compute its expected outputs first if they are missing."""
        input_set = self.sets[identity]
        if input_set.expected is None:
            contract = self.loaded[1]
            input_set.expected, input_set.note = self.compare.expected_outputs(contract, input_set.args)
            outs = self.compare.native_outputs(contract, input_set.args)
            input_set.torch_errors = [e.error(out)["error"] for e, out in zip(input_set.expected, outs, strict=True)]
        return input_set

    def _input_tensors(self, identity: int) -> list:
        return [a.value for a in self.sets[identity].args if a.is_read]

    def _output_views(self, slot: dict) -> list:
        outputs = [a.value for a in self.sets[slot["id"]].args if a.is_written]
        dtypes = [self.torch.uint8 if t.dtype is self.torch.bool else t.dtype for t in outputs]
        return [
            self._view(self.outputs[slot["lane"]], dtype, t.numel(), offset)
            for t, dtype, offset in zip(outputs, dtypes, slot["offsets"], strict=True)
        ]

    def _view(self, memory, dtype, count: int, offset: int):
        """Return `count` elements of `memory` from a byte offset, as a flat tensor."""
        if count == 0:
            return self.torch.empty(0, dtype=dtype, device=self.device)
        if self.device != "cpu":
            return memory[offset : offset + count * dtype.itemsize].view(dtype)
        return self.torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)

    def _bits(self, tensor):
        """Return the tensor's bits as integers of its size."""
        sizes = {1: self.torch.uint8, 2: self.torch.int16, 4: self.torch.int32, 8: self.torch.int64}
        return tensor.view(sizes[tensor.element_size()])


def transform(torch, args, distribution: str, seed: int) -> None:
    """Change the floating inputs in place as the distribution says; inputs without negative values get none."""
    if distribution == "as_given":
        return
    chance = random.Random(f"{seed}/{distribution}")
    for a in args:
        if not a.is_read or not a.value.dtype.is_floating_point or not a.value.numel():
            continue
        x = a.value.to(torch.float64)
        finite = x[x.isfinite()]
        spread = float(finite.std(correction=0)) if finite.numel() > 1 else 1.0
        sign = 1 if float(x.min()) >= 0 else chance.choice((-1, 1))
        if distribution == "scaled":
            x = x * chance.uniform(4.0, 30.0)
        elif distribution == "shifted":
            x = x + sign * chance.uniform(3.0, 20.0) * (spread or 1.0)
        elif distribution == "outliers":
            generator = torch.Generator(device=x.device).manual_seed(seed + 1)
            chosen = torch.rand(x.shape, generator=generator, device=x.device) < max(1e-3, 1.5 / x.numel())
            x = torch.where(chosen, x * chance.uniform(20.0, 60.0), x)
        elif distribution == "near_zero":
            # A type of 8 bits rounds smaller values to zero.
            x = x * (4 * torch.finfo(a.value.dtype).tiny if a.value.dtype.itemsize == 1 else 1e-4)
        largest = torch.finfo(a.value.dtype).max
        # What is infinite, such as a mask, stays so.
        given = a.value.to(x.dtype)
        a.value = torch.where(given.isinf(), given, x.clamp(-largest, largest)).to(a.value.dtype)


def bound_memory(extra: int) -> None:
    """Limit the address space to `extra` bytes above its present size; 0 lifts the limit."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    now = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (now + extra if extra else hard, hard))


def main() -> None:
    sandbox.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = ipc.Channel(socket.socket(fileno=int(sys.argv[1])))
    oracle = Oracle()
    ipc.serve_verbs(channel, {name: getattr(oracle, name) for name in (*VERBS, *ON_DEVICE)}, oracle.failed)


if __name__ == "__main__":
    main()
