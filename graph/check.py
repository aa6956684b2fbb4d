"""`check`: the contract as the run would see it, before any kernel runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agents import coder
from agents.handlers.base import applying, hints, opened
from graph import first, reserve, room
from graph.estimate import ASSUMED, estimate
from graph.report.render import render
from graph.run import load_task
from graph.services import open_agents, open_executor, open_language, open_ledger
from graph.settings import Settings
from graph.unmeasured import lacking_of, refuse_wrong
from tools.executors.base import lacking
from tools.records import Records


def check(settings: Settings) -> str:
    """Load and probe the task, open every part that the settings name, compile the kernel, and describe the contract.

    Raises SettingsError for whatever `run` would refuse before its first measurement.
    """
    from knowledge_base.wiki import Wiki
    from tools.building import compiled

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
                task = first.with_kernel(loaded, made, agents["coder"]).task
            if task.baseline is not None:
                compiled(task, language, executor, records.blobs, name=settings.sources(language.suffix).kernel)
            checked = None
            absent = lacking(executor.devices(), language.device)
            if task.baseline and absent:
                checked = language.interpret(task, task.baseline, executor, records.blobs)
                refuse_wrong(checked, settings.sources(language.suffix))
            told = hints(handlers, task.baseline or "", task.language)
            expected = estimate(settings, task, wiki.guide(), agents, told)
            tight = room.tight(settings, task, wiki.guide(), agents, expected)
            room.refuse(tight)
            small = reserve.too_small(settings, len(task.workloads), language.device)
            return render(
                "check.md",
                task=task,
                seen=loaded.workloads,
                toolchain=language.toolchain(),
                handlers=[str(handler) for handler in applying(handlers, task.baseline or "", task.language)],
                providers={role: agent.model.provider for role, agent in agents.items()},
                estimate=expected,
                too_dear=settings.budget.usd is not None and expected.run_usd > settings.budget.usd,
                tight=[*(one.sentence() for one in tight), *([small] if small else [])],
                assumed=ASSUMED,
                caps=settings.budget.named(),
                pages=len(wiki.pages),
                checked=checked,
                absent=lacking_of(settings, absent) if absent else None,
                entry=language.entry,
                unwritten=writer.provider if task.baseline is None else "",
            )
