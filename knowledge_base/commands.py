"""The commands on the wiki, its search and the citations of a workspace."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_base.artifacts import Page, Passage
from knowledge_base.experience import free_methods
from knowledge_base.experience.commands import CommandAnswer, KnowledgeCommand, KnowledgeLocations
from knowledge_base.experience.log import Experience
from tools.artifacts import Artifact
from tools.cli.suggestions import suggest_name, suggest_or_list
from tools.errors import SettingsError
from tools.roofline.hardware import Spec, UnknownSpec

if TYPE_CHECKING:
    from knowledge_base.search.index import Index

EXCERPT_CHARS = 300
"""Characters of a passage that `query` prints."""


class QueryAnswer(Artifact):
    """The passages that a query found."""

    passages: tuple[Passage, ...]
    explain: str
    """Why nothing was found."""
    note: str
    """Why the search went by words alone; empty when it had vectors, too."""


class SpecAnswer(Artifact):
    """A hardware figure, or the reason why there is none."""

    known: bool
    line: str
    """As it may be quoted: value, unit and citation, or UNKNOWN with the reason."""
    spec: Spec | None
    unknown: UnknownSpec | None


class SearchLocations(KnowledgeLocations):
    """Where a command looks that searches."""

    reference_folder: Path | None = None
    """folder of reference projects to search as well"""
    embedder: str | None = None
    """minilm, none (words alone) or package.module:Class (default: $KERNELWRIGHT_EMBEDDER, else none)"""
    chroma: str | None = None
    """URL of a Chroma server that holds the vectors instead of the home folder (default: $KERNELWRIGHT_CHROMA)"""

    def index(self) -> Index:
        """Everything there is to search."""
        from knowledge_base.search.index import Index

        return Index.open(
            self.open(), home=self.home, reference=self.reference_folder, embedder=self.embedder, server=self.chroma
        )


class QueryCommand(KnowledgeCommand):
    """Search the wiki, past outcomes and reference projects. Passages come with file, line range and why they
    matched."""

    uses = ("wiki", "home", "reference_folder", "embedder", "chroma")
    positional = frozenset({"text"})
    answers = QueryAnswer

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

    def answer(self, base: KnowledgeLocations) -> CommandAnswer:
        """The best passages. SettingsError for a filter that names nothing there is."""
        if self.k < 1:
            raise SettingsError(f"-k: must be at least 1, not {self.k}")
        if not isinstance(base, SearchLocations):
            raise TypeError(f"{base!r} has no index to search")
        index, filters = base.index(), {"kind": self.kind, "language": self.language, "arch": self.arch}
        if unknown := index.unknown_filters(**filters):
            raise SettingsError("; ".join(f"--{name}: {why}" for name, why in unknown.items()))
        passages = index.search(self.text, self.k, **filters)
        explained = "" if passages else index.explain(self.text, **filters)
        missing = ", ".join(index.words_nowhere(self.text))
        note = f"nothing here is about {missing}: the passages match the other words; " if missing and passages else ""
        note += f"the search went by words alone: {index.shortfall}; " if index.shortfall else ""
        note = note.removesuffix("; ")
        answer = QueryAnswer(passages=passages, explain=explained, note=note)
        return CommandAnswer(answer, _passage_lines(answer), 0 if passages else 1, note=note and f"note: {note}")


def _passage_lines(answer: QueryAnswer) -> Iterator[str]:
    if not answer.passages:
        yield f"nothing found: {answer.explain}"
    for passage in answer.passages:
        yield f"{passage.citation}-{passage.last_line}  {' > '.join(passage.heading)}"
        yield f"    {passage.kind}, score {passage.score:.4f}: {passage.why}"
        yield _excerpt(passage)
        if remedy := passage.remedy:
            yield f"    what to do: {remedy.citation}-{remedy.last_line}  {remedy.heading[-1]}"
            yield _excerpt(remedy)


def _excerpt(passage: Passage) -> str:
    text = re.sub(r"\A#+ .*\n+", "", passage.text)
    return textwrap.indent(textwrap.shorten(" ".join(text.split()), EXCERPT_CHARS, placeholder=" …"), "    ")


class PagesCommand(KnowledgeCommand):
    """Show the skill and method pages that answer rules of a profile, and methods of your own experience that gained on
    several kernels."""

    uses = ("wiki", "home")
    positional = frozenset({"rules"})

    rules: tuple[str, ...]
    """such as loop_not_vectorised"""
    language: str = ""
    """only pages about this kernel language, or about all"""

    def answer(self, base: KnowledgeLocations) -> CommandAnswer:
        """Skills first, then methods by priority."""
        from tools.analysis import rules

        known = {rule.id for rule in rules.load_rules()}
        unknown = [name for name in self.rules if name not in known]
        if unknown:
            hint = suggest_name(unknown[0], known, "`python -m tools diagnose` names those of a kernel")
            raise SettingsError(f"{unknown[0]!r} is no rule of tools/analysis/rules.yaml; {hint}")
        wiki = base.open().or_bundled_methods()
        if self.language and self.language not in wiki.languages():
            raise SettingsError(
                f"--language {self.language}: no page is about it; {suggest_or_list(self.language, wiki.languages())}"
            )
        ranked = sorted(wiki.pages, key=lambda page: (page.head.type != "skill", -page.head.priority, page.head.id))
        log = Experience(base.home)
        own = free_methods.outcomes_by_method(log.attempts()).values()
        ranked += (
            free_methods.page_of(one)
            for one in own
            if len(free_methods.operators_gained_on(one)) >= free_methods.MIN_OPERATORS_GAINED
        )
        about = [
            page for page in ranked if not self.language or self.language in (page.head.languages or (self.language,))
        ]
        pairs = [(rule, page) for rule in dict.fromkeys(self.rules) for page in about if rule in page.head.rules]
        return CommandAnswer(
            None,
            (f"{rule}: {p.head.type} {p.head.id}: {p.head.title}  {_page_location(p, log.home)}" for rule, p in pairs),
            0 if pairs else 1,
            [
                {"rule": rule, "type": p.head.type, "id": p.head.id, "title": p.head.title, "path": p.path}
                for rule, p in pairs
            ],
        )


def _page_location(page: Page, home: Path) -> str:
    if page.path.startswith(free_methods.EXPERIENCE_PATH):
        return str(home / free_methods.PAGES_FOLDER / Path(page.path).name)
    return f"<gpu-wiki>/{page.path}:{page.body_line}"


class SpecCommand(KnowledgeCommand):
    """Look up one hardware figure with its citation, such as H200 memory_bandwidth, variant SXM5. UNKNOWN must never be
    replaced by a guess."""

    uses = ("wiki",)
    positional = frozenset({"product", "metric"})
    answers = SpecAnswer

    product: str
    """such as H200"""
    metric: str
    """such as memory_bandwidth"""
    variant: str = ""
    """such as SXM5; needed where variants differ"""
    qualifier: str = ""
    """such as sparse or per_direction (default: dense or total)"""

    def answer(self, base: KnowledgeLocations) -> CommandAnswer:
        """The published figure; a measured roof of this machine has a name of its own."""
        from knowledge_base.specs import lookup, measured

        question = (self.product, self.metric, self.variant, self.qualifier)
        found = lookup.resolve_spec(base.open("hardware", "meta"), *question)
        if isinstance(found, UnknownSpec):
            found = measured.resolve_measured(*question) or found
        spec = found if isinstance(found, Spec) else None
        line = lookup.answer_line(found)
        figure = SpecAnswer(
            known=spec is not None, line=line, spec=spec, unknown=None if isinstance(found, Spec) else found
        )
        caveat = [f"    caveat: {spec.caveat}"] if spec and spec.caveat else []
        return CommandAnswer(
            figure, [line, *caveat], 0 if spec else 1, {"known": spec is not None, "line": line, **found.model_dump()}
        )


class UtilisationCommand(KnowledgeCommand):
    """Show what the kernel of a task reaches of the roofs measured here and of a product's published ones, such as
    H200, variant SXM5."""

    uses = ("wiki",)
    positional = frozenset({"product", "task"})
    has_json = False

    product: str
    """such as H200"""
    task: Path
    """task folder with reference.py and kernel.<ext>"""
    variant: str = ""
    """such as SXM5; needed where variants differ"""

    def answer(self, base: KnowledgeLocations) -> CommandAnswer:
        """A table of its workloads, and the lines that were cited."""
        from knowledge_base.specs import lookup
        from tools.analysis.diagnosis import render_utilisation
        from tools.roofline.roofline import ROOF_BY_WIKI_METRIC, roofs_from_specs
        from tools.tasks import loader
        from tools.tasks.task_handle import TaskHandle, open_machine

        wiki = base.open("hardware", "meta")
        found = [lookup.resolve_spec(wiki, self.product, metric, self.variant) for metric in ROOF_BY_WIKI_METRIC]
        with open_machine(None) as (executor, records):
            loaded = loader.load_task_folder(self.task, executor, records.blobs)
            placed = TaskHandle(loaded, executor, records, lambda *_: None).compute_roofline()
        text = render_utilisation(
            loaded.task, placed, roofs_from_specs([spec for spec in found if isinstance(spec, Spec)])
        )
        gaps = [lookup.answer_line(unknown) for unknown in found if isinstance(unknown, UnknownSpec)]
        return CommandAnswer(None, [*text.splitlines(), *gaps])


class LintCommand(KnowledgeCommand):
    """Check every page of the wiki, or every citation and figure of a workspace."""

    uses = ("wiki",)
    has_json = False

    workspace: Path | None = None
    """check every citation and figure of this run, in the wiki that it used"""

    def answer(self, base: KnowledgeLocations) -> CommandAnswer:
        """Every problem, then their number."""
        from knowledge_base.pages.wiki import Wiki
        from knowledge_base.search import citations
        from knowledge_base.specs.lint import lint_wiki
        from tools.analysis import rules

        if self.workspace is None:
            wiki = base.open()
            problems, count, what = (
                lint_wiki(wiki, frozenset(rule.id for rule in rules.load_rules())),
                len(wiki.pages),
                "pages",
            )
        else:
            wiki = Wiki.open(base.wiki or citations.wiki_path_of(self.workspace))
            count, figures, problems = citations.check_citations(
                self.workspace, wiki, citations.reference_projects_of(self.workspace)
            )
            what = f"citations, {figures} figures"
        return CommandAnswer(
            None, [*map(str, problems), f"{count} {what}, {len(problems)} problems"], 1 if problems else 0
        )


class OverlayCommand(KnowledgeCommand):
    """Write a measured roof as a page under $KERNELWRIGHT_HOME/overlay, so that it can be cited."""

    positional = frozenset({"record"})
    has_json = False

    record: str
    """file of a record of kind roof in a workspace, or its id with --workspace"""
    workspace: Path | None = None
    """the workspace that holds the record"""
    replace: bool = False
    """replace the page of another record of the same device and driver"""

    def answer(self, base: KnowledgeLocations) -> CommandAnswer:
        """Write the page, and say where it is."""
        from knowledge_base.specs import measured

        written = measured.write_overlay_page(
            self.record, base.open(), workspace=self.workspace, home=base.home, replace=self.replace
        )
        return CommandAnswer(None, [f"{written.path} {'is written' if written.changed else 'is up to date'}"])
