"""How much faster several Spark tasks drain one hot table than one; on the emulators, everything on the same cores.

    .venv/bin/python bench/hot_table.py [--rows 40000] [--tasks 1 2 4]

The ingester as a process with `ordering = "key"`; a table of 1,000 keys that are updated over and over. `--tasks`: how many may read
it, which is Spark's slots but one. Changes/s from the first commit of its first slice, which one task reads for a second, to the last
commit, as dbo.cdc_offsets tells; what the tasks' processes take to start is in it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from dstream.demo.processes import Service, environment
from dstream.emulators import Emulators

KEYS: Final = 1000

_CONFIG: Final = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{{{{ env("DSTREAM_DB_CONNECTION_STRING") }}}}"
    poll_interval_defaults {{
        poll_interval     = "500ms"
        max_poll_interval = "500ms"
    }}
    queue {{
        type                = "servicebus"
        name                = "queue-{tasks}"
        connection_string   = "{{{{ env("DSTREAM_INGEST_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
        ordering            = "key"
        key_buckets         = 8
    }}
    locks {{
        type = "local"
    }}
    tables = ["Hot"]
    spark {{
        master = "local[{slots}]"
    }}
}}
"""

_LEFT: Final = """\
SELECT COUNT(*) FROM cdc.dbo_Hot_CT AS ct JOIN dbo.cdc_offsets AS o ON o.table_name = N'dbo.Hot'
WHERE ct.[__$operation] <> 3 AND (ct.[__$start_lsn] > o.last_lsn OR (ct.[__$start_lsn] = o.last_lsn AND ct.[__$seqval] > o.last_seq))"""


def fill(cursor: Any, rows: int) -> None:
    cursor.execute(
        "CREATE TABLE dbo.Hot (ID INT NOT NULL PRIMARY KEY, Version INT NOT NULL, Text NVARCHAR(200) NOT NULL)"
    )
    cursor.execute("EXEC sys.sp_cdc_enable_db")
    cursor.execute("EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Hot', @role_name = NULL")
    for first in range(0, KEYS, 500):
        listed = ", ".join(f"({n}, 0, N'{'x' * 150}')" for n in range(first, first + 500))
        cursor.execute(f"INSERT INTO dbo.Hot VALUES {listed}")
    for _ in range(rows // KEYS - 1):
        cursor.execute("UPDATE dbo.Hot SET Version = Version + 1")
    cursor.execute("EXEC sys.sp_cdc_scan")


def drained(emulators: Emulators, cursor: Any, folder: Path, tasks: int) -> tuple[int, float]:
    """(changes, seconds) of what was left after the first slice."""
    config = folder / f"{tasks}.hcl"
    config.write_text(_CONFIG.format(management=emulators.management_endpoint, tasks=tasks, slots=tasks + 1))
    service = Service("ingester", config, environment(emulators), folder / f"{tasks}.log")
    cursor.execute("IF OBJECT_ID(N'dbo.cdc_offsets') IS NOT NULL DELETE FROM dbo.cdc_offsets")
    service.start()
    try:
        before = 0
        begun = 0.0
        while True:
            time.sleep(0.3)
            cursor.execute("SELECT COUNT(*) FROM sys.tables WHERE name = N'cdc_offsets'")
            if not cursor.fetchone()[0]:
                continue
            cursor.execute("SELECT COUNT(*) FROM dbo.cdc_offsets WHERE last_command_id IS NOT NULL")
            if not cursor.fetchone()[0]:
                continue
            cursor.execute(_LEFT)
            left = int(cursor.fetchone()[0])
            if not begun:
                begun, before = time.monotonic(), left
            if left == 0:
                return before, time.monotonic() - begun
    finally:
        service.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Emulators(database="heat", capture_interval=1.0) as emulators,
        emulators.login.connect() as connection,
        connection.cursor() as cursor,
    ):
        fill(cursor, options.rows)
        for tasks in options.tasks:
            changes, seconds = drained(emulators, cursor, Path(folder), tasks)
            print(f"{tasks} tasks: {changes} changes in {seconds:.1f} s, {changes / seconds:,.0f}/s", flush=True)


if __name__ == "__main__":
    main()
