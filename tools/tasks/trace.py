"""Derive workloads from a trace of launches: the sizes with which a kernel is called, how often, and their share of
the time."""

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
"""Share of the total time that the selected workloads cover."""
MIN_SPLIT_SPREAD, MIN_SPLIT_LAUNCHES = 2.5, 8
"""Launches of one size are split into fast and slow ones above this ratio p95 / p25, and from this many launches on."""


class TracedLaunch(Artifact):
    """One line of a trace."""

    line: int
    kernel: str
    """Name of the kernel as the tracing tool wrote it, mangled or with its signature."""
    scalars: Dims = {}
    shapes: dict[str, tuple[int, ...]] = {}
    """Argument -> its extents."""
    duration: float
    """Duration of the launch in the unit of the trace."""


class LaunchGroup(Artifact):
    """All launches of one size, or only the fast or the slow ones if their times differ widely."""

    dims: Dims
    speed: Literal["all", "fast", "slow"]
    launches: int
    share: float
    """Share of the time of all launches."""
    median: float
    """Median duration in the unit of the trace."""
    spread: float
    """Ratio p95 / p25 of the durations."""
    selected: bool
    """True: one of the largest groups that together cover `MIN_COVERED_SHARE` of the time."""


def read_trace(path: Path) -> tuple[TracedLaunch, ...]:
    """Return the launches of a file of JSON lines or CSV with the keys kernel, duration and, if known, scalars and
    shapes; other keys are ignored.

    The key of the duration may contain a unit (`duration_ns`), which is the same for all launches. In CSV, scalars are
    written `n=1000 eps=1e-5` and shapes `x=64x1000 y=64`. Raises SettingsError, which names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"trace: {path} cannot be read ({error}); give a UTF-8 file of JSON lines or CSV") from None
    launches = tuple(_parse_launches(text, path))
    if not launches:
        raise SettingsError(
            f"trace: {path} contains no launch; give JSON lines or CSV with kernel, scalars, shapes and duration"
        )
    return launches


def _parse_launches(text: str, path: Path) -> Iterator[TracedLaunch]:
    lines = text.splitlines()
    rows: Iterable[tuple[int, object]]
    if text.lstrip().startswith("{"):
        rows = (
            (line_number, _parse_json(line, f"{path}:{line_number}"))
            for line_number, line in enumerate(lines, 1)
            if line.strip()
        )
    else:
        rows = enumerate(csv.DictReader(lines), 2)
    for line_number, row in rows:
        position = f"{path}:{line_number}"
        fields = {str(key).lower(): value for key, value in row.items()} if isinstance(row, dict) else {}
        key = next((name for name in fields if name.startswith("duration")), "duration")
        try:
            duration = float(fields[key])
            launch = TracedLaunch(
                line=line_number,
                kernel=str(fields["kernel"]),
                scalars=_parse_scalars(fields.get("scalars") or {}),
                shapes=_parse_shapes(fields.get("shapes") or {}),
                duration=duration,
            )
        except (KeyError, TypeError, ValueError, SettingsError) as error:
            problem = (
                f"has no {error}" if isinstance(error, KeyError) else f"cannot be read ({str(error).splitlines()[0]})"
            )
            raise SettingsError(
                f"{position}: {problem}; write kernel, scalars, shapes and duration of each launch"
            ) from None
        if not 0 < duration < math.inf:
            raise SettingsError(f"{position}: its duration is {fields[key]}; it must be above 0")
        yield launch


def _parse_json(line: str, position: str) -> object:
    try:
        return json.loads(line)
    except ValueError as error:
        raise SettingsError(f"{position}: no JSON ({error}); write one object a line") from None


def _parse_scalars(value: object) -> Dims:
    return parse_dims(value) if isinstance(value, str) else dict(value)  # type: ignore[call-overload]


def _parse_shapes(value: object) -> dict[str, tuple[int, ...]]:
    if isinstance(value, str):
        return {
            name: tuple(map(int, extents.split("x"))) for name, extents in re.findall(r"(\w+)=(\d+(?:x\d+)*)", value)
        }
    return {name: tuple(extents) for name, extents in dict(value).items()}  # type: ignore[call-overload]


def group_launches(launches: Sequence[TracedLaunch], task: Task, origin: Path) -> tuple[LaunchGroup, ...]:
    """Group the launches of the task's kernel by size, largest share of the time first.

    Raises SettingsError for a launch without a size; `origin` is the trace's path for messages.
    """
    groups: defaultdict[tuple[tuple[str, int | float], ...], list[float]] = defaultdict(list)
    for launch in _launches_of_task_kernel(launches, task, origin):
        groups[tuple(_launch_dims(launch, task, origin).items())].append(launch.duration)
    groups_by_speed = [
        (dict(dims), speed, times)
        for dims, durations in groups.items()
        for speed, times in _split_by_speed(sorted(durations))
    ]
    groups_by_speed.sort(key=lambda group: -sum(group[2]))
    total_time, covered_share, result = sum(sum(times) for _, _, times in groups_by_speed), 0.0, []
    for dims, speed, times in groups_by_speed:
        share = sum(times) / total_time
        spread = _quantile(times, 0.95) / _quantile(times, 0.25)
        selected = covered_share < MIN_COVERED_SHARE
        result.append(
            LaunchGroup(
                dims=dims,
                speed=speed,
                launches=len(times),
                share=share,
                median=_quantile(times, 0.5),
                spread=spread,
                selected=selected,
            )
        )
        covered_share += share
    return tuple(result)


def workload_weights(groups: Iterable[LaunchGroup]) -> tuple[tuple[Dims, float], ...]:
    """Return the dims of the selected groups with their number of launches, which is the weight in the objective."""
    groups = tuple(groups)
    selected = dict.fromkeys(tuple(group.dims.items()) for group in groups if group.selected)
    return tuple(
        (dict(dims), float(sum(group.launches for group in groups if tuple(group.dims.items()) == dims)))
        for dims in selected
    )


def _launches_of_task_kernel(launches: Sequence[TracedLaunch], task: Task, origin: Path) -> list[TracedLaunch]:
    """Return the launches of the kernels that the task's source names, or all launches of a trace with one kernel."""
    words = set(re.findall(r"\w+", task.baseline or ""))
    names = {launch.kernel for launch in launches}
    task_launches = [launch for launch in launches if _function_name(launch.kernel) in words]
    if not task_launches and len(names) > 1:
        times = defaultdict[str, float](float)
        for launch in launches:
            times[_function_name(launch.kernel)] += launch.duration
        longest = ", ".join(sorted(times, key=lambda name: -times[name])[:5])
        raise SettingsError(
            f"trace: {origin} contains no launch of a kernel that {task.name} names, only {longest}; keep one "
            f"kernel's lines"
        )
    return task_launches or list(launches)


def _function_name(kernel: str) -> str:
    """Return the plain name of a kernel: `softmax` for `void ns::softmax<float>(float const*)`."""
    return re.split(r"[<(]", kernel.strip())[0].split("::")[-1].split(" ")[-1]


def _launch_dims(launch: TracedLaunch, task: Task, origin: Path) -> Dims:
    """Return the task's dims of a launch, from its scalars and the extents of its arguments; a dim that never varies
    may be missing."""
    values_by_name: dict[str, set[int | float]] = defaultdict(set)
    for name, value in launch.scalars.items():
        values_by_name[name].add(value)
    for argument in task.arguments:
        for axis, extent in zip(argument.shape, launch.shapes.get(argument.name, ()), strict=False):
            values_by_name[axis].add(extent)
    dims: Dims = {}
    for name in task.workloads[0].dims:
        values = values_by_name.get(name) or {w.dims[name] for w in task.workloads if name in w.dims}
        if len(values) != 1:
            problem = "is missing" if name not in values_by_name else f"is {' and '.join(map(str, sorted(values)))}"
            raise SettingsError(
                f"{origin}:{launch.line}: {name} {problem}; give one value in scalars, or the shapes of "
                f"the arguments with that size"
            )
        dims[name] = next(iter(values))
    return dims


def _split_by_speed(times: list[float]) -> Iterator[tuple[Literal["all", "fast", "slow"], list[float]]]:
    """Yield ascending times unchanged, or split at their widest gap on a logarithmic scale."""
    if len(times) < MIN_SPLIT_LAUNCHES or _quantile(times, 0.95) <= MIN_SPLIT_SPREAD * _quantile(times, 0.25):
        yield "all", times
        return
    split_index = max(range(1, len(times)), key=lambda split_index: times[split_index] / times[split_index - 1])
    yield "fast", times[:split_index]
    yield "slow", times[split_index:]


def _quantile(times: Sequence[float], q: float) -> float:
    return times[math.ceil(q * len(times)) - 1]
