"""The commands on the experience log. Each command is a typed request, from which its options and its MCP tool are
made."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from knowledge_base.artifacts import Attempt, PageType
from knowledge_base.experience import answer_lines, free_methods
from knowledge_base.experience.answer_lines import AppendReport, AttemptList, LogStats
from knowledge_base.experience.forecasts import scores_by_model
from knowledge_base.experience.log import Experience, read_logs
from knowledge_base.experience.recommend import Recommendation, covered_targets, read_conditions, recommend
from knowledge_base.experience.similarity import operator_family
from knowledge_base.experience.status import RESULT_BY_VERDICT, compact
from knowledge_base.experience.sync import SyncReport, sync_with_folder
from knowledge_base.pages.wiki import Wiki
from tools.artifacts import UNBOUNDED_RATIO, Artifact, Interval, digest
from tools.cli.suggestions import suggest_name, suggest_or_list
from tools.errors import SettingsError


class KnowledgeLocations(Artifact):
    """The folders in which a command looks."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    wiki: Path | None = None
    """folder of wiki pages (default: the bundled gpu-wiki)"""
    home: Path | None = None
    """folder that holds experience/, index/ and overlay/ (default: $KERNELWRIGHT_HOME)"""

    def open(self, *types: PageType) -> Wiki:
        """The wiki, or only its pages of `types`, which is faster."""
        return Wiki.open(self.wiki, types)


class CommandAnswer(NamedTuple):
    """The answer of a command."""

    artifact: Artifact | None
    """What an MCP client gets and `--json` prints; None: the command has only lines."""
    lines: Iterable[str]
    """The same as text."""
    code: int = 0
    """Exit code: 0 found, 1 nothing found or problems."""
    json: Any = None
    """What `--json` prints where it is not the artifact."""
    note: str = ""
    """A remark that goes to stderr."""


class KnowledgeCommand(Artifact):
    """A command. The docstring of a field is the help of its option; a field without a default must be given."""

    model_config = ConfigDict(use_attribute_docstrings=True)
    uses: ClassVar[tuple[str, ...]] = ("wiki", "home")
    """Fields of SearchLocations that the command line has."""
    positional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are positional arguments."""
    has_json: ClassVar[bool] = True
    answers: ClassVar[type[Artifact]] = Artifact
    """Type of the answer's artifact."""

    @abstractmethod
    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Carry the command out. SettingsError for a value that is not allowed."""


class ConditionsCommand(KnowledgeCommand):
    """A command about kernels in certain conditions; an empty field is any."""

    operator: str = ""
    """family or name, such as softmax"""
    language: str = ""
    """such as cpp or triton"""
    arch: str = ""
    """such as sm_90, hopper, H200, x86_64"""
    dtype: str = ""
    """such as float32"""
    bottleneck: str = ""
    """memory, compute, latency, occupancy, mixed, or a finding such as poor_coalescing"""


class RecommendCommand(ConditionsCommand):
    """Show what to try next in given conditions and why, by outcomes in similar conditions, or by the wiki where there
    are none; and what failed in the same conditions."""

    answers = Recommendation

    language: str
    """such as cpp or triton"""
    shape_class: str = ""
    """power of two in the unique bytes, such as 2^25B"""
    k: int = 5
    """proposals wanted (default 5)"""

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Ranked proposals, and what to avoid."""
        if self.k < 1:
            raise SettingsError(f"-k: must be at least 1, not {self.k}")
        wiki = locations.open()
        conditions = read_conditions(
            wiki,
            language=self.language,
            bottleneck=self.bottleneck,
            architecture=self.arch,
            operator=self.operator,
            dtype=self.dtype,
            shape_class=self.shape_class,
        )
        log = Experience(locations.home)
        recommendation = recommend(log.attempts(), conditions, wiki, self.k)
        return CommandAnswer(
            recommendation,
            answer_lines.recommendation_lines(recommendation),
            0 if recommendation.proposed else 1,
            note=log.damage_sentence(),
        )


class FilterCommand(ConditionsCommand):
    """A command on some of the attempts; an empty field lets all pass."""

    method: str = ""
    """id of a method"""
    result: str = ""
    """success, failure, unknown or crash"""

    def passing(self, attempts: Sequence[Attempt], wiki: Wiki) -> tuple[Attempt, ...]:
        """The attempts that pass every field."""
        wanted = covered_targets(wiki, self.arch) if self.arch else ()
        languages = sorted({*wiki.languages(), *(attempt.language for attempt in attempts)})
        if self.language and self.language not in languages:
            raise SettingsError(
                f"--language {self.language}: no page and no attempt is about it; "
                f"{suggest_or_list(self.language, languages)}"
            )
        if self.result and self.result not in RESULT_BY_VERDICT.values():
            raise SettingsError(
                f"--result {self.result}: is not a result; "
                f"{suggest_or_list(self.result, list(RESULT_BY_VERDICT.values()))}"
            )
        return tuple(
            attempt
            for attempt in attempts
            if (not self.operator or operator_family(attempt.operator) == operator_family(self.operator))
            and self.language in ("", attempt.language)
            and (not wanted or attempt.architecture in wanted)
            and self.dtype in ("", attempt.dtype)
            and self.bottleneck in ("", attempt.bottleneck, *attempt.findings)
            and self.method in ("", *attempt.methods)
            and self.result in ("", attempt.result)
        )

    def reason_for_none(self, log: Experience) -> str:
        """Why no attempt passes."""
        asked = ", ".join(f"{name} {value}" for name in FilterCommand.model_fields if (value := getattr(self, name)))
        count = len(log.attempts())
        return f"none of {count} attempts has {asked}" if asked and count else f"{log.folder} holds no attempt yet"


class ListCommand(FilterCommand):
    """Show past attempts, the newest first."""

    answers = AttemptList

    n: int = 20
    """attempts wanted (default 20)"""

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """The newest attempts that pass."""
        log = Experience(locations.home)
        passing = self.passing(log.attempts(), locations.open())
        return _list_answer(passing, self.n, "" if passing else self.reason_for_none(log), log)


class SearchCommand(FilterCommand):
    """Find past attempts by words."""

    positional = frozenset({"text"})
    answers = AttemptList

    text: str
    """words"""
    n: int = 20
    """attempts wanted (default 20)"""

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Attempts with words of `text` in any field, those with the most words first."""
        words = {word for word in self.text.lower().replace(",", " ").split() if word}
        if not words:
            raise SettingsError(
                f"search {self.text!r}: has no word to search for; give a method, an operator or words of a note"
            )
        log = Experience(locations.home)
        passing = self.passing(log.attempts(), locations.open())
        counted = [(sum(word in attempt.model_dump_json().lower() for word in words), attempt) for attempt in passing]
        hits = tuple(attempt for count, attempt in sorted(counted, key=lambda hit: -hit[0]) if count)
        nowhere = (
            f"none of {', '.join(sorted(words))} occurs in {len(passing)} attempts"
            if passing
            else self.reason_for_none(log)
        )
        return _list_answer(hits, self.n, "" if hits else nowhere, log)


def _list_answer(attempts: tuple[Attempt, ...], most: int, note: str, log: Experience) -> CommandAnswer:
    listed = AttemptList(attempts=attempts[:most], total=len(attempts), note=note)
    lines, code = answer_lines.attempt_lines(listed), 0 if listed.attempts else 1
    return CommandAnswer(listed, lines, code, note=log.damage_sentence())


class StatsCommand(FilterCommand):
    """Count outcomes by method; show whether each set of methods is resolved, pending or to be avoided, and how well
    each model's predictions hold."""

    answers = LogStats

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Counts of the attempts that pass, and their statuses."""
        log = Experience(locations.home)
        passing = self.passing(log.attempts(), locations.open())
        methods: dict[str, Counter[str]] = {}
        for attempt in passing:
            for method in attempt.methods:
                methods.setdefault(method, Counter())[attempt.result] += 1
        stats = LogStats(
            folder=str(log.folder),
            attempts=len(passing),
            results=dict(sorted(Counter(attempt.result for attempt in passing).items())),
            methods={method: dict(sorted(counts.items())) for method, counts in sorted(methods.items())},
            standings=compact(passing),
            forecasts=scores_by_model(passing),
            damaged=log.read_lines().damaged,
        )
        return CommandAnswer(stats, answer_lines.stats_lines(stats))


class AddCommand(ConditionsCommand):
    """Add an outcome that you state; it is marked as not measured by a run."""

    answers = AppendReport

    operator: str
    """family or name, such as softmax"""
    language: str
    """such as cpp or triton"""
    dtype: str
    """such as float32"""
    methods: tuple[str, ...]
    """method that was tried; once for each method of a set"""
    result: str
    """success, failure, unknown or crash"""
    effect: tuple[float, ...] = ()
    """old time / new time, or ESTIMATE LOW HIGH"""
    knobs: dict[str, str] = Field(default_factory=dict)
    """values of knobs, NAME=VALUE"""
    shape_class: str = ""
    """power of two in the unique bytes, such as 2^25B"""
    evidence: str = ""
    """id of a record that shows it"""
    commit: str = ""
    """commit that brought it"""
    note: str = ""
    """why, in words"""

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Append the outcome, once. SettingsError for one that cannot be kept."""
        wiki = locations.open()
        architecture = self._checked(wiki)
        names = ("operator", "language", "dtype", "result", "shape_class", "bottleneck", "evidence", "commit", "note")
        stated = {name: value for name in names if (value := getattr(self, name))}
        ends = self.effect[1:] or (1 / UNBOUNDED_RATIO, UNBOUNDED_RATIO)
        data = {
            "shape_class": "",
            "bottleneck": "unknown",
            # Equal for equal outcomes, so that each is kept once.
            "evidence": f"stated:{digest(self.model_dump_json())[:12]}",
            **stated,
            "architecture": architecture,
            "methods": self.methods,
            "verdict": next(verdict for verdict, result in RESULT_BY_VERDICT.items() if result == self.result),
            "effect": Interval(estimate=self.effect[0], low=ends[0], high=ends[1]) if self.effect else None,
            "knobs": self.knobs,
            "origin": "stated",
        }
        try:
            attempt = Attempt.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])).replace("_", "-")
            raise SettingsError(f"--{name} {first['input']!r}: cannot be kept ({first['msg']})") from error
        added = _writable_experience(locations).add(attempt, anew=True)
        done = AppendReport(added=int(added), known=int(not added))
        return CommandAnswer(done, answer_lines.append_lines(done))

    def _checked(self, wiki: Wiki) -> str:
        """The target of `arch`; SettingsError for a field that is missing or not allowed."""
        missing = [name for name in ("operator", "language", "dtype", "result") if not getattr(self, name)]
        missing += [] if self.methods else ["method"]
        if missing:
            raise SettingsError(f"experience add: {' and '.join(f'--{name}' for name in missing)} must be given")
        if self.language not in wiki.languages():
            raise SettingsError(
                f"--language {self.language}: no page is about it; {suggest_or_list(self.language, wiki.languages())}"
            )
        # A method without a page would say nothing to a later reader.
        known = [page.head.id for page in wiki.pages if page.head.type == "method"]
        for method in self.methods:
            if method not in known:
                near = suggest_name(
                    method, known, "`python -m knowledge_base query WORDS --kind method` finds the known ones"
                )
                raise SettingsError(f"--method {method}: no page of the wiki is about this method; {near}")
        if self.result not in RESULT_BY_VERDICT.values():
            raise SettingsError(
                f"--result {self.result}: is not a result; "
                f"{suggest_or_list(self.result, list(RESULT_BY_VERDICT.values()))}"
            )
        architecture = covered_targets(wiki, self.arch) if self.arch else ("",)
        if len(architecture) > 1:
            raise SettingsError(f"--arch {self.arch}: covers several targets; give one of {', '.join(architecture)}")
        ordered = len(self.effect) in (0, 1) or (
            len(self.effect) == 3 and self.effect[1] <= self.effect[0] <= self.effect[2]
        )
        if not ordered or any(value <= 0 for value in self.effect):
            raise SettingsError("--effect: must be old time / new time, as one positive number or as ESTIMATE LOW HIGH")
        return architecture[0]


class ListFreeMethodsCommand(KnowledgeCommand):
    """Show the methods that plans named themselves and that are in accepted versions, each with its page."""

    uses = ("home",)
    has_json = False

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Two lines for each method."""
        log = Experience(locations.home)
        found = free_methods.outcomes_by_method(log.attempts())
        lines = [line for one in found.values() for line in answer_lines.free_method_lines(one, log.home)]
        return CommandAnswer(
            None, lines or [f"{log.folder} holds no method that a plan named itself"], 0 if found else 1
        )


class _FreeMethodCommand(KnowledgeCommand):
    """A command that changes the page of a method that a plan named itself."""

    uses = ("home",)
    positional = frozenset({"method"})
    has_json = False

    method: str
    """such as own:two-rows-a-warp"""
    language: str = ""
    """only the page for this kernel language"""

    def restated(self, locations: KnowledgeLocations, said: dict[str, str] | None) -> int:
        """Append the method's outcomes again with other texts (None: without the method), and return their number.
        SettingsError for an unknown method."""
        log = _writable_experience(locations)
        found = free_methods.outcomes_by_method(log.attempts())
        met = [
            one
            for (language, method), one in found.items()
            if method == self.method and self.language in ("", language)
        ]
        if not met:
            known = suggest_name(
                self.method,
                {method for _, method in found},
                "`python -m knowledge_base experience own` shows the known ones",
            )
            raise SettingsError(
                f"{self.method}: the log holds no such method{self.language and f' for {self.language}'}; {known}"
            )
        attempts = [one for outcomes in met for one, _ in reversed(outcomes)]
        kept = ([free for free in one.free if said is not None or free.method != self.method] for one in attempts)
        free = [tuple(f.model_copy(update=said) if f.method == self.method else f for f in found) for found in kept]
        log.restate(one.model_copy(update={"free": now}) for one, now in zip(attempts, free, strict=True))
        return len(attempts)


class EditFreeMethodCommand(_FreeMethodCommand):
    """Change what the page of a method that a plan named itself says."""

    what: str = ""
    """what the method changes"""
    when: str = ""
    """when the method pays"""

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Give every outcome of the method the new texts."""
        said = {name: text for name, text in (("change", self.what), ("rationale", self.when)) if text}
        if not said:
            raise SettingsError("experience edit: --what or --when must be given")
        return CommandAnswer(None, [f"{self.method}: {self.restated(locations, said)} outcomes have the new text"])


class DropFreeMethodCommand(_FreeMethodCommand):
    """Delete the page of a method that a plan named itself; the outcomes of its versions stay."""

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Remove the method from its outcomes, so that no page is written."""
        return CommandAnswer(None, [f"{self.method}: {self.restated(locations, None)} outcomes no longer have a page"])


class MergeCommand(KnowledgeCommand):
    """Append the lines of other logs; the result does not depend on the order or on repetition."""

    positional = frozenset({"files"})
    answers = AppendReport

    files: tuple[Path, ...]
    """logs, or folders of logs"""

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Append the lines that this log does not hold."""
        log, lines = _writable_experience(locations), read_logs(*self.files)
        added = log.merge(lines.attempts)
        left_out = tuple(f"{where}: is not an attempt" for where in lines.damaged)
        done = AppendReport(added=added, known=len(lines.attempts) - added, left_out=left_out)
        return CommandAnswer(done, answer_lines.append_lines(done))


class SyncCommand(KnowledgeCommand):
    """Bring this log and a shared folder to the union of both; safe for many machines at once."""

    positional = frozenset({"folder"})
    answers = SyncReport

    folder: Path
    """an existing folder that all machines see"""

    def answer(self, locations: KnowledgeLocations) -> CommandAnswer:
        """Exchange the lines that one side lacks."""
        report = sync_with_folder(_writable_experience(locations), self.folder)
        return CommandAnswer(report, answer_lines.sync_lines(report))


def _writable_experience(locations: KnowledgeLocations) -> Experience:
    log = Experience(locations.home)
    log.refuse_unwritable()
    return log
