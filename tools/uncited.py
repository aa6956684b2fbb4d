"""Finds figures of hardware in prose that name no source (laws 2 and 3). Pure.

A figure is a number with the unit of a rate, a clock or a power; a count of parts of a chip; a capacity or a latency of a memory; or a
bare number behind a word such as peak or ridge. What a kernel chooses or a problem brings is none: tiles, blocks, warps, dims, bytes
moved, percentages, factors, versions, names of products.

It reads words and is no proof: it catches what a writer states plainly, which is how a guess gets into a plan.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import NamedTuple


class Uncited(NamedTuple):
    """One figure without a source."""

    figure: str
    sentence: str
    """The one in which it stands."""


WIKI = re.compile(r"<gpu-wiki>/[^\s:`]+:\d+")
"""The citation of a line of the wiki; it vouches for one figure, the nearest before it, else the nearest behind."""
RECORD = re.compile(r"\b[0-9a-f]{16}\b")
"""A record's id; a record holds many figures, so that it vouches for its whole sentence."""
FENCED = re.compile(r"^```.*?^```\s*$", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+|#>]|\d+\.\s))|(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)(?<!ca\.)(?<!approx\.)\s+")
"""Ends of sentences, of paragraphs and of items of lists; a line that is only wrapped goes on."""

NUMBER = r"(?<![\w.,-])[~≈]?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?:\s?(?:-|–|to)\s?\d+(?:[.,]\d+)*)?"
GAP = r"[\s\u00a0\u202f-]?"
ABOUT = r"(?:about |only |up to |at most |around |roughly |just |some |nearly )?"
LINK = r"(?:\s*\(|\s+is|\s+are|\s+of|\s*=|\s*:|\s+has|\s+holds|\s+offers|\s+near|\s+at|\s*,)?\s*"
SIZE = r"(?:[KMGT]i?B|(?:kilo|mega|giga|tera)bytes?)\b"
EACH = r"per\s+(?:SM|CU|core|multiprocessor|streaming multiprocessor|compute unit)\b"
MEMORY = (
    r"(?:shared memory|SMEM|LDS|L[123](?:\s+cache)?|last-level cache|LLC|cache|HBM\w*|VRAM|GDDR\w*|DRAM|register file|scratchpad|"
    r"(?:device|global|GPU|video) memory)\b"
)
KIND = r"(?:(?:unified|total|private|on-chip|shared|dynamic|static|fast|large|usable|available|memory|dedicated)\s+)?"
LATENT = r"(?:global memory|shared memory|memory|HBM\w*|DRAM|L[123]|cache|FMA|MMA|wgmma|barrier|atomic|launch)"
DURATION = r"(?:cycles?|clocks?|ns|us|µs|μs)\b"
BARE_END = r"(?=\s*(?:$|[.,;:)]|(?:for|in|with|on|at|and|or|so|which|that|dense|sparse|by|from|FLOP\S*|op\S*)\b))"

RATE = (
    rf"(?i){NUMBER}{GAP}(?:[KMGTP]i?B|[KMGTP]i?bits?|[KMGTP]b|bytes|(?:kilo|mega|giga|tera|peta)bytes)"
    r"(?:\s?/\s?s(?:ec)?\b|ps\b| per second| a second)"
)
OPERATIONS = rf"(?i){NUMBER}{GAP}(?:[KMGTPE]?FLOP(?:S\b|/s\b| per second)|(?:mega|giga|tera|peta|exa)flops?\b|[MGTPE]OP(?:S|/s)\b)"
CLOCK = rf"(?i){NUMBER}{GAP}[kMG]?Hz\b"
POWER = rf"{NUMBER}{GAP}(?:k?W\b|[Ww]atts?\b)(?!\s*(?:[=×x*+/]|loads|stores|rows|columns|steps|values|elements|dims?|axis))"
PARTS = (
    rf"{NUMBER}{GAP}(?:(?:physical|logical|active|idle|available|hardware|CPU)\s+)?"
    r"(?:SMs?|CUs?|XCDs?|GPCs?|(?:[Ss]treaming )?[Mm]ultiprocessors?|[Cc]ompute [Uu]nits?|(?:[Tt]ensor |[Mm]atrix |CUDA )?[Cc]ores?|"
    r"[Ss]ockets?|[Mm]emory channels?|HBM stacks?|NUMA nodes?|[Ww]arp schedulers?|L2 slices?)\b"
)
LIMIT = (
    rf"(?i)\d{{3,}}{GAP}threads? {EACH}|{NUMBER}{GAP}registers? {EACH}|"
    rf"(?:at most|maximum(?: of)?|max|limit(?:s|ed)?(?: of| to| is)?) {NUMBER}{GAP}(?:threads|registers)(?: per \w+)?"
)
USABLE = rf"(?i)(?P<usable>{NUMBER}{GAP}{SIZE}[\s-](?:of\s+)?(?:the\s+|its\s+)?{KIND}{MEMORY})(?!\s+{EACH})"
CAPACITY = (
    rf"(?i){NUMBER}{GAP}{SIZE}(?:[\s-](?:of\s+)?(?:the\s+|its\s+)?{KIND}(?:{MEMORY}\s+)?{EACH}|\s+(?:card|GPU|part|device|accelerator)\b)"
)
HELD = rf"(?i)(?<!in )(?<!into )(?<!from )(?<!in the )(?<!from the )\b{MEMORY}(?:\s+(?:size|capacity))?{LINK}{ABOUT}{NUMBER}{GAP}{SIZE}"
BARE = (
    r"(?i)\b(?:peaks?|roof|ridge(?: point)?|bandwidth|throughput|ceiling|clock|TDP|(?:SM|CU|core) count|number of (?:SMs|CUs|cores))"
    rf"(?:\s+(?:of|is|=|near|at|about|around|to|comes to)\b|\s*[:=]){{0,2}}\s+{ABOUT}{NUMBER}{BARE_END}"
)
LATENCY = (
    rf"(?i)\b{LATENT}\b[^.]{{0,30}}\b(?:latency|overhead|access|cost)\w*[^.\d]{{0,25}}{NUMBER}{GAP}{DURATION}|"
    rf"{NUMBER}{GAP}{DURATION}\s+(?:of\s+)?(?:\w+\s+){{0,2}}(?:latency|launch overhead)"
)
BUS = rf"(?i){NUMBER}{GAP}bit\b[^.]{{0,15}}\bbus\b|\bbus\b[^.\d]{{0,15}}{NUMBER}{GAP}bit\b"
PATTERNS = tuple(map(re.compile, (RATE, OPERATIONS, CLOCK, POWER, PARTS, LIMIT, USABLE, CAPACITY, HELD, BARE, LATENCY, BUS)))
CAPABLE = re.compile(r"\b(?:can|may|could|might)\b")
USE = re.compile(
    r"\b(?:us(?:es?|ing)|tak(?:es?|ing)|need(?:s|ing)?|requir(?:es?|ing)|occup(?:y|ies|ying)|allocat(?:es?|ing)|consum(?:es?|ing)|reads?|"
    r"writes?|loads?|stores?|moves?|streams?|touch(?:es)?|fetch(?:es)?|transfers?|cop(?:y|ies)|saves?|costs?|stages?|reserves?)\s+"
    r"(?:about |only |roughly |some |another |an extra |up to |less than |more than )*$",
    re.IGNORECASE,
)
"""Before a capacity: it is what a kernel takes or moves, not what the device has."""
COUNTED = re.compile(r"\s*(?:of (?:work|arithmetic)|per (?!second)\w+|in total|a call|each|for each|altogether)", re.IGNORECASE)
"""Behind FLOPs: they are a count of work, not a rate."""
DOES = re.compile(r"\b(?:does|do|performs?|executes?|needs?|requires?|costs?|counts?)\s+(?:about |only |roughly |some )?$", re.IGNORECASE)
PRODUCT = re.compile(r"\b(?:[A-Z]{1,3}\d{2,4}[A-Za-z]{0,2}|MI\d{3}[A-Z]?)(?:[ -](?:SXM\d?|PCIe|NVL))?[ -]$")
"""Before a capacity without a space in it: part of a product's name, as drivers report it."""


def uncited(text: str, known: Container[str] | None = None) -> tuple[Uncited, ...]:
    """Every figure in `text` (Markdown; fenced code is left out) with neither a citation nor a record id next to it, in its order.

    `known`: the citations (`<gpu-wiki>/path:line`) and record ids that count; None: any that has the form of one.
    """
    return tuple(found for sentence in SENTENCE.split(FENCED.sub("\n", text)) for found in _in_sentence(sentence, known))


def _in_sentence(sentence: str, known: Container[str] | None) -> Iterator[Uncited]:
    if any(known is None or record in known for record in RECORD.findall(sentence)):
        return
    cited = [found.start() for found in WIKI.finditer(sentence) if known is None or found[0] in known]
    plain = RECORD.sub(_blank, WIKI.sub(_blank, sentence))
    figures = _figures(plain)
    vouched = set()
    for place in cited:
        before = [span for span in figures if span[1] <= place and span not in vouched]
        behind = [span for span in figures if span[0] >= place and span not in vouched]
        # Behind a citation only where nothing stands before it: "by <citation> the part has …".
        nearest = before[-1:] or (behind[:1] if not any(span[1] <= place for span in figures) else [])
        vouched.update(nearest)
    for span in figures:
        if span not in vouched:
            yield Uncited(plain[slice(*span)].strip(), " ".join(sentence.split()))


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _figures(sentence: str) -> list[tuple[int, int]]:
    """Where figures stand, overlapping ones as one, from left to right."""
    spans = sorted(found.span() for pattern in PATTERNS for found in pattern.finditer(sentence) if not _harmless(found, sentence))
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _harmless(found: re.Match[str], sentence: str) -> bool:
    """Whether what looks like a figure of hardware is a count of work, what a kernel uses, or a piece of a product's name."""
    before, behind = sentence[: found.start()], sentence[found.end() :]
    if found[0].endswith("FLOPs"):
        return bool(COUNTED.match(behind) or DOES.search(before))
    if not found.groupdict().get("usable"):
        return False
    named = PRODUCT.search(before) and re.match(r"\d+[KMGT]i?B", found[0])
    verb = USE.search(before)
    return bool(named or (verb and not CAPABLE.search(before[max(0, verb.start() - 8) :])))
