"""Metrics -> findings -> bottleneck. Pure, but for reading rules.yaml.

A rule whose metric was not collected does not fire: absence is never evidence. Findings that rest on two kinds of
evidence (machine code and the compiler's own remark, say) come before those of equal severity that rest on one.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from tools.artifacts import Artifact, Axis, Bound, Finding, Profile, Quantity, Remark
from tools.roofline.hardware import Headroom

RULES = Path(__file__).with_name("rules.yaml")
SEVERITIES = ("high", "medium", "low")
SECOND_OPINIONS = ("gcc", "clang", "ncu")
"""Tools whose remarks come from their own rules, so that their agreement is independent evidence."""
AT_ROOF_HEADROOM = 0.25
"""Headroom of an axis below which that axis is the bottleneck, whatever the findings are."""
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


def evaluate_rules(
    profiles: Sequence[tuple[Profile, str]], facts: Mapping[str, Quantity], rules: Sequence[Rule] | None = None
) -> tuple[Finding, ...]:
    """Return the findings, most important first: by severity, then by two kinds of evidence, then as in the file.

    `profiles` come with the ids of their records, `facts` from `roofline.roofline_facts`; `rules` default to the
    shipped ones.
    """
    metrics = dict(facts)
    origin: dict[str, str] = {}
    for profile, record in profiles:
        metrics.update(profile.metrics)
        origin.update(dict.fromkeys(profile.metrics, record))
    remarks = [remark for profile, _ in profiles for remark in profile.remarks]
    fired: dict[str, tuple[Finding, bool]] = {}
    for rule in firing_rules(metrics, rules):
        matching = [remark for remark in remarks if rule.remark and rule.remark.search(remark.text)]
        records = {origin[c.metric] for c in rule.when if c.metric in origin}
        said_by_tool = any(remark.tool in SECOND_OPINIONS for remark in matching)
        seen_elsewhere = any(not c.metric.startswith("compiler.") for c in rule.when)
        earlier = fired.get(rule.id)
        if earlier is None:
            finding = Finding(
                rule=rule.id,
                severity=rule.severity,
                axis=rule.axis,
                text=_fill_placeholders(rule.text, metrics, matching),
                line=min((remark.line for remark in matching if remark.line), default=0),
                evidence=tuple(sorted(records)),
            )
            fired[rule.id] = (finding, said_by_tool and seen_elsewhere)
        else:
            evidence = tuple(sorted({*earlier[0].evidence, *records}))
            fired[rule.id] = (earlier[0].model_copy(update={"evidence": evidence}), True)
    ranked = sorted(fired.values(), key=lambda item: (SEVERITIES.index(item[0].severity), not item[1]))
    return tuple(finding for finding, _ in ranked)


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


def find_bottleneck(findings: Iterable[Finding], headroom: Headroom) -> Bound:
    """Return the bottleneck: the roof that the kernel is near, else the axis with the most severe findings, else the
    binding roof."""
    if headroom.memory is not None and headroom.memory < AT_ROOF_HEADROOM:
        return "memory"
    if headroom.compute is not None and headroom.compute < AT_ROOF_HEADROOM:
        return "compute"
    weights: dict[Axis, int] = {}
    for finding in findings:
        weights[finding.axis] = weights.get(finding.axis, 0) + len(SEVERITIES) - SEVERITIES.index(finding.severity)
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    if not ranked:
        return headroom.bound
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        return "mixed"
    return ranked[0][0]


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
