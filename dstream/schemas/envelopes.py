"""The JSON Schema of a message's body in each envelope (docs/envelopes.md). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.names import TRANSACTIONS, Origin, TableName
from dstream.schemas.native import DIALECT, OF_ROWS, TEXT, WHOLE, Schema, identifier, metadata, native, record, row

_TIME: Final[Schema] = {"type": ["string", "null"], "format": "date-time"}
_OR_NONE: Final[Schema] = {"type": ["integer", "null"]}
_PLACE: Final[Schema] = {"type": ["string", "null"], "pattern": "^[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}$"}
_TIMES: Final[dict[str, object]] = {"ts_ms": _OR_NONE, "ts_us": _OR_NONE, "ts_ns": _OR_NONE}


@dataclass(frozen=True, slots=True)
class Described:
    """What a schema is of. `values`: the schema of each column's value; `version`: of the columns."""

    origin: Origin
    table: TableName
    version: str
    values: Mapping[str, object]
    key: Sequence[str] = ()

    @property
    def row(self) -> Schema:
        return row(self.values, self.key)

    @property
    def native(self) -> Schema:
        return native(self.values, self.key, self.table, self.origin, self.version)


def document(of: Described, envelope: str, *, binary: bool = False) -> Schema:
    """The whole schema. `binary`: of CloudEvents, whose body is then the native one."""
    whole = "dstream" if envelope == "cloudevents" and binary else envelope
    name = identifier(of.origin, of.table, of.version)
    return {
        "$schema": DIALECT,
        "$id": name if whole == "dstream" else f"{name}/{whole}",
        "title": f"{of.table.key}, envelope {envelope}",
        **body(of, envelope, binary=binary),
    }


def body(of: Described, envelope: str, *, binary: bool = False) -> Schema:
    """The schema without what names it, to be put into another document."""
    return _BODIES["dstream" if binary else envelope](of)


def _cloudevents(of: Described) -> Schema:
    optional = ["time", "sequence", "partitionkey"]
    return record(
        {
            "specversion": {"const": "1.0"},
            "id": TEXT,
            "source": TEXT,
            "type": TEXT,
            "time": {"type": "string", "format": "date-time"},
            "dataschema": {"const": identifier(of.origin, of.table, of.version)},
            "sequence": TEXT,
            "partitionkey": TEXT,
            "datacontenttype": {"const": "application/json"},
            "data": of.native,
        },
        optional,
    )


def _debezium(of: Described) -> Schema:
    return _transactions() if of.table == TRANSACTIONS else _of_a_table(of)


def _transactions() -> Schema:
    """Debezium's transaction metadata."""
    counted = record({"data_collection": TEXT, "event_count": WHOLE})
    return record(
        {
            "status": {"enum": ["BEGIN", "END"]},
            "id": _PLACE,
            "event_count": _OR_NONE,
            "data_collections": {"type": ["array", "null"], "items": counted},
            "ts_ms": _OR_NONE,
        }
    )


def _of_a_table(of: Described) -> Schema:
    source = record(
        {
            "version": {"const": "dstream"},
            "connector": {"const": "sqlserver"},
            "name": {"const": of.origin.server},
            "snapshot": TEXT,
            "db": {"const": of.origin.database},
            "sequence": {"type": ["string", "null"]},
            "schema": {"const": of.table.schema},
            "table": {"const": of.table.table},
            "change_lsn": _PLACE,
            "commit_lsn": _PLACE,
            "event_serial_no": _OR_NONE,
            **_TIMES,
        }
    )
    image = {"anyOf": [of.row, {"type": "null"}]}
    change = record(
        {
            "before": image,
            "after": image,
            "source": source,
            "transaction": {"type": ["object", "null"]},
            "op": {"enum": ["c", "u", "d", "r"]},
            **_TIMES,
        }
    )
    content = record({"prefix": TEXT, "content": {"type": "string", "contentEncoding": "base64"}})
    event = record({"op": {"const": "m"}, "source": source, "message": content, **_TIMES})
    return {"oneOf": [change, event]}


def _changes(of: Described) -> Schema:
    place = {"table_name": {"const": of.table.key}}
    told = {"timestamp": _TIME, "lsn": _PLACE, "event_id": TEXT}
    kinds = [name.lower() for name in OF_ROWS]
    change = record({**place, "change_type": {"enum": kinds}, "data": of.row, "before": of.row, **told}, ["before"])
    event = record(
        {
            **place,
            "change_type": {"type": "string", "not": {"enum": kinds}},
            "data": metadata(of.table, of.origin, of.version),
            **told,
        }
    )
    return record(
        {
            **place,
            "server_name": {"const": of.origin.server},
            "changes": {"type": "array", "items": {"oneOf": [change, event]}, "minItems": 1},
            "metadata": record({"batch_size": WHOLE, "poll_interval": {"type": ["string", "null"]}}),
        }
    )


_BODIES: Final[Mapping[str, Callable[[Described], Schema]]] = {
    "dstream": lambda of: of.native,
    "cloudevents": _cloudevents,
    "debezium": _debezium,
    "changes": _changes,
}
ENVELOPES: Final = tuple(_BODIES)
