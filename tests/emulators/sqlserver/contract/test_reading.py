"""Items 56 to 62: reading changes as Debezium, the Go dstream and Microsoft's functions do."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item

FROM, TO = "sys.fn_cdc_get_min_lsn(N'dbo_Persons')", "sys.fn_cdc_get_max_lsn()"
FUNCTION = "cdc.fn_cdc_get_all_changes_dbo_Persons"
TIME = "TODATETIMEOFFSET([{db}].sys.fn_cdc_map_lsn_to_time([__$start_lsn]), DATEPART(TZOFFSET, SYSDATETIMEOFFSET()))"


@pytest.fixture
def changed(persons: Database) -> Database:
    """Two inserts in one transaction, an update and a delete, captured."""
    persons.run("INSERT INTO dbo.Persons VALUES (1, N'Ann', N'Lee'), (2, N'Bob', N'Roe')")
    persons.run("UPDATE dbo.Persons SET LastName = N'Poe' WHERE ID = 2")
    persons.run("DELETE FROM dbo.Persons WHERE ID = 1")
    persons.captured(5)
    return persons


@item(56, "documented")
def test_debeziums_function_mode_query(changed: Database) -> None:
    """With the commit's time, over a window whose ends are in it.

    Source: Debezium SqlServerConnection.java, GET_ALL_CHANGES_FOR_TABLE.
    """
    name = changed.database
    query = (
        f"SELECT *, {TIME.format(db=name)} FROM [{name}].cdc.[fn_cdc_get_all_changes_dbo_Persons](%s, %s, N'all update old') "
        "order by [__$start_lsn] ASC, [__$seqval] ASC, [__$operation] ASC"
    )
    low, high = changed.value(f"SELECT {FROM}"), changed.value(f"SELECT {TO}")
    rows = changed.rows(query, low, high)
    assert [(row[2], *row[4:7]) for row in rows] == [
        *((2, 1, "Ann", "Lee"), (2, 2, "Bob", "Roe"), (3, 2, "Bob", "Roe"), (4, 2, "Bob", "Poe"), (1, 1, "Ann", "Lee")),
    ]
    assert all(row[7].tzinfo is not None for row in rows)
    one = rows[2][0]
    assert [row[2] for row in changed.rows(query, one, one)] == [3, 4]


@item(56, "documented")
def test_debeziums_function_mode_goes_on_after_a_position(changed: Database) -> None:
    """Three clauses over start LSN, seqval and operation.

    Source: Debezium, streaming source with a maximum number of rows a query.
    """
    low, high = changed.value(f"SELECT {FROM}"), changed.value(f"SELECT {TO}")
    everything = changed.all_changes("[__$start_lsn], [__$seqval], [__$operation], ID", row_filter="all update old")
    for count, (lsn, seqval, operation, _) in enumerate(everything, start=1):
        rest = changed.rows(
            f"SELECT [__$start_lsn], [__$seqval], [__$operation], ID FROM [{changed.database}].cdc."
            "[fn_cdc_get_all_changes_dbo_Persons](%s, %s, N'all update old') "
            "WHERE ([__$start_lsn] = %s AND [__$seqval] = %s AND [__$operation] > %s) "
            "OR ([__$start_lsn] = %s AND [__$seqval] > %s) OR ([__$start_lsn] > %s) "
            "ORDER BY [__$start_lsn] ASC, [__$seqval] ASC, [__$operation] ASC",
            *(low, high, lsn, seqval, operation, lsn, seqval, lsn),
        )
        assert rest == everything[count:]


@item(57, "documented")
def test_debeziums_direct_mode_query(changed: Database) -> None:
    """The change table itself, with its times, by pages that go on after a position.

    Source: Debezium, data query mode "direct"; Debezium PR #6279.
    """
    db = f"[{changed.database}]"
    high = changed.value(f"SELECT {TO}")
    seen, lsn, seqval, operation = [], bytes(10), bytes(10), 0
    while page := changed.rows(
        "SELECT TOP 2 ct.[__$start_lsn], ct.[__$seqval], ct.[__$operation], ct.[__$update_mask], ct.[ID], ct.[LastName], "
        f"TODATETIMEOFFSET(tm.tran_end_time, DATEPART(TZOFFSET, SYSDATETIMEOFFSET())) FROM {db}.cdc.[dbo_Persons_CT] AS ct "
        f"LEFT JOIN {db}.cdc.lsn_time_mapping AS tm ON tm.start_lsn = ct.[__$start_lsn] "
        "WHERE ((ct.[__$start_lsn] = %s AND ct.[__$seqval] = %s AND ct.[__$operation] > %s) "
        "OR (ct.[__$start_lsn] = %s AND ct.[__$seqval] > %s) OR (ct.[__$start_lsn] > %s)) AND ct.[__$start_lsn] <= %s "
        "ORDER BY ct.[__$start_lsn] ASC, ct.[__$command_id] ASC, ct.[__$seqval] ASC, ct.[__$operation] ASC",
        *(lsn, seqval, operation, lsn, seqval, lsn, high),
    ):
        assert all(row[6] is not None for row in page)
        seen += [(row[2], row[4]) for row in page]
        lsn, seqval, operation = page[-1][:3]
    assert seen == [(2, 1), (2, 2), (3, 2), (4, 2), (1, 1)]


@item(58, "documented")
def test_the_go_dstreams_query_loses_the_rest_of_a_transaction_that_top_cuts(changed: Database) -> None:
    """TOP ends inside a transaction, and ">" then skips what is left of it: why a reader needs the whole position.

    Source: Go dstream, internal/cdc/sqlserver/monitor.go; Microsoft, "TOP (Transact-SQL)".
    """
    query = (
        "SELECT TOP(1) ct.__$start_lsn, ct.__$operation, ct.ID FROM cdc.dbo_Persons_CT AS ct "
        "WHERE ct.__$start_lsn > %s ORDER BY ct.__$start_lsn"
    )
    ((first, operation, _),) = changed.rows(query, bytes(10))
    assert operation == 2
    ((second, _, _),) = changed.rows(query, first)
    assert second > first
    assert changed.value("SELECT COUNT(*) FROM cdc.dbo_Persons_CT WHERE __$start_lsn = %s", first) == 2


@item(59, "documented")
def test_all_leaves_out_the_values_before_an_update(changed: Database) -> None:
    """all update old has them as operation 3.

    Source: Microsoft, "cdc.fn_cdc_get_all_changes_<capture_instance> (Transact-SQL)".
    """
    assert [row[0] for row in changed.all_changes("[__$operation]")] == [2, 2, 4, 1]
    assert [row[0] for row in changed.all_changes("[__$operation]", row_filter="all update old")] == [2, 2, 3, 4, 1]


@item(59, "measured")
@pytest.mark.parametrize("row_filter", ["ALL", "  all  ", "All Update Old "])
def test_row_filters_are_trimmed_and_case_insensitive(changed: Database, row_filter: str) -> None:
    """The function's own text does both.

    Source: the text that SQL Server generates for the function, as seen in public repositories.
    """
    assert len(changed.all_changes("[__$operation]", row_filter=row_filter)) in (4, 5)
    assert len(changed.all_changes("[__$operation]", row_filter=row_filter)) == (
        5 if "old" in row_filter.lower() else 4
    )


WRONG = {
    "from NULL": f"NULL, {TO}, N'all'",
    "to NULL": f"{FROM}, NULL, N'all'",
    "from too low": f"0x00000000000000000001, {TO}, N'all'",
    "to too high": f"{FROM}, sys.fn_cdc_increment_lsn({TO}), N'all'",
    "reversed": f"{TO}, {FROM}, N'all'",
    "row filter": f"{FROM}, {TO}, N'everything'",
    "row filter NULL": f"{FROM}, {TO}, NULL",
}


@item(60, "documented")
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_window_is_313(changed: Database, wrong: str) -> None:
    """One number and one fixed text for all of them, severity 16.

    Source: Microsoft, "cdc.fn_cdc_get_all_changes_<capture_instance> (Transact-SQL)"; measured on SQL Server 2025.
    """
    refused = changed.error(f"SELECT * FROM {FUNCTION}({WRONG[wrong]})")
    assert (refused.number, refused.severity or 16) == (313, 16)
    assert refused.text.startswith(
        "An insufficient number of arguments were supplied for the procedure or function cdc.fn_cdc_get_all_changes_ ... ."
    )


@item(60, "documented")
@pytest.mark.parametrize("wrong", ["from NULL", "row filter"])
def test_a_wrong_window_of_net_changes_is_313(cdc: Database, wrong: str) -> None:
    """The row filters of the other function are wrong here.

    Source: Microsoft, "cdc.fn_cdc_get_net_changes_<capture_instance> (Transact-SQL)"; measured on SQL Server 2025.
    """
    cdc.enable(supports_net_changes="1")
    cdc.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    cdc.captured(1)
    window = {"from NULL": f"NULL, {TO}, N'all'", "row filter": f"{FROM}, {TO}, N'all update old'"}[wrong]
    assert cdc.error(f"SELECT * FROM cdc.fn_cdc_get_net_changes_dbo_Persons({window})").number == 313


@item(61, "measured")
def test_the_change_table_takes_any_bounds(changed: Database) -> None:
    """No check, no error.

    Source: measured on SQL Server 2025.
    """
    query = "SELECT COUNT(*) FROM cdc.dbo_Persons_CT WHERE [__$start_lsn] >= %s AND [__$start_lsn] <= %s"
    assert changed.value(query, bytes(10), b"\xff" * 10) == 5
    assert changed.value(query, b"\xff" * 10, bytes(10)) == 0


# statements on a row that was there before the window, or on none; what the window nets to: operation and LastName
NET = {
    "A insert": (False, ["insert"], [(2, "new")]),
    "B insert, update": (False, ["insert", "update"], [(2, "upd")]),
    "C insert, delete": (False, ["insert", "delete"], []),
    "D update": (True, ["update"], [(4, "upd")]),
    "E update, update": (True, ["update", "again"], [(4, "agn")]),
    "F update, delete": (True, ["update", "delete"], [(1, "upd")]),
    "G delete": (True, ["delete"], [(1, "old")]),
    "H delete, insert": (True, ["delete", "insert"], [(4, "new")]),
    "I delete, insert, delete": (True, ["delete", "insert", "delete"], [(1, "new")]),
}
STATEMENTS = {
    "insert": "INSERT INTO dbo.Persons VALUES (1, NULL, N'new')",
    "update": "UPDATE dbo.Persons SET LastName = N'upd' WHERE ID = 1",
    "again": "UPDATE dbo.Persons SET LastName = N'agn' WHERE ID = 1",
    "delete": "DELETE FROM dbo.Persons WHERE ID = 1",
}


@item(62, "measured")
@pytest.mark.parametrize("scenario", NET)
def test_net_changes_fold_a_rows_changes_into_one(cdc: Database, scenario: str) -> None:
    """all gives 1, 2 or 4; all with merge gives 5 for what must be there afterwards.

    Source: Microsoft, "cdc.fn_cdc_get_net_changes_<capture_instance> (Transact-SQL)"; measured on SQL Server 2025.
    """
    there, steps, expected = NET[scenario]
    cdc.enable(supports_net_changes="1")
    before = 0
    if there:
        cdc.run("INSERT INTO dbo.Persons VALUES (1, NULL, N'old')")
        cdc.captured(1)
        before = 1
    cdc.settled()
    low = cdc.value(f"SELECT sys.fn_cdc_increment_lsn({TO})")
    for step in steps:
        cdc.run(STATEMENTS[step])
    cdc.captured(before + sum(2 if step in ("update", "again") else 1 for step in steps))
    high = cdc.value(f"SELECT {TO}")
    query = "SELECT [__$operation], LastName FROM cdc.fn_cdc_get_net_changes_dbo_Persons(%s, %s, N'{}')"
    assert cdc.rows(query.format("all"), low, high) == expected
    merged = [(operation if operation == 1 else 5, name) for operation, name in expected]
    assert cdc.rows(query.format("all with merge"), low, high) == merged


@item(62, "documented")
def test_net_changes_with_mask_tell_what_an_update_changed(cdc: Database) -> None:
    """all leaves the mask NULL, all with mask fills it for updates.

    Source: Microsoft, "cdc.fn_cdc_get_net_changes_<capture_instance> (Transact-SQL)".
    """
    cdc.enable(supports_net_changes="1")
    cdc.run("INSERT INTO dbo.Persons VALUES (1, N'Ann', N'Lee')")
    cdc.settled()
    low = cdc.value(f"SELECT sys.fn_cdc_increment_lsn({TO})")
    cdc.run("UPDATE dbo.Persons SET FirstName = N'Eve' WHERE ID = 1")
    cdc.run("UPDATE dbo.Persons SET LastName = N'Poe' WHERE ID = 1")
    cdc.captured(5)
    query = f"SELECT [__$operation], [__$update_mask] FROM cdc.fn_cdc_get_net_changes_dbo_Persons(%s, {TO}, N'{{}}')"
    assert cdc.rows(query.format("all"), low) == [(4, None)]
    assert cdc.rows(query.format("all with mask"), low) == [(4, b"\x06")]


@item(62, "documented")
def test_without_net_changes_there_is_no_such_function(cdc: Database) -> None:
    """208.

    Source: Microsoft, "sys.sp_cdc_enable_table (Transact-SQL)", @supports_net_changes.
    """
    cdc.enable(supports_net_changes="0")
    assert cdc.error("SELECT * FROM cdc.fn_cdc_get_net_changes_dbo_Persons(0x00, 0x00, N'all')").number == 208
