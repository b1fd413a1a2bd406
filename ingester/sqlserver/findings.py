"""What the database's answers mean for running the ingester, as findings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from common.check import BY_EDITING, NOT_KNOWN, Finding, Fix, by_hand, by_sql, fail, failed, ok, warn
from common.config.durations import format_duration
from common.errors import DStreamError
from common.names import TableName
from common.sqladdress import SqlAddress
from ingester.capture_status import LogTimes, Silence
from ingester.offsets import Claimed
from ingester.position import Position
from ingester.settings import OnGap
from ingester.source import CaptureInstance, Probe, TableState
from ingester.sqlserver.hints import (
    ADD_JOB,
    ENABLE_AGAIN,
    ENABLE_DATABASE,
    HINTS,
    MAKE_OFFSETS,
    OFFSETS_UNSEEN,
    READ_SCHEMA_CDC,
    READ_SOURCE,
    READ_TIMES,
    SCAN_MORE,
    SEE_JOBS,
    SEE_OFFSETS,
    SEE_SCANS,
    START_JOB,
    UPGRADE_OFFSETS,
    USE_OFFSETS,
)
from ingester.sqlserver.silence import CaptureFacts, CaptureJobs, explain
from ingester.sqlserver.sql import rights
from ingester.watch.retention import Alarm, alarm, headroom
from ingester.window import GOES_ON, choose_instance, gap, gap_error, lost_error

SHORTEST_RETENTION = timedelta(days=1)
"""Nobody notices before Monday that an ingester stopped on Friday night: SQL Server's default of three days covers
that. A day is the minimum for a weekday."""


_LOST = by_hand("lost changes cannot be brought back: whether to go on without them is a decision")
_NO_JOB = by_hand("Azure SQL Database runs capture by itself: there is no job to make, to start or to change")
_INTENDED = by_hand("there is nothing to correct if this is intended")


@dataclass(frozen=True, slots=True)
class Session:
    """Whom the statements of a fix are for: the user of the database, and its login; "" for one without. `azure`: Azure SQL Database, which
    has no msdb. `by_function`: `query_mode = "function"`. `tables`: the configured ones.
    `sees_every_table`: no right is missing where a table is not found. `local_locks`: locks are of type "local".
    """

    database: str
    user: str
    login: str
    azure: bool = False
    by_function: bool = False
    tables: Sequence[TableName] = ()
    sees_every_table: bool = False
    local_locks: bool = False

    @property
    def reads_changes(self) -> Fix:
        user = self.user
        return by_sql(*rights.read_catalog(user)) if self.by_function else by_sql(rights.read_changes(user))

    @property
    def sees_jobs(self) -> Fix:
        if self.azure:
            return by_sql(rights.see_jobs_of_service(self.user))
        name = self.login or self.user  # a login's name is one of the whole server, a user's of its database
        return by_sql(*rights.see_jobs(name, rights.user_of_login(name), self.database))

    def fix_of(self, error: DStreamError) -> Fix:
        """For an error about schema cdc or the whole database."""
        if error.hint == READ_SCHEMA_CDC:
            return self.reads_changes
        if error.hint is not None and ENABLE_AGAIN in error.hint:
            return self.captures_again
        return NOT_KNOWN

    @property
    def captures_again(self) -> Fix:
        return by_sql(rights.ENABLE_DATABASE, *(rights.enable_table(table) for table in self.tables))


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
            fix=BY_EDITING,
        )
    elif address.encryption == "disable":
        yield warn("encryption", "password and rows travel in clear text", hint, fix=BY_EDITING)
    else:
        text = "rows travel in clear text, and the server that gets the login is not verified"
        yield warn("encryption", text, hint, fix=BY_EDITING)


def no_cdc(database: str) -> Finding:
    fix = by_sql(rights.ENABLE_DATABASE)
    return fail("CDC", f"not enabled for the database {database}", ENABLE_DATABASE, fix=fix)


def no_times(session: Session) -> Finding:
    """Pages of changes come with the times of their commits."""
    fix = by_sql(rights.read_times(session.user))
    return fail("CDC", "this login may not read when changes were committed", READ_TIMES, fix=fix)


def refused(table: TableName, error: DStreamError, session: Session, roles: Sequence[str], moved: str) -> Finding:
    """`roles`: gating roles of the table. `moved`: the statement that changes where its changes are sent."""
    fix = session.fix_of(error)
    if error.hint == READ_SOURCE:
        joined = [rights.join_role(session.user, role) for role in roles]
        fix = by_sql(rights.read_table(session.user, table), *joined)
    elif moved in (error.hint or ""):
        fix = by_sql(f"{moved};")
    return failed(_subject(table), error, fix=fix)


def judge_offsets(found: OffsetsTable, session: Session) -> Finding:
    name = "offsets"
    if found.may_make is not None:
        if found.may_make:
            return ok(name, "dbo.cdc_offsets does not exist yet and is created at the first start")
        fix = by_sql(rights.MAKE_OFFSETS, rights.use_offsets(session.user))
        if not session.sees_every_table:
            return fail(name, OFFSETS_UNSEEN, SEE_OFFSETS, fix=fix)
        return fail(name, "dbo.cdc_offsets does not exist, and this login may not create it", MAKE_OFFSETS, fix=fix)
    needed = [right for right in found.lacking_rights if right != "ALTER"]
    if needed:
        fix = by_sql(rights.use_offsets(session.user))
        return fail(name, f"this login lacks {', '.join(needed)} on dbo.cdc_offsets", USE_OFFSETS, fix=fix)
    if found.lacking_columns:
        columns = ", ".join(found.lacking_columns)
        if "ALTER" in found.lacking_rights:
            text = f"dbo.cdc_offsets lacks the columns {columns}, and this login may not add them"
            return fail(name, text, UPGRADE_OFFSETS, fix=by_sql(*rights.add_columns(found.lacking_columns)))
        return ok(name, f"dbo.cdc_offsets is from an older installation: {columns} are added at the first start")
    return ok(name, "dbo.cdc_offsets may be read and written")


def judge_table(
    table: TableName,
    state: TableState,
    offset: Position | None,
    probe: Probe,
    columns: Sequence[str],
    *,
    on_gap: OnGap,
    session: Session,
) -> Iterator[Finding]:
    """`probe`: of this table alone. `columns`: the table's own, in order. `on_gap`: what follows a gap of this table."""
    subject = _subject(table)
    if (reason := HINTS.absence(table, state)) is not None:
        yield fail(subject, reason, fix=_fix_of_absence(table, state, session))
        return
    instance, _ = choose_instance(state.instances, offset)
    answer = probe.answers.get(instance.name)
    lost = gap(offset, answer.low_watermark) if offset is not None and answer is not None else None
    if lost is not None:
        error = gap_error(instance, lost, on_gap=on_gap, local=session.local_locks)
        judge = fail if on_gap == "fail" else warn
        yield judge(subject, error.message, error.hint, fix=_LOST)
    newest = state.instances[-1]
    captured = {column.name for column in newest.columns if not column.gone}
    gone = [column.name for column in newest.columns if column.gone]
    left_out = [name for name in columns if name not in captured]
    if left_out:
        text = f"{newest.name} captures {len(columns) - len(left_out)} of {len(columns)} columns, not {', '.join(left_out)}"
        yield warn(
            subject, text, "a second capture instance includes the new columns (docs/change.md)", fix=_second(state)
        )
    if gone:
        text = f"{newest.name} was made for the columns {', '.join(gone)}, which have been dropped since and are no longer captured"
        yield warn(
            subject, text, "a second capture instance has the present columns (docs/change.md)", fix=_second(state)
        )
    if lost is None and not left_out and not gone:
        yield ok(subject, _told(state.instances, offset))


def judge_renamed(table: TableName, state: TableState, stored: Claimed, *, on_gap: OnGap) -> Finding:
    """A table whose offset belongs to another table that had the name."""
    subject = _subject(table)
    if not state.former:
        error = lost_error(table, stored.position, stored.source, HINTS)
        if on_gap == "fail":
            return failed(subject, error, fix=by_sql(f"{HINTS.first_start(table)};"))
        return warn(subject, error.message, GOES_ON[on_gap], fix=_LOST)
    text = f"its offset belongs to another table that had the name (object {stored.source}): the rest of that one is sent first"
    return warn(subject, text, "if this is intended, there is nothing to do (docs/guarantees.md)", fix=_INTENDED)


def _fix_of_absence(table: TableName, state: TableState, session: Session) -> Fix:
    if not state.exists and state.renamed is not None:
        return by_hand("which of the two names is meant is a decision")
    if not state.exists and session.sees_every_table:
        return by_hand(
            "this login sees every table, so there is none of this name: correct the name in `tables`, or create the table"
        )
    if not state.exists:
        return by_sql(rights.read_table(session.user, table))
    enabled = rights.enable_table(table)
    return by_sql(enabled) if state.database_has_cdc else by_sql(rights.ENABLE_DATABASE, enabled)


def _second(state: TableState) -> Fix:
    """SQL Server allows two capture instances of a table."""
    if len(state.instances) > 1:
        return by_hand("a table has two capture instances at most, and the older one is dropped once it has been read")
    newest = state.instances[-1]
    return by_sql(rights.enable_table(newest.table, instance=f"{newest.name}_2"))


def judge_capture(facts: CaptureFacts, jobs: CaptureJobs | None, newest: float | None, *, session: Session) -> Finding:
    found = explain(facts, jobs, newest)
    if found.state in (Silence.IDLE, Silence.FLOWING):
        return ok("capture", found.text.removeprefix("nothing to read: "))
    jobs_fixes = {ADD_JOB: (rights.ADD_JOB,), START_JOB: (rights.START_JOB,), SCAN_MORE: rights.SCAN_MORE}
    fixes = {
        ENABLE_AGAIN: session.captures_again,
        **{hint: _NO_JOB if session.azure else by_sql(*sql) for hint, sql in jobs_fixes.items()},
        READ_SCHEMA_CDC: session.reads_changes,
        SEE_SCANS: by_sql(rights.see_scans(session.user)),
    }
    unknown = by_hand("the cause has to be found first: the hint says where")
    return warn("capture", found.text, found.hint, fix=fixes.get(found.hint or "", unknown))


def judge_retention(
    jobs: CaptureJobs | None, times: LogTimes | None, tables: Sequence[str], *, session: Session
) -> Iterator[Finding]:
    """How long changes are kept, and which offsets are close to that. `times`: None while there are no offsets."""
    subject = "retention"
    if jobs is None:
        yield warn(subject, "this login may not see how long changes are kept", SEE_JOBS, fix=session.sees_jobs)
        return
    if jobs.retention is None:
        yield ok(subject, "without a cleanup job changes are kept until somebody removes them")
        return
    kept = format_duration(timedelta(seconds=round(jobs.retention)))
    hint = "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 4320 (minutes)"
    short = jobs.retention < SHORTEST_RETENTION.total_seconds()
    if short:
        text = f"changes are kept for {kept}: an ingester that is stopped for longer loses some"
        yield warn(subject, text, hint, fix=by_sql(rights.keep_changes()))
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
            fix=by_sql(rights.keep_changes(max(rights.LONGEST_KEPT, 2 * round(jobs.retention / 60)))),
        )
    if not short and not late:
        yield ok(subject, f"changes are kept for {kept}")


def _told(instances: Sequence[CaptureInstance], offset: Position | None) -> str:
    names = ", ".join(instance.name for instance in instances)
    start = f"offset at {offset}" if offset is not None else "no offset yet: read from the low watermark"
    return f"under CDC as {names}; {start}"


def _subject(table: TableName) -> str:
    return f"table {table.key}"
