"""From traces of a reference to the C++ source of a first kernel."""

from __future__ import annotations

from collections.abc import Sequence

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.models.playbook.first.lowering import Lowering
from agents.models.playbook.first.plan import Loop, Plan, Statement, Storage
from agents.models.playbook.first.special import OPERATORS
from agents.models.playbook.first.traced import logic
from agents.models.playbook.first.values import FLOATS, STORED, Argument, Index, Reader, Reduction, Value, cast, flat, loops, wrap
from tools.artifacts import Argument as Parameter
from tools.artifacts import DType
from tools.errors import SettingsError
from tools.executors.protocol import Trace

HEADERS = ("algorithm", "cmath", "cstdint", "vector")
STEP = "  "


def first_draft(brief: CoderBrief) -> Drafts:
    """v0 for a brief without a kernel, or no draft and the one sentence that says why."""
    task = brief.task
    try:
        if task.language != "cpp":
            raise SettingsError(
                f"the playbook writes first versions in C++ alone; give a kernel, or a language model as the coder of {task.language}"
            )
        if not brief.traces:
            raise SettingsError(
                f"reference.py cannot be followed: {brief.untraced.rstrip('.')}; give a kernel, or a language model as the coder"
            )
        return Drafts(drafts=(Draft(source=first_kernel(task.arguments, brief.traces), methods=()),))
    except SettingsError as error:
        return Drafts(drafts=(), skipped={"first version": str(error)})
    except RecursionError:
        # An expression is followed to its leaves by recursion.
        deep = f"reference.py chains too many operations for the playbook ({len(brief.traces[0].nodes)}); give a kernel"
        return Drafts(drafts=(), skipped={"first version": deep})


def first_kernel(arguments: Sequence[Parameter], traces: Sequence[Trace]) -> str:
    """A plain kernel that computes what the traces show. SettingsError, in one sentence, for what has no C++ here."""
    followed = logic(traces)
    outputs = [a for a in arguments if a.role == "output"]
    values = Lowering(followed, OPERATORS).outputs()
    if len(values) != len(outputs):
        raise SettingsError(f"reference.py returns {len(values)} tensors for {len(outputs)} outputs; return one each")
    plan = Plan(list(zip(values, outputs, strict=True)), {a.name for a in arguments})
    for statement in plan.statements:
        _Writer(plan, statement).lines("")
    body = _block(plan, plan.nest(), None, STEP)
    declared = ", ".join(_declared(a) for a in arguments)
    ops = ", ".join(dict.fromkeys(node.op for node in followed.nodes if node.op not in ("getitem", "constant")))
    code = "\n".join(body)
    said = f"// Written from the operations of reference.py, plainly: {ops or 'a copy'}."
    headers = "\n".join(f"#include <{name}>" for name in HEADERS if _needs(code, name))
    return f'{said}\n{headers}\n\nextern "C" void solve({declared}) {{\n{code}\n}}\n'


def _needs(code: str, header: str) -> bool:
    words = {"algorithm": ("std::max", "std::min"), "cmath": ("std::", "INFINITY", "NAN"), "vector": ("vector<",)}
    return any(word in code for word in words.get(header, ("",)))


def _declared(argument: Parameter) -> str:
    kind = {"int32": "int"}.get(argument.dtype, STORED[argument.dtype])
    if argument.role == "scalar":
        return f"{kind} {argument.name}"
    kind = STORED[argument.dtype]
    return f"{'const ' if argument.role == 'input' else ''}{kind}* {argument.name}"


def _block(plan: Plan, body: Sequence[Loop | Statement], home: Loop | None, margin: str) -> list[str]:
    """The lines of a loop's body, or of the function's."""
    lines = []
    for storage, value in ((s, v) for v, s in plan.storage.items()):
        if storage.scratch and storage.home is home and storage.kept:
            several = len(storage.shape) > 1
            # Not `size_t(N)` alone: that would declare a function.
            count = " * ".join(f"size_t({size.text})" if several else size.text for size in storage.shape)
            lines.append(f"{margin}std::vector<{_scratch(value)}> {storage.name}({count});")
    for item in body:
        if isinstance(item, Statement):
            lines += _Writer(plan, item).lines(margin)
            continue
        variable = f"i{item.depth}"
        lines.append(f"{margin}for (int64_t {variable} = 0; {variable} < {item.size.text}; ++{variable}) {{")
        lines += [*_block(plan, item.body, item, margin + STEP), f"{margin}}}"]
    return lines


def _scratch(value: Value) -> str:
    # A vector of bool is one of bits.
    return "uint8_t" if value.computed == "bool" else STORED[value.computed]


class _Writer(Reader):
    """The body of one statement."""

    def __init__(self, plan: Plan, statement: Statement) -> None:
        self.plan = plan
        self.statement = statement
        self.shared = _shared(statement.source, plan.stored)
        self.known: dict[tuple[Value, Index], str] = {}
        self.locals: list[str] = []
        self.guards = 0
        statement.reads.clear()

    # ------------------------------------------------------------ elements

    def at(self, value: Value, index: Index) -> str:
        """From the caller, from what was stored, or computed here; a value that is used twice has a name."""
        if isinstance(value, Argument):
            text = f"{value.name}[{flat(index, value.shape)}]"
            return cast(text, value.dtype, value.computed)
        if value in self.plan.stored and value is not self.statement.target:
            self.statement.reads.append((value, index))
            return self._element(value, index)
        key = value, index
        if key not in self.known:
            text = value.text(self, index)
            if self.guards or value not in self.shared or not value.cost:
                return text
            name = self._named(key, value.name)
            self.locals.append(f"const {STORED[value.computed]} {name} = {text};")
            self.known[key] = name
        return self.known[key]

    def guarded(self, value: Value, index: Index) -> str:
        """Never computed in front of the condition that stands before it."""
        self.guards += 1
        try:
            return self.at(value, index)
        finally:
            self.guards -= 1

    def _element(self, value: Value, index: Index) -> str:
        storage = self.plan.storage[value]
        held = value.dtype if not storage.scratch else value.computed
        return cast(_place(storage, index), held, value.computed)

    # ------------------------------------------------------------ statements

    def lines(self, margin: str) -> list[str]:
        """The statement within its loops."""
        source = self.statement.source
        if not isinstance(source, Reduction):
            text = source.text(self, self.statement.index) if source is self.statement.target else self.at(source, self.statement.index)
            return [*(margin + line for line in self.locals), margin + self._stored(text, source.computed)]
        return self._reduced(source, margin)

    def _stored(self, text: str, given: DType) -> str:
        target = self.statement.target
        storage = self.plan.storage[target]
        held = target.computed if storage.scratch else target.dtype
        text = cast(text, given, held)
        if storage.scratch and not storage.kept:
            return f"const {STORED[held]} {storage.name} = {text};"
        return f"{_place(storage, self.statement.written)} = {text};"

    def _reduced(self, value: Reduction, margin: str) -> list[str]:
        inner = loops([value.source.shape[axis] for axis in value.over], "r")
        scan = value.combine == "scan"
        outer = iter(at for axis, at in enumerate(self.statement.index) if not (scan and axis in value.over))
        turns = iter(inner)
        index = tuple(next(turns) if axis in value.over else next(outer) for axis in range(len(value.source.shape)))
        text = self.at(value.source, index)
        lines = []
        nested = margin
        for axis, variable in zip(value.over, inner, strict=True):
            if variable != "0":
                size = value.source.shape[axis].text
                lines.append(f"{nested}for (int64_t {variable} = 0; {variable} < {size}; ++{variable}) {{")
                nested += STEP
        storage = self.plan.storage[self.statement.target]
        combined = _Combined(value, text, flat(inner, [value.source.shape[a] for a in value.over]))
        # Where what is put together is what is stored, one name does.
        same = storage.scratch and not storage.kept and combined.result == self.statement.target.computed and not combined.place_wanted
        name = storage.name if same else self._named("total", WORDS.get(value.combine, "total"))
        before, turn, result = combined.parts(name)
        stored = "" if same else self._stored(result, combined.result)
        body = [*self.locals, *turn, *([stored] if scan else [])]
        lines += [nested + line for line in body]
        while nested != margin:
            nested = nested[: -len(STEP)]
            lines.append(f"{nested}}}")
        return [*(margin + line for line in before), *lines, *([margin + stored] if stored and not scan else [])]

    def _named(self, what: object, wanted: str) -> str:
        names = self.statement.names
        if what not in names:
            names[what] = self.plan.name(wanted)
        return names[what]


WORDS = {"max": "largest", "argmax": "largest", "min": "smallest", "argmin": "smallest", "any": "found", "all": "found"}
"""What is put together, by how; else a total."""


class _Combined:
    """How the elements of a reduction are put together."""

    def __init__(self, value: Reduction, text: str, place: str) -> None:
        self.combine = value.combine
        self.text = text
        self.kind: DType = value.source.computed
        self.place = place
        self.place_wanted = value.combine in ("argmax", "argmin")
        total: DType = "int64" if value.computed not in FLOATS else "float64" if value.wide else value.computed
        kept: dict[str, DType] = {"max": self.kind, "min": self.kind, "any": "bool", "all": "bool", "argmax": "int64", "argmin": "int64"}
        self.result: DType = kept.get(value.combine, total)

    def parts(self, name: str) -> tuple[list[str], list[str], str]:
        """(lines before the loops, lines in the innermost, the result's text)."""
        held = STORED[self.result]
        if self.combine in ("any", "all"):
            start, sign = ("false", "||") if self.combine == "any" else ("true", "&&")
            return [f"{held} {name} = {start};"], [f"{name} = {name} {sign} {wrap(cast(self.text, self.kind, 'bool'))};"], name
        if self.combine in ("max", "min"):
            return [f"{held} {name} = {self._worst()};"], [f"{name} = std::{self.combine}({name}, {self.text});"], name
        if self.place_wanted:
            return self._places(name)
        exact = self.kind in FLOATS and self.result in FLOATS
        start, sign = ("1", "*=") if self.combine == "prod" else ("0", "+=")
        return [f"{held} {name} = {start};"], [f"{name} {sign} {self.text if exact else cast(self.text, self.kind, self.result)};"], name

    def _worst(self) -> str:
        down = self.combine in ("max", "argmax")
        if self.kind in FLOATS:
            return f"{'-' if down else ''}INFINITY"
        if self.kind in ("bool", "uint8"):
            return "0" if down else "1" if self.kind == "bool" else "UINT8_MAX"
        return f"{self.kind.upper()}_{'MIN' if down else 'MAX'}"

    def _places(self, name: str) -> tuple[list[str], list[str], str]:
        held, sign = STORED[self.kind], ">" if self.combine == "argmax" else "<"
        turn = [
            f"const {held} next_{name} = {self.text};",
            f"if (next_{name} {sign} {name}) {{",
            f"{STEP}{name} = next_{name};",
            f"{STEP}place_{name} = {self.place};",
            "}",
        ]
        return [f"{held} {name} = {self._worst()};", f"int64_t place_{name} = 0;"], turn, f"place_{name}"


def _shared(source: Value, stored: set[Value]) -> set[Value]:
    """What is computed on the spot and used more than once in making `source`."""
    counts: dict[Value, int] = {}
    left = [source]
    while left:
        value = left.pop()
        for used, _ in value.uses:
            counts[used] = counts.get(used, 0) + 1
            if counts[used] == 1 and used not in stored:
                left.append(used)
    return {value for value, count in counts.items() if count > 1 and value not in stored}


def _place(storage: Storage, index: Index) -> str:
    if not storage.kept and storage.scratch:
        return storage.name
    return f"{storage.name}[{flat(tuple(index[a] for a in storage.kept), storage.shape)}]"
