"""CloudEvents 1.0: the native body as the event's data, structured (JSON format) or binary (AMQP protocol binding).

https://github.com/cloudevents/spec, cloudevents/spec.md, formats/json-format.md and bindings/amqp-protocol-binding.md; the extensions `sequence`,
`partitionkey` and those of distributed tracing are in extensions/. Sets no `subject`: it would be the row's key, which a router does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from typing import Final
from urllib.parse import quote

from common.message import Message, PropertyValue
from common.observability.trace_context import held as trace_of
from router.envelopes.native import Native, read

STRUCTURED: Final = "application/cloudevents+json; charset=utf-8"
JSON: Final = "application/json"

PREFIX: Final = "cloudEvents:"
"""Of an attribute's name among the application properties, in binary mode."""

_TABLES = 4_096
"""Tables whose source and type are remembered."""


class Structured:
    """Attributes and data in one JSON object."""

    def converted(self, message: Message) -> Sequence[Message]:
        native = read(message.body)
        members = [f"{quoted(name)}:{quoted(value)}" for name, value in _attributes(native, message).items()]
        members.append(f'"datacontenttype":"{JSON}"')
        body = b"{" + ",".join(members).encode() + b',"data":' + message.body + b"}"
        return (replace(message, body=body, content_type=STRUCTURED),)


class Binary:
    """The body as it is, and the attributes among the application properties."""

    def converted(self, message: Message) -> Sequence[Message]:
        attributes = _attributes(read(message.body), message)
        held: dict[str, PropertyValue] = dict(message.application_properties)
        held.update((PREFIX + name, value) for name, value in attributes.items())
        return (replace(message, content_type=JSON, application_properties=held),)


def _attributes(native: Native, message: Message) -> dict[str, str]:
    """All but `datacontenttype`, whose place depends on the mode."""
    source, begin = _names(native.server, native.database, native.schema, native.table)
    found = {"specversion": "1.0", "id": native.event_id, "source": source, "type": begin + native.operation}
    if native.commit_time is not None:
        found["time"] = native.commit_time
    if isinstance(version := native.metadata.get("SchemaVersion"), str) and version:
        found["dataschema"] = _dataschema(native.server, native.database, native.schema, native.table, version)
    if native.operation_id > 0:  # a change; reads and events have no place of their own in the order
        found["sequence"] = f"{native.lsn}-{native.command_id:010}-{native.seqval}-{native.operation_id}"
    if message.session_id:
        found["partitionkey"] = message.session_id
    return {**found, **trace_of(message.application_properties)}


@lru_cache(_TABLES)
def _names(server: str, database: str, schema: str, table: str) -> tuple[str, str]:
    """The source, a URI reference, and the type up to the operation."""
    return f"/{_segment(server)}/{_segment(database)}", f"dstream.{schema}.{table}."


@lru_cache(_TABLES)
def _dataschema(server: str, database: str, schema: str, table: str, version: str) -> str:
    """A name, and not an address: `dstream schema` prints what it stands for."""
    names = (server, database, schema, table, version)
    return "dstream:/" + "/".join(map(_segment, names))


def _segment(name: str) -> str:
    """Of a path, with everything escaped that RFC 3986 does not leave unreserved. Raises UnicodeEncodeError for a lone surrogate."""
    return quote(name, safe="")
