"""Checks whether a method put its promised instruction into the machine code. Pure, except for reading
signatures.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from tools.analysis.assembly import ENTRY, functions_reachable_from, parse_disassembly
from tools.analysis.loops import find_source_loops
from tools.artifacts import Artifact
from tools.errors import SettingsError

SIGNATURES = Path(__file__).with_name("signatures.yaml")
MAX_EXAMPLES = 5
SIMPLE_PATTERN = re.compile(r"[^(){}*+?]+(?:[*+?][^(){}*+?]*){0,3}")
"""A pattern without groups and with few repeats, so that every search is fast."""
MAX_PATTERN_CHARACTERS = 120
"""Maximum length of a pattern that a model wrote."""
MIN_SHARE_RATIO = 1.25
"""Minimum ratio of a signature's share of the hot loops with the method to its share without the method."""


class InstructionCheck(Artifact):
    """One method's signature against one kernel's machine code."""

    architecture: str
    pattern: str | None
    """The regular expression; None if the method has none for this architecture."""
    present: bool | None
    """None if there is no pattern or the code could not be read."""
    count: int
    """Number of matching instructions in `solve` and all that it reaches."""
    examples: tuple[str, ...] = ()
    """Some matching instructions, each with its function; those of hot loops first."""
    share: float | None = None
    """Mean share of matching instructions over the innermost loops, or over the functions if there is no loop; None
    without code."""

    def __str__(self) -> str:
        return f"{self.count} ({self.share or 0.0:.0%} of the hot code)"


class MechanismCheck(Artifact):
    """A method's signature in a kernel, compared with the same kernel without the method."""

    shown: bool | None
    """None if it was not checked or is not clear: a larger share of fewer instructions can come from another change."""
    there: InstructionCheck
    without: InstructionCheck | None
    """None if there was no kernel to compare with."""
    against: str
    """Candidate id of the kernel without the method: its ablation, else the parent."""

    @property
    def unclear(self) -> bool:
        """Whether the signature is with and without the method, and it does not show which of them it is due to."""
        return bool(self.shown is None and self.there.present and self.without and self.without.present)

    def __str__(self) -> str:
        if self.there.pattern is None:
            return f"not checked: no signature for {self.there.architecture}"
        if self.shown is None:
            if self.unclear:
                return f"not clear: {self.there}, without it {self.without}"
            return (
                f"not checked: {'no code of this kernel' if self.there.present is None else 'nothing to compare with'}"
            )
        return f"{'yes' if self.shown else 'no'}: {self.there}" + (
            f", without it {self.without}" if self.without else ""
        )


def pattern_fault(pattern: str) -> str:
    """Return why a pattern that a model wrote is refused; empty if it is accepted."""
    if pattern.startswith("@"):
        if pattern[1:] in _shipped_signatures():
            return ""
        names = ", ".join(f"@{name}" for name in sorted(_shipped_signatures()))
        return f"{pattern!r} is not known; use one of {names}"
    if len(pattern) > MAX_PATTERN_CHARACTERS or not SIMPLE_PATTERN.fullmatch(pattern):
        return (
            f"{pattern!r} is not a plain pattern: at most {MAX_PATTERN_CHARACTERS} characters, no (), no {{}}, at most "
            "three of * + ?"
        )
    try:
        re.compile(pattern)
    except re.error as error:
        return f"{pattern!r} is not a regular expression ({error})"
    return ""


def check_signature(assembly: str, architecture: str, signature: Mapping[str, str]) -> InstructionCheck:
    """Search `signature[architecture]` (else `*`) in all code that `solve` reaches.

    `assembly` is a disassembly as objdump prints it; patterns are searched in "mnemonic operands", or name an entry of
    signatures.yaml as `@name`. SettingsError for a pattern that is no regular expression or a name that is not known.
    """
    pattern = _pattern_for(architecture, signature)
    if pattern is None:
        return InstructionCheck(architecture=architecture, pattern=None, present=None, count=0)
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise SettingsError(
            f"signature: {pattern!r} is not a regular expression ({error}); correct it in the method's page"
        ) from error
    functions = functions_reachable_from(parse_disassembly(assembly))
    if not functions:
        return InstructionCheck(architecture=architecture, pattern=pattern, present=None, count=0)
    hot = [(loop.function, loop.instructions) for loop in find_source_loops(functions)]
    whole = [(function.name, function.instructions) for function in functions]
    matching = [
        [f"{name}: {text}" for i in code if wanted.search(text := f"{i.mnemonic} {i.operands}".rstrip())]
        for name, code in (*hot, *whole)
    ]
    shares = [len(seen) / max(1, len(code)) for seen, (_, code) in zip(matching, hot or whole, strict=False)]
    found = sum(map(len, matching[len(hot) :]))
    examples = tuple(dict.fromkeys(text for seen in matching for text in seen))[:MAX_EXAMPLES]
    return InstructionCheck(
        architecture=architecture,
        pattern=pattern,
        present=found > 0,
        count=found,
        examples=examples,
        share=sum(shares) / len(shares),
    )


def compare_signatures(there: InstructionCheck, without: InstructionCheck | None, against: str) -> MechanismCheck:
    """Compare a signature in the kernel with the method (`there`) and in the kernel without it (`without`).

    The signature is shown if it is absent without the method, or clearly rarer in the hot loops. If it is in no hot
    loop of either kernel, such as the start of threads, its instructions are counted instead.
    `against`: the candidate id of the kernel without the method.
    """
    shown = there.present
    if there.present:
        if without is None or without.present is None:
            shown = None
        elif there.share or without.share:
            shown = (there.share or 0.0) > MIN_SHARE_RATIO * (without.share or 0.0)
            if shown and without.share and there.count <= without.count:
                shown = None
        else:
            shown = there.count > MIN_SHARE_RATIO * without.count
    return MechanismCheck(shown=shown, there=there, without=without, against=against)


def is_same_code(assembly: str, other: str) -> bool:
    """Whether two complete listings have the same instructions in all that the entry reaches, whatever lines they come
    from."""

    def code(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
        reached = functions_reachable_from(parse_disassembly(text))
        return [(one.name, [(i.mnemonic, i.operands) for i in one.instructions]) for one in reached]

    return "\tincomplete\t" not in assembly and bool(found := code(assembly)) and found == code(other)


def entry_assembly(assembly: str, name: str = ENTRY) -> str:
    """Return the machine code of `name` and of all functions that it reaches, as text."""
    return "\n\n".join(
        "\n".join(
            [f"<{function.name}>:", *(f"{i.address:8x}:\t{i.mnemonic}\t{i.operands}" for i in function.instructions)]
        )
        for function in functions_reachable_from(parse_disassembly(assembly), name)
    )


def hot_loop_assembly(assembly: str) -> tuple[str, ...]:
    """Return the machine code of the innermost loops, longest first, or of each function if there is no loop, without
    padding."""
    functions = functions_reachable_from(parse_disassembly(assembly))
    pieces = [(loop.function, loop.instructions) for loop in find_source_loops(functions)] or [
        (f.name, f.instructions) for f in functions
    ]
    pieces.sort(key=lambda piece: -len(piece[1]))
    return tuple(
        f"<{name}>, {len(code)} instructions:\n"
        + "\n".join(f"{i.mnemonic} {i.operands}".rstrip() for i in code if i.mnemonic.lower() != "nop")
        for name, code in pieces
    )


def _pattern_for(architecture: str, signature: Mapping[str, str]) -> str | None:
    pattern = signature.get(architecture, signature.get("*"))
    if pattern is None or not pattern.startswith("@"):
        return pattern
    known = _shipped_signatures()
    if pattern[1:] not in known:
        raise SettingsError(
            f"signature: {pattern!r} is not known; use one of {', '.join('@' + name for name in sorted(known))}, or "
            f"a pattern"
        )
    named = known[pattern[1:]]
    return named.get(architecture, named.get("*"))


@cache
def _shipped_signatures() -> dict[str, dict[str, str]]:
    """Return the shipped patterns: name -> architecture -> pattern."""
    import yaml

    return TypeAdapter(dict[str, dict[str, str]]).validate_python(
        yaml.safe_load(SIGNATURES.read_text(encoding="utf-8"))
    )
