"""The metadata functions that answer for a property by its name: SERVERPROPERTY, DATABASEPROPERTYEX, OBJECTPROPERTY and their kin.

An unknown property or object is NULL, as on the real server. Sources: the functions' pages under
https://learn.microsoft.com/sql/t-sql/functions/metadata-functions-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from emulators.sqlserver.collation import SERVER_DEFAULT, find, known
from emulators.sqlserver.engine.extension import KeyIndex, TableColumn
from emulators.sqlserver.engine.functions.object_lookup import ObjectLookup
from emulators.sqlserver.engine.session_ports import DatabaseAccess
from emulators.sqlserver.engine.store.catalog import TableEntry
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import MAX
from emulators.sqlserver.tsql.values.types import exact_shape, family, is_unicode

SERVER_NAME = "EMULATOR"
PRODUCT_VERSION = "16.0.1000.6"
_STARTED = "2024-01-01 00:00:00.000"

SERVER: Mapping[str, Value] = {
    "buildclrversion": "v4.0.30319",
    "collation": SERVER_DEFAULT,
    "collationid": 872468488,
    "comparisonstyle": 196609,
    "computernamephysicalnetbios": SERVER_NAME,
    "edition": "Developer Edition (64-bit)",
    "editionid": -2117995310,
    "engineedition": 3,
    "filestreamconfiguredlevel": 0,
    "filestreameffectivelevel": 0,
    "filestreamsharename": "MSSQLSERVER",
    "hadrmanagerstatus": 2,
    "instancedefaultbackuppath": "/var/opt/mssql/data",
    "instancedefaultdatapath": "/var/opt/mssql/data/",
    "instancedefaultlogpath": "/var/opt/mssql/data/",
    "instancename": None,
    "isadvancedanalyticsinstalled": 0,
    "isbigdatacluster": 0,
    "isclustered": 0,
    "isexternalauthenticationonly": 0,
    "isexternalgovernanceenabled": 0,
    "isfulltextinstalled": 0,
    "ishadrenabled": 0,
    "isintegratedsecurityonly": 0,
    "islocaldb": 0,
    "ispolybaseinstalled": 0,
    "isserversuspendedforsnapshotbackup": 0,
    "issingleuser": 0,
    "istempdbmetadatamemoryoptimized": 0,
    "isxtpsupported": 0,
    "lcid": 1033,
    "licensetype": "DISABLED",
    "machinename": SERVER_NAME,
    "numlicenses": None,
    "pathseparator": "/",
    "processid": 1,
    "productbuild": "1000",
    "productbuildtype": None,
    "productlevel": "RTM",
    "productmajorversion": "16",
    "productminorversion": "0",
    "productupdatelevel": None,
    "productupdatereference": None,
    "productversion": PRODUCT_VERSION,
    "resourcelastupdatedatetime": _STARTED,
    "resourceversion": "16.00.1000",
    "servername": SERVER_NAME,
    "sqlcharset": 1,
    "sqlcharsetname": "iso_1",
    "sqlsortorder": 52,
    "sqlsortordername": "nocase_iso",
    "suspendeddatabasecount": 0,
}
"""https://learn.microsoft.com/sql/t-sql/functions/serverproperty-transact-sql"""

_DATABASE: Mapping[str, Value] = {
    "edition": None,
    "isansinulldefault": 0,
    "isansinullsenabled": 0,
    "isansipaddingenabled": 0,
    "isansiwarningsenabled": 0,
    "isarithmeticabortenabled": 0,
    "isautoclose": 0,
    "isautocreatestatistics": 1,
    "isautoshrink": 0,
    "isautoupdatestatistics": 1,
    "isclone": 0,
    "isclosecursorsoncommitenabled": 0,
    "isfulltextenabled": 0,
    "isinstandby": 0,
    "islocalcursorsdefault": 0,
    "ismergepublished": 0,
    "isnullconcat": 0,
    "isnumericroundabortenabled": 0,
    "isparameterizationforced": 0,
    "isquotedidentifiersenabled": 0,
    "ispublished": 0,
    "isrecursivetriggersenabled": 0,
    "issubscribed": 0,
    "issyncwithbackup": 0,
    "istornpagedetectionenabled": 0,
    "isxtpsupported": 0,
    "updateability": "READ_WRITE",
    "version": 957,
}
_SESSION: Mapping[str, Value] = {
    "ansi_nulls": 1,
    "ansi_padding": 1,
    "ansi_warnings": 1,
    "arithabort": 1,
    "concat_null_yields_null": 1,
    "numeric_roundabort": 0,
    "quoted_identifier": 1,
}
_CONNECTION: Mapping[str, Value] = {
    "net_transport": "TCP",
    "protocol_type": "TSQL",
    "auth_scheme": "SQL",
    "local_net_address": "127.0.0.1",
    "local_tcp_port": 1433,
    "client_net_address": "127.0.0.1",
    "physical_net_transport": "TCP",
}


class Properties:
    """Property functions of one session. `calls` by upper-case name."""

    def __init__(self, session: DatabaseAccess, objects: ObjectLookup) -> None:
        self._session = session
        self._objects = objects
        self.calls: dict[str, Callable[..., Value]] = {
            "SERVERPROPERTY": lambda name: SERVER.get(_key(name)),
            "DATABASEPROPERTYEX": self._database,
            "CONNECTIONPROPERTY": lambda name: _CONNECTION.get(_key(name)),
            "SESSIONPROPERTY": lambda name: _SESSION.get(_key(name)),
            "COLLATIONPROPERTY": _collation,
            "OBJECTPROPERTY": self._object,
            "OBJECTPROPERTYEX": self._object_extended,
            "COLUMNPROPERTY": self._column,
            "INDEXPROPERTY": self._index,
            "INDEX_COL": self._index_column,
            "OBJECT_DEFINITION": lambda number: None,
        }

    def _database(self, name: Value, property_name: Value) -> Value:
        found = self._session.engine.find(str(name)) if name is not None else None
        if found is None:
            return None
        collation, closed = known(found.collation), found.availability.offline
        own: dict[str, Value] = {
            "recovery": found.recovery_model,
            "status": found.availability.state[1],
            "useraccess": found.availability.access,
            "version": None if closed else _DATABASE["version"],
            "collation": None if closed else collation.name,
            "comparisonstyle": collation.style,
            "lcid": collation.lcid,
            "sqlsortorder": collation.sort_id,
        }
        return own.get(_key(property_name), _DATABASE.get(_key(property_name)))

    def _object(self, number: Value, property_name: Value) -> Value:
        entry = self._objects.entry_by_id(number)
        if entry is not None and _key(property_name) == "schemaid":
            return self._session.current().catalog_for(self._session).schemas[entry.table.schema]
        return object_properties(entry).get(_key(property_name)) if entry is not None else None

    def _object_extended(self, number: Value, property_name: Value) -> Value:
        entry = self._objects.entry_by_id(number)
        if entry is not None and _key(property_name) == "basetype":
            return "S" if entry.table.system else "U"
        if entry is not None and _key(property_name) == "cardinality":
            return self._objects.row_count(self._session.current(), entry.table)
        return self._object(number, property_name)

    def _column(self, number: Value, column: Value, property_name: Value) -> Value:
        entry = self._objects.entry_by_id(number)
        found = entry.column(str(column)) if entry is not None and column is not None else None
        return column_properties(entry, found).get(_key(property_name)) if entry and found else None

    def _index(self, number: Value, index: Value, property_name: Value) -> Value:
        entry = self._objects.entry_by_id(number)
        known = entry.table.all_indexes() if entry is not None else ()
        key = next((key for key in known if key.name.lower() == _key(index)), None)
        return index_properties(key).get(_key(property_name)) if key is not None else None

    def _index_column(self, table: Value, index: Value, position: Value) -> Value:
        entry = self._objects.entry_by_name(table)
        known = entry.table.all_indexes() if entry is not None else ()
        key = next((key for key in known if key.index_id == index), None)
        if entry is None or key is None or not isinstance(position, int) or not 1 <= position <= len(key.column_ids):
            return None
        return next(c.name for c in entry.table.columns if c.column_id == key.column_ids[position - 1])


def _key(value: Value) -> str:
    return "" if value is None else str(value).strip().lower()


def _collation(name: Value, property_name: Value) -> Value:
    """https://learn.microsoft.com/sql/t-sql/functions/collation-functions-collationproperty-transact-sql"""
    found = find(_key(name))
    if found is None:
        return None
    return {
        "codepage": found.code_page,
        "lcid": found.lcid,
        "comparisonstyle": found.style,
        "version": found.version,
    }.get(_key(property_name))


def object_properties(entry: TableEntry) -> dict[str, int]:
    """OBJECTPROPERTY of a table, by lower-case name."""
    table = entry.table
    indexes = table.all_indexes()
    clustered = any(index.index_id == 1 for index in indexes)
    flags = {
        "isusertable": not table.system,
        "istable": True,
        "issystemtable": False,
        "ismsshipped": table.system,
        "isview": False,
        "isprocedure": False,
        "isscalarfunction": False,
        "istablefunction": False,
        "isinlinefunction": False,
        "istrigger": False,
        "isconstraint": False,
        "isprimarykey": False,
        "isencrypted": False,
        "isschemabound": False,
        "isansinullson": True,
        "isquotedidenton": True,
        "tablehasidentity": entry.identity is not None,
        "tablehasprimarykey": any(key.primary for key in table.keys),
        "tablehasuniquecnst": any(not key.primary and key.name in entry.constraints for key in table.keys),
        "tablehasclustindex": clustered,
        "tablehasnonclustindex": any(index.index_id > 1 for index in indexes),
        "tablehasindex": bool(indexes),
        "tablehasdefaultcnst": bool(entry.defaults),
        "tablehasforeignkey": False,
        "tablehasforeignref": False,
        "tablehascheckcnst": False,
        "tablehasrowguidcol": False,
        "tablehastextimage": any(_is_lob(column) for column in table.columns),
        "tablehastimestamp": any(column.type.name in ("rowversion", "timestamp") for column in table.columns),
        "tableisfake": False,
        "tableismemoryoptimized": False,
        "tabletemporaltype": False,
        "ownerid": True,
    }
    return {name: int(value) for name, value in flags.items()}


def _is_lob(column: TableColumn) -> bool:
    return column.type.length == MAX or column.type.name in ("text", "ntext", "image", "xml")


def column_properties(entry: TableEntry, column: TableColumn) -> dict[str, int | None]:
    """COLUMNPROPERTY, by lower-case name."""
    kind = column.type
    text = family(kind) == "string"
    precision = exact_shape(kind)[0] if family(kind) in ("int", "exact") else kind.length
    return {
        "allowsnull": int(column.nullable),
        "columnid": column.column_id,
        "charmaxlen": kind.length if text else None,
        "iscomputed": int(column.computed),
        "isidentity": int(column.identity),
        "isidnotforrepl": 0,
        "isrowguidcol": 0,
        "issparse": 0,
        "iscolumnset": 0,
        "isdeterministic": None,
        "isfulltextindexed": 0,
        "ishidden": 0,
        "isindexable": int(not _is_lob(column)),
        "isoutparam": None,
        "issystemverified": 0,
        "isxmlindexable": int(kind.name == "xml"),
        "generatedalwaystype": 0,
        "ordinal": next(i for i, c in enumerate(entry.table.columns, 1) if c.column_id == column.column_id),
        "precision": precision,
        "scale": exact_shape(kind)[1] if family(kind) in ("int", "exact") else kind.scale,
        "usesansitrim": int(text and not is_unicode(kind)) if text else None,
    }


def index_properties(key: KeyIndex) -> dict[str, int]:
    """INDEXPROPERTY, by lower-case name."""
    return {
        "indexid": key.index_id,
        "isclustered": int(key.index_id == 1),
        "isunique": int(key.unique),
        "isdisabled": 0,
        "ishypothetical": 0,
        "isstatistics": 0,
        "isautostatistics": 0,
        "iscolumnstore": 0,
        "isfulltextkey": 0,
        "ispadindex": 0,
        "ispagelockdisallowed": 0,
        "isrowlockdisallowed": 0,
        "indexdepth": 1,
        "indexfillfactor": 0,
    }
