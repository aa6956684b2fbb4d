"""What torch.compile makes of the reference, beside a kernel that was given: asked for once, before the first plan."""

from __future__ import annotations

from agents.lift.from_reference import LIFT_BY_LANGUAGE, LIFT_METHOD, lift_reference
from graph.artifacts import Lifted
from graph.report.content import frameworks
from graph.services import Services
from graph.state import State
from knowledge_base.artifacts import Page
from tools.errors import BudgetError, HarnessError, SettingsError
from tools.store.records import record_key
from tools.tasks.inductor_code import generate_inductor_code


def page(state: State, services: Services) -> Page | None:
    """The method's page while there is something to try: neither where torch.compile is shown slower than the
    incumbent, nor where the incumbent is what it makes."""
    times = frameworks.torch_times(state, services)
    behind = times is not None and bool(times.compiled) and all(one.low > 1 for one in times.compiled)
    found = None if behind or services.task.language not in LIFT_BY_LANGUAGE else source(services)
    return (
        services.guide.page(LIFT_METHOD) if found and found != services.candidate(state["incumbent"]).source else None
    )


def source(services: Services) -> str:
    """The lifted kernel; empty where there is none, or no time to make one."""
    record = services.records.find(record_key("lift"))
    if record is None:
        task = services.task
        try:
            jobs = services.capped_executor(tell=lambda _: None)
            inductor = generate_inductor_code(task, jobs, services.records.blobs, services.settings.judge.job_limit_s)
            found = Lifted(source=lift_reference(task, inductor))
        except SettingsError as error:
            found = Lifted(refused=str(error))
        except (BudgetError, HarnessError):
            return ""
        record = services.keep("lift", found)
    return Lifted.model_validate(record.payload).source
