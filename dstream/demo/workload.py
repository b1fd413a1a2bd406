"""An ordinary application: two connections that insert, update, delete and move rows, and note in the ledger what was committed.

Every write gives its rows new Versions, so that each change can be told from every other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from common.names import TableName
from dstream.demo import types_table
from dstream.demo.ledger import DELETE, INSERT, UPDATE, Committed, Ledger
from dstream.demo.schema import CUSTOMERS, EVERYTHING, ORDER_LINES, ORDERS
from dstream.emulators import Login

_ROWS_A_STATEMENT = 100

Row = dict[str, object]


@dataclass(frozen=True)
class Pace:
    """Spreads `changes` over `seconds`; a machine that cannot keep up takes longer, none goes faster.

    `large`: rows of the one large transaction, which is among the changes but takes no time of its own; 0: there is none.
    """

    changes: int
    seconds: float
    large: int = 1000

    def delay(self, small: int, elapsed: float) -> float:
        """Seconds to wait after `small` changes outside the large transaction."""
        return max(0.0, self.seconds * small / max(1, self.changes - self.large) - elapsed)


class _Shop:
    """One connection's work. Holds the rows as they are in the database."""

    def __init__(self, login: Login, ledger: Ledger, seed: int) -> None:
        self._connection = login.connect()
        self._cursor: Any = self._connection.cursor()
        self._ledger = ledger
        self._random = Random(seed)
        self._version = 0
        self._groups: list[list[Committed]] = []

    def close(self) -> None:
        self._connection.close()

    def _versions(self, count: int = 1) -> int:
        """The first of `count` Versions that nobody has had."""
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
        """The statement just run did `operation` to `rows`."""
        self._groups.append([Committed(table, operation, dict(row)) for row in rows])


class OrderDesk(_Shop):
    """Customers, orders and their lines: transactions over several tables, a large one, moves of keys, and some taken back."""

    def __init__(self, login: Login, ledger: Ledger, seed: int) -> None:
        super().__init__(login, ledger, seed)
        self._customers: dict[int, Row] = {}
        self._orders: dict[int, Row] = {}
        self._lines: dict[int, dict[int, Row]] = {}
        self._next_customer = 1
        self._next_order = 1
        self._moments = datetime(2026, 1, 1)

    def step(self) -> None:
        """One transaction of a random kind."""
        if len(self._customers) < 5:
            self.new_customers(5)
            return
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.place_order, 30),
            (self.new_status, 25),
            (lambda: self.new_customers(self._random.randint(1, 3)), 10),
            (self.change_mind, 5),
            (self.move_customer, 8),
            (self.renumber_line, 6),
            (self.shift_lines, 8),
            (self.cancel_order, 12),
        ]
        self._random.choices([k for k, _ in kinds], [w for _, w in kinds])[0]()

    def new_customers(self, count: int) -> None:
        """`count` customers in one transaction, a hundred rows a statement; none: no transaction."""
        if not count:
            return
        with self._transaction():
            for start in range(0, count, _ROWS_A_STATEMENT):
                rows = [self._customer() for _ in range(min(_ROWS_A_STATEMENT, count - start))]
                values = ", ".join(
                    f"({r['CustomerId']}, N'{r['Name']}', {_text(r['Email'])}, {r['Balance']}, {r['Version']})"
                    for r in rows
                )
                self._execute(f"INSERT INTO dbo.Customers (CustomerId, Name, Email, Balance, Version) VALUES {values}")
                self._note(CUSTOMERS, INSERT, rows)
                self._customers |= {_number(r["CustomerId"]): r for r in rows}

    def _customer(self) -> Row:
        number = self._next_customer
        self._next_customer += 1
        name = self._random.choice(["Diana", "Žofie", "Łukasz", "Émile", "晴子"]) + f" {number}"
        email = f"c{number}@example.com" if number % 3 else None
        return {
            "CustomerId": number,
            "Name": name,
            "Email": email,
            "Balance": "0.00",
            "Version": self._versions(),
        }

    def place_order(self) -> None:
        """An order, its lines and the customer's balance: three tables in one transaction."""
        customer = self._customers[self._random.choice(list(self._customers))]
        number, self._next_order = self._next_order, self._next_order + 1
        self._moments += timedelta(microseconds=self._random.randint(1, 10**9))
        placed = self._moments.isoformat(timespec="microseconds") + str(self._random.randint(0, 9))
        lines = {n: self._line(number, n) for n in range(1, self._random.randint(2, 5))}
        cents = sum(_number(line["Quantity"]) * _cents(line["Price"]) for line in lines.values())
        order: Row = {
            "OrderId": number,
            "CustomerId": customer["CustomerId"],
            "Status": "new",
            "Total": f"{cents // 100}.{cents % 100:02d}00",
            "PlacedAt": placed,
            "Version": self._versions(),
        }
        with self._transaction():
            self._execute(
                "INSERT INTO sales.Orders (OrderId, CustomerId, Status, Total, PlacedAt, Version) VALUES "
                f"({number}, {order['CustomerId']}, N'new', {order['Total']}, '{placed}', {order['Version']})"
            )
            self._note(ORDERS, INSERT, [order])
            values = ", ".join(
                f"({number}, {n}, '{r['Sku']}', {r['Quantity']}, {r['Price']}, {r['Version']})"
                for n, r in lines.items()
            )
            self._execute(
                f"INSERT INTO dbo.OrderLines (OrderId, LineNumber, Sku, Quantity, Price, Version) VALUES {values}"
            )
            self._note(ORDER_LINES, INSERT, list(lines.values()))
            customer["Balance"] = _plus(customer["Balance"], cents)
            customer["Version"] = self._versions()
            self._execute(
                f"UPDATE dbo.Customers SET Balance = Balance + {cents / 100:.2f}, Version = {customer['Version']} "
                f"WHERE CustomerId = {customer['CustomerId']}"
            )
            self._note(CUSTOMERS, UPDATE, [customer])
        self._orders[number] = order
        self._lines[number] = lines

    def _line(self, order: int, number: int) -> Row:
        return {
            "OrderId": order,
            "LineNumber": number,
            "Sku": f"SKU-{self._random.randint(1, 999):03d}",
            "Quantity": self._random.randint(1, 9),
            "Price": f"{self._random.randint(1, 99)}.{self._random.randint(0, 99):02d}",
            "Version": self._versions(),
        }

    def new_status(self) -> None:
        """One row of one table."""
        if not self._orders:
            return
        order = self._orders[self._random.choice(list(self._orders))]
        order["Status"] = self._random.choice(["paid", "packed", "sent", "delivered"])
        order["Version"] = self._versions()
        with self._transaction():
            self._execute(
                f"UPDATE sales.Orders SET Status = N'{order['Status']}', Version = {order['Version']} "
                f"WHERE OrderId = {order['OrderId']}"
            )
            self._note(ORDERS, UPDATE, [order])

    def change_mind(self) -> None:
        """Work that is rolled back must never be seen."""
        with self._transaction(undo=True):
            self._execute(f"UPDATE dbo.Customers SET Balance = -1, Version = {self._versions()}")
            self._execute(f"DELETE FROM dbo.OrderLines WHERE Version > {self._random.randint(0, self._version)}")

    def move_customer(self) -> None:
        """The key of one row changes: a delete and an insert."""
        number = self._random.choice(list(self._customers))
        old = self._customers.pop(number)
        fresh, self._next_customer = self._next_customer, self._next_customer + 1
        new = old | {"CustomerId": fresh, "Version": self._versions()}
        with self._transaction():
            self._execute(
                f"UPDATE dbo.Customers SET CustomerId = {fresh}, Version = {new['Version']} WHERE CustomerId = {number}"
            )
            self._note(CUSTOMERS, DELETE, [old])
            self._note(CUSTOMERS, INSERT, [new])
        self._customers[fresh] = new

    def renumber_line(self) -> None:
        """Part of a composite key of one row changes."""
        found = self._some_lines()
        if found is None:
            return
        order, lines = found
        number = self._random.choice(list(lines))
        old = lines.pop(number)
        new = old | {"LineNumber": max([number, *lines]) + 1, "Version": self._versions()}
        with self._transaction():
            self._execute(
                f"UPDATE dbo.OrderLines SET LineNumber = {new['LineNumber']}, Version = {new['Version']} "
                f"WHERE OrderId = {order} AND LineNumber = {number}"
            )
            self._note(ORDER_LINES, DELETE, [old])
            self._note(ORDER_LINES, INSERT, [new])
        lines[_number(new["LineNumber"])] = new

    def shift_lines(self) -> None:
        """The keys of several rows move over each other in one statement: all deletes, then all inserts."""
        found = self._some_lines()
        if found is None:
            return
        order, lines = found
        if len(lines) < 2:
            return
        base = self._versions(max(lines) + 1)
        old = list(lines.values())
        new = [
            r | {"LineNumber": _number(r["LineNumber"]) + 1, "Version": base + _number(r["LineNumber"])} for r in old
        ]
        with self._transaction():
            self._execute(
                f"UPDATE dbo.OrderLines SET LineNumber = LineNumber + 1, Version = {base} + LineNumber WHERE OrderId = {order}"
            )
            self._note(ORDER_LINES, DELETE, old)
            self._note(ORDER_LINES, INSERT, new)
        self._lines[order] = {_number(r["LineNumber"]): r for r in new}

    def cancel_order(self) -> None:
        """An order and its lines go, in one transaction."""
        if not self._orders:
            return
        number = self._random.choice(list(self._orders))
        order, lines = self._orders.pop(number), self._lines.pop(number)
        with self._transaction():
            self._execute(f"DELETE FROM dbo.OrderLines WHERE OrderId = {number}")
            self._note(ORDER_LINES, DELETE, list(lines.values()))
            self._execute(f"DELETE FROM sales.Orders WHERE OrderId = {number}")
            self._note(ORDERS, DELETE, [order])

    def _some_lines(self) -> tuple[int, dict[int, Row]] | None:
        if not self._lines:
            return None
        order = self._random.choice(list(self._lines))
        return order, self._lines[order]


class TypeBench(_Shop):
    """dbo.Everything: rows of every type written, changed in some columns, and deleted."""

    def __init__(self, login: Login, ledger: Ledger, seed: int) -> None:
        super().__init__(login, ledger, seed)
        self._rows: dict[int, Row] = {}
        self._next = 1

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
        """A deleted row's old text columns are not captured."""
        number = self._random.choice(list(self._rows))
        row = self._rows.pop(number)
        with self._transaction():
            self._execute(f"DELETE FROM dbo.Everything WHERE Id = {number}")
            kept = {c: v for c, v in row.items() if c not in types_table.NOT_IN_DELETES}
            self._note(EVERYTHING, DELETE, [kept | types_table.ROWVERSION])


class Workload:
    """Both shops at once, until `pace.changes` changes are committed or `stop` is set. `error`: what ended it early."""

    def __init__(self, login: Login, ledger: Ledger, pace: Pace, *, seed: int = 1) -> None:
        self._login = login
        self._ledger = ledger
        self._pace = pace
        self._seed = seed
        self._stop = threading.Event()
        self._started = 0.0
        self._large = 0
        self._threads = [
            threading.Thread(target=self._run, args=(self._orders,), name="orders"),
            threading.Thread(target=self._run, args=(self._types,), name="types"),
        ]
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        self._started = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the transactions that run."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """Whether changes are still being made."""
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait for the end; raises what ended the workload early."""
        for thread in self._threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.error = error
            self._stop.set()

    def _orders(self) -> None:
        desk = OrderDesk(self._login, self._ledger, self._seed)
        try:
            while self._more():
                if self._large == 0 and self._done() >= (self._pace.changes - self._pace.large) // 3:
                    desk.new_customers(self._pace.large)
                    self._large = self._pace.large
                desk.step()
        finally:
            desk.close()

    def _types(self) -> None:
        bench = TypeBench(self._login, self._ledger, self._seed + 1)
        try:
            while self._more():
                bench.step()
        finally:
            bench.close()

    def _done(self) -> int:
        return sum(self._ledger.counts().values())

    def _more(self) -> bool:
        done = self._done()
        if done >= self._pace.changes or self._stop.is_set():
            return False
        return not self._stop.wait(self._pace.delay(done - self._large, time.monotonic() - self._started))


def _text(value: object) -> str:
    return "NULL" if value is None else f"'{value}'"


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _cents(amount: object) -> int:
    assert isinstance(amount, str)
    return int(amount.replace(".", ""))


def _plus(amount: object, cents: int) -> str:
    total = _cents(amount) + cents
    return f"{total // 100}.{total % 100:02d}"
