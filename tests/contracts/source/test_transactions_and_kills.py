"""Transactions though somebody is killed at any place: every change has one place, every transaction its two events once by id, with counts
that are those of the changes that arrived.

The product's drain, strides, offsets and source against the emulator; the queue is a dict. A killed task or driver leaves what was accepted and
committed; the next one has new connections and knows nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from common.bus.ports import TimeLeft
from common.clock import unix
from common.message import Message
from common.names import TRANSACTIONS, Origin, TableName
from ingester.driver.strides import Strides
from ingester.driver.tables import TrackedTable
from ingester.offsets import TakenOffsets
from ingester.position import Position
from ingester.slices import Slice
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.counting.steps import STEP
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.transactions.source import TransactionSource
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.window import probe_request, window
from tests.contracts.source.test_source import PERSONS, Place
from tests.contracts.source.test_transactions import HEAP, ORDERS, place, work  # noqa: F401  # the fixture

EPOCH = 1
TABLES = (PERSONS, ORDERS, HEAP)


class Killed(BaseException):
    """Nobody catches it: what ran is gone."""


class Queue:
    """What was accepted, by message id. Takes part of a batch and kills the sender, now and then."""

    def __init__(self, random: Random) -> None:
        self.accepted: dict[str, bytes] = {}
        self.kills = 0
        self._random = random

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        dies = self._random.random() < 0.25
        for message in messages[: self._random.randint(0, len(messages))] if dies else messages:
            assert message.message_id is not None
            known = self.accepted.setdefault(message.message_id, message.body)
            assert known == message.body, "a change that is sent again is the same message"
        if dies:
            self.die()

    def die(self) -> None:
        self.kills += 1
        raise Killed

    def batch_bytes(self) -> int:
        return 262_144

    def open(self) -> None: ...

    def close(self) -> None: ...


class MortalOffsets:
    """Offsets whose commit kills, before or after it is done."""

    def __init__(self, inner: SqlServerOffsets, queue: Queue, random: Random) -> None:
        self._inner, self._queue, self._random = inner, queue, random

    def load(self, table: TableName, epoch: int, source: str | None = None) -> Position | None:
        return self._inner.load(table, epoch, source)

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        fate = self._random.random()
        if fate < 0.1:
            self._queue.die()
        self._inner.commit(table, epoch, seen=seen, position=position)
        if fate > 0.9:
            self._queue.die()


class Life:
    """An ingester from its start to its death: a driver's look at all tables, and the tasks that follow from it."""

    def __init__(self, address: Any, queue: Queue, random: Random, step: int) -> None:
        self._connection, self._random = Connection(address), random
        self.source = TransactionSource(self._connection, lambda: TABLES, before_images=True, step=step)
        self.offsets = SqlServerOffsets(self._connection)
        self._mortal: TakenOffsets = MortalOffsets(self.offsets, queue, random)
        encoder = Encoder(Origin("server", "db"), "queue", "key", 4)
        self._drain = Drain(self.source, self._mortal, queue, encoder, unix)

    def run(self) -> bool:
        """Whether nothing is left to read."""
        done = True
        for todo, pending in list(self._slices()):
            done &= not pending
            for one in self._parts(todo) if pending else []:
                result = self._drain.run(one)
                assert result.trouble is None, result
        return done

    def _slices(self) -> Iterator[tuple[Slice, bool]]:
        tables = [*TABLES, TRANSACTIONS]
        self._random.shuffle(tables)
        for table, state in self.source.states(tables).items():
            after = self.offsets.claim(table, EPOCH).position
            answer = self.source.probe([probe_request(state.instances, after)])
            upto = window(state.instances, after, answer.upto).upto
            assert upto is not None
            [instance] = state.instances
            yield (
                Slice(table, instance, instance.start, upto, EPOCH, self._random.randint(2, 6), seconds=60),
                answer.answers[instance.name].pending,
            )

    def _parts(self, todo: Slice) -> list[Slice]:
        """Now and then only the parts of one stride. Its offset is left for a later life to move: what they sent comes again."""
        after = self.offsets.load(todo.table, EPOCH)
        if after is None or self._random.random() < 0.5:
            return [todo]
        table = TrackedTable(todo.table, backlog=True, page_rows=todo.rows, offset=after)
        return Strides(self.source, self.offsets, "key").slices(todo, table, room=3)

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize(("seed", "step"), [(0, STEP), (1, STEP), (2, STEP), (3, 3), (4, 2), (5, 1)])
def test_places_and_counts_are_right_whoever_is_killed_and_where(place: Place, seed: int, step: int) -> None:  # noqa: F811
    """With small steps most transactions are counted over several pages, and by several lives."""
    random = Random(seed)
    queue = Queue(random)
    work(place, 8, seed)
    SqlServerOffsets(place.connection).ensure()
    for lives in range(400):
        life = Life(place.address_of(place.login), queue, random, step)
        try:
            done = life.run()
        except Killed:
            done = False
        finally:
            life.close()
        if lives == 3:
            place.execute(
                "BEGIN TRAN; UPDATE sales.Orders SET Total = -1; UPDATE dbo.Persons SET Name = N'last'; COMMIT"
            )
            place.scan()
        if done and lives > 3:
            break
    else:
        pytest.fail("it never came to an end")
    assert queue.kills > 3
    judge(queue.accepted.values())


def judge(bodies: Any) -> None:
    """By what arrived alone, as a consumer sees it."""
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    orders: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    events: dict[str, dict[str, Any]] = defaultdict(dict)
    for body in bodies:
        found = json.loads(body)["metadata"]
        said = found["Transaction"]
        assert said["Id"] == found["LSN"]
        if found["OperationType"] in ("Begin", "End"):
            assert said["Status"] not in events[said["Id"]], "once by id"
            events[said["Id"]][said["Status"]] = said
            continue
        table = f"{found['Schema']}.{found['TableName']}"
        places[said["Id"]][table].append(said["TableOrder"])
        orders[said["Id"], table].append(  # type: ignore[index]
            (found["CommandID"], found["SeqVal"], found["OperationID"], said["TableOrder"])
        )
    assert places.keys() == events.keys()
    for number, tables in places.items():
        assert set(events[number]) == {"BEGIN", "END"}
        for said in events[number].values():
            assert {one["Table"]: one["Count"] for one in said["Tables"]} == {t: len(p) for t, p in tables.items()}
            assert said["EventCount"] == sum(map(len, tables.values()))
        for table in tables:
            in_order = [order[-1] for order in sorted(orders[number, table])]  # type: ignore[index]
            assert in_order == list(range(1, len(in_order) + 1)), (number, table)
