"""`check`: the contract as the run would see it, before any kernel runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from agents.artifacts import RoleName
from agents.handlers.base import applying, hints, opened
from agents.roles import coder
from graph.budget import feasibility, reserve
from graph.budget.estimate import ASSUMED, Estimate, estimate
from graph.lifecycle import initial_kernel
from graph.lifecycle.run import load_task
from graph.lifecycle.static_report import lacking_of, refuse_wrong
from graph.report.content.render import render
from graph.services import open_agents, open_executor, open_language, open_ledger
from graph.settings import Settings
from graph.specs import datasheet
from tools.artifacts import Argument, Artifact
from tools.executors.base import lacking
from tools.executors.protocol import SeenWorkload
from tools.languages.triton_interpreter import Interpreted
from tools.store.records import Records


class Checked(Artifact):
    """The object that `check --json` prints."""

    status: Literal["checked"] = "checked"
    task: str
    language: str
    identity: str
    compiler: str
    entry: str
    """The function that is called."""
    arguments: tuple[Argument, ...]
    workloads: tuple[SeenWorkload, ...]
    """With operations and unique bytes."""
    dims_range: dict[str, tuple[int, int]]
    """From which hidden sizes are drawn."""
    precision: str
    device: str | None
    """Why there is no device for it here; None: there is one."""
    interpreted: Interpreted | None
    """What was found without the device, where it is not here."""
    unwritten: str
    """The provider that writes v0 when the run begins; empty: there is a kernel."""
    handlers: tuple[str, ...]
    models: dict[RoleName, str]
    """Role -> its provider."""
    estimate: Estimate
    too_dear: bool
    """The estimate is above the cap on dollars."""
    too_small: tuple[str, ...]
    """What is wrong with caps, one sentence each."""
    caps: dict[str, str]
    pages: int
    """Of the wiki."""
    unpublished: str
    """That the gpu-wiki knows nothing of the hardware that the settings name; empty: it does, or they name none."""
    inferred: tuple[str, ...]

    def text(self) -> str:
        """The same for people."""
        return render("check.md", found=self, assumed=ASSUMED)


def check(settings: Settings) -> Checked:
    """Load and probe the task, open every part that the settings name, compile the kernel, and describe the contract.

    Raises SettingsError for whatever `run` would refuse before its first measurement.
    """
    from knowledge_base.pages.wiki import Wiki
    from tools.judge.build import compiled

    with tempfile.TemporaryDirectory(prefix="kernelwright-check-") as folder:
        records = Records(Path(folder))
        with open_executor(settings.executor, records.blobs, Path(folder) / "scratch", settings.gpu) as executor:
            loaded = load_task(settings, executor, records.blobs)
            task = loaded.task
            language = open_language(task.language)
            ledger = open_ledger(settings, records)
            handlers = opened(settings.handlers, task.baseline, task.language)
            agents = open_agents(settings, records, lambda kind, details: None, ledger)
            wiki = Wiki.open(Path(settings.gpu_wiki_path) if settings.gpu_wiki_path else None)
            writer = agents["coder"].model
            if task.baseline is None and writer.reads == "brief" and writer.bills == "nothing":
                # Free and always the same, so that a refusal need not wait for the run.
                made = coder.first(agents["coder"], task, loaded.traces, loaded.untraced, language.suffix)
                task = initial_kernel.with_kernel(loaded, made, agents["coder"]).task
            if task.baseline is not None:
                compiled(task, language, executor, records.blobs, name=settings.sources(language.suffix).kernel)
            checked = None
            absent = lacking(executor.devices(), language.device)
            if task.baseline and absent:
                checked = language.interpret(task, task.baseline, executor, records.blobs)
                refuse_wrong(checked, settings.sources(language.suffix))
            told = hints(handlers, task.baseline or "", task.language)
            expected = estimate(settings, task, wiki.guide(), agents, told)
            tight = feasibility.tight(settings, task, wiki.guide(), agents, expected)
            feasibility.refuse(tight)
            small = reserve.too_small(settings, len(task.workloads), language.device)
            return Checked(
                task=task.name,
                language=task.language,
                identity=task.identity(),
                compiler=str(language.toolchain()),
                entry=language.entry,
                arguments=task.arguments,
                workloads=loaded.workloads,
                dims_range=task.dims_range,
                precision=task.numeric.precision,
                device=lacking_of(settings, absent) if absent else None,
                interpreted=checked,
                unwritten=writer.provider if task.baseline is None else "",
                handlers=tuple(str(handler) for handler in applying(handlers, task.baseline or "", task.language)),
                models={role: agent.model.provider for role, agent in agents.items()},
                estimate=expected,
                too_dear=settings.budget.usd is not None and expected.run_usd > settings.budget.usd,
                too_small=(*(one.sentence() for one in tight), *([small] if small else [])),
                caps=settings.budget.named(),
                pages=len(wiki.pages),
                unpublished=datasheet.unpublished(wiki, task, settings.hardware, settings.variant),
                inferred=task.inferred,
            )
