"""Net changes as an unmodified client sees them, on the emulator and, where DSTREAM_TEST_SQLSERVER names one, on a real server.

D: Microsoft's documentation; M: measured on SQL Server 2025; T: the text of the generated functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.sqlserver.wire.cdc_client import Client, database_with_persons, server

WINDOW = "sys.fn_cdc_get_min_lsn('dbo_Persons'), sys.fn_cdc_get_max_lsn()"


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    with server() as found:
        yield found


@pytest.fixture
def client(options: dict[str, Any]) -> Iterator[Client]:
    with database_with_persons(options) as made:
        yield made


def test_a_row_changed_many_times_is_one_net_change(client: Client) -> None:
    """D."""
    client.enable(supports_net_changes="1")
    client.run("INSERT INTO dbo.Persons (ID, FirstName) VALUES (1, N'a'), (2, N'b'), (3, N'c')")
    client.run("UPDATE dbo.Persons SET FirstName = N'z' WHERE ID = 1")
    client.run("DELETE FROM dbo.Persons WHERE ID = 2")
    client.captured(6)
    query = (
        "SELECT [__$operation], [__$update_mask], ID, FirstName FROM cdc.fn_cdc_get_net_changes_dbo_Persons({}, N'{}')"
    )
    assert client.rows(query.format(WINDOW, "all") + " ORDER BY ID") == [(2, None, 1, "z"), (2, None, 3, "c")]
    assert client.rows(query.format(WINDOW, "all with merge") + " ORDER BY ID") == [
        (5, None, 1, "z"),
        (5, None, 3, "c"),
    ]


def test_a_window_that_begins_with_an_update_nets_to_an_update(client: Client) -> None:
    """D, M."""
    client.enable(supports_net_changes="1")
    client.run("INSERT INTO dbo.Persons (ID, FirstName) VALUES (1, N'a')")
    client.run("UPDATE dbo.Persons SET FirstName = N'z'")
    client.run("UPDATE dbo.Persons SET LastName = N'y'")
    client.captured(5)
    found = client.rows(
        "DECLARE @from binary(10) = (SELECT MIN([__$start_lsn]) FROM cdc.dbo_Persons_CT WHERE [__$operation] = 3); "
        "SELECT [__$operation], FirstName, LastName FROM "
        "cdc.fn_cdc_get_net_changes_dbo_Persons(@from, sys.fn_cdc_get_max_lsn(), N'all')"
    )
    assert found == [(4, "z", "y")]


def test_net_changes_that_are_not_enabled_are_208(client: Client) -> None:
    """D: the function is created only with @supports_net_changes = 1."""
    client.enable(supports_net_changes="0")
    assert client.error(f"SELECT * FROM cdc.fn_cdc_get_net_changes_dbo_Persons({WINDOW}, N'all')") == 208


def test_a_bad_window_or_filter_is_313(client: Client) -> None:
    """D, M."""
    client.enable(supports_net_changes="1")
    client.run("INSERT INTO dbo.Persons (ID) VALUES (1)")
    client.captured(1)
    for arguments in (f"{WINDOW}, N'all update old'", "NULL, sys.fn_cdc_get_max_lsn(), N'all'"):
        assert client.error(f"SELECT * FROM cdc.fn_cdc_get_net_changes_dbo_Persons({arguments})") == 313
