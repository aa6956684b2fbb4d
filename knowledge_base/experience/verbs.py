"""What can be asked of the experience log. Each verb is a typed request, of which its options and its MCP tool are
drawn."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from knowledge_base.artifacts import Attempt, PageType
from knowledge_base.experience import formatting, free_methods
from knowledge_base.experience import sync as log_sync
from knowledge_base.experience.forecasts import scores
from knowledge_base.experience.formatting import Added, Listed, Stats
from knowledge_base.experience.log import Experience, read
from knowledge_base.experience.recommend import Recommendation, conditions, recommend, targets
from knowledge_base.experience.similarity import family
from knowledge_base.experience.status import RESULTS, compacted
from knowledge_base.pages.wiki import Wiki
from tools.artifacts import UNBOUNDED_RATIO, Artifact, Interval, digest
from tools.cli.suggestions import meant, offered
from tools.errors import SettingsError


class Base(Artifact):
    """Where a verb looks."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    wiki: Path | None = None
    """folder of wiki pages (default: the bundled gpu-wiki)"""
    home: Path | None = None
    """folder that holds experience/, index/ and overlay/ (default: $KERNELWRIGHT_HOME)"""

    def open(self, *types: PageType) -> Wiki:
        """The wiki, or (sooner) only its pages of `types`."""
        return Wiki.open(self.wiki, types)


class Answer(NamedTuple):
    """What a verb gives back."""

    artifact: Artifact | None
    """What an MCP client gets, and `--json` prints; None: the verb has lines alone."""
    lines: Iterable[str]
    """The same for people."""
    code: int = 0
    """Exit code: 0 found, 1 nothing found or problems."""
    json: Any = None
    """What `--json` prints where it is not the artifact."""
    note: str = ""
    """For people, beside the answer."""


class Verb(Artifact):
    """A question or an order. A field's docstring is the help of its option; what has no default must be given."""

    model_config = ConfigDict(use_attribute_docstrings=True)
    uses: ClassVar[tuple[str, ...]] = ("wiki", "home")
    """Fields of Base that its command line has."""
    positional: ClassVar[frozenset[str]] = frozenset()
    """Fields that are given without the name of an option."""
    has_json: ClassVar[bool] = True
    answers: ClassVar[type[Artifact]] = Artifact
    """Type of its answer's artifact."""

    @abstractmethod
    def answer(self, base: Base) -> Answer:
        """Ask. SettingsError for what means nothing."""


class Described(Verb):
    """A verb about kernels in certain conditions; an empty field is not asked."""

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


class Recommend(Described):
    """What to try next under given conditions and why, by outcomes in like conditions; where nobody tried anything,
    by the wiki. And what failed in the same conditions."""

    answers = Recommendation

    language: str
    """such as cpp or triton"""
    shape_class: str = ""
    """power of two in the unique bytes, such as 2^25B"""
    k: int = 5
    """proposals wanted (default 5)"""

    def answer(self, base: Base) -> Answer:
        """Ranked proposals, and what to avoid."""
        if self.k < 1:
            raise SettingsError(f"-k: {self.k} proposals cannot be shown; give 1 or more")
        wiki = base.open()
        asked = conditions(
            wiki,
            language=self.language,
            bottleneck=self.bottleneck,
            architecture=self.arch,
            operator=self.operator,
            dtype=self.dtype,
            shape_class=self.shape_class,
        )
        recommendation = recommend(Experience(base.home).attempts(), asked, wiki, self.k)
        return Answer(recommendation, formatting.recommended(recommendation), 0 if recommendation.proposed else 1)


class Filter(Described):
    """Which attempts are meant; an empty field lets all pass."""

    method: str = ""
    """id of a method"""
    result: str = ""
    """success, failure, unknown or crash"""

    def passing(self, attempts: Sequence[Attempt], wiki: Wiki) -> tuple[Attempt, ...]:
        """Those of `attempts` that are meant."""
        wanted = targets(wiki, self.arch) if self.arch else ()
        languages = sorted({*wiki.languages(), *(attempt.language for attempt in attempts)})
        if self.language and self.language not in languages:
            raise SettingsError(
                f"--language {self.language}: no page and no attempt is about it; {offered(self.language, languages)}"
            )
        if self.result and self.result not in RESULTS.values():
            raise SettingsError(f"--result {self.result}: is none; {offered(self.result, list(RESULTS.values()))}")
        return tuple(
            attempt
            for attempt in attempts
            if (not self.operator or family(attempt.operator) == family(self.operator))
            and self.language in ("", attempt.language)
            and (not wanted or attempt.architecture in wanted)
            and self.dtype in ("", attempt.dtype)
            and self.bottleneck in ("", attempt.bottleneck, *attempt.findings)
            and self.method in ("", *attempt.methods)
            and self.result in ("", attempt.result)
        )

    def nothing(self, log: Experience) -> str:
        """Why none passes."""
        asked = ", ".join(f"{name} {value}" for name in Filter.model_fields if (value := getattr(self, name)))
        count = len(log.attempts())
        return f"none of {count} attempts is of {asked}" if asked and count else f"{log.folder} holds no attempt yet"


class ListAttempts(Filter):
    """Show past attempts, the newest first."""

    answers = Listed

    n: int = 20
    """attempts wanted (default 20)"""

    def answer(self, base: Base) -> Answer:
        """The newest attempts that pass."""
        log = Experience(base.home)
        passing = self.passing(log.attempts(), base.open())
        return _listed(passing, self.n, "" if passing else self.nothing(log))


class SearchAttempts(Filter):
    """Find past attempts by words."""

    positional = frozenset({"text"})
    answers = Listed

    text: str
    """words"""
    n: int = 20
    """attempts wanted (default 20)"""

    def answer(self, base: Base) -> Answer:
        """Attempts in which words of `text` occur (method, operator, note, knobs, evidence …): those with the most
        of them first."""
        words = {word for word in self.text.lower().replace(",", " ").split() if word}
        if not words:
            raise SettingsError(
                f"search {self.text!r}: has no word to look for; give a method, an operator or words of a note"
            )
        log = Experience(base.home)
        passing = self.passing(log.attempts(), base.open())
        counted = [(sum(word in attempt.model_dump_json().lower() for word in words), attempt) for attempt in passing]
        hits = tuple(attempt for count, attempt in sorted(counted, key=lambda hit: -hit[0]) if count)
        nowhere = (
            f"none of {', '.join(sorted(words))} occurs in {len(passing)} attempts" if passing else self.nothing(log)
        )
        return _listed(hits, self.n, "" if hits else nowhere)


def _listed(attempts: tuple[Attempt, ...], most: int, note: str) -> Answer:
    listed = Listed(attempts=attempts[:most], of=len(attempts), note=note)
    return Answer(listed, formatting.listed(listed), 0 if listed.attempts else 1)


class CountAttempts(Filter):
    """Count outcomes by method, and say of each set of methods whether it is resolved, pending or to be avoided, of
    each model how far its predictions hold."""

    answers = Stats

    def answer(self, base: Base) -> Answer:
        """Counts, and the log compacted."""
        log = Experience(base.home)
        passing = self.passing(log.attempts(), base.open())
        methods: dict[str, Counter[str]] = {}
        for attempt in passing:
            for method in attempt.methods:
                methods.setdefault(method, Counter())[attempt.result] += 1
        stats = Stats(
            folder=str(log.folder),
            attempts=len(passing),
            results=dict(sorted(Counter(attempt.result for attempt in passing).items())),
            methods={method: dict(sorted(counts.items())) for method, counts in sorted(methods.items())},
            standings=compacted(passing),
            forecasts=scores(passing),
            damaged=log.lines().damaged,
        )
        return Answer(stats, formatting.counted(stats))


class Add(Described):
    """Keep an outcome that you state; it is marked as not measured by a run."""

    answers = Added

    operator: str
    """family or name, such as softmax"""
    language: str
    """such as cpp or triton"""
    dtype: str
    """such as float32"""
    methods: tuple[str, ...]
    """what was tried; once for each method of a set"""
    result: str
    """success, failure, unknown or crash"""
    effect: tuple[float, ...] = ()
    """old time / new time, or ESTIMATE LOW HIGH"""
    knobs: dict[str, str] = Field(default_factory=dict)
    """values of knobs, NAME=VALUE"""
    shape_class: str = ""
    """power of two in the unique bytes, such as 2^25B"""
    evidence: str = ""
    """id of what shows it"""
    commit: str = ""
    """commit that brought it"""
    note: str = ""
    """why, in words"""

    def answer(self, base: Base) -> Answer:
        """Append it, once. SettingsError for what cannot be kept."""
        wiki = base.open()
        architecture = self._checked(wiki)
        names = ("operator", "language", "dtype", "result", "shape_class", "bottleneck", "evidence", "commit", "note")
        stated = {name: value for name in names if (value := getattr(self, name))}
        ends = self.effect[1:] or (1 / UNBOUNDED_RATIO, UNBOUNDED_RATIO)
        data = {
            "shape_class": "",
            "bottleneck": "unknown",
            # The same for the same outcome, so that it is kept once.
            "evidence": f"stated:{digest(self.model_dump_json())[:12]}",
            **stated,
            "architecture": architecture,
            "methods": self.methods,
            "verdict": next(verdict for verdict, result in RESULTS.items() if result == self.result),
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
        added = _writable(base).add(attempt, anew=True)
        done = Added(added=int(added), known=int(not added))
        return Answer(done, formatting.added(done))

    def _checked(self, wiki: Wiki) -> str:
        """The target that `arch` means; SettingsError for what means nothing."""
        missing = [name for name in ("operator", "language", "dtype", "result") if not getattr(self, name)]
        missing += [] if self.methods else ["method"]
        if missing:
            raise SettingsError(f"experience add: {' and '.join(f'--{name}' for name in missing)} must be given")
        if self.language not in wiki.languages():
            raise SettingsError(
                f"--language {self.language}: no page is about it; {offered(self.language, wiki.languages())}"
            )
        # A method that no page describes would say nothing to whom it is recommended later.
        known = [page.head.id for page in wiki.pages if page.head.type == "method"]
        for method in self.methods:
            if method not in known:
                near = meant(
                    method, known, "`python -m knowledge_base query WORDS --kind method` finds those there are"
                )
                raise SettingsError(f"--method {method}: no page of the wiki is about such a method; {near}")
        if self.result not in RESULTS.values():
            raise SettingsError(f"--result {self.result}: is none; {offered(self.result, list(RESULTS.values()))}")
        architecture = targets(wiki, self.arch) if self.arch else ("",)
        if len(architecture) > 1:
            raise SettingsError(f"--arch {self.arch}: covers several targets; give one of {', '.join(architecture)}")
        ordered = len(self.effect) in (0, 1) or (
            len(self.effect) == 3 and self.effect[1] <= self.effect[0] <= self.effect[2]
        )
        if not ordered or any(value <= 0 for value in self.effect):
            raise SettingsError("--effect: must be old time / new time, as one positive number or as ESTIMATE LOW HIGH")
        return architecture[0]


class ListOwn(Verb):
    """Show the methods that plans named themselves and versions were accepted with, each with its page."""

    uses = ("home",)
    has_json = False

    def answer(self, base: Base) -> Answer:
        """Two lines each."""
        log = Experience(base.home)
        found = free_methods.outcomes(log.attempts())
        lines = [line for one in found.values() for line in formatting.own_method(one, log.home)]
        return Answer(None, lines or [f"{log.folder} holds no method that a plan named itself"], 0 if found else 1)


class _OfOwn(Verb):
    """A change of the page of a method that a plan named itself."""

    uses = ("home",)
    positional = frozenset({"method"})
    has_json = False

    method: str
    """such as own:two-rows-a-warp"""
    language: str = ""
    """only its page for this kernel language"""

    def restated(self, base: Base, said: dict[str, str] | None) -> int:
        """How many outcomes were stated again, with other texts; None: without the method. SettingsError where none
        is kept."""
        log = _writable(base)
        found = free_methods.outcomes(log.attempts())
        met = [
            one
            for (language, method), one in found.items()
            if method == self.method and self.language in ("", language)
        ]
        if not met:
            known = meant(
                self.method,
                {method for _, method in found},
                "`python -m knowledge_base experience own` shows those there are",
            )
            raise SettingsError(
                f"{self.method}: no such method is kept{self.language and f' for {self.language}'}; {known}"
            )
        attempts = [one for outcomes in met for one, _ in reversed(outcomes)]
        kept = ([free for free in one.free if said is not None or free.method != self.method] for one in attempts)
        free = [tuple(f.model_copy(update=said) if f.method == self.method else f for f in found) for found in kept]
        log.restate(one.model_copy(update={"free": now}) for one, now in zip(attempts, free, strict=True))
        return len(attempts)


class EditOwn(_OfOwn):
    """Change what the page of a method that a plan named itself says."""

    what: str = ""
    """what the method changes"""
    when: str = ""
    """when it pays"""

    def answer(self, base: Base) -> Answer:
        """Every outcome of it says so from now on."""
        said = {name: text for name, text in (("change", self.what), ("rationale", self.when)) if text}
        if not said:
            raise SettingsError("experience edit: --what or --when must be given")
        return Answer(None, [f"{self.method}: {self.restated(base, said)} outcomes say so now"])


class DropOwn(_OfOwn):
    """Take back the page of a method that a plan named itself; what came of the versions with it stays."""

    def answer(self, base: Base) -> Answer:
        """Its page is gone."""
        return Answer(None, [f"{self.method}: {self.restated(base, None)} outcomes make no page any more"])


class Merge(Verb):
    """Append what other logs hold; in any order, any number of times, the result is the same."""

    positional = frozenset({"files"})
    answers = Added

    files: tuple[Path, ...]
    """logs, or folders that hold some"""

    def answer(self, base: Base) -> Answer:
        """What they hold and this one does not is appended."""
        log, lines = _writable(base), read(*self.files)
        added = log.merge(lines.attempts)
        left = tuple(f"{where}: is no attempt" for where in lines.damaged)
        done = Added(added=added, known=len(lines.attempts) - added, left=left)
        return Answer(done, formatting.added(done))


class Sync(Verb):
    """Bring this log and a shared folder, or a branch of a git remote, to the union of both; safe for many machines
    at once."""

    positional = frozenset({"place"})
    answers = log_sync.Synced

    place: str
    """a folder that exists, a bare repository or the URL of one"""

    def answer(self, base: Base) -> Answer:
        """Both hold the union."""
        synced = log_sync.sync(_writable(base), self.place)
        return Answer(synced, formatting.synced(synced))


def _writable(base: Base) -> Experience:
    log = Experience(base.home)
    log.refuse_unwritable()
    return log
