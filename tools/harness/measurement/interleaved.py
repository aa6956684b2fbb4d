"""Answers a contest request: each contestant runs in a process of its own, one at a time, clocked from outside.

Where its threads and its pages come to lie is a process's luck, good or bad for as long as it lives. So a kernel
library's process takes part in one sitting only, on a CPU a single round: the rounds then differ by that luck too, and
an interval over them allows for it. A sitting: start all processes, map fresh output slots, warm up; one go each in
random order; check all outputs. Torch's processes take seconds to start and compile and are kept; on a GPU kernels'
processes are kept as well (a context is dear).
"""

import math
import random
import time
from collections import Counter
from collections.abc import Iterable

from harness.measurement import backend, kernel_trace
from harness.measurement.contestants import ContestantLostError, KernelContestant, TorchContestant
from harness.measurement.paired_samples import BrokenRuleError, TelemetryMeter, baseline_errors, make_sets
from harness.memory.input_ring import SWAPS_PER_CALL, TRIAL_SWAPS, InfraError, Ring, WorkloadError

DIRTY_ROUND_WAIT_S = 200e-6
SLOT_BYTES_PER_CONTESTANT = 256 << 20
ROUND_FIELDS = ("rounds", "device_rounds", "kernel_rounds")


def answer(supervisor, request: dict) -> dict:
    where = backend.backend_for(supervisor, request)
    meter = TelemetryMeter(where, time.perf_counter)
    unavailable: dict[str, str] = {}
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
            run_workload(where, request, workload, field, unavailable, order, found, ran)
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
    where.require_memory(
        addresses * size
        + len(field) * (max(SLOT_BYTES_PER_CONTESTANT, where.contest_slots(addresses, slot_bytes) * slot_bytes) + size)
    )
    ring = Ring(where, make_sets(oracle, workload["dims"], workload["seed"], distinct, first), addresses, 1)
    try:
        widen = baseline_errors({"libraries": {}, **request}, ring)
        calls = warm_up(field, unavailable, ring, widen)
        played = run_rounds(field, calls, ring, widen, workload["pairs"], order, unavailable)
        if not ring.inputs_intact():
            raise InfraError("the inputs changed during a contest")
        found.append({"workload": workload["name"], "calls_per_sample": calls, **played})
        kernels = [c for c in field.values() if isinstance(c, KernelContestant)]
        for contestant in kernels[1:] or [c for c in kernels if c.operators]:
            check_executed_kernels(contestant, where, ran)
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


def warm_up(field: dict, unavailable: dict, ring: Ring, widen: list | None) -> dict[str, int]:
    """Map buffers, warm up, and return the calls of each contestant's train; those that cannot run leave the field.

    The first library is the one that was accepted before: it alone says whether inputs may be exchanged, for all.
    """
    calls, exchange, go_s = {}, None, ring.backend.go_s
    for name, contestant in list(field.items()):
        try:
            contestant.prepare(ring, widen)
            contestant.clear_slots()
            if isinstance(contestant, KernelContestant):
                if exchange is None:
                    contestant.session.swaps = TRIAL_SWAPS
                else:
                    contestant.session.exchange = exchange
                contestant.time_train([0])
                contestant.settle()
                if exchange is None:
                    exchange = contestant.try_exchange()
                    for _ in range(1, ring.trials()):
                        if exchange:
                            contestant.clear_slots()
                            contestant.time_train([0])
                            exchange = contestant.try_exchange()
                    contestant.session.exchange = exchange
                    contestant.session.swaps = SWAPS_PER_CALL
                    contestant.clear_slots()
                    contestant.time_train([0])
            else:
                contestant.time_train([0])
            contestant.verify()
            contestant.clear_slots()
            seconds = [contestant.time_train([at % ring.addresses]) for at in range(3)]
            contestant.verify()
            guess = max(min(seconds), 1e-6)
            train = [at % ring.addresses for at in range(min(math.ceil(go_s / guess), contestant.longest()))]
            contestant.clear_slots()
            guess = contestant.time_train(train) / len(train)
            contestant.verify()
        except (ContestantLostError, WorkloadError, InfraError) as error:
            if isinstance(contestant, KernelContestant):
                raise
            unavailable[name] = str(error)
            field.pop(name).close()
            continue
        calls[name] = min(max(math.ceil(go_s / max(guess, 1e-7)), 1), contestant.longest())
    return calls


def run_rounds(
    field: dict,
    calls: dict[str, int],
    ring: Ring,
    widen: list | None,
    wanted: int,
    order: random.Random,
    unavailable: dict[str, str],
) -> dict:
    """Run rounds until `wanted` are clean or no repeat is left; contestants that fail move to `unavailable`."""
    where, rounds, on_device, alone, bound = ring.backend, [], [], [], Counter()
    spare, repeated, dirty, sittings = max(wanted // 2, 2), 0, 0, 0
    while len(rounds) < wanted:
        names = list(calls)
        order.shuffle(names)
        if where.sitting and (len(rounds) + repeated) % where.sitting == 0:
            sittings += 1
            for name in names:
                field[name].restart(ring, widen, calls[name], order.randrange(ring.addresses))
            order.shuffle(names)
        try:
            seconds, device, disturbed = run_round(field, calls, names, ring, order)
            if disturbed and repeated < spare:
                repeated += 1
                continue
            found = (
                {name: field[name].time_device_only(random_train(calls[name], ring, order)) for name in names}
                if where.launched
                else {}
            )
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


def random_train(calls: int, ring: Ring, order: random.Random) -> list[int]:
    """`calls` consecutive addresses of the ring, from a random one on."""
    start = order.randrange(ring.addresses)
    return [(start + i) % ring.addresses for i in range(calls)]


def run_round(
    field: dict, calls: dict[str, int], names: list[str], ring: Ring, order: random.Random
) -> tuple[dict[str, float], dict[str, float], bool]:
    """Run one train of each contestant in the order of `names` and check all outputs. Returns seconds per call by the
    supervisor's clock, the same by the device's events, and whether other processes disturbed the round."""
    where, seconds, device, disturbed = ring.backend, {}, {}, False
    for name in names:
        field[name].clear_slots()
    for name in names:
        train = random_train(calls[name], ring, order)
        before = where.disturbance([field[name].pid()])
        wall = field[name].time_train(train)
        disturbed |= where.disturbed(before, where.disturbance([field[name].pid()]), wall, [], DIRTY_ROUND_WAIT_S)
        seconds[name] = wall / calls[name]
        device[name] = field[name].device_s / calls[name]
    for name in names:
        field[name].verify()
    return seconds, device, disturbed
