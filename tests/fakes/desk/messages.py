"""The port `Messages` over the invented world: each message is made from its entity and sequence number, the same whenever it is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from common.errors import ConfigurationError
from desk.desk import NotFound
from desk.documents.messages import Message, MessageDetail, MessageFilter, MessagePage, Step, Stories, Story, StoryOrder
from desk.documents.shape import Unknown
from desk.messages.remedies import remedy as what_to_do
from tests.fakes.desk.world import DATABASE, SERVER, Row, World

LIMIT = 256 * 1024
_MOST_EXAMINED = 5_000
_OPERATIONS = (("Insert", 2), ("Update", 4), ("Delete", 1), ("Read", 9))


@dataclass(frozen=True, slots=True)
class FakeMessages:
    world: World

    def page(
        self,
        entity: str,
        *,
        dead: bool,
        chosen: MessageFilter,
        after: str | None,
        most: int,
        newest_first: bool = False,
    ) -> MessagePage:
        with self.world.lock:
            sequences = self.sequences(entity, dead)
        if after is not None:
            if not after.lstrip("-").isascii() or not after.lstrip("-").isdecimal() or len(after) > 19:
                raise ConfigurationError([f"after: {after[:100]!r} does not come from a page"], hint="leave it out")
            limit = int(after)
            sequences = [each for each in sequences if (each < limit if newest_first else each > limit)]
        ordered = reversed(sequences) if newest_first else iter(sequences)
        items, last, examined = list[Message](), None, 0
        for sequence in islice(ordered, _MOST_EXAMINED):
            examined, last = examined + 1, sequence
            detail = self.detail(entity, dead, sequence)
            if matches(detail, chosen):
                items.append(Message.model_validate(detail.model_dump(include=set(Message.model_fields))))
            if len(items) == most:
                break
        more = last is not None and last != (sequences[0] if newest_first else sequences[-1])
        return MessagePage(items=items, next=str(last) if more else None, examined=examined)

    def message(self, entity: str, *, dead: bool, sequence: int) -> MessageDetail:
        with self.world.lock:
            if sequence not in self.sequences(entity, dead):
                raise NotFound(
                    f"there is no message {sequence} in {entity[:300]}", hint="it may have been taken meanwhile"
                )
            return self.detail(entity, dead, sequence)

    def sequences(self, entity: str, dead: bool) -> Sequence[int]:
        """Of what lies there now, rising."""
        found = self.world.entity(entity)
        if dead:
            return sorted(self.world.letters.get(entity, ()))
        newest = 200_000 + int((self.world.now() - self.world.born) * 10)
        return range(newest - (found.active or 0), newest)

    def detail(self, entity: str, dead: bool, sequence: int) -> MessageDetail:
        random = self.world.random(entity, sequence)
        row = self._row(entity, random.randrange(len(self.world.rows)))
        schema, _, table = row.name.partition(".")
        operation, number = random.choice(_OPERATIONS)
        at = self.world.born - 600 + sequence / 1000
        lsn = f"{int(at * 100):020x}"
        key = random.randint(1, 500)
        letter = self.world.letters.get(entity, {}).get(sequence) if dead else None
        event = f"{DATABASE}.{row.name}:{lsn}-1-{lsn}-{number}"
        commit = datetime.fromtimestamp(at, UTC)
        body = json.dumps(
            {
                "data": {
                    "ID": key,
                    "Name": random.choice(("Ada", "Grace", "Zoë", "<script>alert(1)</script>")),
                    "Total": "12.50",
                },
                "metadata": {
                    "CommitTime": commit.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                    "Database": DATABASE,
                    "Destination": row.topic,
                    "EventID": event,
                    "LSN": lsn,
                    "OperationType": operation,
                    "Schema": schema,
                    "Server": SERVER,
                    "TableName": table,
                },
            },
            ensure_ascii=False,
        )
        stated = None if letter is None else what_to_do(letter.reason)
        return MessageDetail(
            entity=entity,
            dead=dead,
            sequence=sequence,
            message_id=event[-128:],
            session_id=f"{DATABASE}.{row.name}",
            event_id=event,
            table=row.name,
            operation=operation,
            lsn=lsn,
            commit_time=commit.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            enqueued_at=datetime.fromtimestamp(at + 1, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            delivery_count=10 if letter else 0,
            size=len(body.encode()),
            destination=row.topic,
            reason=letter.reason if letter else None,
            description=letter.description if letter else None,
            replays=letter.replays if letter else 0,
            properties={"Destination": row.topic, "SchemaVersion": "ac89c386a7eb"},
            body=body,
            body_limit=LIMIT,
            remedy=stated,
        )

    def _row(self, entity: str, number: int) -> Row:
        if entity != "queue":
            topic = entity.split("/")[1]
            return next(row for row in self.world.rows if row.topic == topic)
        return self.world.rows[number]

    def stories(self, order: StoryOrder) -> Stories:
        if (order.event_id is None) == (order.table is None):
            raise ConfigurationError(["either event_id is needed, or table and key"])
        if order.event_id is not None:
            table = order.event_id.partition(":")[0].partition(".")[2]
            row = self.world.by_name.get(table.casefold())
            if row is None:
                return Stories(items=[self._no_trace(order.event_id)])
            return Stories(items=[self._story(row, order.event_id)])
        if not order.key:
            raise ConfigurationError(["key: the columns of the key are needed, with their values"])
        row = self.world.row(order.table or "")
        found = list(islice(self._of_key(row, order.key), order.most))
        return Stories(items=found, more=len(found) == order.most)

    def _of_key(self, row: Row, key: dict[str, str]) -> Iterator[Story]:
        random = self.world.random(row.name, sorted(key.items()))
        for number in range(random.randint(1, 12)):
            lsn = self.world.lsn(-600 * number)
            yield self._story(row, f"{DATABASE}.{row.name}:{lsn}-1-{lsn}-4")

    def _story(self, row: Row, event: str) -> Story:
        random = self.world.random(event)
        verdict, why, remedy = random.choice(
            (
                ("delivered", "it is in the topic since 1.4 s after its commit", None),
                ("queued", "it waits in the queue behind 3 changes of its table", None),
                ("filtered", "the filter of the table leaves it out: data.Total > 100", "change ingester.table.filter"),
                (
                    "poison",
                    "it is a dead letter of the queue: MessageTooLarge",
                    "raise the topic's limit, and replay it",
                ),
                ("paused", "its table is paused since 13:20", "resume the table"),
            )
        )
        here = {"delivered": 5, "queued": 3, "filtered": 2, "poison": 3, "paused": 1}[verdict]
        places = ("commit", "change_table", "ingester", "queue", "router", "topic")
        steps = [
            Step.model_validate(
                {
                    "place": place,
                    "state": "passed" if number < here else "here" if number == here else "not_yet",
                    "at": self.world.text(-600 + number) if number <= here else None,
                    "after_seconds": number * 0.31 if number <= here else None,
                    "what": f"{place.replace('_', ' ')} of {row.name}",
                    "entity": "queue" if place == "queue" else f"topic/{row.topic}" if place == "topic" else None,
                }
            )
            for number, place in enumerate(places)
        ]
        return Story.model_validate(
            {
                "event_id": event,
                "table": row.name,
                "operation": random.choice(_OPERATIONS)[0],
                "lsn": event.rpartition(":")[2][:20],
                "verdict": verdict,
                "why": why,
                "remedy": remedy,
                "steps": steps,
            }
        )

    def _no_trace(self, event: str) -> Story:
        return Story(
            event_id=event,
            table=event.partition(":")[0][:300],
            verdict="no_trace",
            why="no change table, queue or topic has it",
            remedy="look whether cleanup has removed it",
            steps=[Step(place="change_table", state="unknown", what="there is no such change")],
            unknown=[Unknown(what="topics", text="what subscribers have read is gone")],
        )


def matches(detail: MessageDetail, chosen: MessageFilter) -> bool:
    enqueued = datetime.fromisoformat(detail.enqueued_at or "1970-01-01T00:00:00+00:00")
    table = (detail.table or "").casefold()
    wanted = (
        chosen.table is None or chosen.table.casefold() in (table, table.partition(".")[2]),
        chosen.operation is None or chosen.operation == detail.operation,
        chosen.event_id is None or chosen.event_id == detail.event_id,
        chosen.message_id is None or chosen.message_id == detail.message_id,
        chosen.session_id is None or chosen.session_id == detail.session_id,
        chosen.reason is None or chosen.reason == detail.reason,
        chosen.since is None or enqueued >= zoned(chosen.since),
        chosen.until is None or enqueued < zoned(chosen.until),
        chosen.text is None or chosen.text in (detail.body or ""),
    )
    return all(wanted)


def zoned(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
