"""Is the instruction that a method promises really in the machine code? Pure, but for reading signatures.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tools.analysis.assembly import ENTRY, parse, reachable
from tools.artifacts import Artifact
from tools.errors import SettingsError

SIGNATURES = Path(__file__).with_name("signatures.yaml")
EXAMPLES = 5


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
    """Some of them, each with its function."""


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
        raise SettingsError(f"signature: {pattern!r} is not a regular expression ({error}); mend it in the method's page") from error
    functions = reachable(parse(assembly))
    found = [
        f"{function.name}: {text}"
        for function in functions
        for instruction in function.instructions
        if wanted.search(text := f"{instruction.mnemonic} {instruction.operands}".rstrip())
    ]
    present = bool(found) if functions else None
    return InstructionCheck(
        architecture=architecture, pattern=pattern, present=present, count=len(found), examples=tuple(dict.fromkeys(found))[:EXAMPLES]
    )


def entry(assembly: str, name: str = ENTRY) -> str:
    """The machine code of `name` and all that it reaches, as text for a reader."""
    return "\n\n".join(
        "\n".join([f"<{function.name}>:", *(f"{i.address:8x}:\t{i.mnemonic}\t{i.operands}" for i in function.instructions)])
        for function in reachable(parse(assembly), name)
    )


def _resolve(architecture: str, signature: Mapping[str, str]) -> str | None:
    pattern = signature.get(architecture, signature.get("*"))
    if pattern is None or not pattern.startswith("@"):
        return pattern
    known = _named(SIGNATURES)
    if pattern[1:] not in known:
        raise SettingsError(
            f"signature: {pattern!r} is not known; use one of {', '.join('@' + name for name in sorted(known))}, or a pattern"
        )
    named = known[pattern[1:]]
    return named.get(architecture, named.get("*"))


def _named(path: Path) -> dict[str, dict[str, str]]:
    import yaml
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(dict[str, dict[str, str]]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: cannot be read as YAML ({' '.join(str(error).split())}); restore the file") from error
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the file"
        raise SettingsError(f"{path}: {where}: must map names to architectures to patterns; mend that entry") from error
