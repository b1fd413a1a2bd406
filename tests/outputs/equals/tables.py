"""Tables of SQL Server that applications change at random: keys of one column, of two and of text, keys that change, columns that are added."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import pymssql

from common.names import TableName
from dstream.emulators import Login
from tests.outputs.equals import values
from tests.outputs.equals.values import Kind

_KEY_TAKEN: Final = 2627
"""The number of the server's error."""


@dataclass(frozen=True)
class Key:
    """`literals`: what each column of the key may be. `end`: of a row that no statement here makes, and that comes last of all."""

    columns: Mapping[str, Kind]
    literals: Sequence[Sequence[str]]
    end: Sequence[int | str]

    def random(self, random: Random) -> Sequence[str]:
        return [random.choice(each) for each in self.literals]

    def where(self, literals: Sequence[str]) -> str:
        return " AND ".join(f"[{name}] = {value}" for name, value in zip(self.columns, literals, strict=True))


@dataclass
class Table:
    """`columns`: besides the key. `later`: a column that it gets while changes go on, and `added` once it has it."""

    name: TableName
    key: Key
    columns: dict[str, Kind]
    later: tuple[str, Kind]
    rows: int
    shifted: str | None = None
    """A column of the key whose values move all at once."""
    added: set[str] = field(default_factory=set)

    @property
    def all_columns(self) -> dict[str, Kind]:
        return {**self.key.columns, **self.columns}

    def create(self) -> str:
        key = [f"[{name}] {kind.sql} NOT NULL" for name, kind in self.key.columns.items()]
        rest = [f"[{name}] {kind.sql} NULL" for name, kind in self.columns.items()]
        primary = ", ".join(f"[{name}]" for name in self.key.columns)
        return f"CREATE TABLE {self.name.quoted} ({', '.join([*key, *rest])}, PRIMARY KEY ({primary}))"

    def insert(self, key: Sequence[str], random: Random) -> str:
        names = ", ".join(f"[{name}]" for name in self.all_columns)
        rest = [_literal(kind, random) for kind in self.columns.values()]
        return f"INSERT INTO {self.name.quoted} ({names}) VALUES ({', '.join([*key, *rest])})"

    def instance(self, which: str) -> str:
        """The name of a capture instance."""
        return f"{self.name.table.replace(' ', '')}_{which}"

    def capture(self, which: str) -> str:
        return (
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{self.name.schema}', @source_name = N'{self.name.table}', "
            f"@role_name = NULL, @capture_instance = N'{self.instance(which)}'"
        )

    def statement(self, random: Random) -> tuple[str, str]:
        """What kind it is, and itself."""
        key, other, table = self.key.random(random), self.key.random(random), self.name.quoted
        chosen = random.sample(sorted(self.columns), random.randint(1, len(self.columns)))
        setting = ", ".join(f"[{name}] = {_literal(self.columns[name], random)}" for name in chosen)
        first, where = next(iter(self.key.columns)), self.key.where(key)
        many = f"[{first}] <= {key[0]}"
        moved = random.choice([*range(len(other)), None])
        moves = [
            f"[{name}] = {value}"
            for at, (name, value) in enumerate(zip(self.key.columns, other, strict=True))
            if moved in (at, None)
        ]
        kinds = {
            "insert": (30, self.insert(key, random)),
            "update": (20, f"UPDATE {table} SET {setting} WHERE {where}"),
            "update of many": (3, f"UPDATE {table} SET {setting} WHERE {many}"),
            "key update": (12, f"UPDATE {table} SET {', '.join(moves)} WHERE {where}"),
            "key update with columns": (6, f"UPDATE {table} SET {', '.join([*moves, setting])} WHERE {where}"),
            "delete": (10, f"DELETE FROM {table} WHERE {where}"),
            "delete of many": (1, f"DELETE FROM {table} WHERE {many} AND {random.randrange(2)} = 0"),
            "delete and insert": (4, f"DELETE FROM {table} WHERE {where}; {self.insert(key, random)}"),
        }
        if (column := self.shifted) is not None:
            up = f"UPDATE {table} SET [{column}] = [{column}] + 1 WHERE {many}"
            down = f"UPDATE {table} SET [{column}] = [{column}] - 1 WHERE {many}"
            kinds |= {"key update of many": (4, random.choice([up, down]))}
        name = random.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        return name, kinds[name][1]


def _literal(kind: Kind, random: Random) -> str:
    return "NULL" if random.random() < 0.2 else kind.literal(random)


def tables(rows: int) -> Sequence[Table]:
    numbers = [str(number) for number in range(rows)]
    words = [
        "",
        " ",
        "a",
        "A",
        "ž",
        "a''b",
        "[x",
        "x y",
        "1",
        "01",
        "NULL",
        "null",
        "/",
        "#",
        "ß",
        "ss",
        "é🐎",
        "%s",
        "{}",
    ]
    words += [f"w{number}" for number in range(rows // 2)]
    goods = Table(
        TableName("dbo", "Goods"),
        Key({"ID": values.INT}, [numbers], [1_000_000]),
        {
            "Name": values.TEXT,
            "Price": values.DECIMAL,
            "Sold": values.BIT,
            "Raw": values.BINARY,
            "Bio": values.LONG_TEXT,
            "Made": values.DATE,
        },
        ("Later", values.TEXT),
        rows,
        shifted="ID",
    )
    lines = Table(
        TableName("sales", "Order Lines"),
        Key({"Region": values.TEXT, "Number": values.SMALLINT}, [["N'EU'", "N'us'", "N''"], numbers], ["~end", 0]),
        {"Amount": values.MONEY, "At": values.DATETIME2, "Seen at": values.OFFSET, "Share": values.FLOAT},
        ("Extra", values.DECIMAL),
        rows,
        shifted="Number",
    )
    texts = Table(
        TableName("dbo", "Words"),
        Key({"Word": values.TEXT}, [[f"N'{word}'" for word in words]], ["~the end"]),
        {"Count": values.BIGINT, "Guid": values.GUID, "Clock": values.TIME},
        ("More", values.LONG_TEXT),
        rows,
    )
    return goods, lines, texts


class Application:
    """Changes one table, `rate` transactions a second, until it is stopped. A statement for a key that is taken changes nothing."""

    def __init__(self, login: Login, table: Table, *, rate: float, seed: int) -> None:
        self.table = table
        self._login, self._rate, self._random = login, rate, Random(seed)
        self._stop, self._turn = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"application {table.name.key}", daemon=True)
        self._error: Exception | None = None
        self.done: Counter[str] = Counter()
        """Statements that were committed, by kind."""

    def prepare(self) -> None:
        """The table, its rows, and only then its capture."""
        with self._login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(self.table.create())
            for _ in range(self.table.rows):
                self._try(
                    cursor, "row from before", self.table.insert(self.table.key.random(self._random), self._random)
                )
            cursor.execute(self.table.capture("first"))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when its last row is committed. Raises what ended it early."""
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "a statement does not end"
        if self._error is not None:
            raise self._error
        with self._login.connect() as connection, connection.cursor() as cursor:
            end = [f"N'{value}'" if isinstance(value, str) else str(value) for value in self.table.key.end]
            cursor.execute(self.table.insert(end, self._random))

    def add_a_column(self) -> None:
        """And another capture instance, which has it, before anything is written there."""
        name, kind = self.table.later
        with self._turn, self._login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {self.table.name.quoted} ADD [{name}] {kind.sql} NULL")
            cursor.execute(self.table.capture("second"))
            self.table.columns[name] = kind
            self.table.added.add(name)

    def rows(self) -> list[tuple[Any, ...]]:
        """As the server says them (Kind.asked)."""
        asked = ", ".join(kind.asked.format(f"[{name}]") for name, kind in self.table.all_columns.items())
        with self._login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {asked} FROM {self.table.name.quoted}")
            return list(cursor.fetchall())

    def changes(self) -> int:
        """How many are captured; an update is one."""
        found = 0
        with self._login.connect() as connection, connection.cursor() as cursor:
            for which in ("first", "second") if self.table.added else ("first",):
                cursor.execute(f"SELECT COUNT(*) FROM cdc.[{self.table.instance(which)}_CT] WHERE __$operation <> 3")
                found += cursor.fetchone()[0]
        return found

    def _run(self) -> None:
        try:
            with self._login.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SET XACT_ABORT ON")
                while not self._stop.wait(self._random.expovariate(self._rate)):
                    with self._turn:
                        self._transaction(cursor)
        except Exception as error:
            self._error = error

    def _transaction(self, cursor: Any) -> None:
        made = [self.table.statement(self._random) for _ in range(self._random.choice([1, 1, 1, 2, 5]))]
        kinds, statements = zip(*made, strict=True)
        end = "ROLLBACK" if self._random.random() < 0.05 else "COMMIT"
        text = "; ".join(["BEGIN TRANSACTION", *statements, f"{end} TRANSACTION"])
        if self._try(cursor, "transaction", text) and end == "COMMIT":
            self.done.update(kinds)

    def _try(self, cursor: Any, kind: str, text: str) -> bool:
        try:
            cursor.execute(text)
        except pymssql.Error as error:
            if error.args[0] != _KEY_TAKEN:
                raise
            return False
        self.done[kind] += 1
        return True
