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

SANDBOX = Path(__file__).with_name("harness") / "isolation" / "sandbox.py"
_PACKAGES = {
    "torch": "pip install torch; it computes the reference",
    "triton": "pip install triton; only Triton kernels need it",
    "numpy": "pip install numpy",
    "langgraph": "pip install langgraph; `python -m graph` needs it",
}
_TOOLS = {
    "git": "install git; every version is a commit",
    "objdump": "install binutils; without it machine code is not looked at and mechanisms stay unverified",
    "valgrind": "install valgrind for cache simulation; everything else works without",
    "perf": "install linux-perf (Debian) or linux-tools (Ubuntu) for hardware counters; everything else works without",
}
_CUDA_TOOLS = {
    "nvcc": "install the CUDA toolkit for kernels in CUDA C++; Triton brings its own compiler",
    "cuobjdump": "install the CUDA toolkit; for Triton kernels the one in the triton package is used",
}
_OPENMP = (
    "#include <omp.h>\n#include <cstdio>\nint main(){int n=0;\n#pragma omp parallel "
    'reduction(+:n)\nn+=1;\nstd::printf("%d",n);}\n'
)


class Item(Artifact):
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

    items: tuple[Item, ...]
    devices: tuple[Device, ...]
    sandbox: dict[str, str]
    """Feature -> how it is had on this host, or why it is not."""

    def to_markdown(self) -> str:
        """The text of env_check.md."""
        rows = [
            f"| {_cell(i.name)} | {i.status}{' (optional)' if i.optional else ''} | {_cell(i.value)} | {_cell(i.fix)} |"
            for i in self.items
        ]
        table = ["| what | status | found | what to do |", "|---|---|---|---|", *rows]
        return "\n".join(["# Environment", "", *table, ""])


def inspect(executor: Executor, languages: Iterable[Language], blobs: Blobs) -> Environment:
    """Look at the host of `executor`'s devices, the compilers of `languages`, and the tools and packages beside us.

    Nothing heavy is imported. Raises InfrastructureError when the executor itself fails.
    """
    languages = tuple(languages)
    names, kinds = {language.name for language in languages}, {language.device for language in languages}
    devices = executor.devices()
    features = _sandbox_features(executor, blobs)
    items = [_item("operating system", f"{platform.system()} {platform.release()} ({platform.machine()})")]
    items += [item for device in devices for item in _device(device)]
    for language in languages:
        items += _compiler(language, executor, blobs)
    tools = [_tool(name, fix, optional=name != "git") for name, fix in _TOOLS.items()]
    items += [
        _sandbox(features),
        *tools,
        *_gpus(devices, features, needed="cuda" in kinds, executor=executor, blobs=blobs),
    ]
    items.append(_item("python", platform.python_version()))
    items += [
        _package(name, fix, optional=name == "triton" and "triton" not in names) for name, fix in _PACKAGES.items()
    ]
    return Environment(items=tuple(items), devices=devices, sandbox=features)


def _item(
    name: str,
    value: str,
    fix: str = "",
    *,
    optional: bool = False,
    otherwise: Literal["missing", "degraded"] = "missing",
) -> Item:
    """`value` as it was found; where it is empty, the status `otherwise` and what to do."""
    return Item(
        name=name, status="ok" if value else otherwise, value=value, fix="" if value else fix, optional=optional
    )


def _device(device: Device) -> list[Item]:
    cache = f", last-level cache {device.last_level_cache >> 20} MiB" if device.last_level_cache else ""
    items = [
        _item(
            f"device {device.kind}:{device.index}", f"{device.name}, {device.units} units{cache}, {device.architecture}"
        )
    ]
    if not device.last_level_cache:
        fix = "the OS does not report the cache; cold timings use a ring of the default size"
        items.append(_item("last-level cache", "", fix, optional=True, otherwise="degraded"))
    governor = device.details.get("governor", "not reported")
    if governor not in ("performance", "not reported"):
        fix = "for steadier clocks: sudo cpupower frequency-set -g performance"
        items.append(Item(name="clock governor", status="degraded", value=governor, fix=fix, optional=True))
    elif device.kind == "cpu":
        items.append(_item("clock governor", governor, optional=True))
    return items


def _compiler(language: Language, executor: Executor, blobs: Blobs) -> list[Item]:
    try:
        toolchain = language.toolchain()
    except SettingsError as error:
        return [_item(f"{language.name} compiler", "", str(error))]
    items = [_item(f"{language.name} compiler", toolchain.version)]
    if language.device == "cpu":
        items.append(_openmp(toolchain, executor, blobs))
    return items


def _openmp(toolchain: Toolchain, executor: Executor, blobs: Blobs) -> Item:
    argv = (*toolchain.argv, "-fopenmp", "trial.cpp", "-o", "trial")
    built = executor.run(
        Job(files={"trial.cpp": blobs.put(_OPENMP)}, argv=argv, limits=Limits(wall_s=60.0), results=("trial",))
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
    return _item("OpenMP", threads and f"{threads} threads", fix, otherwise="degraded")


def _sandbox_features(executor: Executor, blobs: Blobs) -> dict[str, str]:
    job = Job(
        files={"sandbox.py": blobs.put(SANDBOX.read_bytes())},
        argv=("{python}", "-I", "sandbox.py"),
        limits=Limits(wall_s=30.0),
    )
    finished = executor.run(job)
    try:
        report = json.loads(blobs.text(finished.files["stdout.txt"]))
    except json.JSONDecodeError:
        return {}
    return {str(name): value if isinstance(value, str) else json.dumps(value) for name, value in report.items()}


def _sandbox(features: dict[str, str]) -> Item:
    wanted = ("network", "landlock", "no_new_privileges")
    if not features:
        fix = (
            "the sandbox could not be tried; candidates run with resource limits only, so judge no kernel that you "
            "do not trust"
        )
        return _item("sandbox", "", fix, otherwise="degraded")
    value = ", ".join(f"{name}: {features[name]}" for name in wanted if name in features)
    lacking = [name for name in wanted if _is_lacking(features.get(name, "false"))]
    if lacking:
        fix = (
            f"this host does not give {' and '.join(lacking)} (a recent Linux kernel does); judge no kernel here "
            f"that you do not trust"
        )
        return Item(name="sandbox", status="degraded", value=value, fix=fix)
    return _item("sandbox", value)


def _is_lacking(feature: str) -> bool:
    """Whether the harness' own words say that a feature was not had."""
    return feature.startswith(("not ", "refused", "false"))


def _tool(name: str, fix: str, word: str = "", *, optional: bool = True) -> Item:
    """A program by the first line of its own words on its version, of those that hold `word`."""
    said = _say((name, "--version")).splitlines() if shutil.which(name) else []
    return _item(name, next((line for line in said if word in line), ""), fix, optional=optional)


def _gpus(
    devices: Sequence[Device], features: dict[str, str], *, needed: bool, executor: Executor, blobs: Blobs
) -> list[Item]:
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
        return [_item("NVIDIA GPU", "", fix, optional=not needed)]
    found = [
        _item(
            f"NVIDIA GPU {gpu.index}",
            f"{gpu.name}, {gpu.architecture}, {int(gpu.details['memory_bytes']) >> 30} GiB, driver "
            f"{gpu.details['driver']}, "
            f"MIG {gpu.details['mig']}, clocks up to {gpu.details['max_sm_clock_mhz']} MHz, "
            f"{gpu.details.get('clocks', 'as found')}",
            optional=not needed,
        )
        for gpu in gpus
    ]
    programs = [_tool(name, fix, "release") for name, fix in _CUDA_TOOLS.items()]
    return [*found, _torch_cuda(executor, blobs, needed=needed), _counters(features), *programs]


def _torch_cuda(executor: Executor, blobs: Blobs, *, needed: bool) -> Item:
    """Whether torch was built for GPUs: read from its version file, since importing it takes seconds."""
    program = (
        "import importlib.util as u, pathlib, runpy; s = u.find_spec('torch'); "
        "print(runpy.run_path(str(pathlib.Path(s.origin).with_name('version.py'))).get('cuda') or '' if s else '')"
    )
    finished = executor.run(Job(files={}, argv=("{python}", "-c", program), limits=Limits(wall_s=30.0)))
    version = blobs.text(finished.files["stdout.txt"]).strip()
    fix = "the torch here was built for the CPU; install one for CUDA, as https://pytorch.org/get-started/locally says"
    return _item("torch for CUDA", version and f"built for CUDA {version}", fix, optional=not needed)


def _counters(features: dict[str, str]) -> Item:
    """Nsight Compute, whether it may read counters, and how a kernel is shut in that runs under it."""
    program, refused = ncu.find_ncu(), ncu.reason_counters_unreadable()
    if program is None:
        fix = "install Nsight Compute (it comes with the CUDA toolkit); without it conclusions rest on static evidence"
        return _item("ncu", "", fix, optional=True)
    said = _say((program, "--version")).splitlines()
    version = next((line.strip() for line in said if line.startswith("Version")), program)
    if refused:
        return Item(name="ncu", status="degraded", value=version, fix=refused, optional=True)
    shut = f"landlock: {features.get('landlock', 'not tried')}, network and capabilities as ours"
    return _item("ncu", f"{version}; may read counters; a kernel runs under it with {shut}", optional=True)


def _package(name: str, fix: str, *, optional: bool) -> Item:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = ""
    return _item(name, version, fix, optional=optional)


def _say(argv: tuple[str, ...]) -> str:
    """First words of a program, or nothing when it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
