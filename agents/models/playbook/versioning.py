"""Loop versioning: with threads where there is work for them, and the loop as it was where there is not.

Recipes read and write one version, with an `if` clause in its pragma; a kernel is given out with both where the loop is
short. With the clause the runtime is called all the same and makes a team of one: with its code out of the cache that
took 8 to 25 us a call (measured on two virtual cores, GCC 12), a tenth of what a small workload takes, and more than
the gate allows it to lose.
"""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache
from typing import TYPE_CHECKING

from agents.models.playbook.analysis.unit import Unit, parsed
from tools.languages.cpp_source import CppEdit, walk

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_LINES = 13
"""A longer loop is not written twice: whoever reads the kernel reads it twice, and every prompt holds it."""
SHORT = re.compile(
    r"(?P<threads>#pragma omp parallel for(?P<simd> simd)?(?P<clauses>(?: (?:reduction|schedule|collapse)\([^()]*\))*))"
    r" if\((?:parallel: )?(?P<enough>1LL \* .+ >= \d+)\)\s*"
)
"""With no other clauses: outside a region `private` would write the variable of the function."""
ENOUGH = re.compile(r"\((1LL \* .+ >= \d+)\)")
OF_THREADS = re.compile(r" schedule\([^()]*\)")


def versioned(source: str) -> str:
    """`source` with every loop that threads run where there is work for them in two versions, as far as it may stand
    twice."""
    unit = parsed(source)
    edits: list[CppEdit] = []
    for pragma in walk(unit.root):
        found = SHORT.fullmatch(unit.text(pragma)) if pragma.type == "preproc_call" else None
        loop = pragma.next_named_sibling
        if found is None or loop is None or loop.type != "for_statement" or not _repeatable(unit, loop):
            continue
        indent, body = unit.indent(loop), unit.text(loop)
        alone = f"#pragma omp simd{OF_THREADS.sub('', found['clauses'])}\n{indent}{body}" if found["simd"] else body
        blocks = [textwrap.indent(f"{indent}{text}", "  ") for text in (f"{found['threads']}\n{indent}{body}", alone)]
        text = f"if ({found['enough']}) {{\n{blocks[0]}\n{indent}}} else {{\n{blocks[1]}\n{indent}}}"
        edits.append(CppEdit(pragma.start_byte, loop.end_byte, text))
    changed = unit.apply(edits)
    return source if parsed(changed).has_syntax_errors else changed


@lru_cache(maxsize=16)
def single(source: str) -> str:
    """`source` with what `versioned` made of a loop taken back to one version."""
    unit = parsed(source)
    edits = [
        edit for node in walk(unit.root) if node.type == "if_statement" and (edit := _merged(unit, node)) is not None
    ]
    return unit.apply(edits) if edits else source


def _merged(unit: Unit, node: Node) -> CppEdit | None:
    condition, then, other = (node.child_by_field_name(f) for f in ("condition", "consequence", "alternative"))
    enough = ENOUGH.fullmatch(unit.text(condition)) if condition is not None else None
    if (
        enough is None
        or then is None
        or other is None
        or [n.type for n in then.named_children] != ["preproc_call", "for_statement"]
    ):
        return None
    pragma, loop = then.named_children
    last = other.named_children[-1].named_children[-1:]
    if "omp parallel for" not in unit.text(pragma) or [unit.text(n).split() for n in last] != [unit.text(loop).split()]:
        return None
    clause = f"if({'parallel: ' if ' simd' in unit.text(pragma) else ''}{enough[1]})"
    indent = unit.indent(node)
    body = textwrap.indent(textwrap.dedent(f"{unit.indent(loop)}{unit.text(loop)}"), indent).lstrip()
    return CppEdit(node.start_byte, node.end_byte, f"{unit.text(pragma).rstrip()} {clause}\n{indent}{body}")


def _repeatable(unit: Unit, loop: Node) -> bool:
    """Short, in a block, of whole lines, and calling no function of the file: one that is called twice is not put in
    by itself."""
    called = {unit.called_function(n) for n in walk(loop) if n.type == "call_expression"}
    own = {name for name in called & set(unit.functions) if name is not None and not name.startswith("kw_")}
    block = loop.parent is not None and loop.parent.type == "compound_statement"
    text = unit.text(loop)
    return block and not own and text.count("\n") < MAX_LINES and "\\\n" not in text and "static" not in text
