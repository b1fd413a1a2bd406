"""What a value of SQL Server becomes in a message and in a table of PostgreSQL, as docs/values.md and docs/outputs/postgres.md say it.

Nothing here asks DStream: the server's own words are turned into what the pages promise.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Kind:
    """A type. `asked`: how a column is read of which `message` and `row` make JSON and a value of psycopg. `literal`: a random one in T-SQL."""

    sql: str
    literal: Callable[[Random], str]
    asked: str = "{}"
    message: Callable[[Any], Any] = _same
    row: Callable[[Any], Any] = _same


_WORDS: Final = ["", "žluť 🐎", "a''b", "[x", "  ", '{"a": 1}', "1e5", "2024-02-30"]


def _text(random: Random) -> str:
    return f"N'{random.choice([*_WORDS, str(random.randrange(10**6))])}'"


def _long(random: Random) -> str:
    return f"REPLICATE(CAST(N'é{random.randrange(9)}' AS NVARCHAR(MAX)), {random.choice([1, 200, 5000])})"


def _day(random: Random) -> str:
    return date.fromordinal(random.choice([1, 3652059, random.randint(1, 3652059)])).isoformat()


def _clock(random: Random, digits: int) -> str:
    fraction = random.choice([0, 10**digits - 1, random.randrange(10**digits)])
    return f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}.{fraction:0{digits}}"


def _with_a_t(text: str) -> str:
    return text.replace(" ", "T", 1).replace(" ", "")


INT: Final = Kind("INT", lambda random: str(random.randrange(-(2**31), 2**31)))
SMALLINT: Final = Kind("SMALLINT", lambda random: str(random.randrange(-(2**15), 2**15)))
BIGINT: Final = Kind("BIGINT", lambda random: str(random.choice([-(2**63) + 1, 2**63 - 1, random.randrange(99)])))
BIT: Final = Kind("BIT", lambda random: str(random.randrange(2)), message=bool, row=bool)
FLOAT: Final = Kind("FLOAT", lambda random: repr(random.choice([0.1, 1.0, 1e23, -2.5e-300, random.random()])))
DECIMAL: Final = Kind(
    "DECIMAL(9,2)",
    lambda random: f"{random.randrange(-(10**9), 10**9) / 100:.2f}",
    asked="CONVERT(VARCHAR(40), {})",
    row=Decimal,
)
MONEY: Final = Kind(
    "MONEY",
    lambda random: f"{random.choice(['-922337203685477.5808', '0.1', f'{random.random() * 1e6:.4f}'])}",
    asked="CONVERT(VARCHAR(40), {}, 2)",
    row=Decimal,
)
TEXT: Final = Kind("NVARCHAR(20)", _text)
LONG_TEXT: Final = Kind("NVARCHAR(MAX)", _long)
BINARY: Final = Kind(
    "VARBINARY(20)",
    lambda random: "0x" + random.randbytes(random.randrange(20)).hex(),
    message=lambda value: base64.b64encode(value).decode(),
    row=bytes,
)
DATE: Final = Kind(
    "DATE", lambda random: f"'{_day(random)}'", asked="CONVERT(VARCHAR(40), {}, 23)", row=date.fromisoformat
)
DATETIME2: Final = Kind(
    "DATETIME2(7)",
    lambda random: f"'{_day(random)} {_clock(random, 7)}'",
    asked="CONVERT(VARCHAR(40), {}, 121)",
    message=_with_a_t,
    row=lambda text: datetime.fromisoformat(text[:-1]),  # the seventh digit is cut off
)
OFFSET: Final = Kind(
    "DATETIMEOFFSET(3)",
    lambda random: (
        f"'20{random.randrange(10, 99)}-01-31 {_clock(random, 3)} {random.choice(['+11:00', '-00:30', '+00:00'])}'"
    ),
    asked="CONVERT(VARCHAR(40), {}, 121)",
    message=_with_a_t,
    row=lambda text: datetime.fromisoformat(_with_a_t(text)),
)
TIME: Final = Kind(
    "TIME(3)",
    lambda random: f"'{_clock(random, 3)}'",
    asked="CONVERT(VARCHAR(40), {}, 121)",
    row=time.fromisoformat,
)
GUID: Final = Kind(
    "UNIQUEIDENTIFIER",
    lambda random: f"'{UUID(bytes=random.randbytes(16))}'",
    asked="CONVERT(VARCHAR(40), {})",
    row=UUID,
)


def as_message(kind: Kind, value: Any) -> str:
    """The text of its JSON, of which 1 and 1.0 are two."""
    return json.dumps(None if value is None else kind.message(value))


def as_row(kind: Kind, value: Any) -> str:
    return shown(None if value is None else kind.row(value))


def shown(value: Any) -> str:
    """What psycopg has read, so that 1.0 and 1.00 are two, and an instant is one in any zone."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    return repr(bytes(value) if isinstance(value, memoryview) else value)
