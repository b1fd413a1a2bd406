"""What a change costs the server that is read: processor time of SQL Server's emulator a row, for several readers at once.

    .venv/bin/python -m bench.server_readers [--rows 20000] [--readers 1 4 16] [--rounds 3]

`pages`: the very statements by which the product reads its pages of 10 mixed columns, replayed by pymssql's fetchall. `plain`: the same pages by
SELECT ct.*, with nothing but the position in the condition: no reader of a change table costs less. Each reader is a process of its own.
Medians of the rounds; the last line is JSON. It says how the two compare, and how the emulator takes many readers; nothing about SQL Server.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

from bench.ingest import place_of, pool_of
from bench.ingestion import stages, system
from bench.ingestion.ground import Ground
from common.names import TableName

_FEWEST_PAGES: Final = 2
"""That a reader reads, however many there are."""


def pages(place: stages.Place, statements: Sequence[str]) -> int:
    """The rows that the product's statements return."""
    with place.login.connect() as connection, connection.cursor() as cursor:
        return sum(len(stages.whole_batch(cursor, statement)) for statement in statements)


def plain(place: stages.Place, table: TableName, count: int) -> int:
    """The rows of `count` pages of a change table as they lie."""
    rows, lsn, seqval = 0, b"\0" * 10, b"\0" * 10
    with place.login.connect() as connection, connection.cursor() as cursor:
        for _ in range(count):
            cursor.execute(
                f"SELECT TOP ({stages.PAGE_ROWS}) ct.* FROM cdc.{table.schema}_{table.table}_CT AS ct WHERE ct.[__$start_lsn] >= 0x{lsn.hex()} "
                f"AND (ct.[__$start_lsn] > 0x{lsn.hex()} OR ct.[__$seqval] > 0x{seqval.hex()}) ORDER BY ct.[__$start_lsn], ct.[__$seqval]"
            )
            found = cursor.fetchall()
            if not found:
                break
            rows += len(found)
            lsn, seqval = bytes(found[-1][0]), bytes(found[-1][2])
    return rows


def cost(server: int, readers: int, read: Callable[..., int], *arguments: Any) -> float:
    """Microseconds of the server's processor time a row, of as many readers at once."""
    with pool_of(readers) as pool:
        before = system.processor_seconds(server)
        rows = sum(pool.starmap(read, [arguments] * readers, chunksize=1))
        return (system.processor_seconds(server) - before) / rows * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--readers", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with Ground() as ground:
        table = ground.table("Read")
        ground.fill(table, chosen.rows)
        place, server = place_of(ground, "readers"), ground.emulators.pid("sqlserver")
        statements = stages.split(place, [table], ahead=False).statements
        for readers in chosen.readers:
            some = statements[: max(_FEWEST_PAGES, len(statements) // readers)]
            rounds = [
                (
                    cost(server, readers, pages, place, some),
                    cost(server, readers, plain, place, table, len(some)),
                )
                for _ in range(chosen.rounds)
            ]
            ours, bare = (round(median(each), 1) for each in zip(*rounds, strict=True))
            found[str(readers)] = {"pages_us": ours, "plain_us": bare}
            print(f"{readers:3} readers: pages {ours:6.1f} us a row, plain {bare:6.1f} us a row", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
