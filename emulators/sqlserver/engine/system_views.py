"""The rest of the catalog views: principals and permissions, sessions, and views over what this server has none of.

A view of what cannot exist here (procedures, triggers, extended properties) has its columns and no rows. Sources: the views'
pages under https://learn.microsoft.com/sql/relational-databases/system-catalog-views/ and .../system-dynamic-management-views/
"""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.engine import constraint_views, views
from emulators.sqlserver.engine.properties import SERVER_NAME
from emulators.sqlserver.engine.security import SERVER_ROLES, DatabaseSecurity, Principal
from emulators.sqlserver.engine.views import Row, Rows, Viewpoint, shape
from emulators.sqlserver.results import Column
from emulators.sqlserver.tsql.security import PERMISSIONS

_STARTED = "2024-01-01 00:00:00.000"
_ISOLATION = {
    "READ UNCOMMITTED": 1,
    "READ COMMITTED": 2,
    "REPEATABLE READ": 3,
    "SERIALIZABLE": 4,
    "SNAPSHOT": 5,
}
_STATES = {"GRANT": "G", "DENY": "D", "GRANT_WITH_GRANT_OPTION": "W"}
_SYSTEM_SCHEMAS = {"information_schema": 3, "sys": 4}
_CLASSES = {0: "DATABASE", 1: "OBJECT_OR_COLUMN", 3: "SCHEMA"}
_OBJECT = (
    "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
    "create_date:datetime modify_date:datetime is_ms_shipped:bit is_published:bit is_schema_published:bit"
)


def _nothing(view: Viewpoint) -> Iterator[Row]:
    return iter(())


# -- principals


def _security(view: Viewpoint) -> DatabaseSecurity:
    return view.session.engine.security.of(view.here.database_id, view.here.name)


def _server_principals(view: Viewpoint) -> Iterator[Row]:
    for login in view.session.engine.security.logins.values():
        yield (
            login.name,
            login.principal_id,
            login.sid,
            "S",
            "SQL_LOGIN",
            int(not login.enabled),
            _STARTED,
            _STARTED,
            login.database,
            "us_english",
            None,
            None,
            0,
        )
    for role, number in SERVER_ROLES.items():
        sid = number.to_bytes(4, "little")
        yield role, number, sid, "R", "SERVER_ROLE", 0, _STARTED, _STARTED, None, None, None, 1, int(role != "public")


def _server_members(view: Viewpoint) -> Iterator[Row]:
    for login in view.session.engine.security.logins.values():
        for role in sorted(login.roles):
            yield SERVER_ROLES[role], login.principal_id


def _sid(view: Viewpoint, principal: Principal) -> bytes | None:
    if principal.principal_id == 1:
        return b"\1"
    login = view.session.engine.security.logins.get(principal.login.lower())
    return login.sid if login is not None else None


def _database_principals(view: Viewpoint) -> Iterator[Row]:
    for principal in _security(view).principals.values():
        kind, text = ("R", "DATABASE_ROLE") if principal.role else ("S", "SQL_USER")
        mapped = bool(principal.login) or principal.principal_id == 1
        yield (
            principal.name,
            principal.principal_id,
            kind,
            text,
            None if principal.role else principal.schema,
            _STARTED,
            _STARTED,
            1 if principal.role else None,
            _sid(view, principal),
            int(principal.fixed and principal.name != "public"),
            1 if mapped else 0,
            "INSTANCE" if mapped else "NONE",
            None,
            None,
            0,
        )


def _role_members(view: Viewpoint) -> Iterator[Row]:
    known = _security(view).principals
    yield known["db_owner"].principal_id, 1
    for principal in known.values():
        for role in sorted(principal.roles):
            yield known[role].principal_id, principal.principal_id


def _permissions(view: Viewpoint) -> Iterator[Row]:
    known = _security(view)
    for item in known.permissions:
        grantee = known.principals[item.principal].principal_id
        code = PERMISSIONS.get(item.name, item.name[:4])
        state = _STATES[item.state]
        yield item.kind, _CLASSES[item.kind], item.major_id, 0, grantee, 1, code, item.name, state, item.state


# -- the server


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
            _STARTED,
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
            session.transactions,
            1,
            "us_english",
            "mdy",
            7,
            *(1, 1, 1, 1, 1, 1),
        )


def _connections(view: Viewpoint) -> Iterator[Row]:
    for session in view.session.engine.sessions():
        number = session.session_id
        yield number, number, _STARTED, "TCP", "TSQL", 1946157060, "FALSE", "SQL", 4096, "127.0.0.1", "127.0.0.1", None


def _requests(view: Viewpoint) -> Iterator[Row]:
    session = view.session
    database = session.current().database_id
    isolation = _ISOLATION[session.settings.isolation]
    yield session.session_id, 0, _STARTED, "running", "SELECT", database, 0, None, session.transactions, isolation


def _transactions(view: Viewpoint) -> Iterator[Row]:
    for session in view.session.engine.sessions():
        if session.transactions:
            yield 1000 + session.session_id, session.transaction_name or "user_transaction", _STARTED, 1, 2


def _services(view: Viewpoint) -> Iterator[Row]:
    for name in (f"SQL Server ({SERVER_NAME})", f"SQL Server Agent ({SERVER_NAME})"):
        yield name, 2, "Automatic", 4, "Running", 1, None, "mssql", "", "N", None


def _configurations(view: Viewpoint) -> Iterator[Row]:
    for o in sorted(view.session.engine.configuration.options, key=lambda option: option.number):
        yield o.number, o.name, o.value, o.least, o.most, o.running, o.name, int(o.dynamic), int(o.advanced)


# -- objects


def _partitions(view: Viewpoint) -> Iterator[Row]:
    """One partition an index, with the number of rows that this session sees."""
    for entry in view.catalog.tables.values():
        rows = view.session.rows_in(view.here, entry.table)
        numbers = [index.index_id for index in entry.table.all_indexes()]
        for index in numbers if 1 in numbers else [0, *numbers]:
            number = 72057594037927936 + entry.table.object_id * 256 + index
            yield number, entry.table.object_id, index, 1, number, 0, rows, 0, "NONE"


def _schemata(view: Viewpoint) -> Iterator[Row]:
    for name in view.catalog.schemas:
        yield (
            view.here.name,
            name,
            "dbo" if name not in ("sys", "INFORMATION_SCHEMA", "guest") else name,
            None,
            None,
            "iso_1",
        )


def _constraint_columns(view: Viewpoint) -> Iterator[Row]:
    for row in VIEWS["information_schema.key_column_usage"][1](view):
        catalog, schema, constraint, _, _, table, column, _ = row
        yield catalog, schema, table, column, catalog, schema, constraint


def _objects(view: Viewpoint) -> Iterator[Row]:
    """Tables and their keys, their other constraints, and users' views."""
    yield from views.VIEWS["sys.objects"][1](view)
    for entry in view.catalog.tables.values():
        yield from constraint_views.constraint_objects(view.catalog, entry)
    for found in view.catalog.views.values():
        yield constraint_views.view_object(view.catalog, found)


def _info_constraints(view: Viewpoint) -> Iterator[Row]:
    yield from views.VIEWS["information_schema.table_constraints"][1](view)
    yield from constraint_views.info_constraints(view)


def _info_key_columns(view: Viewpoint) -> Iterator[Row]:
    yield from views.VIEWS["information_schema.key_column_usage"][1](view)
    yield from constraint_views.info_key_columns(view)


def _system_views(view: Viewpoint) -> Iterator[Row]:
    """The views that are known here; their object ids are negative, as the real ones are."""
    extension = view.session.engine.extension
    names = [*VIEWS, *(extension.views() if extension is not None else ())]
    for number, name in enumerate(sorted(names), 1):
        schema, _, short = name.partition(".")
        if schema in _SYSTEM_SCHEMAS:
            shown = short.upper() if schema != "sys" else short
            yield shown, -number, None, _SYSTEM_SCHEMAS[schema], 0, "V ", "VIEW", _STARTED, _STARTED, 1, 0, 0


def _like(name: str) -> tuple[tuple[Column, ...], Rows]:
    return views.VIEWS[name]


_MODULE = "object_id:int definition:max uses_ansi_nulls:bit uses_quoted_identifier:bit is_schema_bound:bit"
VIEWS: dict[str, tuple[tuple[Column, ...], Rows]] = {
    **views.VIEWS,
    "sys.objects": (views.VIEWS["sys.objects"][0], _objects),
    "sys.all_objects": (views.VIEWS["sys.objects"][0], _objects),
    "information_schema.table_constraints": (
        views.VIEWS["information_schema.table_constraints"][0],
        _info_constraints,
    ),
    "information_schema.key_column_usage": (views.VIEWS["information_schema.key_column_usage"][0], _info_key_columns),
    "information_schema.check_constraints": (
        shape("CONSTRAINT_CATALOG:name CONSTRAINT_SCHEMA:name CONSTRAINT_NAME:name CHECK_CLAUSE:long"),
        constraint_views.info_checks,
    ),
    "sys.all_columns": _like("sys.columns"),
    "sys.foreign_keys": (
        shape(
            _OBJECT + " referenced_object_id:int key_index_id:int is_disabled:bit is_not_for_replication:bit "
            "is_not_trusted:bit delete_referential_action:tiny delete_referential_action_desc:text "
            "update_referential_action:tiny update_referential_action_desc:text is_system_named:bit"
        ),
        constraint_views.foreign_keys,
    ),
    "sys.foreign_key_columns": (
        shape(
            "constraint_object_id:int constraint_column_id:int parent_object_id:int parent_column_id:int "
            "referenced_object_id:int referenced_column_id:int"
        ),
        constraint_views.foreign_key_columns,
    ),
    "sys.check_constraints": (
        shape(_OBJECT + " is_disabled:bit is_not_trusted:bit parent_column_id:int definition:max is_system_named:bit"),
        constraint_views.check_constraints,
    ),
    "sys.computed_columns": (
        shape("object_id:int name:name column_id:int definition:max is_persisted:bit is_computed:bit is_nullable:bit"),
        constraint_views.computed_columns,
    ),
    "sys.views": (shape(_OBJECT + " with_check_option:bit is_date_correlation_view:bit"), constraint_views.user_views),
    "sys.all_views": (shape(_OBJECT + " with_check_option:bit"), constraint_views.all_views),
    "sys.system_views": (shape(_OBJECT), _system_views),
    "sys.procedures": (shape(_OBJECT + " is_auto_executed:bit"), _nothing),
    "sys.triggers": (
        shape("name:name object_id:int parent_class:tiny parent_id:int type:code type_desc:text is_disabled:bit"),
        _nothing,
    ),
    "sys.synonyms": (shape(_OBJECT + " base_object_name:long"), _nothing),
    "sys.sequences": (shape(_OBJECT + " start_value:big increment:big current_value:big"), _nothing),
    "sys.sql_modules": (shape(_MODULE), constraint_views.modules),
    "sys.all_sql_modules": (shape(_MODULE), constraint_views.modules),
    "sys.parameters": (
        shape("object_id:int name:name parameter_id:int system_type_id:tiny user_type_id:int max_length:small"),
        _nothing,
    ),
    "sys.extended_properties": (
        shape("class:tiny class_desc:text major_id:int minor_id:int name:name value:long"),
        _nothing,
    ),
    "sys.partitions": (
        shape(
            "partition_id:big object_id:int index_id:int partition_number:int hobt_id:big "
            "filestream_filegroup_id:small rows:big data_compression:tiny data_compression_desc:text"
        ),
        _partitions,
    ),
    "sys.server_principals": (
        shape(
            "name:name principal_id:int sid:sid type:letter type_desc:text is_disabled:int create_date:datetime "
            "modify_date:datetime default_database_name:name default_language_name:name credential_id:int "
            "owning_principal_id:int is_fixed_role:bit"
        ),
        _server_principals,
    ),
    "sys.server_role_members": (shape("role_principal_id:int member_principal_id:int"), _server_members),
    "sys.database_principals": (
        shape(
            "name:name principal_id:int type:letter type_desc:text default_schema_name:name create_date:datetime "
            "modify_date:datetime owning_principal_id:int sid:sid is_fixed_role:bit authentication_type:int "
            "authentication_type_desc:text default_language_name:name default_language_lcid:int "
            "allow_encrypted_value_modifications:bit"
        ),
        _database_principals,
    ),
    "sys.database_role_members": (shape("role_principal_id:int member_principal_id:int"), _role_members),
    "sys.database_permissions": (
        shape(
            "class:tiny class_desc:text major_id:int minor_id:int grantee_principal_id:int grantor_principal_id:int "
            "type:four permission_name:name state:letter state_desc:text"
        ),
        _permissions,
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
            "transaction_isolation_level:small lock_timeout:int deadlock_priority:int row_count:big prev_error:int "
            "original_security_id:sid original_login_name:name database_id:small open_transaction_count:int "
            "is_user_process:bit language:name date_format:word date_first:small quoted_identifier:bit arithabort:bit "
            "ansi_defaults:bit ansi_warnings:bit ansi_padding:bit ansi_nulls:bit"
        ),
        _sessions,
    ),
    "sys.dm_exec_connections": (
        shape(
            "session_id:int most_recent_session_id:int connect_time:datetime net_transport:long protocol_type:long "
            "protocol_version:int encrypt_option:long auth_scheme:long net_packet_size:int client_net_address:word "
            "local_net_address:word local_tcp_port:int"
        ),
        _connections,
    ),
    "sys.dm_exec_requests": (
        shape(
            "session_id:small request_id:int start_time:datetime status:text command:text database_id:small "
            "blocking_session_id:small wait_type:text open_transaction_count:int transaction_isolation_level:small"
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
            "last_startup_time:datetime service_account:wide filename:wide is_clustered:letter cluster_nodename:wide"
        ),
        _services,
    ),
    "information_schema.schemata": (
        shape(
            "CATALOG_NAME:name SCHEMA_NAME:name SCHEMA_OWNER:name DEFAULT_CHARACTER_SET_CATALOG:name "
            "DEFAULT_CHARACTER_SET_SCHEMA:name DEFAULT_CHARACTER_SET_NAME:name"
        ),
        _schemata,
    ),
    "information_schema.constraint_column_usage": (
        shape(
            "TABLE_CATALOG:name TABLE_SCHEMA:name TABLE_NAME:name COLUMN_NAME:name CONSTRAINT_CATALOG:name "
            "CONSTRAINT_SCHEMA:name CONSTRAINT_NAME:name"
        ),
        _constraint_columns,
    ),
    "information_schema.referential_constraints": (
        shape(
            "CONSTRAINT_CATALOG:name CONSTRAINT_SCHEMA:name CONSTRAINT_NAME:name UNIQUE_CONSTRAINT_CATALOG:name "
            "UNIQUE_CONSTRAINT_SCHEMA:name UNIQUE_CONSTRAINT_NAME:name MATCH_OPTION:word UPDATE_RULE:word DELETE_RULE:word"
        ),
        constraint_views.info_references,
    ),
    "information_schema.views": (
        shape(
            "TABLE_CATALOG:name TABLE_SCHEMA:name TABLE_NAME:name VIEW_DEFINITION:long CHECK_OPTION:word IS_UPDATABLE:word"
        ),
        constraint_views.info_views,
    ),
    "information_schema.routines": (
        shape("SPECIFIC_CATALOG:name SPECIFIC_SCHEMA:name SPECIFIC_NAME:name ROUTINE_NAME:name ROUTINE_TYPE:word"),
        _nothing,
    ),
    "information_schema.sequences": (
        shape("SEQUENCE_CATALOG:name SEQUENCE_SCHEMA:name SEQUENCE_NAME:name DATA_TYPE:name"),
        _nothing,
    ),
}
"""Lower-case schema.name -> columns, and what makes the rows."""
