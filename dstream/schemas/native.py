"""The JSON Schema (2020-12) of DStream's own envelope (docs/messages.md). Pure; every part is written out, so that it can be put anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from common.names import Origin, TableName

Schema = dict[str, object]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
OF_ROWS: Final = ("Insert", "Update", "Delete", "Read")
_IDS: Final = {"Insert": 2, "Update": 4, "Delete": 1, "Read": 0, "Gap": -1, "Schema": -2, "Begin": -3, "End": -4}

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
_LSN: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{20}$"}
_NAMES: Final[Schema] = {"type": "array", "items": TEXT}


def record(properties: Mapping[str, object], optional: Sequence[str] = (), *, closed: bool = False) -> Schema:
    """An object that has all of `properties` but the optional ones. `closed`: and no others."""
    found: Schema = {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
    }
    return {**found, "additionalProperties": False} if closed else found


def row(values: Mapping[str, object], key: Sequence[str]) -> Schema:
    """A row: capture may lack any value that is not of the key."""
    return record(values, [name for name in values if name not in key], closed=True)


def identifier(origin: Origin, table: TableName, version: str) -> str:
    """The `dataschema` of a CloudEvent."""
    return "dstream:/" + "/".join(
        quote(part, safe="") for part in (origin.server, origin.database, table.schema, table.table, version)
    )


def native(values: Mapping[str, object], key: Sequence[str], table: TableName, origin: Origin, version: str) -> Schema:
    """The body, whatever the operation."""
    body = record(
        {"data": {"type": "object"}, "before": row(values, key), "metadata": metadata(table, origin, version)},
        ["before"],
    )
    of_row = {"properties": {"metadata": {"properties": {"OperationType": {"enum": list(OF_ROWS)}}}}}
    return {
        **body,
        "if": of_row,
        "then": {"properties": {"data": row(values, key)}},
        "else": {"properties": {"data": {"maxProperties": 0}}},
    }


def metadata(table: TableName, origin: Origin, version: str) -> Schema:
    """The keys of `common.message.Metadata`. Later versions may add some."""
    at = record({"From": _LSN, "To": _LSN})
    column = record({"Name": TEXT, "Type": TEXT, "Key": WHOLE}, ["Key"])
    always: dict[str, object] = {
        "CaptureInstance": TEXT,
        "CommandID": WHOLE,
        "CommitTime": {"type": ["string", "null"], "format": "date-time"},
        "Database": {"const": origin.database},
        "Destination": TEXT,
        "EventID": {"type": "string", "maxLength": 128},
        "IngestQueue": TEXT,
        "LSN": _LSN,
        "OperationID": {"enum": list(_IDS.values())},
        "OperationType": {"enum": list(_IDS)},
        "Schema": {"const": table.schema},
        "SchemaVersion": {"const": version},
        "SeqVal": _LSN,
        "Server": {"const": origin.server},
        "TableName": {"const": table.table},
    }
    sometimes: dict[str, object] = {
        "ChangedColumns": _NAMES,
        "Unavailable": _NAMES,
        "Snapshot": record({"Id": TEXT, "Chunk": WHOLE, "Last": {"type": "boolean"}}),
        "Gap": at,
        "SchemaChange": record({"Version": TEXT, "Previous": TEXT, "Columns": {"type": "array", "items": column}}),
        "Replay": record({"Id": TEXT, "EventID": TEXT}),
        "Transaction": {"type": "object", "properties": {"Id": _LSN}, "required": ["Id"]},
    }
    return record({**always, **sometimes}, list(sometimes))
