"""The catalog procedures that ODBC and JDBC drivers call for metadata: sp_tables, sp_columns_100, sp_pkeys, sp_statistics_100 ...

What people call by hand and reads better from the views (sp_help, sp_who2) is refused by name (queries/refusals.py).
Source: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/catalog-stored-procedures-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from emulators.sqlserver.engine.extension import CallContext, ProcedureSpec
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.statements.odbc_types import described_types, type_numbers
from emulators.sqlserver.engine.store.catalog import Catalog, TableEntry
from emulators.sqlserver.engine.views.spelling import spelled
from emulators.sqlserver.engine.views.viewing import shape
from emulators.sqlserver.results import Column, Event, ResultSet, RowCount, Value
from emulators.sqlserver.tsql.functions.patterns import like_pattern
from emulators.sqlserver.tsql.values.text_order import folding, order_of

Row = tuple[Value, ...]
Given = Mapping[str, Value]
_TABLES = shape("TABLE_QUALIFIER:name TABLE_OWNER:name TABLE_NAME:name TABLE_TYPE:word REMARKS:word")
_COLUMNS = shape(
    "TABLE_QUALIFIER:name TABLE_OWNER:name TABLE_NAME:name COLUMN_NAME:name DATA_TYPE:small TYPE_NAME:name PRECISION:int "
    "LENGTH:int SCALE:small RADIX:small NULLABLE:small REMARKS:word COLUMN_DEF:long SQL_DATA_TYPE:small "
    "SQL_DATETIME_SUB:small CHAR_OCTET_LENGTH:int ORDINAL_POSITION:int IS_NULLABLE:word SS_IS_SPARSE:small "
    "SS_IS_COLUMN_SET:small SS_IS_COMPUTED:small SS_IS_IDENTITY:small SS_UDT_CATALOG_NAME:name SS_UDT_SCHEMA_NAME:name "
    "SS_UDT_ASSEMBLY_TYPE_NAME:name SS_XML_SCHEMACOLLECTION_CATALOG_NAME:name "
    "SS_XML_SCHEMACOLLECTION_SCHEMA_NAME:name SS_XML_SCHEMACOLLECTION_NAME:name SS_DATA_TYPE:tiny"
)
_KEYS = shape("TABLE_QUALIFIER:name TABLE_OWNER:name TABLE_NAME:name COLUMN_NAME:name KEY_SEQ:small PK_NAME:name")
_STATISTICS = shape(
    "TABLE_QUALIFIER:name TABLE_OWNER:name TABLE_NAME:name NON_UNIQUE:small INDEX_QUALIFIER:name INDEX_NAME:name TYPE:small "
    "SEQ_IN_INDEX:small COLUMN_NAME:name COLLATION:letter CARDINALITY:int PAGES:int FILTER_CONDITION:word"
)
_TYPES = shape(
    "TYPE_NAME:name DATA_TYPE:small PRECISION:int LITERAL_PREFIX:params LITERAL_SUFFIX:params CREATE_PARAMS:params "
    "NULLABLE:small CASE_SENSITIVE:small SEARCHABLE:small UNSIGNED_ATTRIBUTE:small MONEY:small AUTO_INCREMENT:small "
    "LOCAL_TYPE_NAME:name MINIMUM_SCALE:small MAXIMUM_SCALE:small SQL_DATA_TYPE:small SQL_DATETIME_SUB:small "
    "NUM_PREC_RADIX:int INTERVAL_PRECISION:small USERTYPE:small"
)
_DATABASES = shape("DATABASE_NAME:name DATABASE_SIZE:int REMARKS:word")


class CatalogProcedures:
    """These procedures for one session."""

    def __init__(self, session: StatementSession) -> None:
        self._session = session

    def specs(self) -> dict[str, ProcedureSpec]:
        table = ("@table_name", "@table_owner", "@table_qualifier")
        columns = (*table, "@column_name", "@namescope", "@odbcver", "@fusepattern")
        statistics = (*table, "@index_name", "@is_unique", "@accuracy")
        found = {
            "sp_tables": self._spec((*table, "@table_type", "@fusepattern"), (), _TABLES, self._tables),
            "sp_pkeys": self._spec(table, table[:1], _KEYS, self._primary_keys),
            "sp_databases": self._spec((), (), _DATABASES, self._databases),
        }
        for name in ("sp_columns", "sp_columns_90", "sp_columns_100"):
            found[name] = self._spec(columns, table[:1], _COLUMNS, self._columns)
        for name in ("sp_statistics", "sp_statistics_100"):
            found[name] = self._spec(statistics, table[:1], _STATISTICS, self._statistics)
        for name in ("sp_datatype_info", "sp_datatype_info_90", "sp_datatype_info_100"):
            found[name] = self._spec(("@data_type", "@odbcver"), (), _TYPES, self._types)
        return {f"sys.{name}": spec for name, spec in found.items()}

    def _spec(
        self,
        parameters: tuple[str, ...],
        required: tuple[str, ...],
        columns: tuple[Column, ...],
        rows: Callable[[Given], Iterator[Row]],
    ) -> ProcedureSpec:
        def run(context: CallContext, given: Given) -> Iterator[Event]:
            found = list(rows(given))
            self._session.row_count = len(found)
            yield ResultSet(columns, iter(found))
            yield RowCount(len(found))

        return ProcedureSpec(parameters, required, run)

    def _catalog(self) -> Catalog:
        database = self._session.current()
        return self._session.rights(database).visible(database.catalog_for(self._session))

    def _matching(self, given: Given) -> list[TableEntry]:
        """Tables whose owner and name fit, as patterns unless @fUsePattern is 0, in order of their names."""
        entries = self._catalog().tables.values()
        found = [entry for entry in entries if self._is_meant(given, entry.table.schema, entry.table.name)]
        return sorted(found, key=lambda entry: (entry.table.schema.lower(), entry.table.name.lower()))

    def _is_meant(self, given: Given, schema: str, name: str) -> bool:
        plain = given.get("@fusepattern") == 0
        qualifier = given.get("@table_qualifier")
        return (
            (qualifier in (None, "") or str(qualifier).lower() == self._session.database.lower())
            and self._fits(given.get("@table_name"), name, plain)
            and self._fits(given.get("@table_owner"), schema, plain)
        )

    def _fits(self, wanted: Value, name: str, plain: bool) -> bool:
        """Drivers put what is meant literally into brackets; a backslash is a letter like others."""
        database = self._session.current()
        if wanted is None:
            return True
        if plain:
            return database.fold(str(wanted)) == database.fold(name)
        order = order_of(database.collation, True)
        return like_pattern(str(wanted), "", order).fullmatch(folding(order)(name)) is not None

    def _named(self, entry: TableEntry) -> tuple[str, str, str]:
        return self._session.database, entry.table.schema, entry.table.name

    def _tables(self, given: Given) -> Iterator[Row]:
        """Tables and users' views, in order of their kind: a view that the server has is not listed here."""
        kinds = str(given.get("@table_type") or "'TABLE','SYSTEM TABLE','VIEW'").upper()
        found = [("SYSTEM TABLE" if entry.table.system else "TABLE", entry.table) for entry in self._matching(given)]
        views = sorted(self._catalog().views.values(), key=lambda view: (view.schema.lower(), view.name.lower()))
        listed = [(kind, table.schema, table.name) for kind, table in sorted(found, key=lambda item: item[0])]
        listed += [("VIEW", view.schema, view.name) for view in views if self._is_meant(given, view.schema, view.name)]
        for kind, schema, name in listed:
            if f"'{kind}'" in kinds:
                yield self._session.database, schema, name, kind, None

    def _columns(self, given: Given) -> Iterator[Row]:
        plain = given.get("@fusepattern") == 0
        newest = given.get("@odbcver") == 3
        for entry in self._matching(given):
            for position, column in enumerate(entry.table.columns, 1):
                if not self._fits(given.get("@column_name"), column.name, plain):
                    continue
                default = entry.defaults.get(column.column_id)
                numbers = type_numbers(column.type, newest)
                name = {"rowversion": "timestamp"}.get(column.type.name, column.type.name)
                yield (
                    *self._named(entry),
                    column.name,
                    numbers["type"],
                    f"{name} identity" if column.identity else name,
                    numbers["precision"],
                    numbers["length"],
                    numbers["scale"],
                    numbers["radix"],
                    int(column.nullable),
                    None,
                    spelled(default.text) if default else None,
                    numbers["sql_type"],
                    numbers["sub"],
                    numbers["octets"],
                    position,
                    "YES" if column.nullable else "NO",
                    *(0, 0, int(column.computed), int(column.identity)),
                    *(None, None, None, None, None, None),
                    None,
                )

    def _primary_keys(self, given: Given) -> Iterator[Row]:
        for entry in self._matching({**given, "@fusepattern": 0}):
            names = {column.column_id: column.name for column in entry.table.columns}
            for key in entry.table.keys:
                for place, number in enumerate(key.column_ids if key.primary else (), 1):
                    yield *self._named(entry), names[number], place, key.name

    def _statistics(self, given: Given) -> Iterator[Row]:
        for entry in self._matching({**given, "@fusepattern": 0}):
            rows = self._session.rows_in(self._session.current(), entry.table)
            named = self._named(entry)
            yield *named, None, None, None, 0, None, None, None, rows, 1, None
            names = {column.column_id: column.name for column in entry.table.columns}
            for key in sorted(entry.table.all_indexes(), key=lambda key: (key.index_id != 1, key.name.lower())):
                if not self._fits(given.get("@index_name"), key.name, False):
                    continue
                if str(given.get("@is_unique") or "N").upper() == "Y" and not key.unique:
                    continue
                kind = 1 if key.index_id == 1 else 3
                head = *named, int(not key.unique), entry.table.name, key.name, kind
                condition = spelled(key.filter.text, lists=False) if key.filter is not None else None
                for place, number in enumerate(key.column_ids, 1):
                    order = "D" if number in key.descending else "A"
                    yield *head, place, names[number], order, rows, 1, condition

    def _types(self, given: Given) -> Iterator[Row]:
        """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-datatype-info-transact-sql"""
        fold = self._session.current().fold
        wanted = given.get("@data_type") or 0
        for row in described_types(given.get("@odbcver") == 3, fold("a") != fold("A")):
            if wanted in (0, row[1]):
                yield row

    def _databases(self, given: Given) -> Iterator[Row]:
        for database in sorted(self._session.engine.databases(), key=lambda database: database.name.lower()):
            yield database.name, 8192, None


def procedures(session: StatementSession) -> dict[str, ProcedureSpec]:
    """By lower-case name."""
    return CatalogProcedures(session).specs()
