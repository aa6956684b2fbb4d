"""Loops that count with pointers, downwards or by `while`, rewritten to count upwards with an index: `p[i]` can be analysed, `*p++` not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agents.models.playbook.scopes import Declaration, declared_in
from agents.models.playbook.syntax import Edit, Unit, fresh
from agents.models.playbook.tree import contains, statements, strip, walk

if TYPE_CHECKING:
    from tree_sitter import Node

LOOPS = ("for_statement", "while_statement", "do_statement")
JUMPS = ("break_statement", "continue_statement", "goto_statement", "return_statement")


def counted_up(unit: Unit) -> list[Edit]:
    """The edits for one loop, inner ones first; none where no loop is understood."""
    for function in unit.reachable:
        found = [n for n in walk(function.child_by_field_name("body")) if n.type in ("for_statement", "while_statement")]
        for loop in reversed(found):
            body = loop.child_by_field_name("body")
            if body is None:
                continue
            for made in (_countdown, _to_the_end, _while_less, _pointer_counter, _descending, _walked):
                edits = made(unit, function, loop, body)
                if edits:
                    return edits
    return []


def _mentions(unit: Unit, node: Node | None, name: str) -> list[Node]:
    return [n for n in walk(node) if n.type == "identifier" and unit.text(n) == name]


def _mentioned_after(unit: Unit, function: Node, loop: Node, name: str) -> bool:
    """Below the loop, or above it when an outer loop comes round to where it is not set anew."""
    return any(n.start_byte >= loop.end_byte for n in _mentions(unit, function, name))


def _around(loop: Node) -> Iterator[Node]:
    current = loop.parent
    while current is not None and current.type != "function_definition":
        if current.type in LOOPS:
            yield current
        current = current.parent


def _condition(unit: Unit, loop: Node) -> Node | None:
    condition = loop.child_by_field_name("condition")
    if condition is None:
        return None
    value = condition.child_by_field_name("value") if condition.type == "condition_clause" else condition
    return strip(value) if value is not None else None


def _opened(unit: Unit, body: Node, text: str) -> list[Edit]:
    """`text` as the first statement of a body."""
    if body.type == "compound_statement":
        return [Edit(body.start_byte + 1, body.start_byte + 1, f" {text}")]
    return [Edit(body.start_byte, body.start_byte, f"{{ {text} "), Edit(body.end_byte, body.end_byte, " }")]


def _head(loop: Node, body: Node, text: str) -> Edit:
    return Edit(loop.start_byte, body.start_byte, f"{text} ")


# ---------------------------------------------------------------- while


def _countdown(unit: Unit, function: Node, loop: Node, body: Node) -> list[Edit]:
    """`while (n-- > 0)`, `while (n--)`, `for (; n > 0; n--)` of a number that is not read otherwise."""
    condition = _condition(unit, loop)
    if condition is None or any(n.type in JUMPS for n in walk(body)):
        return []
    down, value = condition, None
    if condition.type == "binary_expression":
        operator, down, value = unit.binary(condition)
        if operator not in (">", "!=") or unit.text(value) != "0":
            return []
    update = loop.child_by_field_name("update")
    if loop.type == "for_statement":
        if loop.child_by_field_name("initializer") is not None or update is None:
            return []
        parts = list(_parts(update))
        down = next((p for p in parts if p.type == "update_expression"), update)
        others = [unit.text(p) for p in parts if p != down]
        tested = condition if value is None else unit.binary(condition)[1]
        if tested.type != "identifier" or unit.text(tested) not in unit.text(down):
            return []
    else:
        parts, others = [], []
        if not unit.text(down).endswith("--"):
            return []
    name = down.child_by_field_name("argument") if down.type == "update_expression" and "--" in unit.text(down) else None
    declaration = unit.declaration(name) if name is not None and name.type == "identifier" else None
    if name is None or declaration is None or declaration.form != "value" or declaration.kind == "global":
        return []
    text = unit.text(name)
    if (
        _mentions(unit, body, text)
        or _mentioned_after(unit, function, loop, text)
        or any(_mentions(unit, p, text) for p in parts if p != down)
    ):
        return []
    if any(not contains(outer, declaration.node) for outer in _around(loop)) or any(
        t in ("float", "double") for t in declaration.type.split()
    ):
        return []
    counter = fresh(unit, "kw_at")
    return [_head(loop, body, f"for (long {counter} = 0; {counter} < {text}; {', '.join([f'{counter}++', *others])})")]


def _to_the_end(unit: Unit, function: Node, loop: Node, body: Node) -> list[Edit]:
    """`while (p != end)` where p walks by one and end was made from it."""
    condition = _condition(unit, loop)
    if loop.type != "while_statement" or condition is None or condition.type != "binary_expression":
        return []
    operator, left, right = unit.binary(condition)
    declaration = unit.declaration(left) if left.type == "identifier" else None
    if operator not in ("!=", "<") or declaration is None or declaration.form != "pointer" or any(n.type in JUMPS for n in walk(body)):
        return []
    name = unit.text(left)
    writes = [n for n in walk(function) if n.type in ("update_expression", "assignment_expression") and _target(unit, n) == name]
    if len(writes) != 1 or not contains(body, writes[0]) or not _every_time(writes[0], {n.id for n in statements(body)}):
        return []
    if unit.text(writes[0]).replace(" ", "").replace(name, "") != "++":
        return []
    count = _distance(unit, right, {name})
    if count is None or any(not contains(outer, declaration.node) for outer in _around(loop)):
        return []
    counter = fresh(unit, "kw_at")
    return [_head(loop, body, f"for (long {counter} = 0; {counter} < {count}; {counter}++)")]


def _distance(unit: Unit, end: Node, starts: set[str]) -> str | None:
    """n of an end `start + n`, given so or by a name that is never changed."""
    end = strip(end)
    if end.type == "identifier":
        declaration = unit.declaration(end)
        if declaration is None or declaration.initial is None or unit.text(end) in unit.assigned(unit.function_of(end)):
            return None
        end = strip(declaration.initial)
    if end.type == "binary_expression" and unit.binary(end)[0] == "+" and unit.text(unit.binary(end)[1]) in starts:
        right = unit.binary(end)[2]
        return unit.text(right) if right.type in ("identifier", "number_literal") else f"({unit.text(right)})"
    return None


def _while_less(unit: Unit, function: Node, loop: Node, body: Node) -> list[Edit]:
    """`int i = 0; while (i < n) { ...; i++; }`."""
    condition, before = _condition(unit, loop), loop.prev_named_sibling
    inner = statements(body)
    if loop.type != "while_statement" or condition is None or condition.type != "binary_expression" or before is None or not inner:
        return []
    name, last = unit.text(unit.binary(condition)[1]), inner[-1]
    declarators = before.children_by_field_name("declarator") if before.type == "declaration" else []
    declared = declarators[0].child_by_field_name("declarator") if len(declarators) == 1 else None
    if (
        declared is None
        or unit.text(declared) != name
        or declarators[0].child_by_field_name("value") is None
        or declared.type != "identifier"
    ):
        return []
    if last.type != "expression_statement" or _target(unit, last.named_children[0]) != name:
        return []
    if unit.assigned(body).count(name) != 1 or _mentioned_after(unit, function, loop, name) or any(n.type in JUMPS for n in walk(body)):
        return []
    own = {d.name for d in declared_in(unit, body)}
    if any(n.type == "identifier" and unit.text(n) in own for n in walk(last)):
        return []
    step = unit.text(last).rstrip(" ;")
    head = f"for ({unit.text(before)} {unit.text(condition)}; {step})"
    return [Edit(before.start_byte, body.start_byte, f"{head} "), Edit(last.start_byte, last.end_byte, "")]


# ---------------------------------------------------------------- for


def _pointer_counter(unit: Unit, function: Node, loop: Node, body: Node) -> list[Edit]:
    """`for (const float* p = a; p != a + n; ++p)`."""
    start, condition, update = (loop.child_by_field_name(f) for f in ("initializer", "condition", "update"))
    if start is None or condition is None or update is None or start.type != "declaration" or condition.type != "binary_expression":
        return []
    declarators = start.children_by_field_name("declarator")
    declared = declarators[0].child_by_field_name("declarator") if len(declarators) == 1 else None
    value = declarators[0].child_by_field_name("value") if declared is not None else None
    operator, left, right = unit.binary(condition)
    if declared is None or value is None or declared.type != "pointer_declarator" or operator not in ("!=", "<"):
        return []
    name = unit.text(left)
    parts = list(_parts(update))
    mine = [p for p in parts if p.type == "update_expression" and unit.text(p).replace(" ", "").replace(name, "") == "++"]
    count = _distance(unit, right, {unit.text(strip(value))})
    if unit.text(declared).lstrip("* ") != name or len(mine) != 1 or count is None or name in unit.assigned(body):
        return []
    others = "".join(f", {unit.text(p)}" for p in parts if p not in mine)
    counter = fresh(unit, "kw_at")
    kind = unit.text(start).split("=")[0].strip()
    return [
        _head(loop, body, f"for (long {counter} = 0; {counter} < {count}; {counter}++{others})"),
        *_opened(unit, body, f"{kind} = {unit.text(value)} + {counter};"),
    ]


def _descending(unit: Unit, function: Node, loop: Node, body: Node) -> list[Edit]:
    """`for (int k = n - 1; k >= 0; --k)` counts upwards; k is made from the new counter."""
    start, condition, update = (loop.child_by_field_name(f) for f in ("initializer", "condition", "update"))
    if start is None or condition is None or update is None or start.type != "declaration" or condition.type != "binary_expression":
        return []
    declarators = start.children_by_field_name("declarator")
    name = declarators[0].child_by_field_name("declarator") if len(declarators) == 1 else None
    value = declarators[0].child_by_field_name("value") if name is not None else None
    operator, left, right = unit.binary(condition)
    kind = start.child_by_field_name("type")
    if (
        name is None
        or value is None
        or kind is None
        or name.type != "identifier"
        or unit.text(left) != unit.text(name)
        or operator not in (">", ">=")
    ):
        return []
    if unit.text(update).replace(" ", "") not in (f"{unit.text(name)}--", f"--{unit.text(name)}"):
        return []
    changed = {*unit.assigned(body), unit.text(name)}
    bounds = [n for one in (value, right) for n in walk(one)]
    # An unsigned counter may wrap round on purpose.
    odd = any(n.type not in ("identifier", "number_literal", "binary_expression", "parenthesized_expression") for n in bounds)
    if odd or unit.text(name) in unit.assigned(body) or "unsigned" in unit.text(kind) or "size_t" in unit.text(kind):
        return []
    if any(n.type == "identifier" and unit.text(n) in changed for n in bounds):
        return []
    counter = fresh(unit, "kw_at")
    sign = "<=" if operator == ">=" else "<"
    span = f"({unit.text(value)})" if unit.text(right) == "0" else f"({unit.text(value)}) - ({unit.text(right)})"
    return [
        _head(loop, body, f"for ({unit.text(kind)} {counter} = 0; {counter} {sign} {span}; {counter}++)"),
        *_opened(unit, body, f"const {unit.text(kind)} {unit.text(name)} = ({unit.text(value)}) - {counter};"),
    ]


# ---------------------------------------------------------------- pointers that walk


def _walked(unit: Unit, function: Node, loop: Node, body: Node) -> list[Edit]:
    """A pointer moved on by the same distance in each iteration becomes start + index * distance."""
    update = loop.child_by_field_name("update")
    if loop.type != "for_statement" or update is None:
        return []
    parts = list(_parts(update))
    counters = [p for p in parts if p.type == "update_expression" and unit.text(p).replace(" ", "").strip("+").isidentifier()]
    start = loop.child_by_field_name("initializer")
    for counter in counters:
        name = unit.text(counter).replace(" ", "").strip("+")
        lower = _lower(unit, start, name)
        if lower is None or name in unit.assigned(body):
            continue
        index = name if lower == "0" else f"({name} - {lower})"
        for pointer, write, distance in _moves(unit, loop, body, [p for p in parts if p != counter]):
            edits = _with_index(unit, function, loop, body, pointer, write, distance, index, parts)
            if edits:
                return edits
    return []


def _lower(unit: Unit, start: Node | None, name: str) -> str | None:
    """First value of the counter, where it is a name or a number."""
    value: Node | None = None
    if start is not None and start.type == "declaration":
        for declarator in start.children_by_field_name("declarator"):
            inner = declarator.child_by_field_name("declarator")
            if inner is not None and unit.text(inner) == name:
                value = declarator.child_by_field_name("value")
    elif start is not None and start.type == "assignment_expression" and unit.text(unit.binary(start)[1]) == name:
        value = unit.binary(start)[2]
    return unit.text(value) if value is not None and value.type in ("identifier", "number_literal") else None


def _moves(unit: Unit, loop: Node, body: Node, parts: list[Node]) -> Iterator[tuple[Declaration, Node, str]]:
    """Pointers from outside with their only write in the loop and the distance by which it moves them."""
    top = {n.id for n in statements(body)}
    for write in [*parts, *walk(body)]:
        if write.type not in ("update_expression", "assignment_expression"):
            continue
        name = _target(unit, write)
        target = next(iter(_mentions(unit, write, name)), None) if name else None
        declaration = unit.declaration(target) if target is not None else None
        if declaration is None or declaration.form != "pointer" or declaration.kind == "global" or contains(loop, declaration.node):
            continue
        if [*unit.assigned(body), *(_target(unit, p) for p in parts)].count(declaration.name) != 1:
            continue
        distance = "1"
        if write.type == "assignment_expression":
            operator, _, right = unit.binary(write)
            known = not any(n.type == "identifier" and unit.text(n) in unit.assigned(loop) for n in walk(right))
            if operator != "+=" or not known or any(n.type in ("call_expression", "update_expression") for n in walk(right)):
                continue
            distance = f"({unit.text(right)})" if right.type == "binary_expression" else unit.text(right)
        elif "--" in unit.text(write):
            continue
        if write not in parts and not _every_time(write, top):
            continue
        yield declaration, write, distance


def _every_time(write: Node, top: set[int]) -> bool:
    """Certainly carried out once in each iteration."""
    current: Node | None = write
    while current is not None and current.id not in top:
        if current.type in ("conditional_expression", "if_statement", "lambda_expression", *LOOPS, "switch_statement"):
            return False
        current = current.parent
    return current is not None and current.type in ("expression_statement", "declaration")


def _with_index(
    unit: Unit, function: Node, loop: Node, body: Node, pointer: Declaration, write: Node, distance: str, index: str, parts: list[Node]
) -> list[Edit]:
    name = pointer.name
    in_head = write in parts
    if not in_head and any(n.type in JUMPS for n in walk(body)):
        return []
    if in_head and any(n.type in ("break_statement", "goto_statement", "return_statement") for n in walk(body)):
        return []
    uses = [n for n in _mentions(unit, body, name) if not contains(write, n)]
    after = write.parent is not None and write.parent.type == "pointer_expression" and unit.text(write).endswith("++")
    if not in_head and any(n.start_byte > write.start_byte for n in uses):
        return []
    if not in_head and not after and (write.parent is None or write.parent.type != "expression_statement"):
        return []
    new = fresh(unit, f"kw_{name}")
    edits = [Edit(n.start_byte, n.end_byte, new) for n in uses]
    if in_head:
        update = loop.child_by_field_name("update")
        assert update is not None
        edits.append(Edit(update.start_byte, update.end_byte, ", ".join(unit.text(p) for p in parts if p != write)))
    elif after:
        edits.append(Edit(write.start_byte, write.end_byte, new))
    else:
        edits.append(Edit(write.start_byte, write.end_byte, ""))
    moved = f" * {distance}" if distance != "1" else ""
    # The pointer did not overflow where a product of ints would.
    wide = f"(long){index}{moved}" if moved else index
    edits += _opened(unit, body, f"auto {new} = {name} + {wide};")
    carried = any(not contains(outer, pointer.node) for outer in _around(loop))
    if carried or _mentioned_after(unit, function, loop, name):
        condition = loop.child_by_field_name("condition")
        lower = "" if "-" not in index else index.partition(" - ")[2].rstrip(")")
        if condition is None or condition.type != "binary_expression" or unit.binary(condition)[0] != "<":
            return []
        upper = unit.binary(condition)[2]
        text = unit.text(upper) if upper.type in ("identifier", "number_literal") else f"({unit.text(upper)})"
        # A row may be empty, and then the pointer stays where it is.
        count = f"({text} > {lower} ? {text} - {lower} : 0)" if lower else text
        # First of the list: behind the brace that closes a body of one statement.
        edits.insert(0, Edit(loop.end_byte, loop.end_byte, f" {name} += {'(long)' if moved else ''}{count}{moved};"))
    return edits


def _parts(update: Node) -> Iterator[Node]:
    if update.type != "comma_expression":
        yield update
        return
    left, right = update.child_by_field_name("left"), update.child_by_field_name("right")
    for one in (left, right):
        if one is not None:
            yield from _parts(one)


def _target(unit: Unit, write: Node) -> str:
    """The plain name that an expression writes."""
    field = {"assignment_expression": "left", "update_expression": "argument"}.get(write.type)
    target = write.child_by_field_name(field) if field is not None else None
    return unit.text(target) if target is not None and target.type == "identifier" else ""
