"""Runs lowered queries for a session: which connection, which variables, the rows of views and functions, and the stream of rows.

Plans are kept by text, types and catalog version; a plan never outlives the catalog that it was made for.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from emulators.sqlserver.codepages import kept
from emulators.sqlserver.engine.extension import CallContext
from emulators.sqlserver.engine.plan_cache import Key, Lowered
from emulators.sqlserver.engine.queries.names import EXTENSION, FUNCTION, SessionNames
from emulators.sqlserver.engine.row_stream import Row
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.kept_locks import Kept
from emulators.sqlserver.engine.store.links import Link, StaleName
from emulators.sqlserver.engine.store.table_locks import RowLocked
from emulators.sqlserver.engine.views.register import VIEWS
from emulators.sqlserver.engine.views.viewing import Viewpoint
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import invalid_object, too_deep, unsupported
from emulators.sqlserver.tsql.planning.lowering import Elsewhere, OutputShape, lower_output, lower_query, lower_rows
from emulators.sqlserver.tsql.planning.plans import ELSEWHERE, Plan, Source, Virtual
from emulators.sqlserver.tsql.reading.fragments import LIFTED, Fragment
from emulators.sqlserver.tsql.values.types import code_page

_READS = re.compile(r"\bWHERE\b", re.IGNORECASE)
"""An UPDATE or DELETE without WHERE reads nothing of its target."""
Lowering = Callable[[SessionNames, Mapping[str, SqlType]], Lowered]


class Runner:
    """Query execution of one session."""

    def __init__(self, session: StatementSession) -> None:
        self.session = session

    # -- planning

    def plan(self, fragment: Fragment, *, sent: bool = False) -> Plan:
        """`sent`: as `lower_query` has it."""
        kind = ("sent",) if sent else ("query",)
        return self._planned(
            fragment, kind, lambda names, types: (lower_query(fragment, names, types, sent=sent), None)
        )[0]

    def plan_rows(self, fragment: Fragment, target: tuple[str, ...], has_from: bool) -> tuple[Plan, Source]:
        plan, source = self._planned(
            fragment, ("rows", target), lambda names, types: lower_rows(fragment, target, has_from, names, types)
        )
        assert source is not None
        return plan, source

    def _planned(
        self,
        fragment: Fragment,
        kind: Key,
        lower: Lowering,
    ) -> Lowered:
        session = self.session
        known, names_used = session.variables, fragment.variables
        types = {name: known[name][0] for name in names_used if name in known} if names_used else {}
        lifted = tuple([kind for kind, _ in fragment.lifted]) if fragment.lifted else ()
        database = session.current()
        version = database.catalog_for(session).version
        private = session.private_versions()
        typed = tuple(sorted(types.items(), key=_by_name)) if types else ()
        key = (*kind, session.rights_key(), database.database_id, version, private, fragment.text, lifted, typed)
        cache = session.engine.plans
        found = cache.get(key)
        if found is None:
            try:
                names, found = self._lowered(lower, types, _unread(kind, fragment))
            except RecursionError:
                raise too_deep() from None
            if (
                not names.foreign
                and not private
                and not any(v.source.view.startswith(FUNCTION) for v in found[0].virtuals)
            ):
                cache.put(key, found)
        return found

    def _lowered(self, lower: Lowering, types: Mapping[str, SqlType], exempt: str) -> tuple[SessionNames, Lowered]:
        """Lowered for the database that the query runs in: that of the rows it changes, or the one that alone it reads."""
        names = SessionNames(self.session, None, exempt)
        try:
            found = lower(names, types)
        except Elsewhere as other:
            home = self.session.find(other.database)
            assert home is not None
            names = SessionNames(self.session, home, exempt)
            return names, lower(names, types)
        owned = [database for database in names.touched.values() if database.owned_by(self.session)]
        home = next(iter(owned if owned else names.touched.values()), names.home)
        if names.touched and names.home.name not in names.touched:
            names = SessionNames(self.session, home, exempt)
            found = lower(names, types)
        return names, found

    # -- execution

    def execute(self, fragment: Fragment, plan: Plan, link: Link) -> sqlite3.Cursor:
        """Raises SqlError, Cancelled; StaleName when the catalog moved on since the plan was made."""
        for virtual in plan.virtuals:
            self._fill(virtual, fragment, link)
        return link.query(plan.sql, self.parameters(fragment, plan.parameters), self.session.cancelled)

    def parameters(self, fragment: Fragment, names: Sequence[str]) -> list[Value]:
        values: list[Value] = []
        for name in names:
            if name.startswith(LIFTED):
                values.append(self.literal(*fragment.lifted[int(name[len(LIFTED) :])])[1])
            else:
                values.append(self.session.variables[name][1])
        return values

    def literal(self, kind: SqlType, value: Value) -> tuple[SqlType, Value]:
        """A literal as the batch has it: what of '...' the code page of the session's database holds."""
        if isinstance(value, str) and not value.isascii() and kind.name == "varchar":
            return kind, kept(value, code_page(SqlType("varchar", collation=self.session.current().collation)))
        return kind, value

    def open(self, fragment: Fragment, *, sent: bool = False) -> tuple[Plan, Link, sqlite3.Cursor]:
        """Plan and run a query that only reads; once more when a table changed in between. `sent`: see `plan`."""
        for _ in range(3):
            plan = self.plan(fragment, sent=sent)
            self.session.locks.await_tables(plan)
            kept = self.session.locks.keep(plan)
            link = self.link(plan)
            try:
                self._await_rows(fragment, plan, link, kept)
                self.session.note_reads(plan.reads)
                return plan, link, self.execute(fragment, plan, link)
            except StaleName:
                continue
        raise unsupported("a query whose tables change while it starts")

    def _await_rows(self, fragment: Fragment, plan: Plan, link: Link, kept: Sequence[Kept]) -> None:
        """Wait while the query would come upon rows that another transaction has changed: found by a run of it that looks at each.

        `kept`: the locks that it has so far for nothing."""
        locks = self.session.locks
        while held := locks.changed_by_others(plan.reads):
            sql = plan.sql
            for table in held:
                checked = f"(SELECT * FROM {table} WHERE held_row('{table}', {self._rowid(plan, table)}))"
                sql = sql.replace(f"{table} AS ", f"{checked} AS ")
            link.rows_held = held
            try:
                link.run_through(self.execute(fragment, replace(plan, sql=sql), link), self.session.cancelled)
                return
            except (sqlite3.Error, RowLocked) as error:
                found = link.translated(error) if isinstance(error, sqlite3.Error) else error
                if not isinstance(found, RowLocked):
                    raise found from error
                locks.let_go(kept)
                locks.await_rows(plan, str(found))
                kept = locks.keep(plan)
            finally:
                link.rows_held = {}

    def _rowid(self, plan: Plan, stored: str) -> str:
        database = next(d for name, table in plan.reads if table == stored and (d := self.session.find(name)))
        entry = database.catalog_for(self.session).tables.get(storage.object_id_of(stored))
        if entry is None:
            raise StaleName(stored)
        return storage.rowid_name(entry.table)

    def output(self, fragment: Fragment, shape: OutputShape, rows: Sequence[Row]) -> tuple[Plan, list[Row]]:
        """What OUTPUT makes of the rows that a statement changed."""
        types = {n: self.session.variables[n][0] for n in fragment.variables if n in self.session.variables}
        plan = lower_output(fragment, shape, SessionNames(self.session), types)
        link = self.session.read_link(self.session.current(), touched=False)
        width = shape.width
        link.execute(f"CREATE TEMP TABLE IF NOT EXISTS out_{width} ({', '.join(f'c{i}' for i in range(width))})")
        link.execute(f"DELETE FROM temp.out_{width}")
        link.raw.executemany(f"INSERT INTO temp.out_{width} VALUES ({', '.join('?' * width)})", rows)
        return plan, link.rest(self.execute(fragment, plan, link), self.session.cancelled)

    def link(self, plan: Plan) -> Link:
        """The connection that the plan's tables are read on."""
        session = self.session
        name = next(iter(plan.databases), None)
        database = session.find(name) if name else session.current()
        if database is None:
            raise invalid_object(name or "")
        return session.read_link(database, touched=name is not None)

    def _fill(self, virtual: Virtual, fragment: Fragment, link: Link) -> None:
        wanted = self._of_the_catalog(virtual)
        if wanted is not None and link.filled.get(virtual.table) == wanted:
            return
        link.filled.pop(virtual.table, None)
        width = len(virtual.source.columns)
        columns = ", ".join(f"c{index}" for index in range(width))
        # The name tells the number of columns, so another plan may use the same table.
        link.execute(f"CREATE TEMP TABLE IF NOT EXISTS {virtual.table.removeprefix('temp.')} ({columns})")
        link.execute(f"DELETE FROM {virtual.table}")
        rows = (
            self._function_rows(virtual, fragment, link)
            if virtual.source.view.startswith(FUNCTION)
            else self._view(virtual)
        )
        link.raw.executemany(f"INSERT INTO {virtual.table} VALUES ({', '.join('?' * width)})", rows)
        if wanted is not None and not link.raw.in_transaction:
            link.filled[virtual.table] = wanted

    def _of_the_catalog(self, virtual: Virtual) -> tuple[str, str, int] | None:
        """A view, a database and the version of its catalog, if the view's rows depend on nothing else: sys.columns for a login that may see all,
        where no user has made a view, whose columns depend on other tables."""
        if virtual.source.view != "sys.columns":
            return None
        database = self.session.find(virtual.source.database)
        if database is None or not self.session.rights(database).everything:
            return None
        catalog = database.catalog_for(self.session)
        return None if catalog.views else (virtual.source.view, database.name, catalog.version)

    def _view(self, virtual: Virtual) -> Iterator[Row]:
        session = self.session
        database = session.find(virtual.source.database)
        assert database is not None
        if virtual.source.view.startswith(ELSEWHERE):
            other = session.read_link(database, touched=True)
            names = ", ".join(storage.quote(column.name) for column in virtual.source.columns)
            sql = f"SELECT {names} FROM {virtual.source.view.removeprefix(ELSEWHERE)}"
            return iter(other.rest(other.query(sql, (), session.cancelled), session.cancelled))
        rights = session.rights(database)
        rights.require_view(virtual.source.view.removeprefix(EXTENSION))
        if virtual.source.view.startswith(EXTENSION):
            offered = SessionNames(session).extension_view(virtual.source.view)
            if offered is None:
                raise invalid_object(f"{virtual.source.schema}.{virtual.source.name}")
            return offered.call(self.context(database), ())
        catalog = rights.visible(database.catalog_for(session))
        return VIEWS[virtual.source.view][1](Viewpoint(session, session.engine.databases(), database, catalog))

    def _function_rows(self, virtual: Virtual, fragment: Fragment, link: Link) -> list[Row]:
        source = virtual.source
        arguments: Sequence[Value] = ()
        if virtual.arguments:
            sql = "SELECT " + ", ".join(argument.sql for argument in virtual.arguments)
            arguments = link.execute(sql, self.parameters(fragment, virtual.parameters)).fetchone()
        return self.function_rows(source.database, f"{source.schema}.{source.name}", arguments)

    def function_rows(self, database_name: str, name: str, arguments: Sequence[Value]) -> list[Row]:
        """The rows of a table function that APPLY calls for each row of its left side."""
        database = self.session.find(database_name)
        assert database is not None
        schema, _, short = name.partition(".")
        found = SessionNames(self.session).find_function(database, schema, short, len(arguments))
        if found is None:
            raise invalid_object(name)
        return [tuple(row) for row in found.call(self.context(database), arguments)]

    def context(self, database: StoredDatabase) -> CallContext:
        session = self.session
        rights = session.rights(database)
        await_end = partial(session.locks.await_end, database)
        return CallContext(database, rights.login, session.session_id, session.transaction.count > 0, rights, await_end)

    def row(self, fragment: Fragment) -> tuple[Plan, Row]:
        """The one row of a query without tables or with a scalar result."""
        plan, link, cursor = self.open(fragment)
        try:
            row = cursor.fetchone()
        except sqlite3.Error as error:
            raise link.translated(error) from error
        finally:
            cursor.close()
        return plan, row if row is not None else (None,) * len(plan.columns)

    def value(self, fragment: Fragment) -> tuple[SqlType, Value]:
        plan, row = self.row(fragment)
        return plan.columns[0].type, row[0]


def _unread(kind: Key, fragment: Fragment) -> str:
    """The table that an UPDATE or DELETE changes without reading it; "" when it reads."""
    return str(kind[1][-1]) if kind[0] == "rows" and not _READS.search(fragment.text) else ""  # type: ignore[index]  # the target's name


def _by_name(item: tuple[str, SqlType]) -> str:
    return item[0]
