"""The server's word about the columns that it returns."""

from __future__ import annotations

import pytest

from common.errors import PermanentError, TransientError
from common.names import TableName
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.pages.returned import as_returned, stamp_of
from tests.fakes.ingester import position

ID, PRICE = CapturedColumn("ID", "int", 1, key_ordinal=1), CapturedColumn("Price", "nvarchar", 2, length=40)
LSN = ("__$start_lsn", "binary", 10, 0, 0, None, None)


def _instance() -> ChangeTable:
    return ChangeTable("i", TableName("dbo", "T"), position(1), (ID, PRICE), change_table="i_CT", types_known=False)


def _column(name: str, kind: str | None, length: int, precision: int = 0, scale: int = 0) -> tuple[object, ...]:
    return (name, kind, length, precision, scale, None, None)


def test_columns_have_the_types_that_are_returned_and_keep_the_rest() -> None:
    found = as_returned(
        _instance(), [LSN, _column("ID", "bigint", 8, 19), _column("Price", "decimal", 9, 18, 4)]
    ).columns
    assert [(c.name, c.declared, c.length, c.large, c.ordinal, c.key_ordinal) for c in found] == [
        ("ID", "bigint", 8, False, 1, 1),
        ("Price", "decimal(18,4)", 9, False, 2, None),
    ]
    large = as_returned(_instance(), [_column("ID", "int", 4), _column("Price", "nvarchar", -1)]).columns[1]
    assert (large.large, large.declared) == (True, "nvarchar(max)")


def test_a_type_without_a_name_is_none_that_could_be_read() -> None:
    assert as_returned(_instance(), [_column("ID", "int", 4), _column("Price", None, -1)]).columns[1].type == "unknown"


def test_the_stamp_differs_for_columns_whose_differences_add_up_to_nothing() -> None:
    stamps = {
        stamp_of([_column("A", "varchar", first), _column("B", "varchar", second)])
        for first, second in ((20, 10), (18, 11), (10, 20))
    }
    assert len(stamps) == 3


def test_without_an_answer_nothing_is_read() -> None:
    def error(number: int, text: str) -> list[tuple[object, ...]]:
        return [(None, None, 0, 0, 0, number, text)]

    with pytest.raises(PermanentError, match=r"reading dbo\.T: asking what i returns: permission denied: SELECT"):
        as_returned(_instance(), error(229, "SELECT"))
    with pytest.raises(TransientError, match="asking what i returns: error 1222"):
        as_returned(_instance(), error(1222, "Lock request time out period exceeded."))
    compiled = (None, None, 0, 0, 0, 11501, "The batch could not be analyzed because of compile errors.")
    for rows in ([*error(229, "SELECT"), compiled], [compiled, *error(229, "SELECT")]):
        with pytest.raises(PermanentError, match=r"permission denied: SELECT"):
            as_returned(_instance(), rows)
    with pytest.raises(TransientError, match="error 11501: The batch could not be analyzed"):
        as_returned(_instance(), [compiled])
    with pytest.raises(TransientError, match="no longer returns column 'Price'"):
        as_returned(_instance(), [_column("ID", "int", 4)])
    with pytest.raises(TransientError):
        as_returned(_instance(), [])
