"""The application properties of a change's message: what subscription filters and the router see without reading the body. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from common.message import Property, PropertyValue
from common.names import Origin
from ingester.change import OPERATION_NAMES, Change
from ingester.task.identity import Identity

_TRANSACTIONS = 256
"""How many transactions' properties are remembered, of each table and operation in them."""


def properties(change: Change, origin: Origin, identity: Identity) -> Mapping[str, PropertyValue]:
    """Those that every change has, whatever its envelope. The same mapping for the changes of a transaction with one operation: never changed."""
    table = change.table
    return _properties(
        table.table,
        table.schema,
        origin.database,
        OPERATION_NAMES[change.operation],
        identity.lsn,
        identity.destination,
        change.schema_version,
    )


@lru_cache(_TRANSACTIONS)
def _properties(
    table: str, schema: str, database: str, operation: str, lsn: str, destination: str, schema_version: str
) -> Mapping[str, PropertyValue]:
    return {
        Property.TABLE: table,
        Property.SCHEMA: schema,
        Property.DATABASE: database,
        Property.OPERATION: operation,
        Property.LSN: lsn,
        Property.DESTINATION: destination,
        Property.SCHEMA_VERSION: schema_version,
    }
