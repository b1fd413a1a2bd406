"""The application properties of a change's message: what subscription filters and the router see without reading the body. Pure."""

from __future__ import annotations

from common.message import Property, PropertyValue
from common.names import Origin
from ingester.change import OPERATION_NAMES, Change
from ingester.task.identity import Identity


def properties(change: Change, origin: Origin, identity: Identity) -> dict[str, PropertyValue]:
    """Those that every change has, whatever its envelope."""
    table = change.table
    return {
        Property.TABLE: table.table,
        Property.SCHEMA: table.schema,
        Property.DATABASE: origin.database,
        Property.OPERATION: OPERATION_NAMES[change.operation],
        Property.LSN: identity.lsn,
        Property.DESTINATION: identity.destination,
        Property.SCHEMA_VERSION: change.schema_version,
    }
