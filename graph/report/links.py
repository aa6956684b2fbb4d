"""Links from a figure of a page to the record that it comes from."""

from __future__ import annotations

from tools.artifacts import Record
from tools.store.records import Records


class Links:
    """Anchors of the records that one page names, so that the page can describe each of them."""

    def __init__(self, records: Records) -> None:
        self._record_by_id = {record.id: record for record in records}
        self._named: dict[str, Record] = {}

    def href(self, record_id: str | None) -> str | None:
        """The anchor at which the page describes the record, which counts as named from now on; None: there is no such
        record."""
        record = self._record_by_id.get(record_id or "")
        if record is None:
            return None
        self._named[record.id] = record
        return f"#r-{record.id}"

    @property
    def named_records(self) -> tuple[Record, ...]:
        """The records that were named so far, in the order of their first naming."""
        return tuple(self._named.values())
