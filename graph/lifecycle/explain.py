"""`explain`: the decisions of a version made again from what they rested on, by the code that decides (A12), and
compared with the record.

Each is made on a copy of the workspace as it stood before. There models say what they are on record to have said, and
kernels are compiled and disassembled, but neither run nor timed.
"""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from pydantic import JsonValue

from agents.artifacts import Plan, RoleName
from agents.models.base import Model, Reply, Request
from agents.roles.agent import REPLY, Agent
from graph.artifacts import Attribution
from graph.budget.metering import Metered
from graph.lifecycle import run as runs
from graph.lifecycle.interruption import checkpoint
from graph.lifecycle.versions import memory_of
from graph.limits import Limit, Sent
from graph.nodes import decide, gate, propose
from graph.report import prompts
from graph.report.content.summary import version_of
from graph.services import Services
from graph.state import State
from graph.workspace import folder as workspaces
from tools.artifacts import Artifact, Verdict
from tools.environment import Environment
from tools.errors import WorkspaceError
from tools.executors.base import Device, FinishedJob, Job
from tools.store.records import Records

Payload = dict[str, JsonValue]
LOST = (
    "that this decision takes today is not on record; use the version of Kernelwright that made the run, on "
    "the machine that it ran on"
)


class Explained(Artifact):
    """One decision of one version."""

    version: str
    of: str
    """plan, champion, attribution, verdict; or prompts, which are no decision."""
    record: str = ""
    """Id of what was decided."""
    decided: Payload
    """What the code decides now, with what it decides by; of prompts: file of each exchange -> its text, in order."""
    differs: tuple[str, ...] = ()
    """Where the record says otherwise; what a record from before it was kept does not hold is not compared."""

    def text(self, *, whole: bool) -> str:
        """The same for people; `whole`: with `decided`."""
        where = f" ({self.record})" if self.record else ""
        title = f"{self.version} {self.of}: {'DIFFERS from what is' if self.differs else 'as'} recorded{where}"
        return "\n".join(
            [
                title,
                *(f"- {line}" for line in self.differs),
                *(f"  {line}" for line in prompts.lines(self.decided) if whole),
            ]
        )


class Recalled(Model):
    """Answers what was answered in one iteration."""

    reads = "brief"
    bills = "nothing"
    calls_tools = True

    def __init__(self, records: Records, iteration: int) -> None:
        super().__init__({})
        self.blobs = records.blobs
        self.said = [record for record in prompts.exchanges(records, iteration) if record.kind == "exchange"]

    def ask(self, request: Request) -> Reply:
        """The next answer on record; WorkspaceError where there is none."""
        slot = {"role": request.role, "purpose": request.purpose, "turn": len(request.turns)}
        found = next((record for record in self.said if slot.items() <= record.payload.items()), None)
        if found is None:
            raise WorkspaceError(f"an answer of the {request.role} {LOST}")
        self.said.remove(found)
        return REPLY.validate_json(self.blobs.get(found.blobs["reply"]))


class Unmeasuring(Metered):
    """Says what devices the run had, and runs jobs in which no kernel runs."""

    def __init__(self, services: Services) -> None:
        super().__init__(services.executor.inner, services.emit, lambda: 0.0, {})
        self.environment = Environment.model_validate(services.records.get(services.environment).payload)

    def devices(self) -> tuple[Device, ...]:
        return self.environment.devices

    def within(self, job: Job, sent: Sent, bounds: tuple[Limit, ...]) -> FinishedJob:
        if job.needs.exclusive or "request.json" in job.files:
            raise WorkspaceError(f"a measurement {LOST}")
        return super().within(job, sent, ())


def _plan(state: State, services: Services) -> Payload:
    brief = propose.planner_brief(state, services)
    budget: Payload = {
        "methods": brief.methods_per_iteration,
        **{str(axis): most for axis, most in brief.budget.items()},
    }
    made = services.records.get(propose.plan(state, services)["plan"]).payload
    return {"budget": budget, "offered": [page.head.id for page in brief.dossier.methods], **made}


def _champion(state: State, services: Services) -> Payload:
    update, parent = decide.select(state, services), version_of(services.workspace.root, state["incumbent"])
    judged = [one.trial for one in propose.trials(state, services)]
    told = {
        one.candidate: decide.describe(one, services.candidate(one.candidate, state["iteration"]), parent)
        for one in judged
    }
    return {
        "trials": {**told},
        "noise_floor": state["noise_floor"],
        "why": update["summary"],
        "champion": update["champion"],
    }


def _attribution(state: State, services: Services) -> Payload:
    return services.records.get(decide.attribute(state, services)["attribution"] or "").payload


def _verdict(state: State, services: Services) -> Payload:
    return gate.asked(State(**{**state, **decide.runner_up(state, services)}), services).model_dump(mode="json")


DECISIONS: dict[str, tuple[str, type[Artifact] | None, Callable[[State, Services], Payload]]] = {
    "plan": ("plan", Plan, _plan),
    "champion": ("select", None, _champion),
    "attribution": ("attribute", Attribution, _attribution),
    "verdict": ("gate", Verdict, _verdict),
}
"""Field of State -> the node that sets it, the type of the record that it names, and how the node comes to it."""


def explain(path: Path, version: str, of: str | None = None) -> Iterator[Explained]:
    """A decision of `version`, or in order all that were made for it; nothing where none was. WorkspaceError where
    what one rested on is lost."""
    workspace = workspaces.peek(path)
    memory_of(workspace, version)
    iteration, root = int(version[1:]), workspace.root
    if of == "prompts":
        said = prompts.exchanges(workspace.records, iteration)
        texts: Payload = {
            prompts.name_of(record) or record.id: prompts.text(record, workspace.records.blobs) for record in said
        }
        yield Explained(version=version, of=of, decided=texts)
        return
    for name in [of] if of else DECISIONS:
        with tempfile.TemporaryDirectory(prefix="kernelwright-explain-") as scratch:
            left = shutil.ignore_patterns(".tmp-*", "scratch")
            copy = Path(shutil.copytree(root, Path(scratch) / root.name, symlinks=True, ignore=left))
            for before, after in around(workspace, iteration, DECISIONS[name][0]):
                yield _explained(copy, version, name, before, after)


def _explained(copy: Path, version: str, of: str, before: State, after: State) -> Explained:
    _, kind, decided_by = DECISIONS[of]
    records, found = workspaces.peek(copy).records, str(after.get(of) or "none")
    recorded: Payload = {of: after.get(of)}  # type: ignore[dict-item]
    if kind is not None:
        recorded = kind.model_validate(records.get(found).payload).model_dump(mode="json", exclude_unset=True)
        (records.folder / f"{found}.json").unlink()
    for memory in (copy / "memory").glob("v*.json"):
        if int(memory.stem[1:]) >= before["iteration"]:
            memory.unlink()
    with runs.opened(copy, reading=True) as services:
        executor, recalled = Unmeasuring(services), Recalled(services.records, before["iteration"])
        agents = {role: Agent(role, recalled, services.records, services.emit) for role in get_args(RoleName)}
        decided = decided_by(
            before, replace(services, executor=executor, judge=services.judge.with_executor(executor), agents=agents)
        )
    return Explained(version=version, of=of, record=found, decided=decided, differs=tuple(differing(decided, recorded)))


def around(workspace: workspaces.Workspace, iteration: int, node: str) -> Iterator[tuple[State, State]]:
    """The states before and after the last call of `node` in an iteration, from the checkpoints; nothing where none
    came to its end."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    from graph.build import build

    with closing(sqlite3.connect(checkpoint(workspace), check_same_thread=False)) as connection:
        history = list(
            build(workspace.settings(), SqliteSaver(connection)).get_state_history(
                {"configurable": {"thread_id": "run"}}
            )
        )
    # The newest comes first.
    called = [
        at for at, one in enumerate(history) if one.next == (node,) and one.values["iteration"] == iteration and at
    ]
    yield from ((cast(State, dict(history[at].values)), cast(State, history[at - 1].values)) for at in called[:1])


def differing(now: JsonValue, then: JsonValue, name: str = "") -> Iterator[str]:
    """Each value of `then` that is another in `now`."""
    if isinstance(now, dict) and isinstance(then, dict):
        for inner, value in then.items():
            yield from differing(now.get(inner), value, f"{name}.{inner}" if name else inner)
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for place, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from differing(one, other, f"{name}.{place}")
    elif not (
        now == then or (isinstance(now, float) and isinstance(then, float) and math.isclose(now, then, rel_tol=1e-9))
    ):
        yield f"{name} is {json.dumps(now)}, and recorded is {json.dumps(then)}"
