"""Compares what was committed with what a subscriber received, and counts what is lost, duplicated, out of order or wrong. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from common.names import TableName
from dstream.demo.ledger import Committed, Ledger

_EXAMPLES = 5

BESIDE = frozenset(("Read", "Gap", "Schema"))
"""Operations of messages that are about no change: rows that a snapshot read, gaps, and other columns."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message as a subscriber of the table's topic saw it; `at` is Unix time."""

    body: bytes
    message_id: str
    at: float


@dataclass(slots=True)
class TableVerdict:
    """Counts for one table; all but `committed` and `received` must be 0. `lags`: (commit time, seconds to arrival).

    `beside`: messages that are about no change: rows that a snapshot read, and gaps. They are judged by nothing.
    """

    committed: int = 0
    received: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    wrong: int = 0
    beside: int = 0
    lags: list[tuple[float, float]] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.duplicated or self.out_of_order or self.wrong)

    def example(self, text: str) -> None:
        """Keep one more example, up to a few."""
        if len(self.examples) < _EXAMPLES:
            self.examples.append(text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The demo's result."""

    tables: Mapping[TableName, TableVerdict]

    @property
    def good(self) -> bool:
        """Whether every committed change arrived once, in order, with its values."""
        return all(table.good for table in self.tables.values())

    def total(self, count: str) -> int:
        """The sum of one of the counts over all tables."""
        return sum(getattr(table, count) for table in self.tables.values())

    def lag(self, share: float, *, since: float = 0.0) -> float | None:
        """Seconds from commit to arrival, at most, for `share` of the changes committed since Unix time `since`; None if there are none."""
        lags = sorted(lag for table in self.tables.values() for at, lag in table.lags if at >= since)
        return lags[min(len(lags) - 1, int(share * len(lags)))] if lags else None


def judge(ledger: Ledger, received: Mapping[TableName, Sequence[Received]], tables: Sequence[TableName]) -> Verdict:
    """The verdict on `tables`. `received`: the messages of each table's topic in the order of arrival."""
    return Verdict({table: _judge_table(table, ledger, received.get(table, ())) for table in tables})


def of_an_earlier_workload(body: bytes, after: int) -> bool:
    """Whether a message is about a change that a workload made whose Versions are up to `after`. Anything else is judged."""
    found = _identity(body)
    return found is not None and isinstance(found[1], int) and found[1] <= after


def _judge_table(table: TableName, ledger: Ledger, received: Sequence[Received]) -> TableVerdict:
    entries = ledger.entries(table)
    changes = [message for message in received if not _beside(message.body)]
    verdict = TableVerdict(committed=len(entries), received=len(changes), beside=len(received) - len(changes))
    expected = {change.identity: (change, group, at) for change, group, at in entries}
    seen: set[tuple[str, object]] = set()
    last_group = 0
    for message in changes:
        found = _identity(message.body)
        if found is None or found not in expected:
            verdict.wrong += 1
            verdict.example(f"wrong: no such change was committed: {_short(message.body)}")
            continue
        if found in seen:
            verdict.duplicated += 1
            verdict.example(f"duplicated: {_short(message.body)}")
            continue
        seen.add(found)
        change, group, at = expected[found]
        verdict.lags.append((at, message.at - at))
        if group < last_group:
            verdict.out_of_order += 1
            verdict.example(f"out of order: {_short(message.body)}")
        last_group = max(group, last_group)
        difference = _difference(change, message.body)
        if difference:
            verdict.wrong += 1
            verdict.example(f"wrong: {difference}")
    for identity, (change, _, _) in expected.items():
        if identity not in seen:
            verdict.lost += 1
            verdict.example(f"lost: {change.operation} {dict(change.row)!r:.200}")
    return verdict


def _beside(body: bytes) -> bool:
    """Whether a message is about no change."""
    try:
        return json.loads(body)["metadata"]["OperationType"] in BESIDE
    except (ValueError, KeyError, TypeError):
        return False


def _identity(body: bytes) -> tuple[str, object] | None:
    try:
        message = json.loads(body)
        operation = message["metadata"]["OperationType"]
        return ("Delete" if operation == "Delete" else "Write"), message["data"]["Version"]
    except (ValueError, KeyError, TypeError):
        return None


def _difference(change: Committed, body: bytes) -> str | None:
    """How the message differs from the committed change, in words."""
    message = json.loads(body)
    metadata, data = message["metadata"], message["data"]
    committed = {"OperationType": change.operation, "TableName": change.table.table, "Schema": change.table.schema}
    for key, expected in committed.items():
        if metadata.get(key) != expected:
            return f"{key} is {metadata.get(key)!r}, was {expected!r}"
    if data.keys() != change.row.keys():
        return f"columns {sorted(data.keys() ^ change.row.keys())} are on one side only"
    for column, value in change.row.items():
        if not same(value, data[column]):
            return f"{change.table}.{column} of Version {change.row['Version']} is {data[column]!r}, was {value!r}"
    return None


def same(value: object, arrived: object) -> bool:
    """In Python True equals 1; in JSON it does not."""
    return value == arrived and isinstance(value, bool) == isinstance(arrived, bool)


def _short(body: bytes) -> str:
    return body[:200].decode("utf-8", "replace")
