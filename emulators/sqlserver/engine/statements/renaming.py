"""sp_rename, for one session: tables, views, constraints, columns and indexes get another name; their rows and ids stay.

What it checks, and in which order, is that of the procedure's own text, which a server shows (sp_helptext).
Source: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-rename-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from emulators.sqlserver.engine.definitions.relationships import mentions
from emulators.sqlserver.engine.extension import CallContext, KeyIndex, ProcedureSpec, TableColumn
from emulators.sqlserver.engine.functions.object_lookup import split_name
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import Catalog, TableEntry, View
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.results import Event, Info, SqlError, StatementDone, Value
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading.statements import Name

_CAUTION = "Caution: Changing any part of an object name could break scripts and stored procedures."
_AMBIGUOUS = "Either the parameter @objname is ambiguous or the claimed @objtype ({}) is wrong."
_NOT_FOUND = (
    "No item by the name of '{}' could be found in the current database '{}', given that @itemtype was input as '{}'."
)
_KINDS = ("column", "index", "object")
_REFUSED = ("database", "statistics")
_NO_OBJECT = "userdatatype"
"""A type that nothing has here."""


def procedures(session: StatementSession) -> dict[str, ProcedureSpec]:
    """sp_rename."""

    def run(context: CallContext, given: Mapping[str, Value]) -> Iterator[Event]:
        assert isinstance(context.database, StoredDatabase)
        renaming = Renaming(session, context.database, given)
        with session.writing(context.database, renaming.tables(), "TABLE"):
            renaming.run()
        yield Info(15477, _CAUTION)
        yield StatementDone()

    return {"sys.sp_rename": ProcedureSpec(("@objname", "@newname", "@objtype"), ("@objname", "@newname"), run)}


@dataclass(frozen=True, slots=True)
class _Found:
    """What has the old name, as which kind; `rename` gives it the new one."""

    kind: str
    name: str
    taken: Callable[[], bool]
    """Whether something else has the new name."""
    rename: Callable[[], None]
    table: TableEntry | None = None
    """The table that it is, or is a part of."""


class Renaming:
    """One call; `run` is inside the write transaction of its database."""

    def __init__(self, session: StatementSession, database: StoredDatabase, given: Mapping[str, Value]) -> None:
        self._session, self._database = session, database
        self._written, self._new, self._kind, self._parts = _checked(given)
        self._shown = "(null)" if given.get("@objtype") is None else str(given["@objtype"])

    @property
    def _catalog(self) -> Catalog:
        return self._database.catalog_for(self._session)

    def tables(self) -> list[str]:
        """The table that is changed, by its name in the storage: nobody else reads it until the transaction ends."""
        try:
            return self._stored(self._found())
        except SqlError:  # `run` tells, once nobody else changes the catalog
            return []

    def _stored(self, found: _Found) -> list[str]:
        return [] if found.table is None else [self._database.storage(found.table.table)]

    def run(self) -> None:
        """Raises 15001, 15225, 15248, 15333, 15335, 15336, 15600, 4928, 22983."""
        found = self._found()
        depth = 3 if found.kind == "object" else 4
        place = self._parts[0] if len(self._parts) == depth else ""
        fold = self._database.fold
        if place and fold(place) != fold(self._database.name):
            text = f"Error: The qualified @oldname references a database ({place}) other than the current database."
            raise SqlError(15333, text, 11)
        if fold(self._new) != fold(found.name) and found.taken():
            kind = found.kind if self._kind == "" else self._shown
            text = f"Error: The new name '{self._new}' is already in use as a {kind} name and would cause a duplicate that is not permitted."
            raise SqlError(15335, text, 11)
        if found.kind == "object" and self._new.startswith("#"):
            raise SqlError(15600, "An invalid parameter or option was specified for procedure 'sys.sp_rename'.", 15)
        with self._session.writing(self._database, self._stored(found), "TABLE"):
            found.rename()

    def _found(self) -> _Found:
        """The one thing that has the name, and is of the kind that was claimed. Raises 15001, 15225, 15248."""
        finders = {"column": self._column, "index": self._index, "object": self._object}
        found = [one for kind in _KINDS if self._kind in ("", kind) and (one := finders[kind]()) is not None]
        if len(found) > 1 or (self._kind and not found):
            raise SqlError(15248, _AMBIGUOUS.format(self._shown), 11)
        if not found:
            raise SqlError(15225, _NOT_FOUND.format(self._written, self._database.name, self._shown), 11)
        return found[0]

    # -- what there is

    def _table(self, name: Name) -> TableEntry | None:
        """A table that the login may change. Raises 15001 for one of the system's."""
        if not name or len(name) > 3:
            return None
        entry = self._catalog.find(_schema(name), name[-1])
        if entry is None or not self._session.rights(self._database).allows_on("ALTER", entry, self._catalog):
            return None
        if entry.table.system:
            text = f"Object '{self._written}' does not exist or is not a valid object for this operation."
            raise SqlError(15001, text, 16)
        return entry

    def _view(self, name: Name) -> View | None:
        view = self._catalog.view(_schema(name), name[-1]) if name and len(name) < 4 else None
        if view is None:
            return None
        schema = self._catalog.schemas.get(view.schema, 0)
        return view if self._session.rights(self._database).allows("ALTER", schema, view.object_id) else None

    def _column(self) -> _Found | None:
        owner, name = self._parts[:-1], self._parts[-1]
        view = self._view(owner)
        if view is not None and any(self._catalog.fold(column) == self._catalog.fold(name) for column in view.columns):
            raise errors.unsupported("sp_rename of a view's column")
        entry = self._table(owner)
        column = entry.column(name) if entry is not None else None
        if entry is None or column is None:
            return None
        return _Found(
            "column",
            column.name,
            lambda: entry.column(self._new) is not None,
            lambda: self._rename_column(entry, column),
            entry,
        )

    def _index(self) -> _Found | None:
        entry = self._table(self._parts[:-1])
        index = _index_of(entry, self._parts[-1]) if entry is not None else None
        if entry is None or index is None:
            return None
        return _Found(
            "index", index.name, lambda: self._taken(entry, index), lambda: self._rename_part(entry, index), entry
        )

    def _object(self) -> _Found | None:
        if len(self._parts) > 3:
            return None
        entry, view = self._table(self._parts), self._view(self._parts)
        if entry is not None:
            table = entry.table
            after = replace(entry, table=replace(table, name=self._new))
            return _Found(
                "object",
                table.name,
                lambda: self._catalog.has_object(table.schema, self._new),
                lambda: self._database.change(self._catalog.with_table(after)),
                entry,
            )
        if view is not None:
            return _Found(
                "object",
                view.name,
                lambda: self._catalog.has_object(view.schema, self._new),
                lambda: self._database.change(
                    self._catalog.without_view(view).with_view(replace(view, name=self._new))
                ),
            )
        return self._constraint()

    def _constraint(self) -> _Found | None:
        schema, name = self._catalog.schema(_schema(self._parts)), self._catalog.fold(self._parts[-1])
        for entry in self._catalog.tables.values():
            known = next((one for one in entry.constraints if self._catalog.fold(one) == name), None)
            if known is not None and entry.table.schema == schema:
                mine = self._table((entry.table.schema, entry.table.name))
                return None if mine is None else self._of_constraint(mine, known)
        return None

    def _of_constraint(self, entry: TableEntry, known: str) -> _Found:
        key = next((key for key in entry.table.keys if key.name == known), None)
        return _Found(
            "object",
            known,
            lambda: self._taken(entry, key, known),
            lambda: self._rename_part(entry, key, known),
            entry,
        )

    def _taken(self, entry: TableEntry, index: KeyIndex | None, constraint: str = "") -> bool:
        """An index is known to its table alone, a constraint to its schema."""
        if index is not None and _index_of(entry, self._new) is not None:
            return True
        of_schema = bool(constraint) or index in entry.table.keys
        return of_schema and self._catalog.has_object(entry.table.schema, self._new)

    # -- the change

    def _rename_part(self, entry: TableEntry, index: KeyIndex | None, constraint: str = "") -> None:
        """An index, a constraint, or a key, which is both."""
        new, table = self._new, entry.table
        checks, foreign = entry.checks, entry.foreign_keys
        table = replace(
            table,
            keys=tuple(replace(k, name=new) if k is index else k for k in table.keys),
            indexes=tuple(replace(i, name=new) if i is index else i for i in table.indexes),
        )
        if index is not None and index not in entry.table.keys:  # a constraint may have its name
            self._change(entry, replace(entry, table=table))
            return
        old = index.name if index is not None else constraint
        after = replace(
            entry,
            table=table,
            constraints={new if name == old else name: number for name, number in entry.constraints.items()},
            checks=tuple(replace(c, name=new) if c.name == old else c for c in checks),
            foreign_keys=tuple(replace(k, name=new) if k.name == old else k for k in foreign),
            defaults={c: replace(d, name=new) if d.name == old else d for c, d in entry.defaults.items()},
        )
        self._change(entry, after)

    def _change(self, entry: TableEntry, after: TableEntry) -> None:
        self._tell(entry, after)
        self._database.change(self._catalog.with_table(after))

    def _rename_column(self, entry: TableEntry, old: TableColumn) -> None:
        table, new = entry.table, self._new
        if any(c is not old and c.name.lower() == new.lower() for c in table.columns):
            raise errors.unsupported(f"a table whose columns differ in case only ({new})")
        rules = [*(check.condition for check in entry.checks), *(c.value for c in entry.computed.values())]
        filters = [index.filter for index in table.indexes if index.filter is not None]
        if any(old.column_id in found.column_ids for found in filters) or any(
            mentions(rule, old.name) for rule in rules
        ):
            text = (
                f"Object '{self._written}' cannot be renamed because the object participates in enforced dependencies."
            )
            raise SqlError(15336, text, 16)
        if old.computed:
            raise SqlError(4928, f"Cannot alter column '{old.name}' because it is 'COMPUTED'.", 16)
        columns = tuple(replace(c, name=new) if c is old else c for c in table.columns)
        after = replace(entry, table=replace(table, columns=columns))
        self._tell(entry, after)
        where = storage.storage_name(table)
        self._database.write_link.execute(
            f"ALTER TABLE {where} RENAME COLUMN {storage.quote(old.name)} TO {storage.quote(new)}"
        )
        self._database.change(self._catalog.with_table(after))

    def _tell(self, before: TableEntry, after: TableEntry) -> None:
        """The observer first: it may refuse."""
        observer, active = self._database.observer, self._database.active
        if observer is not None and active is not None and observer.tracks(before.table.object_id):
            kind = f", '{self._kind.upper()}'" if self._kind else ""
            ddl = f"EXEC sp_rename '{self._written}', '{self._new}'{kind}"
            observer.table_changed(before.table, after.table, ddl, active.transaction)


def _checked(given: Mapping[str, Value]) -> tuple[str, str, str, Name]:
    """The old name, the new one, the kind in lower case or nothing, and the parts of the old name. Raises 15223 to 15253."""
    written, new, claimed = given["@objname"], given["@newname"], given.get("@objtype")
    kind = "" if claimed is None else str(claimed).lower()
    if claimed is not None and kind not in (*_KINDS, *_REFUSED, _NO_OBJECT):
        raise SqlError(15249, f"Error: Explicit @objtype '{claimed!s}' is unrecognized.", 11)
    for value, name in ((new, "NewName"), (written, "OldName")):
        if value is None:
            raise SqlError(15223, f"Error: The input parameter '{name}' is not allowed to be null.", 11)
    if not new:
        text = "Error: The value for the @newname parameter contains invalid characters or violates a basic restriction ()."
        failed = SqlError(15224, text, 11, 15)
        failed.earlier = SqlError(15004, "Name cannot be NULL.", 16)
        raise failed
    parts = split_name(str(written))
    if parts is None:
        raise SqlError(15253, f"Syntax error parsing SQL identifier '{written!s}'.", 11)
    if kind in _REFUSED:
        raise errors.unsupported(f"sp_rename of {kind.upper()}")
    if kind == _NO_OBJECT:
        raise SqlError(15248, _AMBIGUOUS.format(claimed), 11)
    return str(written), str(new), kind, parts


def _schema(name: Name) -> str:
    return name[-2] if len(name) > 1 and name[-2] else "dbo"


def _index_of(entry: TableEntry, name: str) -> KeyIndex | None:
    return next((i for i in entry.table.all_indexes() if entry.fold(i.name) == entry.fold(name)), None)
