"""The settings of the capture and cleanup jobs of a database, with Microsoft's defaults, and the rules for changing them.

Sources: the pages sys.sp_cdc_add_job, sys.sp_cdc_change_job, sys.sp_cdc_help_jobs and dbo.cdc_jobs. Runs nothing: that is for
capture.py and cleanup_job.py.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from emulators.sqlserver.cdc import errors
from emulators.sqlserver.results import Value
from emulators.sqlserver.tsql.errors import unsupported

_LONGEST_RETENTION = 52_594_800
_LONGEST_INTERVAL = 86_399
_CAPTURE_OPTIONS = ("@maxtrans", "@maxscans", "@continuous", "@pollinginterval")


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`polling_interval` in seconds, a fraction being this emulator's liberty; `retention` in minutes. No id: no such job."""

    capture_id: str | None = None
    cleanup_id: str | None = None
    maxtrans: int = 500
    maxscans: int = 10
    continuous: bool = True
    polling_interval: float = 5.0
    retention: int = 4320
    threshold: int = 5000


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as dbo.cdc_jobs shows it: `settings` are maxtrans, maxscans, continuous, pollinginterval, retention, threshold."""

    job_type: str
    job_id: str
    settings: tuple[int, int, int, int, int, int]


def rows(s: JobSettings | None) -> list[JobRow]:
    """The jobs there are; a polling interval of less than a second shows as the seconds it rounds up to."""
    found = []
    if s is not None and s.capture_id is not None:
        interval = -int(-s.polling_interval // 1)
        found.append(JobRow("capture", s.capture_id, (s.maxtrans, s.maxscans, int(s.continuous), interval, 0, 0)))
    if s is not None and s.cleanup_id is not None:
        found.append(JobRow("cleanup", s.cleanup_id, (0, 0, 0, 0, s.retention, s.threshold)))
    return found


def new_settings(polling_interval: float | None) -> JobSettings:
    """The settings of a new pair of jobs; `polling_interval` replaces the default of 5 s."""
    return _new_cleanup(_new_capture(JobSettings(), polling_interval))


def _new_capture(settings: JobSettings, polling_interval: float | None) -> JobSettings:
    plain = JobSettings()
    return replace(
        settings,
        capture_id=str(uuid.uuid4()).upper(),
        maxtrans=plain.maxtrans,
        maxscans=plain.maxscans,
        continuous=plain.continuous,
        polling_interval=plain.polling_interval if polling_interval is None else polling_interval,
    )


def _new_cleanup(settings: JobSettings) -> JobSettings:
    plain = JobSettings()
    return replace(settings, cleanup_id=str(uuid.uuid4()).upper(), retention=plain.retention, threshold=plain.threshold)


def added(
    settings: JobSettings | None, job_type: str, arguments: Mapping[str, Value], polling_interval: float | None
) -> JobSettings:
    """The settings after sys.sp_cdc_add_job of a job that is not there; NULL takes the default. Raises as `changed` does."""
    kept = settings or JobSettings()
    made = _new_capture(kept, polling_interval) if job_type == "capture" else _new_cleanup(kept)
    return changed(made, {**arguments, "@job_type": job_type})


def without(settings: JobSettings, job_type: str) -> JobSettings:
    """The settings after sys.sp_cdc_drop_job."""
    return replace(settings, capture_id=None) if job_type == "capture" else replace(settings, cleanup_id=None)


def has(settings: JobSettings | None, job_type: str) -> bool:
    return any(row.job_type == job_type for row in rows(settings))


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
        raise unsupported(f"a value of this type for {name}")
    return int(value)


def save(connection: sqlite3.Connection, settings: JobSettings) -> None:
    """Store the settings in a SQLite table that no query can see; dbo.cdc_jobs shows what it says."""
    connection.execute(
        'CREATE TABLE IF NOT EXISTS "cdc$jobs" (capture_id TEXT, cleanup_id TEXT, maxtrans INTEGER, maxscans INTEGER, '
        "continuous INTEGER, polling_interval REAL, retention INTEGER, threshold INTEGER)"
    )
    connection.execute('DELETE FROM "cdc$jobs"')
    connection.execute('INSERT INTO "cdc$jobs" VALUES (?, ?, ?, ?, ?, ?, ?, ?)', _row(settings))


def load(connection: sqlite3.Connection) -> JobSettings | None:
    """The stored settings; None before the first table was enabled, when there are no jobs yet."""
    try:
        row = connection.execute('SELECT * FROM "cdc$jobs"').fetchone()
    except sqlite3.OperationalError as error:  # asked first, it could go away before it is read
        if "no such table" in str(error):
            return None
        raise
    capture_id, cleanup_id, maxtrans, maxscans, continuous, interval, retention, threshold = row
    return JobSettings(capture_id, cleanup_id, maxtrans, maxscans, bool(continuous), interval, retention, threshold)


def drop(connection: sqlite3.Connection) -> None:
    connection.execute('DROP TABLE IF EXISTS "cdc$jobs"')


def _row(s: JobSettings) -> tuple[Value, ...]:
    return (
        *(s.capture_id, s.cleanup_id, s.maxtrans, s.maxscans),
        *(int(s.continuous), s.polling_interval, s.retention, s.threshold),
    )
