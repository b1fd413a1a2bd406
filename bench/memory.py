"""How much memory the ingester takes for a large transaction and for wide rows, as a user runs it (Spark); on the emulators.

    .venv/bin/python bench/memory.py [--quick] [--rows 1000000] [--wide-rows 2000] [--bound 256]

Three backlogs, each for a fresh ingester: one transaction of 1,000,000 rows of 10 mixed columns; rows with 200 kB of text, of which a page
by rows alone would be 400 MB; rows with 1 MB, which fit no message of the Standard tier and are set aside (`on_oversize = "dead_letter"`).
Peaks are the system's (VmHWM), in MB: of the largest Python worker, of the driver, of Spark's JVM; and of both emulators, which run on and
keep what they were given. Exit status 1 when a worker took more than `--bound`. The last line is JSON. Linux only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from bench.ingestion.ground import Ground
from bench.ingestion.whole import Ingester, draining
from common.names import TableName

_WIDE = "Id INT NOT NULL PRIMARY KEY, Text NVARCHAR(MAX)"


def one_transaction(ground: Ground, rows: int) -> TableName:
    """Everything under one commit LSN."""
    table = ground.table("Large")
    ground.fill(table, rows, one_transaction=True)
    return table


def wide(ground: Ground, name: str, rows: int, characters: int) -> TableName:
    """`rows` rows of as many characters, two bytes each."""
    table = ground.table(name, _WIDE)
    for number in range(rows):
        ground.cursor.execute(
            f"INSERT INTO {table.quoted} VALUES ({number}, REPLICATE(CAST(N'x' AS NVARCHAR(MAX)), {characters}))"
        )
    ground.captured(table, rows)
    return table


def measured(ground: Ground, folder: Path, table: TableName, rows: int) -> dict[str, float]:
    """The peaks of an ingester that drains `table`, and its changes a second."""
    ingester = Ingester(ground, folder, [table], queue=table.table.lower(), oversize="dead_letter")
    with draining(ingester, ground.cursor, [table], rows) as done:
        return {"changes_s": round(done.rate)} | {f"peak_mb.{name}": peak for name, peak in ingester.peaks().items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--wide-rows", type=int, default=2000)
    parser.add_argument("--bound", type=float, default=256, help="MB of a worker")
    parser.add_argument("--quick", action="store_true", help="20,000 rows, 200 wide ones")
    chosen = parser.parse_args()
    rows, wide_rows = (20_000, 200) if chosen.quick else (chosen.rows, chosen.wide_rows)
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, Ground() as ground:
        ground.cursor.execute("EXEC sp_configure 'max text repl size', -1")  # capture refuses more than 64 KB otherwise
        ground.cursor.execute("RECONFIGURE")
        for title, table, count in (
            (f"one transaction of {rows} rows", one_transaction(ground, rows), rows),
            (f"{wide_rows} rows of 200 kB", wide(ground, "Wide", wide_rows, 100_000), wide_rows),
            (f"{wide_rows // 10} rows of 1 MB", wide(ground, "Wider", wide_rows // 10, 500_000), wide_rows // 10),
        ):
            figures[title] = measured(ground, Path(folder), table, count)
            print(f"\n{title}")
            for name, value in figures[title].items():
                print(f"{name:30} {value:.0f}", flush=True)
    print(json.dumps(figures))
    if max(found["peak_mb.workers"] for found in figures.values()) > chosen.bound:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
