"""What a test of the contract says of itself: the item it belongs to and how sure we are that a real SQL Server does the same.

`documented`: a page of Microsoft's, a KB article, or a specification says so. `measured`: somebody saw a real server do it, and
wrote it down. `unverified`: neither; the emulator decided, and a real server's answer is news, not a failure. The source of
each test stands in its docstring, after "Source:".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import pytest

Label = Literal["documented", "measured", "unverified"]
LABELS: tuple[Label, ...] = get_args(Label)
"""From the surest to the least sure."""

ITEMS: Mapping[int, str] = {
    1: "The batch of SETs and the USE that pymssql sends at connect",
    2: "Unknown database 911, wrong password 18456",
    3: "Implicit transactions of a client; COMMIT and ROLLBACK without one: 3902, 3903",
    4: "IF @@TRANCOUNT > 0 ROLLBACK TRAN",
    5: "SNAPSHOT isolation: 3952 where it is not allowed, consistent reads where it is",
    6: "SET LOCK_TIMEOUT: 1222 on a locked table",
    7: "TABLOCKX blocks writers; TABLOCK with HOLDLOCK lets readers in",
    8: "A query timeout ends the connection; a new one works",
    9: "A result set read by half, then the next query",
    10: "Number, severity and text of the common errors",
    11: "Every type there and back, NULL and the ends of its range",
    12: "Rounding of datetime and smalldatetime",
    13: "The same types through the change table; rowversion and identity",
    14: "Binary parameters, and CONVERT of LSNs to and from text",
    15: "binary(10) compares and orders byte by byte, unsigned",
    16: "sys.sp_cdc_enable_db: schema, tables, is_cdc_enabled",
    17: "Enabling a database twice: 22905",
    18: "Enabling under a condition",
    19: "What cannot be enabled: 22901, 22931, 22942",
    20: "Names of capture instances: default, too long 22927, taken 22926",
    21: "@captured_column_list: a subset, quoted names, the key 22943",
    22: "@supports_net_changes needs a unique index: 22939; its default",
    23: "A third capture instance: 22962",
    24: "sys.tables.is_tracked_by_cdc",
    25: "sys.sp_cdc_help_change_data_capture",
    26: "cdc.change_tables, cdc.captured_columns, cdc.index_columns",
    27: "New change tables between two LSNs",
    28: "INFORMATION_SCHEMA.COLUMNS of a table and of its change table",
    29: "Discovery of a primary key in the catalog views",
    30: "Columns of a change table: order, types, nullability",
    31: "Columns of the all-changes function",
    32: "Disabling a table and a database",
    33: "sys.fn_cdc_get_max_lsn before the first capture, and without CDC",
    34: "sys.fn_cdc_get_min_lsn",
    35: "sys.fn_cdc_increment_lsn and decrement_lsn",
    36: "sys.fn_cdc_map_time_to_lsn and its four operators",
    37: "sys.fn_cdc_map_lsn_to_time",
    38: "Windows by transaction over cdc.lsn_time_mapping",
    39: "Columns of cdc.lsn_time_mapping",
    40: "INSERT: operation 2, all bits; many rows: one LSN, own seqvals",
    41: "DELETE: operation 1 with the last values, all bits",
    42: "UPDATE: operations 3 and 4, one seqval, a mask of what changed",
    43: "More than eight columns: the mask's bytes, and the functions that read it",
    44: "An UPDATE to the same value",
    45: "An update of one row's key is a delete and an insert",
    46: "An update of several keys, or of a unique index",
    47: "MERGE as upsert",
    48: "Tables without a primary key, and with a unique index only",
    49: "Large values in operations 3, 4 and 1",
    50: "Computed columns are NULL; large values beyond the limit: 7139",
    51: "Two tables in one transaction",
    52: "What was rolled back never appears",
    53: "The order of commits is the order of start LSNs",
    54: "Uncommitted rows are invisible; rows and their time appear together",
    55: "A statement that fails leaves the transaction's earlier rows",
    56: "Debezium's function-mode query",
    57: "Debezium's direct-mode query",
    58: "The Go dstream's query, and what it loses",
    59: "Row filters: 'all' and 'all update old'",
    60: "Windows that are wrong: 313",
    61: "The change table itself takes any bounds",
    62: "Net changes",
    63: "ADD COLUMN and a second capture instance",
    64: "DROP COLUMN and ALTER COLUMN on a captured table",
    65: "What a captured table refuses: 4928, 4711, its key",
    66: "sys.sp_cdc_get_ddl_history",
    67: "Jobs: help, change, stop, start, scan",
    68: "sys.sp_cdc_cleanup_change_table and the low watermark",
    69: "A reader whose cursor fell below the low watermark is told so",
    70: "Views of the capture's state",
    71: "The Go dstream's checkpoint table",
}

MARK = "contract_item"
COLLECTED = pytest.StashKey[frozenset[str]]()
"""The names of the collected tests, name[case] and name[driver-case], for the check of the known gaps."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One test of an item: its function's name, what it promises (the docstring's text) and where that is from."""

    number: int
    label: Label
    test: str
    promise: str
    source: str


def item(number: int, label: Label) -> pytest.MarkDecorator:
    """Marks a test as one of item `number`. The docstring ends with "Source: ..."."""
    if number not in ITEMS or label not in LABELS:
        raise ValueError(f"no item {number} or no label {label!r}")
    mark: pytest.MarkDecorator = getattr(pytest.mark, MARK)
    return mark(number, label)


def claim_of(test: Callable[..., object]) -> Claim | None:
    """What a test function claims; None when it is not one of the contract's. Raises ValueError without a source."""
    mark = next((mark for mark in getattr(test, "pytestmark", ()) if mark.name == MARK), None)
    if mark is None:
        return None
    number, label = mark.args
    promise, found, source = " ".join((test.__doc__ or "").split()).rpartition("Source:")
    if not found or not source.strip():
        raise ValueError(f"{test.__name__} does not say its source")
    return Claim(number, label, test.__name__, promise.strip(), source.strip().rstrip("."))


def strongest(claims: Iterable[Claim]) -> dict[int, Label]:
    """The label of each item: the surest of its tests'."""
    best: dict[int, Label] = {}
    for claim in claims:
        known = best.get(claim.number)
        if known is None or LABELS.index(claim.label) < LABELS.index(known):
            best[claim.number] = claim.label
    return best
