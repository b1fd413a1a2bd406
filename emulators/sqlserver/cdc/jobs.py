"""The settings of the capture and cleanup jobs of a database, with Microsoft's defaults, and the rules for changing them.

Sources: the pages sys.sp_cdc_add_job, sys.sp_cdc_change_job and sys.sp_cdc_help_jobs. The cleanup job has no
schedule here: it runs when sys.sp_cdc_start_job starts it.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from emulators.sqlserver.cdc import errors
from emulators.sqlserver.results import Value

_LONGEST_RETENTION = 52_594_800
_LONGEST_INTERVAL = 86_399
_CAPTURE_OPTIONS = ("@maxtrans", "@maxscans", "@continuous", "@pollinginterval")


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`polling_interval` in seconds, a fraction being this emulator's liberty; `retention` in minutes."""

    capture_id: str
    cleanup_id: str
    maxtrans: int = 500
    maxscans: int = 10
    continuous: bool = True
    polling_interval: float = 5.0
    retention: int = 4320
    threshold: int = 5000


def new_settings(polling_interval: float | None) -> JobSettings:
    """The settings of a new pair of jobs; `polling_interval` replaces the default of 5 s."""
    settings = JobSettings(str(uuid.uuid4()).upper(), str(uuid.uuid4()).upper())
    return settings if polling_interval is None else replace(settings, polling_interval=polling_interval)


def changed(settings: JobSettings, arguments: Mapping[str, Value]) -> JobSettings:
    """The settings after sys.sp_cdc_change_job. Raises 22970, 22990 to 22992, 22994 to 22996, 22998; NULL means no change."""
    given = {name: value for name, value in arguments.items() if value is not None}
    job_type = str(given.pop("@job_type", "capture")).casefold()
    if job_type == "capture":
        return _changed_capture(settings, given)
    if job_type == "cleanup":
        return _changed_cleanup(settings, given)
    raise errors.unknown_job_type(job_type)


def _changed_capture(settings: JobSettings, given: Mapping[str, Value]) -> JobSettings:
    if "@retention" in given:
        raise errors.retention_of_capture_job()
    maxtrans = _integer(given, "@maxtrans", settings.maxtrans)
    maxscans = _integer(given, "@maxscans", settings.maxscans)
    if maxtrans <= 0:
        raise errors.bad_maxtrans()
    if maxscans <= 0:
        raise errors.bad_maxscans()
    interval: float = settings.polling_interval
    if "@pollinginterval" in given:
        interval = float(_integer(given, "@pollinginterval", 0))
    if not 0 <= interval <= _LONGEST_INTERVAL:
        raise errors.bad_polling_interval()
    keeps_on = settings.continuous or interval > 0
    continuous = _integer(given, "@continuous", int(keeps_on))
    if continuous not in (0, 1):
        raise errors.bad_continuous()
    return replace(
        settings,
        maxtrans=maxtrans,
        maxscans=maxscans,
        continuous=bool(continuous),
        polling_interval=interval if continuous else 0.0,
    )


def _changed_cleanup(settings: JobSettings, given: Mapping[str, Value]) -> JobSettings:
    if any(option in given for option in _CAPTURE_OPTIONS):
        raise errors.capture_options_of_cleanup_job()
    retention = _integer(given, "@retention", settings.retention)
    if not 0 < retention <= _LONGEST_RETENTION:
        raise errors.bad_retention()
    return replace(settings, retention=retention, threshold=_integer(given, "@threshold", settings.threshold))


def _integer(given: Mapping[str, Value], name: str, default: int) -> int:
    value = given.get(name, default)
    if isinstance(value, bytes) or value is None:
        raise errors.unsupported(f"a value of this type for {name}")
    return int(value)


def create(connection: sqlite3.Connection, settings: JobSettings) -> None:
    """Store the settings of new jobs in a SQLite table that no query can see (msdb.dbo.cdc_jobs is not imitated)."""
    connection.execute(
        'CREATE TABLE "cdc$jobs" (capture_id TEXT, cleanup_id TEXT, maxtrans INTEGER, maxscans INTEGER, '
        "continuous INTEGER, polling_interval REAL, retention INTEGER, threshold INTEGER)"
    )
    connection.execute('INSERT INTO "cdc$jobs" VALUES (?, ?, ?, ?, ?, ?, ?, ?)', _row(settings))


def save(connection: sqlite3.Connection, settings: JobSettings) -> None:
    connection.execute('DELETE FROM "cdc$jobs"')
    connection.execute('INSERT INTO "cdc$jobs" VALUES (?, ?, ?, ?, ?, ?, ?, ?)', _row(settings))


def load(connection: sqlite3.Connection) -> JobSettings | None:
    """The stored settings; None before the first table was enabled, when there are no jobs yet."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'cdc$jobs'").fetchone() is None:
        return None
    capture_id, cleanup_id, maxtrans, maxscans, continuous, interval, retention, threshold = connection.execute(
        'SELECT * FROM "cdc$jobs"'
    ).fetchone()
    return JobSettings(capture_id, cleanup_id, maxtrans, maxscans, bool(continuous), interval, retention, threshold)


def drop(connection: sqlite3.Connection) -> None:
    connection.execute('DROP TABLE IF EXISTS "cdc$jobs"')


def _row(s: JobSettings) -> tuple[Value, ...]:
    return (
        *(s.capture_id, s.cleanup_id, s.maxtrans, s.maxscans),
        *(int(s.continuous), s.polling_interval, s.retention, s.threshold),
    )
