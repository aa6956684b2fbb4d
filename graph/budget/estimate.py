"""The estimate of a run's cost before it starts: prompts rendered for this task, and assumed answers."""

from __future__ import annotations

from agents.artifacts import (
    AnalystBrief,
    Brief,
    CoderBrief,
    Dossier,
    GatekeeperBrief,
    Hypothesis,
    Plan,
    PlannedMethod,
    PlannerBrief,
    Prediction,
    RetrieverBrief,
    RoleName,
)
from agents.models.base import CHARACTERS_PER_TOKEN, Usage
from agents.models.ledger import total_tokens, uncounted_message, unpriced_message
from agents.prompting.render import render_blocks
from agents.roles.agent import Agent
from graph.settings import Settings
from knowledge_base.pages.wiki import Wiki
from tools.artifacts import Artifact, Task
from tools.roofline.hardware import Headroom
from tools.roofline.roofline import method_budget

ASSUMED_METHODS, ASSUMED_PASSAGES = 12, 14
"""The assumed number of methods and passages in a dossier: those of the quickstart's first iteration."""
KERNEL_GROWTH = 2
"""The assumed length of a faster kernel / the length of the user's kernel."""
FIRST_KERNEL_CHARACTERS = 6000
"""The assumed length of a kernel that does not exist yet."""
ANSWER_TOKENS = {"Queries": 300, "Analysis": 600, "Plan": 1500, "Review": 200}
"""Answer type -> assumed tokens of an answer without a kernel."""
ASSUMPTIONS = (
    f"{CHARACTERS_PER_TOKEN} characters a token, no cache, no thinking, no tools, nothing asked again; "
    "every iteration accepted and each of its methods taken out once; "
    f"{ASSUMED_METHODS} methods and {ASSUMED_PASSAGES} passages retrieved, no findings and no earlier attempts in the "
    "prompts; "
    f"kernels {KERNEL_GROWTH} times as long as yours (where there is none: as one of {FIRST_KERNEL_CHARACTERS:,} "
    f"characters, written in one exchange more), other answers of {min(ANSWER_TOKENS.values())} to "
    f"{max(ANSWER_TOKENS.values())} tokens"
)


class RoleEstimate(Artifact):
    """The estimated exchanges, tokens and dollars of one role in an iteration."""

    role: RoleName
    model: str
    exchanges: int
    input: int
    output: int
    usd: float | None
    """The cost in dollars; None: not known, and `unknown` gives the reason."""
    unknown: str = ""


class Estimate(Artifact):
    """The estimated tokens and dollars of an iteration and of the run."""

    rows: tuple[RoleEstimate, ...]
    """The roles that are paid."""
    iterations: int
    writes_first: bool = False
    """Whether the coder writes v0, which counts as one exchange more."""

    @property
    def iteration_tokens(self) -> int:
        return sum(row.input + row.output for row in self.rows)

    @property
    def run_tokens(self) -> int:
        return sum(self.times(row) * (row.input + row.output) for row in self.rows)

    @property
    def iteration_usd(self) -> float:
        """The dollars of an iteration, over the roles whose cost is known."""
        return sum(row.usd or 0.0 for row in self.rows)

    @property
    def run_usd(self) -> float:
        return sum(self.times(row) * (row.usd or 0.0) for row in self.rows)

    def times(self, row: RoleEstimate) -> int:
        """Return how often a run repeats a role's exchanges: once an iteration, and once more for v0: by the analyst,
        and by the coder if it writes v0."""
        return self.iterations + (row.role == "profiler_analyst" or (row.role == "coder" and self.writes_first))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The reasons why the cost of some roles is not included."""
        return tuple(dict.fromkeys(row.unknown for row in self.rows if row.unknown))


def estimate_cost(
    settings: Settings, task: Task, guide: Wiki, agents: dict[RoleName, Agent], hints: tuple[str, ...] = ()
) -> Estimate:
    """Return the cost of the rendered prompts and of assumed answers (`ASSUMPTIONS`), at the prices of the roles'
    models. `hints` are those of the kernel's handlers."""
    paid = {role: agent for role, agent in agents.items() if agent.model.bills != "nothing"}
    questions = assumed_exchanges(settings, task, guide, hints) if paid else ()
    rows = tuple(_role_estimate(role, agent, questions) for role, agent in paid.items())
    return Estimate(rows=rows, iterations=settings.search.iterations, writes_first=task.baseline is None)


AssumedExchange = tuple[RoleName, Brief, str, int, int]
"""Role, brief, answer type, number of such exchanges in an iteration, tokens of the answer."""


def _role_estimate(role: RoleName, agent: Agent, questions: tuple[AssumedExchange, ...]) -> RoleEstimate:
    model = agent.model
    usages = []
    for _, brief, answer, times, output in (one for one in questions if one[0] == role):
        texts = (
            [block.text for block in render_blocks(role, brief, answer)]
            if model.reads == "prompt"
            else [brief.model_dump_json()]
        )
        usage = Usage(model=model.name, input=sum(map(len, texts)) // CHARACTERS_PER_TOKEN, output=output)
        usages += [usage] * times
    costs = [agent.ledger.cost_usd(model, usage) for usage in usages]
    missing = any(usd is None for usd in costs)
    unseen = model.bills == "unseen"
    return RoleEstimate(
        role=role,
        model=model.name or model.provider,
        exchanges=len(usages),
        input=sum(usage.input for usage in usages),
        output=sum(total_tokens(usage) - usage.input for usage in usages),
        usd=None if missing else sum(usd for usd in costs if usd is not None),
        unknown=(uncounted_message(model.provider) if unseen else unpriced_message(model.name)) if missing else "",
    )


def assumed_exchanges(
    settings: Settings, task: Task, guide: Wiki, hints: tuple[str, ...] = ()
) -> tuple[AssumedExchange, ...]:
    """Return the assumed exchanges of every role in an iteration."""
    search = settings.search
    source = task.baseline or " " * FIRST_KERNEL_CHARACTERS
    methods = tuple(
        sorted(guide.pages_about("method", task.language), key=lambda page: (-page.head.priority, page.head.id))[
            :ASSUMED_METHODS
        ]
    )
    unknown = Headroom(total=None, compute=None, memory=None, latency=None, bound="memory")
    plan = Plan(
        methods=tuple(_sample_method(page.head.id) for page in methods[: search.methods_per_iteration]),
        candidates=search.candidates,
    )
    planner = PlannerBrief(
        task=task,
        source=source,
        findings=(),
        headroom=unknown,
        dossier=Dossier(queries=(), passages=guide.passages()[:ASSUMED_PASSAGES], methods=methods, attempts=()),
        tried=(),
        budget=method_budget(unknown, search.methods_per_iteration, search.methods_per_axis),
        methods_per_iteration=search.methods_per_iteration,
        candidates=search.candidates,
        records=(),
    )
    coder = CoderBrief(
        task=task, source=source, plan=plan, pages=methods[: search.methods_per_iteration], tried=(), hints=hints
    )
    retriever = RetrieverBrief(task=task, findings=(), bottleneck="memory", source=source)
    gatekeeper = GatekeeperBrief(task=task, diff=source * (1 + KERNEL_GROWTH))
    analyst = AnalystBrief(source=source, findings=(), remarks=(), headroom=unknown, records=(), task=task)
    kernel = KERNEL_GROWTH * len(source) // CHARACTERS_PER_TOKEN
    # Taking the only method out leaves the incumbent, which nobody needs to write.
    ablated = search.methods_per_iteration if search.methods_per_iteration > 1 else 0
    return (
        ("knowledge_retriever", retriever, "Queries", 1, ANSWER_TOKENS["Queries"]),
        ("planner", planner, "Plan", 1, ANSWER_TOKENS["Plan"]),
        ("coder", coder, "Drafts", 1, search.candidates * kernel),
        ("coder", coder, "Drafts", int(ablated > 0), ablated * kernel),
        ("gatekeeper", gatekeeper, "Review", 1, ANSWER_TOKENS["Review"]),
        ("profiler_analyst", analyst, "Analysis", 1, ANSWER_TOKENS["Analysis"]),
    )


def _sample_method(method: str) -> PlannedMethod:
    hypothesis = Hypothesis(
        change=f"Apply {method}.",
        rationale="As its page says.",
        citations=(f"<gpu-wiki>/methods/{method}.md:1",),
        expected=(Prediction(metric="time", direction="down", factor=0.8, confidence=0.5),),
    )
    return PlannedMethod(method=method, axis="memory", hypothesis=hypothesis)
