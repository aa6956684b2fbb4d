"""A condition that does not change in a loop, asked once in front of two loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.models.playbook.base import Recipe
from agents.models.playbook.counted_loops import Loop
from agents.models.playbook.nests import is_innermost
from agents.models.playbook.select import IMPURE, settled_before
from agents.models.playbook.syntax import Edit, Unit, pragma_before
from agents.models.playbook.tree import single, walk


class UnswitchLoops(Recipe):
    """`for (x) if (y == 0) A else B` as `if (y == 0) for (x) A else for (x) B`: vector code of one side need not compute the other."""

    name = "unswitch_loops"
    apart = True

    def sites(self, unit: Unit, knobs: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
        for function in unit.reachable:
            body = function.child_by_field_name("body")
            for loop in unit.loops(body) if body is not None else []:
                if is_innermost(unit, loop) and pragma_before(unit, loop.node) is None:
                    yield _edits(unit, loop)


def _edits(unit: Unit, loop: Loop) -> list[Edit]:
    branch = single(loop.body)
    if branch is None or branch.type != "if_statement":
        return []
    condition, then, other = (branch.child_by_field_name(f) for f in ("condition", "consequence", "alternative"))
    if condition is None or then is None or not settled_before(unit, branch, condition):
        return []
    if any(n.type in (*IMPURE, "break_statement", "continue_statement") for n in walk(condition)):
        return []
    head, indent = unit.code[loop.node.start_byte : loop.body.start_byte].decode().rstrip(), unit.indent(loop.node)
    text = f"if {unit.text(condition)} {{\n{indent}  {head} {unit.text(then)}\n{indent}}}"
    if other is not None and other.named_children:
        text += f" else {{\n{indent}  {head} {unit.text(other.named_children[-1])}\n{indent}}}"
    if loop.node.parent is None or loop.node.parent.type != "compound_statement":
        # An `else` behind the loop belongs to a condition around it.
        text = f"{{ {text} }}"
    return [Edit(loop.node.start_byte, loop.node.end_byte, text)]
