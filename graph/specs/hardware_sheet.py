"""The specs of a run's hardware: resolved once, with each citation read again before use (mission E1)."""

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

REQUIRED_METRICS = ("memory_bandwidth", "peak_fp32")
"""Metrics that every run looks up in the wiki (E2), besides the last cache before device memory."""
MATRIX_PEAKS: dict[roofline.Precision, str] = {
    "float16": "fp16_tensor",
    "bfloat16": "bf16_tensor",
    "tf32": "tf32_tensor",
    "float8": "fp8_tensor",
    "int8": "int8_tensor",
}
"""Precision -> the peak that a task which may use matrix units looks up."""
CPU = "CPU"
"""The family for which the wiki has no figures by design; its page says why."""
CPU_UNPUBLISHED = (
    "No figure of a CPU is published, by design (`hardware/cpu.md` says why): `on_unknown` does not apply, "
    "and the run measures its roofs."
)


def published_specs(wiki: Wiki, task: Task, product: str, variant: str) -> tuple[Spec | UnknownSpec, ...]:
    """The wiki's answers about the product that the task needs: one for each metric."""
    peak = MATRIX_PEAKS.get(roofline.roof_precision(task))
    answers = [lookup.resolve_spec(wiki, product, metric, variant) for metric in REQUIRED_METRICS]
    answers.append(_last_cache(wiki, product, variant))
    return (*answers, *((lookup.resolve_spec(wiki, product, peak, variant),) if peak else ()))


def _last_cache(wiki: Wiki, product: str, variant: str) -> Spec | UnknownSpec:
    """Each kind of device has its own last cache: a CPU's, the one behind L2 where there is one (AMD), else L2."""
    if is_cpu(wiki, product):
        return lookup.resolve_spec(wiki, product, "last_level_cache", variant)
    behind = lookup.resolve_spec(wiki, product, "l3_size", variant)
    return behind if isinstance(behind, Spec) else lookup.resolve_spec(wiki, product, "l2_size", variant)


def is_cpu(wiki: Wiki, product: str) -> bool:
    """Whether `product` is a CPU by its name."""
    named = product_names_of(wiki)
    return named.identify(product, "", ()) is None and named.family(product) == CPU


def is_unpublished_by_design(wiki: Wiki, hardware: str | None, device: Device) -> bool:
    """Whether the wiki has no figures for the hardware by design, so that `on_unknown` does not apply."""
    return is_cpu(wiki, hardware or device.name) or (not hardware and device.kind == "cpu")


def refuse_unknown(settings: Settings, wiki: Wiki, task: Task, device: Device) -> None:
    """Raise SettingsError where `on_unknown: stop` ends the run, before anything is measured."""
    product = settings.hardware or device.name
    if settings.on_unknown == "stop" and not is_unpublished_by_design(wiki, settings.hardware, device):
        answers = published_specs(wiki, task, product, settings.variant)
        unknown.resolve_unknown(
            [answer for answer in answers if isinstance(answer, UnknownSpec)], product, "stop", None
        )


def unpublished_warning(wiki: Wiki, task: Task, hardware: str | None, variant: str) -> str:
    """A sentence where the settings name a product for which the wiki has none of the figures that a run needs;
    otherwise ""."""
    if not hardware:
        return ""
    if is_cpu(wiki, hardware):
        return CPU_UNPUBLISHED
    gaps = [answer for answer in published_specs(wiki, task, hardware, variant) if isinstance(answer, UnknownSpec)]
    if len(gaps) < len(published_specs(wiki, task, hardware, variant)):
        return ""
    near = f" (there are {', '.join(gaps[0].candidates)})" if gaps[0].candidates else ""
    return (
        f"the gpu-wiki has no figures for {f'{hardware} {variant}'.strip()}: {gaps[0].reason}{near}; correct "
        f"`hardware` and `variant`, "
        "or leave them; then targets use measured roofs alone"
    )


def other_device_warning(wiki: Wiki, device: Device, hardware: str | None, variant: str) -> str:
    """A sentence where the product in the settings is not known to be the device that measures; otherwise ""."""
    asked = lookup.identify_product(wiki, hardware, variant) if hardware else None
    here = lookup.identify_product(wiki, device.name) if device.kind != "cpu" else None
    if asked is None or (
        here and here.product == asked.product and asked.variant in ("", here.variant or asked.variant)
    ):
        return ""
    listed = "" if here or device.kind == "cpu" else ", which product-aliases does not list"
    return (
        f"These figures are for {asked}, while this run measures on {device.name}{listed}: no target is computed "
        f"from them."
    )


def read_verified_sheet(identity: str, services: Services) -> SpecSheet:
    """The sheet in the record `identity`; raises WorkspaceError when a line that it cites has changed. The workspace is
    unchanged by that."""
    found = SpecSheet.model_validate(services.records.get(identity).payload)
    wiki = services.wiki
    for spec, citation in stale_specs(found, wiki):
        raise WorkspaceError(
            f"{citation} no longer states what this run cited it for ({str(spec).partition(' <- ')[0]} of "
            f"{found.product}); restore "
            f"that line in {wiki.root} and `python -m graph resume {services.workspace.root}`, or start a new run "
            f"with the wiki as it is"
        )
    return found


def stale_specs(found: SpecSheet, wiki: Wiki) -> Iterator[tuple[Spec, Citation]]:
    """The specs whose citation no longer holds, each with the line that changed."""
    for spec in found.specs:
        if not lookup.reverify(wiki, spec):
            cited = [spec.citation, *([spec.via] if spec.via else [])]
            yield spec, next((c for c in cited if not wiki.confirms(c)), spec.citation)
