"""The T-SQL of dbo.cdc_offsets, one named text for each question. Values are parameters."""

from __future__ import annotations

from collections.abc import Sequence

from ingester.sqlserver.sql.changes import P, Parameters
from ingester.sqlserver.sql.literal import literal

TABLE_MISSING = "SELECT CASE WHEN OBJECT_ID(N'dbo.cdc_offsets', N'U') IS NULL THEN 1 ELSE 0 END"

CREATE = """\
IF OBJECT_ID(N'dbo.cdc_offsets', N'U') IS NULL
CREATE TABLE dbo.cdc_offsets (
    table_name NVARCHAR(255) NOT NULL PRIMARY KEY,
    last_lsn VARBINARY(10) NULL,
    last_seq VARBINARY(10) NULL,
    last_command_id INT NULL,
    last_operation INT NULL,
    epoch BIGINT NOT NULL DEFAULT 0,
    updated_at DATETIME NOT NULL DEFAULT GETDATE(),
    destination NVARCHAR(900) NULL,
    source_object NVARCHAR(60) NULL,
    owner NVARCHAR(255) NULL
)"""

COLUMNS = {
    "last_seq": "VARBINARY(10) NULL",
    "last_command_id": "INT NULL",
    "last_operation": "INT NULL",
    "epoch": "BIGINT NOT NULL DEFAULT 0",
    "updated_at": "DATETIME NOT NULL DEFAULT GETDATE()",
    "destination": "NVARCHAR(900) NULL",
    "source_object": "NVARCHAR(60) NULL",
}
"""Columns that the offsets table of an older installation may lack."""

OWNER = "owner"
"""A further one, which names the ingester that claimed a table last: for people alone, so an ingester works without it."""

_OWNER_TYPE = "NVARCHAR(255) NULL"

OWNER_MISSING = f"SELECT CASE WHEN COL_LENGTH(N'dbo.cdc_offsets', N'{OWNER}') IS NULL THEN 1 ELSE 0 END"

LOAD = f"""\
SELECT last_lsn, last_command_id, last_seq, last_operation, epoch, destination, source_object
FROM dbo.cdc_offsets WHERE table_name = {P}"""

INSERT = f"""\
INSERT INTO dbo.cdc_offsets (table_name, last_lsn, epoch, updated_at)
SELECT {P}, NULL, {P}, GETDATE() WHERE NOT EXISTS (SELECT 1 FROM dbo.cdc_offsets WHERE table_name = {P})"""

ADOPT = f"""\
UPDATE dbo.cdc_offsets SET last_lsn = (SELECT last_lsn FROM dbo.cdc_offsets WHERE table_name = {P})
WHERE table_name = {P} AND last_lsn IS NULL AND epoch <= {P}"""
"""The original tool knew tables of schema dbo by their bare names, and no others."""

CLAIM = f"""\
UPDATE dbo.cdc_offsets
SET epoch = {P}, destination = ISNULL(destination, {P}), source_object = ISNULL(source_object, {P})
WHERE table_name = {P} AND epoch <= {P} AND (destination IS NULL OR destination = ISNULL({P}, destination))"""

"""An offset of an older installation has neither the destination of its changes nor their table: its first claim stores
both."""


def _named(epoch: str) -> str:
    """The value of OWNER: who claimed the table, and at which epoch. A version that does not know the column raises the
    epoch alone when it claims the table; then the name is that of nobody (`owner_of`)."""
    return f"{P} + N' ' + CONVERT(nvarchar(20), {epoch})"


def owner_of(named: str | None, epoch: int) -> str | None:
    """The owner in a row of that epoch; None where a version that does not name itself claimed it, or a person set it."""
    owner, _, claimed = (named or "").rpartition(" ")
    return owner if claimed == str(epoch) else None


NAME_OWNER = f"UPDATE dbo.cdc_offsets SET {OWNER} = {_named('epoch')} WHERE table_name = {P} AND epoch = {P}"

_MOVE = f"""\
UPDATE dbo.cdc_offsets
SET last_lsn = {P}, last_command_id = {P}, last_seq = {P}, last_operation = {P}, epoch = {P}, updated_at = GETDATE()
WHERE table_name = {P} AND epoch <= {P} AND """

SET_FIRST = _MOVE + "last_command_id IS NULL"
"""For a row without a four-part position: a first start, or an older installation's offset."""

MOVE = _MOVE + (
    f"(last_command_id IS NULL OR (last_lsn = {P} AND last_command_id = {P} AND last_seq = {P} AND last_operation = {P}))"
)


KEEP = f"""\
UPDATE kept
SET last_lsn = o.last_lsn, last_command_id = o.last_command_id, last_seq = o.last_seq, last_operation = o.last_operation,
    source_object = o.source_object, destination = o.destination, updated_at = GETDATE()
FROM dbo.cdc_offsets AS kept JOIN dbo.cdc_offsets AS o ON o.table_name = {P}
WHERE kept.table_name = {P} AND o.source_object = {P} AND o.epoch <= {P}"""
"""How far a table was read when it lost its name: it may get it back."""

KEPT = f"SELECT last_lsn, last_command_id, last_seq, last_operation FROM dbo.cdc_offsets WHERE table_name = {P}"

_GO_OVER = f"""\
UPDATE dbo.cdc_offsets
SET last_lsn = {P}, last_command_id = {P}, last_seq = {P}, last_operation = {P}, source_object = {P}, epoch = {P}, updated_at = GETDATE()
WHERE table_name = {P} AND epoch <= {P} AND source_object = {P} AND """

GO_OVER_FIRST = _GO_OVER + "last_command_id IS NULL"

GO_OVER = _GO_OVER + (
    f"(last_command_id IS NULL OR (last_lsn = {P} AND last_command_id = {P} AND last_seq = {P} AND last_operation = {P}))"
)


def key_of_former(key: str, source: str) -> str:
    """The key for the position in a table that has lost the name `key`: no table's key begins with a number and a
    space."""
    return f"{source} {key}"[:255]


def former_name(key: str, source: str) -> str:
    """The name of a table from the key of an offset, be it the present or a former one's."""
    return key.removeprefix(f"{source} ")


def add_column(name: str) -> str:
    """Add a column that an older installation's offsets table lacks."""
    return (
        f"IF COL_LENGTH(N'dbo.cdc_offsets', N'{name}') IS NULL "
        f"ALTER TABLE dbo.cdc_offsets ADD {name} {COLUMNS.get(name, _OWNER_TYPE)}"
    )


def to_send_elsewhere(key: str, destination: str) -> str:
    """The statement for a person that changes the destination of a table's changes."""
    return f"UPDATE dbo.cdc_offsets SET destination = {literal(destination)} WHERE table_name = {literal(key)}"


A_STATEMENT = 100
"""How many offsets one batch claims or moves: a row has up to 11 parameters, and a statement may have 2,100."""

_STORED = (
    "o.last_lsn, o.last_command_id, o.last_seq, o.last_operation, o.epoch, o.destination, o.source_object, o.table_name"
)


_LENGTHS = (1, 4, 16, 64, A_STATEMENT)
"""The numbers of rows that a batch may have; it is padded with empty ones. So there are few texts, and few plans."""


def _empty_rows(rows: int) -> int:
    return next(length for length in _LENGTHS if rows <= length) - rows


def claims(
    rows: Sequence[tuple[str, str | None, int, str | None]], destination: str | None, owner: str | None = None
) -> tuple[str, Parameters]:
    """INSERT, CLAIM and ADOPT for many tables, and LOAD for each in the order of `rows`: key, the original tool's name,
    epoch, source. `owner`: None where the table has no column for it.

    The last result set has the stored row of each, all NULL where there is none.
    """
    filled = [*rows, *[(None, None, 0, None)] * _empty_rows(len(rows))]
    given = ", ".join(f"({number}, {P}, {P}, {P}, {P})" for number in range(len(filled)))
    named = "" if owner is None else f", {OWNER} = {_named('c.epoch')}"
    text = f"""\
DECLARE @claims TABLE (number INT NOT NULL PRIMARY KEY, table_name NVARCHAR(255) NOT NULL, bare_name NVARCHAR(255) NULL,
                       epoch BIGINT NOT NULL, source_object NVARCHAR(60) NULL);
INSERT INTO @claims (number, table_name, bare_name, epoch, source_object)
SELECT g.number, g.table_name, g.bare_name, g.epoch, g.source_object
FROM (VALUES {given}) AS g (number, table_name, bare_name, epoch, source_object) WHERE g.table_name IS NOT NULL;
INSERT INTO dbo.cdc_offsets (table_name, last_lsn, epoch, updated_at)
SELECT c.table_name, NULL, c.epoch, GETDATE() FROM @claims AS c
WHERE NOT EXISTS (SELECT 1 FROM dbo.cdc_offsets AS o WHERE o.table_name = c.table_name);
UPDATE o
SET epoch = c.epoch, destination = ISNULL(o.destination, {P}), source_object = ISNULL(o.source_object, c.source_object){named}
FROM dbo.cdc_offsets AS o JOIN @claims AS c ON c.table_name = o.table_name
WHERE o.epoch <= c.epoch AND (o.destination IS NULL OR o.destination = ISNULL({P}, o.destination));
UPDATE o
SET last_lsn = old.last_lsn
FROM dbo.cdc_offsets AS o JOIN @claims AS c ON c.table_name = o.table_name JOIN dbo.cdc_offsets AS old ON old.table_name = c.bare_name
WHERE o.last_lsn IS NULL AND o.epoch = c.epoch;
SELECT {_STORED} FROM @claims AS c LEFT JOIN dbo.cdc_offsets AS o ON o.table_name = c.table_name ORDER BY c.number"""
    owners = () if owner is None else (owner,)
    return text, (*(value for row in filled for value in row), destination, *owners, destination)


Place = tuple[object, ...]
"""lsn, command id, seqval, operation"""
_NEVER: Place = (bytes(10), -1, bytes(10), -1)
"""A position that no offset has: no operation is negative."""
_OF_A_MOVE = (
    "table_name, epoch, lsn, command_id, seqval, operation, seen_lsn, seen_command_id, seen_seqval, seen_operation"
)


def moves(rows: Sequence[tuple[str, int, Place, Place | None]]) -> tuple[str, Parameters]:
    """MOVE or SET_FIRST for many tables, and LOAD for each in the order of `rows`: key, epoch, the new place, the one
    seen last.

    The last result set has the stored row of each, all NULL where there is none.
    """
    filled = [(key, epoch, *place, *(seen or _NEVER)) for key, epoch, place, seen in rows]
    filled += [(None, 0, *_NEVER, *_NEVER)] * _empty_rows(len(rows))
    given = ", ".join(f"({number}{f', {P}' * 10})" for number in range(len(filled)))
    text = f"""\
DECLARE @moves TABLE (number INT NOT NULL PRIMARY KEY, table_name NVARCHAR(255) NOT NULL, epoch BIGINT NOT NULL,
                      lsn VARBINARY(10) NOT NULL, command_id INT NOT NULL, seqval VARBINARY(10) NOT NULL, operation INT NOT NULL,
                      seen_lsn VARBINARY(10) NOT NULL, seen_command_id INT NOT NULL, seen_seqval VARBINARY(10) NOT NULL,
                      seen_operation INT NOT NULL);
INSERT INTO @moves (number, {_OF_A_MOVE})
SELECT g.number, {", ".join(f"g.{column}" for column in _OF_A_MOVE.split(", "))}
FROM (VALUES {given}) AS g (number, {_OF_A_MOVE}) WHERE g.table_name IS NOT NULL;
UPDATE o
SET last_lsn = m.lsn, last_command_id = m.command_id, last_seq = m.seqval, last_operation = m.operation, epoch = m.epoch,
    updated_at = GETDATE()
FROM dbo.cdc_offsets AS o JOIN @moves AS m ON m.table_name = o.table_name
WHERE o.epoch <= m.epoch AND (o.last_command_id IS NULL OR (o.last_lsn = m.seen_lsn AND o.last_command_id = m.seen_command_id
      AND o.last_seq = m.seen_seqval AND o.last_operation = m.seen_operation));
SELECT {_STORED} FROM @moves AS m LEFT JOIN dbo.cdc_offsets AS o ON o.table_name = m.table_name ORDER BY m.number"""
    return text, tuple(value for row in filled for value in row)
