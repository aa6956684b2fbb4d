"""What is searched, of whatever kind: passages of the wiki, past outcomes, pieces of reference projects; each can be
cited."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from knowledge_base.artifacts import Attempt, FrontMatter, Page, Passage
from knowledge_base.experience.log import Experience, parse
from knowledge_base.pages import terminology
from knowledge_base.pages.wiki import SPOKEN, Wiki, lines_of, passages_of, refusal, yaml_loader
from tools.artifacts import digest
from tools.cli.formatting import describe_bottleneck
from tools.roofline.hardware import Citation

ASKED = Path(__file__).parent / "asked.yaml"
EXPERIENCE = "<experience>"
"""What the path of a past outcome begins with."""
ON_NVIDIA = frozenset({"cuda", "cutlass", "cutedsl", "triton", "gluon", "tilelang"})
ON_AMD = frozenset({"hip", "triton", "gluon", "flydsl", "tilelang"})
FAMILIES = {"sm_": ON_NVIDIA, "gfx": ON_AMD, "cpu": frozenset({"cpp"})}
"""How a target's name begins -> languages that are compiled for it."""
HOSTS = ("cpu", "x86_64", "aarch64", "arm64")


class Entry(NamedTuple):
    """One thing that a query can find."""

    passage: Passage
    tags: str = ""
    """What its page says that it is about."""
    languages: frozenset[str] = frozenset()
    """Empty: about all."""
    targets: frozenset[str] = frozenset()
    """Architectures as compilers name them (sm_90, gfx942, cpu); empty: about all."""
    asked: str = ""
    """Stands for the passage by a phrase in which people ask for its page, and not by the passage's own words."""

    @property
    def text(self) -> str:
        """What is embedded: headings before the text, since a section alone rarely says what it is about."""
        return self.asked or f"{' > '.join(self.passage.heading)}\n{self.passage.text}"

    def identity(self) -> str:
        """Of its place, its text and what filters see."""
        said = (
            self.passage.path,
            self.passage.first_line,
            self.text,
            self.passage.kind,
            sorted(self.languages),
            sorted(self.targets),
        )
        return hashlib.sha256(repr(said).encode()).hexdigest()[:32]


class Architectures:
    """Names of architectures, products and targets -> targets, by the wiki's page `platforms`."""

    def __init__(self, wiki: Wiki) -> None:
        self._wiki = wiki

    @cached_property
    def targets(self) -> dict[str, frozenset[str]]:
        """Name in lower case -> targets."""
        found = {name: frozenset({"cpu"}) for name in HOSTS}
        for name, targets in terminology.targets(self._wiki).items():
            lower = [target.lower() for target in targets]
            found |= {target: frozenset({target}) for target in lower} | {name: frozenset(lower)}
        return found

    def named(self, name: str) -> frozenset[str]:
        """The targets that a name stands for; empty: nobody knows it. `sm_90a` and `SM90` are `sm_90`."""
        key = re.sub(r"^(?:sm|compute)_?(\d+)[af]?$", r"sm_\1", name.strip().lower())
        return self.targets.get(key, frozenset())


def fits(entry: Entry, kind: str | None, language: str | None, targets: frozenset[str] | None) -> bool:
    """Whether an entry passes the filters that are given; what names no language or architecture is about all of
    them."""
    if kind is not None and entry.passage.kind != kind:
        return False
    if language is not None and entry.languages and not entry.languages & {language, SPOKEN.get(language, language)}:
        return False
    if targets is None:
        return True
    if entry.targets:
        return bool(entry.targets & targets)
    return not entry.languages or any(
        entry.languages & FAMILIES[family] for family in FAMILIES if any(t.startswith(family) for t in targets)
    )


def of_wiki(wiki: Wiki, architectures: Architectures) -> Iterator[Entry]:
    """Its passages; a Markdown file without our front matter is cut in the same way, as a guide about everything."""
    phrases = asked()
    for page in (*wiki.pages, *_foreign(wiki)):
        head = page.head
        tags = " ".join((head.id, *head.applies_to, *head.rules, head.recipe or ""))
        targets: frozenset[str] = frozenset().union(*(architectures.named(name) for name in head.applies_to))
        own = list(passages_of(page))
        for passage in own:
            yield Entry(passage, tags, frozenset(head.languages), targets)
        for phrase in phrases.get(head.id, ()) if own else ():
            yield Entry(own[0], "", frozenset(head.languages), targets, asked=phrase)


def asked(path: Path = ASKED) -> Mapping[str, tuple[str, ...]]:
    """Page id -> how people ask for the page who do not use its words."""
    import yaml

    found = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml_loader())
    return {str(page): tuple(map(str, phrases)) for page, phrases in found.items()}


def _foreign(wiki: Wiki) -> Iterator[Page]:
    for problem in wiki.problems:
        if not problem.text.startswith("has no front matter") or refusal(wiki.root, problem.path):
            continue
        body = (wiki.root / problem.path).read_bytes().decode("utf-8", errors="replace").removeprefix("\ufeff")
        lines = lines_of(body)
        title = next((line.lstrip("# ") for line in lines if line.startswith("# ")), problem.path)
        head = FrontMatter(id=problem.path, type="guide", title=title)
        yield Page(path=problem.path, head=head, body="\n".join(lines), body_line=1)


def of_experience(experience: Experience, architectures: Architectures) -> Iterator[Entry]:
    """Outcomes that count and are not masked, each by the line of the log that says it."""
    counting = {attempt.identity: attempt for attempt in experience.attempts()}
    places: dict[tuple[str, ...], Entry] = {}
    for path in sorted(experience.folder.glob("*.jsonl")):
        for number, line in enumerate(lines_of(path.read_text(encoding="utf-8", errors="replace")), 1):
            attempt = parse(line.encode(), number)
            if attempt is not None and counting.get(attempt.identity) == attempt:
                places[attempt.identity] = _outcome(attempt, f"{EXPERIENCE}/{path.name}", number, line, architectures)
    yield from places.values()


def _outcome(attempt: Attempt, path: str, number: int, line: str, architectures: Architectures) -> Entry:
    methods = " + ".join(attempt.methods) or "no method"
    effect = attempt.effect
    gain = f", {effect.estimate:.3g}x [{effect.low:.3g}, {effect.high:.3g}] over the incumbent" if effect else ""
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
    return Entry(
        passage, " ".join(attempt.methods), frozenset({attempt.language}), architectures.named(attempt.architecture)
    )
