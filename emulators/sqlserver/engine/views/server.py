"""The rows of the views over the server itself: databases, options, sessions, connections, transactions, services.

Sources: the views' pages under https://learn.microsoft.com/sql/relational-databases/system-catalog-views/ and
.../system-dynamic-management-views/
"""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.collation import SERVER_DEFAULT
from emulators.sqlserver.engine.functions.properties import SERVER_NAME
from emulators.sqlserver.engine.store.availability import ACCESS
from emulators.sqlserver.engine.views.viewing import STARTED, Row, Viewpoint, Views, shape

_ISOLATION = {
    "READ UNCOMMITTED": 1,
    "READ COMMITTED": 2,
    "REPEATABLE READ": 3,
    "SERIALIZABLE": 4,
    "SNAPSHOT": 5,
}


def _databases(view: Viewpoint) -> Iterator[Row]:
    for database in view.everyone:
        snapshot = int(database.snapshot_allowed)
        waits = view.session.engine.log(database).waits
        yield (
            database.name,
            database.database_id,
            None,
            b"\1",
            STARTED,
            160,
            None if database.availability.offline else database.collation or SERVER_DEFAULT,
            ACCESS.index(database.availability.access),
            database.availability.access,
            *(0, 0, 0),
            *database.availability.state,
            *(0, 0, 0),
            snapshot,
            "ON" if snapshot else "OFF",
            int(database.read_committed_snapshot),
            ("FULL", "BULK_LOGGED", "SIMPLE").index(database.recovery_model) + 1,
            database.recovery_model,
            2,
            "CHECKSUM",
            *(1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
            *(0, 0, 0, 0, 0, 0, 0, 0, 0),
            6 if waits else 0,
            "REPLICATION" if waits else "NOTHING",
            0,
            int(database.cdc_enabled),
            0,
            0,
            "NONE",
            0,
            "DISABLED",
            0,
            0,
        )


def _configurations(view: Viewpoint) -> Iterator[Row]:
    for o in sorted(view.session.engine.configuration.options, key=lambda option: option.number):
        yield o.number, o.name, o.value, o.least, o.most, o.running, o.name, int(o.dynamic), int(o.advanced)


def _sessions(view: Viewpoint) -> Iterator[Row]:
    """One's own session, and with VIEW SERVER STATE everybody's."""
    own = view.session
    everybody = own.engine.security.server_allows(own.login_request.user, "VIEW SERVER STATE")
    for session in own.engine.sessions():
        if session is not own and not everybody:
            continue
        request = session.login_request
        yield (
            session.session_id,
            STARTED,
            request.host or None,
            request.application or None,
            None,
            7,
            "TDS",
            b"\1",
            request.user,
            "running" if session is own else "sleeping",
            _ISOLATION[session.settings.isolation],
            session.settings.lock_timeout,
            0,
            session.row_count,
            session.last_error,
            b"\1",
            request.user,
            session.current().database_id,
            session.transaction.count,
            1,
            "us_english",
            "mdy",
            7,
            *(1, 1, 1, 1, 1, 1),
        )


def _connections(view: Viewpoint) -> Iterator[Row]:
    for session in view.session.engine.sessions():
        number = session.session_id
        yield number, number, STARTED, "TCP", "TSQL", 1946157060, "FALSE", "SQL", 4096, "127.0.0.1", "127.0.0.1", None


def _requests(view: Viewpoint) -> Iterator[Row]:
    session = view.session
    database = session.current().database_id
    isolation = _ISOLATION[session.settings.isolation]
    yield session.session_id, 0, STARTED, "running", "SELECT", database, 0, None, session.transaction.count, isolation


def _transactions(view: Viewpoint) -> Iterator[Row]:
    for session in view.session.engine.sessions():
        if session.transaction.count:
            yield 1000 + session.session_id, session.transaction.name or "user_transaction", STARTED, 1, 2


def _services(view: Viewpoint) -> Iterator[Row]:
    for name in (f"SQL Server ({SERVER_NAME})", f"SQL Server Agent ({SERVER_NAME})"):
        yield name, 2, "Automatic", 4, "Running", 1, None, "mssql", "", "N", None


VIEWS: Views = {
    "sys.databases": (
        shape(
            "name:name database_id:int source_database_id:int owner_sid:sid create_date:datetime "
            "compatibility_level:tiny collation_name:name user_access:tiny user_access_desc:text is_read_only:bit "
            "is_auto_close_on:bit is_auto_shrink_on:bit state:tiny state_desc:text is_in_standby:bit "
            "is_cleanly_shutdown:bit is_supplemental_logging_enabled:bit snapshot_isolation_state:tiny "
            "snapshot_isolation_state_desc:text is_read_committed_snapshot_on:bit recovery_model:tiny "
            "recovery_model_desc:text page_verify_option:tiny page_verify_option_desc:text "
            "is_auto_create_stats_on:bit is_auto_create_stats_incremental_on:bit is_auto_update_stats_on:bit "
            "is_auto_update_stats_async_on:bit is_ansi_null_default_on:bit is_ansi_nulls_on:bit "
            "is_ansi_padding_on:bit is_ansi_warnings_on:bit is_arithabort_on:bit "
            "is_concat_null_yields_null_on:bit is_numeric_roundabort_on:bit is_quoted_identifier_on:bit "
            "is_recursive_triggers_on:bit is_cursor_close_on_commit_on:bit is_local_cursor_default:bit "
            "is_fulltext_enabled:bit is_trustworthy_on:bit is_db_chaining_on:bit is_parameterization_forced:bit "
            "is_query_store_on:bit is_published:bit is_subscribed:bit is_merge_published:bit log_reuse_wait:tiny "
            "log_reuse_wait_desc:text is_distributor:bit is_cdc_enabled:bit is_encrypted:bit containment:tiny "
            "containment_desc:text delayed_durability:int delayed_durability_desc:text "
            "is_accelerated_database_recovery_on:bit is_broker_enabled:bit"
        ),
        _databases,
    ),
    "sys.configurations": (
        shape(
            "configuration_id:int name:name value:int minimum:int maximum:int value_in_use:int description:wide "
            "is_dynamic:bit is_advanced:bit"
        ),
        _configurations,
    ),
    "sys.dm_exec_sessions": (
        shape(
            "session_id:small login_time:datetime host_name:name program_name:name host_process_id:int "
            "client_version:int client_interface_name:name security_id:sid login_name:name status:text "
            "transaction_isolation_level:small lock_timeout:int deadlock_priority:int row_count:big "
            "prev_error:int original_security_id:sid original_login_name:name database_id:small "
            "open_transaction_count:int is_user_process:bit language:name date_format:word date_first:small "
            "quoted_identifier:bit arithabort:bit ansi_defaults:bit ansi_warnings:bit ansi_padding:bit "
            "ansi_nulls:bit"
        ),
        _sessions,
    ),
    "sys.dm_exec_connections": (
        shape(
            "session_id:int most_recent_session_id:int connect_time:datetime net_transport:long "
            "protocol_type:long protocol_version:int encrypt_option:long auth_scheme:long net_packet_size:int "
            "client_net_address:word local_net_address:word local_tcp_port:int"
        ),
        _connections,
    ),
    "sys.dm_exec_requests": (
        shape(
            "session_id:small request_id:int start_time:datetime status:text command:text database_id:small "
            "blocking_session_id:small wait_type:text open_transaction_count:int "
            "transaction_isolation_level:small"
        ),
        _requests,
    ),
    "sys.dm_tran_active_transactions": (
        shape(
            "transaction_id:big name:text transaction_begin_time:datetime transaction_type:int transaction_state:int"
        ),
        _transactions,
    ),
    "sys.dm_server_services": (
        shape(
            "servicename:wide startup_type:int startup_type_desc:wide status:int status_desc:wide process_id:int "
            "last_startup_time:datetime service_account:wide filename:wide is_clustered:letter "
            "cluster_nodename:wide"
        ),
        _services,
    ),
}
