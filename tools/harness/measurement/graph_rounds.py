"""Rounds of a contest in which each contestant's train of calls, one for each address, is the replay of a CUDA graph.

A graph is captured before the inputs of its replays are drawn, so that what a kernel computes while it is captured
helps no replay. The supervisor clocks the replays: launches do not hide what a kernel saves in them.
"""

import random

from harness.measurement.contestants import ContestantLostError
from harness.measurement.paired_samples import BrokenRuleError
from harness.memory.input_ring import Ring, WorkloadError


class ReplayError(Exception):
    """A contestant's replays cannot be timed; the text is a sentence."""

    def __init__(self, name: str, reason: str):
        super().__init__(reason)
        self.name = name


def time_graphs(
    field: dict, calls: dict[str, int], ring: Ring, workload: dict, order: random.Random, wanted: int, slack_s: float
) -> dict:
    """Capture each contestant's train of `calls` and time `wanted` rounds of replays on new inputs. Returns
    {graph_rounds, graph_device_rounds, uncaptured: contestant -> why its calls cannot be captured}."""
    counts = {}
    for name, count in calls.items():
        if field[name].uncaptured:
            continue
        counts[name] = min(count, field[name].piece_calls())
        try:
            reason = field[name].capture(list(range(counts[name])))
        except (ContestantLostError, BrokenRuleError) as error:
            reason = str(error)
        if reason:
            leave_out(field[name], reason, counts)
    rounds, on_device, spare = [], [], max(wanted // 2, 2)
    while counts and len(rounds) < wanted:
        try:
            wall, device, disturbed = replay_round(field, counts, ring, workload, order, slack_s)
        except ReplayError as error:
            leave_out(field[error.name], str(error), counts)
            for kept in (*rounds, *on_device):
                kept.pop(error.name)
            continue
        if disturbed and spare:
            spare -= 1
            continue
        rounds.append(wall)
        on_device.append(device)
    uncaptured = {name: field[name].uncaptured for name in calls if field[name].uncaptured}
    return {"graph_rounds": rounds, "graph_device_rounds": on_device, "uncaptured": uncaptured}


def leave_out(contestant, reason: str, counts: dict[str, int]) -> None:
    """Note why a contestant cannot be captured, for later workloads too, and start its process again."""
    contestant.uncaptured = reason
    counts.pop(contestant.name)
    contestant.reopen()


def replay_round(
    field: dict, counts: dict[str, int], ring: Ring, workload: dict, order: random.Random, slack_s: float
) -> tuple[dict[str, float], dict[str, float], bool]:
    """Replay one train of each contestant on new inputs, in random order, and check the kernels' outputs. Returns
    seconds per call by the supervisor's clock and by the device's events, and whether others disturbed the round."""
    where, wall, device, disturbed = ring.backend, {}, {}, False
    try:
        for name, count in counts.items():
            field[name].announce(list(range(count)))
        ring.renew(list(range(max(counts.values()))), workload["dims"])
        if ring.sets.scalar_changes:
            raise WorkloadError("the scalars change with the inputs, and a graph keeps those of its capture")
        for name in order.sample(list(counts), len(counts)):
            where.evict_cache()
            before = where.disturbance([field[name].pid()])
            seconds = field[name].time_piece(list(range(counts[name])), replay=True)
            after = where.disturbance([field[name].pid()])
            disturbed |= where.disturbed(before, after, seconds, [], slack_s)
            wall[name], device[name] = seconds / counts[name], field[name].device_s / counts[name]
        for name in counts:
            field[name].verify()
    except ContestantLostError as error:
        raise ReplayError(error.name, str(error)) from error
    except WorkloadError as error:
        raise ReplayError(next(iter(counts)), str(error)) from error
    except BrokenRuleError as error:
        if not error.wrong:
            raise
        raise ReplayError(error.culprit, f"its graph {error}") from error
    return wall, device, disturbed
