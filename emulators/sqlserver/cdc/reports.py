"""The result sets of the procedures that describe: sp_cdc_help_change_data_capture, sp_cdc_help_jobs, sp_cdc_get_captured_columns
and sp_cdc_get_ddl_history. They read, and change nothing.

Sources: the pages of these names under https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emulators.sqlserver.cdc import jobs, metadata
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.instance import LSN, SYSNAME, CaptureInstance
from emulators.sqlserver.engine.extension import Row
from emulators.sqlserver.results import Column, ResultSet, Value
from emulators.sqlserver.sqltypes import MAX, SqlType

_INT = SqlType("int")
_BIT = SqlType("bit")
_BIGINT = SqlType("bigint")
_SMALLINT = SqlType("smallint")
_TINYINT = SqlType("tinyint")
_DATETIME = SqlType("datetime")
_LONG_TEXT = SqlType("nvarchar", MAX)

_HELP = (
    Column("source_schema", SYSNAME),
    Column("source_table", SYSNAME),
    Column("capture_instance", SYSNAME),
    Column("object_id", _INT),
    Column("source_object_id", _INT),
    Column("start_lsn", LSN),
    Column("end_lsn", LSN),
    Column("supports_net_changes", _BIT),
    Column("has_drop_pending", _BIT),
    Column("role_name", SYSNAME),
    Column("index_name", SYSNAME),
    Column("filegroup_name", SYSNAME),
    Column("create_date", _DATETIME),
    Column("index_column_list", _LONG_TEXT),
    Column("captured_column_list", _LONG_TEXT),
)

_JOBS = (
    Column("job_id", SqlType("uniqueidentifier")),
    Column("job_type", SqlType("nvarchar", 20)),
    Column("job_name", SYSNAME),
    Column("maxtrans", _INT),
    Column("maxscans", _INT),
    Column("continuous", _BIT),
    Column("pollinginterval", _BIGINT),
    Column("retention", _BIGINT),
    Column("threshold", _BIGINT),
)

_CAPTURED = (
    Column("source_schema", SYSNAME),
    Column("source_table", SYSNAME),
    Column("capture_instance", SYSNAME),
    Column("column_name", SYSNAME),
    Column("column_id", _INT),
    Column("ordinal_position", _INT),
    Column("data_type", SYSNAME),
    Column("character_maximum_length", _INT),
    Column("numeric_precision", _TINYINT),
    Column("numeric_precision_radix", _SMALLINT),
    Column("numeric_scale", _INT),
    Column("datetime_precision", _SMALLINT),
)

_HISTORY = (
    Column("source_schema", SYSNAME),
    Column("source_table", SYSNAME),
    Column("capture_instance", SYSNAME),
    Column("required_column_update", _BIT),
    Column("ddl_command", _LONG_TEXT),
    Column("ddl_lsn", LSN),
    Column("ddl_time", _DATETIME),
)

_WHOLE_NUMBERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19, "smallmoney": 10, "money": 19}
_FRACTIONS = {"real": 24, "float": 53}
_EXACT = frozenset({"decimal", "numeric"})
_CLOCKS = frozenset({"time", "datetime2", "datetimeoffset"})
_FIXED_CLOCKS = {"date": 0, "smalldatetime": 0, "datetime": 3}
_LONG = {"text": 2_147_483_647, "image": 2_147_483_647, "ntext": 1_073_741_823, "xml": MAX}


def help_change_data_capture(cdc: DatabaseCdc, instances: Sequence[CaptureInstance]) -> ResultSet:
    """One row a capture instance."""
    connection = cdc.database.reader()
    stored = (
        "object_id, source_object_id, start_lsn, end_lsn, supports_net_changes, has_drop_pending, role_name, "
        "index_name, filegroup_name, create_date"
    )
    rows: list[Row] = []
    for instance in instances:
        about = connection.execute(
            f"SELECT {stored} FROM {metadata.storage(cdc.database, 'change_tables')} WHERE object_id = ?",
            (instance.object_id,),
        ).fetchone()
        indexed = connection.execute(
            f"SELECT column_name FROM {metadata.storage(cdc.database, 'index_columns')} WHERE object_id = ? "
            "ORDER BY index_ordinal",
            (instance.object_id,),
        ).fetchall()
        captured = _name_list(column.name for column in instance.columns)
        rows.append((*_names(cdc, instance), *about, _name_list(name for (name,) in indexed), captured))
    return ResultSet(_HELP, iter(rows))


def help_jobs(cdc: DatabaseCdc) -> ResultSet:
    """A row a job: nothing but the capture job has capture settings, nothing but the cleanup job a retention."""
    found: list[Row] = [
        (job.job_id, job.job_type, f"cdc.{cdc.database.name}_{job.job_type}", *job.settings)
        for job in jobs.rows(cdc.stored_jobs())
    ]
    return ResultSet(_JOBS, iter(found))


def captured_columns(cdc: DatabaseCdc, instance: CaptureInstance) -> ResultSet:
    """One row a captured column of the instance, in ordinal order."""
    names = _names(cdc, instance)
    rows: list[Row] = [
        (*names, c.name, c.column_id, c.ordinal, c.type_name, *_measures(c.captured_type)) for c in instance.columns
    ]
    return ResultSet(_CAPTURED, iter(rows))


def ddl_history(cdc: DatabaseCdc, instance: CaptureInstance) -> ResultSet:
    """The DDL statements on the source table since the instance was made, as far as capture has come."""
    history = metadata.storage(cdc.database, "ddl_history")
    found = cdc.database.reader().execute(
        f"SELECT required_column_update, ddl_command, ddl_lsn, ddl_time FROM {history} WHERE object_id = ? ORDER BY ddl_lsn",
        (instance.object_id,),
    )
    names = _names(cdc, instance)
    rows: list[Row] = [(*names, *row) for row in found.fetchall()]
    return ResultSet(_HISTORY, iter(rows))


def _names(cdc: DatabaseCdc, instance: CaptureInstance) -> tuple[Value, Value, Value]:
    source = cdc.database.table_by_id(instance.source_object_id)
    return (source.schema, source.name, instance.name) if source else (None, None, instance.name)


def _name_list(names: Iterable[str]) -> str | None:
    return ", ".join("[" + name.replace("]", "]]") + "]" for name in names) or None


def _measures(kind: SqlType) -> tuple[Value, Value, Value, Value, Value]:
    """character_maximum_length, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision."""
    if kind.length is not None:
        return (kind.length, None, None, None, None)
    if kind.name in _LONG:
        return (_LONG[kind.name], None, None, None, None)
    if kind.name in _WHOLE_NUMBERS:
        return (None, _WHOLE_NUMBERS[kind.name], 10, 4 if kind.name.endswith("money") else 0, None)
    if kind.name in _FRACTIONS:
        return (None, _FRACTIONS[kind.name], 2, None, None)
    if kind.name in _EXACT:
        return (None, kind.precision, 10, kind.scale, None)
    if kind.name in _CLOCKS:
        return (None, None, None, None, kind.scale)
    return (None, None, None, None, _FIXED_CLOCKS.get(kind.name))
