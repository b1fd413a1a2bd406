"""Table functions that every database has: STRING_SPLIT, and fn_listextendedproperty, which finds nothing, as there are none.

STRING_SPLIT gives nvarchar whatever it is given, and takes its third argument as 1 only.
Source: https://learn.microsoft.com/sql/t-sql/functions/string-split-transact-sql and the page of sys.fn_listextendedproperty
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulators.sqlserver.engine.extension import CallContext, Row, TableFunction
from emulators.sqlserver.results import Column, SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import unsupported

_VALUE = Column("value", SqlType("nvarchar", 4000))
_ORDINAL = Column("ordinal", SqlType("bigint"))
_PROPERTIES = (
    Column("objtype", SqlType("sysname")),
    Column("objname", SqlType("sysname")),
    Column("name", SqlType("sysname"), nullable=False),
    Column("value", SqlType("nvarchar", 4000)),
)


def _split(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
    """Raises 214."""
    text, separator, *ordinal = arguments
    if ordinal and ordinal[0] != 1:
        raise unsupported("STRING_SPLIT with an enable_ordinal that is not 1")
    if not isinstance(separator, str) or len(separator) != 1:
        raise SqlError(214, "Procedure expects parameter 'separator' of type 'nchar(1)/nvarchar(1)'.", 16, 11)
    pieces = [] if text is None else str(text).split(separator)
    for at, piece in enumerate(pieces, 1):
        yield (piece, at) if ordinal else (piece,)


def _none(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
    return iter(())


def built_in(schema: str, name: str, arguments: int) -> TableFunction | None:
    """Under lower-case names; the number of arguments tells the forms of STRING_SPLIT apart."""
    if name == "string_split" and schema == "dbo":
        columns = (_VALUE, _ORDINAL) if arguments == 3 else (_VALUE,)
        return TableFunction(3 if arguments == 3 else 2, columns, _split)
    if name == "fn_listextendedproperty" and schema in ("dbo", "sys"):
        return TableFunction(7, _PROPERTIES, _none)
    return None
