"""`export`: writes an accepted kernel of a workspace in another format."""

from __future__ import annotations

import re
from pathlib import Path

from graph.export import bindings
from graph.export.accepted import AcceptedKernel, UserFile
from graph.export.formats import FORMATS
from graph.export.patch import SWITCH
from graph.lifecycle.version_commands import memory_path
from graph.report.content.phrases import dims_words
from graph.workspace import folder as workspaces
from graph.workspace.versions import find_incumbent, recorded_versions
from tools.artifacts import Candidate
from tools.environment import Environment
from tools.errors import SettingsError, WorkspaceError
from tools.judge.evidence import Correctness, Toolset
from tools.languages.base import open_language
from tools.store.blobs import write_atomically
from tools.store.records import record_key
from tools.tasks.loader import LoadedTask, read_source


def export(
    path: Path, version: str | None, form: str, out: Path | None, file: Path | None = None, at: str | None = None
) -> str:
    """Write the kernel of `version`, by default the one at HEAD, in a format of `FORMATS`; return a sentence about it.

    `file` and `at`: of `patch`, the user's file and its lines, FIRST or FIRST-LAST, that the kernel replaces. Raises
    SettingsError where the kernel does not exist in the format, and where `out` holds another file of that name.
    """
    kernel = read_accepted_kernel(path, version, file, at)
    files = FORMATS[form](kernel)
    folder = out or Path(f"{kernel.name}-{form}")
    for name, text in files.items():
        path_in_folder = folder / name
        if path_in_folder.exists() and path_in_folder.read_text(encoding="utf-8", errors="replace") != text:
            raise SettingsError(
                f"{path_in_folder} exists with other content and is not overwritten; name another folder with --out"
            )
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, text.encode())
    sizes = "; ".join(dims_words(workload.dims) for workload in kernel.task.workloads)
    sentence = f"{folder}: {', '.join(files)}; {kernel.title} It was judged at {sizes}."
    if form != "patch":
        return sentence
    if kernel.is_compiled:
        flags = " ".join(bindings.extension_flags(kernel))
        sentence += (
            f" It was judged as built with {flags}. The patch has an effect where {SWITCH} is defined (-D{SWITCH})."
        )
    return (
        f"{sentence} Check two things by hand: the replaced lines compute what the task computes, and the arguments "
        f"have the task's names there ({', '.join(a.name for a in kernel.task.arguments)})."
    )


def read_accepted_kernel(
    path: Path, version: str | None, file: Path | None = None, at: str | None = None
) -> AcceptedKernel:
    """Read an accepted version of a workspace, or its baseline; raise SettingsError for any other version.

    `file`: the user's file, by default the kernel file that the run's settings name; `at`: as `export` has it.
    """
    workspace = workspaces.open_read_only(path)
    recorded = recorded_versions(workspace)
    if not recorded:
        raise WorkspaceError(f"{path} has no version yet; `python -m graph resume {path}` continues the run")
    version = version or f"v{find_incumbent([memory for memory, _ in recorded.values()]).iteration}"
    memory_path(workspace, version)
    memory, commit = recorded.get(int(version[1:]), (None, ""))
    record = workspace.records.find(record_key("task"))
    if memory is None or record is None:
        raise WorkspaceError(
            f"{version}: no commit of the run closes it in {path}; `python -m graph audit {path}` says what is wrong"
        )
    if memory.masked or memory.verdict not in ("accept", "baseline"):
        state = "masked" if memory.masked else "not accepted"
        raise SettingsError(
            f"{version} is {state} and has no kernel to export; `python -m graph show {path}` lists the versions"
        )
    loaded = LoadedTask.model_validate(record.payload)
    language = open_language(loaded.task.language)
    visible = {w.name for w in loaded.task.workloads}
    checked = [
        Correctness.model_validate(one.payload)
        for one in workspace.records
        if one.kind == "correctness" and one.payload.get("candidate") == memory.candidate
    ]
    drawn_statuses = [case.status for one in checked for case in one.cases if case.case.workload not in visible]
    settings = workspace.settings()
    if file is None and loaded.task.baseline is not None:
        file = Path(settings.kernel) if settings.kernel else Path(settings.task or "") / f"kernel{language.suffix}"
        file = file if file.is_file() else None
    if loaded.task.restructured:
        raise SettingsError(
            f"{version}: make_inputs of this task gives lists, structs or fixed values, and an exported function takes "
            f"the kernel's arguments; give these in make_inputs by name, and put them together in reference"
        )
    worth = memory.speedup
    figures = f"{worth.estimate:.4g} [{worth.low:.4g}, {worth.high:.4g}]" if worth else ""
    gain = f", {figures} times as fast as the version before" if worth else ""
    source = workspace.repository.read_file_at(commit, f"kernel{language.suffix}").decode()
    kernel = Candidate(language=loaded.task.language, files={f"kernel{language.suffix}": source})
    if kernel.id != memory.candidate:
        raise WorkspaceError(
            f"{version}: the kernel in commit {commit[:12]} is {kernel.id}, and its record names {memory.candidate}"
        )
    origin = "the kernel that the run began with" if memory.verdict == "baseline" else f"made by Kernelwright{gain}"
    takes_stream = language.takes_stream(source)
    limit = "" if takes_stream or language.device == "cpu" else " Default stream only."
    return AcceptedKernel(
        task=loaded.task,
        probed_workloads=loaded.workloads,
        source=source,
        suffix=language.suffix,
        device=language.device,
        takes_stream=takes_stream,
        architecture=_device_architecture(workspace, language.device),
        flags=_build_flags(workspace),
        covers_drawn_sizes=bool(drawn_statuses) and {*drawn_statuses} == {"passed"},
        user_file=_user_file(file, at) if file is not None else None,
        title=f"{version} of {workspace.root.name} (commit {commit[:12]}), {origin}.{limit}",
    )


def _build_flags(workspace: workspaces.Workspace) -> tuple[str, ...]:
    """Return the compiler flags of the run's kernels, from the record of its toolchain."""
    (record,) = (one for one in workspace.records if one.kind == "toolchain")
    return Toolset.model_validate(record.payload).flags


def _user_file(file: Path, at: str | None) -> UserFile:
    lines = re.fullmatch(r"(\d+)(?:-(\d+))?", at or "")
    if at is not None and lines is None:
        raise SettingsError(f"--at {at}: give the lines of {file.name} as FIRST or FIRST-LAST, such as 12 or 12-20")
    return UserFile(
        name=file.name,
        text=read_source(file),
        lines=(int(lines[1]), int(lines[2] or lines[1])) if lines else None,
        in_package=file.with_name("__init__.py").is_file(),
    )


def _device_architecture(workspace: workspaces.Workspace, kind: str) -> str:
    """Return the architecture of the run's device, from the record of the environment; empty: unknown."""
    record = workspace.records.find(record_key("environment"))
    devices = Environment.model_validate(record.payload).devices if record is not None else ()
    return next((device.architecture for device in devices if device.kind == kind), "")
