"""The procedures sys.sp_cdc_...: their parameters as documented, the checks on who may call when, and the calls behind them.

Sources: the procedure pages under https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/ . Those that
are known and not imitated are refused by name. Inside a user's transaction only those that read are served: the others write
in a transaction of their own, which would wait for the user's for ever. The engine adds the return status 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from emulators.sqlserver.cdc import enable, errors, jobs, reports
from emulators.sqlserver.cdc.capture import capture
from emulators.sqlserver.cdc.capture.cleanup import cleanup
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.instance import CaptureInstance
from emulators.sqlserver.cdc.queries import access
from emulators.sqlserver.cdc.queries.arguments import binary_lsn
from emulators.sqlserver.engine.extension import CallContext, Database, ProcedureSpec
from emulators.sqlserver.results import Event, Info, ReturnValue, SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import unsupported

Arguments = Mapping[str, Value]
_Run = Callable[[CallContext, Arguments], Iterator[Event]]

_USER = "cdc"
"""The database user that comes and goes with Change Data Capture: the page sys.sp_cdc_enable_db."""
_REFUSED = (
    "sp_cdc_generate_wrapper_function",
    "sp_cdc_vupgrade",
    "sp_cdc_dbsnapshotlsn",
)


class Registry(Protocol):
    """Where the procedures find, make and give up the capture state of a database."""

    def find(self, database: Database) -> DatabaseCdc | None: ...

    def enable(self, database: Database) -> None: ...

    def disable(self, database: Database) -> None: ...


def procedures(registry: Registry) -> Mapping[str, ProcedureSpec]:
    """All procedures by schema-qualified lower-case name."""
    calls = _Procedures(registry)
    specs = _of_capture(calls) | _of_jobs(calls) | _of_change_tables(calls)
    specs |= {name: _spec((), (), _refusal(name)) for name in _REFUSED}
    return {f"sys.{name}": spec for name, spec in specs.items()}


def _of_capture(calls: _Procedures) -> dict[str, ProcedureSpec]:
    source = ("@source_schema", "@source_name")
    return {
        "sp_cdc_enable_db": _spec((), (), calls.enable_db),
        "sp_cdc_disable_db": _spec((), (), calls.disable_db),
        "sp_cdc_enable_table": _spec(
            (
                *(*source, "@capture_instance", "@supports_net_changes", "@role_name", "@index_name"),
                *("@captured_column_list", "@filegroup_name", "@allow_partition_switch"),
            ),
            (*source, "@role_name"),
            calls.enable_table,
        ),
        "sp_cdc_disable_table": _spec(
            (*source, "@capture_instance"), (*source, "@capture_instance"), calls.disable_table
        ),
        "sp_cdc_help_change_data_capture": _spec(source, (), calls.help_change_data_capture),
    }


def _of_jobs(calls: _Procedures) -> dict[str, ProcedureSpec]:
    return {
        "sp_cdc_help_jobs": _spec((), (), calls.help_jobs),
        "sp_cdc_change_job": _spec(
            (
                *("@job_type", "@maxtrans", "@maxscans", "@continuous", "@pollinginterval"),
                *("@retention", "@threshold"),
            ),
            (),
            calls.change_job,
        ),
        "sp_cdc_add_job": _spec(
            (
                *("@job_type", "@start_job", "@maxtrans", "@maxscans", "@continuous", "@pollinginterval"),
                *("@retention", "@threshold"),
            ),
            ("@job_type",),
            calls.add_job,
        ),
        "sp_cdc_drop_job": _spec(("@job_type",), ("@job_type",), calls.drop_job),
        "sp_cdc_start_job": _spec(("@job_type",), (), calls.start_job),
        "sp_cdc_stop_job": _spec(("@job_type",), (), calls.stop_job),
    }


def _of_change_tables(calls: _Procedures) -> dict[str, ProcedureSpec]:
    return {
        "sp_cdc_scan": _spec(
            ("@maxtrans", "@maxscans", "@continuous", "@pollinginterval", "@is_from_job"), (), calls.scan
        ),
        "sp_replflush": _spec((), (), calls.flush),
        "sp_cdc_cleanup_change_table": _spec(
            ("@capture_instance", "@low_water_mark", "@threshold", "@fcleanupfailed"),
            ("@capture_instance", "@low_water_mark"),
            calls.cleanup_change_table,
            outputs=("@fcleanupfailed",),
        ),
        "sp_cdc_get_captured_columns": _spec(
            ("@capture_instance",), ("@capture_instance",), calls.get_captured_columns
        ),
        "sp_cdc_get_ddl_history": _spec(("@capture_instance",), ("@capture_instance",), calls.get_ddl_history),
    }


def _spec(
    parameters: tuple[str, ...], required: tuple[str, ...], run: _Run, outputs: tuple[str, ...] = ()
) -> ProcedureSpec:
    return ProcedureSpec(parameters, required, run, outputs)


def _refusal(name: str) -> _Run:
    def run(context: CallContext, arguments: Arguments) -> Iterator[Event]:
        raise unsupported(f"sys.{name}")

    return run


class _Procedures:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def enable_db(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        """22905 is a message of severity 10 when it is enabled already."""
        access.require_for_database(context)
        _outside_transaction(context, "sp_cdc_enable_db")
        if self._registry.find(context.database) is not None:
            yield Info(22905, errors.already_enabled_text(context.database.name), 10, procedure="sp_cdc_enable_db")
        elif context.has_principal(_USER):
            raise errors.schema_taken(context.database.name)
        else:
            self._registry.enable(context.database)
            context.create_user(_USER)

    def disable_db(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        """Nothing happens where it is not enabled."""
        access.require_for_database(context)
        _outside_transaction(context, "sp_cdc_disable_db")
        if self._registry.find(context.database) is not None:
            # First: a process that is killed in between leaves capture on, and no user that stands in its way.
            context.drop_user(_USER)
            try:
                self._registry.disable(context.database)
            except BaseException:
                context.create_user(_USER)
                raise
        return iter(())

    def enable_table(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        access.require_owner(context)
        _outside_transaction(context, "sp_cdc_enable_table")
        cdc = self._cdc(context)
        net_changes = _integer(arguments, "@supports_net_changes")
        request = enable.EnableTable(
            source_schema=_name(arguments, "@source_schema"),
            source_name=_name(arguments, "@source_name"),
            role_name=_text(arguments, "@role_name"),
            capture_instance=_text(arguments, "@capture_instance"),
            supports_net_changes=None if net_changes is None else bool(net_changes),
            index_name=_text(arguments, "@index_name"),
            captured_column_list=_text(arguments, "@captured_column_list"),
            filegroup_name=_text(arguments, "@filegroup_name"),
            allow_partition_switch=_integer(arguments, "@allow_partition_switch") != 0,
        )
        new_jobs = enable.enable_table(cdc, request)
        if request.role_name is not None:
            context.ensure_role(request.role_name)
        if new_jobs:
            cdc.start_new_jobs()
            for job in ("capture", "cleanup"):
                text = f"Job 'cdc.{context.database.name}_{job}' started successfully."
                yield Info(14243, text, procedure="sp_cdc_enable_table")

    def disable_table(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        access.require_owner(context)
        _outside_transaction(context, "sp_cdc_disable_table")
        schema, name = _name(arguments, "@source_schema"), _name(arguments, "@source_name")
        enable.disable_table(self._cdc(context), schema, name, _name(arguments, "@capture_instance"))
        return iter(())

    def help_change_data_capture(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        cdc = self._cdc(context)
        schema, name = _text(arguments, "@source_schema") or None, _text(arguments, "@source_name") or None
        if (schema is None) != (name is None):
            raise errors.unpaired_source()
        instances = cdc.instances
        if schema is not None and name is not None:
            source = context.database.table(schema, name)
            if source is None:
                raise errors.unknown_table(schema, name)
            instances = cdc.instances_of(source.object_id)
            if not instances:
                raise errors.table_not_enabled(schema, name)
        yield reports.help_change_data_capture(cdc, [i for i in instances if access.may_read(context, i)])

    def help_jobs(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        access.require_owner(context)
        yield reports.help_jobs(self._cdc(context))

    def change_job(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        """Takes effect when the job is stopped and started again."""
        access.require_owner(context)
        _outside_transaction(context, "sp_cdc_change_job")
        cdc = self._cdc(context)
        settings = jobs.changed(cdc.job_settings(_job_type(arguments)), arguments)
        with context.database.writer() as connection:
            jobs.save(connection, settings)
        return iter(())

    def add_job(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        """The jobs come with the first enabled table; this makes one anew that was dropped."""
        access.require_owner(context)
        _outside_transaction(context, "sp_cdc_add_job")
        cdc = self._cdc(context)
        job_type = _job_type(arguments)
        given = {name: value for name, value in arguments.items() if name != "@start_job"}
        cdc.add_job(job_type, given)
        if _integer(arguments, "@start_job") == 0:
            return iter(())
        return self.start_job(context, {"@job_type": job_type})

    def drop_job(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        access.require_owner(context)
        _outside_transaction(context, "sp_cdc_drop_job")
        self._cdc(context).drop_job(_job_type(arguments))
        return iter(())

    def start_job(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        """The capture job starts its thread; the cleanup job does its work before this returns."""
        access.require_owner(context)
        cdc = self._cdc(context)
        if _job_type(arguments) == "cleanup":
            _outside_transaction(context, "sp_cdc_start_job")
            cdc.cleanup_now()
            yield Info(14243, f"Job 'cdc.{context.database.name}_cleanup' started successfully.")
            return
        if not cdc.start_job():
            raise _job_error(22022, context, "is already running")
        yield Info(14243, f"Job 'cdc.{context.database.name}_capture' started successfully.")

    def stop_job(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        access.require_owner(context)
        cdc = self._cdc(context)
        if _job_type(arguments) == "cleanup":
            raise _job_error(22022, context, "is not currently running", "cleanup")
        if not cdc.stop_job():
            raise _job_error(22022, context, "is not currently running")
        yield Info(14254, f"Job 'cdc.{context.database.name}_capture' stopped successfully.")

    def scan(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        """One scan now. Raises 22903 while another session scans (scan_turn.py tells how a running job counts)."""
        access.require_owner(context)
        _outside_transaction(context, "sp_cdc_scan")
        if _integer(arguments, "@continuous"):
            raise unsupported("sys.sp_cdc_scan with @continuous = 1")
        if _integer(arguments, "@pollinginterval"):
            raise errors.polling_interval_of_one_scan()
        maxtrans, maxscans = _integer(arguments, "@maxtrans"), _integer(arguments, "@maxscans")
        maxtrans = 500 if maxtrans is None else maxtrans
        maxscans = 10 if maxscans is None else maxscans
        if maxtrans <= 0:
            raise errors.bad_maxtrans()
        if maxscans <= 0:
            raise errors.bad_maxscans()
        cdc = self._cdc(context)
        with cdc.scanning(context.session_id):
            capture.scan(lambda: capture.scan_by_hand(cdc, maxtrans), maxtrans, maxscans)
        return iter(())

    def flush(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-replflush-transact-sql"""
        access.require_owner(context)
        self._cdc(context).turn.release(context.session_id)
        return iter(())

    def cleanup_change_table(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        access.require_owner(context)
        _outside_transaction(context, "sp_cdc_cleanup_change_table")
        cdc = self._cdc(context)
        instance = self._instance(context, cdc, arguments)
        threshold = _integer(arguments, "@threshold")
        if threshold is not None and threshold <= 0:
            raise unsupported(f"@threshold = {threshold}")
        cleanup(cdc, instance, binary_lsn(arguments.get("@low_water_mark")), threshold or 5000)
        yield ReturnValue("@fcleanupfailed", SqlType("bit"), 0)

    def get_captured_columns(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        cdc = self._cdc(context)
        yield reports.captured_columns(cdc, self._readable(context, cdc, arguments))

    def get_ddl_history(self, context: CallContext, arguments: Arguments) -> Iterator[Event]:
        cdc = self._cdc(context)
        yield reports.ddl_history(cdc, self._readable(context, cdc, arguments))

    def _cdc(self, context: CallContext) -> DatabaseCdc:
        cdc = self._registry.find(context.database)
        if cdc is None:
            raise errors.not_enabled(context.database.name)
        return cdc

    def _readable(self, context: CallContext, cdc: DatabaseCdc, arguments: Arguments) -> CaptureInstance:
        """Raises 22981 for an instance that the caller may not read."""
        instance = self._instance(context, cdc, arguments)
        if not access.may_read(context, instance):
            raise errors.access_denied()
        return instance

    def _instance(self, context: CallContext, cdc: DatabaseCdc, arguments: Arguments) -> CaptureInstance:
        name = _name(arguments, "@capture_instance")
        instance = cdc.instance(name)
        if instance is None:
            raise errors.unknown_instance(name, context.database.name)
        return instance


def _outside_transaction(context: CallContext, procedure: str) -> None:
    if context.in_transaction:
        raise unsupported(f"sys.{procedure} inside a user transaction")


def _job_type(arguments: Arguments) -> str:
    job_type = (_text(arguments, "@job_type") or "capture").casefold()
    if job_type not in ("capture", "cleanup"):
        raise errors.unknown_job_type(job_type)
    return job_type


def _job_error(number: int, context: CallContext, state: str, job_type: str = "capture") -> SqlError:
    """SQL Server Agent's answer, by way of msdb.dbo.sp_start_job and sp_stop_job."""
    job = f"cdc.{context.database.name}_{job_type}"
    action = "run" if "already" in state else "stop"
    return SqlError(
        number,
        f"SQLServerAgent Error: Request to {action} job {job} (from User {context.login}) refused because the job {state}.",
    )


def _name(arguments: Arguments, parameter: str) -> str:
    text = _text(arguments, parameter)
    if not text:
        raise errors.empty_parameter(parameter)
    return text


def _text(arguments: Arguments, parameter: str) -> str | None:
    value = arguments.get(parameter)
    return None if value is None else str(value)


def _integer(arguments: Arguments, parameter: str) -> int | None:
    value = arguments.get(parameter)
    if value is None:
        return None
    if isinstance(value, bytes):
        raise unsupported(f"a binary value for {parameter}")
    return int(value)
