"""Reads from the operating system the facts about this machine's CPU. Mechanics and context only, never a target."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from tools.harness.device import telemetry
from tools.harness.device.telemetry import CPU_FOLDER

CONTAINERS = ("docker", "containerd", "kubepods", "lxc", "podman")


def describe_cpu() -> dict[str, Any]:
    """Return the CPU with the cores that this process may use, as the fields of a `Device`."""
    info = _cpuinfo()
    cores = sorted(os.sched_getaffinity(0))
    flags = info.get("flags", info.get("Features", "")).split()
    details = {
        "kernel": platform.release(),
        "governor": _read_or_empty(CPU_FOLDER / "cpu0/cpufreq/scaling_governor") or "not reported",
        "virtualised": "yes" if "hypervisor" in flags else "not reported",
        "container": _container_state(),
        "cores_allowed": _core_ranges(cores),
        "cores_online": str(os.cpu_count() or 1),
        "cpu_quota": _read_or_empty(Path("/sys/fs/cgroup/cpu.max")) or "none",
        "smt": _read_or_empty(CPU_FOLDER / "smt/active") or "not reported",
        "simd": " ".join(flag for flag in flags if flag.startswith(("avx", "sse4", "fma", "asimd", "sve", "neon"))),
        "transparent_huge_pages": _read_or_empty(Path("/sys/kernel/mm/transparent_hugepage/enabled")) or "not reported",
    }
    return {
        "kind": "cpu",
        "name": info.get("model name") or info.get("Processor") or platform.processor() or platform.machine(),
        "index": 0,
        "units": len(cores),
        "last_level_cache": telemetry.last_level_cache(),
        "architecture": platform.machine(),
        "details": details,
    }


def _cpuinfo() -> dict[str, str]:
    """Return the fields of the first processor."""
    first = _read_or_empty(Path("/proc/cpuinfo")).split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _container_state() -> str:
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return "yes"
    groups = _read_or_empty(Path("/proc/1/cgroup"))
    return next((name for name in CONTAINERS if name in groups), "no sign of one")


def _core_ranges(cores: list[int]) -> str:
    """Return cores as ranges, [0, 1, 2, 5] as "0-2,5"."""
    parts: list[list[int]] = []
    for core in cores:
        if parts and core == parts[-1][-1] + 1:
            parts[-1].append(core)
        else:
            parts.append([core])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def _read_or_empty(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
