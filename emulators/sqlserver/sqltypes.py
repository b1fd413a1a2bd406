"""SQL Server's types, and the one form in which a value of each travels inside the emulator.

The engine stores and returns values in these forms; the wire layer turns them into TDS bytes and back. Nothing else converts.

| types | form |
|---|---|
| bit, tinyint, smallint, int, bigint | int (bit: 0 or 1) |
| decimal(p,s), numeric(p,s), money, smallmoney | str with exactly `scale` digits after the point: "6.3230", "-0.0500", "12" (money: scale 4) |
| float, real | float (real: already rounded to 32 bits) |
| char, varchar, text, nchar, nvarchar, ntext, xml, sysname | str (char and nchar padded with spaces to their length) |
| binary, varbinary, image, rowversion | bytes (binary padded with zero bytes) |
| uniqueidentifier | str, 36 characters, upper case |
| date | "2018-07-13" |
| time(n) | "10:23:45.6789012", n digits after the point, none and no point for n = 0 |
| datetime | "2018-07-13 13:23:45.780", already rounded to .000, .003 or .007 |
| smalldatetime | "2018-07-13 13:24:00" |
| datetime2(n) | "2018-07-13 13:23:45.7801234" |
| datetimeoffset(n) | "2018-07-13 12:23:45.4560000 +11:00": local time, then its offset |
| NULL of any type | None |
"""

from __future__ import annotations

from dataclasses import dataclass

MAX = -1
"""`length` of varchar(max), nvarchar(max), varbinary(max)."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type with its parameters. `name` is SQL Server's own, lower case; "numeric" and "decimal" stay apart as there.

    `length`: characters of (n)char and (n)varchar, bytes of binary and varbinary, MAX for (max); None elsewhere.
    `precision`, `scale`: of decimal and numeric; `scale` alone: fractional digits of time, datetime2 and datetimeoffset.
    `collation`: of text, by its name; "" is that of the server.
    """

    name: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    collation: str = ""
