"""The part of the workload that customers and their orders cause: three tables, written by one connection."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from dstream.demo.ledger import DELETE, INSERT, UPDATE, Ledger
from dstream.demo.schema import CUSTOMERS, ORDER_LINES, ORDERS
from dstream.demo.writer import Row, Writer
from dstream.emulators import Login

_ROWS_A_STATEMENT = 100


class OrderDesk(Writer):
    """Customers, orders and their lines: transactions on several tables, a large one, changed keys, and rollbacks."""

    def __init__(self, login: Login, ledger: Ledger, seed: int, *, after: int = 0) -> None:
        super().__init__(login, ledger, seed, after=after)
        self._customers: dict[int, Row] = {}
        self._orders: dict[int, Row] = {}
        self._lines: dict[int, dict[int, Row]] = {}
        self._next_customer = after + 1
        self._next_order = after + 1
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
        """`count` customers in one transaction, a hundred rows in a statement. For 0, no transaction."""
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
        """Changes that are rolled back must never arrive."""
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
        """The keys of several rows shift in one statement: all deletes, then all inserts."""
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
        """Delete an order and its lines in one transaction."""
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
