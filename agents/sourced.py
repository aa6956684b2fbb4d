"""What a model says of the hardware needs a source (law 2), and a source that it names must be one that it was given (law 3)."""

from __future__ import annotations

import re

from agents.artifacts import Analysis, AnalystBrief, Hypothesis, Plan, PlannerBrief
from tools.uncited import Sources, Uncited, uncited

WIKI = re.compile(r"(?:<gpu-wiki>/|(?=<reference>/))([^\s:`]+):(\d+)")
"""A line of the wiki or of a reference project."""
LEFT_OUT = "The model's text is left out: it states a figure of the hardware without a source."


def known(brief: PlannerBrief | AnalystBrief) -> Sources:
    """The sources that an answer to `brief` can name: its records, and the cited specs with what they say."""
    records = {*brief.records, *(record for finding in brief.findings for record in finding.evidence)}
    if isinstance(brief, PlannerBrief):
        records.update(attempt.evidence for attempt in (*brief.dossier.attempts, *brief.memory))
    return Sources(frozenset(records), frozenset((str(spec.citation), f"{spec.value!r} {spec.unit}") for spec in brief.specs))


def faults(answer: Plan | Analysis, sources: Sources) -> tuple[str, ...]:
    """One sentence for each figure of hardware in the prose of `answer` that `sources` do not vouch for: field, figure, line, remedy."""
    return tuple(_sentence(field, one) for field, text in _prose(answer) for one in uncited(text, sources))


def unsourced(hypothesis: Hypothesis, sources: Sources) -> bool:
    """Whether a hypothesis states such a figure."""
    return bool(uncited(hypothesis.change, sources) or uncited(hypothesis.rationale, sources))


def unresolved(citation: str, brief: PlannerBrief) -> bool:
    """Whether what a hypothesis cites is neither a record, nor a line of a passage, page or spec, that its writer was given."""
    named = WIKI.fullmatch(citation.strip())
    if named is None:
        return citation.strip() not in known(brief).records
    path, line = named[1], int(named[2])
    shown = [(p.path, p.first_line, p.last_line) for p in brief.dossier.passages]
    # A page's head, above its body, is part of what was given.
    shown += [(p.path, 1, p.body_line + p.body.count("\n")) for p in (*brief.dossier.methods, *brief.skills)]
    shown += [(place.path, place.line, place.line) for spec in brief.specs for place in (spec.citation, spec.via) if place]
    return not any(path == where and first <= line <= last for where, first, last in shown)


def invented(text: str, brief: PlannerBrief) -> tuple[str, ...]:
    """The lines of the wiki that a text names and its writer was never given."""
    return tuple(dict.fromkeys(found[0] for found in WIKI.finditer(text) if unresolved(found[0], brief)))


def _prose(answer: Plan | Analysis) -> tuple[tuple[str, str], ...]:
    if isinstance(answer, Analysis):
        return (("text", answer.text),)
    told = [("reason", answer.reason)]
    for item in answer.methods:
        told += [
            (f"{item.method}: hypothesis.change", item.hypothesis.change),
            (f"{item.method}: hypothesis.rationale", item.hypothesis.rationale),
        ]
    return tuple(told)


def _sentence(field: str, one: Uncited) -> str:
    return (
        f'{field}: {one.figure!r} stands without a source in "{one.sentence}"; put the citation `<gpu-wiki>/path:line` of a spec that you '
        "were given behind it, name the record in the same sentence, or leave the figure out"
    )
