"""What a reader of the demo's other end knows: messages in the order in which they came, or rows as they stand. Reads nothing itself."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from common.names import TableName
from dstream.demo.ledger import DELETE, Committed, Ledger
from dstream.demo.verdict import BESIDE, Received, TableVerdict, Verdict, judge, same

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

    failed: Exception | None
    """What ended the reading early."""

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
        self.failed: Exception | None = None

    def thread(self, run: Callable[[], object], name: str) -> threading.Thread:
        """One that reads, until `stop`."""

        def guarded() -> None:
            try:
                run()
            except Exception as error:  # whatever it is, nothing more arrives here
                self.failed = error

        return threading.Thread(target=guarded, name=name, daemon=True)

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
        self.failed: Exception | None = None
        self._counts = dict.fromkeys(tables, 0)

    @abstractmethod
    def rows(self, table: TableName) -> Sequence[Row]:
        """All that there are, by column, whose case is of no account: key, version, and what else can be compared. Values as in messages.

        Raises PermanentError.
        """

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
        """`lost`: changes whose row has another version, or is there although it was deleted. `wrong`: rows that nobody committed, and values.

        `duplicated`: further rows of a key.
        """
        entries = ledger.entries(table)
        last: dict[tuple[str, ...], Committed] = {}
        for change, _, _ in entries:
            last[self._key(table, change.row)] = change
        rows = [{name.lower(): value for name, value in row.items()} for row in self.rows(table)]
        verdict, found = TableVerdict(committed=len(entries), received=len(rows)), dict[tuple[str, ...], Row]()
        for row in rows:
            key = self._key(table, row)
            if key in found:
                verdict.duplicated += 1
                verdict.example(f"duplicated: {table} {key} is there again")
            found[key] = row
        for key, change in last.items():
            self._judge(change, found.get(key), key, verdict)
        for key in found.keys() - last.keys():
            verdict.wrong += 1
            verdict.example(f"wrong: nobody committed {table} {key}")
        self._counts[table] = len(entries) - verdict.lost
        return verdict

    def _key(self, table: TableName, row: Row) -> tuple[str, ...]:
        return tuple(str(row.get(column, row.get(column.lower()))) for column in self._tables[table])

    def _judge(self, change: Committed, row: Row | None, key: tuple[str, ...], verdict: TableVerdict) -> None:
        """`change`: the last one of the key. `row`: columns in lower case; None: there is none."""
        expected = None if change.operation == DELETE else change.row[self._version]
        version = None if row is None else row.get(self._version.lower())
        if (row is not None) if expected is None else version != expected:
            verdict.lost += 1
            verdict.example(
                f"lost: {change.operation} of {change.table} {key}: version {expected} is due, {version} is there"
            )
        elif row is not None and (column := _difference(change.row, row)) is not None:
            verdict.wrong += 1
            was, now = change.row[column], row[column.lower()]
            verdict.example(f"wrong: {change.table}.{column} of {key} is {now!r}, was {was!r}")


def _difference(committed: Row, row: Row) -> str | None:
    """A column whose value is another one."""
    both = (column for column in committed if column.lower() in row)
    return next((column for column in both if not same(committed[column], row[column.lower()])), None)
