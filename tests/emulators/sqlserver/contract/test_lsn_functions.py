"""Items 33 to 39: the functions of schema sys that make, step and map LSNs, and cdc.lsn_time_mapping."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item

ZERO = bytes(10)


def write(database: Database, transactions: int) -> None:
    """So many transactions of one row each, captured."""
    before = database.value("SELECT COUNT(*) FROM cdc.dbo_Persons_CT")
    for number in range(before, before + transactions):
        database.run(f"INSERT INTO dbo.Persons (ID) VALUES ({number})")
    database.captured(before + transactions)


@item(33, "measured")
def test_max_lsn_is_null_before_the_first_capture(cdc: Database) -> None:
    """With Change Data Capture on and nothing in lsn_time_mapping.

    Source: measured on SQL Server 2025.
    """
    assert cdc.value("SELECT sys.fn_cdc_get_max_lsn()") is None


@item(89, "measured")
def test_max_lsn_is_there_once_the_job_has_looked_for_changes_of_a_table(cdc: Database) -> None:
    """Without any change: the capture job enters how far it has come, as an entry without a transaction.

    Source: Debezium TestHelper.waitForMaxLsnAvailable, which waits for it after it has enabled tables; Microsoft,
    "cdc.lsn_time_mapping (Transact-SQL)": entries may also be logged for which there are no change table entries.
    """
    cdc.enable()
    cdc.until(lambda: cdc.value("SELECT sys.fn_cdc_get_max_lsn()") is not None, "a max LSN")
    assert cdc.value("SELECT sys.fn_cdc_get_max_lsn()") >= cdc.value("SELECT sys.fn_cdc_get_min_lsn(N'dbo_Persons')")
    assert cdc.rows("SELECT tran_begin_time FROM cdc.lsn_time_mapping")[0][0] is None


@item(33, "measured")
def test_max_lsn_without_cdc_is_208(database: Database) -> None:
    """It reads cdc.lsn_time_mapping and says so.

    Source: measured on SQL Server 2025.
    """
    refused = database.error("SELECT sys.fn_cdc_get_max_lsn()")
    assert refused.number == 208
    assert "Invalid object name 'cdc.lsn_time_mapping'." in refused.text


@item(33, "documented")
def test_max_lsn_is_the_last_of_lsn_time_mapping(persons: Database) -> None:
    """And not below that of the last change; it is the end of every window.

    Source: Microsoft, "sys.fn_cdc_get_max_lsn (Transact-SQL)".
    """
    write(persons, 2)
    found = persons.value("SELECT sys.fn_cdc_get_max_lsn()")
    assert found >= persons.changes("[__$start_lsn]")[-1][0]
    assert persons.value("SELECT COUNT(*) FROM cdc.lsn_time_mapping WHERE start_lsn = %s", found) == 1


@item(34, "documented")
def test_min_lsn_is_the_start_of_the_instance(persons: Database) -> None:
    """start_lsn of cdc.change_tables, at or before the first change.

    Source: Microsoft, "sys.fn_cdc_get_min_lsn (Transact-SQL)".
    """
    write(persons, 1)
    found = persons.value("SELECT sys.fn_cdc_get_min_lsn(N'dbo_Persons')")
    assert found == persons.value("SELECT start_lsn FROM cdc.change_tables")
    assert ZERO < found <= persons.changes("[__$start_lsn]")[0][0]


@item(34, "documented")
def test_min_lsn_of_an_unknown_instance_is_zero(persons: Database) -> None:
    """Ten zero bytes, not NULL.

    Source: Microsoft, "sys.fn_cdc_get_min_lsn (Transact-SQL)".
    """
    assert persons.value("SELECT sys.fn_cdc_get_min_lsn(N'nobody')") == ZERO


@item(34, "unverified")
def test_min_lsn_of_a_new_instance_is_there_at_once(persons: Database) -> None:
    """A reader must bear NULL here all the same.

    Source: one measurement of SQL Server 2025 saw NULL for a moment; Microsoft's page knows of none.
    """
    assert persons.value("SELECT sys.fn_cdc_get_min_lsn(N'dbo_Persons')") is not None


@item(35, "documented")
@pytest.mark.parametrize(
    ("lsn", "following"),
    [
        ("0000002D00000580001D", "0000002D00000580001E"),
        ("0000002D0000058000FF", "0000002D000005800100"),
        ("0000002D00000580FFFF", "0000002D000005810000"),
        ("0000002DFFFFFFFFFFFF", "0000002E000000000000"),
    ],
)
def test_lsns_step_by_one(cdc: Database, lsn: str, following: str) -> None:
    """Over the whole of the ten bytes, and back.

    Source: Microsoft, "sys.fn_cdc_increment_lsn", "sys.fn_cdc_decrement_lsn (Transact-SQL)"; measured on SQL Server 2025.
    """
    low, high = bytes.fromhex(lsn), bytes.fromhex(following)
    assert cdc.value("SELECT sys.fn_cdc_increment_lsn(%s)", low) == high
    assert cdc.value("SELECT sys.fn_cdc_decrement_lsn(%s)", high) == low


@item(35, "documented")
def test_stepping_null_gives_null(cdc: Database) -> None:
    """No error.

    Source: Microsoft, "sys.fn_cdc_increment_lsn (Transact-SQL)".
    """
    assert cdc.rows("SELECT sys.fn_cdc_increment_lsn(NULL), sys.fn_cdc_decrement_lsn(NULL)") == [(None, None)]


OPERATORS = {
    "largest less than": ("MAX", "<"),
    "largest less than or equal": ("MAX", "<="),
    "smallest greater than": ("MIN", ">"),
    "smallest greater than or equal": ("MIN", ">="),
}


@item(36, "documented")
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_time_maps_to_an_lsn(persons: Database, operator: str) -> None:
    """Of transactions that ended at the same time the smallest or largest; NULL where there is none.

    Source: Microsoft, "sys.fn_cdc_map_time_to_lsn (Transact-SQL)".
    """
    write(persons, 3)
    which, comparison = OPERATORS[operator]
    for time in ("MIN(tran_end_time)", "MAX(tran_end_time)", "'1900-01-01'", "'9999-01-01'"):
        mapped, expected = persons.rows(
            f"DECLARE @t datetime SELECT @t = {time} FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00 "
            f"SELECT sys.fn_cdc_map_time_to_lsn('{operator}', @t), "
            f"(SELECT {which}(start_lsn) FROM cdc.lsn_time_mapping WHERE tran_end_time {comparison} @t)"
        )[0]
        assert mapped == expected, time


@item(36, "documented")
def test_a_time_beyond_all_transactions_maps_to_null(persons: Database) -> None:
    """Readers must not step a NULL window.

    Source: Microsoft, "sys.fn_cdc_map_time_to_lsn (Transact-SQL)".
    """
    write(persons, 1)
    assert persons.rows(
        "SELECT sys.fn_cdc_map_time_to_lsn('smallest greater than', '9999-01-01'), "
        "sys.fn_cdc_map_time_to_lsn('largest less than', '1900-01-01')"
    ) == [(None, None)]


@item(37, "documented")
def test_an_lsn_maps_to_the_end_of_its_transaction(persons: Database) -> None:
    """NULL for an LSN that no transaction has.

    Source: Microsoft, "sys.fn_cdc_map_lsn_to_time (Transact-SQL)".
    """
    write(persons, 1)
    ((lsn,),) = persons.changes("[__$start_lsn]")
    assert persons.value("SELECT sys.fn_cdc_map_lsn_to_time(%s)", lsn) == persons.value(
        "SELECT tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn = %s", lsn
    )
    assert persons.value("SELECT sys.fn_cdc_map_lsn_to_time(0x00000000000000000001)") is None


@item(37, "documented")
def test_the_time_becomes_one_with_the_servers_offset(persons: Database) -> None:
    """Debezium's expression: the same wall clock, with the server's zone.

    Source: Debezium SqlServerConnection.java, LSN_TIMESTAMP_SELECT_STATEMENT; Microsoft, "TODATETIMEOFFSET (Transact-SQL)".
    """
    write(persons, 1)
    stamped, plain, offset = persons.rows(
        f"SELECT TODATETIMEOFFSET([{persons.database}].sys.fn_cdc_map_lsn_to_time([__$start_lsn]), "
        "DATEPART(TZOFFSET, SYSDATETIMEOFFSET())), sys.fn_cdc_map_lsn_to_time([__$start_lsn]), "
        "DATEPART(TZOFFSET, SYSDATETIMEOFFSET()) FROM cdc.dbo_Persons_CT"
    )[0]
    assert stamped.utcoffset().total_seconds() == offset * 60
    assert abs((stamped.replace(tzinfo=None) - plain).total_seconds()) < 0.001


@item(38, "documented")
def test_the_last_transaction_with_changes(persons: Database) -> None:
    """Entries without a transaction have tran_id 0x00 and are left out.

    Source: Debezium SqlServerConnection.java, GET_MAX_TRANSACTION_LSN; Microsoft, "cdc.lsn_time_mapping (Transact-SQL)".
    """
    write(persons, 3)
    query = f"SELECT MAX(start_lsn) FROM [{persons.database}].cdc.lsn_time_mapping WHERE tran_id <> 0x00"
    assert persons.value(query) == persons.changes("[__$start_lsn]")[-1][0]


@item(38, "documented")
def test_a_window_of_so_many_transactions(persons: Database) -> None:
    """The n-th from the beginning, and from a known one.

    Source: Debezium SqlServerConnection.java, GET_NTH_TRANSACTION_LSN_FROM_BEGINNING and _FROM_LAST.
    """
    write(persons, 5)
    lsns = [lsn for (lsn,) in persons.changes("[__$start_lsn]")]
    known = persons.column("SELECT start_lsn FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00 ORDER BY start_lsn")
    mapping = f"[{persons.database}].cdc.lsn_time_mapping"
    assert (
        persons.value(
            f"SELECT MAX(start_lsn) FROM (SELECT TOP (%s) start_lsn FROM {mapping} WHERE tran_id <> 0x00 "
            "ORDER BY start_lsn) as next_lsns",
            2,
        )
        == known[1]
    )
    from_last = (
        f"SELECT MAX(start_lsn) FROM (SELECT TOP (%s + 1) start_lsn FROM {mapping} "
        "WHERE start_lsn >= %s AND tran_id <> 0x00 ORDER BY start_lsn) as next_lsns"
    )
    assert persons.value(from_last, 2, lsns[1]) == lsns[3]
    assert persons.value(from_last, 100, lsns[1]) == known[-1]


@item(39, "documented")
def test_lsn_time_mapping_has_its_columns(cdc: Database) -> None:
    """Names, types and lengths.

    Source: Microsoft, "cdc.lsn_time_mapping (Transact-SQL)".
    """
    columns = cdc.rows(
        "SELECT name, TYPE_NAME(system_type_id), max_length FROM sys.columns "
        "WHERE object_id = OBJECT_ID(N'cdc.lsn_time_mapping') ORDER BY column_id"
    )
    assert columns[:4] == [
        ("start_lsn", "binary", 10),
        ("tran_begin_time", "datetime", 8),
        ("tran_end_time", "datetime", 8),
        ("tran_id", "varbinary", 10),
    ]


@item(39, "documented")
def test_a_captured_transaction_has_one_entry_with_its_times(persons: Database) -> None:
    """Begun before it ended; later LSNs do not end earlier.

    Source: Microsoft, "cdc.lsn_time_mapping (Transact-SQL)".
    """
    write(persons, 3)
    rows = persons.rows(
        "SELECT start_lsn, tran_begin_time, tran_end_time FROM cdc.lsn_time_mapping "
        "WHERE tran_begin_time IS NOT NULL ORDER BY start_lsn"  # entries without a transaction have no begin
    )
    assert all(begun <= ended for _, begun, ended in rows)
    assert [ended for _, _, ended in rows] == sorted(ended for _, _, ended in rows)
    lsns = [lsn for lsn, _, _ in rows]
    for (lsn,) in persons.changes("[__$start_lsn]"):
        assert lsns.count(lsn) == 1
