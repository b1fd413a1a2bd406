"""What the rows of a table can be shared out by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingester.source import CapturedColumn, CaptureInstance
from ingester.sqlserver.sharing import shared_by
from tests.fakes.ingester import instance


def keyed(*columns: CapturedColumn) -> CaptureInstance:
    return replace(instance(), columns=columns)


def test_a_key_is_what_rows_are_shared_out_by() -> None:
    two = keyed(
        CapturedColumn("Area", "char", 1, key_ordinal=1),
        CapturedColumn("Name", "nvarchar", 2),
        CapturedColumn("No", "bigint", 3, key_ordinal=2),
    )
    assert shared_by(two, "key") == ("Area", "No")


def test_without_a_promised_order_the_place_in_the_log_will_do() -> None:
    assert shared_by(keyed(CapturedColumn("Name", "xml", 1)), "none") == ("__$seqval",)


@pytest.mark.parametrize(
    "column",
    [
        CapturedColumn("ID", "int", 1),
        CapturedColumn("ID", "sql_variant", 1, key_ordinal=1),
        CapturedColumn("ID", "hierarchyid", 1, key_ordinal=1),
        CapturedColumn("ID", "nvarchar", 1, large=True, key_ordinal=1),
    ],
    ids=["no key", "sql_variant", "hierarchyid", "max"],
)
def test_a_table_whose_rows_no_hash_can_tell_apart_stays_with_one_task(column: CapturedColumn) -> None:
    assert shared_by(keyed(column), "key") == ()


def test_a_table_in_one_session_stays_with_one_task() -> None:
    assert shared_by(instance(), "table") == ()
