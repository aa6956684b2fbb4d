"""Resolves the citations of a plan or an analysis against the brief that its writer received.

The prose of an analysis refers to figures: `[rule:ID]` stands for a finding of this inspection, `[record:ID METRIC]`
for a value in a record, `[record:ID]` for the record alone. The report fills in the values from the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from agents.artifacts import AnalystBrief, PlannerBrief
from knowledge_base.experience.free_methods import FREE_METHOD_PREFIX

REFERENCE_PATTERN = re.compile(r"\[(?:rule:(?P<rule>[\w.-]+)|record:(?P<record>\w+)(?:\s+(?P<metric>[^\[\]\s]+))?)\]")
MALFORMED_REFERENCE_PATTERN = re.compile(r"\[(?:rule|record)\b[^\]]*\]?")
WIKI_LINE_PATTERN = re.compile(r"(?:<gpu-wiki>/|(?=<reference>/))([^\s:`]+):(\d+)")
"""Citation of a line of the wiki or of a reference project."""
NOT_GIVEN_PLACEHOLDER = "[a line of the wiki that was not given]"


class GivenText(NamedTuple):
    """A range of lines of a file that a brief contains; lines count from 1."""

    path: str
    first_line: int
    last_line: int
    text: str


def given_texts(brief: PlannerBrief | AnalystBrief) -> Iterator[GivenText]:
    """Yield the passages and pages of a brief. A page's front matter, above its body, counts as given."""
    pages, passages = brief.skills, brief.observations.operator
    if isinstance(brief, PlannerBrief):
        pages += (*brief.dossier.methods, *brief.dossier.earlier)
        passages += brief.dossier.passages
    for passage in passages:
        yield GivenText(passage.path, passage.first_line, passage.last_line, passage.text)
    for page in pages:
        yield GivenText(page.path, 1, page.body_line + page.body.count("\n"), page.body)


def given_record_ids(brief: PlannerBrief | AnalystBrief) -> frozenset[str]:
    """Return the ids of all records that a brief names."""
    named = {*brief.records, *(record for finding in brief.findings for record in finding.evidence)}
    if isinstance(brief, PlannerBrief):
        named |= {attempt.evidence for attempt in (*brief.dossier.attempts, *brief.memory)}
        own_experience = (page for page in brief.dossier.methods if page.head.id.startswith(FREE_METHOD_PREFIX))
        named |= {record for page in own_experience for record in page.head.sources}
    return frozenset(named)


def is_given_citation(citation: str, brief: PlannerBrief) -> bool:
    """Return whether a citation names a record, a finding, or a line of a passage, page or spec of the brief."""
    named = WIKI_LINE_PATTERN.fullmatch(citation.strip())
    if named is None:
        return citation.strip() in given_record_ids(brief) | {finding.rule for finding in brief.findings}
    path, line = named[1], int(named[2])
    cited_lines = {(c.path, c.line) for spec in brief.specs for c in (spec.citation, spec.via) if c}
    return (path, line) in cited_lines or any(
        path == text.path and text.first_line <= line <= text.last_line for text in given_texts(brief)
    )


def invented_wiki_lines(text: str, brief: PlannerBrief) -> tuple[str, ...]:
    """Return the wiki lines that a text cites although its writer did not receive them."""
    return tuple(
        dict.fromkeys(match[0] for match in WIKI_LINE_PATTERN.finditer(text) if not is_given_citation(match[0], brief))
    )


def replace_invented_wiki_lines(text: str, brief: PlannerBrief) -> str:
    """Return `text` with NOT_GIVEN_PLACEHOLDER for each wiki line that its writer did not receive."""
    return WIKI_LINE_PATTERN.sub(
        lambda match: match[0] if is_given_citation(match[0], brief) else NOT_GIVEN_PLACEHOLDER, text
    )


def reference_faults(text: str, brief: AnalystBrief) -> Iterator[str]:
    """Yield one sentence for each reference in an analysis that does not resolve."""
    fired = {finding.rule for finding in brief.findings}
    records = given_record_ids(brief) | brief.observations.counters.keys()
    for match in REFERENCE_PATTERN.finditer(text):
        if match["rule"] and match["rule"] not in fired:
            yield f"text: {match[0]} is not a finding of this kernel"
        elif match["record"] and match["record"] not in records:
            yield f"text: {match[0]} is not a record that you were given"
        elif match["metric"] and match["metric"] not in brief.observations.counters.get(match["record"], {}):
            yield f"text: {match[0]} is not a metric of that record"
    for match in MALFORMED_REFERENCE_PATTERN.finditer(REFERENCE_PATTERN.sub("", text)):
        yield f"text: {match[0]!r} is not a valid reference; write [rule:ID] or [record:ID METRIC]"
