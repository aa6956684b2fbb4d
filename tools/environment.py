"""Report what the machine with the device has, what it lacks, and how to fix that (A2). No version is required; all are
recorded."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Literal

from tools.artifacts import Artifact, digest
from tools.errors import SettingsError
from tools.executors.base import Device, Executor, Job, Limits
from tools.executors.preflight import HostCheck, check_host
from tools.executors.toolchain import Toolchain
from tools.executors.toolchain_job import read_toolchain
from tools.languages.base import Language
from tools.profilers import ncu
from tools.store.blobs import Blobs

SANDBOX_SCRIPT = Path(__file__).with_name("harness") / "isolation" / "sandbox.py"
_FIX_BY_PACKAGE = {
    "torch": "`pip install -e '.[device]'`, or torch for your GPU; it computes the reference",
    "triton": "`pip install -e '.[device]'`; only Triton kernels need it",
    "numpy": "pip install numpy",
}
_FIX_BY_PROGRAM = {
    "objdump": "install binutils; without it machine code is not inspected and mechanisms stay unverified",
    "valgrind": "install valgrind for cache simulation; everything else works without",
    "perf": "install linux-perf (Debian) or linux-tools (Ubuntu) for hardware counters; everything else works without",
}
_FIX_HERE = {
    "git": "install git; every version is a commit",
    "langgraph": "pip install langgraph; `python -m graph` needs it",
}
"""Program and package that Kernelwright itself runs with, wherever the device is."""
_FIX_BY_CUDA_PROGRAM = {
    "nvcc": "install the CUDA toolkit for kernels in CUDA C++; Triton brings its own compiler",
    "cuobjdump": "install the CUDA toolkit; for Triton kernels the one in the triton package is used",
}
_ISOLATION = ("network", "landlock", "seccomp", "no_new_privileges")
_OPENMP_FIX = (
    "install libgomp (with gcc) or libomp (with clang: package libomp-dev); without it kernels use one core "
    "unless they start threads themselves"
)


class EnvironmentItem(Artifact):
    """One property of the machine that was checked."""

    name: str
    status: Literal["ok", "missing", "degraded"]
    value: str
    """What was found, e.g. a version; empty: nothing."""
    fix: str = ""
    """One sentence on what to do; empty: nothing to do."""
    optional: bool = False
    """True: a run works without it."""


class Environment(Artifact):
    """The state of the machine; the payload of an environment record."""

    items: tuple[EnvironmentItem, ...]
    devices: tuple[Device, ...]
    sandbox: dict[str, str]
    """Feature of the sandbox -> how this host provides it, or why it does not."""
    toolchain: Toolchain | None = None
    """What was installed when the run began; None: it was not asked for."""

    def to_markdown(self) -> str:
        """Return the text of env_check.md, a table with one row for each item."""
        rows = [
            (item.name, f"{item.status}{' (optional)' if item.optional else ''}", item.value, item.fix)
            for item in self.items
        ]
        lines = [f"| {' | '.join(map(_escape_table_cell, row))} |" for row in rows]
        table = ["| what | status | found | what to do |", "|---|---|---|---|", *lines]
        return "\n".join(["# Environment", "", *table, ""])


def inspect_environment(
    executor: Executor, languages: Iterable[Language], blobs: Blobs, host: Iterable[HostCheck] = ()
) -> Environment:
    """Inspect the devices of `executor`, and the compilers of `languages`, the programs and the packages beside them.

    No large package is imported. The checks of the `host` come first. Raises InfrastructureError if the executor itself
    fails.
    """
    languages = tuple(languages)
    names, kinds = {language.name for language in languages}, {language.device for language in languages}
    devices = executor.devices()
    features = _try_sandbox(executor, blobs)
    toolchain = read_toolchain(executor, blobs)
    items = [
        EnvironmentItem(name=name, status="ok" if ok else "missing", value=value, fix="" if ok else fix)
        for name, ok, value, fix in host
    ]
    items.append(_environment_item("operating system", toolchain.system))
    items += [item for device in devices for item in _device_items(device)]
    for language in languages:
        items += _compiler_items(language, toolchain)
    items += [
        _sandbox_item(features),
        _environment_item("git", _git_version(), _FIX_HERE["git"]),
        *_program_items(toolchain, _FIX_BY_PROGRAM),
        *_gpu_items(devices, features, toolchain, needed="cuda" in kinds),
        _environment_item("python", toolchain.python),
    ]
    items += [
        _environment_item(
            name, toolchain.packages.get(name, ""), fix, optional=name == "triton" and "triton" not in names
        )
        for name, fix in _FIX_BY_PACKAGE.items()
    ]
    items.append(_environment_item("langgraph", _package_version("langgraph"), _FIX_HERE["langgraph"]))
    return Environment(items=tuple(items), devices=devices, sandbox=features, toolchain=toolchain)


def requests_about_machine(executor: Executor, blobs: Blobs) -> tuple[Callable[[], object], ...]:
    """Return what a run asks of the machine for any language, for `Executor.gather`."""
    asked = executor.devices, partial(read_toolchain, executor, blobs), partial(_try_sandbox, executor, blobs)
    return (*asked, partial(check_host, executor, blobs)) if executor.is_elsewhere else asked


def _environment_item(
    name: str,
    value: str,
    fix: str = "",
    *,
    optional: bool = False,
    status_if_missing: Literal["missing", "degraded"] = "missing",
) -> EnvironmentItem:
    """Return an item with status "ok" and no fix if there is a value, else with `status_if_missing` and `fix`."""
    return EnvironmentItem(
        name=name, status="ok" if value else status_if_missing, value=value, fix="" if value else fix, optional=optional
    )


def _device_items(device: Device) -> list[EnvironmentItem]:
    cache = f", last-level cache {device.last_level_cache >> 20} MiB" if device.last_level_cache else ""
    items = [
        _environment_item(
            f"device {device.kind}:{device.index}", f"{device.name}, {device.units} units{cache}, {device.architecture}"
        )
    ]
    if not device.last_level_cache:
        fix = "the OS does not report the cache; cold timings use a ring of the default size"
        items.append(_environment_item("last-level cache", "", fix, optional=True, status_if_missing="degraded"))
    governor = device.details.get("governor", "not reported")
    if governor not in ("performance", "not reported"):
        fix = "for steadier clocks: sudo cpupower frequency-set -g performance"
        items.append(EnvironmentItem(name="clock governor", status="degraded", value=governor, fix=fix, optional=True))
    elif device.kind == "cpu":
        items.append(_environment_item("clock governor", governor, optional=True))
    return items


def _compiler_items(language: Language, toolchain: Toolchain) -> list[EnvironmentItem]:
    try:
        items = [_environment_item(f"{language.name} compiler", language.compiler(toolchain).version)]
    except SettingsError as error:
        return [_environment_item(f"{language.name} compiler", "", str(error))]
    if language.device == "cpu":
        threads = f"{toolchain.cxx_threads} threads" if toolchain.cxx_threads else ""
        items.append(_environment_item("OpenMP", threads, _OPENMP_FIX, status_if_missing="degraded"))
    return items


def _try_sandbox(executor: Executor, blobs: Blobs) -> dict[str, str]:
    job = Job(
        files={"sandbox.py": blobs.put(SANDBOX_SCRIPT.read_bytes())},
        argv=("{python}", "-I", "sandbox.py"),
        limits=Limits(wall_s=30.0),
    )
    finished = executor.run(job)
    try:
        report = json.loads(blobs.text(finished.files["stdout.txt"]))
    except json.JSONDecodeError:
        return {}
    return {str(name): value if isinstance(value, str) else json.dumps(value) for name, value in report.items()}


def _sandbox_item(features: dict[str, str]) -> EnvironmentItem:
    if not features:
        fix = (
            "the sandbox could not be tested; candidates run with resource limits only, so judge only kernels that "
            "you trust"
        )
        return _environment_item("sandbox", "", fix, status_if_missing="degraded")
    value = ", ".join(f"{name}: {features[name]}" for name in _ISOLATION if name in features)
    if missing := missing_isolation(features):
        fix = (
            f"this host does not provide {' and '.join(missing)} (a recent Linux kernel does); judge only kernels "
            f"that you trust here"
        )
        return EnvironmentItem(name="sandbox", status="degraded", value=value, fix=fix)
    return _environment_item("sandbox", value)


def missing_isolation(features: dict[str, str]) -> list[str]:
    """Return the features that confine a kernel's process and that the harness's report says this host lacks."""
    return [name for name in _ISOLATION if features.get(name, "false").startswith(("not ", "refused", "false"))]


def _program_items(toolchain: Toolchain, fixes: Mapping[str, str]) -> list[EnvironmentItem]:
    return [
        _environment_item(name, toolchain.programs.get(name, ""), fix, optional=True) for name, fix in fixes.items()
    ]


def _gpu_items(
    devices: Sequence[Device], features: dict[str, str], toolchain: Toolchain, *, needed: bool
) -> list[EnvironmentItem]:
    """Return the items of all GPUs, of torch for CUDA and of the CUDA programs, or without a GPU one item.

    `needed`: a language of this run needs a GPU.
    """
    gpus = [device for device in devices if device.kind == "cuda"]
    if not gpus:
        finding = (
            "nvidia-smi finds a GPU, but the driver's libraries do not: "
            if "nvidia-smi" in toolchain.programs
            else "no GPU was found; "
        )
        remedy = (
            "install the driver, or use a machine with a GPU; without one, kernels for it are checked and not measured"
        )
        fix = finding + (remedy if needed else "kernels for the CPU are measured anyway")
        return [_environment_item("NVIDIA GPU", "", fix, optional=not needed)]
    gpu_items = [
        _environment_item(
            f"NVIDIA GPU {gpu.index}",
            f"{gpu.name}, {gpu.architecture}, {int(gpu.details['memory_bytes']) >> 30} GiB, driver "
            f"{gpu.details['driver']}, "
            f"MIG {gpu.details['mig']}, clocks up to {gpu.details['max_sm_clock_mhz']} MHz, "
            f"{gpu.details.get('clocks', 'as found')}",
            optional=not needed,
        )
        for gpu in gpus
    ]
    fix = "this torch was built for the CPU; install one for CUDA, as https://pytorch.org/get-started/locally describes"
    cuda = toolchain.torch_cuda and f"built for CUDA {toolchain.torch_cuda}"
    torch = _environment_item("torch for CUDA", cuda, fix, optional=not needed)
    return [*gpu_items, torch, _ncu_item(features, toolchain), *_program_items(toolchain, _FIX_BY_CUDA_PROGRAM)]


def _ncu_item(features: dict[str, str], toolchain: Toolchain) -> EnvironmentItem:
    """Return the item of Nsight Compute: whether it may read counters, and how kernels under it are sandboxed."""
    version = toolchain.programs.get("ncu")
    if version is None:
        fix = "install Nsight Compute (it comes with the CUDA toolkit); without it conclusions rest on static evidence"
        return _environment_item("ncu", "", fix, optional=True)
    if toolchain.counters_need_root:
        return EnvironmentItem(name="ncu", status="degraded", value=version, fix=ncu.COUNTERS_NEED_ROOT, optional=True)
    restrictions = f"landlock: {features.get('landlock', 'not tried')}, network and capabilities as ours"
    return _environment_item(
        "ncu", f"{version}; may read counters; a kernel runs under it with {restrictions}", optional=True
    )


def _package_version(name: str) -> str:
    """Return the version of a package of this interpreter; empty: it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _git_version() -> str:
    """Return what `git --version` prints; empty if it fails or takes 20 s."""
    try:
        finished = subprocess.run(["git", "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return finished.stdout.strip() if finished.returncode == 0 else ""


def _escape_table_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


@cache
def sources_digest() -> str:
    """Return 16 hex digits that name the state of Kernelwright's own sources and templates."""
    home = Path(__file__).parents[1]
    packages = ("tools", "knowledge_base", "agents", "graph")
    sources = sorted(
        path for name in packages for path in (home / name).rglob("*") if path.suffix in (".py", ".j2", ".css")
    )
    return digest("".join(f"{path.relative_to(home)} {digest(path.read_bytes())}\n" for path in sources))[:16]
