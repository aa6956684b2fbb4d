"""The services that the nodes use: built once in each process and handed to LangGraph as its context."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agents.artifacts import RoleName
from agents.handlers.base import SourceHandler
from agents.models import prices
from agents.models.ledger import Ledger, RemainingTime, exchange_records, sum_exchanges
from agents.roles.agent import Agent, open_model
from agents.tool_use.workbench import Workbench
from graph.artifacts import Closing, ReachedCap
from graph.budget.metering import CappedExecutor, Emit, MeteredExecutor, time_limits
from graph.budget.reserve import Reserve
from graph.settings import Settings
from graph.state import State, StopReason
from graph.workspace.folder import Workspace
from knowledge_base.artifacts import Attempt, Page
from knowledge_base.experience import free_methods
from knowledge_base.experience.log import Experience
from knowledge_base.experience.similarity import Conditions
from knowledge_base.pages.wiki import Wiki
from knowledge_base.search.index import Index
from tools.analysis.rules import Rule
from tools.artifacts import Artifact, Bound, Candidate, Record, Task
from tools.environment import Environment, sources_digest
from tools.errors import BudgetError, HarnessError, StorageError
from tools.executors.base import Device, pick_device
from tools.executors.protocol import ProbedWorkload
from tools.judge.judge import Judge
from tools.languages.base import Language
from tools.profilers.base import DEFAULT_PROFILERS, PROFILERS, Profiler
from tools.registry import load_class
from tools.roofline import microbenchmarks
from tools.roofline.hardware import Roof
from tools.store.records import Records, record_key

Ask = Callable[[str], str | None]
"""Maps a question to the line that a person types; None: the input ended."""


@dataclass(frozen=True)
class Services:
    """The services of one run: settings, task, workspace, executor, judge, wiki, agents."""

    settings: Settings
    task: Task
    probed_workloads: tuple[ProbedWorkload, ...]
    """The visible workloads with their operations and unique bytes."""
    operator: str
    """The operation that the task computes, a key of the experience log."""
    workspace: Workspace
    executor: MeteredExecutor
    language: Language
    judge: Judge
    """The judge for measurements that every run needs: their time counts, and no cap refuses them."""
    wiki: Wiki
    """The wiki with the hardware figures."""
    guide: Wiki
    """The wiki with methods and skills: `wiki`, or the bundled one if `wiki` has no methods."""
    index: Index
    experience: Experience
    ledger: Ledger
    agents: dict[RoleName, Agent]
    handlers: tuple[SourceHandler, ...]
    """The handlers of shapes of kernels, bundled ones and those that the settings name."""
    profilers: dict[str, Profiler]
    rules: tuple[Rule, ...]
    """The rules that turn metrics into findings."""
    environment: str
    """The id of the record of the environment."""
    emit: Emit
    ask: Ask | None = None
    """Asks a person at the terminal; None: there is no terminal."""

    @property
    def records(self) -> Records:
        """The records of the workspace."""
        return self.workspace.records

    def wall_s(self) -> float:
        """Wall seconds of the run so far, over all its processes."""
        return self.workspace.wall_s()

    def device_s(self) -> float:
        """Seconds that jobs took on the device so far, over all processes of the run."""
        return self.executor.device_seconds(self.language.device)

    @property
    def recorded_cap(self) -> str | None:
        """The cap on record as the end of the run, as a sentence; None: the run reached no cap."""
        record = self.records.find(record_key("budget"))
        return ReachedCap.model_validate(record.payload).reason if record else None

    def find_reached_cap(self) -> str | None:
        """Return the cap that ended the run or that leaves no time for another job, as a sentence; None: there is
        none."""
        return self.recorded_cap or self.executor.reached_limit(
            time_limits(self.settings.budget, self.reserved_device_s), self.language.device
        )

    @property
    def reserved_device_s(self) -> float:
        """Seconds of the cap on device time that are reserved for the final benchmark; 0 before v0 is timed and without
        a cap."""
        record = self.records.find(record_key("reserve"))
        return Reserve.model_validate(record.payload).seconds if record else 0.0

    def capped_executor(self, on_cap: Callable[[str], object] | None = None) -> CappedExecutor:
        """Return the executor for jobs of the search, which raises BudgetError when the caps on time leave nothing.

        That ends the run, unless `on_cap` is called with the reason instead, for jobs that the run can do without.
        """
        device, on_cap = self.language.device, on_cap or self.record_reached_cap
        return CappedExecutor(self.executor, device, self.settings.budget, self.reserved_device_s, on_cap)

    @property
    def capped_judge(self) -> Judge:
        """The judge for the candidates of the search, under the caps."""
        return self.judge.with_executor(self.capped_executor())

    def record_reached_cap(self, reason: str) -> StopReason:
        """Record the cap that ends the run, unless one is recorded already; return the stop reason."""
        self.save_record("budget", ReachedCap(reason=reason))
        return "budget"

    def save_record(
        self, kind: str, artifact: Artifact, *, parents: tuple[str, ...] = (), **key_fields: object
    ) -> Record:
        """Store `artifact` under the key of `kind` and `key_fields` and return its record; an existing record stays."""
        record = Record(
            kind=kind,
            key=record_key(kind, **key_fields),
            parents=parents,
            environment=self.environment,
            payload=artifact.model_dump(mode="json"),
        )
        return self.records.add(record)

    def closing(self, state: State, *, restores: str = "") -> Closing:
        """Return what the texts of a commit in `state` show besides records, as of now."""
        return Closing(
            workspace=self.workspace.root.name,
            # A checkpoint holds keys of LangGraph's own, too.
            state=cast(State, {name: value for name, value in state.items() if name in State.__annotations__}),
            wall_s=self.wall_s(),
            device_s=self.device_s(),
            spent=sum_exchanges(exchange_records(self.records)),
            sources=sources_digest(),
            restores=restores,
        )

    def save_closing(self, closing: Closing, **key_fields: object) -> tuple[str, Closing]:
        """Store `closing` and return the id of its record and its content; the one from before a kill stays."""
        record = self.save_record("closing", closing, parents=(), **key_fields)
        return record.id, Closing.model_validate(record.payload)

    def save_candidate(self, candidate: Candidate, iteration: int = 0) -> str:
        """Store a candidate under its id, and its origin in this iteration; return the id."""
        self.save_record("candidate", candidate, id=candidate.id)
        self.save_record("candidate", candidate, id=candidate.id, iteration=iteration)
        return candidate.id

    def save_draft(self, candidate: Candidate, iteration: int, without: str | None = None) -> str:
        """Store a candidate that is about to be judged, emit the event `drafted` and return the id.

        `without`: the candidate is the champion without this method.
        """
        ablation = {"without": without} if without else {}
        made = {
            "methods": " ".join(candidate.methods),
            "knobs": " ".join(f"{name}={value}" for name, value in candidate.knobs.items()),
        }
        self.emit("drafted", {"candidate": candidate.id, "iteration": str(iteration), **made, **ablation})
        return self.save_candidate(candidate, iteration)

    def candidate(self, identity: str, iteration: int | None = None) -> Candidate:
        """Return a stored candidate; `iteration` selects its methods, knobs and parent, as equal code may recur.

        Raises StorageError if the candidate is not on record.
        """
        asked = (
            self.records.find(record_key("candidate", id=identity, iteration=iteration))
            if iteration is not None
            else None
        )
        record = asked or self.records.find(record_key("candidate", id=identity))
        if record is None:
            raise StorageError(
                f"candidate {identity} is missing from {self.records.folder}; restore it from a copy of the workspace"
            )
        return Candidate.model_validate(record.payload)

    @property
    def roofs(self) -> tuple[Roof, ...]:
        """The best roofs measured on this device; the first use measures them."""
        return microbenchmarks.best_measured_roofs(self._first_measured_roofs, self.records)

    @property
    def _first_measured_roofs(self) -> tuple[Roof, ...]:
        return microbenchmarks.read_or_measure_roofs(
            self.language, self.executor, self.records, environment=self.environment
        )

    @property
    def all_roofs(self) -> tuple[Roof, ...]:
        """The roofs of every measurement on this device, so that one can confirm another."""
        return microbenchmarks.all_measured_roofs(self._first_measured_roofs, self.records)

    def remeasure_roofs(self, jobs: CappedExecutor) -> tuple[Roof, ...]:
        """Measure the roofs again with the executor `jobs`, without torch's processes beside it; return the new roofs.

        Raises BudgetError if the caps leave no time.
        """
        with contextlib.suppress(HarnessError):
            self.judge.start_torch_contestants((), ())
        attempt = len(microbenchmarks.roof_records_of_device(self._first_measured_roofs, self.records)) + 1
        return microbenchmarks.read_or_measure_roofs(
            self.language, jobs, self.records, environment=self.environment, attempt=attempt
        )

    @property
    def device(self) -> Device:
        """The device that runs kernels of the task's language."""
        return pick_device(self.executor.devices(), self.language.device)

    @property
    def shape_class(self) -> str:
        """The class of the task's sizes in the experience log: the power of two in the unique bytes of the largest
        workload."""
        return f"2^{max(1, *(workload.unique_bytes for workload in self.probed_workloads)).bit_length() - 1}B"

    @property
    def architecture(self) -> str:
        """The architecture of the device as pages and signatures name it, e.g. x86_64."""
        return self.device.architecture

    @property
    def machine(self) -> tuple[str, ...]:
        """The device's name and limits as its driver reports them, and the versions of compiler and language: lines of
        prompts."""
        device, environment = self.device, Environment.model_validate(self.records.get(self.environment).payload)
        limits = [
            f"{name.removeprefix('limit ').replace('_', ' ')} {value}"
            for name, value in device.details.items()
            if name.startswith("limit ")
        ]
        cache = f", last-level cache {device.last_level_cache} bytes" if device.last_level_cache else ""
        lines = [f"device: {device.name}, {device.units} units{cache}"]
        lines += [f"limits that its driver reports: {', '.join(limits)}"] if limits else []
        torch = next((f", torch {one.value}" for one in environment.items if one.name == "torch" and one.value), "")
        return (*lines, f"compiler: {self.judge.builder.toolset().compiler_name}{torch}")

    def assembly(self, candidate: Candidate) -> str:
        """Return the disassembly of a candidate's shared object; empty if there is none or the caps leave no time."""
        try:
            return self.capped_judge.builder.disassembly_of(candidate)
        except BudgetError as error:
            self.record_reached_cap(str(error))
            return ""

    def workbench(self, incumbent: str, baseline: str, earlier: Mapping[str, Candidate] | None = None) -> Workbench:
        """Return the workbench on which the coder tries drafts; `earlier`: the iteration's judged candidates by id."""
        search = self.settings.search
        return Workbench(
            judge=self.capped_judge.rehearsal_judge(),
            index=self.index,
            wiki=self.wiki,
            product=self.settings.hardware or self.device.name,
            variant=self.settings.variant,
            incumbent=self.candidate(incumbent),
            baseline=self.candidate(baseline),
            earlier_drafts=earlier or {},
            max_turns=search.tool_turns,
            fix_attempts=search.fix_attempts,
            handlers=self.handlers,
        )

    def past_attempts(self, bottleneck: Bound) -> tuple[Attempt, ...]:
        """Return the unmasked outcomes of this operator, language and architecture under the same bottleneck."""
        return self.experience.attempts_like(
            self.operator, self.task.language, self.architecture, bottleneck=bottleneck
        )

    def free_method_pages(self, bottleneck: Bound) -> tuple[Page, ...]:
        """Return pages for the free methods that other runs accepted in similar conditions, the most similar first."""
        here = {"operator": self.operator, "architectures": (self.architecture,), "dtype": self.task.outputs[0].dtype}
        asked = Conditions.model_validate({"language": self.task.language, "bottleneck": bottleneck, **here})
        others = (one for one in self.experience.attempts() if one.workspace != self.workspace.root.name)
        return free_methods.pages_for_conditions(others, asked)


def open_profilers(names: tuple[str, ...] | None, language: Language) -> dict[str, Profiler]:
    """Open the profilers with these names or import paths, by name; None: those for the language's device."""
    names = DEFAULT_PROFILERS[language.device] if names is None else names
    return {name: load_class(PROFILERS, name, Profiler, key="profilers")() for name in names}


def open_index(settings: Settings, guide: Wiki, language: str) -> Index:
    """Open the search index of the wiki and of the reference projects in the settings, for a kernel in `language`."""
    return Index.open(
        guide,
        reference=Path(settings.reference_projects) if settings.reference_projects else None,
        embedder=settings.embedder,
        server=settings.chroma,
        # Outcomes reach the dossier by their conditions, not by their words.
        outcomes=False,
        languages=(language,),
    )


def open_ledger(settings: Settings, records: Records) -> Ledger:
    """Open the ledger of a run's exchanges with models, under its caps and prices."""
    return Ledger(records, settings.budget, {**prices.published_prices(), **settings.prices})


ROLES: tuple[RoleName, ...] = ("planner", "coder", "profiler_analyst", "knowledge_retriever", "gatekeeper")


def require_access_to_models(settings: Settings) -> None:
    """Try the server and the key of each entry of `models:` in use, by a call that costs nothing.

    Raises SettingsError or ProviderError, as the first exchange would.
    """
    for entry, role in {_entry_of(role, settings): role for role in ROLES}.items():
        open_model(role, settings.model_for(role), entry=entry).require_access(entry)


def _entry_of(role: RoleName, settings: Settings) -> str:
    """Return the key below `models:` that names the model of a role."""
    return role if role in settings.models else "default"


def open_agents(
    settings: Settings,
    records: Records,
    emit: Emit,
    ledger: Ledger,
    folder: Path | None = None,
    begin: Callable[[], RemainingTime] | None = None,
    unset: list[str] | None = None,
) -> dict[RoleName, Agent]:
    """Open the agents of the five roles with the models in their config entries.

    Raises SettingsError for a cap in dollars on a model without a price. `folder`: the workspace, for models that write
    files there. `begin`: called before each exchange, returns the time left for it and raises if no exchange may begin.
    `unset`: as in `open_model`.
    """
    agents = {}
    for role in ROLES:
        model = open_model(role, settings.model_for(role), folder, entry=_entry_of(role, settings), unset=unset)
        agents[role] = Agent(role, model, records, emit, ledger, begin)
    for role, agent in agents.items():
        ledger.check_caps_can_be_kept(role, agent.model)
    return agents
