"""Coder: from a plan to candidates, their simplified twins for ablation, and v0 where only PyTorch logic is given."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from agents.artifacts import CoderBrief, Draft, Drafts, Plan
from agents.checks.draft_faults import draft_faults, faults_of_drafts
from agents.handlers.base import Handler, mended, opened
from agents.lift.from_reference import draft_lifted_kernel
from agents.roles.agent import Agent
from agents.tool_use.coder_tools import CoderTools
from agents.tool_use.workbench import Workbench, candidate, told
from tools.artifacts import Candidate, Failed, Task, Unmeasured
from tools.errors import BudgetError, InfrastructureError, SettingsError, StorageError, UnusableAnswerError


def write(
    agent: Agent, brief: CoderBrief, parent: str, suffix: str, bench: Workbench | None = None
) -> tuple[Candidate, ...]:
    """Up to `brief.plan.candidates` distinct candidates; equal sources, copies of the parent and faulty drafts are
    dropped.

    With a `bench` a language model's drafts are tried before they are handed on: by the model itself where it can call
    tools, and then again here. What does not compile or is wrong goes back to it, `bench.fixes` times at most; a draft
    that is still broken then is handed on as far as there is room, so that the judge says what became of it.
    """
    wanted = max(brief.plan.candidates, 1)
    handlers = bench.handlers if bench else opened()
    if bench is None or agent.model.reads == "brief" or brief.lifted:
        # What is lifted is written already, and nobody need be paid for it.
        answer = draft_lifted_kernel(brief) if brief.lifted else _answer(agent, brief, handlers)
        return tuple(_distinct(answer, brief, handlers, parent, suffix).values())[:wanted]
    sound: dict[str, Candidate] = {}
    broken: dict[str, tuple[Candidate, str]] = {}
    asked, right = brief, list[str]()
    for left in range(bench.fixes, -1, -1):
        answer = _answer(agent, asked, handlers, CoderTools(bench, asked))
        made = {
            name: one
            for name, one in _distinct(answer, brief, handlers, parent, suffix).items()
            if name not in sound | broken
        }
        seen = {name: _fault(bench, one) for name, one in made.items()}
        failed = {name: told(f"draft {name}", why, made[name].source) for name, why in seen.items() if why is not None}
        # Whoever calls no tools has the compiler's word here; what the screen refuses is not compiled.
        built = [
            name
            for name, why in seen.items()
            if why is None or (isinstance(why, Failed) and why.stage == "correctness")
        ]
        said = {name: bench.compiler(made[name]) for name in built if failed}
        failed |= {name: f"{said[name]}\n{text}" for name, text in failed.items() if said.get(name)}
        right += [
            f"Compiler and quick check have nothing against draft {name}.\n{said[name]}"
            for name in said
            if name not in failed
        ]
        sound |= {name: one for name, one in made.items() if name not in failed}
        broken |= {name: (made[name], said) for name, said in failed.items()}
        missing = min(len(failed), wanted - len(sound))
        if missing <= 0 or not left:
            break
        asked = _mending(brief, failed.values(), missing).model_copy(update={"sound": tuple(right)})
    last = [made[name] for name in failed] if sound or failed else [one for one, _ in broken.values()][-wanted:]
    return (*sound.values(), *last)[:wanted]


def first(agent: Agent, task: Task, suffix: str, failures: tuple[str, ...] = ()) -> Candidate:
    """v0 of a task without a kernel, from its reference; `failures`: what was wrong with earlier tries.

    SettingsError, in one sentence, where the coder writes none.
    """
    plan = Plan(methods=(), candidates=1, reason="There is no kernel yet.")
    brief = CoderBrief(task=task, source="", plan=plan, pages=(), tried=(), failures=failures)
    # Handlers know shapes of sources, and there is none.
    answer = _answer(agent, brief, ())
    made = next(iter(_distinct(answer, brief, (), "", suffix).values()), None)
    if made is None:
        why = next(iter(answer.skipped.values()), "the coder gave no usable draft; give a kernel").rstrip(".")
        raise SettingsError(f"{task.name}: no kernel is given, and none could be written: {why}")
    return made.model_copy(update={"parent": None})


def ablate(
    agent: Agent, brief: CoderBrief, champion: Candidate, suffix: str, bench: Workbench | None = None
) -> dict[str, Candidate]:
    """Method -> the champion without it, from the same incumbent source, for those that can be taken out alone;
    asked once for all."""
    asked = brief.model_copy(
        update={
            "without": champion.methods,
            "champion": champion.source,
            "champion_knobs": champion.knobs,
            "plan": brief.plan.model_copy(update={"candidates": len(champion.methods)}),
        }
    )
    handlers = bench.handlers if bench else opened()
    answer = _answer(agent, asked, handlers, CoderTools(bench, asked) if bench else None)
    made = [
        one
        for one in _distinct(answer, asked, handlers, champion.parent or "", suffix).values()
        if one.id != champion.id
    ]
    left_out = [set(champion.methods) - set(one.methods) for one in made]
    return {method: one for one, missing in zip(made, left_out, strict=True) if len(missing) == 1 for method in missing}


def _answer(
    agent: Agent, brief: CoderBrief, handlers: tuple[Handler, ...], toolbox: CoderTools | None = None
) -> Drafts:
    """What the coder wrote; no draft where nothing of it can be read."""
    try:
        return agent.ask(brief, Drafts, partial(faults, brief=brief, handlers=handlers), toolbox)
    except UnusableAnswerError as error:
        return Drafts(drafts=(), skipped={"every draft": str(error)})


def faults(answer: Drafts, brief: CoderBrief, handlers: tuple[Handler, ...]) -> tuple[str, ...]:
    """What is wrong with drafts before anything is compiled, and one sentence for each method that a draft claims and
    the plan does not hold: it would be credited with what was never planned.
    """
    planned = _planned(brief)
    unplanned = tuple(
        f"drafts.{number}.methods: {method!r} is not planned; name only {', '.join(planned) or 'none'}, as far as "
        f"the draft applies it"
        for number, draft in enumerate(answer.drafts)
        for method in dict.fromkeys(draft.methods)
        if method not in planned
    )
    unclear = tuple(
        f"drafts.{number}.methods: an ablation holds all methods of the champion but one; name those that this "
        f"draft holds"
        for number, draft in enumerate(answer.drafts)
        if brief.without and len(set(brief.without) - set(draft.methods)) != 1
    )
    return (*faults_of_drafts(_mended(answer, brief, handlers), brief), *unplanned, *unclear)


def _mended(answer: Drafts, brief: CoderBrief, handlers: tuple[Handler, ...]) -> Drafts:
    return answer.model_copy(update={"drafts": tuple(mended(handlers, draft, brief) for draft in answer.drafts)})


def _fault(bench: Workbench, one: Candidate) -> Failed | Unmeasured | None:
    """What is wrong with a draft, as far as it can be tried: where time is up or the machine fails, the judge says
    it."""
    try:
        return bench.fault(one)
    except StorageError:
        raise  # damaged evidence is no matter of one draft
    except (BudgetError, InfrastructureError):
        return None


def _mending(brief: CoderBrief, failures: Iterable[str], candidates: int) -> CoderBrief:
    plan = brief.plan.model_copy(update={"candidates": candidates})
    return brief.model_copy(update={"plan": plan, "failures": (*brief.failures, *failures)})


def _distinct(
    answer: Drafts, brief: CoderBrief, handlers: tuple[Handler, ...], parent: str, suffix: str
) -> dict[str, Candidate]:
    """Candidates by id, without copies of each other and of the parent, and without faulty drafts."""
    found: dict[str, Candidate] = {}
    for draft in _mended(answer, brief, handlers).drafts:
        made = _candidate(draft, brief, parent, suffix)
        if (made.source != brief.source or brief.without) and not draft_faults(draft, brief):
            found.setdefault(made.id, made)
    return found


def _candidate(draft: Draft, brief: CoderBrief, parent: str, suffix: str) -> Candidate:
    return candidate(draft, brief.task.language, parent, suffix, _planned(brief))


def _planned(brief: CoderBrief) -> tuple[str, ...]:
    return tuple(item.method for item in brief.plan.methods)
