"""Measured roofs as pages that can be cited: `<home>/overlay/<device>-<driver>.md`.

They are laid out like the hardware pages of the wiki. Their metrics have names of their own
(`measured_memory_bandwidth`), so that a figure measured here answers no question about a published one. The exact value
is in the record that each row names; a page shows six digits.
"""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from knowledge_base.pages.names import metrics_of
from knowledge_base.pages.wiki import Wiki, home_folder
from knowledge_base.specs import lookup
from tools.artifacts import Record
from tools.environment import Environment
from tools.errors import SettingsError, StorageError
from tools.executors.base import Device
from tools.roofline import microbenchmarks
from tools.roofline.hardware import Roof, RoofMetric, Spec
from tools.store.blobs import write_atomically
from tools.store.records import Records

OVERLAY_FOLDER = "overlay"
METRIC_BY_ROOF: dict[RoofMetric, str] = {
    "memory_bandwidth": "measured_memory_bandwidth",
    "compute_float32": "measured_fp32",
    "compute_float64": "measured_fp64",
    "compute_tf32": "measured_tf32_tensor",
    "compute_float16": "measured_fp16_tensor",
    "compute_bfloat16": "measured_bf16_tensor",
    "launch_latency": "measured_launch_latency",
}
"""Roof -> what the page calls it."""
UNIT_PREFIXES = (("T", 1e12), ("G", 1e9))
"""Of units; the last serves what is smaller, too."""
LANGUAGE_BY_DEVICE_KIND = {"cpu": "cpp", "cuda": "triton"}
"""Whose toolchain measures a kind of device, for the command."""


class OverlayPage(NamedTuple):
    """What came of a record."""

    path: Path
    changed: bool
    """False: the page said all this already."""


class RoofMeasurement(NamedTuple):
    """A measurement of roofs with what a reader must know of it."""

    record: str
    device: Device
    driver: str
    day: date
    roofs: tuple[Roof, ...]


def overlay_pages(home: Path | None = None) -> list[Path]:
    """Every overlay page under `home` (None: $KERNELWRIGHT_HOME), by name."""
    return sorted(((home or home_folder()) / OVERLAY_FOLDER).glob("*.md"))


def resolve_measured(
    product: str, metric: str, variant: str = "", qualifier: str = "", home: Path | None = None
) -> Spec | None:
    """What was measured on exactly this product and variant under one of the names for measurements; cited as
    `<gpu-wiki>/overlay/…`."""
    folder = home or home_folder()
    if not overlay_pages(folder):
        return None
    # Other pages of the overlay quote models, and give no figures.
    wiki = Wiki.open(folder, ["hardware"])
    if metrics_of(wiki).canonical(metric)[0] not in METRIC_BY_ROOF.values():
        return None
    found = lookup.resolve_spec(wiki, product, metric, variant, qualifier)
    return found if isinstance(found, Spec) else None


def write_overlay_page(
    named: str, wiki: Wiki, *, workspace: Path | None = None, home: Path | None = None, replace: bool = False
) -> OverlayPage:
    """The page of the roof record `named` (its file, or its id in `workspace`).

    SettingsError when it is no such record, or when the page of this device and driver rests on another one and
    `replace` is not said.
    """
    found = _read_measurement(*_find_record(named, workspace))
    name = re.sub(r"[^a-z0-9.]+", "-", f"{found.device.name} {found.driver}".lower()).strip("-.")
    path = (home or home_folder()) / OVERLAY_FOLDER / f"{name}.md"
    text = _page(found, name, wiki)
    if path.is_file():
        before = path.read_text(encoding="utf-8", errors="replace")
        if f"record {found.record}" in before and before == text:
            return OverlayPage(path, changed=False)
        if f"record {found.record}" not in before and not replace:
            held = re.search(r"record ([0-9a-f]{16})", before)
            raise SettingsError(
                f"{path}: rests on record {held[1] if held else 'unknown'} already; say --replace to put record "
                f"{found.record} in its place"
            )
    write_atomically(path, text.encode())
    return OverlayPage(path, changed=True)


def _find_record(named: str, workspace: Path | None) -> tuple[Path, str]:
    """The workspace and the id of a record that was named by its file or its id."""
    if workspace is not None:
        root, identity = workspace, Path(named).stem
    else:
        root, identity = Path(named).parent.parent, Path(named).stem
        if not Path(named).is_file():
            raise SettingsError(
                f"{named}: no such record file; give records/<id>.json of a workspace, or an id with --workspace"
            )
    if not (root / "records" / f"{identity}.json").is_file():
        raise SettingsError(f"{identity}: no such record in {root / 'records'}; README.md there names those of roofs")
    return root, identity


def _read_measurement(root: Path, identity: str) -> RoofMeasurement:
    try:
        records = Records(root)
        record = records.get(identity)
    except StorageError as error:
        raise SettingsError(f"{root / 'records'}: {error}") from error
    if record.kind != "roof":
        raise SettingsError(
            f"{identity}: is a record of kind {record.kind}, and only one of kind roof becomes a page; see README.md"
        )
    device = _device(record, records)
    return RoofMeasurement(
        record=identity,
        device=device,
        driver=device.details.get("driver") or f"Linux {device.details.get('kernel', 'unknown')}",
        day=_measurement_day(root, identity),
        roofs=_roofs(record),
    )


def _device(record: Record, records: Records) -> Device:
    """The device that was measured, as the run's environment describes it: the record itself only names it."""
    place, _, name = record.device.partition(" ")
    if record.environment:
        environment = Environment.model_validate(records.get(record.environment).payload)
        for device in environment.devices:
            if (f"{device.kind}:{device.index}", device.name) == (place, name):
                return device
    raise SettingsError(
        f"{record.id}: no environment record says which driver {record.device} had; take a record that a run made"
    )


def _roofs(record: Record) -> tuple[Roof, ...]:
    try:
        return microbenchmarks.roofs_of_record(record)
    except ValidationError as error:
        raise SettingsError(
            f"{record.id}: holds no measurement of roofs that can be read; take one of this version's runs"
        ) from error


def _measurement_day(root: Path, identity: str) -> date:
    """When the record came: the day of the commit that brought it, else the file's own."""
    relative = f"records/{identity}.json"
    command = ["git", "log", "--diff-filter=A", "--format=%cs", "--", relative]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    said = done.stdout.split()
    if done.returncode == 0 and said:
        return date.fromisoformat(said[-1])
    return datetime.fromtimestamp((root / relative).stat().st_mtime, UTC).date()


def _page(found: RoofMeasurement, name: str, wiki: Wiki) -> str:
    device = found.device
    product = _product(wiki, device)
    command = f"python -m tools ceilings --language {LANGUAGE_BY_DEVICE_KIND.get(device.kind, 'cpp')}"
    rows = [_row(roof, found.record) for roof in found.roofs]
    return "\n".join(
        [
            "---",
            f"id: {name}",
            "type: hardware",
            f"title: {_yaml_string(f'{device.name}, measured')}",
            f"applies_to: [{', '.join(map(_yaml_string, product))}]",
            "sources:",
            f"  - {_yaml_string(f'measured: {command}')}",
            f"last_checked: {found.day}",
            "---",
            f"# {device.name}, measured",
            "",
            f"- device: {device.name} ({device.kind}, {device.architecture})",
            f"- driver: {found.driver}",
            f"- date: {found.day}",
            f"- command: `{command}`; this one was measured by a run",
            f"- record: {found.record}",
            "",
            "## Measured roofs",
            "",
            "| metric | value | unit | qualifier | source | evidence |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _product(wiki: Wiki, device: Device) -> tuple[str, ...]:
    """Product and variant as the wiki names this device; where it knows none, the device's own name."""
    known = lookup.resolve_spec(wiki, device.name, "memory_bandwidth") if device.kind != "cpu" else None
    if isinstance(known, Spec):
        return (known.product, known.variant) if known.variant else (known.product,)
    return (device.name,)


def _row(roof: Roof, record: str) -> str:
    qualifier = "dense" if roof.unit == "op/s" else ""
    source = f"measured, record {record}{f'; {roof.doubt}' if roof.doubt else ''}"
    return f"| {METRIC_BY_ROOF[roof.metric]} | {' | '.join(_quantity(roof))} | {qualifier} | {source} | measured |"


def _quantity(roof: Roof) -> tuple[str, str]:
    """Value and unit as hardware pages print them."""
    if roof.unit == "s":
        return _digits(roof.value * 1e6), "us"
    prefix, scale = next((found for found in UNIT_PREFIXES if roof.value >= found[1]), UNIT_PREFIXES[-1])
    return _digits(roof.value / scale), prefix + {"B/s": "B/s", "op/s": "FLOPS"}.get(roof.unit, roof.unit)


def _digits(value: float) -> str:
    """Six digits, never with an exponent, which a table row does not show."""
    text = f"{float(f'{value:.6g}'):.12f}".rstrip("0").rstrip(".")
    return text or "0"


def _yaml_string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
