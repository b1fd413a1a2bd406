"""The rows of a query while a client reads them: taken from the cursor in chunks, or all at once when the connection is needed."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.results import Cancel, Cancelled, SqlError, Value
from emulators.sqlserver.tsql.values.calls import CALLS
from emulators.sqlserver.tsql.values.conversions.steps import step_of

Row = Sequence[Value]
_CHUNK = 64
_CALLED = re.compile(r"\b([fg])(\d+)\(")


class RowStream:
    """A result's rows, straight from the cursor. `settle` takes what nobody has read yet off the connection."""

    def __init__(self, link: Link, cursor: sqlite3.Cursor, cancelled: Cancel, later: tuple[str, ...] = ()) -> None:
        """`later`: what is still to be made of each row (`Plan.later`)."""
        self._link = link
        self._cursor = cursor
        self._cancelled = cancelled
        self._finish = _finisher(later) if later else None
        self._rest: list[Row] | None = None
        self._error: Exception | None = None
        self.total = 0
        self._last = 0
        self._first = self._fetch()

    def _fetch(self) -> list[Row]:
        link = self._link
        link.cancelled = self._cancelled
        try:
            chunk: list[Row] = self._cursor.fetchmany(_CHUNK)
        except sqlite3.Error as error:
            raise link.translated(error) from error
        finally:
            link.cancelled = None
        self.total += len(chunk)
        self._last = len(chunk)
        return chunk if self._finish is None else self._finish(chunk)

    def rows(self) -> Iterator[Row]:
        """Raises SqlError, Cancelled."""
        chunk = self._first
        self._first = []
        while chunk:
            yield from chunk
            if self._rest is not None:
                chunk, self._rest = self._rest, []
                if not chunk and self._error is not None:
                    raise self._error
            elif self._cancelled():
                self.close()
                raise Cancelled
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
            except (SqlError, Cancelled) as error:
                self._error = error
            self._cursor.close()
        return self.total

    def close(self) -> None:
        """Leave what has not been read: who goes on reading gets Cancelled, and never a result that is too short."""
        if self._rest is None:
            self._rest, self._error = [], Cancelled()
            self._cursor.close()


@lru_cache(maxsize=256)
def _finisher(later: tuple[str, ...]) -> Callable[[list[Row]], list[Row]]:
    """Compiled, so that a row costs no more than its calls."""
    cells = ", ".join(later)
    names: dict[str, Any] = {}
    for kind, number in _CALLED.findall(cells):
        call = CALLS[int(number)]
        names[kind + number] = call if kind == "f" else step_of(call)
    source = f"def finish(rows):\n    made = []\n    for r in rows:\n        made.append(({cells},))\n    return made\n"
    exec(compile(source, "<postponed functions>", "exec"), names)
    made: Callable[[list[Row]], list[Row]] = names["finish"]

    def finish(rows: list[Row]) -> list[Row]:
        try:
            return made(rows)
        except SqlError:
            raise
        except Exception as error:
            raise SqlError(50001, f"emulator: a function failed: {error!r}", 16) from error

    return finish
