"""A running engine with one database, and what makes batches short to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import ErrorMessage, Event, LoginRequest, ResultSet, RowCount, Session, SqlError

NOW = datetime(2024, 5, 6, 7, 8, 9, 123456)


class Client:
    """A session and the usual questions to it."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def events(self, sql: str) -> list[Event]:
        """All events; rows are read as they come and kept as lists."""
        found: list[Event] = []
        for event in self.session.batch(sql, {}, lambda: False):
            if isinstance(event, ResultSet):
                rows = [tuple(row) for row in event.rows]
                event = ResultSet(event.columns, iter(rows))
            found.append(event)
        return found

    def run(self, sql: str) -> None:
        """Raises the first error, of whatever kind."""
        for event in self.events(sql):
            if isinstance(event, ErrorMessage):
                raise SqlError(event.number, event.message, event.severity, event.state)

    def results(self, sql: str) -> list[list[tuple[object, ...]]]:
        return [[tuple(row) for row in event.rows] for event in self._good(sql) if isinstance(event, ResultSet)]

    def _good(self, sql: str) -> list[Event]:
        found = self.events(sql)
        for event in found:
            if isinstance(event, ErrorMessage):
                raise SqlError(event.number, event.message, event.severity, event.state)
        return found

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """The rows of the last result set."""
        return self.results(sql)[-1]

    def value(self, sql: str) -> object:
        return self.rows(sql)[0][0]

    def counts(self, sql: str) -> list[int]:
        return [event.count for event in self._good(sql) if isinstance(event, RowCount)]

    def error(self, sql: str) -> tuple[int, str]:
        """Number and text of the first error, whether it ends the batch or the statement."""
        try:
            found = self.events(sql)
        except SqlError as error:
            return error.number, error.message
        errors = [event for event in found if isinstance(event, ErrorMessage)]
        assert errors, f"no error: {found}"
        return errors[0].number, errors[0].message


@pytest.fixture
def engine() -> Iterator[SqlEngine]:
    made = SqlEngine(users={"sa": "secret"}, databases=["demo"], clock=lambda: NOW)
    yield made
    made.close()


@pytest.fixture
def connect(engine: SqlEngine) -> Callable[[], Client]:
    return lambda: Client(engine.login(LoginRequest("sa", "secret", "demo")))


@pytest.fixture
def client(connect: Callable[[], Client]) -> Client:
    return connect()
