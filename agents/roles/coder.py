"""The coder: writes candidates for a plan, simplified kernels for an ablation, and v0 if only PyTorch code is given."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from agents.artifacts import CoderBrief, Draft, Drafts, Plan
from agents.checks.draft_faults import all_draft_faults, draft_faults
from agents.handlers.base import SourceHandler, apply_handlers, open_handlers
from agents.lift.from_reference import draft_lifted_kernel
from agents.roles.agent import Agent
from agents.tool_use.coder_tools import CoderTools
from agents.tool_use.workbench import Workbench, failure_text, make_candidate
from tools.artifacts import Candidate, Failed, Task, Unmeasured
from tools.errors import BudgetError, InfrastructureError, SettingsError, StorageError, UnusableAnswerError


def write_candidates(
    agent: Agent, brief: CoderBrief, parent: str, suffix: str, bench: Workbench | None = None
) -> tuple[Candidate, ...]:
    """Return up to `brief.plan.candidates` distinct candidates without equal sources, copies of the parent and faulty
    drafts.

    With a `bench`, a language model's drafts are tried first: by the model itself if it can call tools, and then again
    here. Drafts that do not compile or compute wrong results go back to the model, at most `bench.fix_attempts` times.
    A draft that is still broken is returned if there is room, so that the judge records its failure.
    """
    wanted = max(brief.plan.candidates, 1)
    handlers = bench.handlers if bench else open_handlers()
    if bench is None or agent.model.reads == "brief" or brief.lifted_source:
        # A lifted kernel exists already, so no model has to be paid for it.
        answer = draft_lifted_kernel(brief) if brief.lifted_source else _ask_for_drafts(agent, brief, handlers)
        return tuple(_distinct_candidates(answer, brief, handlers, parent, suffix).values())[:wanted]
    passing: dict[str, Candidate] = {}
    broken: dict[str, tuple[Candidate, str]] = {}
    current_brief, passing_reports = brief, list[str]()
    for attempts_left in range(bench.fix_attempts, -1, -1):
        answer = _ask_for_drafts(agent, current_brief, handlers, CoderTools(bench, current_brief))
        new_candidates = {
            name: one
            for name, one in _distinct_candidates(answer, brief, handlers, parent, suffix).items()
            if name not in passing | broken
        }
        bench.gather_rehearsals(new_candidates.values())
        failure_by_id = {name: _rehearsal_failure(bench, one) for name, one in new_candidates.items()}
        failure_text_by_id = {
            name: failure_text(f"draft {name}", why, new_candidates[name].source)
            for name, why in failure_by_id.items()
            if why is not None
        }
        # A model without tools gets the compiler's remarks here; drafts that the screen refuses are not compiled.
        built = [
            name
            for name, why in failure_by_id.items()
            if why is None or (isinstance(why, Failed) and why.stage == "correctness")
        ]
        remarks_by_id = {name: bench.compiler_remarks(new_candidates[name]) for name in built if failure_text_by_id}
        failure_text_by_id |= {
            name: f"{remarks_by_id[name]}\n{text}"
            for name, text in failure_text_by_id.items()
            if remarks_by_id.get(name)
        }
        passing_reports += [
            f"Draft {name} passes the compiler and the quick check.\n{remarks_by_id[name]}"
            for name in remarks_by_id
            if name not in failure_text_by_id
        ]
        passing |= {name: one for name, one in new_candidates.items() if name not in failure_text_by_id}
        broken |= {name: (new_candidates[name], text) for name, text in failure_text_by_id.items()}
        missing = min(len(failure_text_by_id), wanted - len(passing))
        if missing <= 0 or not attempts_left:
            break
        current_brief = _repair_brief(brief, failure_text_by_id.values(), missing).model_copy(
            update={"passing_drafts": tuple(passing_reports)}
        )
    last = (
        [new_candidates[name] for name in failure_text_by_id]
        if passing or failure_text_by_id
        else [one for one, _ in broken.values()][-wanted:]
    )
    return (*passing.values(), *last)[:wanted]


def write_first_kernel(
    agent: Agent, task: Task, suffix: str, failures: tuple[str, ...] = (), **facts: object
) -> Candidate:
    """Return v0 of a task without a kernel, written from its reference; `failures`: faults of earlier attempts,
    `facts`: of `KernelBrief`, as far as they are known.

    SettingsError, in one sentence, if the coder writes none.
    """
    plan = Plan(methods=(), candidates=1, reason="There is no kernel yet.")
    brief = CoderBrief(task=task, source="", plan=plan, pages=(), tried=(), failures=failures)
    brief = brief.model_copy(update=facts)
    # Handlers apply to sources, and there is none.
    answer = _ask_for_drafts(agent, brief, ())
    candidate = next(iter(_distinct_candidates(answer, brief, (), "", suffix).values()), None)
    if candidate is None:
        why = next(iter(answer.skipped.values()), "the coder gave no usable draft; give a kernel").rstrip(".")
        raise SettingsError(f"{task.name}: no kernel is given, and none could be written: {why}")
    return candidate.model_copy(update={"parent": None})


def write_ablations(
    agent: Agent, brief: CoderBrief, champion: Candidate, suffix: str, bench: Workbench | None = None
) -> dict[str, Candidate]:
    """Return method -> champion without that method, for each method that can be removed alone; one question covers
    all."""
    ablation_brief = brief.model_copy(
        update={
            "ablated_methods": champion.methods,
            "champion": champion.source,
            "champion_knobs": champion.knobs,
            "plan": brief.plan.model_copy(update={"candidates": len(champion.methods)}),
        }
    )
    handlers = bench.handlers if bench else open_handlers()
    answer = _ask_for_drafts(agent, ablation_brief, handlers, CoderTools(bench, ablation_brief) if bench else None)
    simplified = [
        one
        for one in _distinct_candidates(answer, ablation_brief, handlers, champion.parent or "", suffix).values()
        if one.id != champion.id
    ]
    left_out = [set(champion.methods) - set(one.methods) for one in simplified]
    return {
        method: one
        for one, missing in zip(simplified, left_out, strict=True)
        if len(missing) == 1
        for method in missing
    }


def _ask_for_drafts(
    agent: Agent, brief: CoderBrief, handlers: tuple[SourceHandler, ...], toolbox: CoderTools | None = None
) -> Drafts:
    """Return the coder's drafts; none if its answer is unreadable."""
    try:
        return agent.ask(brief, Drafts, partial(coder_faults, brief=brief, handlers=handlers), toolbox)
    except UnusableAnswerError as error:
        return Drafts(drafts=(), skipped={"every draft": str(error)})


def coder_faults(answer: Drafts, brief: CoderBrief, handlers: tuple[SourceHandler, ...]) -> tuple[str, ...]:
    """Return the faults of drafts before compilation, and one sentence for each method that a draft claims although the
    plan lacks it: that method would otherwise get the credit.
    """
    planned = brief.known_methods
    unplanned = tuple(
        f"drafts.{number}.methods: {method!r} is not planned; list only those of {', '.join(planned) or 'none'} "
        f"that the draft applies"
        for number, draft in enumerate(answer.drafts)
        for method in dict.fromkeys(draft.methods)
        if method not in planned
    )
    unclear = tuple(
        f"drafts.{number}.methods: an ablation has all methods of the champion except one; list those that this "
        f"draft has"
        for number, draft in enumerate(answer.drafts)
        if brief.ablated_methods and len(set(brief.ablated_methods) - set(draft.methods)) != 1
    )
    return (*all_draft_faults(_apply_handlers_to_all(answer, brief, handlers), brief), *unplanned, *unclear)


def _apply_handlers_to_all(answer: Drafts, brief: CoderBrief, handlers: tuple[SourceHandler, ...]) -> Drafts:
    return answer.model_copy(
        update={"drafts": tuple(apply_handlers(handlers, draft, brief) for draft in answer.drafts)}
    )


def _rehearsal_failure(bench: Workbench, one: Candidate) -> Failed | Unmeasured | None:
    """Return the failure of a draft in the rehearsal, or None; also None if time is over or the machine fails, since
    the judge then decides."""
    try:
        return bench.rehearsal_failure(one)
    except StorageError:
        raise  # damaged evidence does not depend on one draft
    except (BudgetError, InfrastructureError):
        return None


def _repair_brief(brief: CoderBrief, failures: Iterable[str], candidates: int) -> CoderBrief:
    plan = brief.plan.model_copy(update={"candidates": candidates})
    return brief.model_copy(update={"plan": plan, "failures": (*brief.failures, *failures)})


def _distinct_candidates(
    answer: Drafts, brief: CoderBrief, handlers: tuple[SourceHandler, ...], parent: str, suffix: str
) -> dict[str, Candidate]:
    """Return id -> candidate without duplicates, copies of the parent and faulty drafts."""
    found: dict[str, Candidate] = {}
    for draft in _apply_handlers_to_all(answer, brief, handlers).drafts:
        made = _make_candidate(draft, brief, parent, suffix)
        is_new = made.source not in (brief.source, brief.parent) or brief.ablated_methods
        if is_new and not draft_faults(draft, brief):
            found.setdefault(made.id, made)
    return found


def _make_candidate(draft: Draft, brief: CoderBrief, parent: str, suffix: str) -> Candidate:
    # What the parent has, its child keeps; else a method of the plan would be credited with the parent's gain.
    applied = draft.model_copy(update={"methods": (*brief.parent_methods, *draft.methods)})
    return make_candidate(applied, brief.task.language, parent, suffix, brief.known_methods)
