"""The server's part in Change Data Capture: "max text repl size", and what its procedures refuse and return.

Source: https://learn.microsoft.com/sql/database-engine/configure-windows/configure-the-max-text-repl-size-server-configuration-option,
and the pages sys.sp_cdc_cleanup_change_table and sys.sp_cdc_get_captured_columns
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.cdc.options import CdcOptions
from emulators.sqlserver.results import ErrorMessage, LoginRequest, ResultSet, Session, Value


@pytest.fixture
def session() -> Iterator[Session]:
    options = CdcOptions(max_text_repl_size=20)
    engine = build_engine(users={"sa": "secret"}, databases=["demo"], capture_interval=3600, capture=options)
    made = engine.login(LoginRequest("sa", "secret", "demo"))
    asked(
        made,
        "CREATE TABLE t (id int PRIMARY KEY, v nvarchar(max)) EXEC sys.sp_cdc_enable_db "
        "EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL",
    )
    yield made
    engine.close()


def asked(session: Session, sql: str) -> list[Sequence[Value]]:
    """The rows of the last result set. Numbers of errors stand in their place."""
    rows: list[Sequence[Value]] = []
    for event in session.batch(sql, {}, lambda: False):
        if isinstance(event, ErrorMessage):
            rows = [(event.number,)]
        elif isinstance(event, ResultSet):
            rows = list(event.rows)
    return rows


def test_the_limit_moves_with_reconfigure(session: Session) -> None:
    assert asked(session, "EXEC sp_configure 'max text repl size'")[0][3:] == (20, 20)
    fails = "BEGIN TRY INSERT t VALUES ({}, REPLICATE(CAST(N'x' AS nvarchar(max)), 11)) SELECT 0 END TRY "
    fails += "BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
    assert asked(session, fails.format(1)) == [(7139,)]
    asked(session, "EXEC sp_configure 'max text repl size', 22")
    assert asked(session, fails.format(1)) == [(7139,)]
    asked(session, "RECONFIGURE")
    assert asked(session, fails.format(1)) == [(0,)]


def test_a_parameter_that_is_no_output_parameter_is_refused_as_one(session: Session) -> None:
    wrong = "DECLARE @n int EXEC sys.sp_cdc_cleanup_change_table N'dbo_t', NULL, @threshold = @n OUTPUT"
    caught = f"BEGIN TRY {wrong} END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
    assert asked(session, caught) == [(8162,)]


def test_a_procedure_that_fails_returns_1(session: Session) -> None:
    call = "DECLARE @rc int EXEC @rc = sys.sp_cdc_get_captured_columns N'nothing'"
    assert asked(session, f"{call} SELECT @rc") == [(1,)]
