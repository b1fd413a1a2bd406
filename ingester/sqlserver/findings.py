"""What the database's answers mean for running the ingester, as findings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from common.check import Finding, fail, ok, warn
from common.config.durations import format_duration
from common.errors import DStreamError
from common.names import TableName
from common.sqladdress import SqlAddress
from ingester.capture_status import LogTimes, Silence
from ingester.offsets import Claimed
from ingester.position import Position
from ingester.source import CaptureInstance, Probe, TableState
from ingester.sqlserver.hints import (
    ENABLE_DATABASE,
    HINTS,
    MAKE_OFFSETS,
    READ_TIMES,
    SEE_JOBS,
    UPGRADE_OFFSETS,
    USE_OFFSETS,
)
from ingester.sqlserver.silence import CaptureFacts, CaptureJobs, explain
from ingester.watch.retention import Alarm, alarm, headroom
from ingester.window import choose_instance, gap, gap_error, lost_error

SHORTEST_RETENTION = timedelta(days=1)
"""Nobody notices before Monday that an ingester stopped on Friday night: SQL Server's default of three days covers
that. A day is the minimum for a weekday."""


@dataclass(frozen=True, slots=True)
class OffsetsTable:
    """The state of dbo.cdc_offsets. `may_make`: whether the login may create it; None if it exists."""

    may_make: bool | None = None
    lacking_rights: Sequence[str] = field(default=())
    lacking_columns: Sequence[str] = field(default=())


def judge_encryption(address: SqlAddress) -> Iterator[Finding]:
    """None for a server on this machine: there is no network path."""
    if address.loopback or address.verified:
        return
    secret = "password" if address.identity is None else "access token"
    hint = "encrypt=true (the default) without TrustServerCertificate in ingester.db_connection_string; certificate=FILE names an authority"
    if address.encryption == "mandatory":
        yield warn(
            "encryption",
            f"the server's certificate is not verified: anyone on the network path can get the {secret}",
            hint,
        )
    elif address.encryption == "disable":
        yield warn("encryption", "password and rows travel in clear text", hint)
    else:
        yield warn("encryption", "rows travel in clear text, and the server that gets the login is not verified", hint)


def no_cdc(database: str) -> Finding:
    return fail("CDC", f"not enabled for the database {database}", ENABLE_DATABASE)


def no_times() -> Finding:
    """Pages of changes come with the times of their commits."""
    return fail("CDC", "this login may not read when changes were committed", READ_TIMES)


def refused(table: TableName, error: DStreamError) -> Finding:
    return fail(_subject(table), error.message, error.hint)


def judge_offsets(found: OffsetsTable) -> Finding:
    name = "offsets"
    if found.may_make is not None:
        if found.may_make:
            return ok(name, "dbo.cdc_offsets does not exist yet and is created at the first start")
        return fail(name, "dbo.cdc_offsets does not exist, and this login may not create it", MAKE_OFFSETS)
    needed = [right for right in found.lacking_rights if right != "ALTER"]
    if needed:
        return fail(name, f"this login lacks {', '.join(needed)} on dbo.cdc_offsets", USE_OFFSETS)
    if found.lacking_columns:
        columns = ", ".join(found.lacking_columns)
        if "ALTER" in found.lacking_rights:
            return fail(
                name, f"dbo.cdc_offsets lacks the columns {columns}, and this login may not add them", UPGRADE_OFFSETS
            )
        return ok(name, f"dbo.cdc_offsets is from an older installation: {columns} are added at the first start")
    return ok(name, "dbo.cdc_offsets may be read and written")


def judge_table(
    table: TableName, state: TableState, offset: Position | None, probe: Probe, columns: Sequence[str], *, skips: bool
) -> Iterator[Finding]:
    """`probe`: of this table alone. `columns`: the table's own, in order. `skips`: `on_gap = "skip"`."""
    subject = _subject(table)
    if (reason := HINTS.absence(table, state)) is not None:
        yield fail(subject, reason)
        return
    instance, _ = choose_instance(state.instances, offset)
    answer = probe.answers.get(instance.name)
    lost = gap(offset, answer.low_watermark) if offset is not None and answer is not None else None
    if lost is not None:
        error = gap_error(instance, lost)
        yield (
            warn(subject, f'{error.message}; on_gap = "skip" continues from there')
            if skips
            else fail(subject, error.message, error.hint)
        )
    newest = state.instances[-1]
    captured = {column.name for column in newest.columns if not column.gone}
    gone = [column.name for column in newest.columns if column.gone]
    left_out = [name for name in columns if name not in captured]
    if left_out:
        text = f"{newest.name} captures {len(columns) - len(left_out)} of {len(columns)} columns, not {', '.join(left_out)}"
        yield warn(subject, text, "a second capture instance includes the new columns (docs/change.md)")
    if gone:
        text = f"{newest.name} was made for the columns {', '.join(gone)}, which have been dropped since and are no longer captured"
        yield warn(subject, text, "a second capture instance has the present columns (docs/change.md)")
    if lost is None and not left_out and not gone:
        yield ok(subject, _told(state.instances, offset))


def judge_renamed(table: TableName, state: TableState, stored: Claimed, *, skips: bool) -> Finding:
    """A table whose offset belongs to another table that had the name."""
    subject = _subject(table)
    if not state.former:
        error = lost_error(table, stored.position, stored.source, HINTS)
        return warn(subject, error.message) if skips else fail(subject, error.message, error.hint)
    text = f"its offset belongs to another table that had the name (object {stored.source}): the rest of that one is sent first"
    return warn(subject, text, "if this is intended, there is nothing to do (docs/guarantees.md)")


def judge_capture(facts: CaptureFacts, jobs: CaptureJobs | None, newest: float | None) -> Finding:
    found = explain(facts, jobs, newest)
    if found.state in (Silence.IDLE, Silence.FLOWING):
        return ok("capture", found.text.removeprefix("nothing to read: "))
    return warn("capture", found.text, found.hint)


def judge_retention(jobs: CaptureJobs | None, times: LogTimes | None, tables: Sequence[str]) -> Iterator[Finding]:
    """How long changes are kept, and which offsets are close to that. `times`: None while there are no offsets."""
    subject = "retention"
    if jobs is None:
        yield warn(subject, "this login may not see how long changes are kept", SEE_JOBS)
        return
    if jobs.retention is None:
        yield ok(subject, "without a cleanup job changes are kept until somebody removes them")
        return
    kept = format_duration(timedelta(seconds=round(jobs.retention)))
    hint = "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 4320 (minutes)"
    short = jobs.retention < SHORTEST_RETENTION.total_seconds()
    if short:
        yield warn(subject, f"changes are kept for {kept}: an ingester that is stopped for longer loses some", hint)
    late = [
        key
        for key in tables
        if times is not None
        and (known := times.offsets.get(key)) is not None
        and alarm(Alarm.NONE, headroom(jobs.retention, known.age), jobs.retention) is not Alarm.NONE
    ]
    if late:
        yield warn(
            subject,
            f"the offsets of {', '.join(late)} are close to the end of the retention ({kept}): changes will be lost",
            hint,
        )
    if not short and not late:
        yield ok(subject, f"changes are kept for {kept}")


def _told(instances: Sequence[CaptureInstance], offset: Position | None) -> str:
    names = ", ".join(instance.name for instance in instances)
    start = f"offset at {offset}" if offset is not None else "no offset yet: read from the low watermark"
    return f"under CDC as {names}; {start}"


def _subject(table: TableName) -> str:
    return f"table {table.key}"
