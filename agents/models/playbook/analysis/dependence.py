"""Are a loop's iterations independent? Polynomials for arrays (`strides`), patterns for scalars (`carried`); no
answer is "dependent"."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from agents.models.playbook.analysis.affine import Poly
from agents.models.playbook.analysis.effects import Access, read
from agents.models.playbook.analysis.loops import Loop
from agents.models.playbook.analysis.reductions import Reduction
from agents.models.playbook.analysis.scalars import carried
from agents.models.playbook.analysis.strides import distinct
from agents.models.playbook.analysis.unit import Unit
from tools.languages.cpp_source import walk


@dataclass(frozen=True)
class Independence:
    """What a loop needs to run its iterations in any order; `problem` says why it cannot."""

    problem: str = ""
    private: tuple[str, ...] = ()
    """Scalars declared outside that each iteration sets before it reads them, and that nobody reads afterwards."""
    reductions: tuple[Reduction, ...] = ()
    accesses: tuple[Access, ...] = ()

    def __bool__(self) -> bool:
        return not self.problem


@lru_cache(maxsize=256)
def independence(unit: Unit, loop: Loop) -> Independence:
    """Whether `loop`'s iterations may run in any order, or together, up to its reductions."""
    # `a + b` may do more than it says.
    operators = any(node.type == "operator_name" for node in walk(unit.root))
    escape = "the file defines operators" if operators else _escapes(unit, loop)
    if escape:
        return Independence(escape)
    private, reductions, problem = carried(unit, loop)
    if problem:
        return Independence(problem)
    reader = read(unit, loop.body)
    if reader.effects.problem:
        return Independence(reader.effects.problem)
    own = reader.range(loop, {})
    step = reader.poly(loop.step, {}) if loop.step is not None else Poly.constant(1)
    if own is None or step is None:
        return Independence("the loop's bounds or its step are not understood")
    groups: dict[str, list[Access]] = {}
    for access in reader.effects.accesses:
        groups.setdefault(access.root, []).append(access)
    for root, group in groups.items():
        if any(a.write for a in group) and not _declared_inside(unit, loop, root) and not distinct(group, own, step):
            return Independence(f"iterations may touch the same element of {root.split('@')[0]}")
    return Independence("", private, reductions, tuple(reader.effects.accesses))


def _escapes(unit: Unit, loop: Loop) -> str:
    for node in walk(
        loop.body, skip=frozenset({"for_statement", "while_statement", "do_statement", "switch_statement"})
    ):
        if node.type == "break_statement":
            return "the loop breaks"
    assigned = unit.written_names(loop.body)
    for bound in (loop.upper, loop.step):
        if bound is not None and any(n.type == "identifier" and unit.text(n) in assigned for n in walk(bound)):
            return "the loop changes its own bound"
    return ""


def _declared_inside(unit: Unit, loop: Loop, root: str) -> bool:
    start = int(root.split("@")[1]) if "@" in root else -1
    if loop.body.start_byte <= start < loop.body.end_byte:
        return True
    function = unit.enclosing_function(loop.node)
    # A local of an inlined helper is new in each call.
    return not function.start_byte <= start < function.end_byte
