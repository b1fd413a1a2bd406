"""A connection to SQL Server for polling: statements, their deadlines, and the meaning of their errors.

Connections are in autocommit: an open read transaction would block sp_cdc_disable_table and hold the log.

Every batch has a last result set of ours. A server that kills a session may end its answer with a DONE token that reports
an error, and say nothing of it; the driver takes such an answer for a whole one. Without the last result set it is not.
https://github.com/microsoft/mssql-jdbc/issues/1846 (MS-TDS 2.2.7.6, DONE_ERROR)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymssql

from common.errors import ConnectionLost, DStreamError, PermanentError, Stopped, TransientError
from common.sqladdress import SqlAddress
from ingester.sqlserver.errors import PASSING, RIGHTS, VICTIMS, meaning, number_and_text
from ingester.sqlserver.literals import batch, in_its_scope, rendered
from ingester.sqlserver.login.opening import OF_THE_DRIVER, PATIENT, QUERY_TIMEOUT, Login
from ingester.sqlserver.sql.changes import Statement
from ingester.sqlserver.waiting import Patience, Wire, patient, wait

pymssql.set_wait_callback(wait)

_END_NAME = "__$end"
END = in_its_scope(f"SELECT 1 AS [{_END_NAME}]")
"""The last statement of every batch. In a call of its own: a batch of nothing but calls has no plan to be kept, whatever its values."""

Fetch = Callable[[Callable[[tuple[Any, ...]], bool]], tuple[list[tuple[Any, ...]], bool]]


@contextmanager
def given_up(stop: threading.Event) -> Iterator[None]:
    """For a start: a server that did not answer before `stop` is no fault. Raises Stopped instead of ConnectionLost then."""
    try:
        yield
    except ConnectionLost as error:
        if not stop.is_set():
            raise
        raise Stopped("asked to stop") from error


class Connection:
    """One connection, opened at first use and again after it was lost. Not thread-safe.

    `proven`: this login has worked before. A later refusal means that the server is failing over or recovering, and is
    transient. `stop`: once set, a statement that waits for the server is soon given up.
    """

    def __init__(
        self,
        address: SqlAddress,
        *,
        proven: bool = False,
        query_seconds: float = QUERY_TIMEOUT,
        stop: threading.Event | None = None,
    ) -> None:
        self._login = Login(address, stop)
        self._query_seconds = query_seconds
        self._stop = stop
        self._proven = proven
        self._connection: Any = None
        self._wire = Wire()

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of the only result set."""
        return self.result_sets(sql, parameters)[0]

    def result_sets(self, sql: str, parameters: Sequence[object] = ()) -> list[list[tuple[Any, ...]]]:
        """All rows of every result set of a statement."""
        return self._result_sets(rendered(sql, parameters))

    def batch(self, statements: Sequence[Statement], *, within: float | None = None) -> list[list[tuple[Any, ...]]]:
        """All rows of every result set of several statements, in one round trip. `within`: a shorter deadline than the
        usual one, in seconds."""
        return self._result_sets(batch(statements), within)

    def _result_sets(self, text: str, within: float | None = None) -> list[list[tuple[Any, ...]]]:
        with self._cursor(within) as cursor:
            cursor.execute(_with_end(text))
            return [found.fetchall() for found in self._sets(cursor)]

    def rows_until(
        self, sql: str, parameters: Sequence[object], enough: Callable[[tuple[Any, ...]], bool] | None
    ) -> tuple[list[list[tuple[Any, ...]]], bool]:
        """The result sets of a batch up to the first row that is `enough`, and whether that is all of it.

        Rows are fetched one by one. What the server has not sent yet is cancelled with the next statement (the driver
        sends an attention), so only fetched rows are in memory. None: all rows are read, which takes less time.
        """
        if enough is None:
            return self._result_sets(rendered(sql, parameters)), True
        with self._cursor() as cursor:
            cursor.execute(_with_end(rendered(sql, parameters)))
            found: list[list[tuple[Any, ...]]] = []
            for each in self._sets(cursor):
                found.append(rows := [])
                while (row := each.fetchone()) is not None:
                    rows.append(row)
                    if enough(row):
                        return found, False
            return found, True

    @contextmanager
    def streamed(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Fetch]:
        """A function that returns the next rows of a batch up to the first that is enough, and whether that is all.

        Each call has a deadline of its own; the rows of all result sets follow each other. Nothing else may be asked meanwhile.
        Leaving the context before the end closes the connection, which ends the statement at the server.
        """
        sets: Iterator[Any] | None = None
        current: Any = None
        over = False

        def more(enough: Callable[[tuple[Any, ...]], bool]) -> tuple[list[tuple[Any, ...]], bool]:
            nonlocal sets, current, over
            with self._deadline() as connection:
                if sets is None:
                    cursor = connection.cursor()
                    cursor.execute(_with_end(rendered(sql, parameters)))
                    sets = self._sets(cursor)
                    current = next(sets, None)
                rows: list[tuple[Any, ...]] = []
                while current is not None:
                    while (row := current.fetchone()) is not None:
                        rows.append(row)
                        if enough(row):
                            return rows, False
                    current = next(sets, None)
                over = True
                return rows, True

        try:
            yield more
        finally:
            if sets is not None and not over:
                self.close()

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run a statement and return the number of rows it changed, by @@ROWCOUNT, since SET NOCOUNT may be a server's
        default."""
        return int(self.result_sets(f"{sql}\nSELECT @@ROWCOUNT", parameters)[-1][0][0])

    def as_new(self, within: float) -> None:
        """For questions that come long after the last ones: a connection that does not answer within `within` seconds is closed, and
        the next statement opens another. Waits for locks are again as after a login."""
        if self._connection is None:
            return
        try:
            self._result_sets(PATIENT, within)
        except DStreamError:
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except OF_THE_DRIVER:  # already lost
                return
            finally:
                self._wire.close()

    @contextmanager
    def _cursor(self, within: float | None = None) -> Iterator[Any]:
        with self._deadline(within) as connection, connection.cursor() as cursor:
            yield cursor

    @contextmanager
    def _deadline(self, within: float | None = None) -> Iterator[Any]:
        """The driver's connection, for one statement or a part of its answer."""
        connection = self._opened()
        seconds = self._query_seconds if within is None else min(within, self._query_seconds)
        patience = Patience(seconds, self._stop, self._wire)
        try:
            with patient(patience):
                yield connection
        except OF_THE_DRIVER as error:
            translated = self.translate(error)
            if patience.over is not None:
                translated = ConnectionLost(f"SQL Server {self._login.where}: {patience.over}")
            if isinstance(translated, TransientError) and number_and_text(error)[0] not in VICTIMS:
                self.close()
            raise translated from error

    def _sets(self, cursor: Any) -> Iterator[Any]:
        """The cursor at each result set of an answer. Raises ConnectionLost if the answer has not come to its end."""
        more = cursor.description is not None or cursor.nextset()
        while more:
            if cursor.description[0][0] == _END_NAME:
                cursor.fetchall()
                while cursor.nextset():
                    cursor.fetchall()
                return
            yield cursor
            more = cursor.nextset()
        self.close()
        raise ConnectionLost(
            f"SQL Server {self._login.where}: the answer ended in the middle, and no error was sent with it",
            hint="the session was probably killed, the server's error log tells; nothing is lost, it is asked again",
        )

    def _opened(self) -> Any:
        if self._connection is None:
            self._connection = self._login.open(proven=self._proven)
            self._proven = True
        return self._connection

    def translate(self, error: Exception) -> DStreamError:
        """The project's error for the driver's `error` of a statement."""
        return meaning(*number_and_text(error), f"SQL Server {self._login.where}")


def _with_end(text: str) -> str:
    """A batch whose end can be told from a break. On a line of its own: a user's condition may end in a comment."""
    return f"{text}\n;{END}"


def is_error(error: BaseException, number: int) -> bool:
    """Whether `error` was translated from SQL Server's error `number`."""
    cause = error.__cause__
    return isinstance(cause, OF_THE_DRIVER) and number_and_text(cause)[0] == number


def lacks_rights(error: BaseException) -> bool:
    """Whether `error` was translated from a SQL Server error about a missing permission."""
    return any(is_error(error, number) for number in RIGHTS)


def passes(error: BaseException) -> bool:
    """Whether `error` was translated from a SQL Server error that says nothing about the statement: it passes by itself."""
    return any(is_error(error, number) for number in PASSING)


def refuses_the_statement(error: BaseException) -> bool:
    """Whether SQL Server refused what the statement asks for, such as a conversion.

    The statement may have been written for columns that have been altered since.
    """
    return (
        isinstance(error.__cause__, OF_THE_DRIVER)
        and not isinstance(error, ConnectionLost)
        and not lacks_rights(error)
        and not passes(error)
    )


@contextmanager
def needing(grant: str) -> Iterator[None]:
    """Adds the missing right to a refusal."""
    try:
        yield
    except PermanentError as error:
        if lacks_rights(error):
            raise PermanentError(error.message, hint=grant) from error.__cause__
        raise
