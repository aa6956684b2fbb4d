"""The coder's tools. The docstring of an argument type describes the tool to the model; the docstrings of its fields
describe the arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from pydantic import JsonValue, ValidationError

from agents.artifacts import Answer, CoderBrief, Draft, Drafts
from agents.checks.draft_faults import draft_faults
from agents.handlers.base import apply_handlers
from agents.models.answers.parsing import trim_schema
from agents.models.base import Tool, ToolCall, ToolResult
from agents.text.fencing import cut_middle, fence_data
from agents.tool_use.base import Toolbox
from agents.tool_use.workbench import MAX_LOG_CHARS, Workbench, failure_text
from knowledge_base.specs.lookup import answer_line, resolve_spec
from tools.analysis import signatures
from tools.artifacts import Artifact, Candidate, Failed, Unmeasured
from tools.errors import BudgetError, InfrastructureError, SettingsError, StorageError

INCUMBENT_NAME = "incumbent"
MAX_PASSAGES = 4
MAX_PASSAGE_CHARS = 1500
"""Most characters of one passage; a note says what was cut off."""
MAX_LISTING_LINES = 120
"""Most lines of machine code in one result."""


class ReadKernelArguments(Artifact):
    """Return the source of a kernel."""

    name: str
    """`incumbent`, the name of a draft, or the id of a draft that failed before."""


class SearchKnowledgeArguments(Artifact):
    """Search the wiki of methods, skills and hardware."""

    query: str


class LookupSpecArguments(Artifact):
    """Return a published figure of the hardware with its citation, or UNKNOWN."""

    metric: str
    """Name of the metric, for example l2_size."""
    product: str = ""
    """Name of the product; default: the product of this run."""
    variant: str = ""


class CompileArguments(Artifact):
    """Screen and compile a draft with the frozen flags, and keep it under a name of your choice for the other tools."""

    name: str
    source: str
    """The whole kernel file."""


class QuickCheckArguments(Artifact):
    """Check whether a draft computes correct results in a few cases."""

    name: str


class QuickTimeArguments(Artifact):
    """Time the incumbent and a draft in a few pairs. The result is a hint, not evidence."""

    name: str


class DisassembleArguments(Artifact):
    """Return a part of a draft's machine code."""

    name: str
    from_line: int = 1


class SubmitArguments(Artifact):
    """Submit a draft that passes the quick check; the final answer need not repeat it."""

    name: str
    methods: tuple[str, ...]
    """Ids of the planned methods that the draft really applies."""
    knobs: dict[str, str] = {}
    note: str = ""
    last: bool = False
    """Whether this is the last draft, so that the answer is complete."""


class _CallRefusedError(Exception):
    """A call that is refused, with the sentence for the model; it never leaves this module."""


class _ToolEntry(NamedTuple):
    arguments: type[Artifact]
    run: Callable[[CoderTools, Any], str]


class CoderTools(Toolbox):
    """The coder's tools for one answer to one brief."""

    def __init__(self, bench: Workbench, brief: CoderBrief) -> None:
        self.bench = bench
        self.brief = brief
        self.max_turns = bench.max_turns
        self.planned = brief.known_methods
        self.wanted = max(brief.plan.candidates, 1)
        self.drafts: dict[str, str] = {}
        """Name -> source."""
        self.submitted: dict[str, Draft] = {}
        """Candidate id -> draft."""
        self.is_closed = False

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tool_definitions()

    @property
    def is_complete(self) -> bool:
        return bool(self.submitted) and (self.is_closed or len(self.submitted) >= self.wanted)

    def merge_answer(self, said: Answer | None) -> Answer | None:
        """Return the submitted drafts followed by those of the answer."""
        handed = tuple(self.submitted.values())
        if said is None:
            return Drafts(drafts=handed) if handed else None
        return said.model_copy(update={"drafts": (*handed, *said.drafts)}) if isinstance(said, Drafts) else said

    def call(self, wanted: ToolCall) -> ToolResult:
        offer = TOOL_TABLE.get(wanted.name)
        try:
            if offer is None:
                raise _CallRefusedError(f"There is no tool {wanted.name!r}; there are {', '.join(TOOL_TABLE)}.")
            return ToolResult(id=wanted.id, text=offer.run(self, _parse_arguments(wanted, offer.arguments)))
        except _CallRefusedError as refusal:
            return ToolResult(id=wanted.id, text=str(refusal), failed=True)
        except StorageError:
            raise  # damaged evidence does not depend on one draft
        except (SettingsError, BudgetError, InfrastructureError) as error:
            # A missing program, the end of the time or a failure of the machine does not end the run: these results
            # are only hints.
            said = fence_data(f"why {wanted.name} failed", cut_middle(str(error), MAX_LOG_CHARS))
            return ToolResult(
                id=wanted.id, text=f"This tool does not work here; the draft is not the cause.\n{said}", failed=True
            )

    # ------------------------------------------------------------ the tools

    def read_kernel(self, asked: ReadKernelArguments) -> str:
        if asked.name == INCUMBENT_NAME:
            return fence_data("the incumbent kernel", self.bench.incumbent.source)
        if asked.name in self.bench.earlier_drafts:
            return fence_data("a draft that failed", self.bench.earlier_drafts[asked.name].source)
        return fence_data("a draft", self._draft_source(asked.name))

    def search_knowledge(self, asked: SearchKnowledgeArguments) -> str:
        found = self.bench.index.search(asked.query, MAX_PASSAGES, language=self.bench.judge.language.name)
        if not found:
            raise _CallRefusedError(
                f"No passage was found: "
                f"{self.bench.index.explain(asked.query, language=self.bench.judge.language.name)}."
            )
        told = (
            f"{passage.citation} ({' > '.join(passage.heading)})\n{cut_middle(passage.text, MAX_PASSAGE_CHARS)}"
            for one in found
            for passage in one.and_remedy()
        )
        return fence_data("passages of the wiki", "\n\n".join(told))

    def lookup_spec(self, asked: LookupSpecArguments) -> str:
        product = asked.product or self.bench.product
        variant = asked.variant or ("" if asked.product else self.bench.variant)
        return fence_data(
            "a published figure", answer_line(resolve_spec(self.bench.wiki, product, asked.metric, variant))
        )

    def compile(self, asked: CompileArguments) -> str:
        if asked.name == INCUMBENT_NAME or asked.name in self.bench.earlier_drafts:
            raise _CallRefusedError(f"{asked.name!r} is the name of an existing kernel; choose another name.")
        draft = apply_handlers(self.bench.handlers, Draft(source=asked.source, methods=()), self.brief)
        faults = draft_faults(draft, self.brief)
        if faults:
            raise _CallRefusedError(
                fence_data("what is wrong with the draft", cut_middle("\n".join(faults), MAX_LOG_CHARS))
            )
        self.drafts[asked.name] = draft.source
        if failed := self.bench.build_failure(self._candidate_of_draft(asked.name)):
            raise _draft_refusal(asked.name, failed)
        said = self.bench.compiler_remarks(self._candidate_of_draft(asked.name))
        return (
            f"{asked.name} compiles.\n{fence_data('what the compiler made of it', said)}"
            if said
            else f"{asked.name} compiles."
        )

    def quick_check(self, asked: QuickCheckArguments) -> str:
        return f"{asked.name} is correct in {self.bench.passed_cases_text(self._checked_candidate(asked.name))}."

    def quick_time(self, asked: QuickTimeArguments) -> str:
        found = self.bench.time_pairs(self._checked_candidate(asked.name))
        if isinstance(found, Failed):
            raise _draft_refusal(asked.name, found)
        said = f"A hint: the incumbent's time / the time of {asked.name} is {found.speedup.estimate:.3g}"
        said += (
            f" [{found.speedup.low:.3g}, {found.speedup.high:.3g}]."
            if found.speedup.is_bounded
            else "; its interval is unbounded."
        )
        rows = [f"{m.workload}: {m.incumbent_s / m.candidate_s:.3g}" for m in found.measurements]
        return f"{said}\n{fence_data('workloads', chr(10).join(rows))}"

    def disassemble(self, asked: DisassembleArguments) -> str:
        made = self._candidate_of_draft(asked.name)
        if failed := self.bench.build_failure(made):
            raise _draft_refusal(asked.name, failed)
        listing = self.bench.disassembly(made)
        lines = (signatures.entry_assembly(listing) or listing).splitlines()
        first = max(asked.from_line, 1)
        shown = lines[first - 1 : first - 1 + MAX_LISTING_LINES]
        if not shown:
            raise _CallRefusedError(
                f"The machine code of {asked.name} has {len(lines)} lines; ask for an earlier line."
            )
        more = (
            f"\n… {len(lines)} lines in all; continue with from_line {first + MAX_LISTING_LINES}"
            if len(lines) > first - 1 + MAX_LISTING_LINES
            else ""
        )
        return fence_data("machine code", "\n".join(shown)) + more

    def submit(self, asked: SubmitArguments) -> str:
        foreign = [method for method in asked.methods if method not in self.planned]
        if foreign:
            raise _CallRefusedError(f"{foreign[0]!r} is not planned; the plan contains {', '.join(self.planned)}.")
        made = self._checked_candidate(asked.name)
        if made.source == self.bench.incumbent.source or made.id in self.bench.earlier_drafts:
            raise _CallRefusedError(f"{asked.name} has the same code as an existing kernel.")
        self.submitted[made.id] = Draft(source=made.source, methods=asked.methods, knobs=asked.knobs, note=asked.note)
        self.is_closed = self.is_closed or asked.last
        return f"{asked.name} is submitted, {len(self.submitted)} of {self.wanted}."

    # ------------------------------------------------------------ inside

    def _draft_source(self, name: str) -> str:
        if name not in self.drafts:
            known = ", ".join([INCUMBENT_NAME, *self.bench.earlier_drafts, *self.drafts])
            raise _CallRefusedError(f"There is no kernel {name!r}; there are {known}. `compile` takes a new one.")
        return self.drafts[name]

    def _candidate_of_draft(self, name: str) -> Candidate:
        return self.bench.make_candidate(Draft(source=self._draft_source(name), methods=()), self.planned)

    def _checked_candidate(self, name: str) -> Candidate:
        made = self._candidate_of_draft(name)
        if failed := self.bench.rehearsal_failure(made):
            raise _draft_refusal(name, failed)
        return made


def _parse_arguments(wanted: ToolCall, kind: type[Artifact]) -> Artifact:
    try:
        # Strictness would refuse lists where tuples are meant; JSON knows no tuples.
        return kind.model_validate(wanted.arguments)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "arguments"
        raise _CallRefusedError(f"{wanted.name}: {where}: {first['msg']}.") from None


def _draft_refusal(name: str, failed: Failed | Unmeasured) -> _CallRefusedError:
    return _CallRefusedError(fence_data("why the draft failed", cut_middle(failure_text(name, failed), MAX_LOG_CHARS)))


def _argument_schema(kind: type[Artifact]) -> dict[str, JsonValue]:
    """Return the JSON schema of arguments without its description, which the tool shows already."""
    return {name: value for name, value in trim_schema(kind.model_json_schema()).items() if name != "description"}


TOOL_TABLE: dict[str, _ToolEntry] = {
    "read_kernel": _ToolEntry(ReadKernelArguments, CoderTools.read_kernel),
    "search_knowledge": _ToolEntry(SearchKnowledgeArguments, CoderTools.search_knowledge),
    "lookup_spec": _ToolEntry(LookupSpecArguments, CoderTools.lookup_spec),
    "compile": _ToolEntry(CompileArguments, CoderTools.compile),
    "quick_check": _ToolEntry(QuickCheckArguments, CoderTools.quick_check),
    "quick_time": _ToolEntry(QuickTimeArguments, CoderTools.quick_time),
    "disassemble": _ToolEntry(DisassembleArguments, CoderTools.disassemble),
    "submit": _ToolEntry(SubmitArguments, CoderTools.submit),
}


@cache
def tool_definitions() -> tuple[Tool, ...]:
    """Return the coder's tools as the model sees them, the same for all runs."""
    return tuple(
        Tool(
            name=name,
            description=" ".join((offer.arguments.__doc__ or "").split()),
            parameters=_argument_schema(offer.arguments),
        )
        for name, offer in TOOL_TABLE.items()
    )
