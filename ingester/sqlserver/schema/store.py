"""The versions of tables' columns in table dbo.cdc_schemas, next to the offsets. It is created when the first version is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence

from common.errors import DStreamError, LeaseLost, PermanentError, TransientError
from common.names import TableName
from ingester.schema.store import KeptSchema
from ingester.schema.version import SchemaColumn
from ingester.sqlserver.connection import Connection, is_error, needing
from ingester.sqlserver.hints import MAKE_SCHEMAS, USE_SCHEMAS
from ingester.sqlserver.sql import schemas as queries

_TABLE_THERE, _NO_TABLE, _ROW_THERE = 2714, 208, 2627


class SqlServerSchemas:
    """The store, for tasks and for people."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ensure(self) -> None:
        """Create the table if there is none. Raises PermanentError if this login may not create or use it."""
        if self._connection.rows(queries.TABLE_MISSING)[0][0]:
            with needing(MAKE_SCHEMAS):
                self._create()
        if not self._connection.rows(queries.MAY_USE)[0][0]:
            raise PermanentError("using dbo.cdc_schemas: this login may not read it or write to it", hint=USE_SCHEMAS)

    def latest(self, table: TableName) -> KeptSchema | None:
        try:
            with needing(USE_SCHEMAS):
                found = self._connection.rows(queries.LATEST, (table.key,))
        except PermanentError as error:
            if not is_error(error, _NO_TABLE):
                raise
            self.ensure()
            return None
        return _kept(found[0]) if found else None

    def keep(self, table: TableName, epoch: int, schema: KeptSchema) -> None:
        columns = json.dumps([list(column) for column in schema.columns])
        try:
            with needing(USE_SCHEMAS):
                self._connection.execute(*queries.keep(table.key, epoch, schema.number, schema.version, columns))
        except DStreamError as error:
            if not is_error(error, _ROW_THERE):
                raise
        kept = self._connection.rows(queries.KEPT, (table.key, schema.number))
        doing = f"keeping version {schema.version} of the columns of {table.key}"
        if not kept:
            raise LeaseLost(f"{doing}: a newer owner has claimed the table")
        if kept[0][0] != schema.version:
            raise TransientError(f"{doing}: another version was kept meanwhile; the slice runs again")

    def of(self, table: TableName) -> Sequence[KeptSchema]:
        if self._connection.rows(queries.TABLE_MISSING)[0][0]:
            return ()
        with needing(USE_SCHEMAS):
            return [_kept(row) for row in self._connection.rows(queries.ALL, (table.key,))]

    def close(self) -> None:
        self._connection.close()

    def _create(self) -> None:
        try:
            self._connection.execute(queries.CREATE)
        except DStreamError as error:
            if not is_error(error, _TABLE_THERE):
                raise


def _kept(row: Sequence[object]) -> KeptSchema:
    number, version, columns = row
    assert isinstance(number, int)
    return KeptSchema(number, str(version), tuple(SchemaColumn(*each) for each in json.loads(str(columns))))
