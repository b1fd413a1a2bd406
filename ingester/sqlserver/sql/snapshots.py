"""The T-SQL of dbo.cdc_snapshots. Values are parameters.

Who changes a snapshot for an ingester reads the epoch of the table's offset in the same statement, WITH (REPEATABLEREAD): its lock is kept
until the change is committed, also where READ_COMMITTED_SNAPSHOT is on. So a fence that an older owner raises is either there when the next
owner has claimed the table, or refused.

The index that the tables' snapshots are found by has only columns that never change. So a reader and a writer never wait for each other in
turns, as they would where a reader goes from an index that the writer still has to change to the row that the writer holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingester.sqlserver.sql.changes import SHORT_WAIT, P, Statement

TABLE_MISSING = "SELECT CASE WHEN OBJECT_ID(N'dbo.cdc_snapshots', N'U') IS NULL THEN 1 ELSE 0 END"

MAY_USE = f"""\
SELECT CASE WHEN {
    " AND ".join(
        f"HAS_PERMS_BY_NAME(N'dbo.cdc_snapshots', N'OBJECT', N'{right}') = 1"
        for right in ("SELECT", "INSERT", "UPDATE")
    )
} THEN 1 ELSE 0 END"""

MAY_MAKE = "SELECT HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'CREATE TABLE'), " + ", ".join(
    f"HAS_PERMS_BY_NAME(N'dbo', N'SCHEMA', N'{right}')" for right in ("ALTER", "SELECT", "INSERT", "UPDATE")
)
"""Creating a table in a schema that belongs to somebody else gives no right to use it."""

CREATE = """\
IF OBJECT_ID(N'dbo.cdc_snapshots', N'U') IS NULL
CREATE TABLE dbo.cdc_snapshots (
    id NVARCHAR(32) NOT NULL,
    table_name NVARCHAR(255) NOT NULL,
    reason NVARCHAR(20) NOT NULL,
    state NVARCHAR(20) NOT NULL,
    predicate NVARCHAR(4000) NULL,
    topic NVARCHAR(260) NULL,
    done NVARCHAR(MAX) NULL,
    chunks INT NOT NULL DEFAULT 0,
    row_count BIGINT NOT NULL DEFAULT 0,
    attempt INT NOT NULL DEFAULT 0,
    rounds INT NOT NULL DEFAULT 0,
    epoch BIGINT NOT NULL DEFAULT 0,
    owner NVARCHAR(255) NULL,
    fenced_until DATETIME2(3) NULL,
    asked_at DATETIME2(3) NOT NULL,
    asked_by NVARCHAR(128) NOT NULL,
    asked_host NVARCHAR(128) NULL,
    begun_at DATETIME2(3) NULL,
    updated_at DATETIME2(3) NULL,
    error NVARCHAR(2000) NULL,
    CONSTRAINT pk_cdc_snapshots PRIMARY KEY NONCLUSTERED (id),
    CONSTRAINT uq_cdc_snapshots UNIQUE CLUSTERED (table_name, asked_at, id)
)"""

_SNAPSHOT = (
    "s.id, s.table_name, s.reason, s.state, s.predicate, s.topic, s.done, s.chunks, s.row_count, s.attempt, s.rounds"
)

TABLES_A_STATEMENT = 100


def standings(keys: Sequence[str]) -> Statement:
    """(number in `keys`, milliseconds for which it is fenced, the snapshot) of all snapshots that run, wait or are fenced, in the order in
    which they were asked for."""
    given = ", ".join(f"({number}, {P})" for number in range(len(keys)))
    return (
        f"{SHORT_WAIT};\n"
        "DECLARE @now DATETIME2(3) = SYSUTCDATETIME();\n"
        "SELECT w.number, CASE WHEN s.fenced_until > @now THEN DATEDIFF_BIG(millisecond, @now, s.fenced_until) ELSE 0 END AS fenced,\n"
        f"       {_SNAPSHOT}\n"
        f"FROM (VALUES {given}) AS w (number, table_name) JOIN dbo.cdc_snapshots AS s ON s.table_name = w.table_name\n"
        "WHERE s.state IN (N'waiting', N'running') OR s.fenced_until > @now\n"
        "ORDER BY w.number, s.asked_at, s.id"
    ), tuple(keys)


_OURS = f"""\
EXISTS (SELECT 1 FROM dbo.cdc_offsets AS o WITH (REPEATABLEREAD) WHERE o.table_name = {P} AND o.epoch <= {P})"""


def add(snapshot: str, key: str, epoch: int, reason: str) -> Statement:
    """Changes nothing where a snapshot for the same reason was never begun. One that was may have sent rows, recorded or not: those would be
    duplicates when they are sent again, so it does not show what was lost since."""
    return (
        f"{SHORT_WAIT};\n"
        "INSERT INTO dbo.cdc_snapshots (id, table_name, reason, state, asked_at, asked_by, asked_host)\n"
        f"SELECT {P}, {P}, {P}, N'waiting', SYSUTCDATETIME(), ORIGINAL_LOGIN(), HOST_NAME()\n"
        f"WHERE {_OURS}\n"
        f"AND NOT EXISTS (SELECT 1 FROM dbo.cdc_snapshots AS s WHERE s.table_name = {P} AND s.reason = {P}\n"
        "                AND s.state IN (N'waiting', N'paused') AND s.attempt = 0)"
    ), (snapshot, key, reason, key, epoch, key, reason)


_THIS = f"s.id = {P} AND s.table_name = {P}"


def begin(snapshot: str, key: str, epoch: int, owner: str) -> Statement:
    """The snapshot as it is then, if it was begun."""
    return (
        f"{SHORT_WAIT};\n"
        "UPDATE s\n"
        f"SET state = N'running', epoch = {P}, owner = {P}, rounds = s.rounds + 1,\n"
        "    attempt = s.attempt + CASE WHEN s.done IS NULL THEN 1 ELSE 0 END,\n"
        "    begun_at = ISNULL(s.begun_at, SYSUTCDATETIME()), updated_at = SYSUTCDATETIME()\n"
        "FROM dbo.cdc_snapshots AS s\n"
        f"WHERE {_THIS} AND s.state IN (N'waiting', N'running') AND s.epoch <= {P} AND {_OURS}\n"
        f"AND NOT EXISTS (SELECT 1 FROM dbo.cdc_snapshots AS r WHERE r.table_name = {P} AND r.state = N'running' AND r.id <> {P});\n"
        f"IF @@ROWCOUNT = 1 SELECT {_SNAPSHOT} FROM dbo.cdc_snapshots AS s WHERE {_THIS}"
    ), (epoch, owner, snapshot, key, epoch, key, epoch, key, snapshot, snapshot, key)


def hold(snapshot: str, key: str, epoch: int, round: int, milliseconds: int) -> Statement:
    """Never shortens the fence that another task has raised."""
    return (
        f"{SHORT_WAIT};\n"
        f"DECLARE @until DATETIME2(3) = DATEADD(millisecond, {P}, SYSUTCDATETIME());\n"
        "UPDATE s SET fenced_until = CASE WHEN s.fenced_until > @until THEN s.fenced_until ELSE @until END\n"
        "FROM dbo.cdc_snapshots AS s\n"
        f"WHERE {_THIS} AND s.state = N'running' AND s.epoch = {P} AND s.rounds = {P} AND {_OURS}"
    ), (milliseconds, snapshot, key, epoch, round, key, epoch)


def rounds(snapshot: str) -> Statement:
    return f"{SHORT_WAIT};\nSELECT s.rounds FROM dbo.cdc_snapshots AS s WHERE s.id = {P}", (snapshot,)


Kept = tuple[str | None, int, int]
"""done, chunks, rows"""


def record(
    snapshot: str,
    key: str,
    epoch: int,
    round: int,
    seen: str | None,
    kept: Kept,
    ended: tuple[str, str | None],
    *,
    lowers: bool,
) -> Statement:
    """End the round. `ended`: the state, and the error. What a person has set meanwhile is kept, unless all of it was sent.

    Keys are compared byte by byte, whatever the collation takes for equal.
    """
    state, error = ended
    return (
        f"{SHORT_WAIT};\n"
        f"DECLARE @state NVARCHAR(20) = {P};\n"
        f"UPDATE s SET done = {P}, chunks = {P}, row_count = {P}, rounds = s.rounds + 1, updated_at = SYSUTCDATETIME(),\n"
        f"    error = CASE WHEN {_HOLDS} THEN s.error ELSE {P} END, state = CASE WHEN {_HOLDS} THEN s.state ELSE @state END,\n"
        f"    fenced_until = CASE WHEN {P} = 1 THEN NULL ELSE s.fenced_until END\n"
        "FROM dbo.cdc_snapshots AS s\n"
        f"WHERE {_THIS} AND s.epoch = {P} AND s.rounds = {P} AND s.state IN (N'waiting', N'running', N'paused', N'stopped')\n"
        f"AND {_same('s.done')} AND {_OURS}"
    ), (
        *(state, *kept, error, 1 if lowers else 0),
        *(snapshot, key, epoch, round, seen, seen, key, epoch),
    )


_HOLDS = "(s.state <> N'running' AND (@state = N'running' OR (@state = N'failed' AND s.state = N'stopped')))"
"""Whether what a person has set is kept."""


def _same(column: str) -> str:
    return (
        f"(({column} IS NULL AND {P} IS NULL) OR CONVERT(varbinary(max), {column}) = "
        f"CONVERT(varbinary(max), CONVERT(nvarchar(max), {P})))"
    )


def recorded(snapshot: str, key: str, epoch: int, round: int, kept: Kept) -> Statement:
    """The state of a snapshot whose `round` has ended like this, and no other has begun since."""
    done, chunks, rows = kept
    return (
        f"{SHORT_WAIT};\n"
        "SELECT s.state FROM dbo.cdc_snapshots AS s\n"
        f"WHERE {_THIS} AND s.epoch = {P} AND s.rounds = {P} AND s.chunks = {P} AND s.row_count = {P} AND {_same('s.done')}"
    ), (snapshot, key, epoch, round + 1, chunks, rows, done, done)


def owned(key: str, epoch: int) -> Statement:
    """1 if no newer owner has claimed the table."""
    return f"{SHORT_WAIT};\nSELECT CASE WHEN {_OURS} THEN 1 ELSE 0 END", (key, epoch)


# by a person


def ask(snapshot: str, key: str, predicate: str | None, topic: str | None) -> Statement:
    return (
        f"{SHORT_WAIT};\n"
        "INSERT INTO dbo.cdc_snapshots (id, table_name, reason, state, predicate, topic, asked_at, asked_by, asked_host)\n"
        f"VALUES ({P}, {P}, N'asked', N'waiting', {P}, {P}, SYSUTCDATETIME(), ORIGINAL_LOGIN(), HOST_NAME())"
    ), (snapshot, key, predicate, topic)


_SEEN = f"""\
{_SNAPSHOT}, CONVERT(varchar(23), s.asked_at, 126), s.asked_by, s.asked_host, CONVERT(varchar(23), s.begun_at, 126),
       CONVERT(varchar(23), s.updated_at, 126), s.owner, s.error"""


def seen(keys: Sequence[str] | None, most: int) -> Statement:
    """Those that are not over first, then the newest. `keys` None: of all tables."""
    which = "" if keys is None else f"WHERE s.table_name IN ({', '.join([P] * len(keys))})\n"
    return (
        f"{SHORT_WAIT};\nSELECT TOP ({P}) {_SEEN}\nFROM dbo.cdc_snapshots AS s\n{which}"
        "ORDER BY CASE WHEN s.state IN (N'waiting', N'running', N'paused') THEN 0 ELSE 1 END, s.asked_at DESC, s.id"
    ), (most, *(keys or ()))


def one(snapshot: str) -> Statement:
    return f"{SHORT_WAIT};\nSELECT {_SEEN}\nFROM dbo.cdc_snapshots AS s WHERE s.id = {P}", (snapshot,)


def change(snapshot: str, state: str, possible: Sequence[str]) -> Statement:
    """Only from one of the states that are `possible`. The error of one that failed is forgotten with its state."""
    return (
        f"{SHORT_WAIT};\n"
        f"UPDATE dbo.cdc_snapshots SET state = {P}, error = NULL, updated_at = SYSUTCDATETIME()\n"
        f"WHERE id = {P} AND state IN ({', '.join([P] * len(possible))})"
    ), (state, snapshot, *possible)


def sizes(names: Sequence[str]) -> Statement:
    """(number in `names`, about how many rows the table has; NULL where there is none, or this login may not see it)."""
    given = ", ".join(f"({number}, {P})" for number in range(len(names)))
    return (
        f"{SHORT_WAIT};\nSELECT w.number, (SELECT SUM(p.rows) FROM sys.partitions AS p\n"
        "                  WHERE p.object_id = OBJECT_ID(w.name, N'U') AND p.index_id IN (0, 1)) AS table_rows\n"
        f"FROM (VALUES {given}) AS w (number, name)"
    ), tuple(names)
