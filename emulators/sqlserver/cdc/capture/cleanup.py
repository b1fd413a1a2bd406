"""Cleaning up a change table: the low watermark rises first, in a transaction of its own, then rows go in chunks.

Sources: the page sys.sp_cdc_cleanup_change_table, and for the cleanup job
https://learn.microsoft.com/sql/relational-databases/track-changes/administer-and-monitor-change-data-capture-sql-server
Runs when it is called; the schedule is cleanup_job.py's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

from emulators.sqlserver.cdc import errors, metadata
from emulators.sqlserver.cdc.capture.capture_state import CaptureState
from emulators.sqlserver.cdc.instance import CaptureInstance


def cleanup(cdc: CaptureState, instance: CaptureInstance, low_water_mark: bytes | None, threshold: int) -> int:
    """Raise the instance's low watermark unless None is given, and delete what lies below it; returns the rows deleted.

    Raises 22964 when the mark is no start_lsn of cdc.lsn_time_mapping. A mark below the present one changes nothing.
    """
    if low_water_mark is not None:
        with cdc.changing_instances() as connection:
            lowest = _smallest_of_the_same_time(cdc, connection, low_water_mark)
            metadata.raise_start_lsn(cdc.database, connection, instance, lowest)
    return _delete(cdc, instance.change_table, instance.clustered_key, instance, threshold)


def cleanup_by_retention(cdc: CaptureState, retention: int, threshold: int) -> None:
    """What the cleanup job does: drop what is older than `retention` minutes, counted back from the newest entry.

    The low watermark of every instance rises in one transaction; then change rows and entries of cdc.lsn_time_mapping go.
    """
    with cdc.changing_instances() as connection:
        low = _retention_mark(cdc, connection, retention)
        if low is None:
            return
        for instance in cdc.instances:
            metadata.raise_start_lsn(cdc.database, connection, instance, low)
    for instance in cdc.instances:
        _delete(cdc, instance.change_table, instance.clustered_key, instance, threshold)
    if cdc.instances:
        oldest = min(cdc.instances, key=lambda instance: instance.start_lsn)
        _delete(cdc, "lsn_time_mapping", ("start_lsn",), oldest, threshold)


def _retention_mark(cdc: CaptureState, connection: sqlite3.Connection, retention: int) -> bytes | None:
    """The smallest LSN of the last commit time that lies at least `retention` minutes back; None when none does."""
    mapping = metadata.storage(cdc.database, "lsn_time_mapping")
    newest = connection.execute(f"SELECT MAX(tran_end_time) FROM {mapping}").fetchone()[0]
    if newest is None:
        return None
    mark_time = datetime.fromisoformat(newest) - timedelta(minutes=retention)
    row = connection.execute(
        f"SELECT MIN(start_lsn) FROM {mapping} WHERE tran_end_time = "
        f"(SELECT MAX(tran_end_time) FROM {mapping} WHERE tran_end_time <= ?)",
        (f"{mark_time:%Y-%m-%d %H:%M:%S}.{mark_time.microsecond // 1000:03d}",),
    ).fetchone()
    low: bytes | None = row[0]
    return low


def _smallest_of_the_same_time(cdc: CaptureState, connection: sqlite3.Connection, lsn: bytes) -> bytes:
    mapping = metadata.storage(cdc.database, "lsn_time_mapping")
    row = connection.execute(
        f"SELECT MIN(other.start_lsn) FROM {mapping} AS mark "
        f"JOIN {mapping} AS other ON other.tran_end_time = mark.tran_end_time WHERE mark.start_lsn = ?",
        (lsn,),
    ).fetchone()
    if row[0] is None:
        raise errors.not_a_start_lsn(lsn)
    smallest: bytes = row[0]
    return smallest


def _delete(cdc: CaptureState, table: str, order: Sequence[str], instance: CaptureInstance, threshold: int) -> int:
    """Delete the rows of a table of schema cdc that lie below the instance's low watermark, a transaction a chunk.

    `order`: the columns of its clustered index, the LSN first (a captured column may hide SQLite's row number).
    """
    deleted = 0
    while True:
        with cdc.database.writer() as connection:
            low = metadata.min_lsn(cdc.database, connection, instance)
            stored, key = metadata.storage(cdc.database, table), ", ".join(map(metadata.quoted, order))
            chunk = connection.execute(
                f"DELETE FROM {stored} WHERE ({key}) IN "
                f"(SELECT {key} FROM {stored} WHERE {metadata.quoted(order[0])} < ? ORDER BY {key} LIMIT ?)",
                (low, threshold),
            ).rowcount
        deleted += chunk
        if chunk < threshold:
            return deleted
