"""The workbench where a coder tries a draft before the judge sees it: the judge in rehearsal, the knowledge base, and
the run's kernels.

No result here is evidence: the records have kinds of their own, no hidden workload is used, and the judge draws other
seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from agents.artifacts import Draft
from agents.handlers.base import SourceHandler, open_handlers
from agents.text.fencing import cut_middle
from knowledge_base.pages.wiki import Wiki
from knowledge_base.search.index import Index
from tools.artifacts import Candidate, Failed, Interval, Measurement, Profile, Record, Unmeasured
from tools.errors import BudgetError, InfrastructureError, SettingsError, StorageError
from tools.executors.toolchain_job import read_toolchain
from tools.judge import evidence
from tools.judge.judge import Judge
from tools.profilers.static import StaticProfiler
from tools.store.records import record_key

TIMING_CONFIDENCE = 0.95
MAX_LOG_CHARS = 3600
"""Most characters of the report of a screen, a compiler or a check on one draft."""


@dataclass(frozen=True)
class QuickTiming:
    """The result of a quick timing, a hint for the coder."""

    speedup: Interval
    """Incumbent time / draft time by the objective."""
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True)
class Workbench:
    """Tries the drafts of one plan; it has no state."""

    judge: Judge
    """The judge in rehearsal (`Judge.rehearsal_judge`)."""
    index: Index
    wiki: Wiki
    """The wiki with the hardware figures."""
    product: str
    """Product whose figures a look-up returns if the model names none."""
    variant: str
    incumbent: Candidate
    baseline: Candidate
    earlier_drafts: Mapping[str, Candidate] = field(default_factory=dict)
    """Id -> draft of this iteration that was judged before."""
    max_turns: int = 24
    """Most turns with tool calls for one answer."""
    fix_attempts: int = 2
    """How often a coder is shown the faults of its drafts before they are judged."""
    handlers: tuple[SourceHandler, ...] = field(default_factory=open_handlers)
    """Handlers that repair each draft."""
    requests_after: Callable[[Iterable[Candidate]], Iterable[Callable[[], object]]] = lambda _: ()
    """What is measured of drafts that pass: a machine that is seldom reached gets these jobs with the rehearsals."""

    def make_candidate(self, draft: Draft, planned: tuple[str, ...]) -> Candidate:
        """Return a draft as a candidate for the judge, without methods that were not planned."""
        return make_candidate(draft, self.judge.language.name, self.incumbent.id, self.judge.language.suffix, planned)

    def build_failure(self, candidate: Candidate) -> Failed | Unmeasured | None:
        """Return the failure of a candidate in the screen or the build; None if it passes."""
        return self.judge.screen_failure(candidate) or evidence.build_failure(
            self.judge.builder.read_or_build(candidate)
        )

    def rehearsal_failure(self, candidate: Candidate) -> Failed | Unmeasured | None:
        """Return the failure of a candidate in the screen, the build or the quick check; None if it passes.
        InfrastructureError if the machine fails."""
        return self.build_failure(candidate) or evidence.correctness_failure(
            self.judge.read_or_check_correctness(candidate, self.baseline, "rehearsal")
        )

    def gather_rehearsals(self, candidates: Iterable[Candidate]) -> None:
        """Request the rehearsals of all candidates together, and with them what `requests_after` says."""
        for_all = tuple(candidates)
        self.judge.executor.gather(
            [*(partial(self.rehearsal_failure, one) for one in for_all), *self.requests_after(for_all)]
        )

    def passed_cases_text(self, candidate: Candidate) -> str:
        """Return how many cases of the quick check a candidate passed, as text."""
        checked = evidence.Correctness.model_validate(
            self.judge.read_or_check_correctness(candidate, self.baseline, "rehearsal").payload
        )
        return f"{sum(case.status == 'passed' for case in checked.cases)} of {len(checked.cases)} cases"

    def compiler_remarks(self, candidate: Candidate) -> str:
        """Return the compiler's remarks on a candidate that compiles, such as registers, spills and shared memory;
        empty if there are none."""
        builds = self.judge.builder
        key, static = record_key("profile", tool=StaticProfiler.name, candidate=candidate.id), StaticProfiler()
        record = builds.records.find(key)
        try:
            library = builds.shared_object_of(candidate)
            toolchain = read_toolchain(builds.executor, builds.records.blobs)
            if record is None and library and not static.reason_unavailable(builds.language, toolchain):
                there = (builds.task, candidate, library, builds.task.workloads[0], builds.language)
                profile, blobs = static.profile(*there, builds.executor, builds.records.blobs)
                payload = profile.model_dump(mode="json")
                record = builds.records.add(
                    Record(kind="profile", key=key, environment=builds.environment, payload=payload, blobs=blobs)
                )
        except StorageError:
            raise  # damaged evidence does not depend on one draft
        except (SettingsError, BudgetError, InfrastructureError):
            return ""
        remarks = Profile.model_validate(record.payload).remarks if record else ()
        return cut_middle(
            "\n".join(dict.fromkeys(f"{f'line {r.line}: ' if r.line else ''}{r.text}" for r in remarks)),
            MAX_LOG_CHARS // 2,
        )

    def time_pairs(self, candidate: Candidate) -> QuickTiming | Failed:
        """Time a correct candidate against the incumbent in a few pairs; return the timing or the failure."""
        record = self.judge.read_or_measure_timing(candidate, self.incumbent, self.baseline)
        failed = evidence.timing_failure(record)
        if failed is not None:
            return failed
        measured = evidence.measurements((record,), {}, TIMING_CONFIDENCE)
        return QuickTiming(evidence.speedup((record,), self.judge.policy.objective, TIMING_CONFIDENCE), measured)

    def disassembly(self, candidate: Candidate) -> str:
        """Return the disassembly of a candidate that compiles, or an empty text. SettingsError if the machine lacks the
        disassembler."""
        return self.judge.builder.disassembly_of(candidate)


def make_candidate(draft: Draft, language: str, parent: str, suffix: str, planned: tuple[str, ...]) -> Candidate:
    """Return a draft as a candidate with only those of its methods that were planned."""
    methods = tuple(method for method in dict.fromkeys(draft.methods) if method in planned)
    return Candidate(
        language=language, files={f"kernel{suffix}": draft.source}, parent=parent, methods=methods, knobs=draft.knobs
    )


def failure_text(name: str, failed: Failed | Unmeasured, source: str = "") -> str:
    """Return a draft's failure as text for its author; with `source` if the author cannot see its earlier answer."""
    if isinstance(failed, Unmeasured):
        return f"{name} cannot be tried here: {failed.reason}"
    log = f"\n{failed.log}" if failed.log and failed.log != failed.reason else ""
    said = cut_middle(f"{name} failed at {failed.stage}: {failed.reason}{log}", MAX_LOG_CHARS)
    return f"{said}\nIts source:\n{source}" if source else said
