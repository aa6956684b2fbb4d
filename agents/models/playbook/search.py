"""The coder by rule: the planned methods' recipes in canonical order, rendered over knobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from agents.artifacts import CoderBrief, Draft, Drafts
from agents.models.playbook.past_outcomes import accepted_knobs, rejected_kernels
from agents.models.playbook.recipe import Recipe, application_order, language_model_advice, load_recipe
from knowledge_base.artifacts import Page, source_digest


@dataclass(frozen=True)
class RecipeStep:
    """One method with its recipe and the knob values to try."""

    method: str
    recipe: Recipe
    knobs: Mapping[str, tuple[str, ...]]


def write_drafts(brief: CoderBrief) -> Drafts:
    """K distinct drafts, the best guess first; or, for an ablation, one without each method."""
    skipped: dict[str, str] = {}
    steps = _recipe_steps(brief, skipped)
    if brief.ablated_methods:
        chosen_steps = [s for s in steps if s.method in brief.ablated_methods]
        steps_without = {out: [s for s in chosen_steps if s.method != out] for out in brief.ablated_methods}
        ablations = tuple(
            _apply_steps(brief.source, rest, brief.champion_knobs, f"without {out}")
            for out, rest in steps_without.items()
        )
        return Drafts(drafts=ablations, skipped=skipped)
    draft_count = max(brief.plan.candidates, 1)
    drafts: list[Draft] = []
    rejected = rejected_kernels(brief)
    refused_settings = {
        (frozenset(t.methods), tuple(sorted(t.knobs.items())))
        for t in brief.tried
        if t.verdict.startswith("reject_correctness")
    }
    # After failures the first drafts are known not to do: go on behind them, to those that leave a method out.
    drafts_to_pass_over = draft_count if brief.failures else 0
    # A search of knobs that is planned again goes on where the last one ended.
    drafts_already_made = draft_count * _times_planned(brief)
    seen = {brief.source}
    for chosen, knobs, note in _candidate_settings(steps):
        draft = _apply_steps(brief.source, chosen, knobs, note)
        setting = (frozenset(draft.methods), tuple(sorted(draft.knobs.items())))
        if draft.source in seen or setting in refused_settings or source_digest(draft.source) in rejected:
            continue
        seen.add(draft.source)
        if drafts_already_made:
            drafts_already_made -= 1
            continue
        if drafts_to_pass_over and len(chosen) == len(steps) and len(steps) > 1:
            drafts_to_pass_over -= 1
            continue
        drafts.append(draft)
        if len(drafts) == draft_count:
            break
    if drafts:
        missing = [s.method for s in steps if not any(s.method in d.methods for d in drafts)]
        skipped.update(
            dict.fromkeys(missing, "its recipe finds no place in this source, with the other methods applied")
        )
    else:
        advice = language_model_advice(brief.task.language)
        skipped.update(
            {s.method: f"its recipe finds no place in this source; {advice}" for s in steps if s.method not in skipped}
        )
    return Drafts(drafts=tuple(drafts), skipped=skipped)


def _recipe_steps(brief: CoderBrief, skipped: dict[str, str]) -> list[RecipeStep]:
    """Planned methods in the order in which their recipes are applied; knobs that won on this very source before
    come first."""
    proven = accepted_knobs(brief, frozenset(item.method for item in brief.plan.methods))
    pages: dict[str, Page] = {p.head.id: p for p in brief.pages}
    steps = []
    for method in brief.plan.methods:
        page = pages.get(method.method)
        if page is None or page.head.recipe is None:
            skipped[method.method] = (
                "its page names no recipe; a model or a person must write it" if page else "its page was not given"
            )
            continue
        found_recipe = load_recipe(page.head.recipe)
        page_values = {
            name: tuple(str(v) for v in values)
            for name, values in page.head.knobs.items()
            if name in found_recipe.knobs
        }
        steps.append(
            RecipeStep(
                method.method,
                found_recipe,
                _present_values_first(
                    {**found_recipe.present(brief.source), **proven}, {**found_recipe.knobs, **page_values}
                ),
            )
        )
    return sorted(steps, key=lambda s: application_order(s.recipe.name))


def _present_values_first(now: Mapping[str, str], knobs: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Values to try with those that stand in the source (or won on it) first, so that a search changes one of them
    at a time."""
    return {
        name: tuple(dict.fromkeys([*([now[name]] if name in now else []), *values])) for name, values in knobs.items()
    }


def _times_planned(brief: CoderBrief) -> int:
    """How often this plan was carried out on this source."""
    asked = frozenset(m.method for m in brief.plan.methods)
    last = max((t.iteration for t in brief.tried if t.verdict == "accept"), default=-1)
    return sum(frozenset(t.planned) == asked for t in brief.tried if t.iteration > last)


def _apply_steps(source: str, steps: list[RecipeStep], knobs: Mapping[str, str], note: str) -> Draft:
    """Apply `steps`; only those that changed something count as applied."""
    applied, used = [], {}
    for step in steps:
        own = {name: knobs.get(name, values[0]) for name, values in step.knobs.items()}
        changed = step.recipe.edit(source, own)
        if changed != source:
            applied.append(step.method)
            used.update(own)
            source = changed
    return Draft(source=source, methods=tuple(applied), knobs=used, note=note)


def _candidate_settings(steps: list[RecipeStep]) -> Iterator[tuple[list[RecipeStep], dict[str, str], str]]:
    """All methods at their best guess, then one knob changed at a time, one method left out, two knobs changed, one
    method alone."""
    best = {name: values[0] for s in steps for name, values in s.knobs.items()}
    others = [(name, value) for s in steps for name, values in s.knobs.items() for value in values[1:]]
    others.sort(key=lambda one: next(s.knobs[one[0]].index(one[1]) for s in steps if one[1] in s.knobs.get(one[0], ())))
    yield steps, best, "best guess"
    for name, value in others:
        yield steps, {**best, name: value}, f"{name}={value}"
    for step in steps:
        if len(steps) > 1:
            yield [s for s in steps if s is not step], best, f"without {step.method}"
    for (a, x), (b, y) in combinations(others, 2):
        if a != b:
            yield steps, {**best, a: x, b: y}, f"{a}={x} {b}={y}"
    for step in steps:
        if len(steps) > 2:
            yield [step], best, f"{step.method} alone"
