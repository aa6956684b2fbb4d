"""Methods that plans named themselves (`own:<slug>`), as pages made from the outcomes of accepted versions.

A model's text is quoted on one line, so that it becomes no heading and no row of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from knowledge_base.artifacts import Attempt, FreeMethod, FrontMatter, Page
from knowledge_base.experience.similarity import Conditions, likeness
from tools.cli.formatting import describe_bottleneck
from tools.store.blobs import write_atomically

FREE_METHOD_PREFIX = "own:"
PAGES_FOLDER = Path("overlay", "own")
EXPERIENCE_PATH = "<experience>"
"""How the path of such a page begins; it is not a page of the wiki, and is cited by its records."""
MIN_LIKENESS = 0.3
"""Least likeness of conditions at which a page is shown: another kind of operator, everything else equal."""
MAX_PAGES = 3
MIN_OPERATORS_GAINED = 3
"""Operators on which a method must have gained to be listed among the method pages."""

FreeMethodOutcomes = list[tuple[Attempt, FreeMethod]]


def outcomes_by_method(attempts: Iterable[Attempt]) -> dict[tuple[str, str], FreeMethodOutcomes]:
    """(language, method) -> the outcomes of accepted versions with it, in the order of `attempts` (newest first)."""
    found: dict[tuple[str, str], FreeMethodOutcomes] = {}
    for one in attempts:
        for free in one.free:
            found.setdefault((one.language, free.method), []).append((one, free))
    return dict(sorted(found.items()))


def operators_gained_on(found: FreeMethodOutcomes) -> tuple[str, ...]:
    """The operators on which the method by itself surely gained."""
    return tuple(sorted({one.operator for one, free in found if free.effect is not None and free.effect.low > 1}))


def pages_for_conditions(attempts: Iterable[Attempt], asked: Conditions) -> tuple[Page, ...]:
    """The pages of methods that were accepted in similar conditions, the most similar first."""
    scored = [
        (max(likeness(asked, one).score for one, _ in found), found) for found in outcomes_by_method(attempts).values()
    ]
    return tuple(
        page_of(found)
        for score, found in sorted(scored, key=lambda pair: -pair[0])[:MAX_PAGES]
        if score >= MIN_LIKENESS
    )


def page_of(found: FreeMethodOutcomes) -> Page:
    """The page of one method, with the text of its newest outcome."""
    last, free = found[0]
    title = free.method.removeprefix(FREE_METHOD_PREFIX).replace("-", " ")
    head = FrontMatter(
        id=free.method,
        type="method",
        title=title,
        applies_to=tuple(dict.fromkeys(one.architecture for one, _ in found if one.architecture)),
        sources=tuple(dict.fromkeys(one.evidence for one, _ in found)),
        axis=free.axis,
        languages=(last.language,),
        rules=tuple(dict.fromkeys(rule for one, _ in found for rule in one.findings)),
        signature=free.signature,
    )
    said = "Own experience, not a page of the wiki: versions with this method were accepted. The quotes are a model's."
    shown = "\n".join(f"- {_outcome_line(one, free)}" for one, free in found)
    what, when = (" ".join(text.split()) or "Not stated." for text in (free.change, free.rationale))
    body = f"# {title}\n\n{said}\n\n## What\n\n> {what}\n\n## When it pays\n\n> {when}\n\n{shown}\n"
    return Page(path=f"{EXPERIENCE_PATH}/{page_file_name(found)}", head=head, body=body, body_line=1)


def page_file_name(found: FreeMethodOutcomes) -> str:
    """The name of the page's file."""
    last, free = found[0]
    return f"{re.sub(r'[^a-z0-9]+', '-', last.language.lower())}-{free.method.removeprefix(FREE_METHOD_PREFIX)}.md"


def _outcome_line(one: Attempt, free: FreeMethod) -> str:
    rest = " + ".join(method for method in one.methods if method != free.method)
    effect, company = free.effect, f" beside {rest}" if rest else ""
    told = f"{effect.estimate:.3g}x [{effect.low:.3g}, {effect.high:.3g}]" if effect else "not separable"
    place = ", ".join(
        part
        for part in (one.architecture, free.device, one.dtype, one.shape_class, describe_bottleneck(one.bottleneck))
        if part
    )
    return (
        f"{told}{company} on {one.operator}: {place}; findings {', '.join(one.findings) or 'none'}; record "
        f"{one.evidence}"
    )


def write_pages(home: Path, attempts: Iterable[Attempt]) -> None:
    """Write the pages of all methods in `attempts` under `home`, and delete all others."""
    import yaml

    folder, wanted = home / PAGES_FOLDER, dict[str, bytes]()
    for found in outcomes_by_method(attempts).values():
        made = page_of(found)
        head = yaml.safe_dump(
            made.head.model_dump(mode="json", exclude_defaults=True), sort_keys=False, allow_unicode=True
        )
        wanted[page_file_name(found)] = f"---\n{head}---\n{made.body}".encode()
    for path in folder.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for file, text in wanted.items():
        if not (folder / file).is_file() or (folder / file).read_bytes() != text:
            write_atomically(folder / file, text)
