"""The generated table functions cdc.fn_cdc_get_all_changes_<capture_instance> and cdc.fn_cdc_get_net_changes_<capture_instance>.

Sources: the pages of these names under https://learn.microsoft.com/sql/relational-databases/system-functions/ ; error 313 as
documented since 2022 and measured on SQL Server 2025. The mask of 'all with mask' is evaluated as with the server option
"clr enabled" on; off, the real server gives NULL there and says 22969 when the table is enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from emulators.sqlserver.cdc import errors, metadata
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.instance import (
    BEFORE_UPDATE,
    CaptureInstance,
    all_changes_columns,
    net_changes_columns,
)
from emulators.sqlserver.cdc.queries import access, net_changes
from emulators.sqlserver.cdc.queries.arguments import binary_lsn
from emulators.sqlserver.engine.extension import CallContext, Database, Row, TableFunction
from emulators.sqlserver.results import Value

_ALL_CHANGES = "fn_cdc_get_all_changes_"
_NET_CHANGES = "fn_cdc_get_net_changes_"

_Call = Callable[[CallContext, Sequence[Value]], Iterator[Row]]


def table_function(cdc: DatabaseCdc | None, database: Database, name: str) -> TableFunction | None:
    """The generated function of this name in schema cdc; None when there is none, as for net changes that are not supported."""
    if cdc is None:
        return None
    fold = database.fold
    if fold(name).startswith(fold(_ALL_CHANGES)):
        instance = cdc.instance(name[len(_ALL_CHANGES) :])
        if instance is not None:
            return TableFunction(3, all_changes_columns(instance.columns), _all_changes(database, instance))
    elif fold(name).startswith(fold(_NET_CHANGES)):
        instance = cdc.instance(name[len(_NET_CHANGES) :])
        if instance is not None and instance.supports_net_changes:
            return TableFunction(3, net_changes_columns(instance.columns), _net_changes(database, instance))
    return None


def _all_changes(database: Database, instance: CaptureInstance) -> _Call:
    def call(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        if not _may_read(context, instance, _ALL_CHANGES):
            return iter([(None,) * len(all_changes_columns(instance.columns))])
        filters = ("all", "all update old")
        low, high, row_filter = _window(database, instance, arguments, f"cdc.{_ALL_CHANGES}", filters)
        columns = ", ".join(metadata.quoted(column.name) for column in all_changes_columns(instance.columns))
        skipped = BEFORE_UPDATE if row_filter == "all" else 0
        rows: list[Row] = (
            database.reader()
            .execute(
                f"SELECT {columns} FROM {metadata.storage(database, instance.change_table)} "
                f'WHERE "__$start_lsn" BETWEEN ? AND ? AND "__$operation" <> ? ORDER BY {_order(instance)}',
                (low, high, skipped),
            )
            .fetchall()
        )
        return iter(rows)

    return call


def _net_changes(database: Database, instance: CaptureInstance) -> _Call:
    def call(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        if not _may_read(context, instance, _NET_CHANGES):
            return iter([(None,) * len(net_changes_columns(instance.columns))])
        low, high, row_filter = _window(database, instance, arguments, f"cdc.{_NET_CHANGES}", net_changes.FILTERS)
        connection = database.reader()
        captured = "".join(f", {metadata.quoted(column.name)}" for column in instance.columns)
        rows = connection.execute(
            f'SELECT "__$start_lsn", "__$seqval", "__$operation", "__$update_mask"{captured} '
            f"FROM {metadata.storage(database, instance.change_table)} "
            f'WHERE "__$start_lsn" BETWEEN ? AND ? ORDER BY {_order(instance)}',
            (low, high),
        ).fetchall()
        window = [
            net_changes.WindowRow(lsn, seqval, op, mask, tuple(values)) for lsn, seqval, op, mask, *values in rows
        ]
        key = metadata.key_positions(database, connection, instance)
        return net_changes.net_changes(window, key, [column.type for column in instance.columns], row_filter)

    return call


def _may_read(context: CallContext, instance: CaptureInstance, function: str) -> bool:
    """Raises 229 outside the gating role. Inside it, who may not SELECT the captured columns gets one row of NULLs, no error:
    so the generated functions do it (Debezium and Estuary tell of rows without `__$start_lsn`)."""
    if not access.in_gating_role(context, instance):
        raise errors.select_denied(f"{function}{instance.name}", context.database.name)
    return access.may_select(context, instance)


def _order(instance: CaptureInstance) -> str:
    return ", ".join(map(metadata.quoted, instance.clustered_key))


def _window(
    database: Database, instance: CaptureInstance, arguments: Sequence[Value], function: str, filters: Sequence[str]
) -> tuple[bytes, bytes, str]:
    """The bounds and the row filter. Raises 313 unless the bounds lie in the validity interval and the filter is one of `filters`."""
    low, high = binary_lsn(arguments[0]), binary_lsn(arguments[1])
    row_filter = str(arguments[2]).strip().casefold()
    connection = database.reader()
    newest = metadata.max_lsn(database, connection)
    oldest = metadata.min_lsn(database, connection, instance)
    if (
        low is None
        or high is None
        or newest is None
        or not oldest <= low <= high <= newest
        or row_filter not in filters
    ):
        raise errors.outside_the_validity_interval(function)
    return low, high, row_filter
