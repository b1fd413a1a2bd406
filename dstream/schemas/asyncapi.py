"""An AsyncAPI 3 document of all topics: who consumes them finds addresses, properties and payloads in it. Pure.

A payload is written out as JSON Schema where it is used: parsers resolve a reference inside it against the whole document.
https://www.asyncapi.com/docs/reference/specification/v3.0.0
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from common.message import Property
from dstream.schemas.envelopes import Described, body
from dstream.schemas.native import TEXT, Schema

VERSION: Final = "3.0.0"
_FORMAT: Final = "application/schema+json;version=draft-07"
"""The newest dialect that AsyncAPI's tools must read. The schemas have nothing that came later."""

_TYPES: Final = {"cloudevents": "application/cloudevents+json"}
_NO_HEADERS: Final = {Property.OVERSIZE}
"""Of messages that never reach a topic."""

_SERVER: Final = "serviceBus"


@dataclass(frozen=True, slots=True)
class Output:
    """Where the topics are, and how messages are written there. `binary`: the mode of CloudEvents."""

    host: str
    envelope: str
    binary: bool = False
    release: str = ""


@dataclass(frozen=True, slots=True)
class Channel:
    """A topic and what is on it."""

    topic: str
    described: Described


def document(channels: Iterable[Channel], output: Output) -> Schema:
    names = _Names()
    named = [(names.of(channel), channel) for channel in channels]
    return {
        "asyncapi": VERSION,
        "info": {
            "title": "Changes of tables, sent by DStream",
            "version": output.release or "0",
            "description": "One topic a table, one message a change. Each message names the version of its columns.",
        },
        "defaultContentType": "application/json",
        "servers": {
            _SERVER: {
                "host": output.host,
                "protocol": "amqps",
                "protocolVersion": "1.0",
                "description": "Azure Service Bus",
            }
        },
        "channels": {name: _channel(name, channel) for name, channel in named},
        "operations": {
            f"send_{name}": {
                "action": "send",
                "channel": {"$ref": f"#/channels/{name}"},
                "messages": [{"$ref": f"#/channels/{name}/messages/change"}],
            }
            for name, _ in named
        },
        "components": {"messages": {name: _message(channel, output) for name, channel in named}},
    }


def _channel(name: str, channel: Channel) -> Schema:
    return {
        "address": channel.topic,
        "title": channel.described.table.key,
        "servers": [{"$ref": f"#/servers/{_SERVER}"}],
        "messages": {"change": {"$ref": f"#/components/messages/{name}"}},
    }


def _message(channel: Channel, output: Output) -> Schema:
    of, binary = channel.described, output.binary and output.envelope == "cloudevents"
    names = [value for name, value in vars(Property).items() if name.isupper() and value not in _NO_HEADERS]
    fixed = {
        Property.TABLE: of.table.table,
        Property.SCHEMA: of.table.schema,
        Property.DATABASE: of.origin.database,
        Property.DESTINATION: channel.topic,
        Property.SCHEMA_VERSION: of.version,
    }
    headers = {name: {"const": fixed[name]} if name in fixed else TEXT for name in names}
    return {
        "name": of.table.key,
        "title": f"A change of {of.table.key}",
        "contentType": _TYPES.get("" if binary else output.envelope, "application/json"),
        "headers": {"type": "object", "properties": headers},
        "payload": {"schemaFormat": _FORMAT, "schema": body(of, output.envelope, binary=binary)},
    }


class _Names:
    """Keys of channels: letters, digits and _ alone, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, channel: Channel) -> str:
        base = re.sub(r"[^A-Za-z0-9_]", "_", channel.described.table.key)
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name
