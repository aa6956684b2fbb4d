"""A trace of launches -> the workloads that matter: which sizes a kernel is called with, how often, and where its
time goes. Pure."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from tools.artifacts import Artifact, Dims, Task
from tools.contracts.dims import parse_dims
from tools.errors import SettingsError

MIN_COVERED_SHARE = 0.9
"""Share of the time that the workloads which are kept must make up."""
MIN_SPLIT_SPREAD, MIN_SPLIT_LAUNCHES = 2.5, 8
"""p95 / p25 from which on launches of one size are split into fast and slow, and how many there must be to tell."""


class TracedLaunch(Artifact):
    """One line of a trace."""

    line: int
    kernel: str
    """As the tool that traced it wrote it, mangled or with its signature."""
    scalars: Dims = {}
    shapes: dict[str, tuple[int, ...]] = {}
    """Argument -> its extents."""
    duration: float
    """In the trace's own unit."""


class LaunchGroup(Artifact):
    """Launches of one size; where their times lie far apart, the fast or the slow ones of them."""

    dims: Dims
    speed: Literal["all", "fast", "slow"]
    launches: int
    share: float
    """Of the time of all launches."""
    median: float
    """In the trace's own unit."""
    spread: float
    """p95 / p25."""
    kept: bool
    """Among the largest that make up `COVERED` of the time."""


def read_trace(path: Path) -> tuple[TracedLaunch, ...]:
    """The launches of a file of JSON lines or CSV with the keys kernel, duration and, as far as known, scalars, shapes;
    others are ignored.

    `duration` may carry its unit (`duration_ns`), which is the same for all. In CSV scalars are written `n=1000
    eps=1e-5` and shapes `x=64x1000 y=64`. SettingsError names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"trace: {path} cannot be read ({error}); give a UTF-8 file of JSON lines or CSV") from None
    found = tuple(_parse_launches(text, path))
    if not found:
        raise SettingsError(
            f"trace: {path} holds no launch; give JSON lines or CSV with kernel, scalars, shapes and duration"
        )
    return found


def _parse_launches(text: str, path: Path) -> Iterator[TracedLaunch]:
    lines = text.splitlines()
    rows: Iterable[tuple[int, object]]
    if text.lstrip().startswith("{"):
        rows = ((at, _parse_json(line, f"{path}:{at}")) for at, line in enumerate(lines, 1) if line.strip())
    else:
        rows = enumerate(csv.DictReader(lines), 2)
    for at, row in rows:
        where = f"{path}:{at}"
        given = {str(key).lower(): value for key, value in row.items()} if isinstance(row, dict) else {}
        key = next((name for name in given if name.startswith("duration")), "duration")
        try:
            duration = float(given[key])
            launch = TracedLaunch(
                line=at,
                kernel=str(given["kernel"]),
                scalars=_parse_scalars(given.get("scalars") or {}),
                shapes=_parse_shapes(given.get("shapes") or {}),
                duration=duration,
            )
        except (KeyError, TypeError, ValueError, SettingsError) as error:
            said = (
                f"has no {error}" if isinstance(error, KeyError) else f"cannot be read ({str(error).splitlines()[0]})"
            )
            raise SettingsError(f"{where}: {said}; write kernel, scalars, shapes and duration of each launch") from None
        if not 0 < duration < math.inf:
            raise SettingsError(f"{where}: its duration is {given[key]}; it must be above 0")
        yield launch


def _parse_json(line: str, where: str) -> object:
    try:
        return json.loads(line)
    except ValueError as error:
        raise SettingsError(f"{where}: no JSON ({error}); write one object a line") from None


def _parse_scalars(said: object) -> Dims:
    return parse_dims(said) if isinstance(said, str) else dict(said)  # type: ignore[call-overload]


def _parse_shapes(said: object) -> dict[str, tuple[int, ...]]:
    if isinstance(said, str):
        return {
            name: tuple(map(int, extents.split("x"))) for name, extents in re.findall(r"(\w+)=(\d+(?:x\d+)*)", said)
        }
    return {name: tuple(extents) for name, extents in dict(said).items()}  # type: ignore[call-overload]


def group_launches(launches: Sequence[TracedLaunch], task: Task, origin: Path) -> tuple[LaunchGroup, ...]:
    """The launches of the task's kernel by size, the largest share of the time first. SettingsError where a size is
    not said."""
    groups: defaultdict[tuple[tuple[str, int | float], ...], list[float]] = defaultdict(list)
    for launch in _launches_of_task_kernel(launches, task, origin):
        groups[tuple(_launch_dims(launch, task, origin).items())].append(launch.duration)
    split = [
        (dict(dims), speed, times) for dims, all_ in groups.items() for speed, times in _split_by_speed(sorted(all_))
    ]
    split.sort(key=lambda one: -sum(one[2]))
    whole, before, found = sum(sum(times) for _, _, times in split), 0.0, []
    for dims, speed, times in split:
        share = sum(times) / whole
        spread = _quantile(times, 0.95) / _quantile(times, 0.25)
        kept = before < MIN_COVERED_SHARE
        found.append(
            LaunchGroup(
                dims=dims,
                speed=speed,
                launches=len(times),
                share=share,
                median=_quantile(times, 0.5),
                spread=spread,
                kept=kept,
            )
        )
        before += share
    return tuple(found)


def workload_weights(found: Iterable[LaunchGroup]) -> tuple[tuple[Dims, float], ...]:
    """The sizes that are kept, with how often each is launched: the objective multiplies by its time."""
    found = tuple(found)
    kept = dict.fromkeys(tuple(part.dims.items()) for part in found if part.kept)
    return tuple(
        (dict(dims), float(sum(part.launches for part in found if tuple(part.dims.items()) == dims))) for dims in kept
    )


def _launches_of_task_kernel(launches: Sequence[TracedLaunch], task: Task, origin: Path) -> list[TracedLaunch]:
    """Those of a kernel that the task's source names; all, where the trace is of one kernel alone."""
    words = set(re.findall(r"\w+", task.baseline or ""))
    names = {launch.kernel for launch in launches}
    named = [launch for launch in launches if _function_name(launch.kernel) in words]
    if not named and len(names) > 1:
        times = defaultdict[str, float](float)
        for launch in launches:
            times[_function_name(launch.kernel)] += launch.duration
        most = ", ".join(sorted(times, key=lambda name: -times[name])[:5])
        raise SettingsError(
            f"trace: {origin} holds no launch of a kernel that {task.name} names, only {most}; keep one kernel's lines"
        )
    return named or list(launches)


def _function_name(kernel: str) -> str:
    """`softmax` of `void ns::softmax<float>(float const*)`."""
    return re.split(r"[<(]", kernel.strip())[0].split("::")[-1].split(" ")[-1]


def _launch_dims(launch: TracedLaunch, task: Task, origin: Path) -> Dims:
    """The task's dims as a launch says them: by a scalar's name or by an argument's extents; one that never varies
    may be left out."""
    said: dict[str, set[int | float]] = defaultdict(set)
    for name, value in launch.scalars.items():
        said[name].add(value)
    for argument in task.arguments:
        for axis, extent in zip(argument.shape, launch.shapes.get(argument.name, ()), strict=False):
            said[axis].add(extent)
    found: Dims = {}
    for name in task.workloads[0].dims:
        values = said.get(name) or {w.dims[name] for w in task.workloads if name in w.dims}
        if len(values) != 1:
            what = "is not said" if name not in said else f"is {' and '.join(map(str, sorted(values)))}"
            raise SettingsError(
                f"{origin}:{launch.line}: {name} {what}; give one value in scalars, or the shapes of what has that size"
            )
        found[name] = next(iter(values))
    return found


def _split_by_speed(times: list[float]) -> Iterator[tuple[Literal["all", "fast", "slow"], list[float]]]:
    """Ascending times as they are, or cut at their widest gap on a logarithmic scale."""
    if len(times) < MIN_SPLIT_LAUNCHES or _quantile(times, 0.95) <= MIN_SPLIT_SPREAD * _quantile(times, 0.25):
        yield "all", times
        return
    at = max(range(1, len(times)), key=lambda at: times[at] / times[at - 1])
    yield "fast", times[:at]
    yield "slow", times[at:]


def _quantile(times: Sequence[float], q: float) -> float:
    return times[math.ceil(q * len(times)) - 1]
