"""How the prose of an analysis names its figures: by reference, so that they are put in place from the records and
never restated.

`[rule:ID]` stands for a finding of this inspection, `[record:ID METRIC]` for a value in a record, `[record:ID]` for the
record alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from agents.artifacts import AnalystBrief
from agents.checks.sourced import SENTENCE, SOURCE_CODE

REFERENCE = re.compile(r"\[(?:rule:(?P<rule>[\w.-]+)|record:(?P<record>\w+)(?:\s+(?P<metric>[^\[\]\s]+))?)\]")
BROKEN = re.compile(r"\[(?:rule|record)\b[^\]]*\]?")
LEFT_OUT = "[left out: a sentence that restates a figure instead of naming its record, or refers to what is not there]"
WIKI = re.compile(r"<gpu-wiki>/[^\s:`]+:\d+")
CODE = re.compile(r"`[^`\n]*`")
SOURCE_SAYS = re.compile(
    r"\d+(?:-byte\b|[\s\u00a0\u202f-]?bytes?\s+(?:per|an?|each|apart|between|wide|long)\b)|\d+\s?[×x]\s?\d+|"
    r"\bunroll(?:ed|s)?\s+(?:by\s+)?\d+(?:\s?[x×]|\s+times)(?!\w)|"
    r"\b(?:read|written|loaded|stored|called|computed|formed)\s+\d+\s+times\b(?!\s+(?:more|as|slower|longer|faster|the))"
)
"""What a reader of the source counts there: widths of types, strides, tiles, how often a line reads a row."""
UNIT = (
    r"(?:%|×|x\b|per\s?cent\b|percent\b|times\b|-?fold\b|[nmuµμ]?s\b|(?:nano|micro|milli)?-?seconds?\b|[KMGTP]?i?B(?:/s|ps)?\b|"
    r"(?:[kKMGTP]i?|kilo|mega|giga|tera)?[Bb]ytes?\b|[KMGTPE]?(?:FLOP|OP)(?:S|/s|s)?\b|(?:op|flop)s?/(?:byte|B)\b|"
    r"(?:warp |machine )?(?:instructions?|cycles?|clocks?|registers?|spills?|sectors?|transactions?|requests?)\b)"
)
FIGURE = re.compile(rf"(?<![\w.])[~≈]?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?[\s\u00a0\u202f-]?{UNIT}")
"""A number with its unit: what only a measurement can know. Lines, shapes, counts of loops and names of types have
none."""


def faults(text: str, brief: AnalystBrief) -> tuple[str, ...]:
    """One sentence for each reference to nothing and each figure that is restated; those of the hardware are the
    wiki's affair."""
    return (*_dangling(text, brief), *_restated(text))


def mended(text: str, brief: AnalystBrief) -> str:
    """`text` with `LEFT_OUT` for each sentence that is at fault."""
    ends = [0, *(found.end() for found in SENTENCE.finditer(text)), len(text)]
    kept = []
    for start, end in itertools.pairwise(ends):
        sentence = text[start:end]
        bare = sentence.rstrip()
        kept.append(LEFT_OUT + sentence[len(bare) :] if bare and faults(bare, brief) else sentence)
    made = "".join(kept)
    return LEFT_OUT if faults(made, brief) else made


def _dangling(text: str, brief: AnalystBrief) -> Iterator[str]:
    fired = {finding.rule for finding in brief.findings}
    known = {
        *brief.records,
        *brief.seen.counters,
        *(record for finding in brief.findings for record in finding.evidence),
    }
    for found in REFERENCE.finditer(text):
        if found["rule"] and found["rule"] not in fired:
            yield f"text: {found[0]} names no finding of this kernel"
        elif found["record"] and found["record"] not in known:
            yield f"text: {found[0]} names no record that you were given"
        elif found["metric"] and found["metric"] not in brief.seen.counters.get(found["record"], {}):
            yield f"text: {found[0]} names no metric of that record"
    for found in BROKEN.finditer(REFERENCE.sub("", text)):
        yield f"text: {found[0]!r} is no reference; write [rule:ID] or [record:ID METRIC]"


def _restated(text: str) -> Iterator[str]:
    plain = CODE.sub("", REFERENCE.sub("", SOURCE_CODE.sub("\n", text)))
    for sentence in SENTENCE.split(plain):
        if WIKI.search(sentence):
            continue
        for found in FIGURE.finditer(SOURCE_SAYS.sub("", sentence)):
            yield (
                f'text: {found[0].strip()!r} is restated in "{" ".join(sentence.split())}"; write [record:ID METRIC] '
                f"or [rule:ID] in its "
                "place, which is replaced by the figure, or leave it out"
            )
