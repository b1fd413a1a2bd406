"""PostgreSQL as the contract of outputs needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import SecretStr

from common.message import Message
from common.names import TableName
from router.outputs.port import Stream
from router.outputs.postgres.output import PostgresOutput
from router.outputs.postgres.settings import PostgresSettings
from tests.outputs.contract.world import GENEROUS, ORIGIN, Arrival, Recipe, World, change
from tests.outputs.postgres.server import DATABASE, PASSWORD, ROLE, PostgresServer

STRANGER, STRANGERS_PASSWORD = "stranger", "Stranger-Secret-1"


def made(port: int, timeout: float, user: str, password: str) -> PostgresOutput:
    """An output for any process."""
    return PostgresOutput(settings(port, timeout=timeout, user=user, password=password))


def settings(
    port: int, *, timeout: float = GENEROUS, user: str = ROLE, password: str = PASSWORD, **more: Any
) -> PostgresSettings:
    given = {
        "host": f"127.0.0.1:{port}",
        "database": DATABASE,
        "user": user,
        "password": SecretStr(password),
        "tls": "disable",
        "timeout": timedelta(seconds=timeout),
        "name": "copy",
    }
    return PostgresSettings.model_validate({**given, **more})


class PostgresWorld(World):
    impossible: ClassVar[Mapping[str, str]] = {
        "test_provision_creates_and_can_be_repeated": "a start knows no columns: a schema event creates a table",
        "test_a_missing_place_that_is_created_is_used_by_the_same_sender": "a schema event creates a table, no start does",
    }
    keeps_order: ClassVar[bool] = False
    secrets = (PASSWORD, STRANGERS_PASSWORD)

    def __init__(self) -> None:
        super().__init__()
        self.server = PostgresServer()
        self._entered = False

    @property
    def port(self) -> int:
        return self.server.port

    def start(self) -> None:
        if self._entered:
            self.server.start()
            return
        self._stack.enter_context(self.server)
        self._entered = True
        output = made(self.port, GENEROUS, ROLE, PASSWORD)
        output.provision([], how="create")
        output.close()
        self.server.run(
            f"CREATE ROLE {STRANGER} LOGIN PASSWORD '{STRANGERS_PASSWORD}'",
            f"CREATE SCHEMA dbo AUTHORIZATION {ROLE}",
            f"GRANT USAGE ON SCHEMA dstream, dbo TO {STRANGER}",
            f"GRANT ALL ON ALL TABLES IN SCHEMA dstream TO {STRANGER}",
        )

    def stop(self) -> None:
        self.server.stop()

    def recipe(self, *, timeout: float = GENEROUS) -> Recipe:
        return self._recipe(timeout, ROLE, PASSWORD)

    def without_right(self, stream: Stream) -> Recipe:
        return self._recipe(GENEROUS, STRANGER, STRANGERS_PASSWORD)

    def _recipe(self, timeout: float, user: str, password: str) -> Recipe:
        arguments = {"port": self.relay.port, "timeout": timeout, "user": user, "password": password}
        return Recipe("tests.outputs.postgres.world:made", arguments)

    def place(self) -> Stream:
        stream = self.nowhere()
        self.server.run(
            f"CREATE TABLE {stream.destination} (id int PRIMARY KEY, firstname text, lastname text, _dstream_position bytea)",
            f"ALTER TABLE {stream.destination} OWNER TO {ROLE}",
        )
        return stream

    def destination(self, table: TableName) -> str:
        return settings(1).place(ORIGIN, ORIGIN.topic(table), table)

    def arrived(self, stream: Stream) -> Sequence[Arrival]:
        rows = self.server.rows(f"SELECT id FROM {stream.destination} ORDER BY _dstream_position")
        return [Arrival(str(change(stream, number, None).message_id), None, None) for (number,) in rows]

    def refusable(self, stream: Stream, number: int, session: str | None) -> Message:
        return change(stream, number, session, text="a\0b")

    @contextmanager
    def busy(self) -> Iterator[None]:
        self.server.run(f"ALTER ROLE {ROLE} CONNECTION LIMIT 0")
        try:
            yield
        finally:
            self.server.run(f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")
