"""A folder of Markdown pages -> validated pages -> passages with line ranges that can be cited.

The bundled wiki lies in `knowledge_base/wiki/`; `gpu_wiki_path` points to any other folder of pages with our
front matter. A page that cannot be used is listed in `Wiki.problems` and costs nothing but itself.
"""

from __future__ import annotations

import operator
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from knowledge_base.artifacts import FrontMatter, Page, PageType, Passage, Trigger
from knowledge_base.pages.figures import HardwareFigures
from tools.artifacts import Quantity, digest
from tools.errors import SettingsError
from tools.roofline.hardware import Citation

BUNDLED_WIKI = Path(__file__).parents[1] / "wiki"
HOME_VARIABLE = "KERNELWRIGHT_HOME"
COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
HOST_LANGUAGE = {"cutlass": "cuda"}
"""Language -> the language that it is written in, whose pages apply to it as well."""
TARGET_NAME = re.compile(r"sm_\d+|gfx\w+")
TYPE_LINE = re.compile(r"type:\s*['\"]?(\w+)['\"]?\s*(?:#.*)?")
MAX_PAGE_BYTES = 4_000_000
"""Bytes; a larger file is an index or a dump, and no page."""
HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")


def home_folder() -> Path:
    """$KERNELWRIGHT_HOME, else ~/.local/share/kernelwright: measured roofs as pages, the experience log, search
    indexes."""
    return Path(os.environ.get(HOME_VARIABLE) or "~/.local/share/kernelwright").expanduser()


class WikiProblem(NamedTuple):
    """Something wrong with a page."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class TableRow(NamedTuple):
    """One row of a Markdown table."""

    line: int
    """In the file, from 1."""
    cells: dict[str, str]
    """Column header (lower case) -> text."""


class Wiki:
    """All pages of one wiki; read once, on `open`."""

    def __init__(self, root: Path, pages: tuple[Page, ...], problems: tuple[WikiProblem, ...]) -> None:
        self.root = root
        self.pages = pages
        self.problems = problems
        self.figures: HardwareFigures | None = None
        """Kept by `lookup.figures_of`."""
        self.now, self.mark = HardwareFigures(()), 0
        """Those that were on disk when its files had this mark, kept by `lookup.reverify`."""
        self._by_id = {page.head.id: page for page in pages}

    @classmethod
    def open(cls, path: Path | None = None, types: Collection[PageType] = ()) -> Wiki:
        """Read the wiki at `path` (None: the bundled one), or only its pages of `types`; SettingsError when it is no
        readable folder."""
        root = BUNDLED_WIKI if path is None else path
        if not root.is_dir() or not os.access(root, os.R_OK | os.X_OK):
            raise SettingsError(
                f"gpu_wiki_path: {str(root)!r} is not a readable folder; name a folder of wiki pages or leave it out "
                f"for the bundled wiki"
            )
        pages: dict[str, Page] = {}
        problems: list[WikiProblem] = []
        for file in sorted(root.rglob("*.md")):
            name = file.relative_to(root).as_posix()
            page = read_page(root, name, types)
            if page is None:
                continue
            if isinstance(page, WikiProblem):
                problems.append(page)
            elif page.head.id in pages:
                problems.append(
                    WikiProblem(name, 1, f"id {page.head.id!r} is already that of {pages[page.head.id].path}")
                )
            else:
                pages[page.head.id] = page
        return cls(root, tuple(pages.values()), tuple(problems))

    def fingerprint(self) -> int:
        """A number that changes when any file of the wiki does: by names, sizes and times."""
        seen = [(str(path), path.stat()) for path in self.root.rglob("*") if path.is_file()]
        return hash(tuple(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in seen)))

    def reopened(self) -> Wiki:
        """The wiki at the same path, read again."""
        return Wiki.open(self.root)

    def or_bundled_methods(self) -> Wiki:
        """The wiki with the methods and skills to go by: this one, or the bundled one where this has none."""
        return self if any(page.head.type == "method" for page in self.pages) else Wiki.open()

    def page(self, identity: str) -> Page | None:
        """The page with this id, or None."""
        return self._by_id.get(identity)

    def pages_about(self, kind: PageType, language: str) -> list[Page]:
        """Pages of a type about a kernel language, or about all."""
        spoken = {language, HOST_LANGUAGE.get(language, language)}
        return [
            page
            for page in self.pages
            if page.head.type == kind and spoken.intersection(page.head.languages or (language,))
        ]

    def methods(
        self,
        language: str,
        rules: Iterable[str],
        metrics: Mapping[str, Quantity],
        operator: str = "",
        architecture: str = "",
    ) -> tuple[Page, ...]:
        """Method pages of `language` of which a rule fired or a trigger holds over `metrics`.

        First those that leave their signature on `architecture`, of these those that the page on `operator` names, then
        those that answer most rules; without an operator, the highest priority first. A page that applies to other
        architectures alone is left out.
        """
        fired, named = set(rules), self.methods_for_operator(operator)
        found = [
            page
            for page in self.pages_about("method", language)
            if (
                fired.intersection(page.head.rules)
                or any(trigger_fires(trigger, metrics) for trigger in page.head.triggers)
            )
            and (not architecture or self.applies_to(page, architecture))
        ]

        def rank(page: Page) -> tuple[bool, bool, int, int, str]:
            elsewhere = bool(architecture and page.head.signature) and not {architecture, "*"} & set(
                page.head.signature
            )
            answers = len(fired.intersection(page.head.rules)) if operator else 0
            return elsewhere, page.head.id not in named, -answers, -page.head.priority, page.head.id

        return tuple(sorted(found, key=rank))

    def operator(self, name: str) -> Page | None:
        """The page on what a reference computes (`tools.contracts.operators`): by its name, else by most of its
        operations."""

        def fit(page: Page) -> tuple[bool, int]:
            tags = {tag.replace(" ", "_") for tag in (page.head.id, *page.head.applies_to)}
            return name in tags or page.head.id.startswith(name), len(tags.intersection(name.split("_")))

        best = (
            max((page for page in self.pages if page.head.type == "operator"), key=fit, default=None) if name else None
        )
        return best if best and any(fit(best)) else None

    def methods_for_operator(self, name: str) -> set[str]:
        """Ids of the methods that the page on an operator names; empty without such a page."""
        return self._linked_methods(page.body for page in (self.operator(name),) if page)

    @staticmethod
    def applies_to(page: Page, architecture: str) -> bool:
        """Whether a page is about an architecture, or names none."""
        return architecture in ([t for t in page.head.applies_to if TARGET_NAME.fullmatch(t)] or [architecture])

    def operator_passages(self, name: str, device: str) -> tuple[Passage, ...]:
        """The passages of that page, less those on the other kind of device."""
        page, other = self.operator(name), "GPU" if device == "cpu" else "CPU"
        return tuple(one for one in passages_of(page) if other not in one.heading[-1]) if page else ()

    @staticmethod
    def _linked_methods(texts: Iterable[str]) -> set[str]:
        """Ids of the methods that texts lead to."""
        return {name for text in texts for name in re.findall(r"\bmethods/([\w-]+)\.md\)", text)}

    def skills(self, language: str, rules: Iterable[str], most: int = 5) -> tuple[Page, ...]:
        """The skill pages of `language` that answer `rules`, in the order of these."""
        found = (page for rule in rules for page in self.pages_about("skill", language) if rule in page.head.rules)
        return tuple({page.head.id: page for page in found}.values())[:most]

    def methods_answering(self, language: str, rule: str) -> frozenset[str]:
        """Ids of the methods of `language` that answer `rule`: their pages name it, or a skill page on it names them
        among its fixes."""
        linked = self._linked_methods(section_text(page.body, "Fixes") for page in self.skills(language, [rule]))
        return frozenset(
            page.head.id
            for page in self.pages_about("method", language)
            if rule in page.head.rules or page.head.id in linked
        )

    def languages(self) -> tuple[str, ...]:
        """The kernel languages that its pages are about, in order."""
        return tuple(sorted({name for page in self.pages for name in page.head.languages}))

    def passages(self) -> tuple[Passage, ...]:
        """Every page cut at its headings; a heading with nothing below it before the next is left out."""
        return tuple(passage for page in self.pages for passage in passages_of(page))

    def confirms(self, cite_line: Citation) -> bool:
        """Whether the cited line, opened now, still says the same word for word: the one check of all citations of a
        wiki."""
        line = self.line(cite_line.path, cite_line.line)
        return line is not None and digest(line) == cite_line.sha256

    def line(self, path: str, number: int) -> str | None:
        """Line `number` (from 1) of the file `path` as it is now on disk; None where there is none."""
        if reason_not_opened(self.root, path):
            return None
        lines = lines_of((self.root / path).read_bytes().decode("utf-8", errors="replace"))
        return lines[number - 1] if 0 < number <= len(lines) else None


def reason_not_opened(root: Path, name: str) -> str:
    """Why the file `name` of the wiki at `root` is not opened; empty when it is. A pipe or a device would never end."""
    try:
        file = (root / name).resolve()
        if not file.is_relative_to(root.resolve()):
            return f"leads out of the wiki, to {file}; copy the file into the wiki"
        seen = file.stat()
    except (OSError, RuntimeError, ValueError) as error:
        return f"cannot be read: {error}"
    if not stat.S_ISREG(seen.st_mode):
        return "is no regular file"
    return (
        f"has {seen.st_size} bytes, more than the {MAX_PAGE_BYTES} of a page; split it"
        if seen.st_size > MAX_PAGE_BYTES
        else ""
    )


def lines_of(text: str) -> list[str]:
    """Lines as editors number them: they end at a line feed, a carriage return before it is no part of them, nothing
    else cuts."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def unfenced(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Index and text of the lines that stand in no block of code."""
    fenced = False
    for index, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield index, line


def section_text(body: str, heading: str) -> str:
    """What stands in a page's `body` under `## heading`; empty where there is no such heading."""
    found = re.search(rf"^## {re.escape(heading)}[ \t]*$(.*?)(?=^## |\Z)", body, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def trigger_fires(trigger: Trigger, metrics: Mapping[str, Quantity]) -> bool:
    """Whether a page's trigger holds; a metric that was not collected never fires. It may be named with or without
    its tool."""
    seen = metrics.get(trigger.metric) or metrics.get(f"{trigger.tool}.{trigger.metric}")
    return seen is not None and bool(COMPARISONS[trigger.op](seen.value, trigger.value))


def table_rows(page: Page, header: tuple[str, ...]) -> Iterator[TableRow]:
    """Rows of every table of `page` whose columns start with `header` (case ignored)."""
    columns: tuple[str, ...] | None = None
    for number, line in enumerate(lines_of(page.body), page.body_line):
        text = line.strip()
        if not text.startswith("|"):
            columns = None
            continue
        cells = tuple(cell.strip() for cell in text.strip("|").split("|"))
        if columns is None:
            columns = tuple(cell.lower() for cell in cells)
        elif columns[: len(header)] == header and not set(text) <= set("|-: "):
            yield TableRow(number, dict(zip(columns, cells, strict=False)))


def cite_line(page: Page, number: int) -> Citation:
    """Cite a line of the page's body."""
    return Citation(path=page.path, line=number, sha256=digest(lines_of(page.body)[number - page.body_line]))


def read_page(root: Path, name: str, types: Collection[PageType] = ()) -> Page | WikiProblem | None:
    """The page at `name` in the wiki at `root`, or what is wrong with it; None when its type is none of `types`, if
    they are given."""
    refused = reason_not_opened(root, name)
    if refused:
        return WikiProblem(name, 1, refused)
    try:
        lines = lines_of((root / name).read_bytes().decode("utf-8").removeprefix("\ufeff"))
    except (OSError, UnicodeDecodeError) as error:
        return WikiProblem(name, 1, f"cannot be read: {error}")
    if not lines or lines[0].strip() != "---":
        return WikiProblem(name, 1, "has no front matter; the file must start with a line of three dashes")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if end is None:
        return WikiProblem(name, 1, "front matter is not closed; add a line of three dashes after it")
    # Looked at before the YAML is parsed, which takes most of the time of a question about one kind of pages.
    kind = next((match[1] for line in lines[1:end] if (match := TYPE_LINE.fullmatch(line.rstrip()))), "")
    if types and kind and kind not in types:
        return None
    head = _front_matter(lines[1:end], name)
    if isinstance(head, WikiProblem):
        return head
    return Page(path=name, head=head, body="\n".join(lines[end + 1 :]), body_line=end + 2)


def _front_matter(lines: list[str], name: str) -> FrontMatter | WikiProblem:
    try:
        head: Any = yaml.load("\n".join(lines), Loader=yaml_loader())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 2
        return WikiProblem(name, line, f"front matter is not YAML: {error.problem}")
    if not isinstance(head, dict):
        return WikiProblem(name, 2, "front matter must be `key: value` lines")
    if isinstance(head.get("last_checked"), date):
        head["last_checked"] = head["last_checked"].isoformat()
    try:
        return FrontMatter.model_validate(head)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        line = next((number for number, text in enumerate(lines, 2) if text.startswith(f"{key}:")), 1)
        return WikiProblem(name, line, f"front matter: {'.'.join(map(str, first['loc']))}: {first['msg']}")


def yaml_loader() -> type[yaml.SafeLoader] | type[yaml.CSafeLoader]:
    """The fastest loader of plain YAML that this PyYAML has."""
    # libyaml reads the bundled wiki ten times faster; a PyYAML built without it lacks the class.
    return yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def passages_of(page: Page) -> Iterator[Passage]:
    """A page cut at its headings."""
    lines = lines_of(page.body)
    starts: list[tuple[int, tuple[str, ...]]] = []
    path: list[str] = [page.head.title]
    for index, line in unfenced(lines):
        match = HEADING.match(line)
        if match:
            level = len(match[1])
            path = [page.head.title] if level == 1 else [*path[: level - 1], match[2]]
            starts.append((index, tuple(path)))
    first = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
    if first < (starts[0][0] if starts else len(lines)):
        starts.insert(0, (first, (page.head.title,)))
    ends = [start for start, _ in starts[1:]] + [len(lines)]
    for (start, heading), end in zip(starts, ends, strict=True):
        while end > start + 1 and not lines[end - 1].strip():
            end -= 1
        if end == start + 1 and HEADING.match(lines[start]):
            continue
        yield Passage(
            path=page.path,
            heading=heading,
            first_line=page.body_line + start,
            last_line=page.body_line + end - 1,
            text="\n".join(lines[start:end]),
            kind=page.head.type,
            citation=cite_line(page, page.body_line + start),
        )
