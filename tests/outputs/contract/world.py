"""What the contract needs of a real server: where it is, what an output is told to reach it, and what has arrived there."""

from __future__ import annotations

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from common.message import Message, Property
from common.names import Origin, TableName
from router.outputs.port import Output, Stream
from tests.worlds.tcp_relay import TcpRelay

ORIGIN = Origin("server", "shop")

GENEROUS = 30.0
"""Seconds: the `timeout` of an output whose server answers."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How any process makes an output. `factory`: `module:function`, which takes `arguments` by name; they can be pickled."""

    factory: str
    arguments: Mapping[str, Any]

    def output(self) -> Output:
        module, _, function = self.factory.partition(":")
        made: Output = getattr(importlib.import_module(module), function)(**self.arguments)
        return made


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message as the server has it. `body`: None where the server keeps none that could be compared."""

    id: str
    session: str | None
    body: bytes | None


class World(ABC):
    """A real server, started when entered, that clients reach over `relay`. It keeps what it accepted when it is stopped and started.

    `impossible`: cases that cannot be, by the name of the test, each with the reason.
    `keeps_order`: whether `arrived` is in the order of arrival. Where it is False, the server keeps the state of each key.
    `secrets`: texts that must never be seen in a log, an error, a repr or a plan.
    `warned_of`: in findings of what is well: words of warnings about this world, which are right.
    """

    impossible: ClassVar[Mapping[str, str]] = {}
    keeps_order: ClassVar[bool] = True
    secrets: Sequence[str] = ()
    warned_of: Sequence[str] = ()

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._streams = 0

    def __enter__(self) -> Self:
        self.start()
        self._stack.callback(self.stop)
        self.relay = self._stack.enter_context(TcpRelay(self.port))
        return self

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    @property
    @abstractmethod
    def port(self) -> int:
        """The server's own, the same after each start."""

    @abstractmethod
    def start(self) -> None:
        """Returns when it answers."""

    @abstractmethod
    def stop(self) -> None:
        """At once, as SIGKILL does; harmless when it is stopped."""

    @abstractmethod
    def recipe(self, *, timeout: float = GENEROUS) -> Recipe:
        """Of an output that reaches the server over `relay` and may do everything. `timeout`: its setting, in seconds."""

    def without_right(self, stream: Stream) -> Recipe:
        """Of an output that the server does not let send to `stream`."""
        raise NotImplementedError

    def place(self) -> Stream:
        """A new one, which exists."""
        return self.nowhere()

    def nowhere(self) -> Stream:
        """A new one, which does not exist; `provision` can create it."""
        self._streams += 1
        table = TableName("dbo", f"Persons{self._streams}")
        return Stream(ORIGIN.topic(table), table, self.destination(table))

    @abstractmethod
    def destination(self, table: TableName) -> str:
        """As the default template gives it."""

    @abstractmethod
    def arrived(self, stream: Stream) -> Sequence[Arrival]:
        """All that the server has accepted for `stream`, read past the relay."""

    def message(self, stream: Stream, number: int, session: str | None) -> Message:
        """The change with this number, which inserts a row with this key."""
        return change(stream, number, session)

    def refusable(self, stream: Stream, number: int, session: str | None) -> Message:
        """A message that the server never takes, for its own sake."""
        raise NotImplementedError

    def busy(self) -> AbstractContextManager[object]:
        """Inside, the server says that it has too much to do."""
        raise NotImplementedError


def change(stream: Stream, number: int, session: str | None, *, text: str = "Wałęsa", size: int = 0) -> Message:
    """An insert as the ingester writes it. `size`: bytes that its row has beside the names."""
    assert stream.table is not None
    lsn, seqval, table = f"{number + 1:020x}", f"{number + 2:020x}", stream.table
    event_id = f"shop.{table.schema}.{table.table}:{lsn}-1-{seqval}-2"
    metadata = {
        "CaptureInstance": f"{table.schema}_{table.table}",
        "CommandID": 1,
        "CommitTime": "2026-11-21T10:23:45.457Z",
        "Database": "shop",
        "Destination": stream.topic,
        "EventID": event_id,
        "IngestQueue": "ingest-queue",
        "LSN": lsn,
        "OperationID": 2,
        "OperationType": "Insert",
        "Schema": table.schema,
        "SchemaVersion": "ac89c386a7eb",
        "SeqVal": seqval,
        "Server": "server",
        "TableName": table.table,
    }
    row = {"ID": number, "FirstName": "Diana", "LastName": text + "x" * size}
    return Message(
        json.dumps({"data": row, "metadata": metadata}, ensure_ascii=False, separators=(",", ":")).encode(),
        event_id,
        session_id=session,
        subject=f"{table.schema}.{table.table}",
        application_properties={
            Property.TABLE: table.table,
            Property.SCHEMA: table.schema,
            Property.DATABASE: "shop",
            Property.OPERATION: "Insert",
            Property.LSN: lsn,
            Property.DESTINATION: stream.topic,
            Property.SCHEMA_VERSION: "ac89c386a7eb",
        },
    )


def session(stream: Stream, bucket: int) -> str:
    """As with `ordering = "key"`."""
    return f"{stream.topic}#{bucket}"
