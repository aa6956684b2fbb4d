"""Rendering of the Jinja templates, and phrases that several reports share. Undefined names are errors; HTML is
escaped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from agents.models.ledger import format_dollars
from graph.artifacts import FinalBenchmark
from tools.artifacts import Interval, Task, Verdict
from tools.cli.formatting import format_percent, format_seconds, format_si, format_speedup
from tools.gate.ranking import FRAMEWORKS, FrameworkTimes, contestant_label
from tools.gate.statistics import Objective

if TYPE_CHECKING:
    from jinja2 import Environment

    from graph.settings import Settings
    from graph.state import StopReason

MIN_SHOWN_DIFFERENCE = 0.1
"""The relative difference between the final benchmark and the expected time from which on reports mention it."""


def render(template: str, **values: object) -> str:
    """Return the text of templates/<template>.j2 with `values`."""
    return _environment().get_template(f"{template}.j2").render(**values)


def compile_templates() -> None:
    """Compile all templates now rather than each at its first use."""
    environment = _environment()
    for name in environment.list_templates():
        environment.get_template(name)


def gain_words(
    baseline_s: float, best_s: float, speedup: Interval | None, objective_of: str = "", *, disturbed: bool = False
) -> str:
    """Return the result of a run in words: both times, the speed-up, and doubts about it.

    `speedup` None: no version was accepted. `disturbed`: other processes kept the machine busy.
    """
    of = f", {objective_of}" if objective_of else ""
    doubts = ["others kept the machine busy"] if disturbed else []
    doubts += ["the interval includes 1"] if speedup and speedup.low <= 1 else []
    said = f" ({', '.join(doubts)})" if doubts else ""
    if speedup is None:
        return f"no version was accepted, so the time stays {format_seconds(baseline_s)} (1×{of}){said}"
    times = f"{format_seconds(baseline_s)} -> {format_seconds(best_s)} (baseline / speed-up{of})"
    return f"{times}, {format_speedup(speedup)}{said}"


def comparison_words(found: Interval | None) -> str:
    """Return a contestant's time / the best kernel's time in words, with a remark if it is a loss or unclear."""
    return f"{format_speedup(found)} {loss_words(found)}".rstrip()


def worth_words(verdict: Verdict, *, both: bool = False) -> str:
    """Return the speed-up of a verdict in words, with its clock if there are two; `both`: with the other clock's,
    too."""
    claim = verdict.claim
    if claim is None or claim.clock == "wall":
        return format_speedup(verdict.reported_speedup)
    other = "launch-included" if claim.clock == "device-only" else "device-only"
    return f"{format_speedup(claim.speedup)} {claim.clock}" + (
        f" ({format_speedup(claim.other)} {other})" if both and claim.other else ""
    )


def framework_times_words(times: FrameworkTimes) -> str:
    """Return the times of torch beside a kernel's time in words."""
    contestants = [
        f"{contestant_words(name)} {format_seconds(times.seconds[name])}, {format_speedup(found)} of that"
        for name, found in times.against.items()
    ]
    contestants += [f"{contestant_words(name)} N/A" for name in times.unavailable]
    of = f", {times.of}" if times.of else ""
    others = "torch" if {*times.against, *times.unavailable} <= {*FRAMEWORKS} else "torch and other libraries"
    how = f"{times.clock}{of}; v0 was timed beside it, and the accepted gains are multiplied in"
    said = "; ".join([f"Beside {others} ({how}): this kernel {format_seconds(times.kernel_s)}", *contestants])
    return f"{said}.{f' {frameworks_ahead_words(times)}.' if times.ahead else ''}"


def over_function_words(final: FinalBenchmark, mark: str = "") -> str:
    """Return the best kernel's factors over the user's own function in words, the device's clock first, and what is
    doubtful about them; `mark` is put around the first of them."""
    factors = [
        f"{mark * (at == 0)}{comparison_words(found)}{mark * (at == 0)} "
        + ("by the device" if clock == "device-only" else "as Python calls it, with what it allocates")
        for at, (clock, found) in enumerate(final.over_function.items())
    ]
    return " ".join([*([f"Over your function: {', '.join(factors)}."] if factors else []), *final.doubts])


def final_difference_words(times: FrameworkTimes, finally_s: float | None) -> str:
    """Return a sentence if the final benchmark's time `finally_s` differs from the expected time; empty: they agree."""
    if times.clock != "device-only" or not finally_s or abs(finally_s / times.kernel_s - 1) < MIN_SHOWN_DIFFERENCE:
        return ""
    return (
        f" The final benchmark saw {format_seconds(finally_s)} for it: each contest draws its inputs "
        f"anew, and where the "
        f"time depends on their "
        "values (lengths, indices), so does a speed-up, beyond its interval."
    )


def final_clock_words(final: FinalBenchmark) -> str:
    """Return the clock of a final benchmark's times on a GPU, as the end of "the figures are"."""
    return "by the wall clock" + (" over replays of CUDA graphs" if final.by_graphs else ", launches included")


def graph_times_words(final: FinalBenchmark) -> str:
    """Return the times of replayed CUDA graphs in a final benchmark and why others were not captured; empty: none was
    tried."""
    times = [f"{name} {format_seconds(seconds)}" for name, seconds in final.graph_s.items()]
    said = f" In a CUDA graph of many calls, by the wall clock over its replay: {', '.join(times)}." if times else ""
    return said + "".join(f" {name} cannot be captured: {why.rstrip('.')}." for name, why in final.uncaptured.items())


def frameworks_ahead_words(times: FrameworkTimes) -> str:
    """Return a clause that names the frameworks that are faster, so that nearness to the roof does not end the run."""
    names = " and ".join(map(contestant_words, times.ahead)) + (" is" if len(times.ahead) == 1 else " are")
    return f"{names[0].upper()}{names[1:]} shown faster, so that neither target nor near_peak may end the run"


def stop_reason_words(
    stop: StopReason | None, settings: Settings, reached: str | None, final: Mapping[str, Interval]
) -> str:
    """Return the reason why a run ended, as the end of "it stopped because"; empty: it has not ended.

    `reached`: the cap. `final`: contestant -> its time / the best kernel's.
    """
    search, good = settings.search, settings.stop
    words: dict[StopReason, str] = {
        "near_peak": f"the kernel is near its roof (stop.near_peak: {good.near_peak})",
        "target": f"the kernel has reached its share of the roof (stop.target_fraction: {good.target_fraction})",
        "speedup": f"the speed-up over v0 that was asked for is reached (stop.speedup: {good.speedup})",
        "iterations": f"the cap on iterations is reached (search.iterations: {search.iterations})",
        "patience": f"nothing more was accepted (search.patience: {search.patience})",
        "exhausted": "the planner found nothing left to try",
        "budget": f"a cap is reached ({reached})",
    }
    faster = [
        contestant_words(name)
        for name, found in final.items()
        if name not in ("baseline", "original") and found.high < 1
    ]
    still = f", while {' and '.join(faster)} {'is' if len(faster) == 1 else 'are'} still faster" if faster else ""
    return words[stop] + still if stop else ""


def objective_words(objective: Objective, task: Task) -> str:
    """Return what an objective time measures in words; empty: one call of one workload."""
    if objective == "geomean":
        weighted = "weighted " if len({w.weight for w in task.workloads}) > 1 else ""
        return f"{weighted}geometric mean of {len(task.workloads)} workloads" if len(task.workloads) > 1 else ""
    plain = [w.weight for w in task.workloads] == [1.0]
    return "" if plain else f"Σ weight × time of {len(task.workloads)} workload{'s' * (len(task.workloads) > 1)}"


def contestant_words(name: str) -> str:
    """Return the name of a contestant of the final benchmark in words."""
    return "the kernel that the linked runs began with" if name == "original" else contestant_label(name)


def loss_words(found: Interval | None) -> str:
    """Return the remark behind a factor: a loss, no difference shown, or nothing."""
    return "" if found is None or found.low > 1 else "(a loss)" if found.high < 1 else "(no difference shown)"


def dims_words(value: dict[str, int | float]) -> str:
    """Return a workload's sizes as `M=512 N=1000`."""
    return " ".join(f"{name}={size}" for name, size in value.items())


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Not in Markdown: escaping would corrupt code and operators.
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
    )
    environment.filters.update(
        {
            "seconds": format_seconds,
            "ratio": format_speedup,
            "percent": format_percent,
            "standing": comparison_words,
            "doubt": loss_words,
        }
    )
    environment.globals.update({"worth": worth_words, "doubt": loss_words, "drawn": final_difference_words})
    environment.filters.update(
        {
            "si": format_si,
            "dims": dims_words,
            "dollars": format_dollars,
            "contestant": contestant_words,
            "bar": framework_times_words,
            "clock": final_clock_words,
            "graphs": graph_times_words,
            "own": over_function_words,
        }
    )
    return environment
