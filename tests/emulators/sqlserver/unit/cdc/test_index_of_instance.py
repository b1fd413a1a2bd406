"""Which index @index_name of sys.sp_cdc_enable_table may name.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.results import ErrorMessage, LoginRequest, Session, SqlError


@pytest.fixture
def session() -> Iterator[Session]:
    engine = build_engine(users={"sa": "secret"}, databases=["demo"], capture_interval=3600)
    made = engine.login(LoginRequest("sa", "secret", "demo"))
    assert run(made, "EXEC sys.sp_cdc_enable_db") == 0
    assert run(made, "CREATE TABLE dbo.t (a int NOT NULL, b int NULL)") == 0
    yield made
    engine.close()


def run(session: Session, sql: str) -> int:
    """The number of the first error, 0 without one."""
    try:
        for event in session.batch(sql, {}, lambda: False):
            if isinstance(event, ErrorMessage):
                return event.number
    except SqlError as error:
        return error.number
    return 0


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("CREATE UNIQUE INDEX ix ON dbo.t (a)", 0),
        ("CREATE INDEX ix ON dbo.t (a)", 22929),
        ("CREATE UNIQUE INDEX ix ON dbo.t (a) WHERE b IS NULL", 50001),
        ("CREATE UNIQUE INDEX other ON dbo.t (a)", 22928),
    ],
)
def test_the_index_of_an_instance_is_unique_over_the_whole_table(session: Session, index: str, expected: int) -> None:
    assert run(session, index) == 0
    sql = "EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL, @supports_net_changes = 1, @index_name = N'ix'"
    assert run(session, sql) == expected
