"""The names of metrics with their units, and of products with their variants.

Both are tables of the pages `metric-names` and `product-aliases`, data like the rest, and so are the targets of
`platforms`. A wiki without such a page is read by the bundled wiki's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from knowledge_base.artifacts import Page
from knowledge_base.pages.wiki import BUNDLED_WIKI, TableRow, Wiki, read_page, table_rows

METRIC_NAMES = "meta/metric-names.md"
PRODUCT_ALIASES = "meta/product-aliases.md"
PLATFORMS = "meta/platforms.md"
VENDOR_WORDS = frozenset(
    {"nvidia", "amd", "intel", "instinct", "tesla", "geforce", "gpu", "accelerator", "tensor", "core"}
)
UNIT_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
ON_CHIP_PREFIXES = {"K": 1024.0, "M": 1024.0**2}
"""Of bytes: only memories on the chip are printed in KB and MB, and mean powers of two."""
NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
SCALED_UNIT = re.compile(r"([KMGTP])i?(Hz|B/s|B|FLOPS|OPS)")


class MetricKind(NamedTuple):
    """The units, qualifiers and bounds of one metric."""

    units: frozenset[str]
    qualifiers: frozenset[str]
    """Qualifiers of which a row must have one; empty: it may have any or none."""
    least: float = 0.0
    most: float = math.inf
    """Bounds of possible values, in the unit of `Metrics.scaled`."""


class Metrics(NamedTuple):
    """All metrics of a wiki."""

    kinds: dict[str, MetricKind]
    aliases: dict[str, tuple[str, str]]
    """Another name -> the metric and the qualifier that the name implies."""
    spellings: dict[str, str]
    """Another spelling of a unit -> the unit."""

    def canonical(self, asked: str) -> tuple[str, str]:
        """The metric of a name, and the qualifier that the name implies (`bf16_dense`); an unknown name stays as it
        is."""
        name = comparable_metric(asked)
        if name in self.kinds or name in self.aliases:
            return self.aliases.get(name, (name, ""))
        for qualifier in sorted({qualifier for kind in self.kinds.values() for qualifier in kind.qualifiers}):
            metric, implied = self.aliases.get(stem := name.removesuffix(f"_{qualifier}"), (stem, ""))
            if stem != name and not implied and metric in self.kinds and qualifier in self.kinds[metric].qualifiers:
                return metric, qualifier
        return name, ""

    def allows_unit(self, metric: str, unit: str) -> bool:
        """Whether a number in `unit` can be one of `metric`; never for a metric that is not listed."""
        kind = self.kinds.get(metric)
        return kind is not None and self.spellings.get(unit, unit) in kind.units

    def is_possible(self, metric: str, value: float, unit: str) -> bool:
        """Whether a number of a listed metric is within its bounds."""
        kind = self.kinds[metric]
        return kind.least <= self.scaled(value, unit)[0] <= kind.most

    def scaled(self, value: float, unit: str) -> tuple[float, str]:
        """`value` without its unit's prefix, to see whether two lines say the same. KB and KiB count alike: of a
        chip both mean 1024."""
        unit = self.spellings.get(unit, unit)
        match = SCALED_UNIT.fullmatch(unit)
        if match is None:
            return value, unit
        factors = {**UNIT_PREFIXES, **ON_CHIP_PREFIXES} if match[2] == "B" else UNIT_PREFIXES
        return float(f"{value * factors[match[1]]:.12g}"), match[2]


class ProductName(NamedTuple):
    """A product with its variant."""

    product: str
    variant: str = ""
    """Empty: any variant, or the only one."""

    def __str__(self) -> str:
        return f"{self.product} {self.variant}".strip()


class ProductNames(NamedTuple):
    """The names of products."""

    sold: tuple[ProductName, ...]
    """Every variant that is sold or that a driver reports as a device."""
    names: dict[str, ProductName]
    """Each of these and every other name, as `comparable_name` makes it."""
    reported: dict[str, ProductName]
    """A driver's own name for a device, word for word."""
    families: tuple[tuple[str, str], ...]
    """A word in a name -> the product whose page says why there are no figures."""

    def identify(self, product: str, variant: str, held: Iterable[ProductName]) -> ProductName | None:
        """The product that `product` and `variant` name; None for an unknown name. `held`: products of the wiki's
        figures."""
        reported = self.reported.get(product)
        if reported and variant in ("", reported.variant):
            return reported
        names = _with_products(held, self.names)
        whole = names.get(comparable_name(product))
        if not variant:
            return whole
        exact = names.get(comparable_name(f"{whole.product if whole else product} {variant}"))
        # A variant by its whole name, as answers show it: it stands for the product only where that is said in it.
        named = names.get(comparable_name(variant))
        if (
            exact is None
            and named
            and (
                named.product == whole.product
                if whole
                else name_words(product) - VENDOR_WORDS <= name_words(str(named))
            )
        ):
            exact = named
        return exact if exact and (whole is None or whole.variant in ("", exact.variant)) else None

    def canonical(self, name: ProductName) -> ProductName:
        """The listed name of a product that a wiki may write in another way."""
        return self.names.get(comparable_name(str(name)), name)

    def family(self, product: str) -> str | None:
        """The family whose word stands in `product`; None where a listed product's does."""
        said = name_words(product)
        if any(name_words(name.product) <= said for name in (*self.sold, *self.reported.values())):
            return None
        return next((family for word, family in self.families if word in said), None)

    def completions(self, asked: str, held: Iterable[ProductName]) -> tuple[ProductName, ...]:
        """The variants of which `asked` names the product and a part of the rest, such as `A100 80GB`."""
        said = name_words(asked) - VENDOR_WORDS
        listed = dict.fromkeys((*self.sold, *held))
        return tuple(
            name for name in listed if name_words(name.product) - VENDOR_WORDS <= said <= name_words(str(name))
        )


def metrics_of(wiki: Wiki) -> Metrics:
    """The metrics, their units and their other names."""
    page = _meta_page(wiki, "metric-names", METRIC_NAMES)
    kinds = {
        row.cells["dimension"]: MetricKind(
            frozenset(row.cells["units"].split(", ")), frozenset(row.cells.get("qualifiers", "").split())
        )
        for row in _complete_rows(page, "dimension", "units")
    }
    listed = {
        row.cells["metric"]: _with_bounds(kinds[row.cells["dimension"]], row)
        for row in _complete_rows(page, "metric", "dimension")
        if row.cells["dimension"] in kinds
    }
    aliases = {
        comparable_metric(row.cells["alias"]): (row.cells["metric"], row.cells.get("qualifier", ""))
        for row in _complete_rows(page, "alias", "metric")
    }
    spellings = {row.cells["spelling"]: row.cells["unit"] for row in _complete_rows(page, "spelling", "unit")}
    return Metrics(listed, aliases, spellings)


def product_names_of(wiki: Wiki) -> ProductNames:
    """The products that are sold and what else they are called."""
    page = _meta_page(wiki, "product-aliases", PRODUCT_ALIASES)

    def names(column: str) -> list[tuple[str, ProductName]]:
        return [
            (row.cells[column], ProductName(row.cells["product"], row.cells["variant"]))
            for row in _complete_rows(page, column, "product", "variant")
        ]

    sold = tuple(
        ProductName(row.cells["product"], row.cells["sold as"]) for row in _complete_rows(page, "product", "sold as")
    )
    reported = dict(names("driver says"))
    return ProductNames(
        sold=sold,
        # What only drivers name is a product as well, whatever else a wiki's page calls it.
        names=_with_products(
            (*sold, *reported.values()), {comparable_name(alias): name for alias, name in names("alias")}
        ),
        reported=reported,
        families=tuple(
            (row.cells["word"].lower(), row.cells["family"]) for row in _complete_rows(page, "word", "family")
        ),
    )


def targets_by_name(wiki: Wiki) -> dict[str, tuple[str, ...]]:
    """Name of a product or an architecture in lower case -> targets as compilers name them."""
    found: dict[str, dict[str, None]] = {}
    for row in table_rows(_meta_page(wiki, "platforms", PLATFORMS), ("product", "architecture", "target")):
        architecture = row.cells["architecture"]
        for name in (*row.cells["product"].split(","), architecture, architecture.split()[0]):
            found.setdefault(name.strip().lower(), {})[row.cells["target"]] = None
    return {name: tuple(named) for name, named in found.items()}


def comparable_name(name: str) -> str:
    """Case, separators and vendor words off; nothing else, so that one product never becomes another."""
    return "".join(word for word in re.split(r"[^a-z0-9]+", name.lower()) if word not in VENDOR_WORDS)


def name_words(name: str) -> frozenset[str]:
    """The words of a name; a size of memory is one."""
    return frozenset(re.findall(r"[a-z0-9]+", re.sub(r"(\d)\s+(?=gb\b)", r"\1", name.lower())))


def comparable_metric(metric: str) -> str:
    """A metric's name as it is compared."""
    return re.sub(r"[^a-z0-9]+", "_", metric.strip().lower()).strip("_")


def _with_products(known: Iterable[ProductName], names: dict[str, ProductName]) -> dict[str, ProductName]:
    """`names`, and those of `known` products, which go before them; a product without a variant stands for any."""
    found: dict[str, ProductName] = {}
    for name in known:
        found.setdefault(comparable_name(name.product), ProductName(name.product))
        found[comparable_name(str(name))] = name
    return {**names, **found}


def _with_bounds(kind: MetricKind, row: TableRow) -> MetricKind:
    """With the bounds that a row of a metric states; a page may leave them out."""
    least, most = (row.cells.get(column, "") for column in ("least", "most"))
    return kind._replace(
        least=float(least) if NUMBER.fullmatch(least) else kind.least,
        most=float(most) if NUMBER.fullmatch(most) else kind.most,
    )


def _complete_rows(page: Page, *columns: str) -> Iterator[TableRow]:
    """The rows of a table that have all of `columns`."""
    return (row for row in table_rows(page, columns) if all(column in row.cells for column in columns))


def _meta_page(wiki: Wiki, identity: str, path: str) -> Page:
    page = wiki.page(identity) or read_page(BUNDLED_WIKI, path)
    if not isinstance(page, Page):
        raise TypeError(f"the bundled wiki is broken: {page}")
    return page
