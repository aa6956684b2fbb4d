"""The verbs of `python -m knowledge_base` that ask the wiki, its search and a workspace."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_base.artifacts import Page, Passage
from knowledge_base.experience import free_methods
from knowledge_base.experience.log import Experience
from knowledge_base.experience.verbs import Answer, Base, Verb
from tools.artifacts import Artifact
from tools.cli.suggestions import meant, offered
from tools.errors import SettingsError
from tools.roofline.hardware import Spec, UnknownSpec

if TYPE_CHECKING:
    from knowledge_base.search.index import Index

EXCERPT = 300
"""Characters of a passage that `query` prints."""


class Passages(Artifact):
    """What a query found."""

    passages: tuple[Passage, ...]
    explain: str
    """Why nothing was found."""
    note: str
    """Why words alone were compared; empty when vectors were, too."""


class Figure(Artifact):
    """A hardware number, or that there is none."""

    known: bool
    line: str
    """As it may be quoted: value, unit and citation, or UNKNOWN with the reason."""
    spec: Spec | None
    unknown: UnknownSpec | None


class Place(Base):
    """Where a query looks, besides."""

    reference_folder: Path | None = None
    """folder of projects to search, too"""
    embedder: str | None = None
    """hashed, minilm or package.module:Class (default: $KERNELWRIGHT_EMBEDDER, else minilm if installed)"""
    chroma: str | None = None
    """URL of a Chroma server, where vectors are compared instead of here (default: $KERNELWRIGHT_CHROMA)"""

    def index(self) -> Index:
        """Everything there is to search."""
        from knowledge_base.search.index import Index

        return Index.open(
            self.open(), home=self.home, reference=self.reference_folder, embedder=self.embedder, server=self.chroma
        )


class Query(Verb):
    """Search the wiki, past outcomes and reference projects. Passages come with file, line range and why they
    matched."""

    uses = ("wiki", "home", "reference_folder", "embedder", "chroma")
    positional = frozenset({"text"})
    answers = Passages

    text: str
    """words, identifiers, anything"""
    k: int = 8
    """passages wanted (default 8)"""
    kind: str | None = None
    """only this kind: hardware, method, skill, guide, operator, meta, outcome, reference"""
    language: str | None = None
    """only what is about this kernel language, such as cpp or triton, or about all"""
    arch: str | None = None
    """only what is about this architecture (hopper, sm_90, H100, cpu), or about all"""

    def answer(self, base: Base) -> Answer:
        """The best passages. SettingsError for a filter that names nothing there is."""
        if self.k < 1:
            raise SettingsError(f"-k: {self.k} passages cannot be shown; give 1 or more")
        if not isinstance(base, Place):
            raise TypeError(f"{base!r} has no index to search")
        index, filters = base.index(), {"kind": self.kind, "language": self.language, "arch": self.arch}
        if unknown := index.unknown(**filters):
            raise SettingsError("; ".join(f"--{name}: {why}" for name, why in unknown.items()))
        passages = index.search(self.text, self.k, **filters)
        explained = "" if passages else index.explain(self.text, **filters)
        note = index.shortfall and f"words alone were compared: {index.shortfall}"
        answer = Passages(passages=passages, explain=explained, note=note)
        return Answer(answer, _passages(answer), 0 if passages else 1, note=note and f"note: {note}")


def _passages(answer: Passages) -> Iterator[str]:
    if not answer.passages:
        yield f"nothing found: {answer.explain}"
    for passage in answer.passages:
        yield f"{passage.citation}-{passage.last_line}  {' > '.join(passage.heading)}"
        yield f"    {passage.kind}, score {passage.score:.4f}: {passage.why}"
        yield textwrap.indent(textwrap.shorten(" ".join(passage.text.split()), EXCERPT, placeholder=" …"), "    ")


class Pages(Verb):
    """Skill and method pages that answer rules of the profile; methods of own experience that gained on several
    kernels, too."""

    uses = ("wiki", "home")
    positional = frozenset({"rules"})

    rules: tuple[str, ...]
    """such as loop_not_vectorised"""
    language: str = ""
    """only pages about this kernel language, or about all"""

    def answer(self, base: Base) -> Answer:
        """Skills first, then methods by priority."""
        from tools.analysis import rules

        known = {rule.id for rule in rules.load()}
        unknown = [name for name in self.rules if name not in known]
        if unknown:
            hint = meant(unknown[0], known, "`python -m tools diagnose` names those of a kernel")
            raise SettingsError(f"{unknown[0]!r} is no rule of tools/analysis/rules.yaml; {hint}")
        wiki = base.open().guide()
        if self.language and self.language not in wiki.languages():
            raise SettingsError(
                f"--language {self.language}: no page is about it; {offered(self.language, wiki.languages())}"
            )
        ranked = sorted(wiki.pages, key=lambda page: (page.head.type != "skill", -page.head.priority, page.head.id))
        log = Experience(base.home)
        own = free_methods.outcomes(log.attempts()).values()
        ranked += (free_methods.page(one) for one in own if len(free_methods.gained_on(one)) >= free_methods.OFFERED)
        about = [
            page for page in ranked if not self.language or self.language in (page.head.languages or (self.language,))
        ]
        pairs = [(rule, page) for rule in dict.fromkeys(self.rules) for page in about if rule in page.head.rules]
        return Answer(
            None,
            (f"{rule}: {p.head.type} {p.head.id}: {p.head.title}  {_place(p, log.home)}" for rule, p in pairs),
            0 if pairs else 1,
            [
                {"rule": rule, "type": p.head.type, "id": p.head.id, "title": p.head.title, "path": p.path}
                for rule, p in pairs
            ],
        )


def _place(page: Page, home: Path) -> str:
    if page.path.startswith(free_methods.PLACE):
        return str(home / free_methods.FOLDER / Path(page.path).name)
    return f"<gpu-wiki>/{page.path}:{page.body_line}"


class LookUp(Verb):
    """Look one hardware number up, with its citation, such as H200 memory_bandwidth, variant SXM5. UNKNOWN is never
    to be filled in."""

    uses = ("wiki",)
    positional = frozenset({"product", "metric"})
    answers = Figure

    product: str
    """such as H200"""
    metric: str
    """such as memory_bandwidth"""
    variant: str = ""
    """such as SXM5; needed where variants differ"""
    qualifier: str = ""
    """such as sparse or per_direction; dense and total are meant otherwise"""

    def answer(self, base: Base) -> Answer:
        """The published number; a measured roof of this machine only under its own name."""
        from knowledge_base.specs import lookup, measured

        question = (self.product, self.metric, self.variant, self.qualifier)
        found = lookup.resolve(base.open("hardware", "meta"), *question)
        if isinstance(found, UnknownSpec):
            found = measured.resolve(*question) or found
        spec = found if isinstance(found, Spec) else None
        line = lookup.gap(found)
        figure = Figure(
            known=spec is not None, line=line, spec=spec, unknown=None if isinstance(found, Spec) else found
        )
        caveat = [f"    caveat: {spec.caveat}"] if spec and spec.caveat else []
        return Answer(
            figure, [line, *caveat], 0 if spec else 1, {"known": spec is not None, "line": line, **found.model_dump()}
        )


class Utilisation(Verb):
    """What the kernel of a task reaches of the roofs measured here and of a product's published ones, such as H200,
    variant SXM5."""

    uses = ("wiki",)
    positional = frozenset({"product", "task"})
    has_json = False

    product: str
    """such as H200"""
    task: Path
    """task folder with reference.py and kernel.<ext>"""
    variant: str = ""
    """such as SXM5; needed where variants differ"""

    def answer(self, base: Base) -> Answer:
        """A table of its workloads, and the lines that were cited."""
        from knowledge_base.specs import lookup
        from tools.analysis.diagnosis import utilisation_text
        from tools.roofline.roofline import PUBLISHED, published
        from tools.tasks import loader
        from tools.tasks.task_handle import TaskHandle, open_local_machine

        wiki = base.open("hardware", "meta")
        found = [lookup.resolve(wiki, self.product, metric, self.variant) for metric in PUBLISHED]
        with open_local_machine(None) as (executor, records):
            loaded = loader.load_task_folder(self.task, executor, records.blobs)
            placed = TaskHandle(loaded, executor, records, lambda *_: None).compute_roofline()
        text = utilisation_text(loaded.task, placed, published([spec for spec in found if isinstance(spec, Spec)]))
        gaps = [lookup.gap(unknown) for unknown in found if isinstance(unknown, UnknownSpec)]
        return Answer(None, [*text.splitlines(), *gaps])


class Lint(Verb):
    """Check every page of the wiki, or every citation of a workspace."""

    uses = ("wiki",)
    has_json = False

    workspace: Path | None = None
    """open every citation of this run again, in the wiki that it used"""

    def answer(self, base: Base) -> Answer:
        """Every problem, then how many."""
        from knowledge_base.pages.wiki import Wiki
        from knowledge_base.search import citations
        from knowledge_base.specs.lint import lint
        from tools.analysis import rules

        if self.workspace is None:
            wiki = base.open()
            problems, count, what = lint(wiki, frozenset(rule.id for rule in rules.load())), len(wiki.pages), "pages"
        else:
            wiki = Wiki.open(base.wiki or citations.wiki_of(self.workspace))
            count, problems = citations.check(self.workspace, wiki, citations.reference_of(self.workspace))
            what = "citations"
        return Answer(None, [*map(str, problems), f"{count} {what}, {len(problems)} problems"], 1 if problems else 0)


class Overlay(Verb):
    """Make a measured roof citable: write its record as a page under $KERNELWRIGHT_HOME/overlay."""

    positional = frozenset({"record"})
    has_json = False

    record: str
    """file of a record of kind roof in a workspace, or its id with --workspace"""
    workspace: Path | None = None
    """the workspace that holds the record"""
    replace: bool = False
    """put it in the place of another record of the same device and driver"""

    def answer(self, base: Base) -> Answer:
        """Where the page is."""
        from knowledge_base.specs import measured

        written = measured.write(
            self.record, base.open(), workspace=self.workspace, home=base.home, replace=self.replace
        )
        return Answer(None, [f"{written.path} {'is written' if written.changed else 'says this already'}"])
