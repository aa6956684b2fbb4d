"""What this machine has, what it lacks, and how to mend that (A2). Reports and never insists: versions are evidence,
not demands."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Literal

from tools.artifacts import Artifact
from tools.errors import SettingsError
from tools.executors.base import Device, Executor, Job, Limits
from tools.languages.base import Language, Toolchain
from tools.profilers import ncu
from tools.store.records import Blobs

SANDBOX_SCRIPT = Path(__file__).with_name("harness") / "isolation" / "sandbox.py"
_FIX_BY_PACKAGE = {
    "torch": "pip install torch; it computes the reference",
    "triton": "pip install triton; only Triton kernels need it",
    "numpy": "pip install numpy",
    "langgraph": "pip install langgraph; `python -m graph` needs it",
}
_FIX_BY_PROGRAM = {
    "git": "install git; every version is a commit",
    "objdump": "install binutils; without it machine code is not looked at and mechanisms stay unverified",
    "valgrind": "install valgrind for cache simulation; everything else works without",
    "perf": "install linux-perf (Debian) or linux-tools (Ubuntu) for hardware counters; everything else works without",
}
_FIX_BY_CUDA_PROGRAM = {
    "nvcc": "install the CUDA toolkit for kernels in CUDA C++; Triton brings its own compiler",
    "cuobjdump": "install the CUDA toolkit; for Triton kernels the one in the triton package is used",
}
_OPENMP_PROGRAM = (
    "#include <omp.h>\n#include <cstdio>\nint main(){int n=0;\n#pragma omp parallel "
    'reduction(+:n)\nn+=1;\nstd::printf("%d",n);}\n'
)


class EnvironmentItem(Artifact):
    """One thing that was looked for."""

    name: str
    status: Literal["ok", "missing", "degraded"]
    value: str
    """What was found, in its own words; empty when nothing was."""
    fix: str = ""
    """One sentence on what to do; empty when all is well."""
    optional: bool = False
    """True: the main job does without."""


class Environment(Artifact):
    """The machine as it was found; the payload of an environment record."""

    items: tuple[EnvironmentItem, ...]
    devices: tuple[Device, ...]
    sandbox: dict[str, str]
    """Feature -> how it is had on this host, or why it is not."""

    def to_markdown(self) -> str:
        """The text of env_check.md."""
        rows = [
            (item.name, f"{item.status}{' (optional)' if item.optional else ''}", item.value, item.fix)
            for item in self.items
        ]
        lines = [f"| {' | '.join(map(_escape_table_cell, row))} |" for row in rows]
        table = ["| what | status | found | what to do |", "|---|---|---|---|", *lines]
        return "\n".join(["# Environment", "", *table, ""])


def inspect_environment(executor: Executor, languages: Iterable[Language], blobs: Blobs) -> Environment:
    """Look at the host of `executor`'s devices, the compilers of `languages`, and the tools and packages beside us.

    Nothing heavy is imported. Raises InfrastructureError when the executor itself fails.
    """
    languages = tuple(languages)
    names, kinds = {language.name for language in languages}, {language.device for language in languages}
    devices = executor.devices()
    features = _try_sandbox(executor, blobs)
    items = [_environment_item("operating system", f"{platform.system()} {platform.release()} ({platform.machine()})")]
    items += [item for device in devices for item in _device_items(device)]
    for language in languages:
        items += _compiler_items(language, executor, blobs)
    tools = [_program_item(name, fix, optional=name != "git") for name, fix in _FIX_BY_PROGRAM.items()]
    items += [
        _sandbox_item(features),
        *tools,
        *_gpu_items(devices, features, needed="cuda" in kinds, executor=executor, blobs=blobs),
    ]
    items.append(_environment_item("python", platform.python_version()))
    items += [
        _package_item(name, fix, optional=name == "triton" and "triton" not in names)
        for name, fix in _FIX_BY_PACKAGE.items()
    ]
    return Environment(items=tuple(items), devices=devices, sandbox=features)


def _environment_item(
    name: str,
    value: str,
    fix: str = "",
    *,
    optional: bool = False,
    otherwise: Literal["missing", "degraded"] = "missing",
) -> EnvironmentItem:
    """`value` as it was found; where it is empty, the status `otherwise` and what to do."""
    return EnvironmentItem(
        name=name, status="ok" if value else otherwise, value=value, fix="" if value else fix, optional=optional
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
        items.append(_environment_item("last-level cache", "", fix, optional=True, otherwise="degraded"))
    governor = device.details.get("governor", "not reported")
    if governor not in ("performance", "not reported"):
        fix = "for steadier clocks: sudo cpupower frequency-set -g performance"
        items.append(EnvironmentItem(name="clock governor", status="degraded", value=governor, fix=fix, optional=True))
    elif device.kind == "cpu":
        items.append(_environment_item("clock governor", governor, optional=True))
    return items


def _compiler_items(language: Language, executor: Executor, blobs: Blobs) -> list[EnvironmentItem]:
    try:
        toolchain = language.toolchain()
    except SettingsError as error:
        return [_environment_item(f"{language.name} compiler", "", str(error))]
    items = [_environment_item(f"{language.name} compiler", toolchain.version)]
    if language.device == "cpu":
        items.append(_openmp_item(toolchain, executor, blobs))
    return items


def _openmp_item(toolchain: Toolchain, executor: Executor, blobs: Blobs) -> EnvironmentItem:
    argv = (*toolchain.argv, "-fopenmp", "trial.cpp", "-o", "trial")
    built = executor.run(
        Job(files={"trial.cpp": blobs.put(_OPENMP_PROGRAM)}, argv=argv, limits=Limits(wall_s=60.0), results=("trial",))
    )
    threads = ""
    if built.exit_code == 0 and "trial" in built.files:
        argv = ("sh", "-c", "chmod +x trial && ./trial")
        ran = executor.run(Job(files={"trial": built.files["trial"]}, argv=argv, limits=Limits(wall_s=20.0)))
        threads = blobs.text(ran.files["stdout.txt"]) if ran.exit_code == 0 else ""
    fix = (
        "install libgomp (with gcc) or libomp (with clang: package libomp-dev); without it kernels stay on one "
        "core unless they use threads"
    )
    return _environment_item("OpenMP", threads and f"{threads} threads", fix, otherwise="degraded")


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
    wanted = ("network", "landlock", "no_new_privileges")
    if not features:
        fix = (
            "the sandbox could not be tried; candidates run with resource limits only, so judge no kernel that you "
            "do not trust"
        )
        return _environment_item("sandbox", "", fix, otherwise="degraded")
    value = ", ".join(f"{name}: {features[name]}" for name in wanted if name in features)
    lacking = [name for name in wanted if _is_feature_missing(features.get(name, "false"))]
    if lacking:
        fix = (
            f"this host does not give {' and '.join(lacking)} (a recent Linux kernel does); judge no kernel here "
            f"that you do not trust"
        )
        return EnvironmentItem(name="sandbox", status="degraded", value=value, fix=fix)
    return _environment_item("sandbox", value)


def _is_feature_missing(feature: str) -> bool:
    """Whether the harness' own words say that a feature was not had."""
    return feature.startswith(("not ", "refused", "false"))


def _program_item(name: str, fix: str, word: str = "", *, optional: bool = True) -> EnvironmentItem:
    """A program by the first line of its own words on its version, of those that hold `word`."""
    said = _program_output((name, "--version")).splitlines() if shutil.which(name) else []
    return _environment_item(name, next((line for line in said if word in line), ""), fix, optional=optional)


def _gpu_items(
    devices: Sequence[Device], features: dict[str, str], *, needed: bool, executor: Executor, blobs: Blobs
) -> list[EnvironmentItem]:
    """The GPUs with what goes with them; without any, one line. `needed`: a language of this run runs there."""
    gpus = [device for device in devices if device.kind == "cuda"]
    if not gpus:
        shown = (
            "nvidia-smi sees one, and the driver's libraries do not: "
            if shutil.which("nvidia-smi")
            else "none was found; "
        )
        where = (
            "install the driver, or run this on a machine with one: without, its kernels are checked and not measured"
        )
        fix = shown + (where if needed else "kernels for the CPU are measured all the same")
        return [_environment_item("NVIDIA GPU", "", fix, optional=not needed)]
    found = [
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
    programs = [_program_item(name, fix, "release") for name, fix in _FIX_BY_CUDA_PROGRAM.items()]
    return [*found, _torch_cuda_item(executor, blobs, needed=needed), _ncu_item(features), *programs]


def _torch_cuda_item(executor: Executor, blobs: Blobs, *, needed: bool) -> EnvironmentItem:
    """Whether torch was built for GPUs: read from its version file, since importing it takes seconds."""
    program = (
        "import importlib.util as u, pathlib, runpy; s = u.find_spec('torch'); "
        "print(runpy.run_path(str(pathlib.Path(s.origin).with_name('version.py'))).get('cuda') or '' if s else '')"
    )
    finished = executor.run(Job(files={}, argv=("{python}", "-c", program), limits=Limits(wall_s=30.0)))
    version = blobs.text(finished.files["stdout.txt"]).strip()
    fix = "the torch here was built for the CPU; install one for CUDA, as https://pytorch.org/get-started/locally says"
    return _environment_item("torch for CUDA", version and f"built for CUDA {version}", fix, optional=not needed)


def _ncu_item(features: dict[str, str]) -> EnvironmentItem:
    """Nsight Compute, whether it may read counters, and how a kernel is shut in that runs under it."""
    program, refused = ncu.program(), ncu.refused()
    if program is None:
        fix = "install Nsight Compute (it comes with the CUDA toolkit); without it conclusions rest on static evidence"
        return _environment_item("ncu", "", fix, optional=True)
    said = _program_output((program, "--version")).splitlines()
    version = next((line.strip() for line in said if line.startswith("Version")), program)
    if refused:
        return EnvironmentItem(name="ncu", status="degraded", value=version, fix=refused, optional=True)
    shut = f"landlock: {features.get('landlock', 'not tried')}, network and capabilities as ours"
    return _environment_item("ncu", f"{version}; may read counters; a kernel runs under it with {shut}", optional=True)


def _package_item(name: str, fix: str, *, optional: bool) -> EnvironmentItem:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = ""
    return _environment_item(name, version, fix, optional=optional)


def _program_output(argv: tuple[str, ...]) -> str:
    """First words of a program, or nothing when it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _escape_table_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
