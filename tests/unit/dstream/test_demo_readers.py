"""The readers of the demo's other end: a verdict that is always good would be worse than none."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from common.names import TableName
from dstream.demo.ledger import DELETE, INSERT, UPDATE, Anything, Committed, Ledger
from dstream.demo.reading import MessageReader, Row, RowReader
from dstream.demo.schema import CUSTOMERS, ORDER_LINES
from dstream.demo.verdict import Verdict

KEYS = {CUSTOMERS: ("CustomerId",), ORDER_LINES: ("OrderId", "LineNumber")}


def customer(number: int, version: int, **more: object) -> Row:
    return {"CustomerId": number, "Name": f"c{version}", "Balance": "1.50", "Version": version, **more}


def line(order: int, number: int, version: int) -> Row:
    return {"OrderId": order, "LineNumber": number, "Version": version}


HISTORY = (
    Committed(CUSTOMERS, INSERT, customer(1, 1)),
    Committed(CUSTOMERS, INSERT, customer(2, 2)),
    Committed(CUSTOMERS, UPDATE, customer(1, 3)),
    Committed(CUSTOMERS, DELETE, customer(2, 2)),
    Committed(ORDER_LINES, INSERT, line(1, 1, 1)),
    Committed(ORDER_LINES, INSERT, line(1, 2, 2)),
)


def ledger() -> Ledger:
    made = Ledger()
    for change in HISTORY:
        made.commit([[change]], at=10.0)
    return made


class Rows(RowReader):
    """Of memory."""

    def __init__(self, customers: Sequence[Row], lines: Sequence[Row]) -> None:
        super().__init__(KEYS, "Version")
        self._rows = {CUSTOMERS: customers, ORDER_LINES: lines}

    def rows(self, table: TableName) -> Sequence[Row]:
        return self._rows[table]

    def start(self) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing to do."""


LINES = (line(1, 1, 1), line(1, 2, 2))


def counts(result: Verdict) -> tuple[int, int, int]:
    return result.total("lost"), result.total("duplicated"), result.total("wrong")


def test_rows_as_the_last_changes_left_them_are_good() -> None:
    reader = Rows([customer(1, 3)], LINES)
    result = reader.verdict(ledger())
    assert (result.good, result.total("committed"), result.total("received"), counts(result)) == (True, 6, 3, (0, 0, 0))
    assert reader.delivered(ledger())
    assert (reader.counts(), reader.received()) == ({CUSTOMERS: 4, ORDER_LINES: 2}, {})


def test_columns_may_come_in_lower_case_and_some_may_be_missing() -> None:
    rows = [{"customerid": 1, "version": 3, "balance": "1.50"}]
    assert Rows(rows, [{name.lower(): value for name, value in row.items()} for row in LINES]).verdict(ledger()).good


@pytest.mark.parametrize(
    ("customers", "lines", "expected"),
    [
        ([], LINES, (1, 0, 0)),
        ([customer(1, 1)], LINES, (1, 0, 0)),
        ([customer(1, 3), customer(2, 2)], LINES, (1, 0, 0)),
        ([customer(1, 3)], LINES[:1], (1, 0, 0)),
        ([customer(1, 3)] * 2, LINES, (0, 1, 0)),
        ([customer(1, 3), customer(9, 9)], LINES, (0, 0, 1)),
        ([customer(1, 3, Balance="1.51")], LINES, (0, 0, 1)),
        ([customer(1, 3, Name=None)], LINES, (0, 0, 1)),
    ],
    ids=("no row", "an older row", "a deleted row", "half of a key", "twice", "nobody's", "another value", "null"),
)
def test_other_rows_are_not_good(
    customers: Sequence[Row], lines: Sequence[Row], expected: tuple[int, int, int]
) -> None:
    result = Rows(customers, lines).verdict(ledger())
    assert (result.good, counts(result)) == (False, expected)
    assert [example for table in result.tables.values() for example in table.examples]


def test_rows_are_waited_for_until_none_is_behind() -> None:
    reader = Rows([customer(1, 1)], LINES)
    assert not reader.delivered(ledger())
    assert reader.counts() == {CUSTOMERS: 3, ORDER_LINES: 2}


def test_a_generated_value_is_any_but_null() -> None:
    made = Ledger()
    made.commit([[Committed(CUSTOMERS, INSERT, customer(1, 1, Stamp=Anything()))]], at=10.0)
    assert Rows([customer(1, 1, Stamp="AAAA")], ()).verdict(made).good
    assert counts(Rows([customer(1, 1, Stamp=None)], ()).verdict(made)) == (0, 0, 1)


def message(change: Committed) -> bytes:
    metadata = {
        "OperationType": change.operation,
        "TableName": change.table.table,
        "Schema": change.table.schema,
    }
    return json.dumps({"data": change.row, "metadata": metadata}).encode()


def heard(changes: Sequence[Committed]) -> MessageReader:
    reader = MessageReader(KEYS)
    for change in changes:
        reader.keep(change.table, message(change), "", change.operation)
    return reader


def test_messages_in_their_order_are_good() -> None:
    reader = heard(HISTORY)
    assert reader.delivered(ledger())
    assert (reader.verdict(ledger()).good, reader.counts()) == (True, {CUSTOMERS: 4, ORDER_LINES: 2})
    assert [len(messages) for messages in reader.received().values()] == [4, 2]


def test_what_is_about_no_change_delivers_nothing() -> None:
    reader = heard(HISTORY[:-1])
    reader.keep(ORDER_LINES, b'{"data": {}, "metadata": {"OperationType": "Schema"}}', "", "Schema")
    assert (reader.delivered(ledger()), reader.verdict(ledger()).total("lost")) == (False, 1)


def test_messages_that_overtook_are_not_good() -> None:
    result = heard([HISTORY[2], HISTORY[0], *HISTORY[1:2], *HISTORY[3:]]).verdict(ledger())
    assert result.total("out_of_order") > 0
    assert not result.good


def test_what_is_ignored_is_not_kept() -> None:
    reader = MessageReader(KEYS, ignored=lambda body: b'"Version": 1}' in body)
    for change in HISTORY:
        reader.keep(change.table, message(change), "", change.operation)
    assert reader.counts() == {CUSTOMERS: 3, ORDER_LINES: 1}
