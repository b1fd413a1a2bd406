"""A change table of a million rows in the SQL Server emulator: does paging stay linear, does the server's memory stay flat.

    .venv/bin/python bench/sqlserver_emulator.py [--rows 1000000] [--page 5000]

The emulator runs as a process of its own. Rows of 10 mixed columns are written by pymssql in transactions of 5,000, captured, and paged
through twice: by the driver alone (the bare rows), and by the product's own source (rows made into changes).
Prints rows/s for each tenth of the table and the server's memory; the last line is JSON with the same figures.
Nothing of this says anything about SQL Server's speed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import SecretStr

from common.names import TableName
from common.sqladdress import SqlAddress
from dstream.emulators import Emulators
from ingester.source import PageQuery, ProbeRequest
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.source import SqlServerSource

TABLE = TableName("dbo", "Wide")
CREATE = """\
CREATE TABLE dbo.Wide (
    Id INT NOT NULL PRIMARY KEY, Big BIGINT, Name NVARCHAR(50), Code VARCHAR(20), Amount DECIMAL(18,4), Price MONEY,
    Ratio FLOAT, Seen DATETIME2(7), Guid UNIQUEIDENTIFIER, Flag BIT
)"""
STATEMENT_ROWS, TRANSACTION_ROWS = 500, 5000
TENTHS = 10


def fill(cursor: Any, rows: int) -> float:
    """Write `rows` rows; rows/s."""
    started = time.perf_counter()
    for first in range(0, rows, TRANSACTION_ROWS):
        cursor.execute("BEGIN TRANSACTION")
        for start in range(first, min(first + TRANSACTION_ROWS, rows), STATEMENT_ROWS):
            values = ", ".join(
                f"({n}, {n * 7919}, N'name {n}', 'code-{n % 997}', {n}.1234, {n % 1000}.5, {n}.25e0, "
                f"'2026-11-21T10:00:00.1234567', '6F9619FF-8B86-D011-B42D-{n:012X}', {n % 2})"
                for n in range(start, min(start + STATEMENT_ROWS, rows))
            )
            cursor.execute(f"INSERT INTO dbo.Wide VALUES {values}")
        cursor.execute("COMMIT TRANSACTION")
    return rows / (time.perf_counter() - started)


def bare_pages(cursor: Any, page: int) -> Iterator[int]:
    """The rows as the driver hands them over, by position."""
    after = (b"\0" * 10, 0, b"\0" * 10, 0)
    while True:
        lsn, command, seqval, operation = f"0x{after[0].hex()}", after[1], f"0x{after[2].hex()}", after[3]
        cursor.execute(
            f"SELECT TOP ({page}) ct.* FROM cdc.dbo_Wide_CT AS ct WHERE ct.[__$start_lsn] > {lsn} OR (ct.[__$start_lsn] = {lsn} "
            f"AND (ct.[__$command_id] > {command} OR (ct.[__$command_id] = {command} AND (ct.[__$seqval] > {seqval} OR "
            f"(ct.[__$seqval] = {seqval} AND ct.[__$operation] > {operation}))))) "
            "ORDER BY ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], ct.[__$operation]"
        )
        rows = cursor.fetchall()
        if not rows:
            return
        last = rows[-1]
        after = (bytes(last[0]), last[-1], bytes(last[2]), last[3])
        yield len(rows)


def source_pages(source: SqlServerSource, page: int) -> Iterator[int]:
    """The same rows as changes, as the ingester reads them."""
    instance = source.states([TABLE])[TABLE].instances[0]
    captured = source.probe([ProbeRequest(instance, None)]).upto
    assert captured is not None
    after, upto = instance.start, captured
    while True:
        found = source.page(PageQuery(instance, after=after, upto=upto, rows=page))
        if found.end is None:
            return
        after = found.end
        yield len(found.changes)


def timed(pages: Iterator[int], rows: int) -> list[float]:
    """rows/s of each tenth."""
    speeds, done, mark, started = [], 0, 0, time.perf_counter()
    for count in pages:
        done += count
        if done - mark >= rows / TENTHS:
            now = time.perf_counter()
            speeds.append((done - mark) / (now - started))
            mark, started = done, now
    if done != rows:
        raise SystemExit(f"{done} rows of {rows} were read")
    return speeds


def resident_megabytes(pid: int) -> float:
    """The server's memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--page", type=int, default=5000)
    chosen = arguments.parse_args()
    with Emulators(database="bench", capture_interval=0.2) as emulators:
        login, pid = emulators.login, emulators.pid("sqlserver")
        client = login.connect()
        cursor = client.cursor()
        for statement in (CREATE, "EXEC sys.sp_cdc_enable_db"):
            cursor.execute(statement)
        cursor.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Wide', @role_name = NULL"
        )
        figures: dict[str, Any] = {"rows": chosen.rows, "memory_mb_empty": round(resident_megabytes(pid))}
        figures["written_rows_s"] = round(fill(cursor, chosen.rows))
        while True:
            cursor.execute("SELECT COUNT(*) FROM cdc.dbo_Wide_CT")
            if cursor.fetchone()[0] == chosen.rows:
                break
            time.sleep(0.5)
        figures["memory_mb_full"] = round(resident_megabytes(pid))
        address = SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
        connection = Connection(address)
        for name, pages in (
            ("driver", bare_pages(cursor, chosen.page)),
            ("source", source_pages(SqlServerSource(connection), chosen.page)),
        ):
            speeds = timed(pages, chosen.rows)
            figures[f"{name}_rows_s"] = round(median(speeds))
            figures[f"{name}_rows_s_by_tenth"] = [round(speed) for speed in speeds]
            figures[f"{name}_last_to_first_tenth"] = round(speeds[-1] / speeds[0], 2)
            figures[f"memory_mb_after_{name}"] = round(resident_megabytes(pid))
        connection.close()
        client.close()
    for name, value in figures.items():
        print(f"{name:<30} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
