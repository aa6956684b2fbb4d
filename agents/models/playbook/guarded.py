"""A loop in two forms: with threads where there is work for them, and as it was where there is not.

Recipes read and write the short form, an `if` clause of the pragma; a kernel is given out in the long one where that is not much longer.
With the clause the runtime is called all the same and makes a team of one: with its code out of the cache that took 8 to 25 us a call
(measured on two virtual cores, GCC 12), a tenth of what a small workload takes, and more than the gate allows it to lose.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from agents.models.playbook.syntax import Edit, Unit, parsed
from agents.models.playbook.tree import walk

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_LINES = 13
"""A longer loop is not written twice, since whoever reads the kernel reads it twice, and every prompt holds it; nor one that calls a longer
function of elements, which a compiler would put in once, but not twice. The clause has to do there."""
ONCE = frozenset(
    {
        "labeled_statement",
        "preproc_if",
        "preproc_ifdef",
        "preproc_def",
        "preproc_function_def",
        "raw_string_literal",
        "storage_class_specifier",
        "gnu_asm_expression",
    }
)
"""What may not stand in the source twice, or not be moved to the right."""
CLAUSES = r"(?: (?:reduction|schedule|collapse)\([^()]*\))*"
"""Those without which the loop is the same when one thread runs it. Outside a region `private` and `firstprivate` would write the variable
of the function, and of others it is not known here what they mean."""
THREADED = re.compile(rf"#pragma omp parallel for(?P<simd> simd)?(?P<clauses>{CLAUSES})\s*")
SHORT = re.compile(rf"{THREADED.pattern} if\((?:parallel: )?(?P<enough>1LL \* .+ >= \d+)\)\s*")
INLINE = frozenset({"inline", "constexpr", "__inline__", "__inline", "__attribute__"})
"""Whoever said one of these of a function, or a macro that may hold one, has said how it is to be called."""
COMPARED = frozenset({"<", "<=", ">", ">="})
OF_THREADS = re.compile(r" schedule\([^()]*\)")


def unfolded(source: str) -> str:
    """`source` with every loop that threads run where there is work for them in its two forms, as far as it may stand twice."""
    unit = parsed(source)
    edits: list[Edit] = []
    twice: list[Node] = []
    for pragma in walk(unit.root):
        found = SHORT.fullmatch(unit.text(pragma)) if pragma.type == "preproc_call" else None
        loop = pragma.next_named_sibling
        if found is None or loop is None or loop.type != "for_statement" or not repeatable(unit, loop):
            continue
        if not _balanced(found["enough"]) or any(e.start <= pragma.start_byte < e.end for e in edits):
            continue
        simd, clauses, enough = found["simd"] or "", found["clauses"], found["enough"]
        body, indent = unit.text(loop), unit.indent(loop)
        alone = f"#pragma omp simd{OF_THREADS.sub('', clauses)}\n{indent}{body}" if simd else body
        text = either(unit, loop, enough, f"#pragma omp parallel for{simd}{clauses}\n{indent}{body}", alone)
        edits.append(Edit(pragma.start_byte, loop.end_byte, text))
        twice.append(loop)
    changed = parsed(unit.apply([*edits, *marked_inline(unit, twice)])) if edits else unit
    return source if changed.broken else changed.source


def folded(unit: Unit) -> list[Edit]:
    """The edits that take loops in two forms back to the short one."""
    edits: list[Edit] = []
    for node in walk(unit.root):
        enough = _enough(unit, node) if node.type == "if_statement" else ""
        forms = _forms(unit, node) if enough else None
        if forms is None:
            continue
        pragma, loop = forms
        if any(e.start <= node.start_byte < e.end for e in edits):
            continue
        clause = f"if({'parallel: ' if ' simd' in unit.text(pragma) else ''}{enough})"
        if not _alone(unit, node) or not repeatable(unit, loop):
            continue
        body = textwrap.dedent(f"{unit.indent(loop)}{unit.text(loop)}")
        body = textwrap.indent(body, unit.indent(node)).lstrip()
        text = f"{unit.text(pragma).rstrip()} {clause}\n{unit.indent(node)}{body}"
        edits.append(Edit(node.start_byte, node.end_byte, text))
    return edits


def serial_form(unit: Unit, node: Node) -> bool:
    """Whether the loop `node` lies where somebody decided against threads: in the `else` of a branch that has them where it is long."""
    lengths = _names(unit, [bound for loop in unit.loops(node) for bound in (loop.lower, loop.upper)])
    current: Node | None = node
    while current is not None:
        branch = current.parent if current.type == "else_clause" else None
        condition = branch.child_by_field_name("condition") if branch is not None else None
        asked = [n for n in walk(condition) if n.type == "binary_expression" and unit.text(n.children[1]) in COMPARED]
        threaded = branch.child_by_field_name("consequence") if branch is not None and _names(unit, asked) & lengths else None
        if threaded is not None and any(n.type == "preproc_call" and "omp parallel" in unit.text(n) for n in walk(threaded)):
            return True
        current = current.parent
    return False


def _names(unit: Unit, expressions: list[Node]) -> set[str]:
    """The names in `expressions`, and in the values that variables among them are first given."""
    named = [n for one in expressions for n in walk(one) if n.type == "identifier"]
    values = [d.initial for n in named if (d := unit.declaration(n)) is not None and d.initial is not None]
    return {unit.text(n) for n in [*named, *(v for value in values for v in walk(value) if v.type == "identifier")]}


def either(unit: Unit, node: Node, enough: str, threaded: str, alone: str) -> str:
    """`if (enough) threaded else alone` in the place of the statement `node`, whose indent all lines of both carry but the first."""
    indent = unit.indent(node)
    threaded, alone = (textwrap.indent(f"{indent}{text}", "  ") for text in (threaded, alone))
    text = f"if ({enough}) {{\n{threaded}\n{indent}}} else {{\n{alone}\n{indent}}}"
    if node.parent is None or node.parent.type != "compound_statement":
        # Or an `else` behind it would be taken for that of this one.
        return f"{{\n{indent}{text}\n{indent}}}"
    return text


def repeatable(unit: Unit, node: Node) -> bool:
    """Whether the statement may stand in the source twice and further to the right, and is short enough to."""
    text = unit.text(node)
    if text.count("\n") >= MAX_LINES or "\\\n" in text or any(n.type in ONCE for n in walk(node)):
        return False
    # Those of recipes are put in whatever their size; of one with loops of its own the call costs little.
    own = [called for called, _ in _called(unit, [node]) if not (unit.function_name(called) or "").startswith("kw_")]
    return all(unit.text(f).count("\n") < MAX_LINES or any(n.type == "for_statement" for n in walk(f)) for f in own)


def marked_inline(unit: Unit, loops: list[Node]) -> list[Edit]:
    """`inline` for the file's own functions that `loops` call, directly or not: a compiler puts in a function that is called once whatever
    its size, but not one that is called twice (bilinear_resize took 1.3 times as long for it)."""
    return [edit for _, edit in _called(unit, loops) if edit is not None]


def _alone(unit: Unit, node: Node) -> bool:
    """Whether the statement has its lines for itself and lies in a block: a pragma may stand there."""
    before = unit.code[unit.code.rfind(b"\n", 0, node.start_byte) + 1 : node.start_byte]
    return not before.strip() and node.parent is not None and node.parent.type == "compound_statement"


def _called(unit: Unit, loops: list[Node]) -> list[tuple[Node, Edit | None]]:
    """The functions that only this file sees and that `loops` call, directly or not, each with what marks it as inline."""
    local: dict[str, list[tuple[Node, Edit | None]]] = {}
    for node in walk(unit.root):
        if node.type == "function_definition" and (named := _local(unit, node)) is not None:
            local.setdefault(named[0], []).append((node, named[1]))
    found, waiting = [], list(loops)
    while waiting:
        words = set(_words(unit, waiting.pop()))
        for name in [name for name in local if name in words or name == "operator"]:
            for function, edit in local.pop(name):
                waiting.append(function)
                found.append((function, edit))
    return found


def _local(unit: Unit, function: Node) -> tuple[str, Edit | None] | None:
    """The name of a function that only this file sees (`operator` for all operators), and what marks it as inline where nothing does."""
    declarator, scope = function.child_by_field_name("declarator"), function.parent
    name = next((n for n in walk(declarator) if n.type in ("identifier", "operator_name")), None)
    static = next((n for n in function.children if n.type == "storage_class_specifier" and unit.text(n) == "static"), None)
    while scope is not None and scope.type in ("declaration_list", "template_declaration"):
        scope = scope.parent
    hidden = scope is not None and scope.type == "namespace_definition" and scope.child_by_field_name("name") is None
    if name is None or not (static or hidden) or (scope is not None and scope.type == "field_declaration_list"):
        return None
    kind = function.child_by_field_name("type")
    said = unit.code[function.start_byte : declarator.start_byte if declarator is not None else function.start_byte].decode()
    spot = static.end_byte if static is not None else kind.start_byte if kind is not None else None
    macros = {unit.text(n) for d in walk(unit.root) if d.type.startswith("preproc_") and (n := d.child_by_field_name("name"))}
    marked = spot is None or "[[" in said or (INLINE | macros) & set(re.findall(r"\w+", said))
    text = " inline" if static is not None else "inline "
    return ("operator" if name.type == "operator_name" else unit.text(name)), None if marked or spot is None else Edit(spot, spot, text)


def _enough(unit: Unit, node: Node) -> str:
    condition = node.child_by_field_name("condition")
    found = re.fullmatch(r"\((1LL \* .+ >= \d+)\)", unit.text(condition)) if condition is not None else None
    return found[1] if found is not None and _balanced(found[1]) else ""


def _balanced(text: str) -> bool:
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return depth == 0


def _forms(unit: Unit, node: Node) -> tuple[Node, Node] | None:
    """The pragma and the loop of the form with threads, where the other one is the same loop."""
    then, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
    if then is None or other is None or not other.named_children:
        return None
    threaded, alone = then.named_children, other.named_children[-1].named_children
    if [n.type for n in threaded] != ["preproc_call", "for_statement"] or not alone or alone[-1].type != "for_statement":
        return None
    found = THREADED.fullmatch(unit.text(threaded[0]))
    if found is None or _words(unit, threaded[1]) != _words(unit, alone[-1]):
        return None
    lanes = f"#pragma omp simd{OF_THREADS.sub('', found['clauses'])}"
    expected = [lanes] if found["simd"] else []
    return (threaded[0], threaded[1]) if [unit.text(n).rstrip() for n in alone[:-1]] == expected else None


def _words(unit: Unit, node: Node) -> list[str]:
    """Every token but comments, operators among them."""
    found, stack = [], [node]
    while stack:
        current = stack.pop()
        if not current.children and current.type != "comment":
            found.append(unit.text(current))
        stack.extend(reversed(current.children))
    return found
