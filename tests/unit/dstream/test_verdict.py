"""The verdict must see each kind of damage: a judge that always says yes would be worse than none."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dstream.demo.ledger import DELETE, INSERT, UPDATE, Anything, Committed, Ledger
from dstream.demo.schema import CUSTOMERS, ORDERS
from dstream.demo.verdict import Received, Verdict, judge

HISTORY = [
    [
        Committed(CUSTOMERS, INSERT, {"CustomerId": n, "Name": f"c{n}", "Version": n, "Stamp": Anything()})
        for n in (1, 2)
    ],
    [Committed(CUSTOMERS, UPDATE, {"CustomerId": 1, "Name": "new", "Version": 3, "Stamp": Anything()})],
    [Committed(CUSTOMERS, DELETE, {"CustomerId": 2, "Name": "c2", "Version": 2, "Stamp": Anything()})],
    [Committed(ORDERS, INSERT, {"OrderId": 1, "Paid": True, "Version": 1})],
]


def message(change: Committed) -> Received:
    row = {k: "AAAAAAAAB9E=" if isinstance(v, Anything) else v for k, v in change.row.items()}
    metadata = {
        "OperationType": change.operation,
        "TableName": change.table.table,
        "Schema": change.table.schema,
    }
    return Received(json.dumps({"data": row, "metadata": metadata}).encode(), "", 11.0)


def verdict(damage: Callable[[list[Received]], object] = lambda messages: None) -> Verdict:
    ledger = Ledger()
    for group in HISTORY:
        ledger.commit([group], at=10.0)
    customers = [message(change) for group in HISTORY for change in group if change.table == CUSTOMERS]
    damage(customers)
    return judge(ledger, {CUSTOMERS: customers, ORDERS: [message(HISTORY[3][0])]}, [CUSTOMERS, ORDERS])


def counts(result: Verdict) -> tuple[int, int, int, int]:
    return result.total("lost"), result.total("duplicated"), result.total("out_of_order"), result.total("wrong")


def test_what_was_committed_and_arrived_is_good() -> None:
    result = verdict()
    assert result.good
    assert (result.total("committed"), result.total("received"), counts(result)) == (5, 5, (0, 0, 0, 0))
    assert result.lag(0.5) == 1.0
    assert result.lag(0.5, since=10.5) is None


def test_a_dropped_message_is_lost() -> None:
    result = verdict(lambda messages: messages.pop(1))
    assert counts(result) == (1, 0, 0, 0)
    assert not result.good


def test_a_message_that_came_twice_is_duplicated() -> None:
    assert counts(verdict(lambda messages: messages.append(messages[0]))) == (0, 1, 0, 0)


def test_two_swapped_messages_are_out_of_order() -> None:
    def swap(messages: list[Received]) -> None:
        messages[2], messages[3] = messages[3], messages[2]

    assert counts(verdict(swap)) == (0, 0, 1, 0)


def test_the_rows_of_one_statement_may_come_in_any_order() -> None:
    def swap(messages: list[Received]) -> None:
        messages[0], messages[1] = messages[1], messages[0]

    assert verdict(swap).good


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"new"', b'"old"'),
        (b'"Name": "new"', b'"Name": null'),
        (b'"AAAAAAAAB9E="', b"null"),
        (b'"Name": "new", ', b""),
        (b'"Update"', b'"Insert"'),
        (b'"Schema": "dbo"', b'"Schema": "sales"'),
    ],
)
def test_an_altered_value_is_wrong(old: bytes, new: bytes) -> None:
    def alter(messages: list[Received]) -> None:
        assert old in messages[2].body
        messages[2] = Received(messages[2].body.replace(old, new), "", 11.0)

    assert counts(verdict(alter)) == (0, 0, 0, 1)


def test_a_bit_that_came_as_a_number_is_wrong() -> None:
    ledger = Ledger()
    ledger.commit([HISTORY[3]], at=10.0)
    body = message(HISTORY[3][0]).body.replace(b"true", b"1")
    assert counts(judge(ledger, {ORDERS: [Received(body, "", 11.0)]}, [ORDERS])) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    "body", [b"not JSON", b"{}", b'{"data": {"Version": 99}, "metadata": {"OperationType": "Insert"}}']
)
def test_a_message_that_nobody_committed_is_wrong(body: bytes) -> None:
    result = verdict(lambda messages: messages.append(Received(body, "", 11.0)))
    assert counts(result) == (0, 0, 0, 1)
    assert result.tables[CUSTOMERS].examples


@pytest.mark.parametrize("operation", ["Read", "Gap"])
def test_what_is_about_no_change_is_counted_beside_the_changes(operation: str) -> None:
    """A row that a snapshot read has the values of a change that was or will be sent."""

    def read(messages: list[Received]) -> None:
        for at in (0, 3):
            body = json.loads(messages[at].body)
            body["metadata"]["OperationType"] = operation
            messages.insert(at, Received(json.dumps(body).encode(), "", 11.0))

    result = verdict(read)
    assert result.good
    assert (result.total("committed"), result.total("received"), result.total("beside")) == (5, 5, 2)


def test_a_row_that_was_read_stands_for_no_change() -> None:
    def read_alone(messages: list[Received]) -> None:
        body = json.loads(messages[0].body)
        body["metadata"]["OperationType"] = "Read"
        messages[0] = Received(json.dumps(body).encode(), "", 11.0)

    assert counts(verdict(read_alone)) == (1, 0, 0, 0)
