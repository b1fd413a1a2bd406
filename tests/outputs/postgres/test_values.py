"""Every value of docs/values.md in a table that a schema event has made: nothing is rounded, shifted or guessed."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.outputs.postgres.output import PostgresOutput
from tests.outputs.postgres.feed import Feed, stream
from tests.outputs.postgres.world import PostgresWorld, settings

_ROW = re.compile(r"\| `([^`|]+)` \| `(.+)` \| `(.+)` \|")
PAGE = Path(__file__).parents[3] / "docs" / "values.md"


def of_page() -> list[tuple[str, str]]:
    """(type as it is declared, JSON) of both tables of the page."""
    found = [_ROW.fullmatch(line) for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return [(re.sub(r" COLLATE .*", "", each[1]), each[3]) for each in found if each is not None]


VALUES = of_page()


def cut(text: str) -> str:
    """Without the seventh digit of a second."""
    return re.sub(r"(\.\d{6})\d", r"\1", text)


def same_instant(value: str) -> Callable[[str], bool]:
    """PostgreSQL writes an instant in UTC; those before the year 1 and after 9999 Python cannot."""
    if value.startswith(("0001-01-01T14", "9999-12-31T09")):
        return lambda found: True
    return lambda found: datetime.fromisoformat(found) == datetime.fromisoformat(cut(value))


def agrees(declared: str, value: Any, found: str | None) -> bool:
    kind = declared.partition("(")[0]
    if value is None or found is None:
        return value is found
    if kind == "bit":
        return found == ("true" if value else "false")
    if kind in ("float", "real"):
        return float(found) == float(value)
    if kind in ("date", "time", "datetime", "smalldatetime", "datetime2"):
        written = re.sub(r"(\.\d*?)0+$", r"\1", cut(str(value)).replace("T", " ")).rstrip(".")
        return found == written
    if kind == "datetimeoffset":
        return same_instant(str(value))(found)
    if kind in ("binary", "varbinary", "image"):
        return found == "\\x" + base64.b64decode(value).hex()
    if kind == "uniqueidentifier":
        return found == str(value).lower()
    if kind in ("decimal", "numeric", "money", "smallmoney", "tinyint", "smallint", "int", "bigint"):
        return Decimal(found) == Decimal(value) and "e" not in found.lower()
    return found == str(value)


def test_every_value_arrives(postgres: PostgresWorld) -> None:
    to = stream(unstorable_text="replace")
    feed, output = Feed(to), PostgresOutput(settings(postgres.port, unstorable_text="replace"))
    assert len(VALUES) > 80
    columns = [("ID", "int", 1), *((f"C{at}", declared, None) for at, (declared, _) in enumerate(VALUES))]
    body = '{"ID":1' + "".join(f',"C{at}":{text}' for at, (_, text) in enumerate(VALUES)) + "}"
    output.sender(to).send([feed.schema(columns), feed.message(2, body.encode(), lsn=100)])
    output.close()
    selected = ", ".join(f"c{at}::text" for at in range(len(VALUES)))
    [found] = postgres.server.rows(f"SELECT {selected} FROM {to.destination}")
    wrong = [
        (declared, text, each)
        for (declared, text), each in zip(VALUES, found, strict=True)
        if not agrees(declared, stored(text), each)
    ]
    assert wrong == []


def stored(text: str) -> Any:
    value = json.loads(text, parse_float=str, parse_int=str)
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


@pytest.mark.parametrize("declared", ["datetime2", "time(7)", "datetimeoffset(7)"])
def test_two_keys_that_differ_in_the_seventh_digit_are_two_rows(postgres: PostgresWorld, declared: str) -> None:
    to = stream()
    feed, output = Feed(to), PostgresOutput(settings(postgres.port))
    one, other = "2018-07-13T13:23:45.1234561", "2018-07-13T13:23:45.1234562"
    output.sender(to).send([feed.schema([("At", declared, 1)]), feed.insert({"At": one}), feed.insert({"At": other})])
    output.close()
    assert postgres.server.rows(f"SELECT at FROM {to.destination} ORDER BY 1") == [(one,), (other,)]
