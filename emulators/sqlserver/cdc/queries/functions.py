"""The scalar functions sys.fn_cdc_... that readers of change tables call.

Source: the function pages under https://learn.microsoft.com/sql/relational-databases/system-functions/ . The generated table
functions are in enumeration.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from emulators.sqlserver.cdc import lsn, mask, metadata
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.instance import LSN, CapturedColumn, CaptureInstance
from emulators.sqlserver.cdc.queries import access
from emulators.sqlserver.cdc.queries.arguments import binary_lsn
from emulators.sqlserver.cdc.queries.tracking_time import datetime_value
from emulators.sqlserver.engine.extension import CallContext, Database, ScalarFunction
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import unsupported

_BIT = SqlType("bit")
_INT = SqlType("int")

_NEAREST = {
    "largest less than": ("MAX", "<"),
    "largest less than or equal": ("MAX", "<="),
    "smallest greater than": ("MIN", ">"),
    "smallest greater than or equal": ("MIN", ">="),
}


class Registry(Protocol):
    """Where the functions find the capture state of a database."""

    def find(self, database: Database) -> DatabaseCdc | None: ...


def scalar_functions(registry: Registry) -> Mapping[str, ScalarFunction]:
    functions = _Scalar(registry)
    return {
        "sys.fn_cdc_get_min_lsn": ScalarFunction(1, LSN, functions.get_min_lsn),
        "sys.fn_cdc_get_max_lsn": ScalarFunction(0, LSN, functions.get_max_lsn),
        "sys.fn_cdc_increment_lsn": ScalarFunction(1, LSN, _stepped(lsn.increment)),
        "sys.fn_cdc_decrement_lsn": ScalarFunction(1, LSN, _stepped(lsn.decrement)),
        "sys.fn_cdc_map_lsn_to_time": ScalarFunction(1, SqlType("datetime"), functions.map_lsn_to_time),
        "sys.fn_cdc_map_time_to_lsn": ScalarFunction(2, LSN, functions.map_time_to_lsn),
        "sys.fn_cdc_get_column_ordinal": ScalarFunction(2, _INT, functions.get_column_ordinal),
        "sys.fn_cdc_is_bit_set": ScalarFunction(2, _BIT, _is_bit_set),
        "sys.fn_cdc_has_column_changed": ScalarFunction(3, _BIT, functions.has_column_changed),
    }


class _Scalar:
    """The scalar functions that ask the database."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def get_min_lsn(self, context: CallContext, arguments: Sequence[Value]) -> Value:
        """The low watermark of a capture instance; zeros for one that is unknown or that the caller may not read."""
        instance = self._instance(context, arguments[0])
        if instance is None or not access.may_read(context, instance):
            return lsn.ZERO
        return metadata.min_lsn(context.database, context.database.reader(), instance)

    def get_max_lsn(self, context: CallContext, arguments: Sequence[Value]) -> Value:
        del arguments
        if context.await_end is not None:
            context.await_end("cdc", "lsn_time_mapping")
        return metadata.max_lsn(context.database, context.database.reader())

    def map_lsn_to_time(self, context: CallContext, arguments: Sequence[Value]) -> Value:
        mapping = metadata.storage(context.database, "lsn_time_mapping")
        row = (
            context.database.reader()
            .execute(f"SELECT tran_end_time FROM {mapping} WHERE start_lsn = ?", (binary_lsn(arguments[0]),))
            .fetchone()
        )
        time: Value = row[0] if row else None
        return time

    def map_time_to_lsn(self, context: CallContext, arguments: Sequence[Value]) -> Value:
        """Of several transactions that ended in the same tick, "largest" takes the last and "smallest" the first."""
        operator = str(arguments[0]).strip().casefold()
        if operator not in _NEAREST:
            raise unsupported(f"relational operator '{operator}' of sys.fn_cdc_map_time_to_lsn")
        choose, compare = _NEAREST[operator]
        mapping = metadata.storage(context.database, "lsn_time_mapping")
        query = f"SELECT {choose}(start_lsn) FROM {mapping} WHERE tran_end_time {compare} ?"
        found: Value = context.database.reader().execute(query, (datetime_value(arguments[1]),)).fetchone()[0]
        return found

    def get_column_ordinal(self, context: CallContext, arguments: Sequence[Value]) -> Value:
        column = self._column(context, arguments[0], arguments[1])
        return column.ordinal if column else None

    def has_column_changed(self, context: CallContext, arguments: Sequence[Value]) -> Value:
        column = self._column(context, arguments[0], arguments[1])
        if column is None:
            return None
        return _is_bit_set(context, (column.ordinal, arguments[2]))

    def _instance(self, context: CallContext, name: Value) -> CaptureInstance | None:
        cdc = self._registry.find(context.database)
        return cdc.instance(str(name)) if cdc is not None and name is not None else None

    def _column(self, context: CallContext, instance_name: Value, column_name: Value) -> CapturedColumn | None:
        instance = self._instance(context, instance_name)
        if instance is None or column_name is None:
            return None
        fold = context.database.fold
        wanted = fold(str(column_name))
        return next((column for column in instance.columns if fold(column.name) == wanted), None)


def _stepped(step: Callable[[bytes], bytes]) -> Callable[[CallContext, Sequence[Value]], Value]:
    def call(context: CallContext, arguments: Sequence[Value]) -> Value:
        del context
        value = binary_lsn(arguments[0])
        return None if value is None else step(value)

    return call


def _is_bit_set(context: CallContext, arguments: Sequence[Value]) -> Value:
    del context
    position, update_mask = arguments
    if position is None or update_mask is None:
        return None
    if not isinstance(position, int) or not isinstance(update_mask, bytes):
        raise unsupported("sys.fn_cdc_is_bit_set with arguments other than int and varbinary")
    return int(mask.is_bit_set(position, update_mask))
