"""One statement after another on a session of the SQL Server emulator, without a driver: lists of statements and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.results import ErrorMessage, LoginRequest, ResultSet, Session, SqlError, Value

Row = tuple[Value, ...]


@contextmanager
def session_after(statements: Sequence[str]) -> Iterator[Session]:
    """A session of a new database, demo, on which these have been run; capture waits for a scan."""
    engine = build_engine(users={"sa": "secret"}, databases=["demo"], capture_interval=3600)
    made = engine.login(LoginRequest("sa", "secret", "demo"))
    try:
        for sql in statements:
            answer(made, sql)
        yield made
    finally:
        engine.close()


def answer(session: Session, sql: str) -> list[Row]:
    """The rows of the last result set. Raises SqlError for an error of any kind."""
    rows: list[Row] = []
    for event in session.batch(sql, {}, lambda: False):
        if isinstance(event, ErrorMessage):
            raise SqlError(event.number, event.message)
        if isinstance(event, ResultSet):
            rows = [tuple(row) for row in event.rows]
    return rows
