"""Metrics -> findings. Pure, but for reading rules.yaml.

A rule whose metric was not collected does not fire: absence is never evidence. Findings that rest on two kinds of
evidence (machine code and the compiler's own remark, say) come before those of equal severity that rest on one.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from tools.artifacts import Artifact, Axis, Finding, Profile, Quantity, Remark

RULES = Path(__file__).with_name("rules.yaml")
SEVERITIES = ("high", "medium", "low")
SECOND_OPINIONS = ("gcc", "clang", "ncu")
"""Tools whose remarks come from their own rules, so that their agreement is independent evidence."""
MIN_LAUNCH_SHARE = 0.05
"""Least share of the call's time of a kernel that rules are asked of: no change of a shorter one is worth more."""
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}
_PLACEHOLDER = re.compile(r"\{([\w.]+\*?)(?::([^}]*))?\}")


class Condition(Artifact):
    """One comparison of a metric with a constant."""

    metric: str
    op: Literal["<", "<=", ">", ">=", "=="]
    value: float


class Rule(Artifact):
    """One entry of rules.yaml."""

    id: str
    severity: Literal["high", "medium", "low"]
    axis: Axis
    when: tuple[Condition, ...] = Field(min_length=1)
    remark: re.Pattern[str] | None = None
    """Pattern of remarks on the same problem."""
    text: str
    action: str = ""
    """The remedy, in one line."""
    page: str = ""
    """The wiki's skill page on the problem."""
    source: str = ""
    """The source of the thresholds."""

    @property
    def reads_only_counters(self) -> bool:
        """Whether the rule reads only counters of a report, so that missing ones can be collected."""
        return bool(self.page) and not any(c.metric.startswith("roofline.") for c in self.when)


class _RulesFile(Artifact):
    """The content of rules.yaml."""

    rules: tuple[Rule, ...]


@cache
def load_rules() -> tuple[Rule, ...]:
    """Return the shipped rules."""
    import yaml

    return _RulesFile.model_validate(yaml.safe_load(RULES.read_text(encoding="utf-8"))).rules


def evaluate_workloads(
    profiles: Sequence[tuple[Profile, str]],
    facts: Mapping[str, Mapping[str, Quantity]],
    rules: Sequence[Rule] | None = None,
) -> tuple[Finding, ...]:
    """Return the findings on several workloads, ranked as `evaluate_rules` does, each rule once.

    `facts`: workload -> its facts, the one with most weight first; profiles of a workload are read with its facts.
    """
    found: dict[str, Finding] = {}
    for workload, known in facts.items():
        here = [(profile, record) for profile, record in profiles if profile.workload in ("", workload)]
        for finding in evaluate_rules(here, known, rules):
            said = f"at {workload}: {finding.text}" if len(facts) > 1 else finding.text
            found.setdefault(finding.rule, finding.model_copy(update={"text": said}))
    return tuple(sorted(found.values(), key=lambda finding: SEVERITIES.index(finding.severity)))


def evaluate_rules(
    profiles: Sequence[tuple[Profile, str]], facts: Mapping[str, Quantity], rules: Sequence[Rule] | None = None
) -> tuple[Finding, ...]:
    """Return the findings, most important first: by severity, by two kinds of evidence, by the kernel's share of the
    call, then as in the file.

    `profiles` come with the ids of their records, `facts` from `roofline.roofline_facts`; `rules` default to the
    shipped ones. A rule over counters of a kernel is asked of each launch of the candidate's own kernels, a rule that
    also reads facts of the call of the whole call. Where counters decide a rule, machine code alone does not fire it.
    """
    metrics, origin, counted = dict(facts), dict[str, str](), set[str]()
    for profile, record in profiles:
        metrics.update(profile.metrics)
        origin.update(dict.fromkeys(profile.metrics, record))
        counted |= profile.metrics.keys() if profile.launches else set()
    remarks = [remark for profile, _ in profiles for remark in profile.remarks]
    launches = [launch for profile, _ in profiles for launch in profile.launches]
    # What is counted for each launch is never taken from the call: a kernel without such accesses would get others'.
    of_launches = {name for launch in launches for name in launch.metrics}
    of_call = {name: value for name, value in metrics.items() if name not in of_launches}
    kernels = [
        (launch.name, launch.share, of_call | launch.metrics)
        for launch in sorted(launches, key=lambda launch: -launch.share)
        if launch.own and launch.share >= MIN_LAUNCH_SHARE
    ]
    firing, decided = [], set[str]()
    for rule in load_rules() if rules is None else rules:
        asked = {c.metric for c in rule.when}
        is_of_call = not asked & counted or any(name.startswith("roofline.") for name in asked)
        places = [
            place for place in ([("", 1.0, metrics)] if is_of_call else kernels) if firing_rules(place[2], [rule])
        ]
        if places:
            firing.append((rule, places, bool(asked & counted)))
        if asked & counted and asked <= metrics.keys():
            decided.add(rule.id)
    decided -= {rule.id for rule, _, is_counted in firing if is_counted}
    fired: dict[str, tuple[Finding, bool, float]] = {}
    for rule, places, _ in firing:
        matching = [remark for remark in remarks if rule.remark and rule.remark.search(remark.text)]
        records = {origin[c.metric] for c in rule.when if c.metric in origin}
        earlier = fired.get(rule.id)
        if rule.id in decided:
            continue
        if earlier is None:
            kernel, share, seen = places[0]
            text = _fill_placeholders(rule.text, seen, matching)
            others = "".join(f"; also {name} ({part:.0%})" for name, part, _ in places[1:])
            finding = Finding(
                rule=rule.id,
                severity=rule.severity,
                axis=rule.axis,
                text=f"{kernel} ({share:.0%} of the call): {text}{others}" if kernel and share < 1 else text,
                line=min((remark.line for remark in matching if remark.line), default=0),
                kernel=kernel,
                evidence=tuple(sorted(records)),
            )
            said_by_tool = any(remark.tool in SECOND_OPINIONS for remark in matching)
            seen_elsewhere = any(not c.metric.startswith("compiler.") for c in rule.when)
            fired[rule.id] = (finding, said_by_tool and seen_elsewhere, share)
        else:
            evidence = tuple(sorted({*earlier[0].evidence, *records}))
            fired[rule.id] = (earlier[0].model_copy(update={"evidence": evidence}), True, earlier[2])
    ranked = sorted(fired.values(), key=lambda item: (SEVERITIES.index(item[0].severity), not item[1], -item[2]))
    return tuple(finding for finding, *_ in ranked)


def firing_rules(metrics: Mapping[str, Quantity], rules: Sequence[Rule] | None = None) -> tuple[Rule, ...]:
    """Return the rules whose conditions all hold."""
    return tuple(
        rule
        for rule in (load_rules() if rules is None else rules)
        if all(_condition_holds(c, metrics) for c in rule.when)
    )


def missing_counters_by_rule(metrics: Mapping[str, Quantity]) -> dict[str, tuple[str, ...]]:
    """Return, for each undecided rule, the missing counters: no known condition of the rule fails, and some
    conditions are unknown."""
    found: dict[str, tuple[str, ...]] = {}
    for rule in load_rules():
        lacking = tuple(c.metric for c in rule.when if c.metric not in metrics)
        if (
            rule.reads_only_counters
            and lacking
            and all(_condition_holds(c, metrics) for c in rule.when if c.metric in metrics)
        ):
            found.setdefault(rule.id, lacking)
    fired = {rule.id for rule in firing_rules(metrics)}
    return {rule: lacking for rule, lacking in found.items() if rule not in fired}


def _condition_holds(condition: Condition, metrics: Mapping[str, Quantity]) -> bool:
    quantity = metrics.get(condition.metric)
    return quantity is not None and _OPERATORS[condition.op](quantity.value, condition.value)


def _fill_placeholders(text: str, metrics: Mapping[str, Quantity], remarks: Sequence[Remark]) -> str:
    lines = sorted({remark.line for remark in remarks if remark.line})
    words = {
        "remark": remarks[0].text if remarks else "N/A",
        "lines": ("lines " if len(lines) > 1 else "line ") + ", ".join(map(str, lines)) if lines else "line N/A",
    }

    def value(found: re.Match[str]) -> str:
        name, form = found[1], found[2] or ".3g"
        if name.endswith(".*"):
            return (
                ", ".join(sorted(metric[len(name) - 1 :] for metric in metrics if metric.startswith(name[:-1])))
                or "N/A"
            )
        if name in words:
            return words[name]
        return format(metrics[name].value, form) if name in metrics else "N/A"

    return _PLACEHOLDER.sub(value, " ".join(text.split()))
