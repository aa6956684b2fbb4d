"""What a plan or an analysis cites, resolved against what its writer was given (law 3).

The prose of an analysis refers to figures: `[rule:ID]` stands for a finding of this inspection, `[record:ID METRIC]`
for a value in a record, `[record:ID]` for the record alone. The report puts the values in place from the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from agents.artifacts import AnalystBrief, PlannerBrief
from knowledge_base.experience.free_methods import FREE_METHOD_PREFIX

REFERENCE = re.compile(r"\[(?:rule:(?P<rule>[\w.-]+)|record:(?P<record>\w+)(?:\s+(?P<metric>[^\[\]\s]+))?)\]")
BROKEN_REFERENCE = re.compile(r"\[(?:rule|record)\b[^\]]*\]?")
WIKI_LINE = re.compile(r"(?:<gpu-wiki>/|(?=<reference>/))([^\s:`]+):(\d+)")
"""A line of the wiki or of a reference project."""
NOT_GIVEN = "[a line of the wiki that was not given]"


class GivenText(NamedTuple):
    """A stretch of a file that stands in a brief; lines count from 1."""

    path: str
    first_line: int
    last_line: int
    text: str


def given_texts(brief: PlannerBrief | AnalystBrief) -> Iterator[GivenText]:
    """The passages and pages of a brief; a page's front matter, above its body, counts as given."""
    pages, passages = brief.skills, brief.seen.operator
    if isinstance(brief, PlannerBrief):
        pages += (*brief.dossier.methods, *brief.dossier.earlier)
        passages += brief.dossier.passages
    for passage in passages:
        yield GivenText(passage.path, passage.first_line, passage.last_line, passage.text)
    for page in pages:
        yield GivenText(page.path, 1, page.body_line + page.body.count("\n"), page.body)


def given_records(brief: PlannerBrief | AnalystBrief) -> frozenset[str]:
    """Ids of the records that a brief names."""
    named = {*brief.records, *(record for finding in brief.findings for record in finding.evidence)}
    if isinstance(brief, PlannerBrief):
        named |= {attempt.evidence for attempt in (*brief.dossier.attempts, *brief.memory)}
        own_experience = (page for page in brief.dossier.methods if page.head.id.startswith(FREE_METHOD_PREFIX))
        named |= {record for page in own_experience for record in page.head.sources}
    return frozenset(named)


def is_given(citation: str, brief: PlannerBrief) -> bool:
    """Whether a citation names a record, a finding, or a line of a passage, page or spec of the brief."""
    named = WIKI_LINE.fullmatch(citation.strip())
    if named is None:
        return citation.strip() in given_records(brief) | {finding.rule for finding in brief.findings}
    path, line = named[1], int(named[2])
    cited_lines = {(c.path, c.line) for spec in brief.specs for c in (spec.citation, spec.via) if c}
    return (path, line) in cited_lines or any(
        path == text.path and text.first_line <= line <= text.last_line for text in given_texts(brief)
    )


def invented_lines(text: str, brief: PlannerBrief) -> tuple[str, ...]:
    """The lines of the wiki that a text names and its writer was not given."""
    return tuple(dict.fromkeys(match[0] for match in WIKI_LINE.finditer(text) if not is_given(match[0], brief)))


def without_invented_lines(text: str, brief: PlannerBrief) -> str:
    """`text` with NOT_GIVEN for each line of the wiki that its writer was not given."""
    return WIKI_LINE.sub(lambda match: match[0] if is_given(match[0], brief) else NOT_GIVEN, text)


def reference_faults(text: str, brief: AnalystBrief) -> Iterator[str]:
    """One sentence for each reference of an analysis that leads nowhere."""
    fired = {finding.rule for finding in brief.findings}
    records = given_records(brief) | brief.seen.counters.keys()
    for match in REFERENCE.finditer(text):
        if match["rule"] and match["rule"] not in fired:
            yield f"text: {match[0]} names no finding of this kernel"
        elif match["record"] and match["record"] not in records:
            yield f"text: {match[0]} names no record that you were given"
        elif match["metric"] and match["metric"] not in brief.seen.counters.get(match["record"], {}):
            yield f"text: {match[0]} names no metric of that record"
    for match in BROKEN_REFERENCE.finditer(REFERENCE.sub("", text)):
        yield f"text: {match[0]!r} is no reference; write [rule:ID] or [record:ID METRIC]"
