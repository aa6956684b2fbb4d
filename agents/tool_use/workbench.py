"""Where a coder tries a draft before anything is judged: the judge in rehearsal, the knowledge base, the kernels at
hand.

Nothing found here is evidence: the records are of kinds of their own, no hidden workload is used, and the judge draws
other seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.artifacts import Draft
from agents.handlers.base import Handler, opened
from agents.text.fencing import cut
from knowledge_base.pages.wiki import Wiki
from knowledge_base.search.index import Index
from tools.artifacts import Candidate, Failed, Interval, Measurement, Profile, Record, Unmeasured
from tools.errors import BudgetError, InfrastructureError, SettingsError, StorageError
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.profilers.static import StaticProfiler
from tools.store.records import record_key

CONFIDENCE = 0.95
LOG = 3600
"""Characters of what a screen, a compiler or a check says of one draft."""


@dataclass(frozen=True)
class Hint:
    """A quick timing."""

    speedup: Interval
    """Of the objective, incumbent / draft."""
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True)
class Workbench:
    """What one plan's drafts are tried with; it keeps nothing."""

    judge: Judge
    """In rehearsal (`Judge.rehearsal_judge`)."""
    index: Index
    wiki: Wiki
    """Holds the hardware figures."""
    product: str
    """Whose figures are meant where the model names no product."""
    variant: str
    incumbent: Candidate
    baseline: Candidate
    earlier: Mapping[str, Candidate] = field(default_factory=dict)
    """Drafts of this iteration that were judged before, by id."""
    rounds: int = 24
    """Rounds of tool calls for one answer."""
    fixes: int = 2
    """Times that a coder is shown what is wrong with its drafts before they are judged."""
    handlers: tuple[Handler, ...] = field(default_factory=opened)
    """Of the kernel's shape; they mend each draft."""

    def candidate(self, draft: Draft, planned: tuple[str, ...]) -> Candidate:
        """A draft as what would be judged; methods that were not planned are not taken on."""
        return candidate(draft, self.judge.language.name, self.incumbent.id, self.judge.language.suffix, planned)

    def compiled(self, candidate: Candidate) -> Failed | Unmeasured | None:
        """What the screen or the compiler has against it; None: nothing."""
        return self.judge.screen_failure(candidate) or evidence.build_failure(
            self.judge.builder.read_or_build(candidate)
        )

    def fault(self, candidate: Candidate) -> Failed | Unmeasured | None:
        """The same, and whether it is right on a few cases; a machine's failure raises InfrastructureError."""
        return self.compiled(candidate) or evidence.correctness_failure(
            self.judge.read_or_check_correctness(candidate, self.baseline, "rehearsal")
        )

    def cases(self, candidate: Candidate) -> str:
        """How many cases of the quick check a sound candidate passed, in words."""
        checked = evidence.Correctness.model_validate(
            self.judge.read_or_check_correctness(candidate, self.baseline, "rehearsal").payload
        )
        return f"{sum(case.status == 'passed' for case in checked.cases)} of {len(checked.cases)} cases"

    def compiler(self, candidate: Candidate) -> str:
        """What the compiler made of one that compiles: registers, spills, shared memory, or remarks; empty where
        nobody can say."""
        builds = self.judge.builder
        asked, static = record_key("profile", tool=StaticProfiler.name, candidate=candidate.id), StaticProfiler()
        record = builds.records.find(asked)
        try:
            library = builds.shared_object_of(candidate)
            if record is None and library and not static.reason_unavailable(builds.language):
                there = (builds.task, candidate, library, builds.task.workloads[0], builds.language)
                seen, blobs = static.profile(*there, builds.executor, builds.records.blobs)
                payload = seen.model_dump(mode="json")
                record = builds.records.add(
                    Record(kind="profile", key=asked, environment=builds.environment, payload=payload, blobs=blobs)
                )
        except StorageError:
            raise  # damaged evidence is no matter of one draft
        except (SettingsError, BudgetError, InfrastructureError):
            return ""
        remarks = Profile.model_validate(record.payload).remarks if record else ()
        return cut(
            "\n".join(dict.fromkeys(f"{f'line {r.line}: ' if r.line else ''}{r.text}" for r in remarks)), LOG // 2
        )

    def timed(self, candidate: Candidate) -> Hint | Failed:
        """A few pairs of the incumbent and a sound candidate."""
        record = self.judge.read_or_measure_timing(candidate, self.incumbent, self.baseline)
        failed = evidence.timing_failure(record)
        if failed is not None:
            return failed
        measured = evidence.measurements((record,), {}, CONFIDENCE)
        return Hint(evidence.speedup((record,), self.judge.policy.objective, CONFIDENCE), measured)

    def assembly(self, candidate: Candidate) -> str:
        """The disassembly of a candidate that compiles; empty where there is none. SettingsError when the machine
        lacks the program."""
        return self.judge.builder.disassembly_of(candidate)


def candidate(draft: Draft, language: str, parent: str, suffix: str, planned: tuple[str, ...]) -> Candidate:
    """A draft as a candidate: of the methods that it claims only those that were planned count."""
    methods = tuple(method for method in dict.fromkeys(draft.methods) if method in planned)
    return Candidate(
        language=language, files={f"kernel{suffix}": draft.source}, parent=parent, methods=methods, knobs=draft.knobs
    )


def told(name: str, failed: Failed | Unmeasured, source: str = "") -> str:
    """What is wrong with a draft, for its author; with its source for one that does not see what it wrote before."""
    if isinstance(failed, Unmeasured):
        return f"{name} cannot be tried here: {failed.reason}"
    log = f"\n{failed.log}" if failed.log and failed.log != failed.reason else ""
    said = cut(f"{name} failed at {failed.stage}: {failed.reason}{log}", LOG)
    return f"{said}\nIts source:\n{source}" if source else said
