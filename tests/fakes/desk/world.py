"""The invented world: tables, entities, messages and snapshots, and how time moves them."""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Final

from desk.desk import NotFound
from desk.documents.overview import Entity
from desk.documents.tables import Move, Pause, Snapshot

DATABASE: Final = "shop"
SERVER: Final = "sql-prod-3.internal"
NAMESPACE: Final = "contoso-changes.servicebus.windows.net"
RETENTION: Final = 72 * 3600.0
_FIRST: Final = (
    "dbo.Orders",
    "dbo.OrderLines",
    "dbo.Persons",
    "sales.Invoices",
    "sales.Order Details",
    "stock.Ledger/2026",
    "dbo.Straße",
    "hr.v1.Absences",
)
"""The first of all worlds: the states of `_STATES`, and names that are hard for paths."""
_STATES: Final = ("flowing", "behind", "stopped", "paused", "snapshot", "gap", "idle", "flowing")
_SCHEMAS: Final = ("dbo", "sales", "stock", "hr", "billing", "crm", "audit", "web")
_NOUNS: Final = (
    "Customers",
    "Addresses",
    "Prices",
    "Payments",
    "Shipments",
    "Returns",
    "Carts",
    "Products",
    "Vouchers",
)
REASONS: Final = (
    ("MessageTooLarge", "the message has 1,204,322 bytes, and the topic takes 1,048,576"),
    ("FilterFailed", "the filter of dbo.Orders compares a number with a text"),
    ("MaxDeliveryCountExceeded", "it was delivered 10 times and never completed"),
    ("UnknownDestination", "no table of the configuration has this topic"),
)


@dataclass(slots=True)
class Row:
    """A table of this world. `pace`: changes a second while it flows."""

    name: str
    kind: str
    pace: float
    topic: str
    owner: str
    subscriptions: tuple[str, ...]
    phase: float
    pause: Pause | None = None
    offset_moved: str | None = None


@dataclass(slots=True)
class Letter:
    """A dead letter that lies there."""

    sequence: int
    reason: str
    description: str
    replays: int = 0


@dataclass(slots=True)
class World:
    tables: int
    seed: int
    changes_allowed: bool
    dead: int
    now: Callable[[], float]
    look_every: float
    born: float = 0.0
    rows: list[Row] = field(default_factory=list)
    letters: dict[str, dict[int, Letter]] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    by_name: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.born = self.now()
        random = Random(self.seed)
        self.rows = [self._row(number, random) for number in range(max(self.tables, len(_FIRST)))]
        self.by_name = {row.name.casefold(): row for row in self.rows}
        self.letters["queue"] = self._letters(self.dead, random)
        for row in self.rows[:3]:
            self.letters[f"topic/{row.topic}/{row.subscriptions[0]}"] = self._letters(random.randint(3, 20), random)
        self.rows[3].pause = Pause(at=self.text(-1800), by="anna@ops-laptop", reason="a bulk load of the warehouse")
        self._history()

    def _row(self, number: int, random: Random) -> Row:
        if number < len(_FIRST):
            name, kind = _FIRST[number], _STATES[number]
        else:
            count, schema = number // 72, _SCHEMAS[number // 9 % 8]
            name = f"{schema}.{_NOUNS[number % 9]}{count or ''}"
            kind = random.choice(("flowing", "flowing", "idle"))
        topic = f"sql-prod-3.shop.{name.lower().replace(' ', '-').replace('/', '-').replace('ß', 'ss')}.events"
        subscriptions = ("warehouse", "search") if number < 3 else ("warehouse",)
        owner = f"ingester-{random.randint(0, 2)}"
        return Row(name, kind, round(random.uniform(0.2, 40), 1), topic, owner, subscriptions, random.random() * 6)

    def _letters(self, count: int, random: Random) -> dict[int, Letter]:
        found, sequence = {}, 1000
        for _ in range(count):
            sequence += random.randint(1, 40)
            found[sequence] = Letter(sequence, *random.choice(REASONS), replays=random.choice((0, 0, 0, 1, 3)))
        return found

    def _history(self) -> None:
        self.moves = [
            Move(
                table=self.rows[0].name,
                at=self.text(-86_400 * (number + 1)),
                login="shop\\anna",
                host="ops-laptop",
                begun=self.position(-86_400 * (number + 1)),
                to=self.position(-86_400 * (number + 2)),
                reason="a subscriber lost its copy",
            )
            for number in range(3)
        ]
        states = (("running", 45_000), ("waiting", 0), ("done", 120_000), ("stopped", 10))
        self.snapshots = [
            Snapshot.model_validate(
                {
                    "id": f"{0xA0 + number:032x}",
                    "table": self.rows[4 if number < 2 else number].name,
                    "state": state,
                    "rows": rows,
                    "about": 120_000,
                    "where": None if number else "[Quantity] > 0",
                    "asked_at": self.text(-3600 * (number + 1)),
                    "asked_by": "shop\\anna",
                    "begun_at": None if state == "waiting" else self.text(-3500 * (number + 1)),
                    "updated_at": self.text(-5),
                    "owner": "ingester-1" if state == "running" else None,
                }
            )
            for number, (state, rows) in enumerate(states)
        ]

    def text(self, after: float = 0.0) -> str:
        """A time as the documents have it, `after` seconds from now."""
        return datetime.fromtimestamp(self.now() + after, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    def lsn(self, after: float = 0.0) -> str:
        return f"{int((self.now() + after) * 100):020x}"

    def position(self, after: float = 0.0) -> str:
        return f"after the transaction {self.lsn(after)} of {self.text(after)}"

    def row(self, name: str) -> Row:
        found = self.by_name.get(name.casefold())
        if found is None:
            raise NotFound(f"there is no table {name[:300]}", hint="see the list of tables, or ingester.tables")
        return found

    def entities(self) -> list[Entity]:
        age = self.now() - self.born
        waiting = int(300 + 250 * math.sin(age / 40))
        queue = Entity(
            entity="queue",
            kind="queue",
            name="ingest-queue",
            active=waiting,
            dead_letters=len(self.letters["queue"]),
            scheduled=0,
            transfer_dead_letters=0,
            used_share=0.02 + waiting / 50_000,
        )
        return [queue, *(each for row in self.rows for each in self._subscriptions(row, age))]

    def _subscriptions(self, row: Row, age: float) -> list[Entity]:
        return [
            Entity(
                entity=name,
                kind="subscription",
                name=row.topic,
                subscription=subscription,
                active=int(row.pace * (1.5 + math.sin(age / 20 + row.phase + number))),
                dead_letters=len(self.letters.get(name, ())),
                scheduled=0,
                transfer_dead_letters=0,
                used_share=0.01,
            )
            for number, subscription in enumerate(row.subscriptions)
            for name in (f"topic/{row.topic}/{subscription}",)
        ]

    def entity(self, name: str) -> Entity:
        for each in self.entities():
            if each.entity == name:
                return each
        raise NotFound(f"there is no entity {name[:300]}", hint="GET /api/v1/entities lists them")

    def random(self, *of: object) -> Random:
        """The same for the same things, whatever was asked before."""
        return Random(zlib.crc32(repr((self.seed, *of)).encode()))
