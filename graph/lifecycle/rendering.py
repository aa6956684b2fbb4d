"""Renders what a reader of a workspace reads again from its records, commit by commit, and names what differs.

Compared are versions/, memory/, the reports, the pointer, the kernel, the text of each commit, and what v0 writes once
at the root, as README.md. The task and the settings are not rendered, but no later commit may change them. Prompts are
not compared, because what is cut out of them depends on the machine that wrote them.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from graph.artifacts import COMMIT_PROTOCOL, Closing, FinalBenchmark, VersionMemory
from graph.budget.metering import MeteredExecutor
from graph.lifecycle.run import assemble_services
from graph.nodes.commits import (
    REPORT_MESSAGE,
    STORE_FOLDERS,
    baseline_texts,
    first_root_texts,
    mask_message,
    root_texts,
    version_message,
)
from graph.nodes.finish import final_benchmark
from graph.nodes.gate_evidence import version_texts
from graph.report import final
from graph.services import Services
from graph.workspace import drift
from graph.workspace.events import Events
from graph.workspace.folder import Workspace
from graph.workspace.versions import closing_of, masked_memories, memory_texts, read_versions
from tools.artifacts import Record, Verdict
from tools.environment import Environment, sources_digest
from tools.errors import InfrastructureError, StorageError, WorkspaceError
from tools.executors.base import Device, Executor, FinishedJob, Job
from tools.store.records import record_key
from tools.store.repository import Commit, Repository, commit_text
from tools.tasks.loader import LoadedTask

UNWORDED = ("kernel.", drift.POINTER_FILE)
"""Paths, or how they begin, that every state of Kernelwright renders alike."""
RENDERED = ("versions/", "memory/", *final.FILES, *UNWORDED)
"""Paths, or how they begin, that each commit renders from records; the first also renders other files at the root."""
MAX_SHOWN = 120
"""Characters of a differing line that a sentence shows."""


@dataclass(frozen=True)
class Fault:
    """A commit that is not what the records say."""

    commit: Commit
    outcome: Literal["disagree", "inconclusive"]
    reason: str


@dataclass(frozen=True)
class History:
    """The commits of a workspace, compared with its records."""

    strangers: tuple[str, ...]
    """Ids of the commits that close nothing in the records, the newest first; their versions never count."""
    masked: frozenset[int]
    """The iterations that are masked at the end."""
    faults: tuple[Fault, ...]


class RecordedDevices(Executor):
    """The devices and the toolchain that a run found, on which nothing can run."""

    def __init__(self, environment: Environment) -> None:
        self.found, self._toolchain = environment.devices, environment.toolchain

    def devices(self) -> tuple[Device, ...]:
        return self.found

    def run(self, job: Job) -> FinishedJob:
        raise InfrastructureError("nothing is measured while the texts of a workspace are rendered again")

    def close(self) -> None:
        """Do nothing, as nothing is open."""


def replay(repository: Repository) -> History:
    """Compare every commit of a workspace or a clone with what the records up to it say; measures nothing."""
    if repository.head() is None:
        return History((), frozenset(), ())
    with tempfile.TemporaryDirectory(prefix="kernelwright-replay-") as folder:
        copy = repository.clone_to(Path(folder) / "copy", "HEAD")
        log = copy.log()
        if log[-1].trailers.get("Protocol") != str(COMMIT_PROTOCOL):
            reason = (
                f"made under protocol {log[-1].trailers.get('Protocol', 'none')}; this version knows only "
                f"{COMMIT_PROTOCOL}, and compares no texts"
            )
            return History((), frozenset(), (Fault(log[-1], "inconclusive", reason),))
        again = _Replay(copy)
        faults = tuple(fault for place in reversed(range(len(log))) if (fault := again.fault_of(log[place:])))
        memories = (VersionMemory.model_validate_json(text) for text in again.memory_texts.values())
        return History(tuple(again.strangers), frozenset(m.iteration for m in memories if m.masked), faults)


class _Replay:
    """The texts of a workspace as its records say them, up to one commit."""

    def __init__(self, copy: Repository) -> None:
        self.copy = copy
        self.texts: dict[str, str] = {}
        self.strangers: list[str] = []
        self._services: Services | None = None

    @property
    def memory_texts(self) -> dict[str, str]:
        """Path -> text of the memory of each closed version."""
        return {path: text for path, text in self.texts.items() if path.startswith("memory/v")}

    def fault_of(self, log: tuple[Commit, ...]) -> Fault | None:
        """Compare the newest commit of `log` with its records, after all those before it."""
        commit = log[0]
        self.copy.check_out(commit.id)
        names = self.copy.changed_paths(commit.parent, commit.id) if commit.parent else self.copy.paths_of(commit.id)
        changed = {name for name in names if not name.startswith(tuple(f"{folder}/" for folder in STORE_FOLDERS))}
        committed = {name: self._committed_text(name) for name in (*changed, *self.texts)}
        same_sources, bundled_wiki = True, True
        expected: dict[str, str] = {}
        told: list[str] = []
        wordings: list[str] = []
        try:
            services = self._open_services()
            closes = drift.closing_record(commit, services.records)
            if closes is None or commit not in drift.run_commits(log, services.records):
                self.strangers.insert(0, commit.id)
                told.append(
                    f"not a commit of the run ({commit.subject[:60]!r}): it closes no iteration of the records, and "
                    f"nothing in it was measured"
                )
            else:
                closing = closing_of(closes, services.records)
                same_sources = closing.sources == sources_digest()
                bundled_wiki = not services.settings.gpu_wiki_path
                message, expected = self._render(closes, closing, self._named(services, closing.workspace))
                told += _text_faults(self.copy.text_of(commit.id), message)
        except (StorageError, WorkspaceError, KeyError, ValueError) as error:
            told.append(f"its texts cannot be rendered again: {error}")
        self.texts |= expected
        for path in sorted({*changed, *expected}):
            if path.startswith(RENDERED) or path in expected:
                # The instructions that README.md lists can come from a wiki of the user's.
                same_words = same_sources and (path != "README.md" or bundled_wiki)
                found = told if same_words or path.startswith(UNWORDED) else wordings
                found += _file_faults(path, committed.get(path), self.texts.get(path))
            elif commit.parent:
                told.append(f"changed {path}, which only the first commit writes")
            elif not path.startswith((".gitignore", "settings.yaml", "task/")):
                told.append(f"{path} follows from no record")
        if wordings:
            wordings.append(
                "another state of Kernelwright or another wiki rendered it, so this difference need not be a forgery"
            )
        return (
            Fault(commit, "disagree" if told else "inconclusive", "; ".join(told + wordings))
            if told + wordings
            else None
        )

    def _committed_text(self, name: str) -> str | None:
        path = self.copy.root / name
        return path.read_bytes().decode(errors="replace") if path.is_file() else None

    def _open_services(self) -> Services:
        """The services that render, on the records of the commit and the memory of the versions so far."""
        private = self.copy.root / ".kernelwright"
        private.mkdir(exist_ok=True)
        (private / "secret").write_text(secrets.token_hex(32))
        shutil.rmtree(self.copy.root / "memory", ignore_errors=True)
        workspace = Workspace(self.copy.root, None)
        workspace.write(self.memory_texts)
        if self._services is not None:
            return replace(self._services, workspace=workspace)
        task, environment = (workspace.records.find(record_key(kind)) for kind in ("task", "environment"))
        if task is None or environment is None:
            raise StorageError("the record of the task or of the environment is missing")
        found = Environment.model_validate(environment.payload)
        executor = MeteredExecutor(RecordedDevices(found), lambda kind, details: None, lambda: 0.0, {})
        settings = workspace.settings()
        # Neither the user's wiki nor a profiler is needed to render, and both may be elsewhere.
        reader = settings.model_copy(update={"gpu_wiki_path": None, "profilers": ()})
        loaded, events = LoadedTask.model_validate(task.payload), Events(private / "events.jsonl")
        services = assemble_services(reader, workspace, loaded, executor, events, reading=True)
        self._services = replace(services, settings=settings)
        return self._services

    def _named(self, services: Services, name: str) -> Services:
        """The services in a copy with the workspace's own name, which the texts show."""
        if Path(name).name != name or name in ("", "..", ".git"):
            raise WorkspaceError(f"{name!r} cannot be the name of a workspace")
        if name == self.copy.root.name:
            return services
        self.copy = Repository(self.copy.root.rename(self.copy.root.with_name(name)))
        return replace(services, workspace=Workspace(self.copy.root, None))

    def _render(self, closes: Record, closing: Closing, services: Services) -> tuple[str, dict[str, str]]:
        """The text of the commit that `closes` stands for, and path -> text of what it writes."""
        if closing.masking is not None:
            before = read_versions(self.copy.root)
            after = masked_memories(before, closing.masking)
            texts = memory_texts(before, after)
            services.workspace.write(texts)
            if closing.restores:
                back = after[int(closing.restores[1:])].candidate or ""
                texts[f"kernel{services.language.suffix}"] = services.candidate(back).source
            if final.MARKDOWN in self.texts:
                texts |= final.render_reports(closing, services)
            return commit_text(*mask_message(closing, closes.id)), texts
        if closes.kind == "final":
            _require_factors_of_contest(closes, services)
            return commit_text(REPORT_MESSAGE, {"Report": closes.id}), final.render_reports(closing, services)
        message = commit_text(*version_message(closing, services, closes))
        iteration = closing.state["iteration"]
        if iteration == 0:
            return message, baseline_texts(closing, services, closes) | first_root_texts(closing, services, closes)
        verdict = Verdict.model_validate(closes.payload)
        return message, version_texts(closing, services, closes) | root_texts(iteration, verdict, services)


def _require_factors_of_contest(closes: Record, services: Services) -> None:
    """Raise StorageError unless the factors over v0 and over the user's function follow from the final contest."""
    said = FinalBenchmark.model_validate(closes.payload)
    found = final_benchmark(services.records.get(closes.parents[0]), services, {})
    factors, again = ({**one.overall, **one.over_function} for one in (said, found))
    close = factors.keys() == again.keys() and all(again[name].is_close_to(factor) for name, factor in factors.items())
    if not close or said.doubts != found.doubts:
        raise StorageError(f"its factors do not follow from the contest {closes.parents[0]}")


def _text_faults(found: str, expected: str) -> Iterator[str]:
    """Yield a sentence about the first difference of subject, body and trailers of a commit."""
    for what, one, other in zip(("subject", "body", "block of trailers"), _parts(found), _parts(expected), strict=True):
        if one != other:
            yield f"its {what} {_difference(one, other)}"


def _parts(text: str) -> tuple[str, str, str]:
    """Subject, body and trailers of a commit's text."""
    subject, _, rest = text.strip().partition("\n")
    body, _, trailers = rest.strip().rpartition("\n\n")
    return subject, body, trailers


def _file_faults(path: str, found: str | None, expected: str | None) -> Iterator[str]:
    """Yield a sentence if a file differs from what the records say; None: there is no file."""
    if found == expected:
        return
    if found is None or expected is None:
        yield f"{path} is missing" if found is None else f"{path} follows from no record"
    else:
        yield f"{path} {_difference(found, expected)}"


def _difference(found: str, expected: str) -> str:
    """Return where `found` differs from `expected` first, as the end of a sentence."""
    lines = zip_longest(found.splitlines(), expected.splitlines(), fillvalue="")
    for number, (one, other) in enumerate(lines, 1):
        if one != other:
            start = max(0, next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0) - 40)
            shown = [line[start : start + MAX_SHOWN] for line in (one, other)]
            return f"differs from what the records say, first at line {number}: {shown[0]!r}, not {shown[1]!r}"
    return "differs from what the records say in the ends of its lines"
