"""From a figure to its record: which records a page names, so that each is described on it."""

from __future__ import annotations

from tools.artifacts import Record
from tools.store.records import Records


class Links:
    """Anchors of the records that one page names. A record that is not there is named without a link."""

    def __init__(self, records: Records) -> None:
        self._known = {record.id: record for record in records}
        self._named: dict[str, Record] = {}

    def href(self, identity: str | None) -> str | None:
        """The anchor where the record is described, which is noted; None: there is no such record."""
        record = self._known.get(identity or "")
        if record is None:
            return None
        self._named[record.id] = record
        return f"#r-{record.id}"

    @property
    def named(self) -> tuple[Record, ...]:
        """The records that were named so far, in the order in which they were first."""
        return tuple(self._named.values())
