"""The kernel that torch.compile generates from the reference, offered to the planner besides the user's kernel."""

from __future__ import annotations

from agents.lift.from_reference import LIFT_BY_LANGUAGE, LIFT_METHOD, lift_reference
from graph.artifacts import LiftResult
from graph.report.content import frameworks
from graph.services import Services
from graph.state import State
from knowledge_base.artifacts import Page
from tools.errors import BudgetError, HarnessError, SettingsError
from tools.store.records import record_key
from tools.tasks.inductor_code import generate_inductor_code


def lift_page(state: State, services: Services) -> Page | None:
    """Return the page of the lift method; None if torch.compile is shown slower than the incumbent, or is the
    incumbent."""
    times = frameworks.torch_times(state, services)
    is_torch_slower = times is not None and bool(times.compiled) and all(one.low > 1 for one in times.compiled)
    lifted = None if is_torch_slower or services.task.language not in LIFT_BY_LANGUAGE else lifted_source(services)
    return (
        services.guide.page(LIFT_METHOD) if lifted and lifted != services.candidate(state["incumbent"]).source else None
    )


def lifted_source(services: Services) -> str:
    """Return the source of the lifted kernel; empty if there is none, or no time to make one."""
    record = services.records.find(record_key("lift"))
    if record is None:
        task = services.task
        try:
            jobs = services.capped_executor(on_cap=lambda _: None)
            inductor = generate_inductor_code(task, jobs, services.records.blobs, services.settings.judge.job_limit_s)
            result = LiftResult(source=lift_reference(task, inductor))
        except SettingsError as error:
            result = LiftResult(refused=str(error))
        except (BudgetError, HarnessError):
            return ""
        record = services.save_record("lift", result)
    return LiftResult.model_validate(record.payload).source
