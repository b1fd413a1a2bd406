"""The T-SQL of dbo.cdc_offsets, one named text a question. As in `queries`, values travel as parameters."""

from __future__ import annotations

from ingester.queries import P

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
    source_object NVARCHAR(60) NULL
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
"""What an offsets table of an older installation may lack."""

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
"""An offset of an older installation says neither where its changes are sent nor whose they are: it is stamped by the first that claims it."""

_MOVE = f"""\
UPDATE dbo.cdc_offsets
SET last_lsn = {P}, last_command_id = {P}, last_seq = {P}, last_operation = {P}, epoch = {P}, updated_at = GETDATE()
WHERE table_name = {P} AND epoch <= {P} AND """

SET_FIRST = _MOVE + "last_command_id IS NULL"
"""For a row that holds no four-part position yet: a first start, or an older installation's offset."""

MOVE = _MOVE + (
    f"(last_command_id IS NULL OR (last_lsn = {P} AND last_command_id = {P} AND last_seq = {P} AND last_operation = {P}))"
)


def add_column(name: str) -> str:
    """Add a column that an older installation's offsets table lacks."""
    return (
        f"IF COL_LENGTH(N'dbo.cdc_offsets', N'{name}') IS NULL ALTER TABLE dbo.cdc_offsets ADD {name} {COLUMNS[name]}"
    )


def to_send_elsewhere(key: str, destination: str) -> str:
    """The statement with which a person lets a table's changes go to `destination` from now on."""
    where, to = (text.replace("'", "''") for text in (key, destination))
    return f"UPDATE dbo.cdc_offsets SET destination = N'{to}' WHERE table_name = N'{where}'"
