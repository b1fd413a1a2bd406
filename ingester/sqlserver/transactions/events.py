"""A transaction made into its two events, so that they go the way of changes. Pure.

Each has an identity that is the same whenever it is sent: duplicate detection and consumers depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from common.message import OfTransaction
from common.names import TRANSACTIONS, TableName
from ingester.change import Change, Operation
from ingester.schema.version import schema_version
from ingester.sqlserver.position import LogPosition, Lsn

_VERSION: Final = schema_version(())
"""They have no columns."""

LOG: Final = "cdc.lsn_time_mapping"
"""What stands in place of a capture instance's name: where transactions are found."""

_NO_ROW = bytes(10)


def begin_and_end(lsn: Lsn, commit_time: str | None, counts: Mapping[TableName, int]) -> tuple[Change, Change]:
    """The events about the transaction that was committed at `lsn` with `counts` changes, of each table at least one."""
    begin = _event(lsn, commit_time, counts, Operation.BEGIN, "BEGIN", 1)
    return begin, _event(lsn, commit_time, counts, Operation.END, "END", 2)


def _event(
    lsn: Lsn, commit_time: str | None, counts: Mapping[TableName, int], operation: Operation, status: str, place: int
) -> Change:
    said: OfTransaction = {
        "Id": lsn.hex,
        "Status": status,
        "EventCount": sum(counts.values()),
        "Tables": [{"Table": table.key, "Count": counts[table]} for table in sorted(counts)],
    }
    at = LogPosition(lsn, 0, _NO_ROW, place)
    return Change(
        *(TRANSACTIONS, LOG, at, operation, {}),
        commit_time=commit_time,
        schema_version=_VERSION,
        transaction=said,
    )
