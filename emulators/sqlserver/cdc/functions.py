"""The scalar functions sys.fn_cdc_... and the generated table functions cdc.fn_cdc_get_all_changes_<capture_instance>.

Sources: the function pages under https://learn.microsoft.com/sql/relational-databases/system-functions/ ; error 313 as
documented since 2022 and measured on SQL Server 2025. Net changes are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from emulators.sqlserver.cdc import errors, lsn, mask, metadata
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.instance import (
    BEFORE_UPDATE,
    CLUSTERED_KEY,
    LSN,
    CapturedColumn,
    CaptureInstance,
    all_changes_columns,
)
from emulators.sqlserver.cdc.tracking_time import datetime_value
from emulators.sqlserver.engine.extension import CallContext, Database, Row, ScalarFunction, TableFunction
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType

_ALL_CHANGES = "fn_cdc_get_all_changes_"
_NET_CHANGES = "fn_cdc_get_net_changes_"

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


def table_function(cdc: DatabaseCdc | None, database: Database, name: str) -> TableFunction | None:
    """The generated function of this name in schema cdc; None when there is none. Raises 50001 for net changes."""
    lowered = name.lower()
    if cdc is None:
        return None
    if lowered.startswith(_NET_CHANGES):
        instance = cdc.instance(name[len(_NET_CHANGES) :])
        if instance is not None and instance.supports_net_changes:
            raise errors.unsupported(f"cdc.{_NET_CHANGES}{instance.name}")
        return None
    if not lowered.startswith(_ALL_CHANGES):
        return None
    instance = cdc.instance(name[len(_ALL_CHANGES) :])
    if instance is None:
        return None
    return TableFunction(3, all_changes_columns(instance.columns), _all_changes(database, instance))


def _all_changes(
    database: Database, instance: CaptureInstance
) -> Callable[[CallContext, Sequence[Value]], Iterator[Row]]:
    def call(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        del context
        low, high = binary_lsn(arguments[0]), binary_lsn(arguments[1])
        row_filter = str(arguments[2]).strip().casefold()
        connection = database.reader()
        newest = metadata.max_lsn(database, connection)
        oldest = metadata.min_lsn(database, connection, instance)
        if low is None or high is None or newest is None or not oldest <= low <= high <= newest:
            raise errors.outside_the_validity_interval(f"cdc.{_ALL_CHANGES}")
        if row_filter not in ("all", "all update old"):
            raise errors.outside_the_validity_interval(f"cdc.{_ALL_CHANGES}")
        columns = ", ".join(metadata.quoted(column.name) for column in all_changes_columns(instance.columns))
        order = ", ".join(map(metadata.quoted, CLUSTERED_KEY))
        skipped = BEFORE_UPDATE if row_filter == "all" else 0
        rows: list[Row] = connection.execute(
            f"SELECT {columns} FROM {metadata.storage(database, instance.change_table)} "
            f'WHERE "__$start_lsn" BETWEEN ? AND ? AND "__$operation" <> ? ORDER BY {order}',
            (low, high, skipped),
        ).fetchall()
        return iter(rows)

    return call


class _Scalar:
    """The scalar functions that ask the database."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def get_min_lsn(self, context: CallContext, arguments: Sequence[Value]) -> Value:
        """The low watermark of a capture instance; zeros for an unknown one."""
        instance = self._instance(context, arguments[0])
        if instance is None:
            return lsn.ZERO
        return metadata.min_lsn(context.database, context.database.reader(), instance)

    def get_max_lsn(self, context: CallContext, arguments: Sequence[Value]) -> Value:
        del arguments
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
            raise errors.unsupported(f"relational operator '{operator}' of sys.fn_cdc_map_time_to_lsn")
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
        wanted = str(column_name).casefold()
        return next((column for column in instance.columns if column.name.casefold() == wanted), None)


def binary_lsn(value: Value) -> bytes | None:
    """An argument of type binary(10): shorter ones are padded on the right, numbers on the left. Raises 257 for text."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value[: lsn.SIZE].ljust(lsn.SIZE, b"\0")
    if isinstance(value, int):
        return (value & 0xFFFF_FFFF).to_bytes(lsn.SIZE, "big")
    kind = "float" if isinstance(value, float) else "varchar"
    raise SqlError(
        257,
        f"Implicit conversion from data type {kind} to binary is not allowed. Use the CONVERT function to run this query.",
    )


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
        raise errors.unsupported("sys.fn_cdc_is_bit_set with arguments other than int and varbinary")
    return int(mask.is_bit_set(position, update_mask))
