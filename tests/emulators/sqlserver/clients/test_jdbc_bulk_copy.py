"""Microsoft's JDBC driver copies a table with SQLServerBulkCopy: every value arrives, and what cannot be is refused with its number."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pymssql
import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator

_HERE = Path(__file__).parent
_JAVA = _HERE.parents[1] / ".cache" / "sqlserver" / "java"
_SECONDS = 120
_COLUMNS = (
    "id INT NOT NULL PRIMARY KEY, a TINYINT NULL, b BIGINT NULL, c DECIMAL(18, 4) NULL, d FLOAT NULL, e BIT NULL, f DATETIME2(3) NULL, "
    "g DATE NULL, h VARCHAR(10) NULL, i NCHAR(4) NULL, j VARBINARY(8) NULL, k NVARCHAR(MAX) NULL, l MONEY NULL, m DATETIME NULL, "
    "n UNIQUEIDENTIFIER NULL, o TIME(2) NULL, p DATETIMEOFFSET(0) NULL, q VARCHAR(MAX) NULL, r VARBINARY(MAX) NULL, s REAL NULL, "
    "t SMALLDATETIME NULL, u XML NULL, v TEXT NULL, w NTEXT NULL, x IMAGE NULL"
)
_ROW = (
    "(1, 7, 1099511627776, 12.345, 1.5, 1, '2024-02-29 12:34:56.123', '2024-02-29', 'abc', N'w', 0x00FF, REPLICATE(CONVERT(NVARCHAR(MAX), "
    "N'm'), 9000), 1.25, '2024-02-29 12:34:56.123', '0E984725-C51C-4BF4-9960-E1C80E27ABA0', '12:34:56.78', '2024-02-29 12:34:56 +02:00', "
    "'q', 0x01, 0.5, '2024-02-29 12:34', '<a/>', 'v', N'w', 0x02)"
)
_SETUP = (
    f"CREATE TABLE dbo.source ({_COLUMNS})",
    f"INSERT INTO dbo.source VALUES {_ROW}",
    "INSERT INTO dbo.source (id) VALUES (2), (3)",
    f"CREATE TABLE dbo.target ({_COLUMNS})",
    "CREATE TABLE dbo.narrow (id INT NOT NULL)",
    f"CREATE TABLE dbo.taken ({_COLUMNS}) INSERT INTO dbo.taken (id) VALUES (3)",
)
_SAME = "SELECT COUNT(*) FROM dbo.target AS t JOIN dbo.source AS s ON t.id = s.id AND t.k = s.k AND t.c = s.c AND t.p = s.p AND t.j = s.j"


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """What each target answered; "same": how many rows with values are as they were."""
    if not (_JAVA / ".ready").exists() or shutil.which("java") is None:
        pytest.skip("mssql-jdbc is not set up: `make clients` does it where java is installed")
    engine = build_engine(users={"sa": "x"}, databases=["demo"])
    with SqlServerEmulator(engine) as emulator:
        connection = pymssql.connect("127.0.0.1", "sa", "x", "demo", port=str(emulator.port), autocommit=True)
        with connection, connection.cursor() as cursor:
            for sql in _SETUP:
                cursor.execute(sql)
            url = f"jdbc:sqlserver://127.0.0.1:{emulator.port};user=sa;password=x;databaseName=demo;encrypt=false"
            asked = {"url": url, "from": "dbo.source", "to": ["dbo.target", "dbo.narrow", "dbo.taken", "dbo.nowhere"]}
            done = subprocess.run(
                ["java", "-cp", f"{_JAVA / 'jars'}{os.sep}*", str(_HERE / "java" / "BulkCopy.java")],
                input=json.dumps(asked),
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-3000:]
            cursor.execute(_SAME)
            found = cursor.fetchone()
            assert found is not None
    engine.close()
    return {**json.loads(done.stdout), "same": found[0]}


def test_every_row_of_a_table_with_every_type_is_copied(results: dict[str, Any]) -> None:
    assert results["dbo.target"] == {"rows": 3}
    assert results["same"] == 1


def test_what_cannot_be_copied_is_refused(results: dict[str, Any]) -> None:
    """Batches of two rows: those before the refused one stay."""
    assert results["dbo.taken"]["error"] == 2627
    assert "error" in results["dbo.narrow"]
    assert "error" in results["dbo.nowhere"]
