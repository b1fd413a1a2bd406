"""docs/values.md: what each type looks like in a message, at its edges. Made by reading a change table, and held equal to it by a test.

    python -m tests.contracts.source.values_page docs/values.md

Refuses nothing; the values that are too long for a page, and what capture does not hold, are in test_values.py.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from common.names import TableName
from dstream.emulators import Login
from tests.contracts.source.test_source import Place

TABLE = TableName("dbo", "Edges")

HEAD = """\
# Values

How a column's value looks in a message. The tables below were made by a program
(`python -m tests.contracts.source.values_page docs/values.md`): it writes the literals into a table under CDC on the
[emulator](emulators/README.md) and reads them as the ingester does; a test holds them equal.

Nothing is rounded, shifted or guessed. Values are read [as they are stored](decisions/0049-values-as-stored.md), or as
the driver has them where it is exact. The server still converts two kinds: decimals to digits, and text that is not
UTF-16 already (`char`, `varchar`, `text`, `ntext`, `xml`) to UTF-16.

"""

FOOT = """\

## NULL, and what capture does not hold

A NULL is `null`. Capture does not hold every value, and such a value is not `null`: its column is left out of the
object, and its name is listed in `metadata.Unavailable`. These are:

| column | where |
|---|---|
| `text`, `ntext`, `image` | a delete's `data`, an update's `before` |
| `varchar(max)`, `nvarchar(max)`, `varbinary(max)` | an update's `before`, unless the update changed the column |
| `xml` | likewise, where the change table holds NULL |
| a computed column | everywhere: CDC does not capture computed columns |
| a column that was dropped from the table, also where one of its name was added again | after that: capture goes by the column, not by its name |

## Unsupported types

- `sql_variant`, and any type that is not on this page: a table that captures such a column stops, with an error that
  names the column. Leave it out with `@captured_column_list`.
- `hierarchyid`, `geography` and `geometry` are read as base64 of their serialized form. The emulator has no such types,
  so nobody has seen that yet.

## Text

Text arrives as the characters that the server has, whatever the code page of its column: bytes that a code page leaves
undefined as well as U+0000. Half a surrogate pair, which `nvarchar` can store, is written as its JSON escape
(`"\\ud83d"`), since UTF-8 has no form for it; some JSON readers refuse that. Trailing blanks of `char` and `nchar` are
part of the value, and an empty string is `""`, never `null`.

## Names

The keys of `data` are the column names as the server spells them. Any name works: brackets, quotes, blanks, dots, `#`,
`$`, `%s`, reserved words, 128 characters, other alphabets.
"""


@dataclass(frozen=True, slots=True)
class Edge:
    """A column of `type` with the value of the T-SQL `literal`."""

    type: str
    literal: str


def _edges() -> Iterator[Edge]:
    for sql_type, *literals in (
        ("bit", "0", "1", "NULL"),
        ("tinyint", "0", "255"),
        ("smallint", "-32768", "32767"),
        ("int", "-2147483648", "2147483647"),
        ("bigint", "-9223372036854775808", "9223372036854775807"),
        ("decimal(38,0)", "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"),
        ("decimal(38,38)", "-0.00000000000000000000000000000000000001"),
        ("decimal(9,4)", "6.3230", "0", "-0.5"),
        ("numeric(18,2)", "1234567890123456.78"),
        ("money", "-922337203685477.5808", "922337203685477.5807", "0.1"),
        ("smallmoney", "-214748.3648", "214748.3647"),
        ("float", "0.1", "1E0", "1E23", "-1.7976931348623157E308", "2.2250738585072014E-308", "123456789012345680"),
        ("real", "0.1", "16777217", "-3.4028235E38", "1.1754944E-38"),
        ("char(5)", "'ab'", "''"),
        ("varchar(20)", "''", "' a '", "N'€ äöü'", "NULL"),
        ("varchar(20) COLLATE Cyrillic_General_CI_AS", "N'привет'"),
        ("varchar(20) COLLATE Japanese_CI_AS", "N'日本語'"),
        ("varchar(20) COLLATE Turkish_CI_AS", "N'ıİğş'"),
        ("varchar(20) COLLATE Latin1_General_100_CI_AS_SC_UTF8", "N'žluťoučký 🐎'"),
        ("varchar(20) COLLATE Latin1_General_BIN2", "CHAR(129) + 'x'"),
        ("varchar(max)", "'x'", "''"),
        ("text", "'x'", "NULL"),
        ("nchar(3)", "N'é'"),
        ("nvarchar(20)", "N''", "N'žluťoučký 🐎'", "N'a' + NCHAR(0) + NCHAR(9) + N'\"\\'", "N'  '"),
        ("nvarchar(20) COLLATE Latin1_General_BIN2", "N'İ'"),
        ("nvarchar(max)", "N'🐎'", "N''"),
        ("ntext", "N'ž'"),
        ("xml", "N'<a b=\"1\">ž</a>'", "N''"),
        ("date", "'0001-01-01'", "'9999-12-31'"),
        ("time", "'00:00:00'", "'23:59:59.9999999'"),
        ("time(0)", "'10:23:45.6'"),
        ("time(3)", "'10:23:45.6789'"),
        ("datetime", "'1753-01-01'", "'9999-12-31 23:59:59.997'", "'2018-07-13 13:23:45.781'"),
        ("smalldatetime", "'1900-01-01'", "'2079-06-06 23:59'", "'2018-07-13 13:23:30'"),
        ("datetime2", "'0001-01-01'", "'9999-12-31 23:59:59.9999999'"),
        ("datetime2(0)", "'2018-07-13 13:23:45.5'"),
        ("datetime2(3)", "'2018-07-13 13:23:45.678'"),
        ("datetimeoffset", "'0001-01-01 14:00:00 +14:00'", "'9999-12-31 09:59:59.9999999 -14:00'"),
        ("datetimeoffset(0)", "'2018-07-13 12:23:45 +00:00'"),
        ("datetimeoffset(3)", "'2018-07-13 12:23:45.456 +11:00'", "'2018-07-13 12:23:45.456 -00:30'"),
        ("binary(4)", "0x00", "0x41424344"),
        ("varbinary(20)", "0x", "0x4142", "0x00FF"),
        ("varbinary(max)", "0xDEADBEEF"),
        ("image", "0x01"),
        ("uniqueidentifier", "'6f9619ff-8b86-d011-b42d-00c04fc964ff'"),
    ):
        for literal in literals:
            yield Edge(sql_type, literal)


EDGES = tuple(_edges())


def written(place: Place) -> list[Edge]:
    """Make dbo.Edges with a column for each edge, and its only row."""
    columns = "".join(f", C{number} {edge.type} NULL" for number, edge in enumerate(EDGES))
    place.execute(f"CREATE TABLE {TABLE.quoted} (ID INT PRIMARY KEY{columns})")
    place.enable(table=TABLE.table)
    place.execute(f"INSERT INTO {TABLE.quoted} VALUES (1, {', '.join(edge.literal for edge in EDGES)})")
    place.scan()
    return list(EDGES)


def json_values(place: Place) -> list[str]:
    """Of each edge what stands in the message's body."""
    (change,) = place.read(table=TABLE)
    return [orjson.dumps(change.data[f"C{number}"]).decode() for number in range(len(EDGES))]


def page(texts: list[str], numbers: list[str]) -> str:
    """`numbers`: the same with decimals = "number"."""
    lines = ["| type | T-SQL | JSON |", "|---|---|---|"]
    lines += [f"| `{e.type}` | {_code(e.literal)} | {_code(text)} |" for e, text in zip(EDGES, texts, strict=True)]
    lines += ["", '## With `decimals = "number"`', "", "| type | T-SQL | JSON |", "|---|---|---|"]
    lines += [
        f"| `{edge.type}` | {_code(edge.literal)} | {_code(number)} |"
        for edge, text, number in zip(EDGES, texts, numbers, strict=True)
        if text != number
    ]
    return HEAD + "\n".join(lines) + "\n" + FOOT


def _code(text: str) -> str:
    """As code; what nobody could see is shown as its escape."""
    return "`" + re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text) + "`"


def made(login: Login, other: Login, **options: Any) -> str:
    """The page, from two empty databases. `options`: of the source."""
    found = []
    for at, decimals_as_numbers in ((login, False), (other, True)):
        place = Place(at, decimals_as_numbers=decimals_as_numbers, **options)
        written(place)
        found.append(json_values(place))
        place.close()
    return page(*found)


def main(path: Path) -> None:
    from emulators.sqlserver.build import build_engine
    from emulators.sqlserver.server import SqlServerEmulator

    engine = build_engine(users={"sa": "values-Page-1"}, databases=["one", "two"], capture_interval=3600)
    with SqlServerEmulator(engine) as server:
        one, two = (Login("127.0.0.1", server.port, "sa", "values-Page-1", name) for name in ("one", "two"))
        path.write_text(made(one, two), encoding="utf-8")
    engine.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
