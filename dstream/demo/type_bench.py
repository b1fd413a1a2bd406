"""The part of the workload that writes values of every type: the table dbo.Everything, written by one connection."""

from __future__ import annotations

from dstream.demo import types_table
from dstream.demo.ledger import DELETE, INSERT, UPDATE, Ledger
from dstream.demo.schema import EVERYTHING
from dstream.demo.writer import Row, Writer
from dstream.emulators import Login


class TypeBench(Writer):
    """dbo.Everything: rows with every type are inserted, updated in some columns, and deleted."""

    def __init__(self, login: Login, ledger: Ledger, seed: int, *, after: int = 0) -> None:
        super().__init__(login, ledger, seed, after=after)
        self._rows: dict[int, Row] = {}
        self._next = after + 1

    def step(self) -> None:
        """One transaction of a random kind."""
        if len(self._rows) < 3:
            self.insert()
            return
        self._random.choices([self.insert, self.update, self.delete], [5, 4, 1])[0]()

    def insert(self) -> None:
        """A row with a value, or NULL, in every column."""
        number, self._next = self._next, self._next + 1
        pairs = {column: types_table.value(column, self._random) for column in types_table.COLUMNS}
        row: Row = {"Id": number, "Version": self._versions()} | {c: json for c, (_, json) in pairs.items()}
        with self._transaction():
            self._execute(
                f"INSERT INTO dbo.Everything (Id, Version, {', '.join(pairs)}) VALUES "
                f"({number}, {row['Version']}, {', '.join(literal for literal, _ in pairs.values())})"
            )
            self._note(EVERYTHING, INSERT, [row | types_table.ROWVERSION])
        self._rows[number] = row

    def update(self) -> None:
        """Some columns of one row."""
        row = self._rows[self._random.choice(list(self._rows))]
        columns = self._random.sample(types_table.COLUMNS, self._random.randint(1, 6))
        pairs = {column: types_table.value(column, self._random) for column in columns}
        row |= {"Version": self._versions()} | {c: json for c, (_, json) in pairs.items()}
        changes = ", ".join(f"{column} = {literal}" for column, (literal, _) in pairs.items())
        with self._transaction():
            self._execute(f"UPDATE dbo.Everything SET Version = {row['Version']}, {changes} WHERE Id = {row['Id']}")
            self._note(EVERYTHING, UPDATE, [row | types_table.ROWVERSION])

    def delete(self) -> None:
        """The captured row lacks its columns of the old text types."""
        number = self._random.choice(list(self._rows))
        row = self._rows.pop(number)
        with self._transaction():
            self._execute(f"DELETE FROM dbo.Everything WHERE Id = {number}")
            kept = {c: v for c, v in row.items() if c not in types_table.NOT_IN_DELETES}
            self._note(EVERYTHING, DELETE, [kept | types_table.ROWVERSION])
