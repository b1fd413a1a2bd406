"""The one scenario that every foreign client runs, and what it must find.

Steps are plain data; the programs in python/, node/, java/ and go/ read them as JSON and answer a JSON object, step name to result:

- `connect`: open a connection of its own and close it; "connected".
- `batch`: send the text; the rows of every result set.
- `parameters`: run with every list of values; for each run the rows of every result set. `{p}` is a placeholder.
- `prepared`: the same with a statement that is prepared once, where the client can.
- `transaction`: by the client's own means; statements, then commit or rollback; "done".
- `cancel`: send the text, read what comes, cancel it a moment later; "cancelled", and the connection is used for what follows.

The server's `tls` is `off`, `login` (the login alone), `trust` (all, unverified) or `verify` (all, by the authority in file `ca`).
A failure is {"error": number, "text": ...}, the number null where the client has none to give. Cells are rendered alike by all:
exact numbers as text, bytes as 0x..., times with seven digits, guids in upper case; null, booleans, floats and texts as in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Step = dict[str, Any]

SECONDS_TO_CANCEL = 30
"""How long the statement would run that is cancelled: longer than anybody waits."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of the server: its number, where the client gives one, and words of its text.

    Some clients tell of two errors the first, some the last: then both numbers are right.
    """

    numbers: int | tuple[int, ...]
    words: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, dict) or "error" not in other:
            return False
        numbers = self.numbers if isinstance(self.numbers, tuple) else (self.numbers,)
        return (other["error"] is None or other["error"] in numbers) and self.words in other["text"]


class Refused:
    """Equal to any failure: a client that goes away by itself has words of its own for it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and "error" in other

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<a failure>"


class Rowversion:
    """Equal to eight bytes that are not all zero: the server makes them up."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and len(other) == 18 and other.startswith("0x") and int(other, 16) > 0

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<a rowversion>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of types: two literals, and how the values must arrive."""

    name: str
    type: str
    low: tuple[str, object]
    high: tuple[str, object]


def _same(text: str) -> tuple[str, str]:
    return text, text


def _texts(name: str, type_: str, low: str, high: str, *, prefix: str = "N", width: int = 0) -> Column:
    return Column(name, type_, (f"{prefix}'{low}'", low.ljust(width)), (f"{prefix}'{high}'", high.ljust(width)))


def _times(name: str, type_: str, low: str, high: str, low_expected: str, high_expected: str) -> Column:
    return Column(name, type_, (f"'{low}'", low_expected), (f"'{high}'", high_expected))


_WIDE = "中文 \U0001f600"
_LONG = "ab" * 5000
_NO_GUID = "00000000-0000-0000-0000-000000000000"
_GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"

COLUMNS = (
    Column("a_bit", "BIT", ("0", False), ("1", True)),
    Column("a_tinyint", "TINYINT", _same("0"), _same("255")),
    Column("a_smallint", "SMALLINT", _same("-32768"), _same("32767")),
    Column("an_int", "INT", _same("-2147483648"), _same("2147483647")),
    Column("a_bigint", "BIGINT", _same("-9223372036854775808"), _same("9223372036854775807")),
    Column("a_decimal", "DECIMAL(38,10)", _same(f"-{'9' * 28}.{'9' * 10}"), _same(f"{'9' * 28}.{'9' * 10}")),
    Column("a_numeric", "NUMERIC(9,4)", _same("-0.0500"), _same("12345.6789")),
    Column("a_money", "MONEY", _same("-922337203685477.5808"), _same("922337203685477.5807")),
    Column("a_smallmoney", "SMALLMONEY", _same("-214748.3648"), _same("214748.3647")),
    Column("a_float", "FLOAT", ("-1.7976931348623157E308", -1.7976931348623157e308), ("0.1E0", 0.1)),
    Column("a_real", "REAL", ("-3.4028234663852886E38", -3.4028234663852886e38), ("0.5E0", 0.5)),
    _texts("a_char", "CHAR(10)", "", "caf\xe9 \u20ac", prefix="", width=10),
    _texts("a_varchar", "VARCHAR(50)", "", "caf\xe9 \u20ac", prefix=""),
    _texts("a_varchar_max", "VARCHAR(MAX)", "", _LONG, prefix=""),
    _texts("a_text", "TEXT", "", _LONG, prefix=""),
    _texts("an_nchar", "NCHAR(10)", "", "中文", width=10),
    _texts("an_nvarchar", "NVARCHAR(50)", "", _WIDE),
    _texts("an_nvarchar_max", "NVARCHAR(MAX)", "", _WIDE * 1000),
    _texts("an_ntext", "NTEXT", "", _WIDE),
    _texts("an_xml", "XML", "<a/>", f"<a>{_WIDE}</a>"),
    _times("a_date", "DATE", "0001-01-01", "9999-12-31", "0001-01-01", "9999-12-31"),
    _times("a_time", "TIME(7)", "00:00:00", "23:59:59.9999999", "00:00:00.0000000", "23:59:59.9999999"),
    _times("a_short_time", "TIME(0)", "00:00:00", "23:59:59", "00:00:00.0000000", "23:59:59.0000000"),
    _times(
        "a_datetime",
        "DATETIME",
        "1753-01-01T00:00:00",
        "9999-12-31T23:59:59.997",
        "1753-01-01T00:00:00.0000000",
        "9999-12-31T23:59:59.9970000",
    ),
    _times(
        "a_smalldatetime",
        "SMALLDATETIME",
        "1900-01-01T00:00:00",
        "2079-06-06T23:59:00",
        "1900-01-01T00:00:00.0000000",
        "2079-06-06T23:59:00.0000000",
    ),
    _times(
        "a_datetime2",
        "DATETIME2(7)",
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59.9999999",
        "0001-01-01T00:00:00.0000000",
        "9999-12-31T23:59:59.9999999",
    ),
    _times(
        "an_offset",
        "DATETIMEOFFSET(7)",
        "0001-01-02T00:00:00-08:00",
        "9999-12-31T23:59:59.9999999+05:30",
        "0001-01-02T00:00:00.0000000-08:00",
        "9999-12-31T23:59:59.9999999+05:30",
    ),
    Column("a_binary", "BINARY(8)", ("0x00", "0x" + "00" * 8), _same("0x" + "ff" * 8)),
    Column("a_varbinary", "VARBINARY(50)", _same("0x"), _same("0x00ff00")),
    Column("a_varbinary_max", "VARBINARY(MAX)", _same("0x"), _same("0x" + "ab" * 9000)),
    Column("an_image", "IMAGE", _same("0x"), _same("0x89504e4700")),
    Column("a_guid", "UNIQUEIDENTIFIER", (f"'{_NO_GUID}'", _NO_GUID), (f"'{_GUID}'", _GUID)),
)

_PARAMETERS = (
    ("an_int", "int", "INT", "-2147483648"),
    ("a_bigint", "bigint", "BIGINT", "9223372036854775807"),
    ("a_bit", "bit", "BIT", True),
    ("a_float", "float", "FLOAT", -0.1),
    ("a_decimal", "decimal", "DECIMAL(18,4)", "12345678.1234"),
    ("an_nvarchar", "nvarchar", "NVARCHAR(50)", _WIDE),
    ("an_nvarchar_max", "nvarchar", "NVARCHAR(MAX)", _WIDE * 1000),
    ("a_varbinary", "varbinary", "VARBINARY(50)", "0x00ff00"),
    ("a_date", "date", "DATE", "2018-07-13"),
    ("a_time", "time", "TIME(7)", "13:23:45.7890000"),
    ("a_datetime2", "datetime2", "DATETIME2(7)", "2018-07-13T13:23:45.7890000"),
    ("an_offset", "datetimeoffset", "DATETIMEOFFSET(7)", "2018-07-13T13:23:45.7890000+05:30"),
    ("a_guid", "uniqueidentifier", "UNIQUEIDENTIFIER", _GUID),
)
PARAMETERS = tuple(name for name, _, _, _ in _PARAMETERS)
_WRITTEN = [value for _, _, _, value in _PARAMETERS]
_NULLS = [None] * (len(_PARAMETERS) - 1) + [_GUID]
"""A guid's NULL has a step of its own, which comes last: it may cost the connection."""

_WRITE = (
    f"INSERT INTO dbo.Written (id, {', '.join(PARAMETERS)}) VALUES ({{p}}, {', '.join('{p}' for _ in _PARAMETERS)})"
)


def _batch(sql: str) -> Step:
    return {"op": "batch", "sql": sql}


def _create(table: str, columns: Iterable[tuple[str, str]]) -> Step:
    listed = "".join(f", {name} {type_} NULL" for name, type_ in columns)
    return _batch(f"CREATE TABLE dbo.{table} (id INT NOT NULL PRIMARY KEY{listed})")


def _insert(number: int, literals: list[str]) -> Step:
    return _batch(
        f"INSERT INTO dbo.Types (id, {', '.join(c.name for c in COLUMNS)}) VALUES ({number}, {', '.join(literals)})"
    )


def _transaction(end: str, *statements: str) -> Step:
    return {"op": "transaction", "statements": statements, "end": end}


_SEVERAL = """\
SELECT 1 AS a; UPDATE dbo.Accounts SET balance = balance
SELECT N'x' AS b, N'y' AS c UNION ALL SELECT N'z', NULL; SELECT 3 AS d WHERE 1 = 0"""

_MANY = 2048
"""Rows of some hundred bytes: dozens of packets."""

_FILL = f"""\
DECLARE @n INT = 1
INSERT INTO dbo.Many VALUES (1, N'row 1 ' + REPLICATE(N'x', 60))
WHILE @n < {_MANY}
BEGIN
    INSERT INTO dbo.Many SELECT id + @n, N'row ' + CONVERT(NVARCHAR(10), id + @n) + N' ' + REPLICATE(N'x', 60) FROM dbo.Many
    SET @n = @n * 2
END"""

_CHANGES = """\
SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_Tracked(sys.fn_cdc_get_min_lsn(N'dbo_Tracked'), sys.fn_cdc_get_max_lsn(), N'all update old')
ORDER BY [__$start_lsn], [__$seqval], [__$operation]"""

STEPS: dict[str, tuple[Step, Any]] = {
    "wrong password": ({"op": "connect", "password": "wrong-Password-9"}, Failure(18456, "Login failed for user 'sa'")),
    "unknown database": ({"op": "connect", "database": "nowhere"}, Failure((4060, 18456), "ogin failed")),
    "create types": (_create("Types", [*((c.name, c.type) for c in COLUMNS), ("a_rowversion", "ROWVERSION")]), []),
    "insert low": (_insert(1, [c.low[0] for c in COLUMNS]), []),
    "insert high": (_insert(2, [c.high[0] for c in COLUMNS]), []),
    "insert nulls": (_insert(3, ["NULL"] * len(COLUMNS)), []),
    "read types": (
        _batch("SELECT * FROM dbo.Types ORDER BY id"),
        [[
            ["1", *(c.low[1] for c in COLUMNS), Rowversion()],
            ["2", *(c.high[1] for c in COLUMNS), Rowversion()],
            ["3", *(None for _ in COLUMNS), Rowversion()],
        ]],
    ),
    "create written": (_create("Written", [(name, sql) for name, _, sql, _ in _PARAMETERS]), []),
    "write by parameters": (
        {
            "op": "parameters",
            "sql": _WRITE,
            "types": ["int", *(type_ for _, type_, _, _ in _PARAMETERS)],
            "runs": [["1", *_WRITTEN], ["2", *_NULLS]],
        },
        [[], []],
    ),
    "read what parameters wrote": (
        _batch("SELECT * FROM dbo.Written ORDER BY id"),
        [[["1", *_WRITTEN], ["2", *_NULLS]]],
    ),
    "find by parameter": (
        {
            "op": "prepared",
            "sql": "SELECT id, an_int FROM dbo.Written WHERE an_nvarchar = {p} OR id = {p}",
            "types": ["nvarchar", "int"],
            "runs": [[_WIDE, "0"], ["nobody", "2"], ["nobody", "9"], ["it's [%s] ? @p1", "1"]],
        },
        [[[["1", "-2147483648"]]], [[["2", None]]], [[]], [[["1", "-2147483648"]]]],
    ),
    "create accounts": (_batch("CREATE TABLE dbo.Accounts (id INT NOT NULL PRIMARY KEY, balance INT NOT NULL)"), []),
    "commit": (
        _transaction("commit", "INSERT INTO dbo.Accounts VALUES (1, 100)", "INSERT INTO dbo.Accounts VALUES (2, 200)"),
        "done",
    ),
    "roll back": (
        _transaction("rollback", "UPDATE dbo.Accounts SET balance = 0", "DELETE FROM dbo.Accounts WHERE id = 1"),
        "done",
    ),
    "after transactions": (
        _batch("SELECT id, balance, @@TRANCOUNT FROM dbo.Accounts ORDER BY id"),
        [[["1", "100", "0"], ["2", "200", "0"]]],
    ),
    "several result sets": (
        _batch(_SEVERAL),
        [[["1"]], [["x", "y"], ["z", None]], []],
    ),
    "unknown table": (_batch("SELECT * FROM dbo.Nothing"), Failure(208, "Invalid object name 'dbo.Nothing'")),
    "duplicate key": (_batch("INSERT INTO dbo.Accounts VALUES (1, 1)"), Failure(2627, "Violation of PRIMARY KEY constraint")),
    "error after rows": (_batch("SELECT 1 AS a; RAISERROR(N'own words', 16, 1)"), Failure(50000, "own words")),
    "after errors": (_batch("SELECT COUNT(*) FROM dbo.Accounts"), [[["2"]]]),
    "create many": (_create("Many", [("name", "NVARCHAR(100)")]), []),
    "fill many": (_batch(_FILL), []),
    "read many": (
        _batch("SELECT id, name FROM dbo.Many ORDER BY id"),
        [[[str(n), f"row {n} " + "x" * 60] for n in range(1, _MANY + 1)]],
    ),
    "cancel": ({"op": "cancel", "sql": f"WAITFOR DELAY '00:00:{SECONDS_TO_CANCEL}'"}, "cancelled"),
    "after cancel": (_batch("SELECT 1 AS alive"), [[["1"]]]),
    "cancel after rows": (
        {"op": "cancel", "sql": f"SELECT id, name FROM dbo.Many; WAITFOR DELAY '00:00:{SECONDS_TO_CANCEL}'"},
        "cancelled",
    ),
    "after cancelled rows": (_batch("SELECT COUNT(*) FROM dbo.Many"), [[[str(_MANY)]]]),
    "enable cdc": (_batch("EXEC sys.sp_cdc_enable_db"), []),
    "create tracked": (_batch("CREATE TABLE dbo.Tracked (id INT NOT NULL PRIMARY KEY, name NVARCHAR(50) NULL)"), []),
    "enable table": (_batch("EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Tracked', @role_name = NULL"), []),
    "tracked insert": (_batch("INSERT INTO dbo.Tracked VALUES (1, N'a'), (2, N'b')"), []),
    "tracked update": (_batch("UPDATE dbo.Tracked SET name = N'c' WHERE id = 1"), []),
    "tracked delete": (_batch("DELETE FROM dbo.Tracked WHERE id = 2"), []),
    "scan": (_batch("EXEC sys.sp_cdc_scan"), []),
    "read changes": (_batch(_CHANGES), None),
    "read bounds": (_batch("SELECT sys.fn_cdc_get_min_lsn(N'dbo_Tracked'), sys.fn_cdc_get_max_lsn()"), None),
    "window out of range": (
        _batch("SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_Tracked(0x00, sys.fn_cdc_get_max_lsn(), N'all')"),
        Failure(313, "An insufficient number of arguments"),
    ),
    "null guid by parameter": (
        {
            "op": "parameters",
            "sql": "SELECT id FROM dbo.Written WHERE id = 1 AND {p} IS NULL",
            "types": ["uniqueidentifier"],
            "runs": [[None]],
        },
        [[[["1"]]]],
    ),
}  # fmt: skip
"""Name to the step and what it must give; None where tests/emulators/sqlserver/clients/test_clients.py has a test of its own for it."""

CHANGES = [("2", "1", "a"), ("2", "2", "b"), ("3", "1", "a"), ("4", "1", "c"), ("1", "2", "b")]
"""Operation and captured columns of `read changes`, in order."""


def without_tls(authority: str) -> dict[str, tuple[Step, Any]]:
    """More steps for a server that offers no encryption; `authority` is the file of one, for clients that want one to encrypt."""
    return {"encryption is not there": ({"op": "connect", "tls": "trust", "ca": authority}, Refused())}


def with_tls(wrong_authority: str) -> dict[str, tuple[Step, Any]]:
    """More steps for a server that does; `wrong_authority` is the file of one that did not sign its certificate."""
    return {
        "certificate unseen": ({"op": "connect", "tls": "trust"}, "connected"),
        "login alone": ({"op": "connect", "tls": "login"}, "connected"),
        "wrong authority": ({"op": "connect", "tls": "verify", "ca": wrong_authority}, Refused()),
        "right authority again": ({"op": "connect", "tls": "verify"}, "connected"),
    }
