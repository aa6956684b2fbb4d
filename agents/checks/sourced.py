"""What a model says of the hardware needs a source (law 2), and a source that it names must be one that it was given
(law 3).

A figure is a number with the unit of a rate, a clock or a power; a count of parts of a chip; a capacity or a latency of
a memory; or a bare number behind a word such as peak or ridge. What a kernel chooses or a problem brings is none:
tiles, blocks, warps, dims, bytes moved, percentages, factors, versions, names of products.

It reads words and is no proof: it catches what a writer states plainly, which is how a guess gets into a plan. A source
vouches for one figure: a line of the wiki for the value that it gives, a record for one in its own clause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from agents.artifacts import Analysis, AnalystBrief, Hypothesis, Plan, PlannerBrief
from knowledge_base.experience.free_methods import FREE_METHOD_PREFIX

WIKI = re.compile(r"(?:<gpu-wiki>/|(?=<reference>/))([^\s:`]+):(\d+)")
"""A line of the wiki or of a reference project."""
LEFT_OUT = "The model's text is left out: it states a figure of the hardware without a source."
SOURCE = re.compile(r"(?P<wiki><gpu-wiki>/[^\s:`]+:\d+)|\b(?P<record>[0-9a-f]{16})\b")
"""The citation of a line of the wiki, or a record's id; each vouches for the nearest figure before it, else the
nearest behind."""
CLAUSE = re.compile(r";|,\s+(?:and|the|but|so|while|whereas|though|although)\b")
"""Where a record's word ends within a sentence."""
SOURCE_CODE = re.compile(r"^```(?:cpp|cuda|python|triton)\b.*?^```\s*$", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(
    r"\n\s*\n|\n(?=\s*(?:[-*+|#>]|\d+\.\s))|(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)(?<!ca\.)(?<!approx\.)\s+"
)
"""Ends of sentences, of paragraphs and of items of lists; a line that is only wrapped goes on."""

NUMBER = r"(?<![\w.,-])[~≈]?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?:\s?(?:-|–|to)\s?\d+(?:[.,]\d+)*)?"
QUANTITY = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?)[\s\u00a0\u202f-]?(.*)", re.IGNORECASE | re.DOTALL)
UNITS = (
    (
        "B/s",
        r"(?i:([KMGTP]?)i?(?:B|bytes)(?:\s?/\s?s|ps|\sper\ss|\sa\ss)|(kilo|mega|giga|tera|peta)-?bytes?(?:\s?/\s?s|\sper\ss|\sa\ss))",
    ),
    ("B", r"(?:([KMGTPkmgtp]?)i?(?:B|[Bb]ytes)\b|((?i:kilo|mega|giga|tera|peta))-?bytes?\b)"),
    ("FLOPS", r"(?i:([KMGTPE]?)FLOPS?|(kilo|mega|giga|tera|peta|exa)-?flops?)(?!\s?(?:/|per)\s?(?i:b))"),
    ("OPS", r"(?i:([KMGTPE]?)OPS?(?:/s)?)\b()"),
    ("Hz", r"(?i:([KMG]?)Hz)()"),
    ("W", r"([Kk]?)(?:W\b|[Ww]atts?\b)()"),
    ("s", r"([munµμ]|micro|nano|milli)(?:s\b|seconds?\b)()"),
)
"""Unit -> how it is written, its prefix as a group."""
SCALES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18, "": 1.0}
FRACTIONS = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "milli": 1e-3, "micro": 1e-6, "nano": 1e-9}
NAMED = re.compile(r"[A-Za-z]+\d+|32-bit")
"""Digits of names."""
ROUNDING = 0.02
"""How far a figure that is rounded in prose may be from the one cited, relative."""
GAP = r"[\s\u00a0\u202f-]?"
ABOUT = r"(?:about |only |up to |at most |around |roughly |just |some |nearly )?"
LINK = r"(?:\s*\(|\s+is|\s+are|\s+of|\s*=|\s*:|\s+has|\s+holds|\s+offers|\s+near|\s+at|\s*,)?\s*"
PART = (
    r"(?:SMs?|CUs?|XCDs?|GPCs?|(?:[Ss]treaming )?[Mm]ultiprocessors?|[Cc]ompute [Uu]nits?|(?:[Tt]ensor "
    r"|[Mm]atrix |CUDA )?[Cc]ores?|"
    r"[Ss]ockets?|[Mm]emory channels?|HBM stacks?|NUMA nodes?|[Ww]arp schedulers?|L2 slices?)\b"
)
SIZE = r"(?:[KMGT]i?B|(?:kilo|mega|giga|tera)bytes?)\b"
EACH = r"per\s+(?:SM|CU|core|multiprocessor|streaming multiprocessor|compute unit)\b"
MEMORY = (
    r"(?:L1/shared(?: memory)?|shared memory|SMEM|LDS|"
    r"L[123](?:\s+cache)?|last[- ]level cache|LLC|cache|HBM\w*|VRAM|GDDR\w*|DRAM|register file|scratchpad|"
    r"(?:device|global|GPU|video) memory)\b"
)
KIND = r"(?:(?:unified|total|private|on-chip|shared|dynamic|static|fast|large|usable|available|memory|dedicated)\s+)?"
LATENT = r"(?:global memory|shared memory|memory|HBM\w*|DRAM|L[123]|cache|FMA|MMA|wgmma|barrier|atomic|launch)"
DURATION = r"(?:(?:clock )?cycles?|clocks?|ns|us|µs|μs|(?:nano|micro)seconds?)\b"
BARE_END = r"(?=\s*(?:$|[.,;:()<]|(?:for|in|with|on|at|and|or|so|which|that|dense|sparse|by|from|FLOP\S*|op\S*)\b))"

RATE = (
    rf"(?i){NUMBER}{GAP}(?:[KMGTP]i?B|[KMGTP]i?bits?|[KMGTP]b|bytes|(?:kilo|mega|giga|tera|peta)bytes)"
    r"(?:\s?/\s?s(?:ec)?\b|ps\b| per sec(?:ond)?\b| a second)"
)
OPERATIONS = (
    rf"(?i){NUMBER}{GAP}(?:[KMGTPE]?FLOP(?:S\b|/s\b| per "
    rf"second)|(?:mega|giga|tera|peta|exa)-?flops?\b|[MGTPE]OP(?:S|/s)\b)"
)
CLOCK = rf"(?i){NUMBER}{GAP}[kMG]?Hz\b"
POWER = rf"{NUMBER}{GAP}(?:k?W\b|[Ww]atts?\b)(?!\s*(?:[=×x*+/]|loads|stores|rows|columns|steps|values|elements|dims?|axis|strides?|offsets?))"
PARTS = (
    rf"{NUMBER}{GAP}(?:(?:physical|logical|active|idle|available|hardware|CPU)\s+)?{PART}(?!['’]\s*worth)|"
    rf"\b{PART}(?:\s+count)?\s*[:=(]\s*{ABOUT}{NUMBER}(?!\w|\.\d|\s+(?:blocks|threads|warps|programs|tiles)\b)"
)
LIMIT = (
    rf"(?i)\d{{3,}}{GAP}threads? {EACH}|{NUMBER}{GAP}registers? {EACH}|{NUMBER}K?{GAP}32-bit registers|"
    rf"\b{PART}\s+(?:can\s+)?(?:holds?|has|have|supports?|keeps?|allows?)\s+{ABOUT}{NUMBER}{GAP}(?:(?:resident|active)\s+)?"
    rf"(?:warps|waves|wavefronts|threads|registers)\b(?: {EACH})?|"
    rf"{NUMBER}{GAP}(?:threads|registers) per \w+ (?:is|are) the (?:ceiling|limit|maximum|cap|most)\b|"
    rf"(?:at most|maximum(?: of)?|max|limit(?:s|ed)?(?: of| to| is)?) {NUMBER}{GAP}(?:threads|registers)(?: per \w+)?"
)
USABLE = rf"(?i)(?P<usable>{NUMBER}{GAP}{SIZE}[\s-](?:of\s+)?(?:the\s+|its\s+)?{KIND}{MEMORY})(?!\s+{EACH})"
CAPACITY = rf"(?i)(?P<usable>{NUMBER}{GAP}{SIZE}[\s-](?:of\s+)?(?:the\s+|its\s+)?{KIND}(?:{MEMORY}\s+)?{EACH})"
DEVICE = (
    rf"(?i)\b(?:card|GPU|part|device|accelerator|chip|[A-Z]{{1,3}}\d{{2,4}}\w*)\s+"
    rf"(?:has|carries|holds|offers|provides|comes with)\s+{ABOUT}"
    rf"{NUMBER}{GAP}{SIZE}|{NUMBER}{GAP}{SIZE}\s+(?:card|GPU|part|device|accelerator)\b"
)
HELD = (
    rf"(?i)(?<!in )(?<!into )(?<!from )(?<!in the )(?<!from the "
    rf")\b{MEMORY}(?:\s+(?:size|capacity))?{LINK}{ABOUT}{NUMBER}{GAP}{SIZE}"
)
BARE = (
    r"(?i)\b(?:peaks?|roof|ridge(?: point)?|machine balance|"
    r"bandwidth|throughput|ceiling|clock|TDP|(?:SM|CU|core) count|number of (?:SMs|CUs|cores))"
    rf"(?:\s+(?:of|is|=|near|at|about|around|to|comes to)\b|\s*[:=]){{0,2}}\s+{ABOUT}{NUMBER}{BARE_END}"
)
LATENCY = (
    rf"(?i)\b{LATENT}\b[^.]{{0,30}}\b(?:latency|overhead|access|cost)\w*[^.\d]{{0,25}}{NUMBER}{GAP}{DURATION}|"
    rf"{NUMBER}{GAP}{DURATION}\s+(?:of\s+)?(?:\w+\s+){{0,2}}(?:latency|launch overhead)|"
    rf"\b(?:launch|miss|barrier|atomic|round "
    rf"trip)(?:es)?\s+(?:takes?|costs?|is|needs?)\s+{ABOUT}{NUMBER}{GAP}{DURATION}|"
    rf"{NUMBER}{GAP}clock cycles\b"
)
BALANCE = rf"(?i)\b(?:exceeds?|above|below|beyond|past|under|over|reach(?:es)?)\s+{ABOUT}{NUMBER}{GAP}(?:FLOPs?|ops?)\s?(?:/|per)\s?B(?:ytes?)?\b"
ISSUE = rf"(?i){NUMBER}{GAP}(?:\w+\s+){{0,2}}?(?:FMAs?|FLOPs?|MACs?|ops?|operations|instructions|bytes|B)\s?(?:/|per)\s?(?:clock|cycle|clk)\b"
BUS = rf"(?i){NUMBER}{GAP}bits?\b[^.]{{0,15}}\bbus\b|\bbus\b[^.\d]{{0,15}}{NUMBER}{GAP}bits?\b"
FIGURES = (
    RATE,
    OPERATIONS,
    CLOCK,
    POWER,
    PARTS,
    LIMIT,
    USABLE,
    CAPACITY,
    DEVICE,
    HELD,
    BARE,
    LATENCY,
    BALANCE,
    ISSUE,
    BUS,
)
CAPABLE = re.compile(r"\b(?:can|may|could|might)\b")
USE = re.compile(
    r"\b(?:us(?:es?|ing)|tak(?:es?|ing)|need(?:s|ing)?|requir(?:es?|ing)|occup(?:y|ies|ying)|allocat(?:es?|ing)|consum(?:es?|ing)|reads?|"
    r"writes?|loads?|stores?|moves?|streams?|touch(?:es)?|fetch(?:es)?|transfers?|cop(?:y|ies)|saves?|costs?|stages?|reserves?)\s+"
    r"(?:about |only |roughly |some |another |an extra |up to |less than |more than )*$",
    re.IGNORECASE,
)
"""Before a capacity: it is what a kernel takes or moves, not what the device has."""
SEVERAL = re.compile(r"\b\d+\s*(?:[x×*]|(?:buffers?|stages?|tiles?|copies) of)\s*$", re.IGNORECASE)
"""Before a capacity on the chip: so many times it is taken."""
ON_CHIP = re.compile(r"(?:shared memory|SMEM|LDS|scratchpad)$", re.IGNORECASE)
COUNTED = re.compile(
    r"\s*(?:of (?:work|arithmetic)|per (?!second)\w+|in total|a call|each|for each|altogether)", re.IGNORECASE
)
"""Behind FLOPs: they are a count of work, not a rate."""
DOES = re.compile(
    r"\b(?:does|do|performs?|executes?|needs?|requires?|costs?|counts?)\s+(?:about |only |roughly |some )?$",
    re.IGNORECASE,
)
PRODUCT = re.compile(r"\b(?:[A-Z]{1,3}\d{2,4}[A-Za-z]{0,2}|MI\d{3}[A-Z]?)(?:[ -](?:SXM\d?|PCIe|NVL))?[ -]$")
"""Before a capacity without a space in it: part of a product's name, as drivers report it."""


class Uncited(NamedTuple):
    """One figure without a source."""

    figure: str
    sentence: str
    """The one in which it stands."""


class Sources(NamedTuple):
    """What a writer was given to name."""

    records: frozenset[str] = frozenset()
    """Ids."""
    specs: frozenset[tuple[str, str]] = frozenset()
    """(`<gpu-wiki>/path:line`, value and unit as a Spec has them)."""


def known(brief: PlannerBrief | AnalystBrief) -> Sources:
    """The sources that an answer to `brief` can name: its records, and the cited specs with what they say."""
    records = {*brief.records, *(record for finding in brief.findings for record in finding.evidence)}
    if isinstance(brief, PlannerBrief):
        records.update(attempt.evidence for attempt in (*brief.dossier.attempts, *brief.memory))
    return Sources(
        frozenset(records), frozenset((str(spec.citation), f"{spec.value!r} {spec.unit}") for spec in brief.specs)
    )


def faults(answer: Plan | Analysis, sources: Sources) -> tuple[str, ...]:
    """One sentence for each figure of hardware in the prose of `answer` that `sources` do not vouch for: field,
    figure, line, remedy."""
    return tuple(_sentence(field, one) for field, text in _prose(answer) for one in uncited(text, sources))


def unsourced(hypothesis: Hypothesis, sources: Sources) -> bool:
    """Whether a hypothesis states such a figure."""
    return bool(uncited(hypothesis.change, sources) or uncited(hypothesis.rationale, sources))


def without_figures(text: str) -> str:
    """`text` on one line, without the sentences that state a figure of the hardware, whatever they cite, and without
    lines of a wiki."""
    kept = (sentence for sentence in SENTENCE.split(text) if not uncited(sentence, Sources()))
    return " ".join(WIKI.sub("the wiki", " ".join(kept)).split())


def unresolved(citation: str, brief: PlannerBrief) -> bool:
    """Whether what a hypothesis cites is neither a record or finding, nor a line of a passage, page or spec, that
    its writer was given."""
    named = WIKI.fullmatch(citation.strip())
    if named is None:
        # Own experience can be cited, and vouches for no figure.
        own = (page.head.sources for page in brief.dossier.methods if page.head.id.startswith(FREE_METHOD_PREFIX))
        given = {
            *known(brief).records,
            *(finding.rule for finding in brief.findings),
            *(record for records in own for record in records),
        }
        return citation.strip() not in given
    path, line = named[1], int(named[2])
    shown = [(p.path, p.first_line, p.last_line) for p in brief.dossier.passages]
    # A page's head, above its body, is part of what was given.
    shown += [
        (p.path, 1, p.body_line + p.body.count("\n"))
        for p in (*brief.dossier.methods, *brief.skills, *brief.dossier.earlier)
    ]
    shown += [
        (place.path, place.line, place.line) for spec in brief.specs for place in (spec.citation, spec.via) if place
    ]
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
        f'{field}: {one.figure!r} stands without a source in "{one.sentence}"; put the citation '
        f"`<gpu-wiki>/path:line` of a spec that you "
        "were given behind it, name the record in the same sentence, or leave the figure out"
    )


# ---------------------------------------------------------------- figures in prose


def uncited(text: str, sources: Sources | None = None) -> tuple[Uncited, ...]:
    """Every figure in `text` (Markdown; fenced kernel source is left out) for which no source next to it vouches, in
    its order.

    `sources`: those that were given, and a line of the wiki vouches for the value given with it alone; None: whatever
    has the form of a source counts.
    """
    return tuple(
        found for sentence in SENTENCE.split(SOURCE_CODE.sub("\n", text)) for found in _in_sentence(sentence, sources)
    )


def _in_sentence(sentence: str, sources: Sources | None) -> Iterator[Uncited]:
    plain = SOURCE.sub(_blank, sentence)
    figures = _figures(plain)
    vouched: set[tuple[int, int]] = set()
    for source in SOURCE.finditer(sentence):
        first, last = _clause(plain, source.start()) if source["record"] else (0, len(plain))
        within = [span for span in figures if first <= span[0] < last]
        before = [span for span in within if span[1] <= source.start()]
        # Behind a source only where nothing stands before it: "by <citation> the part has …".
        nearest = before[-1:] or within[:1]
        if (
            nearest
            and nearest[0] not in vouched
            and (sources is None or _vouches(source, plain[slice(*nearest[0])], sources))
        ):
            vouched.update(nearest)
    for span in figures:
        if span not in vouched:
            yield Uncited(plain[slice(*span)].strip(), " ".join(sentence.split()))


def _clause(sentence: str, place: int) -> tuple[int, int]:
    ends = [found.start() for found in CLAUSE.finditer(sentence)]
    return max((end for end in ends if end < place), default=0), min(
        (end for end in ends if end >= place), default=len(sentence)
    )


def _vouches(source: re.Match[str], figure: str, sources: Sources) -> bool:
    if source["record"]:
        return source["record"] in sources.records
    return any(place == source["wiki"] and _agrees(figure, value) for place, value in sources.specs)


def _agrees(figure: str, cited: str) -> bool:
    """Whether a figure in prose is the cited one, maybe rounded and in another prefix; a bare number may leave out
    its unit."""
    here, there = _quantity(figure), _quantity(cited)
    if here is None or there is None:
        return False
    (value, unit), (meant, base) = here, there
    scales = SCALES.values() if not unit and base else (1.0,)
    return unit in ("", base) and any(abs(value * scale - meant) <= ROUNDING * abs(meant) for scale in scales)


def _quantity(text: str) -> tuple[float, str] | None:
    """The number in `text` without its unit's prefix, and the unit; "" where none stands there. None: there is not
    exactly one number."""
    text = NAMED.sub(_blank, text)
    found = QUANTITY.search(text)
    if found is None or re.search(r"\d", found[2]):
        return None
    value = float(found[1].replace(",", ""))
    for unit, written in UNITS:
        scale = re.match(written, found[2])
        if scale:
            prefix = (scale[1] or scale[2] or "").lower()
            return value * (FRACTIONS[prefix] if unit == "s" else SCALES[prefix[:1]]), unit
    return value, "count" if re.match(r"\w", found[2]) else ""


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Compiled when prose is first read: together they take longer than most modules take to import."""
    return tuple(map(re.compile, FIGURES))


def _figures(sentence: str) -> list[tuple[int, int]]:
    """Where figures stand, overlapping ones as one, from left to right."""
    spans = sorted(
        found.span()
        for pattern in _patterns()
        for found in pattern.finditer(sentence)
        if not _harmless(found, sentence)
    )
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _harmless(found: re.Match[str], sentence: str) -> bool:
    """Whether what looks like a figure of hardware is a count of work, what a kernel uses, or a piece of a product's
    name."""
    before, behind = sentence[: found.start()], sentence[found.end() :]
    if found[0].endswith("FLOPs"):
        return bool(COUNTED.match(behind) or DOES.search(before))
    if not found.groupdict().get("usable"):
        return False
    named = PRODUCT.search(before) and re.match(r"\d+[KMGT]i?B", found[0])
    verb = USE.search(before)
    several = SEVERAL.search(before) and ON_CHIP.search(found[0])
    return bool(named or several or (verb and not CAPABLE.search(before[max(0, verb.start() - 8) :])))
