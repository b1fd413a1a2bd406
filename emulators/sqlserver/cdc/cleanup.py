"""Cleaning up a change table: the low watermark rises first, in a transaction of its own, then rows go in chunks.

Source: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-cleanup-change-table-transact-sql
Runs only when it is called: an automatic cleanup job is not imitated.
"""

from __future__ import annotations

import sqlite3

from emulators.sqlserver.cdc import errors, metadata
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.instance import CLUSTERED_KEY, CaptureInstance


def cleanup(cdc: DatabaseCdc, instance: CaptureInstance, low_water_mark: bytes | None, threshold: int) -> int:
    """Raise the instance's low watermark unless None is given, and delete what lies below it; returns the rows deleted.

    Raises 22964 when the mark is no start_lsn of cdc.lsn_time_mapping. A mark below the present one changes nothing.
    """
    if low_water_mark is not None:
        with cdc.changing_instances() as connection:
            lowest = _smallest_of_the_same_time(cdc, connection, low_water_mark)
            metadata.raise_start_lsn(cdc.database, connection, instance, lowest)
    deleted = 0
    while True:
        chunk = _delete_chunk(cdc, instance, threshold)
        deleted += chunk
        if chunk < threshold:
            return deleted


def _smallest_of_the_same_time(cdc: DatabaseCdc, connection: sqlite3.Connection, lsn: bytes) -> bytes:
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


def _delete_chunk(cdc: DatabaseCdc, instance: CaptureInstance, threshold: int) -> int:
    with cdc.database.writer() as connection:
        low = metadata.min_lsn(cdc.database, connection, instance)
        change_table = metadata.storage(cdc.database, instance.change_table)
        key = ", ".join(map(metadata.quoted, CLUSTERED_KEY))
        return connection.execute(
            f"DELETE FROM {change_table} WHERE ({key}) IN "
            f'(SELECT {key} FROM {change_table} WHERE "__$start_lsn" < ? ORDER BY {key} LIMIT ?)',
            (low, threshold),
        ).rowcount
