"""Answers a contest request: each contestant runs in a process of its own, one at a time, clocked from outside.

Every timed call has inputs that its process has never seen: they are drawn by the task's own generator after the
processes have started and warmed up, once for each call of a train, and are the same for all contestants. So nothing
that a kernel remembers of earlier calls helps it.

Where its threads and its pages come to lie is a process's luck, good or bad for as long as it lives. So a kernel
library's process takes part in one sitting only, on a CPU a single round: the rounds then differ by that luck too, and
an interval over them allows for it. A sitting: start all processes, map fresh output slots, warm up, draw new inputs;
one go each in random order; check all outputs. Torch's processes take seconds to start and compile and are kept; on a
GPU kernels' processes are kept as well (a context is dear).
"""

import math
import random
import time
from collections import Counter
from collections.abc import Iterable

from harness.measurement import backend, kernel_trace
from harness.measurement.contestants import (
    MAX_DEVICE_TRAIN_CALLS,
    MAX_TRAIN_PIECES,
    ContestantLostError,
    KernelContestant,
    TorchContestant,
)
from harness.measurement.paired_samples import BrokenRuleError, TelemetryMeter, baseline_errors, make_sets
from harness.memory.input_ring import InfraError, Ring, WorkloadError

DIRTY_ROUND_WAIT_S = 200e-6
MAX_QUEUED_CALLS = 16
"""Most calls of a train behind a spin, whose events on an H200 differ by less than 1 % from round to round: each call
needs inputs and a reference of its own."""
SLOT_BYTES_PER_CONTESTANT = 256 << 20
ROUND_FIELDS = ("rounds", "device_rounds", "kernel_rounds", "graph_rounds", "graph_device_rounds")


def answer(supervisor, request: dict) -> dict:
    where = backend.backend_for(supervisor, request)
    meter = TelemetryMeter(where, time.perf_counter)
    unavailable: dict[str, str] = {}
    wrong: list[str] = []
    field: dict[str, KernelContestant | TorchContestant] = {}
    found, ran, problem, culprit, policy = [], {}, None, None, False
    order = random.Random(request["order_seed"])
    try:
        for lane, contestant in enumerate(request["contestants"], start=1):
            kind = KernelContestant if contestant["kind"] == "library" else TorchContestant
            field[contestant["name"]] = kind(where, request, contestant, lane)
        # All have been created before one is waited for: torch's processes import it side by side.
        for name, contestant in list(field.items()):
            try:
                contestant.open()
            except (WorkloadError, InfraError) as error:
                if isinstance(contestant, KernelContestant):
                    raise
                unavailable[name] = str(error)
                field.pop(name).close()
        where.wait_until_settled()
        for workload in request["workloads"]:
            run_workload(where, request, workload, field, unavailable, wrong, order, found, ran)
    except BrokenRuleError as error:
        problem, culprit, policy = f"the {error.culprit} {error}", error.culprit, error.policy
    except WorkloadError as error:
        raise InfraError(f"a workload cannot be timed: {error}") from error
    finally:
        for contestant in field.values():
            contestant.close()
    for workload in found:
        remove_contestants(workload, unavailable)
    return {
        "kind": "contest",
        "workloads": found,
        "unavailable": unavailable,
        "wrong": wrong,
        "executed": {name: known for name, (known, _) in ran.items()},
        "library_share": {name: spent[0] / sum(spent) for name, (_, spent) in ran.items() if spent[0]},
        "problem": problem,
        "culprit": culprit,
        "policy": policy,
        "telemetry": meter.read(),
    }


def run_workload(
    where: backend.TimingBackend,
    request: dict,
    workload: dict,
    field: dict,
    unavailable: dict,
    wrong: list,
    order: random.Random,
    found: list,
    ran: dict,
) -> None:
    """Append one workload's rounds to `found`. On a GPU, add to `ran` what each kernel executed (names, and seconds in
    and outside of the task's library); the first kernel is left out unless it is alone and may call torch."""
    oracle = where.oracle
    oracle.call("release_all")
    first = oracle.call("make_inputs", id=0, dims=workload["dims"], seed=workload["seed"], distribution="as_given")[
        "args"
    ]
    size, slot_bytes = Ring.set_bytes(first), where.slot_bytes(Ring.output_bytes(first))
    distinct, addresses, _ = where.ring(size, 1)
    if where.launched:
        # A train is one piece, in which each call has an address of its own.
        addresses = min(max(addresses, where.memory() // 4 // max(size, 1)), MAX_DEVICE_TRAIN_CALLS)
    where.require_memory(
        addresses * size
        + len(field) * (max(SLOT_BYTES_PER_CONTESTANT, where.contest_slots(addresses, slot_bytes) * slot_bytes) + size)
    )
    ring = Ring(where, make_sets(oracle, workload["dims"], distinct, first), addresses, 1)
    try:
        widen = baseline_errors({"libraries": {}, **request}, ring)
        calls = warm_up(field, unavailable, wrong, ring, widen, workload)
        played = run_rounds(field, calls, ring, widen, workload, order, unavailable)
        if not ring.inputs_intact():
            raise InfraError("the inputs changed during a contest")
        found.append({"workload": workload["name"], "calls_per_sample": calls, **played})
        kernels = [c for c in field.values() if isinstance(c, KernelContestant)]
        for contestant in kernels[1:] or [c for c in kernels if c.operators]:
            check_executed_kernels(contestant, where, ran)
        wanted = request.get("graph_rounds", 0)
        if where.launched and wanted:
            try:
                found[-1] |= run_graph_rounds(field, calls, ring, workload, order, wanted)
            except ContestantLostError as left:  # its process did not start again
                unavailable[left.name] = str(left)
                field.pop(left.name).close()
    finally:
        for contestant in field.values():
            contestant.finish()
        ring.close()


def remove_contestants(workload: dict, names: Iterable[str]) -> None:
    """Remove the contestants `names` from a workload's rounds."""
    for name in names:
        for kept in (
            workload["calls_per_sample"],
            *(one for rounds in ROUND_FIELDS for one in workload.get(rounds, ())),
        ):
            kept.pop(name, None)


def check_executed_kernels(contestant: KernelContestant, where: backend.TimingBackend, ran: dict) -> None:
    """Add to `ran` what a kernel executed on the device; BrokenRuleError where that was not its own."""
    seen = contestant.executed()
    if not seen:
        return
    names, said = kernel_trace.executed_names_and_complaint(
        seen, contestant.kernel.source(contestant.name), where.profiler, contestant.operators
    )
    known, spent = ran.setdefault(contestant.name, ([], [0.0, 0.0]))
    known += [name for name in names if name not in known]
    for seconds, operator in zip(
        seen.get("seconds", ()), kernel_trace.calling_operators(seen, contestant.operators), strict=False
    ):
        spent[not operator] += seconds
    if said:
        raise BrokenRuleError(contestant.name, said, policy=True)


def warm_up(
    field: dict, unavailable: dict, wrong: list, ring: Ring, widen: list | None, workload: dict
) -> dict[str, int]:
    """Map buffers, warm up, and return the calls of each contestant's train; those that cannot run leave the field, and
    those that compute something else are named in `wrong` too."""
    calls, where = {}, ring.backend
    for name, contestant in list(field.items()):
        try:
            contestant.prepare(ring, widen)
            if isinstance(contestant, TorchContestant) and contestant.untimed:
                unavailable[name] = contestant.untimed
                continue
            contestant.time_piece([0])
            if isinstance(contestant, KernelContestant):
                contestant.settle()
            contestant.verify()
            guess = max(min(contestant.time_piece([at % ring.addresses]) for at in range(3)), 1e-6)
            contestant.verify()
            most = min(contestant.piece_calls(), ring.addresses)
            piece = list(range(min(math.ceil(where.go_s / guess), most)))
            contestant.announce(piece)
            ring.renew(piece, workload["dims"])  # a kernel that remembers must not get long trains
            guess = contestant.time_piece(piece) / len(piece)
            contestant.verify()
        except (ContestantLostError, WorkloadError, InfraError) as error:
            if isinstance(contestant, KernelContestant):
                raise
            unavailable[name] = str(error)
            if getattr(error, "wrong", 0):
                wrong.append(name)
                unavailable[name] += f"; on the workload {workload['name']}, input {error.wrong} of 2"
            field.pop(name).close()
            continue
        most *= 1 if where.launched else MAX_TRAIN_PIECES
        calls[name] = min(max(math.ceil(where.go_s / max(guess, 1e-7)), 1), most)
    return calls


def share_shortest_order(field: dict) -> None:
    """Subtract the same seconds of an empty order from every kernel's trains: a kernel may make its own process slow to
    answer an order without calls, and would be given that time back."""
    kernels = [contestant for contestant in field.values() if isinstance(contestant, KernelContestant)]
    shortest = min((kernel.order_s for kernel in kernels), default=0.0)
    for kernel in kernels:
        kernel.order_s = shortest


def run_rounds(
    field: dict,
    calls: dict[str, int],
    ring: Ring,
    widen: list | None,
    workload: dict,
    order: random.Random,
    unavailable: dict[str, str],
) -> dict:
    """Run rounds until `pairs` of the workload are clean or no repeat is left; contestants that fail move to
    `unavailable`."""
    where, wanted, rounds, on_device, alone, bound = ring.backend, workload["pairs"], [], [], [], Counter()
    spare, repeated, dirty, sittings = max(wanted // 2, 2), 0, 0, 0
    while len(rounds) < wanted:
        names = list(calls)
        order.shuffle(names)
        if where.sitting and (len(rounds) + repeated) % where.sitting == 0:
            sittings += 1
            for name in names:
                field[name].restart(ring, widen, calls[name], order.randrange(ring.addresses))
        share_shortest_order(field)
        try:
            seconds, device, disturbed = run_round(field, calls, ring, workload, order)
            if disturbed and repeated < spare:
                repeated += 1
                continue
            found = time_on_device(field, calls, ring, workload, order) if where.launched and calls else {}
        except ContestantLostError as left:
            unavailable[left.name] = str(left)
            field.pop(left.name).close()
            calls.pop(left.name)
            continue
        dirty += disturbed
        rounds.append(seconds)
        on_device.append(device)
        if where.launched:
            alone.append({name: seconds for name, (seconds, _) in found.items()})
            bound.update(name for name, (_, starved) in found.items() if starved)
    played = {"rounds": rounds, "repeated": repeated, "dirty": dirty, "sittings": max(sittings, 1)}
    return played | (
        {"device_rounds": on_device, "kernel_rounds": alone, "host_bound": bound} if where.launched else {}
    )


def run_graph_rounds(
    field: dict, calls: dict[str, int], ring: Ring, workload: dict, order: random.Random, wanted: int
) -> dict:
    """Capture each contestant's train in a CUDA graph and time `wanted` rounds of replays. Returns {graph_rounds,
    graph_device_rounds, uncaptured: contestant -> why its calls cannot be captured}.

    A graph is captured before the inputs of its replays are drawn, so that what a kernel computes while it is captured
    helps no replay. Launches do not hide what it saves from the supervisor's clock.
    """
    counts, rounds, on_device, spare = dict(calls), [], [], max(wanted // 2, 2)

    def leave_out(name: str, reason: str) -> None:
        if not field[name].uncaptured:
            field[name].uncaptured = reason
            field[name].reopen()
        counts.pop(name)
        rounds.clear()
        on_device.clear()

    for name, count in calls.items():
        if reason := field[name].uncaptured or field[name].capture(list(range(count))):
            leave_out(name, reason)
    while counts and len(rounds) < wanted:
        share_shortest_order(field)
        try:
            wall, device, disturbed = run_round(field, counts, ring, workload, order, replay=True)
        except (ContestantLostError, BrokenRuleError) as error:
            # A call that is right without a graph may use what its replay no longer has, such as its stack.
            if error.policy:
                raise
            leave_out(error.culprit, f"its graph {error}")
            continue
        except WorkloadError as error:
            for name in list(counts):
                leave_out(name, str(error))
            continue
        if disturbed and spare:
            spare -= 1
            continue
        rounds.append(wall)
        on_device.append(device)
    uncaptured = {name: field[name].uncaptured for name in calls if field[name].uncaptured}
    return {"graph_rounds": rounds, "graph_device_rounds": on_device, "uncaptured": uncaptured}


def draw_piece(
    field: dict, remaining: dict[str, int], ring: Ring, workload: dict, order: random.Random, replay: bool = False
) -> dict:
    """Draw new inputs for the next piece of each contestant's remaining calls, or for the `replay` of captured ones,
    which begin at address 0. Returns contestant -> addresses.

    The pieces begin with the same addresses, so that all contestants get the same inputs. Each process is told its
    addresses before they are drawn, and is then left alone until its train.
    """
    sizes = {name: min(count, field[name].piece_calls()) for name, count in remaining.items() if count}
    count = max(sizes.values())
    addresses = list(range(count)) if replay else order.sample(range(ring.addresses), count)
    for name, size in sizes.items():
        field[name].announce(addresses[:size])
    ring.renew(addresses, workload["dims"])
    if replay and ring.sets.scalar_changes:
        raise WorkloadError("its scalars change with its inputs, and a graph keeps those of its capture")
    return {name: addresses[: sizes[name]] for name in order.sample(list(sizes), len(sizes))}


def run_round(
    field: dict, calls: dict[str, int], ring: Ring, workload: dict, order: random.Random, replay: bool = False
) -> tuple[dict[str, float], dict[str, float], bool]:
    """Run or `replay` one train of each contestant, in pieces of new inputs and in random order, and check all outputs.
    Returns seconds per call by the supervisor's clock, the same by the device's events, and whether other processes
    disturbed the round."""
    where, remaining, disturbed = ring.backend, dict(calls), False
    wall, device = dict.fromkeys(calls, 0.0), dict.fromkeys(calls, 0.0)
    while any(remaining.values()):
        pieces = draw_piece(field, remaining, ring, workload, order, replay)
        for name, piece in pieces.items():
            where.evict_cache()
            before = where.disturbance([field[name].pid()])
            seconds = field[name].time_piece(piece, replay)
            disturbed |= where.disturbed(
                before, where.disturbance([field[name].pid()]), seconds, [], DIRTY_ROUND_WAIT_S
            )
            wall[name] += seconds
            device[name] += field[name].device_s
            remaining[name] -= len(piece)
        for name in pieces:
            field[name].verify()
    return (
        {name: wall[name] / count for name, count in calls.items()},
        {name: device[name] / count for name, count in calls.items()},
        disturbed,
    )


def time_on_device(
    field: dict, calls: dict[str, int], ring: Ring, workload: dict, order: random.Random
) -> dict[str, tuple[float, bool]]:
    """Time a piece of each contestant on new inputs by the device's events alone; contestant -> what
    `time_device_only` returns."""
    found, few = {}, {name: min(count, MAX_QUEUED_CALLS) for name, count in calls.items()}
    for name, piece in draw_piece(field, few, ring, workload, order).items():
        ring.backend.evict_cache()
        found[name] = field[name].time_device_only(piece)
    return found
