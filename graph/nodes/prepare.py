"""The nodes before the first iteration: preflight, retrieve_specs, establish_baseline, profile."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from agents.artifacts import Analysis, AnalystBrief, KernelObservations
from agents.lift.from_reference import LIFT_BY_LANGUAGE
from agents.roles import profiler_analyst
from graph.artifacts import Inspection, SpecSheet, WorkloadRoofline
from graph.budget.reserve import Reserve, estimate_benchmark_seconds, seconds_per_sample
from graph.nodes.commits import commit_baseline
from graph.nodes.lift import lifted_source
from graph.report.content import frameworks
from graph.report.content.phrases import contestant_words, frameworks_ahead_words
from graph.routing import Routes
from graph.services import Services
from graph.specs import hardware_sheet, unknown
from graph.state import Branch, State
from graph.workspace import events
from tools.analysis import bottleneck, diagnosis, rules, signatures, traffic
from tools.artifacts import Candidate, Profile, Quantity, Record
from tools.cli.formatting import format_percent, format_seconds
from tools.environment import Environment, missing_isolation
from tools.errors import BudgetError, HarnessError, SettingsError
from tools.executors.toolchain_job import read_toolchain
from tools.judge import evidence
from tools.profilers import ncu
from tools.roofline import lower_bounds, roofline
from tools.roofline.hardware import Headroom, Roof, Spec, Target, UnknownSpec
from tools.store.records import record_key

RESOURCE_METRICS = re.compile(r"registers|stack|shared|hit_rate|dram\w*bytes|warps_active|waves")
"""Matches names of metrics on resources and traffic, which are shown even if no rule reads them."""
MAX_COMPILED_AHEAD_BYTES = 256 << 20
"""The largest workload, in bytes of its arguments, that torch.compile prepares and holds during the search."""


def preflight(state: State, services: Services) -> State:
    """Write env_check.md, check the user's kernel and measure the roofs of the device."""
    environment = Environment.model_validate(services.records.get(services.environment).payload)
    services.workspace.write({"env_check.md": environment.to_markdown()})
    lacking = missing_isolation(environment.sandbox)
    if lacking and services.settings.isolation == "required":
        raise SettingsError(
            f"isolation: required, but this host does not provide {' and '.join(lacking)}; run on a host with a recent "
            f"Linux kernel, or remove the key to run only kernels that you trust"
        )
    services.executor.gather(_requests_before_iterations(services))
    cpu = services.language.device == "cpu"
    if not cpu:
        _start_frameworks(services)
    _require_sound_baseline(services)
    roofs = services.roofs
    if cpu:
        _start_frameworks(services)
    summary = f"{len(roofs)} roofs measured{_environment_words(environment)}"
    return State(environment=services.environment, summary=summary)


def _environment_words(environment: Environment) -> str:
    """Return how many checks of another host are ok, and what is missing, with the fix if it is the host's."""
    host = [item for item in environment.items if item.name.startswith("host ")]
    words = f"; {sum(item.status == 'ok' for item in host)} of {len(host)} host checks ok" if host else ""
    lacking = [item for item in environment.items if item.status != "ok" and not item.optional]
    missing = [f"{item.name} ({item.fix})" if item in host else item.name for item in lacking]
    return f"{words}; missing: {', '.join(missing)}" if missing else words


def _requests_before_iterations(services: Services) -> Iterator[Callable[[], object]]:
    """Yield the measurements of v0 and of the device, none of which needs another one's result."""
    yield partial(_require_sound_baseline, services)
    yield lambda: services.roofs
    baseline, judge = _baseline_kernel(services), services.judge
    yield partial(judge.read_or_measure_calibration, baseline)
    yield partial(read_or_run_profilers, baseline, services)
    if services.task.language in LIFT_BY_LANGUAGE:
        yield partial(lifted_source, services)
    frameworks = services.settings.benchmark.frameworks
    if frameworks or services.task.baseline_function:
        rounds = judge.policy.least_rounds(len(services.task.workloads))
        yield partial(judge.read_or_measure_benchmark, {"baseline": baseline}, frameworks, rounds)


def _start_frameworks(services: Services) -> None:
    """Start the processes of torch, which then wait for the final benchmark.

    On a CPU this follows the measurement of the roofs, which it would disturb; on a GPU it runs beside the first build.
    """
    wanted = services.settings.benchmark.frameworks
    if not (wanted or services.task.baseline_function) or not services.executor.answers_at_once:
        return
    sizes = [seen.dims for seen in services.probed_workloads if seen.unique_bytes <= MAX_COMPILED_AHEAD_BYTES]
    with contextlib.suppress(HarnessError):
        services.judge.start_torch_contestants(wanted, sizes)


def retrieve_specs(state: State, services: Services) -> State:
    """Look up the published figures of the product; each is cited or UNKNOWN."""
    settings = services.settings
    product = settings.hardware or services.device.name
    # The record is looked up first, so that a person is not asked again after a kill.
    record = services.records.find(record_key("specs", product=product, variant=settings.variant))
    if record is None:
        answers = hardware_sheet.published_specs(services.wiki, services.task, product, settings.variant)
        gaps = tuple(answer for answer in answers if isinstance(answer, UnknownSpec))
        is_unpublished = hardware_sheet.is_unpublished_by_design(services.wiki, settings.hardware, services.device)
        warning = hardware_sheet.other_device_warning(
            services.wiki, services.device, settings.hardware, settings.variant
        )
        sheet = SpecSheet(
            product=product,
            specs=tuple(answer for answer in answers if isinstance(answer, Spec)),
            gaps=gaps,
            placeholders=()
            if is_unpublished
            else unknown.resolve_unknown(gaps, product, settings.on_unknown, services.ask),
            roofs=services.roofs,
            wiki=services.wiki.root.name,
            elsewhere=bool(warning),
            remark=warning or (hardware_sheet.CPU_UNPUBLISHED if is_unpublished else ""),
        )
        record = services.save_record("specs", sheet, product=product, variant=settings.variant)
    sheet_on_record = SpecSheet.model_validate(record.payload)
    suffix = f", {len(sheet_on_record.placeholders)} placeholders" if sheet_on_record.placeholders else ""
    suffix += f"; {sheet_on_record.remark.rstrip('.')}" if sheet_on_record.elsewhere else ""
    return State(
        specs=record.id,
        summary=f"{len(sheet_on_record.specs)} specs cited, {len(sheet_on_record.gaps)} UNKNOWN{suffix}",
    )


def establish_baseline(state: State, services: Services) -> State:
    """Establish v0: check the user's kernel and time it in A/A blocks."""
    baseline = _require_sound_baseline(services)
    services.save_candidate(baseline)
    calibration = services.judge.read_or_measure_calibration(baseline)
    failed = evidence.timing_failure(calibration, ())
    if failed is not None:
        kernel, reference = services.settings.sources(services.language.suffix)
        reason = failed.reason.rstrip(".")
        raise SettingsError(f"{kernel} and {reference} disagree when timed: {reason}; correct the kernel and run again")
    if services.settings.budget.device_s is not None:
        task = services.task
        # The user's function, and eager, which always runs beside it.
        rivals = (len(task.rivals.names) if task.rivals else 0) + 2 * bool(task.baseline_function)
        reserve_s = estimate_benchmark_seconds(
            seconds_per_sample(calibration), len(task.workloads), services.settings, services.language.device, rivals
        )
        services.save_record("reserve", Reserve(seconds=reserve_s), parents=(calibration.id,))
    noise = evidence.noise_floor(calibration, services.settings.judge.objective)
    times = evidence.incumbent_seconds(calibration)
    total = sum(w.weight * times[w.name] for w in services.task.workloads)
    summary = f"{format_seconds(total)} a round, noise floor {format_percent(noise)}"
    return State(
        baseline=baseline.id,
        incumbent=baseline.id,
        noise_floor=noise,
        calibration=calibration.id,
        speedup=1.0,
        summary=summary,
    )


def _baseline_kernel(services: Services) -> Candidate:
    """Return the user's kernel; raise SettingsError if none is given."""
    task = services.task
    kernel, reference = services.settings.sources(services.language.suffix)
    if task.baseline is None:
        raise SettingsError(f"{task.name}: no kernel is given; add {kernel} beside {reference}")
    return Candidate(language=task.language, files={f"kernel{services.language.suffix}": task.baseline})


def _require_sound_baseline(services: Services) -> Candidate:
    """Return the user's kernel after a build and a comparison with its reference; raise SettingsError if either
    fails."""
    kernel, reference = services.settings.sources(services.language.suffix)
    baseline = _baseline_kernel(services)
    failed = evidence.build_failure(services.judge.builder.read_or_build(baseline))
    if failed is not None:
        log = failed.log.replace(f"kernel{services.language.suffix}", kernel)
        raise SettingsError(f"{kernel} does not compile; correct it and run again:\n{log}")
    checked = services.judge.read_or_check_correctness(baseline, None, "baseline")
    violation = evidence.policy_violation(checked)
    if violation is not None:
        raise SettingsError(
            f"{kernel} {violation}: candidates inherit its lines and may run kernels of their own alone, so compute "
            f"that in a kernel of "
            "the file, or leave it to the caller, and run again"
        )
    failed = evidence.correctness_failure(checked, ())
    if failed is not None:
        reason = failed.reason.rstrip(".")
        raise SettingsError(f"{kernel} and {reference} disagree: {reason}; correct the one that is wrong and run again")
    return baseline


def profile(state: State, services: Services) -> State:
    """Profile the incumbent: counters, findings, bottleneck and headroom; this repeats after each accepted version."""
    candidate = services.candidate(state["incumbent"])
    record = read_or_make_inspection(candidate, state, services)
    inspection = Inspection.model_validate(record.payload)
    update = State(profile=record.id, headroom=inspection.headroom.total)
    untimed = ""
    if state["iteration"] == 0:
        update["frameworks"], untimed = _time_frameworks(state, services)
    times = frameworks.torch_times(State(**{**state, **update}), services)
    ahead = frameworks_ahead_words(times) if times and times.ahead else ""
    room = inspection.headroom
    gaps = events.figure_details(total=room.total, compute=room.compute, memory=room.memory, latency=room.latency)
    services.emit(
        "headroom", {"candidate": candidate.id, "bound": inspection.bottleneck if inspection.profiled else "", **gaps}
    )
    routes = Routes(services.settings)
    reached_cap = services.find_reached_cap()
    stop = routes.stop_reason_if_good_enough(
        {**state, **update}, inspection.doubt or ahead
    ) or routes.stop_reason_if_exhausted(state, reached_cap)
    names = ", ".join(dict.fromkeys(finding.rule for finding in inspection.findings[:3]))
    limit = (
        inspection.limit if inspection.profiled else f"{inspection.limit} ({next(iter(inspection.missing.values()))})"
    )
    update["summary"] = f"{limit}, headroom {format_percent(inspection.headroom.total)}{f'; {names}' if names else ''}"
    if inspection.doubt and not stop and not state.get("stop"):
        update["summary"] += f"; near a roof that may lie higher, so the run continues: {inspection.doubt}"
    if ahead and not stop and routes.stop_reason_near_roof(inspection.headroom.total):
        update["summary"] += f"; near its roof, but {ahead}"
    elif not state["iteration"]:
        took = times.seconds if times else {}
        update["summary"] += (
            "".join(f"; {contestant_words(name)} {format_seconds(taken)}" for name, taken in took.items()) or untimed
        )
        update["summary"] += "".join(
            f"; {contestant_words(name)} N/A ({why.rstrip('.')})"
            for name, why in (times.unavailable if times else {}).items()
        )
    if stop and not state.get("stop"):
        update["stop"] = services.record_reached_cap(reached_cap) if stop == "budget" and reached_cap else stop
    if state["iteration"] == 0:
        commit_baseline(State(**{**state, **update}), services, record)
    return update


def _time_frameworks(state: State, services: Services) -> tuple[str, str]:
    """Time v0 once beside torch; return the record's id and "", or "" and the reason if that is not possible."""
    wanted = services.settings.benchmark.frameworks
    if not (wanted or services.task.baseline_function):
        return "", ""
    try:
        judge = services.judge.with_executor(services.capped_executor(on_cap=lambda _: None))
        rounds = judge.policy.least_rounds(len(services.task.workloads))
        return judge.read_or_measure_benchmark(
            {"baseline": services.candidate(state["baseline"])}, wanted, rounds
        ).id, ""
    except (BudgetError, HarnessError) as error:
        return "", f"; torch was not timed beside it: {error}"
    finally:
        # Start the processes of torch again for the final benchmark, if they have ended.
        _start_frameworks(services)


def read_or_make_inspection(candidate: Candidate, state: State, services: Services) -> Record:
    """Return the record of a kernel's inspection, which the first call makes (for a version in its gate)."""
    record = services.records.find(record_key("inspection", candidate=candidate.id))
    if record is None:
        sheet = hardware_sheet.read_verified_sheet(state["specs"], services)
        inspection, parents = _inspect_kernel(
            candidate, services, sheet.target_specs, _remeasure_doubted_roofs(state, services, candidate)
        )
        record = services.save_record("inspection", inspection, parents=parents, candidate=candidate.id)
    return record


def _inspect_kernel(
    candidate: Candidate, services: Services, specs: tuple[Spec, ...], doubt: str
) -> tuple[Inspection, tuple[str, ...]]:
    calibration = services.judge.read_or_measure_calibration(candidate)
    published = roofline.roofs_from_specs(specs)
    # Measured roofs come first, since the device can reach them; one roofline never mixes both kinds.
    ceiling = services.roofs or published
    rows = _workload_rooflines(services, calibration, ceiling)
    profiles, records, missing = read_or_run_profilers(candidate, services, rows)
    heaviest, *_ = diagnosis.profiled_workloads(services.probed_workloads, {})
    workloads = diagnosis.figured_workloads(heaviest, profiles)
    precision = roofline.roof_precision(services.task)
    facts = {
        name: roofline.roofline_facts(r.headroom, services.device, r.unique_bytes, r.seconds, ceiling, precision)
        for name in workloads
        for r in rows
        if r.workload == name
    }
    headroom = _combined_headroom(services, rows)
    if headroom.total is not None:
        # One headroom for findings, prompts and stop conditions: that of the objective.
        total = {"roofline.headroom": Quantity(value=headroom.total, unit="fraction")}
        facts = {name: {**held, **total} for name, held in facts.items()}
    findings = rules.evaluate_workloads(tuple(zip(profiles, records, strict=True)), facts, services.rules)
    # One bottleneck stands in every text about the kernel; the roofline alone would be taken for one.
    bound = bottleneck.find_bottleneck(findings, headroom, profiles) if profiles else "unknown"
    headroom = headroom.model_copy(update={"bound": bound})
    target = _roofline_target(services, rows, ceiling)
    remarks = tuple(remark for profile in profiles for remark in profile.remarks)
    at = f"@{heaviest}" if len(rows) > 1 else ""
    """Names the workload of a fact where there are several."""
    seen = KernelObservations(
        times=_workload_times(services, rows, specs),
        counters={
            calibration.id: {f"time.{row.workload}": Quantity(value=row.seconds, unit="s") for row in rows}
            | {f"{name}{at}": held for name, held in relevant_metrics(facts[heaviest], services.rules).items()},
            **{
                record: relevant_metrics(profile.metrics, services.rules)
                for profile, record in zip(profiles, records, strict=True)
            },
        },
        calls={
            record: diagnosis.describe_call(profile)
            for profile, record in zip(profiles, records, strict=True)
            if profile.launches
        },
        machine_code=_hot_loops(services, records),
        operator=services.guide.operator_passages(services.operator, services.device.kind),
        thresholds=_thresholds_text(calibration, services),
    )
    brief = AnalystBrief(
        source=candidate.source,
        findings=findings,
        remarks=remarks,
        headroom=headroom,
        records=(calibration.id, *records),
        observations=seen,
        specs=specs,
        architecture=services.architecture,
        machine=services.machine,
        task=services.task,
        skills=services.guide.skills(services.task.language, [finding.rule for finding in findings]),
    )
    report = _ncu_sections(services, records)
    analysis = _analyse(services, brief.model_copy(update={"sections": tuple(report)}))
    if analysis.section in report:
        seen = seen.model_copy(
            update={"section": tuple(f"{analysis.section}, {kernel}" for kernel in report[analysis.section])}
        )
        analysis = _analyse(services, brief.model_copy(update={"observations": seen}))
    inspection = Inspection(
        candidate=candidate.id,
        profiles=profiles,
        profile_records=records,
        missing=missing,
        workload=heaviest,
        facts=dict(facts[heaviest]),
        findings=findings,
        rooflines=rows,
        headroom=headroom,
        target=target,
        published=_roofline_target(services, _workload_rooflines(services, calibration, published), published)
        if published
        else None,
        doubt=doubt,
        analysis=analysis,
        seen=seen,
    )
    return inspection, (calibration.id, *records)


def _thresholds_text(calibration: Record, services: Services) -> str:
    """Return what a gain must exceed and what a workload may lose, in words."""
    judge = services.settings.judge
    floor = evidence.noise_floor(calibration, judge.objective)
    return (
        f"noise floor {format_percent(floor)}; least gain that counts {format_percent(judge.min_effect)}; a workload "
        f"may become slower by {format_percent(judge.workload_margin)} unless the task says otherwise"
    )


def _remeasure_doubted_roofs(state: State, services: Services, candidate: Candidate) -> str:
    """Measure the roofs again while a doubt about them keeps a kernel from being near enough to one.

    Returns the remaining doubt; empty if there is none, if the kernel is far from its roof, or if the run ends for
    another reason. The doubt holds until another kernel is accepted.
    """
    routes, precision = Routes(services.settings), roofline.roof_precision(services.task)
    calibration = services.judge.read_or_measure_calibration(candidate)

    def doubt() -> str:
        rows = _workload_rooflines(services, calibration, services.roofs)
        if routes.stop_reason_near_roof(_combined_headroom(services, rows).total) is None:
            return ""
        return next(
            filter(
                None,
                (roofline.reason_binding_roof_may_be_low(row.headroom, services.all_roofs, precision) for row in rows),
            ),
            "",
        )

    remaining = doubt()
    if (
        not remaining
        or state.get("stop")
        or routes.stop_reason_if_good_enough(state, remaining)
        or routes.stop_reason_if_exhausted(state, services.find_reached_cap())
    ):
        return ""
    # These jobs are optional: without them the doubt stays, and the run continues.
    jobs = services.capped_executor(on_cap=lambda _: None)
    for _ in range(lower_bounds.MAX_REMEASUREMENTS):
        try:
            services.remeasure_roofs(jobs)
        except (BudgetError, HarnessError):
            break
        remaining = doubt()
        if not remaining:
            break
    return remaining


def _analyse(services: Services, brief: AnalystBrief) -> Analysis:
    """Return the analyst's analysis; if the exchange cannot be paid, a ranking in the order of the findings."""
    try:
        return profiler_analyst.analyze_findings(services.agents["profiler_analyst"], brief)
    except BudgetError as error:
        services.record_reached_cap(str(error))
        ranking = tuple(dict.fromkeys(finding.rule for finding in brief.findings))
        return Analysis(ranking=ranking, text=f"These findings have no explanation: {error}.")


def _workload_times(
    services: Services, rows: tuple[WorkloadRoofline, ...], specs: tuple[Spec, ...]
) -> dict[str, dict[str, float | None]]:
    """Return workload -> the seconds of the kernel and of its roofs."""
    precision = roofline.roof_precision(services.task)

    def times(row: WorkloadRoofline) -> dict[str, float | None]:
        found: dict[str, float | None] = {"incumbent": row.seconds}
        for name, roofs in (("measured", services.roofs), ("published", roofline.roofs_from_specs(specs))):
            roof_s, bound = roofline.roof_time(row.flops, row.unique_bytes, roofs, precision)
            why = roofline.reason_faster_than_roof(row.seconds, roof_s, bound).rstrip(".")
            found[f"{name} roof{f' ({why})' if why else ''}"] = roof_s
        return found

    return {row.workload: times(row) for row in rows}


def _ncu_sections(services: Services, profiles: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the sections of ncu's report; empty if there is no report."""
    found = [blobs["details.csv"] for one in profiles if "details.csv" in (blobs := services.records.get(one).blobs)]
    return ncu.parse_sections(services.records.blobs.text(found[0])) if found else {}


def _hot_loops(services: Services, profiles: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hot loops in the disassembly of the profiles."""
    listings = [
        blobs["assembly.txt"] for one in profiles if "assembly.txt" in (blobs := services.records.get(one).blobs)
    ]
    return tuple(loop for sha in listings for loop in signatures.hot_loop_assembly(services.records.blobs.text(sha)))


def relevant_metrics(metrics: Mapping[str, Quantity], all_rules: tuple[rules.Rule, ...]) -> dict[str, Quantity]:
    """Return those of a profiler's hundreds of metrics that a rule reads or that describe resources."""
    rule_metrics = {condition.metric for rule in all_rules for condition in rule.when}
    return {m: q for m, q in metrics.items() if m in rule_metrics or RESOURCE_METRICS.search(m)}


def _roofline_target(services: Services, rows: tuple[WorkloadRoofline, ...], roofs: tuple[Roof, ...]) -> Target:
    weighted = [(w.weight, row.headroom) for w, row in zip(services.task.workloads, rows, strict=True)]
    target = roofline.roofline_target(
        weighted, roofs, services.settings.stop.target_fraction, roofline.roof_precision(services.task)
    )
    if wrong := _refuted_workloads(services):
        prefix = (
            f"no target: the given kernel is correct and faster than the bytes counted for {', '.join(wrong)} allow; "
        )
        return target.model_copy(update={"description": f"{prefix}declare their `bytes` in the task"})
    return target


def requests_of_candidates(
    candidates: Sequence[Candidate], branch: Branch, services: Services
) -> Iterator[Callable[[], object]]:
    """Yield all measurements of candidates that compete in `branch` and that need no further answer."""
    incumbent, baseline = (services.candidate(branch[name]) for name in ("incumbent", "baseline"))
    yield from services.capped_judge.requests_of_trials(
        candidates, incumbent, baseline, siblings=branch["siblings"], earlier=branch["earlier"]
    )
    for candidate in candidates:
        if services.judge.screen_failure(candidate) is None:
            yield partial(read_or_run_profilers, candidate, services)


def read_or_run_profilers(
    candidate: Candidate, services: Services, rows: tuple[WorkloadRoofline, ...] = ()
) -> tuple[tuple[Profile, ...], tuple[str, ...], dict[str, str]]:
    """Return the profiles of a candidate, the ids of their records, and profiler -> reason for a missing profile.

    Profilers that run the kernel run it at the workload with most weight and, of `rows`, the one farthest from its
    roof.
    """
    profiles: list[Profile] = []
    records: list[str] = []
    library, jobs = services.judge.builder.shared_object_of(candidate) or "", services.capped_executor()
    toolchain = read_toolchain(services.executor, services.records.blobs)
    names = diagnosis.profiled_workloads(services.probed_workloads, {row.workload: row.headroom for row in rows})
    missing = {
        name: reason
        for name, profiler in services.profilers.items()
        if (reason := profiler.reason_unavailable(services.language, toolchain))
    }

    def read_or_profile(name: str, wanted: str) -> Record:
        profiler = services.profilers[name]
        place = {"workload": wanted} if profiler.runs_on_device else {}
        key = record_key("profile", tool=name, candidate=candidate.id, **place)
        record = services.records.find(key)
        if record is not None:
            return record
        workload = next(one for one in services.task.workloads if one.name == wanted)
        there = (services.task, candidate, library, workload, services.language, jobs, services.records.blobs)
        profile, blobs = profiler.profile(*there)
        profile = traffic.add_traffic(profile, next(one for one in services.probed_workloads if one.name == wanted))
        payload, environment = profile.model_dump(mode="json"), services.environment
        return services.records.add(
            Record(kind="profile", key=key, environment=environment, payload=payload, blobs=blobs)
        )

    pairs = [
        (name, wanted)
        for name, profiler in services.profilers.items()
        for wanted in (names if profiler.runs_on_device else names[:1])
        if name not in missing
    ]
    jobs.gather(partial(read_or_profile, *pair) for pair in pairs)
    for name, wanted in pairs:
        try:
            record = read_or_profile(name, wanted)
        except BudgetError as error:
            missing[name] = str(error)
            services.record_reached_cap(str(error))
            continue
        profiles.append(Profile.model_validate(record.payload))
        records.append(record.id)
    return tuple(profiles), tuple(records), missing


def _workload_rooflines(
    services: Services, calibration: Record, ceiling: tuple[Roof, ...]
) -> tuple[WorkloadRoofline, ...]:
    times = evidence.incumbent_seconds(calibration)
    cost = {seen.name: seen for seen in services.probed_workloads}
    precision, wrong = roofline.roof_precision(services.task), _refuted_workloads(services)
    return tuple(
        WorkloadRoofline(
            workload=w.name,
            seconds=times[w.name],
            flops=cost[w.name].flops,
            unique_bytes=cost[w.name].unique_bytes,
            headroom=roofline.compute_headroom(
                None if w.name in wrong else cost[w.name].flops,
                cost[w.name].unique_bytes,
                times[w.name],
                () if w.name in wrong else ceiling,
                precision,
            ),
        )
        for w in services.task.workloads
    )


def _refuted_workloads(services: Services) -> tuple[str, ...]:
    """Return the workloads whose counted bytes the given kernel refutes, so that they have no headroom."""
    baseline = Candidate(
        language=services.task.language, files={f"kernel{services.language.suffix}": services.task.baseline or ""}
    )
    needs = {seen.name: seen.unique_bytes for seen in services.probed_workloads}
    possible = lower_bounds.limits_from_roofs(needs, services.device.last_level_cache, services.all_roofs)
    return possible.workloads_refuted_by(
        evidence.incumbent_seconds(services.judge.read_or_measure_calibration(baseline))
    )


def _combined_headroom(services: Services, rows: tuple[WorkloadRoofline, ...]) -> Headroom:
    return roofline.combine_headrooms(
        [(w.weight, row.seconds, row.headroom) for w, row in zip(services.task.workloads, rows, strict=True)]
    )
