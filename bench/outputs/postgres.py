"""How fast the output `postgres` applies changes, beside bare loops of psycopg; against a PostgreSQL that the tests' way starts.

    .venv/bin/python -m bench.outputs.postgres [--messages 20000] [--rounds 5] [--page 700]

All read the same messages, write the same rows with the position, and commit each page. `executemany`: one guarded upsert a row, in psycopg's
pipeline, which is what a consumer would write. `copy`: COPY into a temporary table and one upsert from there, without looking for deleted keys.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson
import psycopg

from bench.outputs.compared import Way, compared
from common.message import Message
from router.outputs.port import Stream
from tests.outputs.contract.world import change
from tests.outputs.postgres.world import PostgresWorld, made

_UPSERT = (
    "INSERT INTO {} AS t VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET firstname = excluded.firstname, lastname = excluded.lastname, "
    "_dstream_position = excluded._dstream_position WHERE t._dstream_position <= excluded._dstream_position"
)
_FROM_COPY = (
    "INSERT INTO {} AS t SELECT * FROM loaded ON CONFLICT (id) DO UPDATE SET firstname = excluded.firstname, lastname = excluded.lastname, "
    "_dstream_position = excluded._dstream_position WHERE t._dstream_position <= excluded._dstream_position"
)


def row(message: Message) -> tuple[Any, ...]:
    body = orjson.loads(message.body)
    data, of = body["data"], body["metadata"]
    position = bytes.fromhex(f"{of['LSN']}{of['CommandID']:08x}{of['SeqVal']}{of['OperationID']:02x}")
    return data["ID"], data["FirstName"], data["LastName"], position


def pages(messages: Sequence[Message], size: int) -> list[Sequence[Message]]:
    return [messages[at : at + size] for at in range(0, len(messages), size)]


def executemany(connection: psycopg.Connection[Any], place: str, size: int) -> Way:
    def way(messages: Sequence[Message]) -> None:
        for page in pages(messages, size):
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(_UPSERT.format(place).encode(), [row(message) for message in page])

    return way


def copy(connection: psycopg.Connection[Any], place: str, size: int) -> Way:
    connection.execute(f"CREATE TEMP TABLE loaded (LIKE {place}) ON COMMIT DELETE ROWS".encode())

    def way(messages: Sequence[Message]) -> None:
        for page in pages(messages, size):
            with connection.transaction(), connection.cursor() as cursor:
                with cursor.copy("COPY loaded FROM STDIN") as loading:
                    for message in page:
                        loading.write_row(row(message))
                cursor.execute(_FROM_COPY.format(place).encode())

    return way


def dstream(world: PostgresWorld, stream: Stream, size: int) -> Way:
    recipe = world.recipe()
    sender = made(**{**recipe.arguments, "port": world.port}).sender(stream)
    sender.open()

    def way(messages: Sequence[Message]) -> None:
        for page in pages(messages, size):
            sender.send(page)

    return way


def fresh(streams: dict[str, Stream], count: int) -> Callable[[str, int], Sequence[Message]]:
    """Half of the rows of a turn are new, and half are those of the turn before. The bodies are written as the ingester writes them."""

    def one(way: str, number: int) -> Message:
        made = change(streams[way], number, None)
        return replace(made, body=orjson.dumps(orjson.loads(made.body)))

    return lambda way, turn: [one(way, number) for number in range(turn * count // 2, turn * count // 2 + count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("messages", 20_000), ("rounds", 5), ("page", 700)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with PostgresWorld() as world:
        streams = {way: world.place() for way in ("dstream", "executemany", "copy")}
        one, other = world.server.connect(), world.server.connect()
        ways = {
            "dstream": dstream(world, streams["dstream"], given.page),
            "executemany": executemany(one, streams["executemany"].destination, given.page),
            "copy": copy(other, streams["copy"].destination, given.page),
        }
        compared("postgres", ways, fresh(streams, given.messages), rounds=given.rounds, bare="executemany")


if __name__ == "__main__":
    main()
