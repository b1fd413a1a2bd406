"""The errors of Change Data Capture, with Microsoft's numbers and texts; those that others raise as well are in tsql/errors.py.

Source: https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors-22000-to-22999
"""

from __future__ import annotations

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import permission_denied


def not_enabled(database: str) -> SqlError:
    return SqlError(
        22901,
        f"The database '{database}' is not enabled for Change Data Capture. Ensure that the correct database context is "
        "set and retry the operation. To report on the databases enabled for Change Data Capture, query the "
        "is_cdc_enabled column in the sys.databases catalog view.",
    )


def not_authorized(privileges: str) -> SqlError:
    return SqlError(
        22902, f"Caller is not authorized to initiate the requested action. {privileges} privileges are required."
    )


def owner_required() -> SqlError:
    return SqlError(22904, "Caller is not authorized to initiate the requested action. DBO privileges are required.")


def access_denied() -> SqlError:
    return SqlError(22981, "Object does not exist or access is denied.")


def select_denied(function: str, database: str) -> SqlError:
    """229: a caller outside the gating role has no permission on the generated functions."""
    return permission_denied("SELECT", function, database, "cdc")


def log_is_being_read(session_id: int) -> SqlError:
    return SqlError(
        22903,
        f"Another connection with session ID {session_id} is already running 'sp_replcmds' for Change Data Capture in the "
        "current database.",
    )


def scan_failed(message: str | None = None) -> SqlError:
    """22859: what a capture job ends with when it cannot read the log; `message` instead of Microsoft's text."""
    return SqlError(
        22859,
        message
        or "Log Scan process failed in processing log records. Refer to previous errors in the current session to identify "
        "the cause and correct any associated problems.",
    )


def job_exists(job: str) -> SqlError:
    """14261: SQL Server Agent's answer, by way of msdb.dbo.sp_add_job."""
    return SqlError(14261, f"The specified @name ('{job}') already exists.")


def already_enabled_text(database: str) -> str:
    """22905 has severity 10: a message, not an error."""
    return (
        f"Database '{database}' is already enabled for Change Data Capture. Ensure that the correct database context is "
        "set, and retry the operation. To report on the databases enabled for Change Data Capture, query the "
        "is_cdc_enabled column in the sys.databases catalog view."
    )


def schema_taken(database: str) -> SqlError:
    return SqlError(
        22906,
        f"The database '{database}' cannot be enabled for Change Data Capture because a database user named 'cdc' or a "
        "schema named 'cdc' already exists in the current database. These objects are required exclusively by Change "
        "Data Capture. Drop or rename the user or schema and retry the operation.",
    )


def empty_role() -> SqlError:
    return SqlError(
        22907,
        "Parameter @role_name cannot be empty. Specify a value for @role_name and retry the operation. Supply null as "
        "the value if no role is to be used to gate access to captured change data.",
    )


def unknown_instance(instance: str, database: str) -> SqlError:
    return SqlError(22920, f"The named capture instance {instance} does not exist for database {database}.")


def instance_exists(instance: str) -> SqlError:
    return SqlError(
        22926,
        f"Could not create a capture instance because the capture instance name '{instance}' already exists in the "
        "current database. Specify an explicit unique name for the parameter @capture_instance.",
    )


def instance_name_too_long(instance: str) -> SqlError:
    return SqlError(
        22927,
        f"Capture instance name '{instance}' exceeds the length limit of 100 characters. Specify a name that satisfies "
        "the length constraint.",
    )


def not_an_index(index: str, schema: str, table: str) -> SqlError:
    return SqlError(
        22928,
        f"Index name '{index}' is not an index for table '{schema}.{table}'. Specify a valid index name for the table.",
    )


def not_a_unique_index(index: str, schema: str, table: str) -> SqlError:
    return SqlError(
        22929,
        f"Index '{index}' must be either a primary key or a unique index for table '{schema}.{table}'. Specify an index that "
        "meets at least one of these requirements.",
    )


def unknown_column(column: str, schema: str, table: str) -> SqlError:
    return SqlError(
        22930,
        f"Could not locate '{column}' as a column of source table '{schema}.{table}'. Specify a valid column name.",
    )


def unknown_table(schema: str, table: str) -> SqlError:
    return SqlError(
        22931,
        f"Source table '{schema}.{table}' does not exist in the current database. Ensure that the correct database "
        "context is set. Specify a valid schema and table name for the database.",
    )


def no_key_for_net_changes() -> SqlError:
    return SqlError(
        22939,
        "The parameter @supports_net_changes is set to 1, but the source table does not have a primary key defined and "
        "no alternate unique index has been specified.",
    )


def unmapped_columns(schema: str, table: str) -> SqlError:
    return SqlError(
        22942,
        "Columns specified in the captured column list could not be mapped to columns in source table "
        f"'{schema}.{table}'. Verify that the columns specified in the parameter @captured_column_list are delimited "
        "properly and match columns in the source table.",
    )


def key_not_captured() -> SqlError:
    return SqlError(
        22943,
        "Columns used to uniquely identify a row for net change tracking must be included in the list of captured "
        "columns. Add either the primary key columns of the source table, or the columns defined for the index "
        "specified in the parameter @index_name to the list of captured columns and retry the operation.",
    )


def instance_of_another_table(instance: str, schema: str, table: str) -> SqlError:
    return SqlError(
        22960,
        f"Change data capture instance '{instance}' has not been enabled for the source table '{schema}.{table}'. Use "
        "sys.sp_cdc_help_change_data_capture to verify the capture instance name and retry the operation.",
    )


def two_instances_exist(schema: str, table: str) -> SqlError:
    return SqlError(
        22962,
        f"Two capture instances already exist for source table '{schema}.{table}'. A table can have at most two capture "
        "instances. If the current tracking options are not appropriate, disable change tracking for the obsolete "
        "instance by using sys.sp_cdc_disable_table and retry the operation.",
    )


def empty_parameter(parameter: str) -> SqlError:
    return SqlError(
        22963,
        f"Parameter '{parameter}' cannot be null or empty. Specify a value for the named parameter and retry the operation.",
    )


def not_a_start_lsn(lsn: bytes) -> SqlError:
    return SqlError(
        22964,
        f"LSN 0x{lsn.hex().upper()}, specified as the new low end point for change table cleanup must represent the "
        "start_lsn value of a current entry in the cdc.lsn_time_mapping table. Choose an LSN value that satisfies this "
        "requirement.",
    )


def unterminated_column() -> SqlError:
    return SqlError(
        22965,
        "A quoted column in the column list is not properly terminated. Verify that columns are correctly delimited and "
        "retry the operation. For more information, see 'Delimited Identifiers' in Books Online.",
    )


def unpaired_source() -> SqlError:
    return SqlError(
        22972,
        "When calling stored procedure [sys].sp_cdc_help_change_data capture, if either @source_schema or @source_name "
        "is non-null and non-empty, the other parameter must also be non-null and non-empty.",
    )


def unknown_filegroup(filegroup: str, database: str) -> SqlError:
    return SqlError(
        22973,
        f"The specified filegroup '{filegroup}' is not a valid filegroup for database '{database}'. Specify a valid "
        "existing filegroup or create the named filegroup, and retry the operation.",
    )


def table_of_cdc() -> SqlError:
    return SqlError(22974, "Tables contained in the cdc schema cannot be enabled for Change Data Capture.")


def reserved_columns(table: str) -> SqlError:
    return SqlError(
        22975,
        f"Source table '{table}' contains one of the following reserved column names: __$start_lsn, __$end_lsn, "
        "__$seqval, __$operation, and __$update_mask. To enable Change Data Capture for this table, specify a captured "
        "column list and ensure that these columns are excluded from the list.",
    )


def index_in_use(index: str, table: str) -> SqlError:
    return SqlError(
        22983,
        f"The unique index '{index}' on source table '{table}' is used by Change Data Capture. To alter or drop the "
        "index, you must first disable Change Data Capture on the table.",
    )


def table_not_enabled(schema: str, table: str) -> SqlError:
    return SqlError(
        22985,
        f"Change data capture has not been enabled for source table '{schema}.{table}'. Specify the name of a table "
        "enabled for Change Data Capture. To report on the tables enabled for Change Data Capture, query the "
        "is_tracked_by_cdc column in the sys.tables catalog view.",
    )


def bad_polling_interval() -> SqlError:
    return SqlError(
        22990,
        "The value specified for the parameter @pollinginterval must be greater than or equal to 0 and less than 24 "
        "hours(Max: 86399 seconds). Specify a polling interval (in seconds) that is less than 24 hours (86,400 seconds).",
    )


def bad_maxtrans() -> SqlError:
    return SqlError(22991, "The value specified for the parameter @maxtrans must be greater than 0.")


def bad_maxscans() -> SqlError:
    return SqlError(
        22970,
        "The value for parameter @maxscans specified for the Change Data Capture job must be greater than 0.",
    )


def unknown_job_type(job_type: str) -> SqlError:
    return SqlError(
        22992,
        f"The specified @job_type, {job_type}, is not supported. The value specified for the parameter @job_type must be "
        "N'capture' to indicate a capture job, or N'cleanup' to indicate a cleanup job.",
    )


def bad_retention() -> SqlError:
    return SqlError(
        22994,
        "The retention value specified for the Change Data Capture cleanup process must be greater than 0 and less than "
        "or equal to 52594800. When creating or modifying the cleanup job, specify a retention value (in minutes) that "
        "is within that range. If this error is encountered when executing the sys.sp_cdc_cleanup_change_table stored "
        "procedure, reset the retention value associated with the job to a non-negative value less than 52594800 by "
        "using the sp_cdc_change_job stored procedure.",
    )


def retention_of_capture_job() -> SqlError:
    return SqlError(
        22995,
        "A value for the parameter @retention cannot be specified when the job type is 'capture'. Specify NULL for the "
        "parameter, or omit the parameter from the statement.",
    )


def capture_options_of_cleanup_job() -> SqlError:
    return SqlError(
        22996,
        "When adding or modifying the CDC cleanup job, @pollinginterval, @maxtrans, @maxscans, and @continuous may not "
        "be assigned non-null values.",
    )


def outside_the_validity_interval(function: str) -> SqlError:
    """313: the fixed text with which the generated functions answer a bad LSN or filter; the three dots are theirs."""
    return SqlError(
        313,
        f"An insufficient number of arguments were supplied for the procedure or function {function} ... .",
        severity=16,
        state=3,
    )


def large_object_too_long(size: int, limit: int) -> SqlError:
    return SqlError(
        7139,
        f"Length of LOB data ({size}) to be replicated exceeds configured maximum {limit}. Use the stored procedure "
        "sp_configure to increase the configured maximum value for max text repl size option, which defaults to 65536. A "
        "configured value of -1 indicates no limit, other that the limit imposed by the data type.",
    )


def change_table_not_altered(column: str, change_table: str, source: str) -> SqlError:
    return SqlError(
        22976,
        f"Could not alter column '{column}' of change table '{change_table}' in response to a data type change in the "
        f"corresponding column of the source table '{source}'. The Change Data Capture meta data for source table '{source}' "
        "no longer accurately reflects the source table. Refer to previous errors in the current session to identify the "
        "cause and correct any associated problems.",
    )


def truncate_refused(table: str) -> SqlError:
    return SqlError(
        4711,
        f"Cannot truncate table '{table}' because it is published for replication or enabled for Change Data Capture.",
    )


def rename_refused(column: str) -> SqlError:
    return SqlError(4928, f"Cannot alter column '{column}' because it is 'REPLICATED'.", state=1)


def no_job(job_type: str) -> SqlError:
    return SqlError(
        22997,
        f"The Change Data Capture '{job_type}' job does not exist in the system table 'msdb.dbo.cdc_jobs'. Use the stored "
        "procedure 'sys.sp_cdc_add_job' to add the Change Data Capture job.",
    )


def bad_continuous() -> SqlError:
    return SqlError(22998, "The value specified for the parameter @continuous must be 0 or 1.")


def polling_interval_of_one_scan() -> SqlError:
    return SqlError(
        22999,
        "The value specified for the parameter @pollinginterval must be null or 0 when the stored procedure "
        "'sys.sp_cdc_scan' is not being run in continuous mode.",
    )
