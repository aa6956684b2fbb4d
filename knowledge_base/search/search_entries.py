"""The entries of a search: passages of the wiki, past outcomes and pieces of reference projects, each with a
citation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from knowledge_base.artifacts import Attempt, FrontMatter, Page, Passage
from knowledge_base.experience.log import Experience, parse_line
from knowledge_base.pages import names
from knowledge_base.pages.wiki import HOST_LANGUAGE, Wiki, lines_of, passages_of, reason_not_opened, yaml_loader
from tools.artifacts import digest
from tools.cli.formatting import describe_bottleneck
from tools.roofline.hardware import Citation

PHRASES_FILE = Path(__file__).parent / "question_phrases.yaml"
EXPERIENCE_PREFIX = "<experience>"
"""How the path of a past outcome begins."""
ON_NVIDIA = frozenset({"cuda", "cutlass", "cutedsl", "triton", "gluon", "tilelang"})
ON_AMD = frozenset({"hip", "triton", "gluon", "flydsl", "tilelang"})
LANGUAGES_BY_TARGET_PREFIX = {"sm_": ON_NVIDIA, "gfx": ON_AMD, "cpu": frozenset({"cpp"})}
"""How a target's name begins -> languages that are compiled for it."""
HOST_ARCHITECTURES = ("cpu", "x86_64", "aarch64", "arm64")


class SearchEntry(NamedTuple):
    """One thing that a query can find."""

    passage: Passage
    tags: str = ""
    """Words of the page's front matter that say what it is about."""
    languages: frozenset[str] = frozenset()
    """Empty: the entry is about all languages."""
    targets: frozenset[str] = frozenset()
    """Architectures as compilers name them (sm_90, gfx942, cpu); empty: the entry is about all."""
    phrase: str = ""
    """A phrase in which people ask for the page, by whose words the passage is found here; empty: by its own text."""

    @property
    def text(self) -> str:
        """The text with its headings before it, since a section alone rarely says what it is about."""
        return self.phrase or f"{' > '.join(self.passage.heading)}\n{self.passage.text}"


class Architectures:
    """Names of architectures, products and targets -> targets, by the wiki's page `platforms`."""

    def __init__(self, wiki: Wiki) -> None:
        self._wiki = wiki

    @cached_property
    def targets(self) -> dict[str, frozenset[str]]:
        """Name of an architecture or a product in lower case -> its targets."""
        found = {name: frozenset({"cpu"}) for name in HOST_ARCHITECTURES}
        for name, targets in names.targets_by_name(self._wiki).items():
            lower = [target.lower() for target in targets]
            found |= {target: frozenset({target}) for target in lower} | {name: frozenset(lower)}
        return found

    def targets_of(self, name: str) -> frozenset[str]:
        """The targets of a name; empty: the name is unknown. `sm_90a` and `SM90` are `sm_90`."""
        key = re.sub(r"^(?:sm|compute)_?(\d+)[af]?$", r"sm_\1", name.strip().lower())
        return self.targets.get(key, frozenset())


def passes_filters(entry: SearchEntry, kind: str | None, language: str | None, targets: frozenset[str] | None) -> bool:
    """Whether an entry passes the filters that are given; what names no language or architecture is about all of
    them."""
    if kind is not None and entry.passage.kind != kind:
        return False
    if (
        language is not None
        and entry.languages
        and not entry.languages & {language, HOST_LANGUAGE.get(language, language)}
    ):
        return False
    if targets is None:
        return True
    if entry.targets:
        return bool(entry.targets & targets)
    return not entry.languages or any(
        entry.languages & LANGUAGES_BY_TARGET_PREFIX[family]
        for family in LANGUAGES_BY_TARGET_PREFIX
        if any(t.startswith(family) for t in targets)
    )


def wiki_entries(wiki: Wiki, architectures: Architectures) -> Iterator[SearchEntry]:
    """The passages of a wiki; a Markdown file without our front matter is cut as a guide about everything."""
    phrases = question_phrases()
    for page in (*wiki.pages, *_plain_pages(wiki)):
        head = page.head
        tags = " ".join((head.id, *head.applies_to, *head.rules, head.recipe or ""))
        targets: frozenset[str] = frozenset().union(*(architectures.targets_of(name) for name in head.applies_to))
        own = list(passages_of(page))
        for passage in own:
            yield SearchEntry(passage, tags, frozenset(head.languages), targets)
        asked = [(own[0], head.id)] if own else []
        for passage, key in (*asked, *((passage, f"{head.id}#{passage.heading[-1]}") for passage in own)):
            for phrase in phrases.get(key, ()):
                yield SearchEntry(passage, "", frozenset(head.languages), targets, phrase=phrase)


def question_phrases(path: Path = PHRASES_FILE) -> Mapping[str, tuple[str, ...]]:
    """Page id, or `id#Heading` of a section -> phrases in which people ask for it without its own words."""
    import yaml

    found = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml_loader())
    return {str(page): tuple(map(str, phrases)) for page, phrases in found.items()}


def _plain_pages(wiki: Wiki) -> Iterator[Page]:
    for problem in wiki.problems:
        if not problem.text.startswith("has no front matter") or reason_not_opened(wiki.root, problem.path):
            continue
        body = (wiki.root / problem.path).read_bytes().decode("utf-8", errors="replace").removeprefix("\ufeff")
        lines = lines_of(body)
        title = next((line.lstrip("# ") for line in lines if line.startswith("# ")), problem.path)
        head = FrontMatter(id=problem.path, type="guide", title=title)
        yield Page(path=problem.path, head=head, body="\n".join(lines), body_line=1)


def experience_entries(experience: Experience, architectures: Architectures) -> Iterator[SearchEntry]:
    """The outcomes that count and are not masked, each with its line of the log."""
    counting = {attempt.identity: attempt for attempt in experience.attempts()}
    places: dict[tuple[str, ...], SearchEntry] = {}
    for path in sorted(experience.folder.glob("*.jsonl")):
        for number, line in enumerate(lines_of(path.read_text(encoding="utf-8", errors="replace")), 1):
            attempt = parse_line(line.encode())
            if attempt is not None and counting.get(attempt.identity) == attempt:
                places[attempt.identity] = _outcome_entry(
                    attempt, f"{EXPERIENCE_PREFIX}/{path.name}", number, line, architectures
                )
    yield from places.values()


def _outcome_entry(attempt: Attempt, path: str, number: int, line: str, architectures: Architectures) -> SearchEntry:
    methods = " + ".join(attempt.methods) or "no method"
    effect = attempt.effect
    interval = f" [{effect.low:.3g}, {effect.high:.3g}]" if effect and effect.is_bounded else ""
    gain = f", {effect.estimate:.3g}x{interval} over the incumbent" if effect else ""
    text = (
        f"{methods} on {attempt.operator} in {attempt.language}, {attempt.architecture}, {attempt.dtype}, "
        f"{attempt.shape_class}, "
        f"{describe_bottleneck(attempt.bottleneck)}: {attempt.result} ({attempt.verdict.replace('_', ' ')}{gain})."
    )
    passage = Passage(
        path=path,
        heading=("Past outcome", f"{attempt.operator}: {methods}"),
        first_line=number,
        last_line=number,
        text=f"{text} {attempt.note}".strip(),
        kind="outcome",
        citation=Citation(path=path, line=number, sha256=digest(line)),
    )
    return SearchEntry(
        passage,
        " ".join(attempt.methods),
        frozenset({attempt.language}),
        architectures.targets_of(attempt.architecture),
    )
