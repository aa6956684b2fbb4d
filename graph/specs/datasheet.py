"""The specs that a run asks for: resolved once, each citation is opened again before a use (mission E1)."""

from __future__ import annotations

from collections.abc import Iterator

from graph.artifacts import SpecSheet
from graph.services import Services
from graph.settings import Settings
from graph.specs import unknown
from knowledge_base.pages.names import product_names_of
from knowledge_base.pages.wiki import Wiki
from knowledge_base.specs import lookup
from tools.artifacts import Task
from tools.errors import WorkspaceError
from tools.executors.base import Device
from tools.roofline import roofline
from tools.roofline.hardware import Citation, Spec, UnknownSpec

WANTED = ("memory_bandwidth", "peak_fp32")
"""Metrics that every run asks the wiki for (E2), besides the last cache before device memory."""
MATRIX_PEAKS: dict[roofline.Precision, str] = {
    "float16": "fp16_tensor",
    "bfloat16": "bf16_tensor",
    "tf32": "tf32_tensor",
}
"""And those that a task which may use matrix units asks for."""
CPU = "CPU"
"""The family of which the wiki publishes nothing by design; its page says why."""
SILENT = (
    "No figure of a CPU is published, by design (`hardware/cpu.md` says why): `on_unknown` does not apply, "
    "and the run measures its roofs."
)


def published(wiki: Wiki, task: Task, product: str, variant: str) -> tuple[Spec | UnknownSpec, ...]:
    """What the wiki says of the product that bears on the task: one answer for each metric."""
    peak = MATRIX_PEAKS.get(roofline.precision(task))
    answers = [lookup.resolve_spec(wiki, product, metric, variant) for metric in WANTED]
    answers.append(_last_cache(wiki, product, variant))
    return (*answers, *((lookup.resolve_spec(wiki, product, peak, variant),) if peak else ()))


def _last_cache(wiki: Wiki, product: str, variant: str) -> Spec | UnknownSpec:
    """Each kind of device has its own last cache: a CPU's, the one behind L2 where there is one (AMD), else L2."""
    if cpu(wiki, product):
        return lookup.resolve_spec(wiki, product, "last_level_cache", variant)
    behind = lookup.resolve_spec(wiki, product, "l3_size", variant)
    return behind if isinstance(behind, Spec) else lookup.resolve_spec(wiki, product, "l2_size", variant)


def cpu(wiki: Wiki, product: str) -> bool:
    """Whether `product` is a CPU by its name."""
    named = product_names_of(wiki)
    return named.identify(product, "", ()) is None and named.family(product) == CPU


def silent(wiki: Wiki, hardware: str | None, device: Device) -> bool:
    """Whether nothing is published of what is meant, by design, so that `on_unknown` does not apply."""
    return cpu(wiki, hardware or device.name) or (not hardware and device.kind == "cpu")


def refuse(settings: Settings, wiki: Wiki, task: Task, device: Device) -> None:
    """SettingsError where `on_unknown: stop` ends the run, for which nothing need be measured."""
    product = settings.hardware or device.name
    if settings.on_unknown == "stop" and not silent(wiki, settings.hardware, device):
        answers = published(wiki, task, product, settings.variant)
        unknown.settle([answer for answer in answers if isinstance(answer, UnknownSpec)], product, "stop", None)


def unpublished(wiki: Wiki, task: Task, hardware: str | None, variant: str) -> str:
    """One sentence where the settings name a product of which the wiki answers nothing that a run asks for; "" where
    not."""
    if not hardware:
        return ""
    if cpu(wiki, hardware):
        return SILENT
    gaps = [answer for answer in published(wiki, task, hardware, variant) if isinstance(answer, UnknownSpec)]
    if len(gaps) < len(published(wiki, task, hardware, variant)):
        return ""
    near = f" (there are {', '.join(gaps[0].candidates)})" if gaps[0].candidates else ""
    return (
        f"the gpu-wiki answers nothing of {f'{hardware} {variant}'.strip()}: {gaps[0].reason}{near}; mend "
        f"`hardware` and `variant`, "
        "or leave them, and targets rest on measured roofs alone"
    )


def elsewhere(wiki: Wiki, device: Device, hardware: str | None, variant: str) -> str:
    """One sentence where the wiki does not say that the product in the settings is the device that measures; ""
    where it does."""
    asked = lookup.identify_product(wiki, hardware, variant) if hardware else None
    here = lookup.identify_product(wiki, device.name) if device.kind != "cpu" else None
    if asked is None or (
        here and here.product == asked.product and asked.variant in ("", here.variant or asked.variant)
    ):
        return ""
    listed = "" if here or device.kind == "cpu" else ", which product-aliases does not list"
    return (
        f"These figures are of {asked}, while this run measures on {device.name}{listed}: no target is computed "
        f"from them."
    )


def sheet(identity: str, services: Services) -> SpecSheet:
    """The sheet in the record `identity`; WorkspaceError when a line that it cites says something else now. Nothing
    is lost by that."""
    found = SpecSheet.model_validate(services.records.get(identity).payload)
    wiki = services.wiki
    for spec, citation in stale(found, wiki):
        raise WorkspaceError(
            f"{citation} does not say any more what this run cited it for ({str(spec).partition(' <- ')[0]} of "
            f"{found.product}); restore "
            f"that line in {wiki.root} and `python -m graph resume {services.workspace.root}`, or start a new run "
            f"with the wiki as it is"
        )
    return found


def stale(found: SpecSheet, wiki: Wiki) -> Iterator[tuple[Spec, Citation]]:
    """Specs that no longer hold, each with the line that changed."""
    for spec in found.specs:
        if not lookup.reverify(wiki, spec):
            cited = [spec.citation, *([spec.via] if spec.via else [])]
            yield spec, next((c for c in cited if not wiki.confirms(c)), spec.citation)
