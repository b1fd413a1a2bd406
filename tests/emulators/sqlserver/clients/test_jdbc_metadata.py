"""Microsoft's JDBC driver asked for DatabaseMetaData, as database tools ask it: what it sends is answered, or refused by name.

The columns compared are those that java.sql.DatabaseMetaData documents; what a call refuses is in `REFUSED`, and moves to `ANSWERED`
when the procedure behind it is there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator

_HERE = Path(__file__).parent
_JAVA = _HERE.parents[1] / ".cache" / "sqlserver" / "java"
_SECONDS = 90
_PARENTS = """\
CREATE TABLE dbo.Parents (
    id INT IDENTITY NOT NULL CONSTRAINT PK_Parents PRIMARY KEY, code NVARCHAR(10) NOT NULL CONSTRAINT UQ_Parents UNIQUE
)"""
_CHILDREN = """\
CREATE TABLE dbo.Children (
    parent INT NOT NULL CONSTRAINT FK_Children_Parents REFERENCES dbo.Parents (id), number INT NOT NULL,
    note VARCHAR(20) NULL DEFAULT 'x', amount DECIMAL(9,2) NULL, CONSTRAINT PK_Children PRIMARY KEY (parent, number)
)"""
_SETUP = (
    _PARENTS,
    _CHILDREN,
    "CREATE INDEX IX_note ON dbo.Children (note DESC)",
    "CREATE VIEW dbo.Seen AS SELECT id FROM dbo.Parents",
)
_TABLES = ("TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE")
_COLUMNS = (
    *("COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "COLUMN_DEF"),
    *("CHAR_OCTET_LENGTH", "ORDINAL_POSITION", "IS_NULLABLE", "IS_AUTOINCREMENT"),
)
_INDEXES = ("NON_UNIQUE", "INDEX_NAME", "TYPE", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC")
_KEYS = ("TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "COLUMN_NAME", "KEY_SEQ", "PK_NAME")

Call = tuple[str, tuple[Any, ...]]

ANSWERED: dict[str, tuple[Call, tuple[str, ...], list[tuple[str | None, ...]]]] = {
    "catalogs": (
        ("getCatalogs", ()),
        ("TABLE_CAT",),
        [("demo",), ("master",), ("model",), ("msdb",), ("tempdb",)],
    ),
    "schemas by pattern": (("getSchemas", ("demo", "db_")), ("TABLE_SCHEM", "TABLE_CATALOG"), [("dbo", "demo")]),
    "kinds of tables": (("getTableTypes", ()), ("TABLE_TYPE",), [("SYSTEM TABLE",), ("TABLE",), ("VIEW",)]),
    "tables and views": (
        ("getTables", ("demo", "dbo", "%", ["TABLE", "VIEW"])),
        _TABLES,
        [
            ("demo", "dbo", "Children", "TABLE"),
            ("demo", "dbo", "Parents", "TABLE"),
            ("demo", "dbo", "Seen", "VIEW"),
        ],
    ),
    "tables by pattern": (("getTables", (None, None, "Par%", None)), _TABLES, [("demo", "dbo", "Parents", "TABLE")]),
    "columns": (
        ("getColumns", ("demo", "dbo", "Children", "%")),
        _COLUMNS,
        [
            ("parent", "4", "int", "10", "0", "0", None, None, "1", "NO", "NO"),
            ("number", "4", "int", "10", "0", "0", None, None, "2", "NO", "NO"),
            ("note", "12", "varchar", "20", None, "1", "('x')", "20", "3", "YES", "NO"),
            ("amount", "3", "decimal", "9", "2", "1", None, None, "4", "YES", "NO"),
        ],
    ),
    "columns of an identity": (
        ("getColumns", (None, None, "Parents", None)),
        _COLUMNS,
        [
            ("id", "4", "int identity", "10", "0", "0", None, None, "1", "NO", "YES"),
            ("code", "-9", "nvarchar", "10", None, "0", None, "20", "2", "NO", "NO"),
        ],
    ),
    "primary key": (
        ("getPrimaryKeys", ("demo", "dbo", "Children")),
        _KEYS,
        [
            ("demo", "dbo", "Children", "parent", "1", "PK_Children"),
            ("demo", "dbo", "Children", "number", "2", "PK_Children"),
        ],
    ),
    "indexes": (
        ("getIndexInfo", ("demo", "dbo", "Children", False, True)),
        _INDEXES,
        [
            (None, None, "0", None, None, None),
            ("0", "PK_Children", "1", "1", "parent", "A"),
            ("0", "PK_Children", "1", "2", "number", "A"),
            ("1", "IX_note", "3", "1", "note", "D"),
        ],
    ),
    "unique indexes": (
        ("getIndexInfo", (None, "dbo", "Parents", True, False)),
        _INDEXES,
        [
            (None, None, "0", None, None, None),
            ("0", "PK_Parents", "1", "1", "id", "A"),
            ("0", "UQ_Parents", "3", "1", "code", "A"),
        ],
    ),
    "types of users": (("getUDTs", ("demo", "dbo", "%", None)), ("TYPE_NAME",), []),
}
"""Name to the call, the columns compared, and the rows."""

REFUSED: dict[str, tuple[Call, str]] = {
    "foreign keys": (("getImportedKeys", ("demo", "dbo", "Children")), "sp_fkeys"),
    "keys that refer here": (("getExportedKeys", ("demo", "dbo", "Parents")), "sp_fkeys"),
    "keys between two": (("getCrossReference", ("demo", "dbo", "Parents", "demo", "dbo", "Children")), "sp_fkeys"),
    "procedures": (("getProcedures", ("demo", None, "%")), "sp_stored_procedures"),
    "parameters": (("getProcedureColumns", ("demo", "sys", "sp_cdc_scan", "%")), "sp_sproc_columns_100"),
    "functions": (("getFunctions", ("demo", "sys", "%")), "sp_stored_procedures"),
    "best row identifier": (("getBestRowIdentifier", ("demo", "dbo", "Children", 2, True)), "sp_special_columns_100"),
    "version columns": (("getVersionColumns", ("demo", "dbo", "Children")), "sp_special_columns_100"),
    "rights on columns": (("getColumnPrivileges", ("demo", "dbo", "Children", "%")), "sp_column_privileges"),
    "rights on a table": (("getTablePrivileges", ("demo", "dbo", "Children")), "sp_table_privileges"),
}
"""Name to the call, and the procedure that the error names."""


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    if not (_JAVA / ".ready").exists() or shutil.which("java") is None:
        pytest.skip("mssql-jdbc is not set up: `make clients` does it where java is installed")
    calls: dict[str, Call] = {"types": ("getTypeInfo", ())}
    calls |= {name: call for name, (call, _, _) in ANSWERED.items()} | {n: call for n, (call, _) in REFUSED.items()}
    engine = build_engine(users={"sa": "test-Password-1"}, databases=["demo"], capture_interval=3600)
    with SqlServerEmulator(engine) as server:
        document = {
            "url": f"jdbc:sqlserver://127.0.0.1:{server.port};databaseName=demo;user=sa;password=test-Password-1;encrypt=false",
            "setup": _SETUP,
            "calls": [{"name": name, "arguments": arguments} for name, arguments in calls.values()],
        }
        done = subprocess.run(
            ["java", "-cp", f"{_JAVA / 'jars'}{os.sep}*", str(_HERE / "java" / "Metadata.java")],
            input=json.dumps(document),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    engine.close()
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(calls, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", ANSWERED)
def test_metadata_are_as_the_driver_documents_them(answers: dict[str, Any], name: str) -> None:
    _, columns, rows = ANSWERED[name]
    assert isinstance(answers[name], list), answers[name]
    assert [tuple(row[column] for column in columns) for row in answers[name]] == rows


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused_by_name(answers: dict[str, Any], name: str) -> None:
    assert answers[name] == {"error": 50001, "text": f"emulator: procedure {REFUSED[name][1]} is not supported"}


def test_every_type_of_a_column_is_among_those_that_the_driver_lists(answers: dict[str, Any]) -> None:
    found = {row["TYPE_NAME"]: (row["DATA_TYPE"], row["PRECISION"], row["CREATE_PARAMS"]) for row in answers["types"]}
    assert found["int"] == ("4", "10", None)
    assert found["decimal"] == ("3", "38", "precision,scale")
    assert found["nvarchar"] == ("-9", "4000", "max length")
    assert found["datetimeoffset"][0] == "-155"
    assert {"bit", "bigint", "int identity", "varbinary", "datetime2", "uniqueidentifier", "xml"} <= found.keys()
