"""Item 11: constants as they are written: the empty binary one, and money with its sign."""

from __future__ import annotations

from decimal import Decimal

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item


@item(11, "documented")
def test_0x_is_the_empty_binary_constant(database: Database) -> None:
    """As a value, a default and a computed column; in brackets it is a name.

    Source: Microsoft, "Constants (Transact-SQL)", binary constants: 0x alone is an empty binary string.
    """
    assert database.rows("SELECT 0x AS a, DATALENGTH(0x) AS b, 0x + 0X01 AS c WHERE 0x = 0X") == [(b"", 0, b"\x01")]
    database.run("CREATE TABLE dbo.t (n int NOT NULL, a varbinary(5) NULL DEFAULT 0x, b AS 0x, [0x] int NULL)")
    database.run("INSERT INTO dbo.t (n) VALUES (1)")
    database.run("INSERT INTO dbo.t (n, a) VALUES (2, 0x)")
    database.run("DECLARE @b varbinary(5) = 0x; INSERT INTO dbo.t (n, a, [0x]) VALUES (3, @b, 7)")
    assert database.rows("SELECT a, b, [0x] FROM dbo.t WHERE a = 0x ORDER BY n") == [
        (b"", b"", None),
        (b"", b"", None),
        (b"", b"", 7),
    ]
    assert database.value("SELECT definition FROM sys.default_constraints") == "(0x)"


@item(11, "documented")
def test_a_money_constant_stands_in_a_stored_expression(database: Database) -> None:
    """In checks, computed columns, defaults and the filter of an index.

    Source: Microsoft, "Constants (Transact-SQL)", money constants.
    """
    database.run("CREATE TABLE dbo.t (a money NOT NULL DEFAULT $5 CHECK (a > $1.5), b AS a * $2)")
    database.run("ALTER TABLE dbo.t ADD c AS $0.25 + a, CONSTRAINT ck_t CHECK (a < $100 AND a <> -$3)")
    database.run("CREATE INDEX ix_t ON dbo.t (a) WHERE a > $50")
    database.run("CREATE VIEW dbo.v AS SELECT a, $7 AS d FROM dbo.t WHERE a > $3")
    database.run("INSERT INTO dbo.t (a) VALUES (2)")
    database.run("INSERT INTO dbo.t DEFAULT VALUES")
    assert database.rows("SELECT a, b, c FROM dbo.t ORDER BY a") == [
        (Decimal(2), Decimal(4), Decimal("2.25")),
        (Decimal(5), Decimal(10), Decimal("5.25")),
    ]
    assert database.rows("SELECT a, d FROM dbo.v") == [(Decimal(5), Decimal(7))]
    for refused in ("1.5", "100"):
        assert database.error(f"INSERT INTO dbo.t (a) VALUES ({refused})").number == 547
