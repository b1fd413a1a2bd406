"""The messages and services of `api/dstream.proto`, by name. Of protobuf's generated code nothing is needed: it would refuse any runtime that
is older than the compiler which wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2, timestamp_pb2

PACKAGE = "dstream.v1"

_DESCRIPTION = Path(__file__).parent / "generated" / "dstream.binpb"

POOL = descriptor_pool.DescriptorPool()
"""Our own, so that a program may import code that protoc has made of the same file."""


def _file() -> Any:
    described = descriptor_pb2.FileDescriptorSet.FromString(_DESCRIPTION.read_bytes())
    for needed in (struct_pb2.DESCRIPTOR, timestamp_pb2.DESCRIPTOR):
        POOL.AddSerializedFile(needed.serialized_pb)
    POOL.AddSerializedFile(described.file[0].SerializeToString())
    return POOL.FindFileByName("dstream.proto")


FILE = _file()


@dataclass(frozen=True, slots=True)
class Method:
    """`name`: as in `TableService.ListTables`."""

    name: str
    takes: type[Any]
    returns: type[Any]
    streams: bool


def message(name: str) -> type[Any]:
    """The class of a message."""
    return message_factory.GetMessageClass(FILE.message_types_by_name[name])  # type: ignore[no-any-return]


def services() -> Iterator[tuple[str, tuple[Method, ...]]]:
    """Each service by its full name."""
    for service in FILE.services_by_name.values():
        yield (
            service.full_name,
            tuple(
                Method(
                    name=f"{service.name}.{method.name}",
                    takes=message_factory.GetMessageClass(method.input_type),
                    returns=message_factory.GetMessageClass(method.output_type),
                    streams=method.server_streaming,
                )
                for method in service.methods
            ),
        )
