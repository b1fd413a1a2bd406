"""What a reader of the demo's other end knows: messages in the order in which they came, or rows as they stand. Reads nothing itself."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from common.names import TableName
from dstream.demo.ledger import DELETE, Committed, Ledger
from dstream.demo.verdict import BESIDE, Received, TableVerdict, Verdict, judge

Ignored = Callable[[bytes], bool]
"""Whether a body is received and not kept."""

Row = Mapping[str, object]


def nothing_ignored(body: bytes) -> bool:
    """Every body is kept."""
    return False


class Reader(Protocol):
    """The other end, read as a careful user reads it."""

    good: str
    bad: str
    """What the demo says in the end."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def counts(self) -> Mapping[TableName, int]:
        """By table, how many of the committed changes have arrived."""
        ...

    def received(self) -> Mapping[TableName, Sequence[Received]]:
        """Messages in the order in which they came; none where rows are read."""
        ...

    def delivered(self, ledger: Ledger) -> bool:
        """Whether everything that was committed has arrived."""
        ...

    def verdict(self, ledger: Ledger) -> Verdict:
        """Compare both ends."""
        ...


class MessageReader:
    """A `Reader` of messages: keeps them. `tables`: those that are read."""

    good = "Every committed change arrived once, in order, with its values."
    bad = "Not every committed change arrived once, in order, with its values."

    def __init__(self, tables: Iterable[TableName], ignored: Ignored = nothing_ignored) -> None:
        self._received: dict[TableName, list[Received]] = {table: [] for table in tables}
        self._changes = dict.fromkeys(self._received, 0)
        self._ignored = ignored
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to receive; wait for places that do not exist yet."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop, and return when everything is closed."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def keep(self, table: TableName, body: bytes, message_id: str, operation: object) -> None:
        """A message of `table` has arrived. `operation`: as the message's properties have it."""
        if not self._ignored(body):
            self._received[table].append(Received(body, message_id, time.time()))
            self._changes[table] += operation not in BESIDE

    def counts(self) -> dict[TableName, int]:
        return dict(self._changes)

    def received(self) -> dict[TableName, Sequence[Received]]:
        return {table: list(messages) for table, messages in self._received.items()}

    def delivered(self, ledger: Ledger) -> bool:
        return all(self._changes.get(table, 0) >= count for table, count in ledger.counts().items())

    def verdict(self, ledger: Ledger) -> Verdict:
        return judge(ledger, self.received(), tuple(self._received))


class RowReader:
    """A `Reader` of rows, where changes are applied: compares the rows that are there with those that the last changes left."""

    good = "Every row is as the last committed change left it."
    bad = "Not every row is as the last committed change left it."

    def __init__(self, tables: Mapping[TableName, Sequence[str]], version: str) -> None:
        """`tables`: with the columns of their keys. `version`: the column that every change of a row raises."""
        self._tables, self._version = tables, version
        self._counts = dict.fromkeys(tables, 0)

    @abstractmethod
    def rows(self, table: TableName) -> Mapping[tuple[str, ...], int]:
        """The version of each row by its key, as text; empty while there is nothing."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def received(self) -> dict[TableName, Sequence[Received]]:
        return {}

    def counts(self) -> dict[TableName, int]:
        return dict(self._counts)

    def delivered(self, ledger: Ledger) -> bool:
        behind = [table for table in self._tables if self._compared(table, ledger).lost]  # counts all of them
        return not behind

    def verdict(self, ledger: Ledger) -> Verdict:
        return Verdict({table: self._compared(table, ledger) for table in self._tables})

    def _compared(self, table: TableName, ledger: Ledger) -> TableVerdict:
        """`lost`: changes whose row has an older version, or is there although it was deleted. `wrong`: rows that nobody committed."""
        entries = ledger.entries(table)
        expected: dict[tuple[str, ...], Committed] = {}
        for change, _, _ in entries:
            expected[tuple(str(change.row[column]) for column in self._tables[table])] = change
        found = self.rows(table)
        verdict = TableVerdict(committed=len(entries), received=len(found))
        for key, change in expected.items():
            version, last = found.get(key), change.row[self._version]
            if (version is not None) if change.operation == DELETE else version != last:
                verdict.lost += 1
                verdict.example(f"lost: {change.operation} of {table} {key}, version {last}; the row has {version}")
        for key in found.keys() - expected.keys():
            verdict.wrong += 1
            verdict.example(f"wrong: nobody committed {table} {key}")
        self._counts[table] = len(entries) - verdict.lost
        return verdict
