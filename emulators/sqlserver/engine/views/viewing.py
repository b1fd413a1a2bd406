"""What a catalog view is made of: its columns, who looks at it, and the rows that it makes of a catalog.

A view lists the columns that tools ask for, not all of the real ones; a column that is not here is error 207, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store.catalog import Catalog
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.results import Column, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.values.types import BIT, DATETIME, INT, SYSNAME, exact_shape, family

Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Viewpoint:
    """Who looks, and at what: the session, the databases of the server, the one looked at, and what of its catalog is visible."""

    session: StatementSession
    everyone: Sequence[StoredDatabase]
    here: StoredDatabase
    catalog: Catalog


Rows = Callable[[Viewpoint], Iterator[Row]]
Views = Mapping[str, tuple[tuple[Column, ...], Rows]]
"""Lower-case schema.name -> columns, and what makes the rows."""
STARTED = "2024-01-01 00:00:00.000"
"""When everything that came with the server was made."""
_PRECISIONS = {
    "bit": 1,
    "tinyint": 3,
    "smallint": 5,
    "int": 10,
    "bigint": 19,
    "float": 53,
    "real": 24,
    "date": 10,
    "datetime": 23,
    "smalldatetime": 16,
}
DATE_PRECISIONS = {
    "date": (10, 0),
    "time": (8, 7),
    "datetime2": (19, 7),
    "datetimeoffset": (26, 7),
    "datetime": (23, 3),
    "smalldatetime": (16, 0),
}
_KINDS = {
    "name": SYSNAME,
    "int": INT,
    "big": SqlType("bigint"),
    "tiny": SqlType("tinyint"),
    "small": SqlType("smallint"),
    "bit": BIT,
    "datetime": DATETIME,
    "text": SqlType("nvarchar", 60),
    "wide": SqlType("nvarchar", 256),
    "long": SqlType("nvarchar", 4000),
    "max": SqlType("nvarchar", MAX),
    "code": SqlType("char", 2),
    "letter": SqlType("char", 1),
    "four": SqlType("char", 4),
    "sid": SqlType("varbinary", 85),
    "guid": SqlType("uniqueidentifier"),
    "lockspace": SqlType("nvarchar", 32),
    "address": SqlType("varbinary", 8),
    "word": SqlType("varchar", 48),
    "number": SqlType("numeric", None, 38, 0),
    "params": SqlType("varchar", 32),
    "answer": SqlType("varchar", 3),
    "family": SqlType("varchar", 10),
    "constraint": SqlType("varchar", 11),
}


def shape(text: str) -> tuple[Column, ...]:
    """Columns written as "name:kind", with the kinds above."""
    named = (item.split(":") for item in text.split())
    return tuple(Column(name, _KINDS[kind]) for name, kind in named)


def precision_scale(kind: SqlType) -> tuple[int, int]:
    """sys.columns.precision and scale."""
    if kind.name in ("time", "datetime2", "datetimeoffset"):
        base, scale = DATE_PRECISIONS[kind.name][0], kind.scale or 0
        return base + (scale + 1 if scale else 0), scale
    if kind.name in DATE_PRECISIONS:
        return DATE_PRECISIONS[kind.name]
    if family(kind) == "exact":
        return exact_shape(kind)
    return _PRECISIONS.get(kind.name, 0), 0


def nothing(view: Viewpoint) -> Iterator[Row]:
    """Of what cannot exist here."""
    return iter(())
