"""What a configured table lacks, in words, with the statements that help."""

from __future__ import annotations

from common.names import TableName
from ingester.source import TableState
from ingester.table_state import absence

TABLE = TableName("dbo", "Person's")


def test_a_table_that_is_not_under_cdc_comes_with_the_statement() -> None:
    said = absence(TABLE, TableState(exists=True)) or ""
    assert "@source_name = N'Person''s'" in said
    assert "sp_cdc_enable_db" not in said


def test_in_a_database_without_cdc_the_database_comes_first() -> None:
    said = absence(TABLE, TableState(exists=True, database_has_cdc=False)) or ""
    assert 0 < said.index("sp_cdc_enable_db") < said.index("sp_cdc_enable_table")
