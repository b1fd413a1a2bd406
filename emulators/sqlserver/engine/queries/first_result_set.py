"""sys.dm_exec_describe_first_result_set: what the columns of a SELECT are, without running it. Only a batch of one SELECT, without parameters.

Other batches fail with error 50001; the real server follows every path. As there, a row says why a query is refused, and the next one what that
means for the batch.
Its columns are those that need no answer about the browse mode, and none that is for internal use.
Source: https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-exec-describe-first-result-set-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulators.sqlserver.engine.extension import CallContext, Row, TableFunction
from emulators.sqlserver.engine.functions.environment import TYPE_IDS, type_id
from emulators.sqlserver.engine.views.viewing import precision_scale
from emulators.sqlserver.results import Column, SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.functions.functions import stored_size
from emulators.sqlserver.tsql.planning.lowering import Elsewhere, lower_query
from emulators.sqlserver.tsql.planning.plans import Names
from emulators.sqlserver.tsql.reading.batch import parse_batch
from emulators.sqlserver.tsql.reading.statements import Select
from emulators.sqlserver.tsql.values.types import SYSNAME, collation_shown, spelled

_BIT, _INT, _TINY = SqlType("bit"), SqlType("int"), SqlType("tinyint")
_COLUMNS = (
    Column("is_hidden", _BIT),
    Column("column_ordinal", _INT),
    Column("name", SYSNAME),
    Column("is_nullable", _BIT),
    Column("system_type_id", _INT),
    Column("system_type_name", SqlType("nvarchar", 256)),
    Column("max_length", SqlType("smallint")),
    Column("precision", _TINY),
    Column("scale", _TINY),
    Column("collation_name", SYSNAME),
    Column("user_type_id", _INT),
    Column("error_number", _INT),
    Column("error_severity", _INT),
    Column("error_state", _INT),
    Column("error_message", SqlType("nvarchar", 4000)),
    Column("error_type", _INT),
    Column("error_type_desc", SqlType("nvarchar", 60)),
)
_NO_ERROR = (None, None, None, None, None, None)
_MISC, _SYNTAX = (1, "MISC"), (2, "SYNTAX")
_OF_A_STATEMENT = frozenset({208, 229, 230})
"""Errors that end a statement when it is reached. Others are found when the batch is compiled, and nothing of it runs."""


def first_result_set(names: Names) -> TableFunction:
    """The function for who finds names as `names` does."""

    def rows(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        text, parameters, browse = arguments
        if parameters is not None or browse:
            raise unsupported("sys.dm_exec_describe_first_result_set with parameters or browse information")
        try:
            columns = _columns(str(text), names)
        except SqlError as error:
            yield from _refused(error)
        else:
            yield from (_row(number, column) for number, column in enumerate(columns, 1))

    return TableFunction(3, _COLUMNS, rows)


def _refused(error: SqlError) -> Iterator[Row]:
    """What only this server does not know has one row: the real one describes it."""
    yield _error_row(0, error, _SYNTAX)
    if error.number in _OF_A_STATEMENT:
        yield _error_row(1, errors.no_path_without_error(), _MISC)
    elif error.number != errors.UNSUPPORTED:
        yield _error_row(1, errors.not_analyzed(), _SYNTAX)


def _error_row(number: int, error: SqlError, kind: tuple[int, str]) -> Row:
    nothing = (0, number, None, 0, 0, None, 0, 0, 0, None, None)
    return (*nothing, error.number, error.severity, error.state, error.message, *kind)


def _columns(text: str, names: Names) -> Sequence[Column]:
    statements = parse_batch(text)
    if len(statements) != 1 or not isinstance(statements[0], Select) or statements[0].assigns or statements[0].into:
        raise unsupported("sys.dm_exec_describe_first_result_set of anything but one SELECT")
    try:
        return lower_query(statements[0].query, names, {}).columns
    except Elsewhere:
        raise unsupported("sys.dm_exec_describe_first_result_set of another database") from None


def _row(number: int, column: Column) -> Row:
    kind = column.type
    precision, scale = precision_scale(kind)
    stored = SqlType("nvarchar", 128) if kind.name == "sysname" else kind
    return (
        *(
            0,
            number,
            column.name or None,
            int(column.nullable),
            TYPE_IDS["nvarchar"] if stored is not kind else type_id(kind),
        ),
        *("timestamp" if kind.name == "rowversion" else spelled(stored), stored_size(kind), precision, scale),
        *(collation_shown(kind), None),
        *_NO_ERROR,
    )
