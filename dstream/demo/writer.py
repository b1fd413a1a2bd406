"""A connection of the workload: runs statements in transactions, and records in the ledger what was committed.

Every write gives its rows new Versions, so that each change differs from every other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from common.names import TableName
from dstream.demo.ledger import Committed, Ledger
from dstream.emulators import Login

Row = dict[str, object]


class Writer:
    """One connection, and what its transactions did. Subclasses remember the rows as they are in the database.

    `after`: no row of this writer has a Version or a key up to this one, because an earlier workload may have used it.
    """

    def __init__(self, login: Login, ledger: Ledger, seed: int, *, after: int = 0) -> None:
        self._connection = login.connect()
        self._cursor: Any = self._connection.cursor()
        self._ledger = ledger
        self._random = Random(seed)
        self._version = after
        self._groups: list[list[Committed]] = []

    def close(self) -> None:
        self._connection.close()

    def _versions(self, count: int = 1) -> int:
        """The first of `count` Versions that no row has had."""
        first = self._version + 1
        self._version += count
        return first

    def _execute(self, sql: str) -> None:
        self._cursor.execute(sql)

    @contextmanager
    def _transaction(self, *, undo: bool = False) -> Iterator[None]:
        self._groups = []
        self._execute("BEGIN TRANSACTION")
        yield
        if undo:
            self._execute("ROLLBACK TRANSACTION")
            return
        self._execute("COMMIT TRANSACTION")
        self._ledger.commit(self._groups, time.time())

    def _note(self, table: TableName, operation: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Note that the last statement did `operation` to `rows`."""
        self._groups.append([Committed(table, operation, dict(row)) for row in rows])
