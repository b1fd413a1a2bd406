"""Enabling and disabling Change Data Capture for a database and for a table: the checks, then one write transaction.

Sources: the pages sys.sp_cdc_enable_db, sys.sp_cdc_disable_db, sys.sp_cdc_enable_table and sys.sp_cdc_disable_table.
Who may call is asked in procedures.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from emulators.sqlserver.cdc import errors, jobs, log_store, metadata
from emulators.sqlserver.cdc.column_list import column_names
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.instance import RESERVED_NAMES, CapturedColumn, CaptureInstance
from emulators.sqlserver.cdc.lsn import ZERO
from emulators.sqlserver.engine.extension import Database, KeyIndex, Table, TableColumn
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import unsupported

_LONGEST_NAME = 100
_MOST_INSTANCES = 2


@dataclass(frozen=True, slots=True)
class EnableTable:
    """The arguments of sys.sp_cdc_enable_table; None where NULL was given or nothing."""

    source_schema: str
    source_name: str
    role_name: str | None = None
    capture_instance: str | None = None
    supports_net_changes: bool | None = None
    index_name: str | None = None
    captured_column_list: str | None = None
    filegroup_name: str | None = None
    allow_partition_switch: bool = True


def create_metadata(database: Database) -> None:
    """Schema cdc and its tables, or nothing. Raises 22906 when the schema is there for another purpose, 1222, Cancelled."""
    with database.writer() as connection:
        try:
            database.create_schema(metadata.SCHEMA)
        except SqlError as taken:
            raise errors.schema_taken(database.name) from taken
        metadata.create_tables(database, connection)
        log_store.create(connection)
    database.set_cdc_enabled(True)


def drop_metadata(cdc: DatabaseCdc) -> None:
    """Stop capture and drop everything that belongs to it, or nothing. Raises 1222, Cancelled.

    Only the wait for the writer lock can fail, and it comes before anything is touched; another session may have been quicker.
    """
    database = cdc.database
    with database.writer() as connection:
        if not metadata.exist(database):
            return
        cdc.close()
        for instance in cdc.instances:
            metadata.remove_instance(database, connection, instance)
        metadata.drop_tables(database, connection)
        log_store.drop(connection, cdc.lsns.commit())
        jobs.drop(connection)
        database.drop_schema(metadata.SCHEMA)
        for object_id in {instance.source_object_id for instance in cdc.instances}:
            database.set_tracked(object_id, False)
        database.set_observer(None)
        database.set_cdc_enabled(False)


def enable_table(cdc: DatabaseCdc, request: EnableTable) -> bool:
    """Make a capture instance; whether the database's jobs were made with it. Raises the errors named in errors.py."""
    database = cdc.database
    with cdc.changing_instances() as connection:
        source = _source(database, request)
        instance, key = plan(cdc.instances, source, request, database.fold)
        # The enabling transaction's commit LSN is the low end point: what was committed before it is not captured.
        planned = replace(
            instance,
            source_object_id=source.object_id,
            start_lsn=cdc.lsns.commit(),
            has_command_id=cdc.options.command_id_column,
        )
        metadata.add_instance(
            database,
            connection,
            source,
            planned,
            key,
            request.role_name,
            request.filegroup_name,
            request.allow_partition_switch,
        )
        database.set_tracked(source.object_id, True)
        return cdc.ensure_jobs(connection)


def disable_table(cdc: DatabaseCdc, schema: str, name: str, capture_instance: str) -> None:
    """Drop one capture instance of a table, or with "all" each, also where there is none. Raises 22931, 22985, 22960."""
    database = cdc.database
    with cdc.changing_instances() as connection:
        source = database.table(schema, name)
        if source is None or source.system:
            raise errors.unknown_table(schema, name)
        instances = cdc.instances_of(source.object_id)
        everything = capture_instance.lower() == "all"
        if not instances:
            if everything:
                return
            raise errors.table_not_enabled(schema, name)
        fold = database.fold
        chosen = [i for i in instances if everything or fold(i.name) == fold(capture_instance)]
        if not chosen:
            raise errors.instance_of_another_table(capture_instance, schema, name)
        for instance in chosen:
            metadata.remove_instance(database, connection, instance)
        if len(chosen) == len(instances):
            database.set_tracked(source.object_id, False)


def plan(
    existing: Sequence[CaptureInstance], source: Table, request: EnableTable, fold: Callable[[str], str]
) -> tuple[CaptureInstance, KeyIndex | None]:
    """The instance that a request asks for, without LSN and object id, and its key. Pure; raises SqlError.

    `fold`: how the database compares names.
    """
    name = request.capture_instance or f"{source.schema}_{source.name}"
    if len(name) > _LONGEST_NAME:
        raise errors.instance_name_too_long(name)
    if any(fold(instance.name) == fold(name) for instance in existing):
        raise errors.instance_exists(name)
    if sum(instance.source_object_id == source.object_id for instance in existing) >= _MOST_INSTANCES:
        raise errors.two_instances_exist(source.schema, source.name)
    key = _key(source, request.index_name, fold)
    net_changes = request.supports_net_changes
    if net_changes is None:
        net_changes = key is not None
    if net_changes and key is None:
        raise errors.no_key_for_net_changes()
    columns = _captured(source, request.captured_column_list, fold)
    captured_ids = {column.column_id for column in columns}
    if net_changes and key is not None and not captured_ids.issuperset(key.column_ids):
        raise errors.key_not_captured()
    index_name = key.name if key else None
    return CaptureInstance(name, 0, source.object_id, ZERO, columns, net_changes, index_name), key


def _source(database: Database, request: EnableTable) -> Table:
    if database.fold(request.source_schema) == metadata.SCHEMA:
        raise errors.table_of_cdc()
    if request.role_name == "":
        raise errors.empty_role()
    if request.filegroup_name is not None and request.filegroup_name.casefold() != "primary":
        raise errors.unknown_filegroup(request.filegroup_name, database.name)
    source = database.table(request.source_schema, request.source_name)
    if source is None or source.system:
        raise errors.unknown_table(request.source_schema, request.source_name)
    return source


def _key(source: Table, index_name: str | None, fold: Callable[[str], str]) -> KeyIndex | None:
    if index_name is None:
        return next((key for key in source.keys if key.primary), None)
    for key in source.all_indexes():
        if fold(key.name) != fold(index_name):
            continue
        if not key.unique:
            raise errors.not_a_unique_index(index_name, source.schema, source.name)
        if key.filter is not None:  # it tells some rows apart only
            raise unsupported("a filtered index as @index_name")
        return key
    raise errors.not_an_index(index_name, source.schema, source.name)


def _captured(source: Table, column_list: str | None, fold: Callable[[str], str]) -> tuple[CapturedColumn, ...]:
    """The captured columns in the table's own order, whatever the order of the list."""
    chosen: Sequence[TableColumn] = source.columns
    if column_list is not None:
        by_name = {fold(column.name): column for column in source.columns}
        wanted = {fold(name) for name in column_names(column_list)}
        if not wanted <= by_name.keys():
            raise errors.unmapped_columns(source.schema, source.name)
        chosen = [column for column in source.columns if fold(column.name) in wanted]
    if any(column.name in RESERVED_NAMES for column in chosen):
        raise errors.reserved_columns(source.name)
    return tuple(
        CapturedColumn(column.name, column.column_id, ordinal, column.type, column.computed)
        for ordinal, column in enumerate(chosen, 1)
    )
