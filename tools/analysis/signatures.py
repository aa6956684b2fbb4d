"""Is the instruction that a method promises in the machine code because of the method? Pure, but for reading
signatures.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from tools.analysis.assembly import ENTRY, parse, reachable
from tools.analysis.loops import source_loops
from tools.artifacts import Artifact
from tools.errors import SettingsError

SIGNATURES = Path(__file__).with_name("signatures.yaml")
EXAMPLES = 5
SIMPLE = re.compile(r"[^(){}*+?]+(?:[*+?][^(){}*+?]*){0,3}")
"""No groups and few repeats, so that a search always ends soon."""
LONGEST = 120
"""Characters of a pattern that a model wrote."""
MARKED = 1.25
"""Times by which a signature must fill more of the hot loops than without the method, where it stands in these, too."""


class InstructionCheck(Artifact):
    """One method's signature against one kernel's machine code."""

    architecture: str
    pattern: str | None
    """The regular expression that was looked for; None: the method gives none for this architecture."""
    present: bool | None
    """None where no pattern was given or the code could not be read."""
    count: int
    """Instructions of `solve`, and of what it calls and hands on, that match."""
    examples: tuple[str, ...] = ()
    """Some of them, each with its function; those of hot loops first."""
    share: float | None = None
    """Of the instructions of a hot loop, the mean over these, the innermost loops; over functions where there is
    none. None: no code."""

    def __str__(self) -> str:
        return f"{self.count} ({self.share or 0.0:.0%} of the hot code)"


class Mechanism(Artifact):
    """A method's signature in a kernel, held against the same kernel without the method: a mechanism is a
    difference."""

    shown: bool | None
    """None: not checked, or not clear: a larger share of fewer instructions may be what else was taken out."""
    there: InstructionCheck
    without: InstructionCheck | None
    """None: nothing to compare with was looked at."""
    against: str
    """Candidate id of the kernel without it: its ablation, else the parent."""

    def __str__(self) -> str:
        if self.there.pattern is None:
            return f"not checked: no signature for {self.there.architecture}"
        if self.shown is None:
            if self.there.present and self.without and self.without.present:
                return f"not clear: {self.there}, without it {self.without}"
            return (
                f"not checked: {'no code of this kernel' if self.there.present is None else 'nothing to compare with'}"
            )
        return f"{'yes' if self.shown else 'no'}: {self.there}" + (
            f", without it {self.without}" if self.without else ""
        )


def fault(pattern: str) -> str:
    """Why a pattern that a model wrote is not looked for; empty where it is."""
    if pattern.startswith("@"):
        return (
            ""
            if pattern[1:] in _named()
            else f"{pattern!r} is not known; use one of {', '.join('@' + name for name in sorted(_named()))}"
        )
    if len(pattern) > LONGEST or not SIMPLE.fullmatch(pattern):
        return f"{pattern!r} is no plain pattern: at most {LONGEST} characters, no (), no {{}}, at most three of * + ?"
    try:
        re.compile(pattern)
    except re.error as error:
        return f"{pattern!r} is not a regular expression ({error})"
    return ""


def check(assembly: str, architecture: str, signature: Mapping[str, str]) -> InstructionCheck:
    """Look for `signature[architecture]` (else `*`) in what `solve` reaches.

    `assembly` is a disassembly as objdump prints it; patterns are searched in "mnemonic operands", or name an entry of
    signatures.yaml as `@name`. SettingsError for a pattern that is no regular expression or a name that is not known.
    """
    pattern = _resolve(architecture, signature)
    if pattern is None:
        return InstructionCheck(architecture=architecture, pattern=None, present=None, count=0)
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise SettingsError(
            f"signature: {pattern!r} is not a regular expression ({error}); mend it in the method's page"
        ) from error
    functions = reachable(parse(assembly))
    if not functions:
        return InstructionCheck(architecture=architecture, pattern=pattern, present=None, count=0)
    hot = [(loop.function, loop.instructions) for loop in source_loops(functions)]
    whole = [(function.name, function.instructions) for function in functions]
    matching = [
        [f"{name}: {text}" for i in code if wanted.search(text := f"{i.mnemonic} {i.operands}".rstrip())]
        for name, code in (*hot, *whole)
    ]
    shares = [len(seen) / max(1, len(code)) for seen, (_, code) in zip(matching, hot or whole, strict=False)]
    found = sum(map(len, matching[len(hot) :]))
    examples = tuple(dict.fromkeys(text for seen in matching for text in seen))[:EXAMPLES]
    return InstructionCheck(
        architecture=architecture,
        pattern=pattern,
        present=found > 0,
        count=found,
        examples=examples,
        share=sum(shares) / len(shares),
    )


def compare(there: InstructionCheck, without: InstructionCheck | None, against: str) -> Mechanism:
    """Whether a signature is shown `there` by a method: it is not `without` it, or fewer times and markedly less of the
    hot loops.

    Where it stands in no hot loop of either, as the start of threads does, its instructions are counted instead.
    `against`: what `without` was made of.
    """
    shown = there.present
    if there.present:
        if without is None or without.present is None:
            shown = None
        elif there.share or without.share:
            shown = (there.share or 0.0) > MARKED * (without.share or 0.0)
            if shown and without.share and there.count <= without.count:
                shown = None
        else:
            shown = there.count > MARKED * without.count
    return Mechanism(shown=shown, there=there, without=without, against=against)


def entry(assembly: str, name: str = ENTRY) -> str:
    """The machine code of `name` and all that it reaches, as text for a reader."""
    return "\n\n".join(
        "\n".join(
            [f"<{function.name}>:", *(f"{i.address:8x}:\t{i.mnemonic}\t{i.operands}" for i in function.instructions)]
        )
        for function in reachable(parse(assembly), name)
    )


def hot(assembly: str) -> tuple[str, ...]:
    """The machine code of the innermost loops, longest first; of each function where there is no loop. Without what
    only pads."""
    functions = reachable(parse(assembly))
    pieces = [(loop.function, loop.instructions) for loop in source_loops(functions)] or [
        (f.name, f.instructions) for f in functions
    ]
    pieces.sort(key=lambda piece: -len(piece[1]))
    return tuple(
        f"<{name}>, {len(code)} instructions:\n"
        + "\n".join(f"{i.mnemonic} {i.operands}".rstrip() for i in code if i.mnemonic.lower() != "nop")
        for name, code in pieces
    )


def _resolve(architecture: str, signature: Mapping[str, str]) -> str | None:
    pattern = signature.get(architecture, signature.get("*"))
    if pattern is None or not pattern.startswith("@"):
        return pattern
    known = _named()
    if pattern[1:] not in known:
        raise SettingsError(
            f"signature: {pattern!r} is not known; use one of {', '.join('@' + name for name in sorted(known))}, or "
            f"a pattern"
        )
    named = known[pattern[1:]]
    return named.get(architecture, named.get("*"))


@cache
def _named() -> dict[str, dict[str, str]]:
    """Name -> architecture -> pattern, as shipped."""
    import yaml

    return TypeAdapter(dict[str, dict[str, str]]).validate_python(
        yaml.safe_load(SIGNATURES.read_text(encoding="utf-8"))
    )
