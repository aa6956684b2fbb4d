"""What the nodes work with: built once a process from settings and workspace, handed to LangGraph as its context."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from agents.artifacts import RoleName
from agents.handlers.base import Handler
from agents.models import prices
from agents.models.ledger import Ledger, RemainingTime
from agents.roles.agent import Agent, open_model
from agents.tool_use.workbench import Workbench
from graph.artifacts import Reached
from graph.budget.metering import Capped, Emit, Metered, limits_of
from graph.budget.reserve import Reserve
from graph.settings import ExecutorChoice, Settings
from graph.state import StopReason
from graph.workspace.folder import Workspace
from knowledge_base.artifacts import Attempt, Page
from knowledge_base.experience import free_methods
from knowledge_base.experience.log import Experience
from knowledge_base.experience.similarity import Conditions
from knowledge_base.pages.wiki import Wiki
from knowledge_base.search.index import Index
from tools.analysis.rules import Rule
from tools.artifacts import Artifact, Bound, Candidate, Record, Task
from tools.cli.validation import validation_sentences
from tools.errors import BudgetError, HarnessError, SettingsError, StorageError
from tools.executors.base import EXECUTORS, Device, Executor, pick_device
from tools.executors.protocol import ProbedWorkload
from tools.judge.judge import Judge
from tools.languages.base import Language
from tools.profilers.base import DEFAULT_PROFILERS, PROFILERS, Profiler
from tools.registry import load_class
from tools.roofline import microbenchmarks
from tools.roofline.hardware import Roof
from tools.store.records import Blobs, Records, record_key

Ask = Callable[[str], str | None]
"""A question -> the line that was typed; None when the input ended."""


@dataclass(frozen=True)
class Services:
    """The parts of one run."""

    settings: Settings
    task: Task
    seen: tuple[ProbedWorkload, ...]
    """Operations and unique bytes of each visible workload."""
    operator: str
    """What is computed, under which experience keeps it."""
    workspace: Workspace
    executor: Metered
    language: Language
    judge: Judge
    """Counted, under no cap: for what there is no run or no report without."""
    wiki: Wiki
    """Holds the hardware figures."""
    guide: Wiki
    """Holds methods and skills: the same, or the bundled one where that has none."""
    index: Index
    experience: Experience
    ledger: Ledger
    agents: dict[RoleName, Agent]
    handlers: tuple[Handler, ...]
    """Of the shapes of kernels, ours and those that the settings name."""
    profilers: dict[str, Profiler]
    rules: tuple[Rule, ...]
    """What metrics say about a kernel; read once."""
    environment: str
    """Record id."""
    emit: Emit
    ask: Ask | None = None
    """Puts a question to whoever sits at the terminal; None: nobody does."""

    @property
    def records(self) -> Records:
        """The workspace's evidence."""
        return self.workspace.records

    def wall_s(self) -> float:
        """Wall seconds of the run so far, over all its processes."""
        return self.workspace.wall_s()

    def device_s(self) -> float:
        """Seconds that jobs took on the device so far, over all processes of the run."""
        return self.executor.seconds(self.language.device)

    @property
    def ended(self) -> str | None:
        """The cap that ends the run, where one did, in one sentence."""
        record = self.records.find(record_key("budget"))
        return Reached.model_validate(record.payload).reason if record else None

    def over_budget(self) -> str | None:
        """The same, or a cap on wall or device time under which no other iteration could come to its end."""
        return self.ended or self.executor.reached(limits_of(self.settings.budget, self.kept_s), self.language.device)

    @property
    def kept_s(self) -> float:
        """Seconds of the cap on device time that are kept for the final benchmark; 0 until v0 is timed, and where
        there is no cap."""
        record = self.records.find(record_key("reserve"))
        return Reserve.model_validate(record.payload).seconds if record else 0.0

    def capped_executor(self, tell: Callable[[str], object] | None = None) -> Capped:
        """Return the executor for jobs of the search: BudgetError when the caps on time leave nothing for them, which
        ends the run unless `tell` is told instead: the run can do without these jobs."""
        device, tell = self.language.device, tell or self.out_of_budget
        return Capped(self.executor, device, self.settings.budget, self.kept_s, tell)

    @property
    def capped_judge(self) -> Judge:
        """The judge for whatever the search puts to it."""
        return self.judge.with_executor(self.capped_executor())

    def out_of_budget(self, reason: str) -> StopReason:
        """Put on record which cap ends the run; the first stays."""
        self.keep("budget", Reached(reason=reason))
        return "budget"

    def keep(self, kind: str, artifact: Artifact, *, parents: tuple[str, ...] = (), **asked: object) -> Record:
        """Store `artifact` as the answer to `asked`; asked again, the first answer stays."""
        record = Record(
            kind=kind,
            key=record_key(kind, **asked),
            parents=parents,
            environment=self.environment,
            payload=artifact.model_dump(mode="json"),
        )
        return self.records.add(record)

    def keep_candidate(self, candidate: Candidate, iteration: int = 0) -> str:
        """Store a candidate under its id, and how it was made in this iteration; returns the id."""
        self.keep("candidate", candidate, id=candidate.id)
        self.keep("candidate", candidate, id=candidate.id, iteration=iteration)
        return candidate.id

    def keep_drafted(self, candidate: Candidate, iteration: int, without: str | None = None) -> str:
        """The same for one that is about to be judged; `without`: it is the champion without that method."""
        ablation = {"without": without} if without else {}
        made = {
            "methods": " ".join(candidate.methods),
            "knobs": " ".join(f"{name}={value}" for name, value in candidate.knobs.items()),
        }
        self.emit("drafted", {"candidate": candidate.id, "iteration": str(iteration), **made, **ablation})
        return self.keep_candidate(candidate, iteration)

    def candidate(self, identity: str, iteration: int | None = None) -> Candidate:
        """The stored candidate. `iteration`: with the methods, knobs and parent that it had there, for equal code
        may be made twice."""
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
        """The best roofs measured on this device; measured once, the records answer from then on."""
        return microbenchmarks.best_measured_roofs(self._roofs, self.records)

    @property
    def _roofs(self) -> tuple[Roof, ...]:
        return microbenchmarks.read_or_measure_roofs(
            self.language, self.executor, self.records, environment=self.environment
        )

    @property
    def all_roofs(self) -> tuple[Roof, ...]:
        """Those of every measurement on this device, so that one may bear out another."""
        return microbenchmarks.all_measured_roofs(self._roofs, self.records)

    def roofs_again(self, jobs: Capped) -> tuple[Roof, ...]:
        """Measured once more, on the account of `jobs`, while torch's contestants rest; BudgetError where the caps
        leave no time for it."""
        with contextlib.suppress(HarnessError):
            self.judge.start_torch_contestants((), ())
        attempt = len(microbenchmarks.roof_records_of_device(self._roofs, self.records)) + 1
        return microbenchmarks.read_or_measure_roofs(
            self.language, jobs, self.records, environment=self.environment, attempt=attempt
        )

    @property
    def device(self) -> Device:
        """Where kernels of the task's language run."""
        return pick_device(self.executor.devices(), self.language.device)

    @property
    def shape_class(self) -> str:
        """Under which experience keeps the task's sizes: the power of two in the largest visible workload's unique
        bytes."""
        return f"2^{max(1, *(seen.unique_bytes for seen in self.seen)).bit_length() - 1}B"

    @property
    def architecture(self) -> str:
        """Of the device, as pages and signatures name it, e.g. x86_64."""
        return self.device.architecture

    def assembly(self, candidate: Candidate) -> str:
        """The disassembly of a candidate's library; empty when it has none, and where the caps leave no time for it."""
        try:
            return self.capped_judge.builder.disassembly_of(candidate)
        except BudgetError as error:
            self.out_of_budget(str(error))
            return ""

    def workbench(self, incumbent: str, baseline: str, earlier: Mapping[str, Candidate] | None = None) -> Workbench:
        """Where the coder tries drafts against the incumbent; `earlier`: what was judged of this iteration already,
        by id."""
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
            max_turns=search.tool_rounds,
            fix_attempts=search.fix_rounds,
            handlers=self.handlers,
        )

    def past_attempts(self, bottleneck: Bound) -> tuple[Attempt, ...]:
        """Unmasked outcomes of this operator, language and architecture under the same bottleneck."""
        return self.experience.attempts_like(
            self.operator, self.task.language, self.architecture, bottleneck=bottleneck
        )

    def own_methods(self, bottleneck: Bound) -> tuple[Page, ...]:
        """Of methods that plans of other runs named themselves, those that were accepted in like conditions, the
        most alike first."""
        here = {"operator": self.operator, "architectures": (self.architecture,), "dtype": self.task.outputs[0].dtype}
        asked = Conditions.model_validate({"language": self.task.language, "bottleneck": bottleneck, **here})
        others = (one for one in self.experience.attempts() if one.workspace != self.workspace.root.name)
        return free_methods.pages_for_conditions(others, asked)


def open_executor(
    choice: ExecutorChoice, blobs: Blobs, scratch: Path, gpu: int | None = None, clocks: str = "observe"
) -> Executor:
    """Open the executor that a config names, with its options; SettingsError for an unknown name or option.

    `gpu`, where given, is the index of the GPU to use; `clocks`: "lock" where it must hold that GPU's clocks.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    kind = cast(type[Executor], load_class(EXECUTORS, choice.kind, Executor, key="executor.kind"))
    try:
        options = kind.options.model_validate(choice.model_extra)
    except ValidationError as error:
        raise SettingsError(f"{validation_sentences(error, kind.options, 'executor.')} (kind {choice.kind})") from None
    chosen = options.model_dump(exclude_unset=True)
    chosen |= ({} if gpu is None else {"gpu": gpu}) | ({} if clocks == "observe" else {"clocks": clocks})
    opened: Callable[..., Executor] = kind
    return opened(blobs, scratch, **chosen)


def open_profilers(names: tuple[str, ...] | None, language: Language) -> dict[str, Profiler]:
    """The profilers that names or import paths stand for; None: those that fit the language's device."""
    names = DEFAULT_PROFILERS[language.device] if names is None else names
    return {name: load_class(PROFILERS, name, Profiler, key="profilers")() for name in names}


def open_index(settings: Settings, guide: Wiki, language: str) -> Index:
    """Search over the wiki and the reference projects that the settings name, for a kernel in `language`."""
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
    """The account of a run's exchanges with models, under its caps and prices."""
    return Ledger(records, settings.budget, {**prices.published_prices(), **settings.prices})


def open_agents(
    settings: Settings,
    records: Records,
    emit: Emit,
    ledger: Ledger,
    folder: Path | None = None,
    begin: Callable[[], RemainingTime] | None = None,
    unset: list[str] | None = None,
) -> dict[RoleName, Agent]:
    """All five roles, each with the model its config entry names; SettingsError for a cap in dollars on a model without
    a price.

    `folder`: of the workspace, for models that keep files there. `begin`: called before each exchange, says what time
    it may take and raises where none shall begin. `unset` as in `open_model`.
    """
    roles: tuple[RoleName, ...] = ("planner", "coder", "profiler_analyst", "knowledge_retriever", "gatekeeper")
    agents = {}
    for role in roles:
        entry = role if role in settings.models else "default"
        model = open_model(role, settings.model_for(role), folder, entry=entry, unset=unset)
        agents[role] = Agent(role, model, records, emit, ledger, begin)
    for role, agent in agents.items():
        ledger.check_caps_can_be_kept(role, agent.model)
    return agents
