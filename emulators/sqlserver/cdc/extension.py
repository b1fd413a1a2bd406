"""What Change Data Capture offers to the engine: its procedures, its functions, and the capture state of each database.

Opens no connection and starts no thread by itself: a capture job runs from sys.sp_cdc_enable_table, or `attach`, to
sys.sp_cdc_disable_db, `detach` or `close`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from emulators.sqlserver.cdc import enable, metadata, procedures, views
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.options import DEFAULTS, CdcOptions
from emulators.sqlserver.cdc.queries import enumeration, functions
from emulators.sqlserver.engine.extension import Database, LogState, ProcedureSpec, ScalarFunction, TableFunction


class CdcExtension:
    """The Extension of an engine; one serves all of its databases."""

    def __init__(
        self,
        *,
        capture_interval: float | None = None,
        options: CdcOptions = DEFAULTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`capture_interval`: seconds, the option of that name. `clock`: seconds, monotone."""
        self._options = options if capture_interval is None else replace(options, capture_interval=capture_interval)
        self._clock = clock
        self._states: dict[int, DatabaseCdc] = {}
        self._lock = threading.Lock()
        self._procedures = procedures.procedures(self)
        self._scalar_functions = functions.scalar_functions(self)
        self._views = views.views(self)

    def procedures(self) -> Mapping[str, ProcedureSpec]:
        return self._procedures

    def scalar_functions(self) -> Mapping[str, ScalarFunction]:
        return self._scalar_functions

    def views(self) -> Mapping[str, TableFunction]:
        return self._views

    def table_function(self, database: Database, schema: str, name: str) -> TableFunction | None:
        if database.fold(schema) != metadata.SCHEMA:
            return None
        return enumeration.table_function(self.find(database), database, name)

    def log(self, database: Database) -> LogState | None:
        state = self.find(database)
        return None if state is None else state.log_state()

    def find(self, database: Database) -> DatabaseCdc | None:
        """The capture state of a database; None where it is not enabled."""
        state = self._states.get(database.database_id)
        return state if state is not None and state.database is database else None

    def states(self) -> list[DatabaseCdc]:
        """The capture states of all databases that have one."""
        with self._lock:
            return list(self._states.values())

    def enable(self, database: Database) -> None:
        enable.create_metadata(database)
        state = self._state(database)
        with database.writer() as connection:
            state.lsns.go_on_after(metadata.last_lsn(database, connection))
        state.observe()
        self._keep(state)

    def disable(self, database: Database) -> None:
        state = self.find(database)
        if state is not None:
            enable.drop_metadata(state)
            self._take(database)

    def attach(self, database: Database) -> None:
        """Take up capture in a database that already has it (opened again from disk); elsewhere do nothing."""
        if not metadata.exist(database) or self.find(database) is not None:
            return
        state = self._state(database)
        state.open()
        database.set_cdc_enabled(True)
        self._keep(state)

    def _state(self, database: Database) -> DatabaseCdc:
        return DatabaseCdc(database, self._options, self._clock)

    def _keep(self, state: DatabaseCdc) -> None:
        number = state.database.database_id
        with self._lock:
            former = self._states.get(number)
            self._states[number] = state
        if former is not None:
            former.close()  # a dropped database whose number has been given again

    def detach(self, database: Database) -> None:
        """Stop capture in a database that is being closed or dropped, leaving what it holds."""
        state = self._take(database)
        if state is not None:
            state.close()

    def _take(self, database: Database) -> DatabaseCdc | None:
        with self._lock:
            state = self.find(database)
            if state is not None:
                del self._states[database.database_id]
            return state

    def limit_large_objects(self, size: int) -> None:
        """Server option "max text repl size": bytes, -1 for no limit."""
        with self._lock:
            self._options = replace(self._options, max_text_repl_size=size)
            for state in self._states.values():
                state.options = replace(state.options, max_text_repl_size=size)

    def session_ended(self, session_id: int) -> None:
        for state in self.states():
            state.turn.release(session_id)

    def close(self) -> None:
        with self._lock:
            states = list(self._states.values())
            self._states.clear()
        for state in states:
            state.close()
