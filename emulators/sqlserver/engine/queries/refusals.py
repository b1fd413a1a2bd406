"""Objects that every SQL Server has and this one has not: asked for, they are refused by name, and not called unknown (208, 2812).

Data and one question each; what nobody has stays unknown. Source: the lists of catalog views, dynamic management views,
compatibility views, tables of msdb and system procedures under https://learn.microsoft.com/sql/relational-databases/
"""

from __future__ import annotations

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import unsupported


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CATALOG = _names(
    "all_parameters allocation_units assemblies assembly_files asymmetric_keys availability_groups availability_replicas "
    "backup_devices certificates change_tracking_databases change_tracking_tables column_store_row_groups "
    "column_store_segments column_type_usages column_xml_schema_collection_usages column_encryption_keys "
    "column_master_keys conversation_endpoints conversation_groups credentials crypt_properties cryptographic_providers "
    "data_spaces database_audit_specifications database_automatic_tuning_options database_credentials database_files "
    "database_mirroring database_mirroring_endpoints database_query_store_options database_recovery_status "
    "database_scoped_configurations database_scoped_credentials destination_data_spaces  "
    "edge_constraints endpoints event_notifications events external_data_sources external_file_formats external_tables "
    "extended_procedures filegroups filetables fulltext_catalogs fulltext_indexes fulltext_index_columns "
    "fulltext_languages fulltext_stoplists function_order_columns hash_indexes http_endpoints internal_partitions "
    "internal_tables json_indexes key_encryptions ledger_table_history linked_logins login_token master_files "
    "master_key_passwords masked_columns memory_optimized_tables_internal_attributes message_type_xml_schema_collection_usages "
    "messages module_assembly_usages numbered_procedures openkeys parameter_type_usages "
    "partition_functions partition_parameters partition_range_values partition_schemes periods plan_guides query_store_plan "
    "query_store_query query_store_query_text query_store_runtime_stats query_store_wait_stats remote_logins "
    "remote_service_bindings resource_governor_configuration resource_governor_resource_pools "
    "resource_governor_workload_groups routes schema_permissions securable_classes "
    "selective_xml_index_paths sensitivity_classifications server_assembly_modules server_audits server_event_sessions "
    "server_file_audits server_permissions server_sql_modules server_trigger_events server_triggers servers "
    "service_broker_endpoints service_contracts service_message_types service_queues services soap_endpoints "
    "spatial_index_tessellations spatial_indexes spatial_reference_systems sql_dependencies sql_expression_dependencies "
    "sql_logins stats stats_columns symmetric_keys syscacheobjects syscharsets sysconfigures syscurconfigs system_columns "
    "system_components_surface_area_configuration system_internals_allocation_units system_objects system_parameters "
    "system_sql_modules sysperfinfo table_types tables_ledger tcp_endpoints time_zone_info trace_events traces "
    "transmission_queue trigger_event_types trigger_events trusted_assemblies type_assembly_usages user_token "
    "xml_indexes xml_schema_attributes xml_schema_collections xml_schema_elements xml_schema_namespaces"
)
_COMPATIBILITY = _names(
    "sysaltfiles syscolumns syscomments sysconstraints sysdatabases sysdepends sysdevices sysfilegroups sysfiles "
    "sysforeignkeys sysfulltextcatalogs sysindexes sysindexkeys syslanguages syslockinfo syslogins sysmembers sysmessages "
    "sysobjects sysopentapes sysoledbusers syspermissions sysprocesses sysprotects sysreferences sysremotelogins "
    "sysservers systypes sysusers"
)
_INFORMATION_SCHEMA = _names(
    "column_domain_usage column_privileges constraint_table_usage domain_constraints domains parameters "
    "routine_columns table_privileges view_column_usage view_table_usage"
)
_MSDB = _names(
    "backupfile backupfilegroup backupmediafamily backupmediaset backupset logmarkhistory restorefile restorefilegroup "
    "restorehistory suspect_pages sysalerts syscategories sysdownloadlist sysjobhistory sysjobs_view "
    "sysjobschedules sysjobservers sysjobsteps sysjobstepslogs sysmail_allitems sysmail_profile sysnotifications "
    "sysoperators sysproxies sysschedules syssessions syssubsystems systargetservers systaskids"
)
_PROCEDURES = _names(
    "sp_cursor sp_cursoropen sp_cursorprepare sp_cursorexecute sp_cursorprepexec sp_cursorunprepare sp_cursorfetch "
    "sp_cursoroption sp_cursorclose sp_cursor_list sp_describe_cursor sp_prepexecrpc "
    "sp_msforeachtable sp_msforeachdb sp_tables_rowset sp_columns_rowset sp_indexes_rowset sp_primary_keys_rowset "
    "sp_help sp_helptext sp_helpindex sp_helpconstraint sp_helpdb sp_helpfile sp_helpfilegroup sp_helplogins "
    "sp_helplanguage sp_helpsort sp_helptrigger sp_helpextendedproc sp_helpntgroup sp_helpremotelogin sp_helplinkedsrvlogin "
    "sp_helpdevice sp_helpdbfixedrole sp_helpfulltextcatalogs sp_validname sp_getbindtoken sp_bindsession sp_dbcmptlevel "
    "sp_fulltext_database sp_fulltext_catalog sp_fulltext_table sp_fulltext_column sp_fulltext_service sp_flush_log sp_addumpdevice "
    "sp_helprole sp_helprolemember sp_helprotect sp_helpserver sp_helpsrvrole sp_helpsrvrolemember sp_helpstats sp_helpuser "
    "sp_who sp_who2 sp_lock sp_depends sp_spaceused sp_monitor sp_dboption sp_serveroption sp_addmessage sp_altermessage "
    "sp_dropmessage sp_addextendedproperty sp_updateextendedproperty sp_dropextendedproperty sp_set_session_context "
    "sp_describe_first_result_set sp_describe_undeclared_parameters sp_describe_parameter_encryption "
    "sp_fkeys sp_special_columns sp_special_columns_90 sp_special_columns_100 sp_stored_procedures sp_sproc_columns "
    "sp_sproc_columns_100 sp_table_privileges sp_column_privileges sp_server_info sp_tables_ex sp_columns_ex sp_linkedservers sp_catalogs "
    "sp_addlinkedserver sp_dropserver sp_addlinkedsrvlogin sp_addlogin sp_droplogin sp_adduser sp_dropuser sp_addrole "
    "sp_droprole sp_grantdbaccess sp_revokedbaccess sp_password sp_defaultdb sp_change_users_login sp_changedbowner "
    "sp_addtype sp_droptype sp_bindefault sp_bindrule sp_unbindefault sp_unbindrule sp_recompile sp_refreshview "
    "sp_refreshsqlmodule sp_updatestats sp_createstats sp_autostats sp_tableoption sp_indexoption sp_settriggerorder "
    "sp_procoption sp_attach_db sp_detach_db sp_renamedb sp_executeexternalscript sp_execute_external_script sp_invoke_external_rest_endpoint "
    "sp_trace_create sp_readerrorlog sp_cycle_errorlog sp_send_dbmail sp_replcmds sp_replcounters sp_repldone sp_replflush "
    "sp_replshowcmds sp_repltrans sp_replicationdboption sp_addarticle sp_addpublication sp_addsubscription "
    "sp_xml_preparedocument sp_xml_removedocument sp_oacreate sp_oamethod sp_setapprole sp_unsetapprole sp_resetstatus "
    "sp_start_job sp_stop_job sp_help_job sp_help_jobactivity sp_help_jobhistory sp_help_jobstep sp_add_job sp_add_jobstep "
    "sp_add_jobserver sp_add_jobschedule sp_add_schedule sp_attach_schedule sp_delete_job sp_update_job sp_update_jobstep "
    "xp_instance_regread xp_regread xp_regwrite xp_readerrorlog xp_cmdshell xp_msver xp_logevent xp_fixeddrives "
    "xp_dirtree xp_fileexist xp_servicecontrol xp_loginconfig xp_sqlagent_enum_jobs xp_userlock"
)
_FUNCTIONS = _names(
    "fn_dblog fn_dump_dblog fn_get_audit_file fn_get_sql fn_my_permissions fn_servershareddrives "
    "fn_trace_gettable fn_virtualfilestats fn_xe_file_target_read_file fn_builtin_permissions "
    "fn_stmt_sql_handle_from_sql_stmt fn_trace_getinfo fn_trace_geteventinfo fn_trace_getfilterinfo fn_virtualservernodes "
    "fn_validate_plan_guide fn_db_backup_file_snapshots fn_translate_permissions fn_check_object_signatures"
)
_SCALAR_FUNCTIONS = _names(
    "fn_getcurrentprincipal fn_hadr_backup_is_preferred_replica fn_hadr_distributed_ag_database_replica "
    "fn_hadr_distributed_ag_replica fn_hadr_is_primary_replica fn_isrolemember fn_physlocformatter fn_replvarbintoint "
    "fn_sqlvarbasetostr fn_varbintohexstr fn_varbintohexsubstring"
)


def refused_view(database: str, schema: str, name: str) -> SqlError | None:
    """The refusal of a table or view of the system, under lower-case names; None for what is no such thing."""
    known = (
        (schema == "sys" and (name.startswith("dm_") or name in _CATALOG or name in _COMPATIBILITY))
        or (schema == "dbo" and name in _COMPATIBILITY)
        or (schema == "information_schema" and name in _INFORMATION_SCHEMA)
        or (schema == "dbo" and database == "msdb" and name in _MSDB)
    )
    return (
        unsupported(f"view {'msdb.' if database == 'msdb' and name in _MSDB else ''}{schema}.{name}") if known else None
    )


def refused_procedure(name: str) -> SqlError | None:
    return unsupported(f"procedure {name}") if name in _PROCEDURES else None


def refused_table_function(schema: str, name: str) -> SqlError | None:
    known = name in _FUNCTIONS or (schema == "sys" and name.startswith("dm_"))
    return unsupported(f"function {schema}.{name}") if known else None


def refused_scalar_function(schema: str, name: str) -> SqlError | None:
    return unsupported(f"function {schema}.{name}") if name in _SCALAR_FUNCTIONS else None
