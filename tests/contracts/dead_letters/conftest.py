"""A namespace with dead letters, and the engine that sends them again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient

from common.bus.browsing import Lying, Shelf
from common.bus.ports import Need, QueueNeed, TopicNeed
from common.buses import shelves_of
from common.message import Message
from common.names import TableName
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from desk.audit import AuditFile
from desk.dead_letters.engine import Engine
from desk.dead_letters.taking import Pace
from desk.desk import Actor
from desk.documents.messages import DeadLetterOrder
from emulators.servicebus.server import ServiceBusEmulator
from ingester.operating.newer import ChangeRef, Newer, NewerChanges, Sent
from router.settings import RouterSettings

_FILE = """ingester {{
  db_type = "sqlserver"
  db_connection_string = "{database}"
  server_name = "srv"
  database = "db"
  queue {{
    name = "{queue}"
    connection_string = "{connection}"
    management_endpoint = "{endpoint}"
  }}
  tables = ["Persons"]
  locks {{
    type = "local"
  }}
}}
router {{
  source {{
    connection_string = "{connection}"
    management_endpoint = "{endpoint}"
  }}
  output {{
    type = "servicebus"
    connection_string = "{connection}"
    management_endpoint = "{endpoint}"
  }}
{outputs}}}
"""
NO_SERVER = "sqlserver://u:p@127.0.0.1:1?database=db&dial+timeout=1"
QUEUE, PERSONS = "ingest-queue", "srv.db.persons.events"
ADA = Actor("ada", "command", "r1")
QUICK = Pace(wait=0.5, stuck=5, longest_lock=70, look_again=0.2, patience=5)


class Rows:
    """What SQL Server would say."""

    def __init__(self, answers: Mapping[int, Newer] | None = None) -> None:
        self.answers = answers or {}
        self.asked: list[ChangeRef] = []

    def newer_sent(self, changes: Sequence[ChangeRef]) -> Mapping[ChangeRef, Newer]:
        self.asked += changes
        return {each: self.answers.get(int(each.lsn, 16), Newer(Sent.NO)) for each in changes}

    def close(self) -> None:
        pass


def change(number: int, *, session: str = PERSONS, row: int = 1, **properties: Any) -> Message:
    metadata = {
        "Schema": "dbo",
        "TableName": "Persons",
        "LSN": f"{number:020x}",
        "SeqVal": f"{number:020x}",
        "OperationID": 4,
        "EventID": f"event-{number}",
        "Destination": PERSONS,
    }
    body = json.dumps({"data": {"ID": row, "Name": f"name {number}"}, "metadata": metadata}).encode()
    told: dict[str, Any] = {
        "table": "Persons",
        "schema": "dbo",
        "operation": "Update",
        "destination": PERSONS,
        "n": number,
    }
    return Message(body, f"event-{number}", session, subject="Update", application_properties={**told, **properties})


@dataclass
class Namespace:
    emulator: ServiceBusEmulator
    folder: Path
    rows: Rows | None = field(default_factory=Rows)
    pace: Pace = QUICK

    def __post_init__(self) -> None:
        self.bus = ServiceBus.from_connection_string(self.emulator.connection_string)
        self.audit = AuditFile(self.folder / "audit.jsonl")

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.emulator.http_port}"

    def configuration(self, *, database: str = NO_SERVER, outputs: str = "") -> str:
        """A `dstream.hcl` of this namespace. `outputs`: further blocks of the router."""
        return _FILE.format(
            database=database,
            queue=QUEUE,
            connection=self.emulator.connection_string,
            endpoint=self.endpoint,
            outputs=outputs.format(connection=self.emulator.connection_string, endpoint=self.endpoint),
        )

    def create(self, *, window: timedelta = timedelta(minutes=10), sessions: bool = True) -> None:
        needs: list[Need] = [
            QueueNeed(QUEUE, sessions=sessions, duplicate_window=window),
            TopicNeed(PERSONS, ("sub1", "sub2"), duplicate_window=window),
        ]
        provision(self.bus.address, needs, how="create", management_endpoint=self.endpoint)

    def settings(self) -> RouterSettings:
        namespace: Any = {
            "type": "servicebus",
            "connection_string": self.emulator.connection_string,
            "management_endpoint": self.endpoint,
        }
        return RouterSettings(
            source=namespace,
            output=namespace,
            queue_name=QUEUE,
            ordering="table",
            topics={PERSONS: TableName("dbo", "Persons")},
            subscriptions=("sub1", "sub2"),
        )

    def engine(self, newer: Callable[[], NewerChanges | None] | None = None) -> Engine:
        settings = self.settings()
        return Engine(
            lambda: settings, shelves_of, newer or (lambda: self.rows), self.folder / "replays", self.audit, self.pace
        )

    def bury(self, messages: Sequence[Message], *, reason: str = "Refused", subscription: str | None = None) -> None:
        """Dead letters of the queue, or of a subscription of the topic."""
        entity = QUEUE if subscription is None else PERSONS
        sender = self.bus.sender(entity)
        sender.send(messages)
        sender.close()
        with ServiceBusClient.from_connection_string(self.emulator.connection_string) as client:
            sessions = list(dict.fromkeys(each.session_id for each in messages)) if subscription is None else [None]
            for session in sessions:
                receiver = (
                    client.get_queue_receiver(QUEUE, session_id=session, prefetch_count=500)
                    if subscription is None
                    else client.get_subscription_receiver(PERSONS, subscription, prefetch_count=500)
                )
                left = sum(session is None or each.session_id == session for each in messages)
                with receiver:
                    while left:
                        for each in receiver.receive_messages(left, max_wait_time=10):
                            receiver.dead_letter_message(each, reason=reason, error_description="on purpose")
                            left -= 1

    def lying(self, shelf: Shelf) -> list[Lying]:
        browser, found, first = shelves_of(self.settings().source).browser(shelf), list[Lying](), 0
        try:
            while page := browser.page(first=first, most=250):
                found += page
                first = page[-1].sequence + 1
        finally:
            browser.close()
        return found

    @property
    def dead(self) -> list[Lying]:
        return self.lying(Shelf(QUEUE, dead=True))

    @property
    def waiting(self) -> list[Lying]:
        return self.lying(Shelf(QUEUE))


def order(entity: str = "queue", **changes: Any) -> DeadLetterOrder:
    return DeadLetterOrder(**{"entity": entity, "dry_run": False, "safe": False, **changes})


def numbers(found: Sequence[Lying]) -> list[int]:
    return [int(str(each.message.application_properties["n"])) for each in found]


@pytest.fixture
def namespace(tmp_path: Path) -> Iterator[Namespace]:
    with ServiceBusEmulator() as emulator:
        made = Namespace(emulator, tmp_path / "state")
        made.create()
        yield made


__all__ = ["ADA", "PERSONS", "QUEUE", "Namespace", "Rows", "change", "numbers", "order", "replace"]
