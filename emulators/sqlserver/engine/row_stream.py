"""The rows of a query while a client reads them: taken from the cursor in chunks, or all at once when the connection is needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.results import Cancel, SqlError, Value

Row = Sequence[Value]
_CHUNK = 64


class RowStream:
    """A result's rows, straight from the cursor. `settle` takes what nobody has read yet off the connection."""

    def __init__(self, link: Link, cursor: sqlite3.Cursor, cancelled: Cancel) -> None:
        self._link = link
        self._cursor = cursor
        self._cancelled = cancelled
        self._rest: list[Row] | None = None
        self._error: Exception | None = None
        self.total = 0
        self._last = 0
        self._first = self._fetch()

    def _fetch(self) -> list[Row]:
        try:
            chunk = self._cursor.fetchmany(_CHUNK)
        except sqlite3.Error as error:
            raise self._link.translated(error) from error
        self.total += len(chunk)
        self._last = len(chunk)
        return chunk

    def rows(self) -> Iterator[Row]:
        chunk = self._first
        self._first = []
        while chunk:
            yield from chunk
            if self._rest is not None:
                chunk, self._rest = self._rest, []
                if not chunk and self._error is not None:
                    raise self._error
            elif self._cancelled():
                self._cursor.close()
                return
            else:
                chunk = self._fetch() if len(chunk) == _CHUNK else []

    @property
    def finished(self) -> bool:
        """Whether every row has been taken from the table; the client may not have read it yet."""
        return self._rest is not None or self._last < _CHUNK

    def settle(self) -> int:
        """The number of rows that were read."""
        if self._rest is None:
            self._rest = []
            try:
                while chunk := self._fetch():
                    self._rest += chunk
            except SqlError as error:
                self._error = error
            except sqlite3.ProgrammingError:
                pass
            self._cursor.close()
        return self.total
