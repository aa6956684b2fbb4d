"""The coder's tools. The docstring of an argument type is what the model is told of the tool, the docstrings below
it of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from pydantic import JsonValue, ValidationError

from agents.artifacts import Answer, CoderBrief, Draft, Drafts
from agents.checks.draft_faults import draft_faults
from agents.handlers.base import mended
from agents.models.answers.parsing import terse
from agents.models.base import Tool, ToolCall, ToolResult
from agents.text.fencing import cut, fence
from agents.tool_use.base import Toolbox
from agents.tool_use.workbench import LOG, Workbench, told
from knowledge_base.specs.lookup import answer_line, resolve_spec
from tools.analysis import signatures
from tools.artifacts import Artifact, Candidate, Failed, Unmeasured
from tools.errors import BudgetError, InfrastructureError, SettingsError, StorageError

INCUMBENT = "incumbent"
PASSAGES = 4
LONGEST = 1500
"""Characters of one passage; what is cut off is said."""
LINES = 120
"""Of machine code in one answer."""


class ReadKernel(Artifact):
    """The source of a kernel."""

    name: str
    """`incumbent`, a draft's name, or the id of one that failed before."""


class SearchKnowledge(Artifact):
    """Search the wiki of methods, skills and hardware."""

    query: str


class LookupSpec(Artifact):
    """A published figure of the hardware, cited, or UNKNOWN."""

    metric: str
    """E.g. l2_size."""
    product: str = ""
    """Default: the run's."""
    variant: str = ""


class Compile(Artifact):
    """Screen and compile a draft with the frozen flags, and keep it under a name of your choice for the other tools."""

    name: str
    source: str
    """Whole file."""


class QuickCheck(Artifact):
    """Whether a draft is right on a few cases."""

    name: str


class QuickTime(Artifact):
    """Some timed pairs of incumbent and draft: a hint, no evidence."""

    name: str


class Disassemble(Artifact):
    """The machine code of a draft, some lines at a time."""

    name: str
    from_line: int = 1


class Submit(Artifact):
    """Hand in a draft that passes the quick check; the final answer need not repeat it."""

    name: str
    methods: tuple[str, ...]
    """Planned ones that it really applies."""
    knobs: dict[str, str] = {}
    note: str = ""
    last: bool = False
    """The answer is complete."""


class _Refused(Exception):
    """A wish that cannot be met, with the sentence for the model; never leaves this module."""


class _Offer(NamedTuple):
    arguments: type[Artifact]
    do: Callable[[CoderTools, Any], str]


class CoderTools(Toolbox):
    """The tools of one answer to one brief."""

    def __init__(self, bench: Workbench, brief: CoderBrief) -> None:
        self.bench = bench
        self.brief = brief
        self.rounds = bench.rounds
        self.planned = tuple(item.method for item in brief.plan.methods)
        self.wanted = max(brief.plan.candidates, 1)
        self.drafts: dict[str, str] = {}
        """Name -> source."""
        self.submitted: dict[str, Draft] = {}
        """Candidate id -> draft."""
        self.closed = False

    @property
    def tools(self) -> tuple[Tool, ...]:
        return offered()

    @property
    def complete(self) -> bool:
        return bool(self.submitted) and (self.closed or len(self.submitted) >= self.wanted)

    def answered(self, said: Answer | None) -> Answer | None:
        """Drafts handed in first, then those said."""
        handed = tuple(self.submitted.values())
        if said is None:
            return Drafts(drafts=handed) if handed else None
        return said.model_copy(update={"drafts": (*handed, *said.drafts)}) if isinstance(said, Drafts) else said

    def call(self, wanted: ToolCall) -> ToolResult:
        offer = OFFERS.get(wanted.name)
        try:
            if offer is None:
                raise _Refused(f"There is no tool {wanted.name!r}; there are {', '.join(OFFERS)}.")
            return ToolResult(id=wanted.id, text=offer.do(self, _arguments(wanted, offer.arguments)))
        except _Refused as refusal:
            return ToolResult(id=wanted.id, text=str(refusal), failed=True)
        except StorageError:
            raise  # damaged evidence is no matter of one draft
        except (SettingsError, BudgetError, InfrastructureError) as error:
            # What this machine lacks, has no time left for or failed at is no reason to end the run: what is tried here
            # is only a hint.
            said = fence(f"why {wanted.name} failed", cut(str(error), LOG))
            return ToolResult(
                id=wanted.id, text=f"This cannot be had here; the draft is not to blame.\n{said}", failed=True
            )

    # ------------------------------------------------------------ the tools

    def read_kernel(self, asked: ReadKernel) -> str:
        if asked.name == INCUMBENT:
            return fence("the incumbent kernel", self.bench.incumbent.source)
        if asked.name in self.bench.earlier:
            return fence("a draft that failed", self.bench.earlier[asked.name].source)
        return fence("a draft", self._source(asked.name))

    def search_knowledge(self, asked: SearchKnowledge) -> str:
        found = self.bench.index.search(asked.query, PASSAGES, language=self.bench.judge.language.name)
        if not found:
            raise _Refused(
                f"Nothing is found: {self.bench.index.explain(asked.query, language=self.bench.judge.language.name)}."
            )
        told = (
            f"{passage.citation} ({' > '.join(passage.heading)})\n{cut(passage.text, LONGEST)}" for passage in found
        )
        return fence("passages of the wiki", "\n\n".join(told))

    def lookup_spec(self, asked: LookupSpec) -> str:
        product = asked.product or self.bench.product
        variant = asked.variant or ("" if asked.product else self.bench.variant)
        return fence("a published figure", answer_line(resolve_spec(self.bench.wiki, product, asked.metric, variant)))

    def compile(self, asked: Compile) -> str:
        if asked.name == INCUMBENT or asked.name in self.bench.earlier:
            raise _Refused(f"{asked.name!r} is the name of a kernel that is there already; choose another.")
        draft = mended(self.bench.handlers, Draft(source=asked.source, methods=()), self.brief)
        faults = draft_faults(draft, self.brief)
        if faults:
            raise _Refused(fence("what is wrong with the draft", cut("\n".join(faults), LOG)))
        self.drafts[asked.name] = draft.source
        if failed := self.bench.compiled(self._candidate(asked.name)):
            raise _refusal(asked.name, failed)
        said = self.bench.compiler(self._candidate(asked.name))
        return (
            f"{asked.name} compiles.\n{fence('what the compiler made of it', said)}"
            if said
            else f"{asked.name} compiles."
        )

    def quick_check(self, asked: QuickCheck) -> str:
        return f"{asked.name} is right on {self.bench.cases(self._sound(asked.name))}."

    def quick_time(self, asked: QuickTime) -> str:
        found = self.bench.timed(self._sound(asked.name))
        if isinstance(found, Failed):
            raise _refusal(asked.name, found)
        said = f"A hint: the incumbent's time over that of {asked.name} is {found.speedup.estimate:.3g}"
        said += (
            f" [{found.speedup.low:.3g}, {found.speedup.high:.3g}]."
            if found.speedup.is_bounded
            else ", its interval has no ends."
        )
        rows = [f"{m.workload}: {m.incumbent_s / m.candidate_s:.3g}" for m in found.measurements]
        return f"{said}\n{fence('workloads', chr(10).join(rows))}"

    def disassemble(self, asked: Disassemble) -> str:
        made = self._candidate(asked.name)
        if failed := self.bench.compiled(made):
            raise _refusal(asked.name, failed)
        listing = self.bench.assembly(made)
        lines = (signatures.entry_assembly(listing) or listing).splitlines()
        first = max(asked.from_line, 1)
        shown = lines[first - 1 : first - 1 + LINES]
        if not shown:
            raise _Refused(f"The machine code of {asked.name} has {len(lines)} lines; ask for an earlier one.")
        more = (
            f"\n… {len(lines)} lines in all; go on with from_line {first + LINES}"
            if len(lines) > first - 1 + LINES
            else ""
        )
        return fence("machine code", "\n".join(shown)) + more

    def submit(self, asked: Submit) -> str:
        foreign = [method for method in asked.methods if method not in self.planned]
        if foreign:
            raise _Refused(f"{foreign[0]!r} is not planned; the plan holds {', '.join(self.planned)}.")
        made = self._sound(asked.name)
        if made.source == self.bench.incumbent.source or made.id in self.bench.earlier:
            raise _Refused(f"{asked.name} is the same code as a kernel that is there already.")
        self.submitted[made.id] = Draft(source=made.source, methods=asked.methods, knobs=asked.knobs, note=asked.note)
        self.closed = self.closed or asked.last
        return f"{asked.name} is handed in, {len(self.submitted)} of {self.wanted}."

    # ------------------------------------------------------------ inside

    def _source(self, name: str) -> str:
        if name not in self.drafts:
            known = ", ".join([INCUMBENT, *self.bench.earlier, *self.drafts])
            raise _Refused(f"There is no kernel {name!r}; there are {known}. `compile` takes a new one.")
        return self.drafts[name]

    def _candidate(self, name: str) -> Candidate:
        return self.bench.candidate(Draft(source=self._source(name), methods=()), self.planned)

    def _sound(self, name: str) -> Candidate:
        made = self._candidate(name)
        if failed := self.bench.fault(made):
            raise _refusal(name, failed)
        return made


def _arguments(wanted: ToolCall, kind: type[Artifact]) -> Artifact:
    try:
        # Strictness would refuse lists where tuples are meant; JSON knows no tuples.
        return kind.model_validate(wanted.arguments)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "arguments"
        raise _Refused(f"{wanted.name}: {where}: {first['msg']}.") from None


def _refusal(name: str, failed: Failed | Unmeasured) -> _Refused:
    return _Refused(fence("why the draft failed", cut(told(name, failed), LOG)))


def _schema(kind: type[Artifact]) -> dict[str, JsonValue]:
    """Without what says nothing to a model: its description stands beside the tool's name."""
    return {name: value for name, value in terse(kind.model_json_schema()).items() if name != "description"}


OFFERS: dict[str, _Offer] = {
    "read_kernel": _Offer(ReadKernel, CoderTools.read_kernel),
    "search_knowledge": _Offer(SearchKnowledge, CoderTools.search_knowledge),
    "lookup_spec": _Offer(LookupSpec, CoderTools.lookup_spec),
    "compile": _Offer(Compile, CoderTools.compile),
    "quick_check": _Offer(QuickCheck, CoderTools.quick_check),
    "quick_time": _Offer(QuickTime, CoderTools.quick_time),
    "disassemble": _Offer(Disassemble, CoderTools.disassemble),
    "submit": _Offer(Submit, CoderTools.submit),
}


@cache
def offered() -> tuple[Tool, ...]:
    """The coder's tools as a model is told of them, the same for all runs."""
    return tuple(
        Tool(
            name=name,
            description=" ".join((offer.arguments.__doc__ or "").split()),
            parameters=_schema(offer.arguments),
        )
        for name, offer in OFFERS.items()
    )
